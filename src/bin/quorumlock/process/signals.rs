//! Signals that this process is sent.

use std::future::poll_fn;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use crate::failure::Failure;

/// Signals, heard from now on instead of what they would do.
pub(crate) struct Signals(Vec<(Signal, Stream)>);

impl Signals {
    /// Those that a program would be told of.
    pub(crate) fn all() -> Result<Self, Failure> {
        Self::of(&[Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2])
    }

    /// Those that ask to end.
    pub(crate) fn ending() -> Result<Self, Failure> {
        Self::of(&[Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT])
    }

    /// The end of a child.
    pub(crate) fn children() -> Result<Self, Failure> {
        Self::of(&[Signal::CHILD])
    }

    fn of(signals: &[Signal]) -> Result<Self, Failure> {
        let ignored = ignored();
        let heard = signals.iter().filter(|signal| ignored >> (signal.as_raw() - 1) & 1 == 0);
        let stream = |&of| signal(SignalKind::from_raw(Signal::as_raw(of))).map(|stream| (of, stream));
        let streams = heard.map(stream).collect::<Result<_, _>>();
        streams.map(Self).map_err(|error| Failure::internal(format!("signals cannot be heard: {error}")))
    }

    /// Waits for the next one.
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
}

/// The signals that were ignored when this process started, as bits: `nohup` means that nobody
/// wants to hear of SIGHUP.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
