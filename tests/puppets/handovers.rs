//! Hand-overs: when a waiter may count them, and how it gives back hand-overs that are no quorum.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use quorumlock::node::{FaultKind, HandedOver, Kind, Outcome, Queued, Verb};
use quorumlock::rules::handover::Stamp;
use quorumlock::{LockGuard, QuorumBuilder, Result};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::answers::{Answer, SILENCE, fault, granted, held, released, stale};
use crate::asked::Asked;
use crate::stage::{MS, SECOND, Stage};

/// The stamp of a node's message: this node time, and always the same connection.
const fn at(seconds: u64) -> Stamp {
    Stamp { generation: 1, time: Duration::from_secs(seconds) }
}

/// Another owner holds the name, and the waiter has this place in the queue.
pub fn queued(rank: u32) -> Answer {
    let (holder, remaining) = ("somebody".to_owned(), Some(60 * SECOND));
    Some(Ok(Outcome::Held {
        holder,
        kind: Kind::Lock,
        remaining,
        fence: 1,
        queued: Some(Queued { rank, stamp: at(100) }),
    }))
}

/// A node's hand-over to the owner of `claim`.
pub fn handed(claim: &Asked, ballot: u64) -> HandedOver {
    let (owner, name, lasts) = (claim.owner.clone(), claim.names[0].clone(), claim.hand());
    HandedOver { owner, ballot, lasts, name, record: "record".into(), stamp: at(101), counts: true }
}

fn long(builder: QuorumBuilder) -> QuorumBuilder {
    builder.ttl(30 * SECOND)
}

/// A caller that has a place in the queues of these nodes.
async fn waiter(stage: &Stage, answer: impl Fn(usize) -> Answer) -> (JoinHandle<Result<LockGuard>>, Asked) {
    let waiting = stage.acquire(60 * SECOND);
    let claim = stage.round(Verb::Claim, |node, _| answer(node)).await;
    assert!(claim.waiter.is_some());
    sleep(MS).await;
    (waiting, claim)
}

#[tokio::test(start_paused = true)]
async fn handover_by_a_quorum_is_held_at_once_and_then_renewed() {
    let stage = Stage::with(3, true, long);
    let (waiting, claim) = waiter(&stage, |_| queued(1)).await;
    let ballot = claim.ballot + 7;
    (0..2).for_each(|node| stage.push(node, handed(&claim, ballot)));
    let guard = waiting.await.unwrap().unwrap();
    assert!(guard.token() == ballot && guard.remaining() <= claim.hand(), "{:?}", guard.remaining());
    let renewal = stage.round(Verb::Renew, |_, _| Some(Ok(Outcome::Extended))).await;
    assert_eq!((&renewal.owner, renewal.ballot), (&claim.owner, ballot));
    sleep(MS).await;
    assert!(guard.remaining() > 29 * SECOND, "{:?}", guard.remaining());
    drop(guard);
    let release = stage.round(Verb::Release, |_, _| released()).await;
    assert!(release.ballot == ballot && release.token == ballot && release.next > ballot);
}

