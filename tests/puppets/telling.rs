//! Logs and metrics: they come after the events that they report. A logger or a recorder that
//! panics stops nothing else.

use std::fmt;
use std::sync::{Arc, Mutex, mpsc};

use metrics::{Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, SharedString, Unit};
use quorumlock::node::{FaultKind, Outcome, Verb};
use quorumlock::{LockGuard, LostReason, Session};
use tokio::runtime::Handle;
use tokio::time::sleep;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Subscriber};

use crate::answers::{Answer, fault, granted, released};
use crate::beside::listens;
use crate::stage::{MS, SECOND, Stage};

/// Runs a function for each metric that is recorded, and for each line that is logged.
#[derive(Clone, Default)]
struct Watcher(Arc<Mutex<Option<Watch>>>);

type Watch = Box<dyn FnMut(&str) + Send>;

impl Watcher {
    fn sees(&self, what: &str) {
        // Run the function outside of the lock: it may panic, and it may cause further metrics.
        let watch = self.0.lock().unwrap().take();
        if let Some(mut watch) = watch {
            watch(what);
            self.0.lock().unwrap().get_or_insert(watch);
        }
    }

    fn begin(&self, watch: impl FnMut(&str) + Send + 'static) {
        *self.0.lock().unwrap() = Some(Box::new(watch));
    }
}

struct Meter(Watcher, String);

impl Meter {
    fn new(watcher: &Watcher, key: &Key) -> Arc<Self> {
        let labels: Vec<_> = key.labels().map(|label| format!("{{{}}}", label.value())).collect();
        Arc::new(Self(watcher.clone(), key.name().to_owned() + &labels.concat()))
    }

    fn sees(&self) {
        self.0.sees(&self.1);
    }
}

impl CounterFn for Meter {
    fn increment(&self, _: u64) {
        self.sees();
    }

    fn absolute(&self, _: u64) {
        self.sees();
    }
}

impl GaugeFn for Meter {
    fn increment(&self, _: f64) {
        self.sees();
    }

    fn decrement(&self, _: f64) {
        self.sees();
    }

    fn set(&self, _: f64) {
        self.sees();
    }
}

impl HistogramFn for Meter {
    fn record(&self, _: f64) {
        self.sees();
    }
}

