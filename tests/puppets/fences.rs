//! Fences that are far ahead of the clocks: such a fence may raise the ballots of the acquisition
//! that met it, and of no other acquisition.

use std::time::{Duration, SystemTime};

use quorumlock::node::Verb;

use crate::answers::{SILENCE, granted, released, stale};
use crate::stage::{SECOND, Stage};

/// No ballot is above this fence, since all ballots are below 2^53.
const CORRUPT: u64 = (1 << 53) - 1;
const DAY: u64 = 24 * 3_600 * 1_000_000;

fn now() -> u64 {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    u64::try_from(wall.as_micros()).unwrap()
}

/// Acquires another name, and checks that its ballot is about the present time.
async fn others_go_on(stage: &Stage) {
    let acquiring = stage.acquire_other("other", SECOND);
    let claim = stage.round(Verb::Claim, |_, _| granted()).await;
    assert!(claim.ballot < now() + DAY / 24, "{}", claim.ballot);
    let guard = acquiring.await.unwrap().unwrap();
    assert_eq!(guard.token(), claim.ballot);
    drop(guard);
    stage.round(Verb::Release, |_, _| released()).await;
}

#[tokio::test(start_paused = true)]
async fn a_corrupt_fence_on_one_node_keeps_nobody_from_any_name() {
    let stage = Stage::new(3);
    for _ in 0..2 {
        let (guard, claim) = stage.won_with(|node| if node == 0 { stale(CORRUPT) } else { granted() }).await;
        assert!(claim.ballot < now() + DAY / 24 && guard.token() == claim.ballot);
        drop(guard);
        stage.round(Verb::Release, |_, _| released()).await;
        others_go_on(&stage).await;
    }
}

#[tokio::test(start_paused = true)]
async fn fence_two_days_ahead_raises_only_the_acquisition_it_met() {
    let stage = Stage::new(3);
    let acquiring = stage.acquire(60 * SECOND);
    let fence = now() + 2 * DAY;
    stage.round(Verb::Claim, |_, _| stale(fence)).await;
    let lifted = stage.round(Verb::Claim, |_, _| granted()).await;
    assert_eq!(lifted.ballot, fence + 1);
    assert_eq!(acquiring.await.unwrap().unwrap().token(), fence + 1);
    stage.round(Verb::Release, |_, _| released()).await;
    others_go_on(&stage).await;
}

#[tokio::test(start_paused = true)]
async fn a_fence_half_an_hour_ahead_lifts_all_that_follow() {
    let stage = Stage::new(3);
    let acquiring = stage.acquire(60 * SECOND);
    let fence = now() + DAY / 48;
    stage.round(Verb::Claim, |_, _| stale(fence)).await;
    stage.round(Verb::Claim, |_, _| granted()).await;
    let guard = acquiring.await.unwrap().unwrap();
    let other = stage.acquire_other("other", SECOND);
    let claim = stage.round(Verb::Claim, |_, _| granted()).await;
    assert!(claim.ballot > guard.token(), "no round trip more for each name");
    drop((guard, other));
}

#[tokio::test(start_paused = true)]
async fn corrupt_fences_on_a_quorum_give_advice_and_spare_other_names() {
    let stage = Stage::new(3);
    let trying = stage.try_acquire();
    stage.round(Verb::Claim, |node, _| if node == 2 { granted() } else { stale(CORRUPT) }).await;
    stage.round(Verb::Withdraw, |_, _| released()).await;
    let error = trying.await.unwrap().unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    for node in &error.nodes()[..2] {
        assert!(node.said.contains("delete the name's key"), "{}", node.said);
    }
    assert!(error.to_string().contains("delete"), "{error}");
    others_go_on(&stage).await;
}

/// If the answer to the second ask comes too late, the next round begins above the ballot of this
/// ask. Otherwise each round would begin with a stale ballot, and no round might end in time.
#[tokio::test(start_paused = true)]
async fn round_begins_above_the_raised_ballot_of_the_last_round() {
    let stage = Stage::new(1);
    let acquiring = stage.acquire(60 * SECOND);
    let fence = now() + 2 * DAY;
    stage.round(Verb::Claim, |_, _| stale(fence)).await;
    let lifted = stage.round(Verb::Claim, |_, _| None).await;
    assert_eq!(lifted.ballot, fence + 1);
    let next = stage.until_claimed(|_| granted()).await;
    assert_eq!(next.ballot, fence + 2);
    assert_eq!(acquiring.await.unwrap().unwrap().token(), fence + 2);
}

/// One node grants the claim, and another replies at once that its fence is higher. The third node
/// is silent.
async fn two_of_three_answer(stage: &Stage, fence: u64) {
    stage.round(Verb::Claim, |_, _| SILENCE).await;
    stage.quiet_for(Duration::from_millis(50)).await;
    stage.answer(0, granted);
    stage.answer(1, || stale(fence));
}

#[tokio::test(start_paused = true)]
async fn ballot_is_raised_without_a_far_node_but_not_at_once() {
    let stage = Stage::new(3);
    let acquiring = stage.acquire(60 * SECOND);
    let fence = now() + DAY / 48;
    two_of_three_answer(&stage, fence).await;
    let after = stage.asked_after().await;
    assert!((40..100).contains(&after.as_millis()), "as much as the two took: {after:?}");
    let lifted = stage.round(Verb::Claim, |node, _| if node == 2 { SILENCE } else { granted() }).await;
    assert_eq!(lifted.ballot, fence + 1);
    assert_eq!(acquiring.await.unwrap().unwrap().token(), fence + 1);
    stage.answer(2, || stale(fence));
}

#[tokio::test(start_paused = true)]
async fn fence_two_days_ahead_on_one_node_is_ignored_if_others_grant() {
    let stage = Stage::new(3);
    let acquiring = stage.acquire(60 * SECOND);
    two_of_three_answer(&stage, now() + 2 * DAY).await;
    stage.quiet_for(Duration::from_millis(500)).await;
    stage.answer(2, granted);
    assert!(acquiring.await.unwrap().unwrap().token() < now() + DAY / 24);
}