#[tokio::test(start_paused = true)]
async fn handover_without_auto_renew_is_extended_to_the_full_ttl() {
    let stage = Stage::with(3, true, |builder| {
        builder.options(quorumlock::LockOptions::default().auto_renew(false)).ttl(30 * SECOND)
    });
    let (waiting, claim) = waiter(&stage, |_| queued(1)).await;
    (0..2).for_each(|node| stage.push(node, handed(&claim, claim.ballot + 7)));
    let guard = waiting.await.unwrap().unwrap();
    stage.round(Verb::Renew, |_, _| Some(Ok(Outcome::Extended))).await;
    stage.quiet_for(20 * SECOND).await;
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn handover_during_a_repeated_claim_wins_that_round() {
    let stage = Stage::with(3, true, long);
    let (waiting, claim) = waiter(&stage, |_| queued(1)).await;
    let again = stage.round(Verb::Claim, |_, _| SILENCE).await;
    assert_eq!((&again.owner, again.ballot), (&claim.owner, claim.ballot), "a refusal is no reason for another ballot");
    (1..3).for_each(|node| stage.push(node, handed(&claim, claim.ballot + 7)));
    assert_eq!(waiting.await.unwrap().unwrap().token(), claim.ballot + 7);
}

#[tokio::test(start_paused = true)]
async fn refused_waiter_with_an_unanswered_claim_gets_a_timeout() {
    let stage = Stage::with(3, true, long);
    let waiting = stage.acquire(800 * MS);
    stage.round(Verb::Claim, |_, _| queued(1)).await;
    stage.round(Verb::Claim, |_, _| SILENCE).await;
    let error = waiting.await.unwrap().unwrap_err();
    assert!(error.is_timeout(), "{error}");
    let withdrawal = stage.round(Verb::Withdraw, |_, _| released()).await;
    assert_eq!(withdrawal.waiter, None, "it does not go on");
    stage.round(Verb::Release, |_, _| released()).await;
}

/// When the grants come, the round has failed, and the waiter would ask again only much later.
#[tokio::test(start_paused = true)]
async fn late_grants_of_a_quorum_win_as_soon_as_they_arrive() {
    let stage = Stage::with(3, true, |builder| builder.ttl(3 * SECOND));
    let (waiting, claim) = waiter(&stage, |node| if node == 0 { queued(3) } else { SILENCE }).await;
    // A round lasts for a third of the validity.
    sleep(1_100 * MS).await;
    assert!(!waiting.is_finished());
    (1..3).for_each(|node| stage.answer(node, granted));
    sleep(2 * MS).await;
    assert!(waiting.is_finished(), "a quorum has granted it");
    assert_eq!(waiting.await.unwrap().unwrap().token(), claim.ballot);
}

#[tokio::test(start_paused = true)]
async fn handover_by_a_minority_is_claimed_with_its_ballot() {
    let stage = Stage::with(3, true, long);
    let (waiting, claim) = waiter(&stage, |_| queued(1)).await;
    let ballot = claim.ballot + 7;
    stage.push(2, handed(&claim, ballot));
    assert!(stage.asked_after().await <= 6 * MS);
    let again = stage.round(Verb::Claim, |node, _| if node == 0 { held(60) } else { granted() }).await;
    assert_eq!((&again.owner, again.ballot), (&claim.owner, ballot));
    assert_eq!(waiting.await.unwrap().unwrap().token(), ballot);
}

/// The node that pushed is far away, so its answer to the claim is not known yet.
#[tokio::test(start_paused = true)]
async fn waiter_that_withdraws_a_minority_claims_again_soon() {
    let stage = Stage::with(3, true, long);
    let (_waiting, claim) = waiter(&stage, |_| queued(1)).await;
    stage.push(2, handed(&claim, claim.ballot + 7));
    stage.round(Verb::Claim, |node, _| if node == 2 { SILENCE } else { queued(1) }).await;
    let withdrawal = stage.only(&[2], Verb::Withdraw, |_, _| released()).await;
    assert_eq!((&withdrawal.owner, withdrawal.ballot), (&claim.owner, claim.ballot + 7));
    assert_eq!(withdrawal.waiter.map(|place| place.arrival), claim.waiter.map(|place| place.arrival));
    let took = stage.asked_after().await;
    assert!(took <= 50 * MS, "it is not known whether it has a place there: {took:?}");
    let again = stage.round(Verb::Claim, |_, _| queued(1)).await;
    assert!(again.owner == claim.owner && again.ballot > withdrawal.ballot);
}

/// If waiters always took their places again, a waiter that cannot win could keep the name from
/// others for ever.
#[tokio::test(start_paused = true)]
async fn waiter_takes_no_place_again_each_fourth_time() {
    let stage = Stage::with(3, true, long);
    let (waiting, claim) = waiter(&stage, |_| queued(1)).await;
    let (mut ballot, mut taken) = (claim.ballot, Vec::new());
    for _ in 0..8 {
        ballot += 1_000_000;
        stage.push(2, handed(&claim, ballot));
        stage.round(Verb::Claim, |node, _| if node == 2 { granted() } else { queued(1) }).await;
        let withdrawal = stage.only(&[2], Verb::Withdraw, |_, _| released()).await;
        taken.push(withdrawal.waiter.is_some());
        ballot = stage.round(Verb::Claim, |_, _| queued(1)).await.ballot;
    }
    assert_eq!(taken, [true, true, true, false].repeat(2));
    waiting.abort();
    stage.round(Verb::Release, |_, _| released()).await;
}

/// The withdrawal is sent again, and may arrive after the release. In this case, only a repeated
/// release removes the place that the withdrawal takes.
#[tokio::test(start_paused = true)]
async fn release_is_repeated_where_a_withdrawal_takes_a_place_again() {
    let stage = Stage::with(3, true, long);
    let (waiting, _) = waiter(&stage, |node| if node == 2 { granted() } else { queued(1) }).await;
    let withdrawal = stage.only(&[2], Verb::Withdraw, |_, _| SILENCE).await;
    assert!(withdrawal.waiter.is_some());
    waiting.abort();
    stage.round(Verb::Release, |node, _| if node == 2 { fault(FaultKind::Down) } else { released() }).await;
    stage.only(&[2], Verb::Release, |_, _| released()).await;
}

/// The waiter's votes come too late. With a place, the waiter would keep the name from others.
#[tokio::test(start_paused = true)]
async fn withdrawal_takes_no_queue_entry_after_a_round_without_quorum() {
    let stage = Stage::with(3, true, long);
    let (_waiting, claim) = waiter(&stage, |_| queued(1)).await;
    stage.push(2, handed(&claim, claim.ballot + 7));
    stage.round(Verb::Claim, |node, _| if node == 2 { granted() } else { fault(FaultKind::Timeout) }).await;
    let withdrawal = stage.round(Verb::Withdraw, |_, _| released()).await;
    assert_eq!((withdrawal.ballot, withdrawal.waiter), (claim.ballot + 7, None));
    // One node does not answer until the round is over.
    stage.round(Verb::Claim, |_, _| queued(1)).await;
    stage.push(2, handed(&claim, claim.ballot + 2_000_000));
    stage
        .round(Verb::Claim, |node, _| match node {
            0 => queued(1),
            1 => SILENCE,
            _ => granted(),
        })
        .await;
    let withdrawal = stage.only(&[1, 2], Verb::Withdraw, |_, _| released()).await;
    assert_eq!(withdrawal.waiter, None);
}

#[tokio::test(start_paused = true)]
async fn handovers_with_different_ballots_are_claimed_at_the_highest() {
    let stage = Stage::with(3, true, long);
    let (waiting, claim) = waiter(&stage, |_| queued(1)).await;
    stage.push(0, handed(&claim, claim.ballot + 7));
    stage.push(1, handed(&claim, claim.ballot + 9));
    assert!(stage.asked_after().await <= MS, "at once");
    let lifted = stage.round(Verb::Claim, |node, _| if node == 2 { held(60) } else { granted() }).await;
    assert_eq!((&lifted.owner, lifted.ballot), (&claim.owner, claim.ballot + 9));
    assert_eq!(waiting.await.unwrap().unwrap().token(), claim.ballot + 9);
}

#[tokio::test(start_paused = true)]
async fn a_ballot_that_was_pushed_and_called_stale_is_not_asked_with() {
    let stage = Stage::with(3, true, long);
    let (_waiting, claim) = waiter(&stage, |_| queued(1)).await;
    stage.push(2, handed(&claim, claim.ballot + 7));
    let far = claim.ballot + 90;
    stage.round(Verb::Claim, |node, _| if node == 2 { granted() } else { stale(far) }).await;
    let higher = stage.round(Verb::Claim, |_, _| SILENCE).await;
    assert!(higher.ballot > far && higher.owner == claim.owner);
}

/// A push that does not count may still show that the node holds the name for this owner.
#[tokio::test(start_paused = true)]
async fn handovers_that_do_not_count_are_claimed_and_then_released() {
    let stage = Stage::with(3, true, long);
    let (waiting, claim) = waiter(&stage, |_| queued(1)).await;
    let ballot = claim.ballot + 7;
    let wrong = [
        HandedOver { counts: false, ..handed(&claim, ballot) },
        HandedOver { stamp: Stamp { generation: 2, ..at(101) }, ..handed(&claim, ballot) },
        HandedOver { stamp: at(99), ..handed(&claim, ballot) },
    ];
    (0..3).zip(wrong).for_each(|(node, wrong)| stage.push(node, wrong));
    assert!(stage.asked_after().await <= 6 * MS);
    stage.round(Verb::Claim, |_, _| SILENCE).await;
    assert!(!waiting.is_finished());
    waiting.abort();
    let release = stage.round(Verb::Release, |_, _| released()).await;
    assert!(release.owner == claim.owner && release.ballot == ballot && release.next > ballot);
}

/// If the waiter gave nothing back, the doubted node would keep others out for as long as a
/// hand-over lasts.
#[tokio::test(start_paused = true)]
async fn handover_by_a_quarantined_node_is_withdrawn() {
    let stage = Stage::with(3, true, long);
    let (_waiting, claim) = waiter(&stage, |_| queued(1)).await;
    stage.push(0, HandedOver { counts: false, ..handed(&claim, claim.ballot + 7) });
    let doubted = |node| if node == 0 { fault(FaultKind::Quarantined) } else { queued(1) };
    stage.round(Verb::Claim, |node, _| doubted(node)).await;
    let withdrawal = stage.only(&[0], Verb::Withdraw, |_, _| released()).await;
    assert!(withdrawal.owner == claim.owner && withdrawal.ballot == claim.ballot + 7);
    assert!(stage.asked_after().await <= 50 * MS);
}

/// For example, a push is received together with the answer that confirms the place, and is read
/// before this answer.
#[tokio::test(start_paused = true)]
async fn handovers_before_the_first_claims_replies_count_with_them() {
    let stage = Stage::with(3, true, long);
    let waiting = stage.acquire(60 * SECOND);
    let claim = stage.round(Verb::Claim, |_, _| SILENCE).await;
    (0..2).for_each(|node| stage.push(node, handed(&claim, claim.ballot + 7)));
    sleep(MS).await;
    assert!(!waiting.is_finished(), "it may have been another server's");
    (0..3).for_each(|node| stage.answer(node, || queued(1)));
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!(guard.token(), claim.ballot + 7);
    stage.round(Verb::Renew, |_, _| Some(Ok(Outcome::Extended))).await;
}

#[tokio::test(start_paused = true)]
async fn handover_by_a_quorum_that_came_too_soon_is_claimed_at_once() {
    let stage = Stage::with(3, true, long);
    let waiting = stage.acquire(60 * SECOND);
    let claim = stage.round(Verb::Claim, |_, _| SILENCE).await;
    let too_soon = || HandedOver { stamp: at(100), ..handed(&claim, claim.ballot + 7) };
    (0..2).for_each(|node| stage.push(node, too_soon()));
    (0..3).for_each(|node| stage.answer(node, || queued(1)));
    assert!(stage.asked_after().await <= MS, "and not after two round trips");
    let again = stage.round(Verb::Claim, |_, _| granted()).await;
    assert_eq!((&again.owner, again.ballot), (&claim.owner, claim.ballot + 7));
    assert!(waiting.await.unwrap().unwrap().is_held());
}

/// A node holds the name for the time in the last claim that it carried out. The client counts from
/// the last claim that the node confirmed. So all claims must have the same time.
#[tokio::test(start_paused = true)]
async fn claims_of_one_owner_name_the_same_handover_time() {
    let stage = Stage::with(3, true, long);
    let _waiting = stage.acquire(60 * SECOND);
    let claim = stage.round(Verb::Claim, |_, _| SILENCE).await;
    sleep(500 * MS).await;
    (0..3).for_each(|node| stage.answer(node, || queued(1)));
    let after_a_slow_one = stage.round(Verb::Claim, |_, _| queued(1)).await;
    let after_a_quick_one = stage.round(Verb::Claim, |node, _| if node == 0 { granted() } else { queued(1) }).await;
    assert_eq!([after_a_slow_one.hand(), after_a_quick_one.hand()], [claim.hand(); 2]);
    stage.only(&[0], Verb::Withdraw, |_, _| released()).await;
    let next = stage.round(Verb::Claim, |_, _| queued(1)).await;
    assert_eq!((next.hand(), &next.owner), (claim.hand(), &claim.owner));
}

/// The length of such a round says nothing about round trips.
#[tokio::test(start_paused = true)]
async fn a_round_in_which_the_process_stood_still_is_not_measured() {
    let stage = Stage::with(3, true, long);
    let first = stage.acquire(60 * SECOND);
    let claim = stage.round(Verb::Claim, |_, _| SILENCE).await;
    (0..3).for_each(|node| stage.answer(node, granted));
    tokio::time::advance(3_600 * SECOND).await;
    stage.round(Verb::Release, |_, _| released()).await;
    assert!(first.await.unwrap().is_err(), "it is too late");
    let _next = stage.acquire(60 * SECOND);
    let next = stage.round(Verb::Claim, |_, _| queued(1)).await;
    assert_eq!(next.hand(), claim.hand());
}

#[tokio::test(start_paused = true)]
async fn handover_to_an_owner_that_has_ended_is_released() {
    let stage = Stage::with(3, true, long);
    let (waiting, claim) = waiter(&stage, |_| queued(1)).await;
    waiting.abort();
    stage.round(Verb::Release, |_, _| released()).await;
    let ballot = claim.ballot + 7;
    stage.push(1, handed(&claim, ballot));
    let release = stage.only(&[1], Verb::Release, |_, _| fault(FaultKind::Timeout)).await;
    assert_eq!((&release.owner, release.ballot, release.token), (&claim.owner, ballot, 0));
    let again = stage.only(&[1], Verb::Release, |_, _| released()).await;
    assert_eq!(again.next, release.next, "chosen once");
}

/// The holder releases soon. A far node pushes before the release has reached this node. When the
/// release arrives, the node frees the name.
#[tokio::test(start_paused = true)]
async fn handover_before_a_pending_release_needs_no_second_release() {
    let stage = Stage::with(3, true, long);
    let (waiting, claim) = waiter(&stage, |_| queued(1)).await;
    let ballot = claim.ballot + 7;
    (0..2).for_each(|node| stage.push(node, handed(&claim, ballot)));
    drop(waiting.await.unwrap().unwrap());
    stage.round(Verb::Release, |node, _| if node == 2 { SILENCE } else { released() }).await;
    stage.push(2, handed(&claim, ballot));
    stage.quiet_for(100 * MS).await;
    // Node 1 may have carried out the release before it pushed, so the client sends another
    // release.
    stage.push(1, handed(&claim, ballot));
    stage.only(&[1], Verb::Release, |_, _| released()).await;
    stage.answer(2, released);
    stage.push(2, handed(&claim, ballot));
    stage.only(&[2], Verb::Release, |_, _| released()).await;
}

/// A push counts only if its ballot is above the ballots that were withdrawn on any node.
#[tokio::test(start_paused = true)]
async fn handover_after_a_withdrawal_is_claimed_above_that_ballot() {
    for above in [0, 1] {
        let stage = Stage::with(3, true, long);
        let (waiting, claim) = waiter(&stage, |node| if node == 0 { granted() } else { queued(1) }).await;
        let withdrawal = stage.only(&[0], Verb::Withdraw, |_, _| SILENCE).await;
        assert_eq!(withdrawal.ballot, claim.ballot);
        (1..3).for_each(|node| stage.push(node, handed(&claim, claim.ballot + above)));
        let again = stage.round(Verb::Claim, |_, _| granted()).await;
        assert!(again.owner == claim.owner && again.ballot > claim.ballot);
        assert_eq!(again.ballot == claim.ballot + 1, above == 1, "that has its votes");
        assert_eq!(waiting.await.unwrap().unwrap().token(), again.ballot);
    }
}

/// With a lower ballot, no node would hand the name over: a pushed ballot is a fence too.
#[tokio::test(start_paused = true)]
async fn release_after_a_withdrawal_hands_over_above_later_pushes() {
    let stage = Stage::with(3, true, long);
    let (waiting, claim) = waiter(&stage, |node| if node == 0 { granted() } else { queued(1) }).await;
    let withdrawal = stage.only(&[0], Verb::Withdraw, |_, _| released()).await;
    let ballot = withdrawal.next + 7;
    stage.push(1, handed(&claim, ballot));
    waiting.abort();
    let release = stage.round(Verb::Release, |_, _| released()).await;
    assert_eq!((&release.owner, release.ballot), (&claim.owner, ballot));
    assert!(release.next > ballot, "{} is not above {ballot}", release.next);
}

/// Some nodes hand the name over because of the withdrawal, others because of the release. The next
/// waiter needs the same ballot from all of them.
#[tokio::test(start_paused = true)]
async fn release_after_a_withdrawal_hands_over_with_the_same_ballot() {
    let stage = Stage::with(3, true, long);
    let (waiting, _) = waiter(&stage, |node| if node == 0 { granted() } else { queued(1) }).await;
    let withdrawal = stage.only(&[0], Verb::Withdraw, |_, _| released()).await;
    waiting.abort();
    let release = stage.round(Verb::Release, |_, _| released()).await;
    assert_eq!(release.next, withdrawal.next);
}

/// If the waiter announced a shorter time, nodes would drop the waiter while a silent node keeps
/// its round open.
#[tokio::test(start_paused = true)]
async fn waiter_announces_no_retry_sooner_than_a_round_may_last() {
    for (rank, says) in [(1, 2 * SECOND), (3, 10 * SECOND)] {
        let stage = Stage::with(3, true, long);
        let (_waiting, _) = waiter(&stage, |_| queued(rank)).await;
        let claim = stage.round(Verb::Claim, |_, _| queued(rank)).await;
        let again = claim.waiter.unwrap().again;
        assert!(again.abs_diff(says) < SECOND, "{rank}: {again:?}");
    }
}

/// Far nodes may send a hint while the waiter's new claim is on its way to them.
#[tokio::test(start_paused = true)]
async fn waiter_that_just_registered_again_ignores_further_wakeups() {
    let stage = Stage::with(3, true, long);
    let (_waiting, claim) = waiter(&stage, |_| queued(3)).await;
    sleep(SECOND).await;
    stage.hint(0, &claim, Duration::ZERO);
    stage.round(Verb::Claim, |_, _| queued(2)).await;
    for node in 1..3 {
        sleep(100 * MS).await;
        stage.hint(node, &claim, Duration::ZERO);
    }
    stage.quiet_for(400 * MS).await;
}

/// If the releases had different ballots, the next waiter would get the name with several ballots,
/// none with a quorum.
#[tokio::test(start_paused = true)]
async fn handovers_to_an_ended_owner_are_released_with_one_ballot() {
    let stage = Stage::with(3, true, long);
    let (waiting, claim) = waiter(&stage, |_| queued(1)).await;
    waiting.abort();
    stage.round(Verb::Release, |_, _| released()).await;
    let ballot = claim.ballot + 7;
    let mut next = Vec::new();
    for node in 0..3 {
        sleep(MS).await;
        stage.push(node, handed(&claim, if node == 2 { u64::MAX >> 12 } else { ballot }));
        next.push(stage.only(&[node], Verb::Release, |_, _| released()).await.next);
    }
    assert!(next[0] > ballot && next[0] == next[1], "{next:?}");
    assert!(next[2] > u64::MAX >> 12, "above what was pushed there: {next:?}");
}

/// A push comes when its owner already holds the lock.
#[tokio::test(start_paused = true)]
async fn handover_after_the_lock_is_won_causes_no_request() {
    let stage = Stage::with(3, true, long);
    let (waiting, claim) = waiter(&stage, |_| queued(1)).await;
    (0..2).for_each(|node| stage.push(node, handed(&claim, claim.ballot + 7)));
    let guard = waiting.await.unwrap().unwrap();
    stage.round(Verb::Renew, |_, _| Some(Ok(Outcome::Extended))).await;
    stage.push(2, handed(&claim, claim.ballot + 7));
    stage.quiet_for(SECOND).await;
    drop(guard);
    stage.round(Verb::Release, |_, _| released()).await;
}

#[tokio::test(start_paused = true)]
async fn first_two_waiters_claim_again_soon_and_later_ones_seldom() {
    for (rank, after) in [(1, 750), (2, 750), (3, 10_000)] {
        let stage = Stage::with(3, true, long);
        let (_waiting, claim) = waiter(&stage, |_| queued(rank)).await;
        for _ in 0..3 {
            let (took, after) = (stage.asked_after().await, after * MS);
            assert!(took + 3 * MS >= after && took <= after + MS, "{rank}: {took:?} and not {after:?}");
            let again = stage.round(Verb::Claim, |_, _| queued(rank)).await;
            assert_eq!((&again.owner, again.ballot, again.waiter.is_some()), (&claim.owner, claim.ballot, true));
        }
    }
}

/// A node that replies `stale` gives the claim no place.
#[tokio::test(start_paused = true)]
async fn waiter_with_a_stale_reply_soon_claims_with_a_higher_ballot() {
    let stage = Stage::with(3, true, long);
    let far = u64::MAX >> 12;
    let (_waiting, claim) = waiter(&stage, |node| if node == 0 { stale(far) } else { queued(1) }).await;
    assert!(stage.asked_after().await <= 6 * MS);
    let again = stage.round(Verb::Claim, |_, _| queued(1)).await;
    assert!(again.ballot > far && again.owner == claim.owner);
}

/// The waiter's registration for hints must go too, because it keeps most of an acquisition in
/// memory.
#[tokio::test(start_paused = true)]
async fn acquisition_leaves_no_memory_after_its_lock_is_released() {
    let stage = Stage::with(3, true, long);
    let (waiting, first) = waiter(&stage, |node| if node == 2 { queued(1) } else { held(60) }).await;
    sleep(SECOND).await;
    stage.hint(0, &first, Duration::ZERO);
    let claim = stage.round(Verb::Claim, |node, _| if node == 2 { queued(1) } else { granted() }).await;
    drop(waiting.await.unwrap().unwrap());
    let release = stage.round(Verb::Release, |_, _| released()).await;
    stage.quiet_for(SECOND).await;
    let owner = Arc::downgrade(&claim.owner);
    drop((first, claim, release));
    assert_eq!(owner.strong_count(), 0);
}

/// Other owners hold the name on two nodes for ever, and the third node grants after each round has
/// failed.
#[tokio::test(start_paused = true)]
async fn node_that_keeps_granting_late_gets_fewer_claims() {
    let stage = Stage::with(3, true, long);
    let _waiting = stage.acquire(60 * SECOND);
    let (began, mut rounds, mut ballots) = (Instant::now(), 0, HashSet::new());
    while began.elapsed() < 5 * SECOND {
        let claim = stage.until_claimed(|node| if node < 2 { queued(1) } else { SILENCE }).await;
        sleep(MS).await;
        stage.answer_all(|_| granted());
        let late = stage.asked_after().await;
        assert!(rounds > 0 || late <= 6 * MS, "it is noticed at once: {late:?}");
        rounds += 1;
        assert!(claim.waiter.is_some() && ballots.insert(claim.ballot), "what was granted is given back");
    }
    assert!((5..=16).contains(&rounds), "{rounds} rounds in five seconds");
}
