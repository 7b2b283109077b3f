//! Handing over within a process: one round, and nothing is left with the holder before.

use std::pin::pin;
use std::sync::Arc;

use futures::FutureExt;
use quorumlock::node::{FaultKind, Operation, Verb};
use quorumlock::{LockGuard, QuorumBuilder, Result};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::answers::{Answer, fault, granted, held, passed, released, reserved, stale};
use crate::stage::{MS, SECOND, Stage};

/// A caller has given up the lock with another behind it, which has not run since. Returns the claim before.
async fn given_up(stage: &Stage) -> (Arc<Operation>, JoinHandle<Result<LockGuard>>) {
    let (guard, claim) = stage.won().await;
    let next = stage.acquire(60 * SECOND);
    sleep(MS).await;
    drop(guard);
    (claim, next)
}

/// A caller has passed the lock to another, which `answer` decides about. Returns the claim before, and the holder after.
async fn pass(stage: &Stage, answer: impl Fn(usize) -> Answer) -> (Arc<Operation>, LockGuard) {
    let (claim, next) = given_up(stage).await;
    let pass = stage.round(Verb::Pass, |node, _| answer(node)).await;
    assert!(pass.owner == claim.owner && pass.next.as_ref().is_some_and(|next| *next != claim.owner));
    assert!(pass.ballot > claim.ballot);
    (claim, next.await.unwrap().unwrap())
}

#[tokio::test(start_paused = true)]
async fn where_a_pass_was_lost_the_holder_before_is_released() {
    let stage = Stage::new(3);
    let (claim, _next) = pass(&stage, |node| if node == 1 { fault(FaultKind::Timeout) } else { passed(false) }).await;
    let release = stage.only(&[1], Verb::Release, |_, _| released()).await;
    assert_eq!(release.owner, claim.owner);
}

#[tokio::test(start_paused = true)]
async fn where_a_pass_was_stale_the_holder_before_is_released_once_others_were_enough() {
    for late in [0, 2] {
        let stage = Stage::new(3);
        let (claim, next) = pass(&stage, |node| if node == late { stale(1) } else { passed(false) }).await;
        let release = stage.only(&[late], Verb::Release, |_, _| released()).await;
        assert_eq!(release.owner, claim.owner);
        assert!(next.is_held());
    }
}

/// As it is where the holder was revoked. What was refused stands in no queue, so nobody would tell it.
#[tokio::test(start_paused = true)]
async fn where_all_nodes_refuse_a_pass_the_next_claims_right_behind_the_release() {
    let stage = Stage::new(3);
    let (before, next) = given_up(&stage).await;
    stage.round(Verb::Pass, |_, _| held(9)).await;
    let release = stage.round(Verb::Release, |_, _| released()).await;
    assert_eq!(release.owner, before.owner);
    assert!(stage.asked_after().await <= 2 * MS, "the name is free");
    stage.round(Verb::Claim, |_, _| granted()).await;
    assert!(next.await.unwrap().unwrap().is_held());
}

