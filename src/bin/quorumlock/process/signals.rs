//! Signals that this process receives.

use std::future::poll_fn;
use std::task::Poll;

use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use super::orphans;
use crate::failure::Failure;

/// The highest number of a signal.
const LAST: i32 = 64;
/// Signals that this process does not catch. The first two cannot be caught. The next four report
/// faults of this process itself, and must end it. Rust programs ignore SIGPIPE, and the last two
/// have no effect by default.
const UNHEARD: [Signal; 9] = [
    Signal::KILL,
    Signal::STOP,
    Signal::ILL,
    Signal::BUS,
    Signal::FPE,
    Signal::SEGV,
    Signal::PIPE,
    Signal::URG,
    Signal::WINCH,
];
/// Signals by which people and supervisors ask a program to end. Other signals may be messages:
/// SIGHUP often means that a program should read its configuration again.
const ASKING: [Signal; 3] = [Signal::INT, Signal::QUIT, Signal::TERM];
/// Stop signals. A terminal sends these signals because of a key, or if a background process uses
/// the terminal.
const STOPPING: [Signal; 3] = [Signal::TSTP, Signal::TTIN, Signal::TTOU];

/// The signals that this value catches. A caught signal has no other effect on this process.
pub(crate) struct Signals(Vec<(Signal, Stream)>);

impl Signals {
    /// Catches all signals except those in [`UNHEARD`]. Signals that were ignored when this process
    /// started stay ignored, except SIGCHLD.
    ///
    /// If several signals have come, `next` returns SIGCONT last, because their order is unknown. A
    /// command that got a stop signal after SIGCONT would stay stopped.
    pub(crate) fn all() -> Result<Self, Failure> {
        let others = (1..=LAST).filter_map(known).filter(|signal| !UNHEARD.contains(signal) && *signal != Signal::CONT);
        Self::of(others.chain([Signal::CONT]))
    }

    /// Catches the signals that ask this process to end, including SIGHUP.
    pub(crate) fn ending() -> Result<Self, Failure> {
        Self::of([Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT])
    }

    /// Catches SIGCHLD: a child has ended, stopped or continued.
    pub(crate) fn children() -> Result<Self, Failure> {
        Self::of([Signal::CHILD])
    }

    fn of(signals: impl IntoIterator<Item = Signal>) -> Result<Self, Failure> {
        let ignored = ignored();
        // Always catch SIGCHLD: if it is ignored, exit statuses of children are lost.
        let heard = |signal: &Signal| *signal == Signal::CHILD || ignored >> (signal.as_raw() - 1) & 1 == 0;
        let stream = |of: Signal| signal(SignalKind::from_raw(of.as_raw())).map(|stream| (of, stream));
        let streams = signals.into_iter().filter(heard).map(stream).collect::<Result<_, _>>();
        streams.map(Self).map_err(|error| Failure::internal(format!("cannot listen for signals: {error}")))
    }

    /// Waits for the next signal.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            let mut streams = self.0.iter_mut();
            let came = streams.find_map(|(signal, stream)| stream.poll_recv(context).is_ready().then_some(*signal));
            came.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Waits for a signal that may ask this process to end. Use this while no command runs.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn end(&mut self) -> Signal {
        loop {
            match self.next().await {
                Signal::CHILD => orphans::reap(),
                signal if stops(signal) => stop_this_process(),
                signal if ends(signal) => return signal,
                _ => {}
            }
        }
    }
}

fn known(number: i32) -> Option<Signal> {
    Signal::from_named_raw(number).or_else(|| real_time(number))
}

#[cfg(target_os = "linux")]
fn real_time(number: i32) -> Option<Signal> {
    rustix_libc_wrappers::process::SignalExt::from_raw(number)
}

#[cfg(not(target_os = "linux"))]
fn real_time(_: i32) -> Option<Signal> {
    None
}

/// Whether a signal may ask a program to end: by default, such a signal ends a program. SIGUSR1 and
/// SIGUSR2 do not count: they also end a program by default, but are meant as messages.
pub(crate) fn ends(signal: Signal) -> bool {
    !stops(signal) && ![Signal::USR1, Signal::USR2, Signal::CONT, Signal::CHILD].contains(&signal)
}

/// Whether people and supervisors use this signal to ask a program to end.
pub(crate) fn asks_for_end(signal: Signal) -> bool {
    ASKING.contains(&signal)
}

pub(super) fn stops(signal: Signal) -> bool {
    STOPPING.contains(&signal)
}

/// Stops this process until it gets SIGCONT.
pub(super) fn stop_this_process() {
    let _ = kill_process(getpid(), Signal::STOP);
}

/// The signals that this process ignored when it started, as bits. Its parent wanted these signals
/// to be ignored: `nohup`, for example, makes a program ignore SIGHUP.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
