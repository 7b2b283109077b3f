//! A `Quorum` that was connected on one runtime, and is used on another runtime. The first runtime
//! may have ended, or stand still.

use std::future::pending;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use quorumlock::{LockGuard, LostReason, Quorum};
use tokio::runtime::{Builder, Runtime};

use crate::common::{PATIENCE, eventually};

const TTL: Duration = Duration::from_millis(400);
/// Extra time, since machines may stall.
const SLACK: Duration = Duration::from_secs(30);
const SECOND: Duration = Duration::from_secs(1);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// What happens to the runtime on which the quorum was connected.
#[derive(Clone, Copy, Debug)]
enum Home {
    Ended,
    /// The runtime exists, and nothing drives it.
    Still,
}

/// A quorum whose runtime stands still.
fn quorum(ttl: Duration) -> (Quorum, Runtime) {
    let runtime = runtime();
    let quorum = runtime.block_on(async { Quorum::builder().ttl(ttl).in_memory(3) }).unwrap();
    (quorum, runtime)
}

/// Ends the runtime, or keeps it without driving it.
fn becomes(home: Home, runtime: Runtime) -> Option<Runtime> {
    match home {
        Home::Ended => thread::spawn(move || drop(runtime)).join().map(|()| None).unwrap(),
        Home::Still => Some(runtime),
    }
}

/// A lock of a quorum whose runtime has ended or stands still.
async fn orphan(home: Home) -> (LockGuard, Option<Runtime>) {
    let (quorum, runtime) = thread::spawn(|| quorum(TTL)).join().unwrap();
    let guard = quorum.lock("it").acquire(PATIENCE).await.unwrap();
    (guard, becomes(home, runtime))
}

/// Runs the test on a runtime of its own, once for each `Home`.
fn each<F: Future<Output = Option<Runtime>>>(test: impl Fn(Home) -> F) {
    for home in [Home::Ended, Home::Still] {
        let here = runtime();
        let home = here.block_on(async { tokio::time::timeout(60 * SECOND, test(home)).await });
        drop(home.unwrap_or_else(|_| panic!("never told")));
    }
}

#[test]
fn lost_tells_by_the_deadline() {
    each(async |home| {
        let (guard, home) = orphan(home).await;
        let began = Instant::now();
        let left = guard.remaining();
        assert_eq!(guard.lost().await, LostReason::Expired);
        assert!(!guard.is_held());
        assert!((left..left + SLACK).contains(&(began.elapsed() + Duration::from_millis(2))), "{:?}", began.elapsed());
        home
    });
}

#[test]
fn run_drops_its_body_by_the_deadline() {
    each(async |home| {
        let (quorum, runtime) = thread::spawn(|| quorum(TTL)).join().unwrap();
        let (mut kept, began) = (None, Instant::now());
        let body = |_| {
            kept = becomes(home, runtime);
            pending::<()>()
        };
        let ran = quorum.lock("it").run(PATIENCE, body).await;
        assert!(ran.unwrap_err().is_lost());
        assert!(began.elapsed() < TTL + SLACK, "{:?}", began.elapsed());
        kept
    });
}

#[test]
fn a_cancellation_token_is_cancelled_by_the_deadline() {
    each(async |home| {
        let (guard, home) = orphan(home).await;
        let token = guard.cancellation();
        let began = Instant::now();
        token.cancelled().await;
        assert!(!guard.is_held());
        assert!(began.elapsed() < TTL + SLACK, "{:?}", began.elapsed());
        home
    });
}

/// Takes all cancellation tokens of one lock, and applies `end` to its guard. After that, no task
/// that watches the lock may be left on this runtime. Nobody renews the lock.
fn watchers_left(ttl: Duration, end: impl AsyncFnOnce(LockGuard)) {
    let (quorum, home) = quorum(ttl);
    let here = runtime();
    let all = async {
        let tasks = || here.metrics().num_alive_tasks();
        let guard = quorum.lock("it").acquire(PATIENCE).await.unwrap();
        let tokens: Vec<_> = (0..3).map(|_| guard.cancellation()).collect();
        assert_eq!(tasks(), 3);
        tokens[0].cancel();
        eventually("its own watcher has ended", async || tasks() < 3).await;
        let lease = guard.lease();
        end(guard).await;
        eventually("no watcher stays", async || tasks() == 0).await;
        assert!(lease.cancellation().is_cancelled() == tokens[1].is_cancelled());
        assert_eq!(tasks(), 0, "nothing is watched that has ended");
    };
    here.block_on(async { tokio::time::timeout(60 * SECOND, all).await.expect("never told") });
    drop(home);
}

#[test]
fn cancellation_watcher_ends_with_the_lock() {
    watchers_left(60 * SECOND, async |guard| {
        let token = guard.cancellation();
        guard.release().await.unwrap();
        assert!(!token.is_cancelled(), "a release is no loss");
    });
    watchers_left(60 * SECOND, async |guard| {
        let token = guard.cancellation();
        drop(guard);
        assert!(!token.is_cancelled(), "a release is no loss");
    });
    watchers_left(3 * SECOND, async |guard| {
        let token = guard.cancellation();
        guard.lost().await;
        assert!(token.is_cancelled());
    });
}

#[test]
fn loss_outside_of_a_runtime_is_reported_by_the_connecting_one() {
    let home = runtime();
    let guard = home.block_on(async {
        let quorum = Quorum::builder().ttl(TTL).in_memory(3).unwrap();
        let options = quorum.options().auto_renew(false);
        quorum.lock_with("it", &options).unwrap().acquire(PATIENCE).await.unwrap()
    });
    let (told, telling) = mpsc::channel();
    thread::spawn(move || told.send(futures::executor::block_on(guard.lost())));
    let reason = home.block_on(async {
        for _ in 0..5_000 {
            if let Ok(reason) = telling.try_recv() {
                return Some(reason);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        None
    });
    assert_eq!(reason, Some(LostReason::Expired));
}
