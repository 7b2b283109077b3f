//! Time, random numbers, background tasks and the machine's name. No other module reads a clock.
//!
//! This module is public only with the feature `unstable`: any release may change it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rand::RngCore;
use tokio::runtime::Handle;

use crate::rules::Tick;

/// A future that a host runs to its end.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A source of time, random numbers and tasks. Simulations implement this trait themselves.
pub trait Host: fmt::Debug + Send + Sync + 'static {
    /// The time on a clock that never goes back, and that runs on while the machine is suspended.
    fn now(&self) -> Tick;
    /// The time since the Unix epoch by the wall clock, which may be wrong and may be stepped.
    fn wall(&self) -> Duration;
    /// A random number, evenly distributed.
    fn random(&self) -> u64;
    /// Runs `task` in the background.
    fn spawn(&self, task: Task);
    /// The caller's runtime, if the background tasks run on another one. That other one may end
    /// first.
    fn elsewhere(&self) -> Option<Handle> {
        None
    }
}

/// The machine's clocks and random numbers, and the Tokio runtime on which the quorum was
/// connected.
#[derive(Debug)]
pub struct System {
    runtime: Handle,
}

impl System {
    /// Makes a host that runs its tasks on `runtime`.
    #[must_use]
    pub const fn new(runtime: Handle) -> Self {
        Self { runtime }
    }
}

impl Host for System {
    fn now(&self) -> Tick {
        Tick::new(monotonic())
    }

    fn wall(&self) -> Duration {
        wall()
    }

    fn random(&self) -> u64 {
        rand::thread_rng().next_u64()
    }

    fn spawn(&self, task: Task) {
        drop(self.runtime.spawn(task));
    }

    fn elsewhere(&self) -> Option<Handle> {
        elsewhere(&self.runtime)
    }
}

fn elsewhere(home: &Handle) -> Option<Handle> {
    Handle::try_current().ok().filter(|current| current.id() != home.id())
}

/// Tokio's clock, which tests can pause and advance; for quorums of memory nodes.
#[derive(Debug)]
pub struct TokioTime {
    runtime: Handle,
    origin: tokio::time::Instant,
}

impl TokioTime {
    /// Starts the clock. Call this within `runtime`, on which the tasks will run.
    #[must_use]
    pub fn new(runtime: Handle) -> Self {
        Self { runtime, origin: tokio_now() }
    }
}

impl Host for TokioTime {
    fn now(&self) -> Tick {
        Tick::new(tokio_now() - self.origin)
    }

    fn wall(&self) -> Duration {
        wall()
    }

    fn random(&self) -> u64 {
        rand::thread_rng().next_u64()
    }

    fn spawn(&self, task: Task) {
        drop(self.runtime.spawn(task));
    }

    fn elsewhere(&self) -> Option<Handle> {
        elsewhere(&self.runtime)
    }
}

/// The longest sleep between two readings of the clock. While the machine is suspended, timers
/// stand still, but leases expire.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// Whether the caller is on a Tokio runtime, without which it cannot wait.
#[must_use]
pub fn can_wait() -> bool {
    Handle::try_current().is_ok()
}

/// Waits until `until` by the host's clock.
///
/// # Cancel safety
/// Safe: a dropped future leaves nothing behind.
pub async fn sleep_until(host: &Arc<dyn Host>, until: Tick) {
    loop {
        let left = until.since(host.now());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(LONGEST_SLEEP)).await;
    }
}

/// Waits for `future`, until `until` at most. `None` if `future` has not ended by `until`.
///
/// # Cancel safety
/// This is as cancel safe as `future`.
pub async fn before<F: Future>(host: &Arc<dyn Host>, until: Tick, future: F) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = sleep_until(host, until) => None,
    }
}

/// Runs work that may block for ever, such as a DNS lookup, in a new thread. On a thread of the
/// runtime, such work would keep the runtime from ending. Fails if no new thread can be started.
pub(crate) fn apart<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<tokio::sync::oneshot::Receiver<T>> {
    let (done, waits) = tokio::sync::oneshot::channel();
    let thread = std::thread::Builder::new().name("quorumlock".to_owned());
    thread.spawn(move || drop(done.send(work())))?;
    Ok(waits)
}

/// The machine's name, or `unknown`.
#[cfg(unix)]
pub(crate) fn machine() -> String {
    plain(&rustix::system::uname().nodename().to_string_lossy())
}

/// The machine's name, or `unknown`. The ids of clients differ even without a name.
#[cfg(not(unix))]
pub(crate) fn machine() -> String {
    plain(&std::env::var("COMPUTERNAME").unwrap_or_default())
}

/// Makes a name of at most 64 letters, digits, `.`, `_` and `-`. Owner ids are split at slashes,
/// and published messages at spaces, so the name must have neither.
fn plain(name: &str) -> String {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    let plain: String = name.chars().take(64).map(|letter| if allowed(letter) { letter } else { '-' }).collect();
    if plain.is_empty() { "unknown".to_owned() } else { plain }
}

#[allow(clippy::disallowed_methods, reason = "this is the one module that reads clocks")]
fn tokio_now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

#[allow(clippy::disallowed_methods, reason = "this is the one module that reads clocks")]
fn wall() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

/// Reads `CLOCK_BOOTTIME`, which counts the time for which the machine is suspended. Leases expire
/// in this time, but `CLOCK_MONOTONIC` does not count it.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn monotonic() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// The standard monotonic clock. On macOS and the BSDs, it does not count suspended time.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[allow(clippy::disallowed_methods, reason = "this is the one module that reads clocks")]
fn monotonic() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    ORIGIN.get_or_init(Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monotonic_clock_never_goes_back() {
        let readings: Vec<_> = (0..1_000).map(|_| monotonic()).collect();
        assert!(readings.is_sorted());
    }

    #[test]
    fn a_machines_name_has_nothing_that_ends_a_word_or_a_path() {
        for (name, told) in
            [("eu-1.db_2", "eu-1.db_2"), ("my laptop\n", "my-laptop-"), ("a/b!\u{fc}", "a-b--"), ("", "unknown")]
        {
            assert_eq!(plain(name), told);
        }
        assert_eq!(plain(&"x".repeat(300)).len(), 64);
        assert_eq!(machine(), plain(&machine()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_ends_at_its_moment_and_not_before() {
        let host: Arc<dyn Host> = Arc::new(TokioTime::new(Handle::current()));
        let until = host.now() + Duration::from_millis(3_500);
        sleep_until(&host, until).await;
        assert!(host.now() >= until && host.now() < until + Duration::from_millis(5));
    }
}
