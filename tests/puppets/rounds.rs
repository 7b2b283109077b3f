//! Rounds of claims: when another round follows, how long a round lasts, and what is withdrawn
//! after a failed round.

use std::error::Error as _;
use std::time::Duration;

use quorumlock::node::{Fault, FaultKind, Outcome, Verb};
use quorumlock::{LockGuard, NodeCause, Result};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::answers::{SILENCE, fault, granted, held, released, stale};
use crate::stage::{MS, SECOND, Stage};

#[tokio::test(start_paused = true)]
async fn failed_round_withdraws_every_possible_grant() {
    let stage = Stage::new(11);
    let trying = stage.try_acquire();
    let answer = |node, _: &_| match node {
        0..=5 => held(60),
        6 => stale(1),
        7 => granted(),
        8 => fault(FaultKind::Timeout),
        9 => fault(FaultKind::Down),
        _ => SILENCE,
    };
    let claim = stage.round(Verb::Claim, answer).await;
    // A node that replies `stale` may hold the name with a higher ballot.
    let withdrawal = stage.only(&[6, 7, 8, 10], Verb::Withdraw, |_, _| released()).await;
    assert!(withdrawal.owner == claim.owner && withdrawal.ballot >= claim.ballot);
    assert!(trying.await.unwrap().unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stale_ballot_is_lifted_at_once_three_times_and_no_more() {
    let stage = Stage::new(3);
    let trying = stage.try_acquire();
    let mut fence = 0;
    for _ in 0..4 {
        let claim = stage.round(Verb::Claim, |_, claim| stale(claim.ballot + 1_000)).await;
        assert!(claim.ballot > fence);
        fence = claim.ballot + 1_000;
    }
    stage.round(Verb::Withdraw, |_, _| released()).await;
    let next = stage.round(Verb::Claim, |_, _| held(60)).await;
    assert!(next.ballot > fence, "another round");
    assert!(trying.await.unwrap().unwrap().is_none());
    stage.quiet_for(5 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn first_round_is_completed_however_short_the_timeout_is() {
    let stage = Stage::new(3);
    let acquiring = stage.acquire(50 * MS);
    stage.round(Verb::Claim, |_, _| SILENCE).await;
    sleep(200 * MS).await;
    (0..2).for_each(|node| stage.answer(node, granted));
    assert!(acquiring.await.unwrap().unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn later_rounds_end_with_the_callers_time() {
    let stage = Stage::with(3, false, |builder| builder);
    let began = Instant::now();
    let acquiring = stage.acquire(500 * MS);
    stage.round(Verb::Claim, |_, _| held(60)).await;
    stage.round(Verb::Claim, |_, _| SILENCE).await;
    // In the second round, too little time was left to learn more than in the first.
    assert!(acquiring.await.unwrap().unwrap_err().is_timeout());
    assert!((500 * MS..=502 * MS).contains(&began.elapsed()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn next_round_does_not_wait_for_a_silent_node() {
    let stage = Stage::new(3);
    let acquiring = stage.acquire(60 * SECOND);
    stage.round(Verb::Claim, |node, _| if node < 2 { fault(FaultKind::Timeout) } else { SILENCE }).await;
    stage.round(Verb::Withdraw, |_, _| released()).await;
    assert!(stage.asked_after().await < 10 * MS, "the round before did not end with its time, but with two of three");
    stage.round(Verb::Claim, |_, _| granted()).await;
    assert!(acquiring.await.unwrap().unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_try_waits_until_it_is_known_whether_nodes_are_silent() {
    let stage = Stage::new(5);
    let trying = stage.try_acquire();
    // No quorum can grant any more. The answer of the fifth node decides what the try returns.
    let answer = |node, _: &_| match node {
        0 => granted(),
        1 => held(60),
        4 => SILENCE,
        _ => fault(FaultKind::Timeout),
    };
    stage.round(Verb::Claim, answer).await;
    // The withdrawal does not wait for the fifth node.
    stage.only(&[0, 2, 3, 4], Verb::Withdraw, |_, _| released()).await;
    assert!(!trying.is_finished());
    stage.answer(4, || fault(FaultKind::Timeout));
    assert!(trying.await.unwrap().unwrap_err().is_unavailable());
}

/// A try in whose first round one node grants, two nodes name one holder, one node is silent, and
/// the last node answers later.
async fn refused_by_two() -> (Stage, JoinHandle<Result<Option<LockGuard>>>, u64) {
    let stage = Stage::new(5);
    let trying = stage.try_acquire();
    let answer = |node, _: &_| match node {
        0 => granted(),
        1 | 2 => held(60),
        3 => fault(FaultKind::Timeout),
        _ => SILENCE,
    };
    let claim = stage.round(Verb::Claim, answer).await;
    stage.only(&[0, 3, 4], Verb::Withdraw, |_, _| released()).await;
    assert!(!trying.is_finished());
    (stage, trying, claim.ballot)
}

#[tokio::test(start_paused = true)]
async fn a_try_waits_for_the_node_that_makes_a_quorum_name_one() {
    let (stage, trying, _) = refused_by_two().await;
    stage.answer(4, || held(60));
    assert!(trying.await.unwrap().unwrap().is_none());
    stage.quiet_for(5 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn try_with_split_votes_claims_again_with_a_higher_ballot() {
    let (stage, trying, ballot) = refused_by_two().await;
    stage.pause_long();
    stage.answer(4, granted);
    assert!(stage.asked_after().await > MS, "after a pause");
    let claim = stage.round(Verb::Claim, |_, _| granted()).await;
    assert!(claim.ballot > ballot);
    assert!(trying.await.unwrap().unwrap().is_some_and(|guard| guard.is_held()));
}

#[tokio::test(start_paused = true)]
async fn error_lists_the_reply_and_the_cause_of_each_node() {
    let stage = Stage::new(3);
    let trying = stage.try_acquire();
    let broken = || Fault::new(FaultKind::Closed, "the pipe broke").caused_by(std::io::Error::other("a broken pipe"));
    stage.round(Verb::Claim, |node, _| if node == 0 { held(60) } else { Some(Err(broken())) }).await;
    let error = trying.await.unwrap().unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("a quorum is out of reach"), "{error}");
    assert!(
        error.nodes()[0].said.starts_with("its last answer: held by somebody")
            && error.nodes()[1].said.contains("pipe broke")
    );
    let causes: Vec<_> = error.nodes().iter().map(|node| node.cause).collect();
    assert_eq!(causes, [NodeCause::Held, NodeCause::Silent, NodeCause::Silent]);
    assert!(error.source().is_some_and(|cause| cause.to_string().contains("a broken pipe")));
}

#[tokio::test(start_paused = true)]
async fn looking_at_a_name_waits_for_all_nodes_and_no_longer() {
    let stage = Stage::new(3);
    let quorum = stage.quorum.clone();
    let looking = tokio::spawn(async move { quorum.inspect("it").await });
    let free = || Some(Ok(Outcome::Inspected(vec![quorumlock::node::Inspection::free(7)])));
    stage.round(Verb::Inspect, |node, _| if node < 2 { free() } else { SILENCE }).await;
    sleep(10 * MS).await;
    assert!(!looking.is_finished());
    stage.answer(2, free);
    let began = Instant::now();
    let seen = looking.await.unwrap().unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert!(seen.nodes.iter().all(|(_, said)| said.as_ref().is_ok_and(|said| said.fence == 7)));
}

/// The caller's thread reads the clock, and stands still before the votes are counted. So the
/// decision must use the time after the votes were counted.
#[tokio::test(start_paused = true)]
async fn caller_that_stalls_before_votes_are_counted_wins_nothing() {
    let stage = Stage::new(3);
    let acquiring = stage.acquire(SECOND);
    stage.round(Verb::Claim, |_, _| SILENCE).await;
    stage.stand_still_before(2, 6);
    stage.answer(0, granted);
    stage.answer(1, granted);
    stage.round(Verb::Release, |_, _| released()).await;
    let error = acquiring.await.unwrap().unwrap_err();
    assert!(error.is_unavailable(), "{error}");
}
