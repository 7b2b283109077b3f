//! Job control: decides when this process must suspend itself, because its command is suspended (as
//! by Ctrl-Z). So the shell, which waits for this process, sees that the whole job is suspended.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::process_set::ProcessSet;
use super::signals::{asks_for_end, stops};

/// How long the command may take to stop after this process got a stop signal.
const STOPS_WITHIN: Duration = Duration::from_secs(30);
/// If a key of the terminal stops the command, this process gets the same signal within this time.
const KEY_ARRIVES_WITHIN: Duration = Duration::from_millis(500);

/// Decides whether this process must stop together with the command.
#[derive(Default)]
pub(super) struct Suspension {
    /// When this process got a stop signal. This process stops as soon as the command has stopped.
    requested: Option<Instant>,
    own_stop: OwnStop,
}

/// Whether the command was stopped by a signal that this process did not get.
#[derive(Default)]
enum OwnStop {
    #[default]
    No,
    Since(Instant),
    /// This process has stopped together with the command.
    Followed,
}

impl Suspension {
    /// Stores that this process got a signal.
    pub(super) fn note(&mut self, signal: Signal) {
        if stops(signal) {
            self.requested = Some(Instant::now());
        } else if asks_for_end(signal) || signal == Signal::CONT {
            self.cancel();
        }
    }

    /// Forgets a stop signal, because the command must go on.
    pub(super) fn cancel(&mut self) {
        self.requested = None;
    }

    /// Whether this process must stop now, together with all processes of the command.
    pub(super) fn is_due(&mut self, processes: &ProcessSet) -> bool {
        let requested = self.requested.is_some_and(|at| at.elapsed() < STOPS_WITHIN);
        self.follows_own_stop(processes) || requested && processes.is_stopped()
    }

    /// Whether only the command was stopped, on a terminal whose shell waits for this process.
    /// SIGSTOP does not count, because its sender may continue the command alone.
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

    /// Stores that this process stops now. This process stops only once for each stop of the
    /// command.
    pub(super) fn followed(&mut self) {
        *self = Self { requested: None, own_stop: OwnStop::Followed };
    }
}
