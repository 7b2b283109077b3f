//! Callers of one process: only the first asks nodes, and the others learn the results of its
//! rounds.

use quorumlock::LockOptions;
use quorumlock::node::{FaultKind, Verb};
use tokio::time::{Instant, sleep};

use crate::answers::{SILENCE, fault, granted, held, released};
use crate::stage::{MS, SECOND, Stage};

#[tokio::test(start_paused = true)]
async fn try_behind_a_caller_shares_its_replies_and_sends_nothing() {
    let stage = Stage::new(3);
    let _first = stage.acquire(60 * SECOND);
    stage.round(Verb::Claim, |_, _| SILENCE).await;
    let second = stage.try_acquire();
    stage.quiet_for(100 * MS).await;
    assert!(!second.is_finished());
    (0..3).for_each(|node| stage.answer(node, || held(60)));
    assert!(second.await.unwrap().unwrap().is_none());
    stage.quiet_for(SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn try_takes_the_turn_of_a_caller_that_gives_up() {
    let stage = Stage::new(3);
    let first = stage.acquire(60 * SECOND);
    stage.round(Verb::Claim, |_, _| SILENCE).await;
    let second = stage.try_acquire();
    sleep(MS).await;
    first.abort();
    stage.round(Verb::Release, |_, _| released()).await;
    stage.round(Verb::Claim, |_, _| granted()).await;
    assert!(second.await.unwrap().unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn try_behind_an_unanswered_caller_is_unavailable() {
    let stage = Stage::new(3);
    let _first = stage.acquire(60 * SECOND);
    stage.round(Verb::Claim, |_, _| SILENCE).await;
    sleep(1_500 * MS).await;
    let began = Instant::now();
    let error = stage.try_acquire().await.unwrap().unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(began.elapsed() <= 2_002 * MS, "{:?}", began.elapsed());
    // Meanwhile the first caller has ended its round, and still has no answer.
    stage.round(Verb::Withdraw, |_, _| SILENCE).await;
}

#[tokio::test(start_paused = true)]
async fn try_with_a_short_round_reports_silence_as_unavailable() {
    let stage = Stage::new(3);
    let _first = stage.acquire(60 * SECOND);
    stage.round(Verb::Claim, |_, _| SILENCE).await;
    let options = stage.quorum.options().round_timeout(100 * MS);
    let began = Instant::now();
    // The first caller is still in its first round, so nobody has an answer yet.
    let error = stage.quorum.lock_with("it", &options).unwrap().try_acquire().await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(began.elapsed() <= 102 * MS, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn waiter_behind_a_caller_with_no_quorum_is_unavailable() {
    let stage = Stage::new(3);
    let _first = stage.acquire(60 * SECOND);
    let second = stage.acquire(SECOND);
    stage.pause_long();
    stage.round(Verb::Claim, |_, _| fault(FaultKind::Down)).await;
    // Until the second caller gives up, the first caller goes on asking.
    while !second.is_finished() {
        stage.round(Verb::Claim, |_, _| fault(FaultKind::Down)).await;
    }
    let error = second.await.unwrap().unwrap_err();
    assert!(error.is_unavailable() && error.nodes().iter().all(|node| node.said == "down"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn turn_that_comes_after_the_timeout_goes_to_the_next_caller() {
    // A caller with `fair` off asks only when the caller before it has gone.
    let stage = Stage::with(3, true, |builder| builder.options(LockOptions::default().fair(false)));
    let (guard, _) = stage.won().await;
    let late = stage.acquire(100 * MS);
    sleep(MS).await;
    let next = stage.acquire(60 * SECOND);
    // The timeout passes and the guard is dropped before either caller runs again.
    tokio::time::advance(100 * MS).await;
    drop(guard);
    assert!(late.await.unwrap().unwrap_err().is_timeout());
    stage.asked_after().await;
    assert!(!next.is_finished(), "it is asking");
}
