//! Runs a command of the user: starts it, passes signals on to it, waits for its end, and kills it.

use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::io;
use std::os::unix::process::CommandExt;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid};
use tokio::task::yield_now;
use tokio::time::timeout;

use super::process_set::ProcessSet;
use super::signals::{asks_for_end, ends, stop_this_process};
use super::suspension::Suspension;
use super::{Signals, orphans, process_tree, terminal, tied};
use crate::failure::Failure;

/// The longest pause between two checks of the processes. SIGCHLD alone is not enough: the process
/// that started this one may have blocked this signal.
const LOOK: Duration = Duration::from_millis(500);
/// How often to send the stop signal at most. Once is not enough, because a process can fork
/// between two scans.
const STOPS: u32 = 50;

/// A command of the user, with all processes that it started.
pub(crate) struct Program {
    processes: ProcessSet,
    /// Receives SIGCHLD.
    changed: Signals,
    suspension: Suspension,
    end_request: EndRequest,
    /// If the command ends this soon after a signal that may ask for its end, the signal counts as
    /// the cause.
    grace: Duration,
}

/// Whether a signal has asked the command to end.
enum EndRequest {
    No,
    /// At this time the command got a signal that may ask it to end, such as SIGHUP.
    Perhaps(Instant),
    Yes {
        /// Whether a key of the terminal sent the signal. Processes that have left our group did
        /// not get that signal, so they must get SIGTERM.
        by_key: bool,
    },
}

impl Program {
    /// Starts the command.
    ///
    /// If there is a terminal, the command stays in our process group, because a process of another
    /// group could not read from the terminal. Without a terminal, the command leads a group of its
    /// own, so that a signal to our group does not reach the command twice. Processes that the
    /// command leaves behind become our children, so scans find them.
    pub(crate) fn start(command: &[OsString], variables: &[(&str, String)], grace: Duration) -> Result<Self, Failure> {
        let (program, arguments) = command.split_first().ok_or_else(|| Failure::usage("no command"))?;
        let cannot =
            |program: &OsStr, error: io::Error| Failure::new(126, format!("cannot run {}: {error}", program.display()));
        // Install the handler before the first child can end.
        let changed = Signals::children()?;
        orphans::adopt();
        let others = process_tree::is_shown().then(|| process_tree::children(getpid()));
        let leads = !terminal::exists();
        let mut command = tied(program).map_err(|error| cannot(program, error))?;
        // An outer `run` may have set this variable.
        command.args(arguments).env_remove("QUORUMLOCK_PERMIT");
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        if leads {
            command.process_group(0);
        }
        let child = command.spawn().map_err(|error| cannot(command.get_program(), error))?;
        let processes = ProcessSet { pid: Pid::from_child(&child), leads, others, ended: None };
        Ok(Self { processes, changed, suspension: Suspension::default(), end_request: EndRequest::No, grace })
    }

    /// The process id of the command itself.
    pub(crate) const fn pid(&self) -> Pid {
        self.processes.pid
    }

    /// Whether the command itself has ended. Processes that it started may go on.
    pub(crate) const fn has_ended(&self) -> bool {
        self.processes.ended.is_some()
    }

    /// Passes a signal on to all processes, unless the terminal has sent them this signal already.
    /// Returns whether the command got the signal from this process.
    pub(crate) fn pass_on(&mut self, signal: Signal) -> bool {
        if signal == Signal::CHILD {
            return false;
        }
        self.suspension.note(signal);
        // Take the time now: the scan for processes may take long, and the command gets the signal
        // before the scan.
        let now = Instant::now();
        let by_terminal = !self.processes.leads && terminal::sends(signal);
        let asks = asks_for_end(signal);
        // A stopped command cannot end, so send it SIGCONT, too.
        let passed = match (by_terminal, asks) {
            (false, true) => self.processes.signal_telling(&[signal, Signal::CONT]),
            (false, false) => self.processes.signal_telling(&[signal]),
            (true, true) => {
                self.processes.signal(&[Signal::CONT]);
                false
            }
            (true, false) => false,
        };
        if asks {
            let by_key = by_terminal || matches!(self.end_request, EndRequest::Yes { by_key: true });
            self.end_request = EndRequest::Yes { by_key };
        } else if ends(signal) && !self.was_asked_to_end() {
            self.end_request = EndRequest::Perhaps(now);
        }
        passed
    }

