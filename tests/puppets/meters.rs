//! Metrics of waiters, late grants and held locks.

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use quorumlock::node::{Outcome, Verb};
use tokio::time::sleep;

use crate::answers::{SILENCE, granted, held, nothing_held, released};
use crate::stage::{MS, SECOND, Stage};

/// Records the metrics of this thread. A test runs on one thread.
fn recorder() -> (PrometheusRecorder, PrometheusHandle) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    (recorder, handle)
}

/// The value of a series, zero if there is none.
fn value(handle: &PrometheusHandle, series: &str) -> f64 {
    let text = handle.render();
    let found = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok());
    found.unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn withdrawal_that_finds_an_unconfirmed_hold_counts_late_grant() {
    let cases = [(granted(), released(), 0.0), (SILENCE, released(), 1.0), (SILENCE, nothing_held(), 0.0)];
    for (claimed, found, late) in cases {
        let (recorder, handle) = recorder();
        let _recording = metrics::set_default_local_recorder(&recorder);
        let stage = Stage::new(3);
        let _trying = stage.try_acquire();
        stage.round(Verb::Claim, |node, _| if node == 0 { claimed.clone() } else { held(60) }).await;
        stage.only(&[0], Verb::Withdraw, |_, _| found.clone()).await;
        assert_eq!(value(&handle, "quorumlock_late_grants_total{quorum=\"default\"}"), late, "{claimed:?}, {found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn queued_acquisition_is_counted_until_it_wins_or_gives_up() {
    for wins in [true, false] {
        let (recorder, handle) = recorder();
        let _recording = metrics::set_default_local_recorder(&recorder);
        let stage = Stage::new(3);
        let waiting = stage.acquire(60 * SECOND);
        stage.round(Verb::Claim, |_, _| held(60)).await;
        sleep(MS).await;
        assert_eq!(value(&handle, "quorumlock_waiting_acquisitions{quorum=\"default\"}"), 1.0);
        if wins {
            stage.missed(0);
            stage.round(Verb::Claim, |_, _| granted()).await;
        } else {
            waiting.abort();
            stage.round(Verb::Release, |_, _| released()).await;
        }
        sleep(MS).await;
        assert_eq!(
            value(&handle, "quorumlock_waiting_acquisitions{quorum=\"default\"}"),
            0.0,
            "it has the lock: {wins}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn session_lock_is_counted_until_its_last_name_is_free() {
    let (recorder, handle) = recorder();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let stage = Stage::new(3);
    let session = stage.quorum.session().grant(SECOND).await.unwrap();
    let held = || value(&handle, "quorumlock_locks_held{quorum=\"default\"}");
    for names in [&["a", "b"][..], &["c"]] {
        let locking = session.clone();
        let locking = tokio::spawn(async move { locking.lock(names, SECOND).await });
        stage.round(Verb::Claim, |_, _| granted()).await;
        locking.await.unwrap().unwrap();
    }
    assert_eq!(value(&handle, "quorumlock_acquisitions_total{quorum=\"default\",outcome=\"acquired\"}"), 2.0);
    for (name, left) in [("a", 2.0), ("b", 1.0)] {
        let unlocking = session.clone();
        let unlocking = tokio::spawn(async move { unlocking.unlock([name]).await });
        stage.round(Verb::Release, |_, _| released()).await;
        unlocking.await.unwrap().unwrap();
        assert_eq!(held(), left, "{name}");
    }
    let lost = Some(Ok(Outcome::Lost { holder: String::new() }));
    stage.round(Verb::Renew, |_, _| lost.clone()).await;
    session.lost().await;
    assert_eq!(
        (held(), value(&handle, "quorumlock_locks_lost_total{quorum=\"default\",reason=\"revoked\"}")),
        (0.0, 1.0)
    );
}