/// Found by seed 1039688 of commit bc95778. The holder before may have a claim or a pass on its way
/// to that node still, on a
/// connection that was replaced. The pass finds the name held by somebody else, and the release of
/// that holder is on the same old
/// connection, before the claim. Unless a release of the holder before raises the fence first, the
/// claim is granted to nobody.
#[tokio::test(start_paused = true)]
async fn where_a_pass_was_refused_the_holder_before_is_released_once_others_were_enough() {
    for refusal in [held(1), reserved(1, true)] {
        for refusing in [0, 2] {
            let stage = Stage::new(3);
            let answer = |node| if node == refusing { refusal.clone() } else { passed(false) };
            let (claim, next) = pass(&stage, answer).await;
            let release = stage.only(&[refusing], Verb::Release, |_, _| released()).await;
            assert_eq!((&release.owner, release.ballot), (&claim.owner, claim.ballot));
            assert!(next.is_held());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_was_stale_before_and_who_after_others_were_enough_are_each_released_once() {
    let stage = Stage::new(5);
    let (_, _next) = pass(&stage, |node| if [0, 4].contains(&node) { stale(1) } else { passed(false) }).await;
    stage.only(&[0, 4], Verb::Release, |_, _| released()).await;
    stage.quiet_for(SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn passes_that_all_nodes_carry_out_leave_nothing_to_be_released() {
    let stage = Stage::new(3);
    let (_, next) = pass(&stage, |_| passed(false)).await;
    stage.quiet_for(SECOND).await;
    drop(next);
    stage.round(Verb::Release, |_, _| released()).await;
}

#[tokio::test(start_paused = true)]
async fn a_pass_with_a_stale_ballot_is_made_again_with_a_higher_one() {
    let stage = Stage::new(3);
    let (claim, next) = given_up(&stage).await;
    let first = stage.round(Verb::Pass, |_, pass| stale(pass.ballot + 10)).await;
    let second = stage.round(Verb::Pass, |_, _| passed(false)).await;
    assert!(second.ballot > first.ballot + 10 && second.owner == claim.owner);
    let _guard = next.await.unwrap().unwrap();
    stage.quiet_for(SECOND).await;
}

/// The release behind a pass that failed puts the caller into a node's line, and the node may give it
/// a turn with the same breath.
#[tokio::test(start_paused = true)]
async fn a_turn_that_comes_with_the_release_behind_a_lost_pass_is_heard() {
    let stage = Stage::with(3, true, |builder| builder.ttl(30 * SECOND));
    let (claim, _next) = given_up(&stage).await;
    stage.turn_with_the_next_release(0);
    stage.round(Verb::Pass, |node, _| if node == 0 { fault(FaultKind::Timeout) } else { held(60) }).await;
    let mut owners = Vec::new();
    for nodes in [0..1, 0..3, 0..1] {
        owners.push(stage.some(nodes, Verb::Release, |_, _| released()).await.owner.clone());
    }
    assert!(owners[0] == claim.owner && owners[1] == claim.owner && owners[2] != claim.owner);
    let took = stage.asked_after().await;
    assert!(took <= 10 * MS, "and not after a third of its ttl: {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lock_whose_next_holder_went_away_is_released_everywhere() {
    let stage = Stage::new(3);
    let (claim, next) = given_up(&stage).await;
    next.abort();
    let release = stage.round(Verb::Release, |_, _| released()).await;
    assert_eq!(release.owner, claim.owner);
    stage.quiet_for(SECOND).await;
}

/// A caller whose future exists and is not polled, as in a `select!` whose other branch is running.
#[tokio::test(start_paused = true)]
async fn a_lock_whose_next_holder_is_never_polled_is_released_in_bounded_time() {
    let stage = Stage::new(3);
    let lock = stage.quorum.lock("it");
    let (guard, claim) = stage.won().await;
    let mut next = pin!(lock.acquire(60 * SECOND));
    assert!((&mut next).now_or_never().is_none());
    let given_up = Instant::now();
    drop(guard);
    let release = stage.round(Verb::Release, |_, _| released()).await;
    assert_eq!((&release.owner, release.ballot), (&claim.owner, claim.ballot));
    assert!(given_up.elapsed() <= 252 * MS, "ten round trips, 250 ms at least: {:?}", given_up.elapsed());
    stage.quiet_for(10 * SECOND).await;
    // When it is polled again, it asks like anybody.
    let (guard, claim) = tokio::join!(next, stage.round(Verb::Claim, |_, _| granted()));
    assert_eq!(guard.unwrap().token(), claim.ballot);
}

#[tokio::test(start_paused = true)]
async fn a_lock_whose_next_holder_takes_it_in_time_is_released_by_nobody() {
    let stage = Stage::new(3);
    for _ in 0..3 {
        let (_, next) = pass(&stage, |_| passed(false)).await;
        stage.quiet_for(3 * SECOND).await;
        drop(next);
        stage.round(Verb::Release, |_, _| released()).await;
    }
    assert_eq!(stage.quorum.in_use(), (0, 0, 0));
}

fn passing(most: u32) -> impl FnOnce(QuorumBuilder) -> QuorumBuilder {
    move |builder| builder.options(quorumlock::LockOptions::default().max_passes(most))
}

#[tokio::test(start_paused = true)]
async fn passes_in_a_row_are_bounded_where_others_wait_and_only_there() {
    for others_wait in [true, false] {
        let stage = Stage::with(3, true, passing(1));
        let (_, second) = pass(&stage, |node| passed(others_wait && node == 2)).await;
        let third = stage.acquire(60 * SECOND);
        sleep(MS).await;
        drop(second);
        if others_wait {
            stage.round(Verb::Release, |_, _| released()).await;
            stage.round(Verb::Claim, |_, _| granted()).await;
        } else {
            stage.round(Verb::Pass, |_, _| passed(false)).await;
        }
        assert!(third.await.unwrap().unwrap().is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn with_no_passes_allowed_everyone_stands_in_the_nodes_lines() {
    let stage = Stage::with(3, true, passing(0));
    let (_, next) = given_up(&stage).await;
    stage.round(Verb::Release, |_, _| released()).await;
    stage.round(Verb::Claim, |_, _| granted()).await;
    assert!(next.await.unwrap().unwrap().is_held());
}
