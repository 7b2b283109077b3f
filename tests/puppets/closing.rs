//! The end of a `Quorum`: it closes its connections once every hold that it may have is released,
//! and not before.

use std::sync::mpsc::{Receiver, channel};

use futures::FutureExt;
use quorumlock::LostReason;
use quorumlock::node::{Outcome, Verb};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::answers::{SILENCE, granted, released};
use crate::stage::{MS, Reading, SECOND, Stage};

fn shutdown(stage: &Stage) -> JoinHandle<()> {
    let quorum = stage.quorum.clone();
    tokio::spawn(async move { quorum.shutdown(10 * SECOND).await })
}

/// When the client reads its clock and `moment` is true, another thread begins a shutdown. After
/// that, the shutdown goes on as a task.
fn shutdown_when(stage: &Stage, moment: impl Fn() -> bool + Send + 'static) -> Receiver<JoinHandle<()>> {
    let (begun, closing) = channel();
    let quorum = stage.quorum.clone();
    stage.meanwhile(Reading::Now, move || {
        if !moment() {
            return false;
        }
        let quorum = quorum.clone();
        let mut shutdown = Box::pin(async move { quorum.shutdown(10 * SECOND).await });
        let ended = (&mut shutdown).now_or_never().is_some();
        begun
            .send(tokio::spawn(async move {
                if !ended {
                    shutdown.await
                }
            }))
            .unwrap();
        true
    });
    closing
}

/// Checks that no connection is closed before the nodes answer the releases, and that all are
/// closed afterwards.
async fn closes_when_released(stage: &Stage, closing: JoinHandle<()>) {
    sleep(MS).await;
    assert!(!closing.is_finished() && !stage.closed());
    (0..3).for_each(|node| stage.answer(node, released));
    closing.await.unwrap();
    assert!(stage.closed());
}

#[tokio::test(start_paused = true)]
async fn a_claim_under_way_is_released_before_connections_end() {
    let stage = Stage::new(3);
    let acquiring = stage.acquire(60 * SECOND);
    let claim = stage.round(Verb::Claim, |_, _| SILENCE).await;
    let closing = shutdown(&stage);
    assert!(acquiring.await.unwrap().unwrap_err().is_closed());
    let release = stage.round(Verb::Release, |_, _| SILENCE).await;
    assert_eq!((&release.owner, release.ballot), (&claim.owner, claim.ballot));
    closes_when_released(&stage, closing).await;
}

#[tokio::test(start_paused = true)]
async fn lock_won_during_shutdown_is_released_before_nodes_close() {
    let stage = Stage::new(3);
    let acquiring = stage.acquire(60 * SECOND);
    let claim = stage.round(Verb::Claim, |_, _| SILENCE).await;
    // The caller reads the clock when it has its votes. After that, the caller does not check again
    // whether the quorum was shut down.
    let closing = shutdown_when(&stage, || true);
    (0..3).for_each(|node| stage.answer(node, granted));
    assert!(acquiring.await.unwrap().unwrap_err().is_closed());
    let release = stage.round(Verb::Release, |_, _| SILENCE).await;
    assert_eq!((&release.owner, release.ballot), (&claim.owner, claim.ballot));
    closes_when_released(&stage, closing.recv().unwrap()).await;
}

/// The lock's renewal is under way. The timer of its deadline has just fired, and is about to be
/// set anew. So at this moment the lock has no timer.
#[tokio::test(start_paused = true)]
async fn lock_whose_timer_is_being_reset_is_lost_at_shutdown() {
    let stage = Stage::with(3, true, |builder| builder.ttl(9 * SECOND));
    let (guard, claim) = stage.won().await;
    stage.round(Verb::Renew, |_, _| Some(Ok(Outcome::Extended))).await;
    for _ in 0..2 {
        stage.round(Verb::Renew, |_, _| SILENCE).await;
    }
    let quorum = stage.quorum.clone();
    let closing = shutdown_when(&stage, move || quorum.in_use().1 == 0);
    assert_eq!(guard.lost().await, LostReason::Closed);
    let release = stage.round(Verb::Release, |_, _| SILENCE).await;
    assert_eq!(release.owner, claim.owner);
    closes_when_released(&stage, closing.recv().unwrap()).await;
}

/// A shutdown finds locks by their timers. The timers of this lock are gone, and its release has
/// not been sent yet.
#[tokio::test(start_paused = true)]
async fn guard_dropped_during_shutdown_is_released_before_nodes_close() {
    let stage = Stage::new(3);
    let (guard, claim) = stage.won().await;
    let quorum = stage.quorum.clone();
    let closing = shutdown_when(&stage, move || quorum.in_use().1 == 0);
    drop(guard);
    let release = stage.round(Verb::Release, |_, _| SILENCE).await;
    assert_eq!(release.owner, claim.owner);
    closes_when_released(&stage, closing.recv().unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn caller_that_begins_during_shutdown_sends_no_request() {
    let stage = Stage::new(3);
    let quorum = stage.quorum.clone();
    stage.meanwhile(Reading::Wall, move || {
        quorum.shutdown(10 * SECOND).now_or_never().expect("nothing is under way, so it waits for nothing");
        true
    });
    let error = stage.quorum.lock("it").acquire(60 * SECOND).await.unwrap_err();
    assert!(error.is_closed() && stage.closed(), "{error}");
    stage.quiet_for(10 * SECOND).await;
}
