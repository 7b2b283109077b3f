//! Waiters: what makes a waiter ask again, and what does not.

use std::time::Duration;

use quorumlock::node::{FaultKind, Verb};
use quorumlock::{LockGuard, LockOptions, QuorumBuilder, Result};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::answers::{Answer, SILENCE, fault, granted, held, released};
use crate::asked::Asked;
use crate::stage::{MS, SECOND, Stage};

/// A waiter asks by itself every third of this.
const TTL: Duration = Duration::from_secs(9);

fn ttl(builder: QuorumBuilder) -> QuorumBuilder {
    builder.ttl(TTL)
}

/// A caller that these nodes have refused in its first round.
async fn waiter(stage: &Stage, answer: impl Fn(usize) -> Answer) -> (JoinHandle<Result<LockGuard>>, Asked) {
    let waiting = stage.acquire(60 * SECOND);
    let claim = stage.round(Verb::Claim, |node, _| answer(node)).await;
    assert!(claim.waiter.is_some() && claim.next > claim.ballot);
    // After this pause, the waiter is registered for hints.
    sleep(MS).await;
    (waiting, claim)
}

#[tokio::test(start_paused = true)]
async fn waiter_without_wakeups_claims_every_third_of_its_ttl() {
    let stage = Stage::with(3, true, ttl);
    let _waiting = waiter(&stage, |_| held(60)).await;
    for _ in 0..3 {
        let took = stage.asked_after().await;
        assert!((2_998 * MS..=3_001 * MS).contains(&took), "{took:?}");
        stage.round(Verb::Claim, |_, _| held(60)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn waiter_whose_place_is_old_asks_at_once() {
    let stage = Stage::with(3, true, ttl);
    let (_waiting, claim) = waiter(&stage, |_| held(60)).await;
    stage.quiet_for(SECOND).await;
    stage.hint(0, &claim, Duration::ZERO);
    assert!(stage.asked_after().await <= MS);
    stage.round(Verb::Claim, |_, _| held(60)).await;
    // The waiter's new claim is on its way to the other nodes.
    (1..3).for_each(|node| stage.hint(node, &claim, Duration::ZERO));
    stage.quiet_for(500 * MS).await;
}

/// The node may have sent the hint after the waiter's claim reached it.
#[tokio::test(start_paused = true)]
async fn woken_waiter_claims_again_after_a_quarter_of_a_handover() {
    let stage = Stage::with(3, true, ttl);
    let (_waiting, claim) = waiter(&stage, |_| held(60)).await;
    (0..3).for_each(|node| stage.hint(node, &claim, Duration::ZERO));
    let (took, quarter) = (stage.asked_after().await, claim.hand() / 4);
    assert!(took <= quarter && took + 2 * MS >= quarter, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn waiter_asks_when_a_node_says_so() {
    let stage = Stage::with(3, true, ttl);
    let (_waiting, claim) = waiter(&stage, |_| held(60)).await;
    stage.hint(1, &claim, 1_700 * MS);
    stage.hint(2, &claim, 1_400 * MS);
    stage.hint(0, &claim, 1_900 * MS);
    let took = stage.asked_after().await;
    assert!((1_400 * MS..=1_402 * MS).contains(&took), "the first of them: {took:?}");
}

#[tokio::test(start_paused = true)]
async fn waiter_claims_at_once_after_missed_wakeups() {
    let stage = Stage::with(3, true, ttl);
    let _waiting = waiter(&stage, |_| held(60)).await;
    stage.missed(1);
    assert!(stage.asked_after().await <= MS);
}

#[tokio::test(start_paused = true)]
async fn wakeup_for_another_owner_wakes_no_waiter() {
    let stage = Stage::with(3, true, ttl);
    let (_waiting, claim) = waiter(&stage, |_| held(60)).await;
    let (client, number) = claim.owner.rsplit_once('/').unwrap();
    for node in 0..3 {
        stage.hint_to(node, &format!("{client}x/{number}"), Duration::ZERO);
        stage.hint_to(node, &format!("{client}/{}", number.parse::<u64>().unwrap() + 1), Duration::ZERO);
    }
    stage.quiet_for(2 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn third_waiter_asks_a_quarter_of_a_hand_over_after_a_hold_ends() {
    let stage = Stage::with(3, true, ttl);
    let (_waiting, claim) = waiter(&stage, |node| if node == 1 { held(1) } else { held(60) }).await;
    let (took, after) = (stage.asked_after().await, SECOND + claim.hand() / 4);
    assert!((after - MS..=after + 2 * MS).contains(&took), "{took:?} and not {after:?}");
}

#[tokio::test(start_paused = true)]
async fn waiter_backs_off_if_nodes_are_down_or_send_no_wakeups() {
    let unreachable = |stage: &Stage| {
        stage.pause_long();
        stage.acquire(60 * SECOND)
    };
    // These nodes give hints, and do not answer.
    let stage = Stage::new(3);
    let _waiting = unreachable(&stage);
    stage.round(Verb::Claim, |_, _| fault(FaultKind::Down)).await;
    assert!(stage.asked_after().await <= 6 * MS);
    // These nodes answer, and give no hints.
    let stage = Stage::with(3, false, ttl);
    let _waiting = unreachable(&stage);
    for ceiling in [5, 10, 20, 40, 80, 160, 250, 250] {
        stage.round(Verb::Claim, |_, _| held(60)).await;
        let (took, ceiling) = (stage.asked_after().await, ceiling * MS);
        assert!(took <= ceiling + MS && took + 2 * MS >= ceiling, "{took:?} and not {ceiling:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn waiter_that_gives_up_leaves_every_queue() {
    let stage = Stage::with(3, true, ttl);
    let (waiting, claim) = waiter(&stage, |_| held(60)).await;
    assert_eq!(stage.quorum.in_use(), (1, 0, 1), "a caller, and its ear");
    waiting.abort();
    let release = stage.round(Verb::Release, |_, _| released()).await;
    assert_eq!((&release.owner, release.token), (&claim.owner, 0));
    stage.quiet_for(10 * SECOND).await;
    assert_eq!(stage.quorum.in_use(), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn grant_of_a_failed_round_is_withdrawn_until_confirmed() {
    let stage = Stage::with(3, true, ttl);
    let (waiting, claim) = waiter(&stage, |node| if node == 0 { granted() } else { held(60) }).await;
    let withdrawal = stage.only(&[0], Verb::Withdraw, |_, _| fault(FaultKind::Timeout)).await;
    assert_eq!((&withdrawal.owner, withdrawal.ballot), (&claim.owner, claim.ballot));
    let higher = stage.round(Verb::Claim, |_, _| SILENCE).await;
    let again = stage.only(&[0], Verb::Withdraw, |_, _| fault(FaultKind::Timeout)).await;
    assert_eq!(again, withdrawal);
    // The owner has ended, but the withdrawal is still sent again.
    waiting.abort();
    let release = stage.round(Verb::Release, |_, _| released()).await;
    assert_eq!((&release.owner, release.ballot), (&claim.owner, higher.ballot));
    stage.only(&[0], Verb::Withdraw, |_, _| released()).await;
    stage.quiet_for(10 * SECOND).await;
}

/// A withdrawal may arrive when the owner holds the name with a higher ballot. It does not end this
/// hold.
#[tokio::test(start_paused = true)]
async fn withdrawal_is_sent_again_after_a_win_with_a_higher_ballot() {
    let stage = Stage::with(3, true, ttl);
    let (waiting, claim) = waiter(&stage, |node| if node == 0 { granted() } else { held(60) }).await;
    stage.only(&[0], Verb::Withdraw, |_, _| SILENCE).await;
    let again = stage.round(Verb::Claim, |_, _| granted()).await;
    assert!(again.ballot > claim.ballot && again.owner == claim.owner);
    let guard = waiting.await.unwrap().unwrap();
    stage.answer(0, || fault(FaultKind::Timeout));
    let withdrawal = stage.only(&[0], Verb::Withdraw, |_, _| released()).await;
    assert_eq!(withdrawal.ballot, claim.ballot);
    assert!(guard.token() > withdrawal.ballot);
}

#[tokio::test(start_paused = true)]
async fn unfair_waiter_joins_no_queue() {
    let stage = Stage::with(3, true, |builder| builder.options(LockOptions::default().fair(false)));
    let waiting = stage.acquire(60 * SECOND);
    let claim = stage.round(Verb::Claim, |_, _| held(60)).await;
    assert_eq!((claim.waiter, claim.next), (None, 0), "it overtakes all that wait");
    assert!(stage.asked_after().await <= MS, "after a random pause, which is none here");
    stage.round(Verb::Claim, |_, _| SILENCE).await;
    waiting.abort();
}
