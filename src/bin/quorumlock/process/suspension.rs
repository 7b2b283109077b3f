//! Job control: when this process stops together with its command. A shell that waits for this
//! process then sees that the whole job is stopped.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::process_set::ProcessSet;
use super::signals::{asks_for_end, stops};

/// How long the command may take to stop after a stop signal.
const STOPS_WITHIN: Duration = Duration::from_secs(30);
/// If a key stops the command, its signal reaches this process within this time.
const KEY_ARRIVES_WITHIN: Duration = Duration::from_millis(500);

/// Whether this process is to stop together with the command.
#[derive(Default)]
pub(super) struct Suspension {
    /// When this process got a stop signal. It stops once the command has stopped.
    requested: Option<Instant>,
    own_stop: OwnStop,
}

/// A stop of the command by a signal that this process did not get.
#[derive(Default)]
enum OwnStop {
    #[default]
    No,
    Since(Instant),
    /// This process has stopped together with the command since.
    Followed,
}

impl Suspension {
    /// Takes note of a signal that this process got.
    pub(super) fn note(&mut self, signal: Signal) {
        if stops(signal) {
            self.requested = Some(Instant::now());
        } else if asks_for_end(signal) || signal == Signal::CONT {
            self.cancel();
        }
    }

    /// Forgets a stop signal: the command is to go on.
    pub(super) fn cancel(&mut self) {
        self.requested = None;
    }

    /// Whether this process is to stop now, together with all processes of the command.
    pub(super) fn is_due(&mut self, processes: &ProcessSet) -> bool {
        let requested = self.requested.is_some_and(|at| at.elapsed() < STOPS_WITHIN);
        self.follows_own_stop(processes) || requested && processes.is_stopped()
    }

    /// Whether the command has stopped itself on a terminal, whose shell waits for this process.
    /// SIGSTOP does not count: its sender may continue the command alone.
    fn follows_own_stop(&mut self, processes: &ProcessSet) -> bool {
        let by = processes.stopped_by().and_then(Signal::from_named_raw);
        if processes.leads || !by.is_some_and(stops) {
            self.own_stop = OwnStop::No;
            return false;
        }
        match self.own_stop {
            OwnStop::No => {
                self.own_stop = OwnStop::Since(Instant::now());
                false
            }
            OwnStop::Since(at) => at.elapsed() >= KEY_ARRIVES_WITHIN,
            OwnStop::Followed => false,
        }
    }

    /// Takes note that this process stops now. It stops once for each stop of the command.
    pub(super) fn followed(&mut self) {
        *self = Self { requested: None, own_stop: OwnStop::Followed };
    }
}