    /// Asks the command to end, even if it is stopped. False if this user may not send signals to
    /// the command.
    pub(crate) fn terminate(&mut self) -> bool {
        self.suspension.cancel();
        self.processes.signal_telling(&[Signal::TERM, Signal::CONT])
    }

    /// Waits until the command has ended. Meanwhile, may suspend this process: see [`Suspension`].
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.look()? {
                return Ok(status);
            }
            if self.suspension.is_due(&self.processes) {
                // Also stop the processes that a signal of the terminal does not reach.
                self.stop().await;
                // Let the caller poll signals first: the caller drops this future if a signal has
                // come. Otherwise this process could stop for ever, just after its only SIGCONT.
                yield_now().await;
                if self.has_ended() {
                    continue;
                }
                self.suspension.followed();
                stop_this_process();
            }
            self.change().await;
        }
    }

    /// Waits until the command has ended. If a signal asked the command to end, also waits for all
    /// processes that the command started: a shell ends at once by a signal, but its children may
    /// need longer.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn over(&mut self) -> io::Result<ExitStatus> {
        let status = self.wait().await?;
        if self.was_asked_to_end() { self.gone().await } else { Ok(status) }
    }

    /// Waits until all processes have ended.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn gone(&mut self) -> io::Result<ExitStatus> {
        let status = self.wait().await?;
        if let EndRequest::Yes { by_key } = &mut self.end_request
            && std::mem::take(by_key)
        {
            self.processes.terminate_outside_our_group();
        }
        while !self.processes.are_gone() {
            self.change().await;
            let _ = self.look();
        }
        Ok(status)
    }

    /// Sends SIGKILL to all processes that still live, and does not wait.
    pub(crate) fn kill_rest(&self) {
        self.processes.signal(&[Signal::KILL]);
    }

    /// Sends SIGKILL to all processes, again and again, until they have ended or `over` completes.
    /// Returns descriptions of the processes that still run.
    pub(crate) async fn kill(&mut self, over: impl Future<Output = ()>) -> Vec<String> {
        let mut over = pin!(over);
        loop {
            self.kill_rest();
            let _ = self.look();
            if self.processes.are_gone() {
                return Vec::new();
            }
            tokio::select! {
                biased;
                () = &mut over => return self.processes.described(),
                () = self.change() => {}
            }
        }
    }

    const fn was_asked_to_end(&self) -> bool {
        matches!(self.end_request, EndRequest::Yes { .. })
    }

    /// Reaps processes that have ended. Returns how the command itself ended, if it has ended.
    fn look(&mut self) -> io::Result<Option<ExitStatus>> {
        let lived = !self.has_ended();
        let ended = self.processes.reap()?;
        let by_signal = matches!(self.end_request, EndRequest::Perhaps(at) if at.elapsed() < self.grace);
        if lived && ended.is_some() && by_signal {
            self.end_request = EndRequest::Yes { by_key: false };
        }
        Ok(ended)
    }

    /// Stops all processes, including those that are started between two scans.
    ///
    /// # Cancel safety
    /// Safe: the next call stops the remaining processes.
    async fn stop(&mut self) {
        for _ in 0..STOPS {
            // A process that ends during a scan may leave behind a child that the scan misses. The
            // child becomes a child of this process, so the next scan finds it.
            if self.all_rest() && self.all_rest() {
                return;
            }
            yield_now().await;
        }
    }

    /// Sends the stop signal to all processes. Returns whether a scan after that finds no running
    /// process.
    fn all_rest(&mut self) -> bool {
        let refused = self.processes.signal(&[Signal::STOP]);
        let _ = self.look();
        self.processes.rest(&refused)
    }

    /// Waits until a child has ended, stopped or continued, for [`LOOK`] at most. Always yields
    /// first, so that renewals get time even if children change all the time.
    async fn change(&mut self) {
        yield_now().await;
        let _ = timeout(LOOK, self.changed.next()).await;
    }
}
