//! Watches a command and its lock, passes signals on, and stops the command before the lock ends.

use std::future::pending;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use quorumlock::NodeCause;
use rustix::process::Signal;
use tokio::time::{sleep, timeout};

use crate::duration::{exact, show};
use crate::failure::{Failure, below};
use crate::held_lock::View;
use crate::output;
use crate::process::{self, Program, Signals};
use crate::words::{counted, listed};

/// The longest pause between two checks of the remaining validity. A single timer for the whole
/// validity is not enough: while the machine is suspended, the validity runs out, but timers stand
/// still.
const LOOK: Duration = Duration::from_millis(500);
/// If the command, or a process that it started, still runs this long after a signal that asks for
/// the command's end, a note says so.
const SILENCE: Duration = Duration::from_secs(2);
/// SIGKILL is sent this long before the deadline, or a quarter of the grace before, if that is
/// shorter. The deadline is the end of the validity or of the grace, whichever is earlier.
const MARGIN: Duration = Duration::from_millis(500);
/// The least time to wait for killed processes to end, even if the validity ends earlier.
const DYING: Duration = Duration::from_secs(5);

/// How a command under a lock ended.
pub(super) enum Ended {
    ByItself {
        status: ExitStatus,
        /// Whether a signal asked the command to end.
        asked: bool,
    },
    /// The command was stopped, because the lock was lost or was about to end.
    Stopped {
        how: String,
        /// Whether `--again` has no effect: a signal asked the command to end, or one of its
        /// processes still runs.
        for_good: bool,
    },
}

pub(super) struct Supervisor {
    pub(super) lease: View,
    /// The command is stopped when only this much validity is left. If a signal has ended the
    /// command, the processes that it started also have this time to end.
    pub(super) grace: Duration,
}

impl Supervisor {
    /// Waits until the command has ended. Stops the command before the lock ends.
    pub(super) async fn watch(&self, program: &mut Program, signals: &mut Signals) -> Result<Ended, Failure> {
        let (mut asked, mut is_noted, mut kill_rest_at, mut is_failing) = (false, false, None, false);
        // The first signal that asks for the end and was passed on, and when it was passed on.
        let mut passed_on: Option<(Signal, Instant)> = None;
        let (why, end) = loop {
            let now = Instant::now();
            // The command has ended, and the time for its children to clean up is over.
            if program.has_ended() && now >= *kill_rest_at.get_or_insert(now + self.grace) {
                program.kill_rest();
            }
            let left = self.lease.remaining();
            let end = now + left;
            if left <= self.grace {
                break (format!("the lock on {} could not be renewed, and ends in {}", self.names(), show(left)), end);
            }
            if !program.has_ended() {
                self.note_renewals(&mut is_failing, left - self.grace);
            }
            tokio::select! {
                biased;
                // Check signals first: the signal may also have ended the command, and then `asked`
                // must be set.
                signal = signals.next() => {
                    let asks = process::asks_for_end(signal);
                    asked |= asks;
                    // If the lock ended while this process was stopped, the command must not
                    // continue.
                    let may_go_on = signal != Signal::CONT || self.lease.remaining() > self.grace;
                    if may_go_on && program.pass_on(signal) && asks {
                        passed_on.get_or_insert((signal, Instant::now()));
                    }
                }
                status = program.over() => return Ok(Ended::ByItself { status: status?, asked }),
                reason = self.lease.lost() => break (format!("the lock on {} was lost: {reason}", self.names()), end),
                signal = silence_after(passed_on), if !is_noted => {
                    output::note(&self.goes_on_after(signal, program, kill_rest_at));
                    is_noted = true;
                }
                () = sleep((left - self.grace).min(LOOK)) => {}
            }
        };
        let (how, goes_on) = self.stop(program, end, &why).await;
        Ok(Ended::Stopped { how, for_good: asked || goes_on })
    }

