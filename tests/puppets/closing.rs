//! The end of a quorum: connections are closed when what it may hold was released, and not before.

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

/// Another thread begins to shut down when the client reads its clock and `moment` is true, and
/// goes on as a task.
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

/// What was asked to release answers now; until then nothing is closed.
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
async fn a_lock_that_is_won_while_another_thread_shuts_down_is_released_before_connections_end() {
    let stage = Stage::new(3);
    let acquiring = stage.acquire(60 * SECOND);
    let claim = stage.round(Verb::Claim, |_, _| SILENCE).await;
    // The caller looks at the time when it has its votes; from there on it asks nobody whether it
    // may go on.
    let closing = shutdown_when(&stage, || true);
    (0..3).for_each(|node| stage.answer(node, granted));
    assert!(acquiring.await.unwrap().unwrap_err().is_closed());
    let release = stage.round(Verb::Release, |_, _| SILENCE).await;
    assert_eq!((&release.owner, release.ballot), (&claim.owner, claim.ballot));
    closes_when_released(&stage, closing.recv().unwrap()).await;
}

/// Its renewal is under way, and its deadline's timer has just fired and is about to be set anew:
/// no timer is set for it.
#[tokio::test(start_paused = true)]
async fn a_lock_whose_timer_is_just_set_anew_while_another_thread_shuts_down_is_lost_too() {
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

/// Its timers are gone, by which a shutdown finds a lock, and its release has not been sent yet.
#[tokio::test(start_paused = true)]
async fn a_guard_that_is_dropped_while_another_thread_shuts_down_is_released_before_connections_end() {
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
async fn a_caller_that_begins_while_another_thread_shuts_down_asks_nobody() {
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