impl metrics::Recorder for Watcher {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Meter::new(self, key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Meter::new(self, key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Meter::new(self, key))
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

impl Subscriber for Watcher {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("quorumlock")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.sees(&line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A quorum of which all logs and metrics are watched. A test runs on one thread.
struct Watched {
    stage: Stage,
    watcher: Watcher,
    _log: DefaultGuard,
}

impl Watched {
    fn new() -> Self {
        let watcher = Watcher::default();
        let _log = listens(watcher.clone());
        let stage = metrics::with_local_recorder(&watcher, || Stage::with(3, true, |builder| builder.ttl(3 * SECOND)));
        Self { stage, watcher, _log }
    }

    /// Panics each time that `what` is logged or recorded.
    fn panics_at(&self, what: &'static str) {
        let again = self.watcher.clone();
        self.watcher.begin(panicking(again, what));
    }
}

/// Sets the next watch before it panics, since a watch that panics is not put back.
fn panicking(watcher: Watcher, what: &'static str) -> impl FnMut(&str) + Send + 'static {
    move |seen| {
        let again = watcher.clone();
        watcher.begin(panicking(again, what));
        assert!(seen != what, "{what} is seen");
    }
}

fn extended() -> Answer {
    Some(Ok(Outcome::Extended))
}

fn taken() -> Answer {
    Some(Ok(Outcome::Lost { holder: "somebody".to_owned() }))
}

/// Lets a lock be lost for this reason. If no node answers its renewals, the lock is lost at its
/// deadline.
async fn lose(stage: &Stage, guard: &LockGuard, reason: LostReason) {
    match reason {
        LostReason::Forgotten => drop(stage.round(Verb::Renew, |_, _| taken()).await),
        LostReason::Closed => stage.quorum.shutdown(SECOND / 10).await,
        _ => {}
    }
    assert_eq!(guard.lost().await, reason);
}

/// A logger or recorder may block or panic. Before it runs, the holder must know of the loss, and a
/// shutdown must have sent its releases.
#[tokio::test(start_paused = true)]
async fn a_loss_is_counted_and_logged_after_its_holder_was_told() {
    for reason in [LostReason::Forgotten, LostReason::Expired, LostReason::Closed] {
        let Watched { stage, watcher, _log } = Watched::new();
        let (guard, _) = stage.won().await;
        let (told, asked, seen) = (guard.cancellation(), stage.asked(Verb::Release), Arc::<Mutex<Vec<_>>>::default());
        let sights = seen.clone();
        watcher.begin(move |what| sights.lock().unwrap().push((what.to_owned(), told.is_cancelled(), asked())));
        lose(&stage, &guard, reason).await;
        let lost = format!("quorumlock_locks_lost_total{{default}}{{{}}}", reason.as_str());
        let of_loss = [
            "lock lost",
            &lost,
            "quorumlock_locks_held{default}",
            "quorumlock_hold_duration_seconds{default}",
            "quorumlock_renewals_total{default}{lost}",
        ];
        let mut seen = std::mem::take(&mut *seen.lock().unwrap());
        seen.retain(|(what, ..)| of_loss.contains(&what.as_str()));
        let closed = reason == LostReason::Closed;
        assert!(seen.iter().all(|(_, told, asked)| *told && *asked == closed), "{reason:?}: {seen:#?}");
        assert!(seen.len() >= 4, "{reason:?}: {seen:#?}");
    }
}

async fn renewed(stage: &Stage, guard: &LockGuard) {
    for _ in 0..5 {
        stage.round(Verb::Renew, |_, _| extended()).await;
        sleep(MS).await;
        assert!(guard.remaining() > 2 * SECOND, "it is renewed for a whole ttl: {:?}", guard.remaining());
    }
}

#[tokio::test(start_paused = true)]
async fn recorder_panic_at_renewals_stops_no_lock_renewal() {
    for what in ["quorumlock_renewals_total{default}{extended}", "quorumlock_renewal_margin_ratio{default}"] {
        let watched = Watched::new();
        let (guard, _) = watched.stage.won().await;
        watched.panics_at(what);
        renewed(&watched.stage, &guard).await;
    }
}

#[tokio::test(start_paused = true)]
async fn recorder_panic_at_an_unclear_renewal_keeps_the_next_one() {
    let watched = Watched::new();
    let (guard, _) = watched.stage.won().await;
    watched.panics_at("quorumlock_renewals_total{default}{unclear}");
    watched.stage.round(Verb::Renew, |_, _| fault(FaultKind::Timeout)).await;
    renewed(&watched.stage, &guard).await;
}

#[tokio::test(start_paused = true)]
async fn panic_at_the_loss_of_a_lock_spares_the_other_lock() {
    let of_loss = [
        "quorumlock_locks_lost_total{default}{refused}",
        "quorumlock_hold_duration_seconds{default}",
        "quorumlock_renewals_total{default}{lost}",
    ];
    for what in of_loss.into_iter().chain(["lock lost"]) {
        let watched = Watched::new();
        let (stage, one) = (&watched.stage, watched.stage.won().await.0);
        watched.panics_at(what);
        lose(stage, &one, LostReason::Forgotten).await;
        stage.round(Verb::Release, |_, _| released()).await;
        let acquiring = stage.acquire_other("other", SECOND);
        stage.round(Verb::Claim, |_, _| granted()).await;
        let other = acquiring.await.unwrap().unwrap();
        renewed(stage, &other).await;
        lose(stage, &other, LostReason::Expired).await;
    }
}

/// A session that holds these names, each by a claim of its own.
async fn session(stage: &Stage, names: &[&'static str]) -> Session {
    let session = stage.quorum.session().grant(SECOND).await.unwrap();
    for &name in names {
        let locking = session.clone();
        let locking = tokio::spawn(async move { locking.lock([name], SECOND).await });
        stage.round(Verb::Claim, |_, _| granted()).await;
        locking.await.unwrap().unwrap();
    }
    session
}

/// As `lose`, for a session.
async fn lose_session(stage: &Stage, session: &Session, reason: LostReason) {
    match reason {
        LostReason::Forgotten => drop(stage.round(Verb::Renew, |_, _| taken()).await),
        LostReason::Closed => stage.quorum.shutdown(SECOND / 10).await,
        _ => {}
    }
    assert_eq!(session.lost().await, reason);
}

#[tokio::test(start_paused = true)]
async fn session_loss_is_recorded_after_its_holder_is_notified() {
    for reason in [LostReason::Forgotten, LostReason::Expired, LostReason::Closed] {
        let Watched { stage, watcher, _log } = Watched::new();
        let session = session(&stage, &["a", "b"]).await;
        let (told, asked, seen) = (session.cancellation(), stage.asked(Verb::Release), Arc::<Mutex<Vec<_>>>::default());
        let sights = seen.clone();
        watcher.begin(move |what| sights.lock().unwrap().push((what.to_owned(), told.is_cancelled(), asked())));
        lose_session(&stage, &session, reason).await;
        let lost = format!("quorumlock_locks_lost_total{{default}}{{{}}}", reason.as_str());
        let of_loss =
            ["session lost", &lost, "quorumlock_locks_held{default}", "quorumlock_hold_duration_seconds{default}"];
        let mut seen = std::mem::take(&mut *seen.lock().unwrap());
        seen.retain(|(what, ..)| of_loss.contains(&what.as_str()));
        let closed = reason == LostReason::Closed;
        assert!(seen.iter().all(|(_, told, asked)| *told && *asked == closed), "{reason:?}: {seen:#?}");
        assert_eq!(seen.len(), 7, "{reason:?}: {seen:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn panic_at_the_loss_of_a_session_still_notifies_its_holder() {
    let of_loss = [
        "quorumlock_locks_lost_total{default}{refused}",
        "quorumlock_hold_duration_seconds{default}",
        "quorumlock_locks_held{default}",
        "session lost",
    ];
    for what in of_loss {
        let watched = Watched::new();
        let stage = &watched.stage;
        let session = session(stage, &["a", "b"]).await;
        let token = session.cancellation();
        watched.panics_at(what);
        lose_session(stage, &session, LostReason::Forgotten).await;
        assert!(token.is_cancelled(), "{what}");
        stage.some(0..3, Verb::Renew, |_, _| taken()).await;
        for _ in 0..2 {
            stage.round(Verb::Release, |_, _| released()).await;
        }
    }
}

/// Several renewals were sent at one moment. The client must use the replies to each renewal.
#[tokio::test(start_paused = true)]
async fn recorder_panic_at_renewals_stops_no_session_renewal() {
    for what in ["quorumlock_renewals_total{default}{extended}", "quorumlock_renewal_margin_ratio{default}"] {
        let watched = Watched::new();
        let (stage, session) = (&watched.stage, session(&watched.stage, &["a", "b"]).await);
        watched.panics_at(what);
        for _ in 0..5 {
            stage.round(Verb::Renew, |_, _| extended()).await;
            stage.round(Verb::Renew, |_, _| extended()).await;
            sleep(MS).await;
            assert!(session.remaining() > 2 * SECOND, "both are renewed for a whole ttl: {:?}", session.remaining());
        }
    }
}

/// If a caller notices that the time of a session is over, loggers run within the caller's call. A
/// logger may wait for another user of the session.
#[tokio::test(start_paused = true)]
async fn logger_of_a_session_loss_may_wait_for_another_caller() {
    let Watched { stage, watcher, _log } = Watched::new();
    let session = session(&stage, &["a"]).await;
    let other = session.clone();
    let mut waits = Box::pin(async move { other.lock(["b"], 60 * SECOND).await });
    assert!(futures::poll!(&mut waits).is_pending());
    let gone = Arc::<Mutex<Vec<bool>>>::default();
    let (mut waits, noted, handle) = (Some(waits), gone.clone(), Handle::current());
    watcher.begin(move |what| {
        if what == "session lost" {
            let (waits, handle, (said, hears)) = (waits.take(), handle.clone(), mpsc::channel());
            std::thread::spawn(move || {
                let _entered = handle.enter();
                drop(waits);
                said.send(())
            });
            noted.lock().unwrap().push(hears.recv_timeout(10 * SECOND).is_ok());
        }
    });
    // No task of this process runs before the next call.
    assert!(futures::poll!(Box::pin(tokio::time::advance(60 * SECOND))).is_pending());
    assert!(session.try_lock(["c"]).await.unwrap_err().is_lost());
    assert_eq!(*gone.lock().unwrap(), [true]);
}