    /// Writes a note when renewals begin to fail, and when they succeed again. `left` is the time
    /// until the command gets SIGTERM.
    fn note_renewals(&self, is_failing: &mut bool, left: Duration) {
        let mut reports = self.lease.failed_renewal();
        let nodes = reports.len();
        reports.retain(|report| report.cause != NodeCause::Agreed);
        let fails = !reports.is_empty();
        if std::mem::replace(is_failing, fails) == fails {
            return;
        }
        if !fails {
            return output::note(&format!("the lock on {} is renewed again", self.names()));
        }
        let told = |what: &str| {
            let (names, missing, nodes, left) = (self.names(), reports.len(), counted(nodes, "node"), show(left));
            format!(
                "the lock on {names} could not be renewed: {missing} of {nodes} {what}. Unless a quorum renews it within \
                 {left}, the command gets SIGTERM"
            )
        };
        // The log names nodes that are down. It does not say why other nodes renew nothing.
        let are_silent = reports.iter().all(|report| matches!(report.cause, NodeCause::Silent | NodeCause::Down));
        output::note(&match are_silent {
            true => told("did not answer"),
            false => below(&told("did not renew it"), &reports),
        });
    }

    /// Ends the command before the validity ends, and before the grace is over. Sends SIGTERM now,
    /// and SIGKILL shortly before the earlier of these two times. If processes do not end by
    /// SIGKILL, keeps trying and keeps the lock. Gives up only when the lock is lost, and `end` and
    /// [`DYING`] are over. Returns how the command ended, and whether some process still runs.
    async fn stop(&self, program: &mut Program, end: Instant, why: &str) -> (String, bool) {
        let deadline = end.min(Instant::now() + self.grace);
        let kill = deadline.checked_sub(MARGIN.min(self.grace / 4)).unwrap_or(deadline);
        let time = kill.saturating_duration_since(Instant::now());
        // If no time is left, send no SIGTERM: `terminate` also sends SIGCONT, and a stopped
        // command would continue.
        let asked = !time.is_zero() && program.terminate();
        let what = if asked { "; the command got SIGTERM" } else { "" };
        output::note(&below(&format!("{why}{what}"), &self.lease.failed_renewal()));
        if !time.is_zero() {
            let _ = timeout(time, program.gone()).await;
        }
        let in_time = program.has_ended();
        let left = program.kill(self.lost_and_over(end.max(Instant::now() + DYING))).await;
        let how = match (in_time, asked) {
            _ if !program.has_ended() => "the command could not be stopped",
            (true, _) => "the command was stopped",
            (false, true) => "the command did not end by SIGTERM; it was stopped by SIGKILL",
            (false, false) => "the command was stopped by SIGKILL",
        };
        let goes_on: String = left.iter().map(|process| format!("; {process} goes on")).collect();
        (format!("{how}{goes_on}"), !left.is_empty())
    }

    async fn lost_and_over(&self, end: Instant) {
        self.lease.lost().await;
        sleep(end.saturating_duration_since(Instant::now())).await;
    }

    /// The note on what still runs after `signal`: the command, or processes that it started.
    fn goes_on_after(&self, signal: Signal, program: &Program, kill_rest_at: Option<Instant>) -> String {
        let signal = match signal {
            Signal::INT => "SIGINT",
            Signal::QUIT => "SIGQUIT",
            _ => "SIGTERM",
        };
        if program.has_ended() {
            let ends = match kill_rest_at.is_some_and(|at| at <= Instant::now()) {
                true => "SIGKILL has not ended".to_owned(),
                false => format!("are killed {} after its end (--kill-grace)", exact(self.grace)),
            };
            return format!(
                "got {signal}: the command has ended; waiting for the processes that it started, which {ends}"
            );
        }
        let (pid, names) = (program.pid(), self.names());
        format!(
            "got {signal}: passed it on to the command (pid {pid}); waiting until it has ended, and keeping the lock \
             on {names} until then. `kill -KILL {pid}` ends it at once"
        )
    }

    fn names(&self) -> String {
        listed(&self.lease.names())
    }
}

/// Waits until [`SILENCE`] has passed since a signal was passed on. Returns this signal.
async fn silence_after(passed_on: Option<(Signal, Instant)>) -> Signal {
    let Some((signal, at)) = passed_on else { return pending().await };
    sleep(SILENCE.saturating_sub(at.elapsed())).await;
    signal
}
