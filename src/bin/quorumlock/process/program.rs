//! A command of the user, with all processes that it started.

use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::io;
use std::os::unix::process::CommandExt;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpgrp, getpid, kill_process, kill_process_group, test_kill_process, waitid,
};
use tokio::task::yield_now;
use tokio::time::timeout;

use super::process_tree::{self, Descendants, Member};
use super::signals::{ends, stop_this_process, stops};
use super::{Signals, orphans, terminal, tied};
use crate::failure::Failure;
use crate::output;

/// How often to check the processes without a signal: a parent may have blocked SIGCHLD.
const LOOK: Duration = Duration::from_millis(500);
/// How long the command may take to stop after a stop signal.
const STOPS_WITHIN: Duration = Duration::from_secs(30);

/// How often the stop signal is repeated, at most: a process can fork between two scans.
const STOPS: u32 = 50;
/// Signals by which people and supervisors ask for the end. Others may be messages: SIGHUP often
/// means that the program should read its configuration again.
const ASKING: [Signal; 3] = [Signal::INT, Signal::QUIT, Signal::TERM];

/// A command of the user, with all processes that it started.
pub(crate) struct Program {
    pid: Pid,
    /// Whether the command leads a process group of its own.
    leads: bool,
    changed: Signals,
    /// Whether `/proc` shows processes.
    sees: bool,
    /// Children of this process that do not belong to the command. Their process ids are not used
    /// again until they are reaped.
    others: Vec<Pid>,
    /// How the command ended, once it was reaped.
    ended: Option<ExitStatus>,
    /// If the command ends this soon after a signal that may ask for the end, the signal counts as
    /// the reason.
    grace: Duration,
    told_to_stop: Option<Instant>,
    /// Since when the command is stopped by a stop signal of the terminal.
    stopped: Option<Instant>,
    /// Whether this process has stopped together with the command since.
    followed: bool,
    told_to_end: bool,
    /// When the command last got a signal that may ask for the end.
    may_be_told_to_end: Option<Instant>,
    /// Whether a key of the terminal asked for the end. Processes that left our group did not get
    /// that signal.
    by_key: bool,
}

impl Program {
    /// Starts the command.
    ///
    /// With a terminal the command stays in our process group: a process in another group could not
    /// read from the terminal. Without a terminal the command leads a group of its own, so that a
    /// signal to our group does not reach the command twice. Processes that the command leaves
    /// behind become our children, and are found as descendants.
    pub(crate) fn start(command: &[OsString], variables: &[(&str, String)], grace: Duration) -> Result<Self, Failure> {
        let (program, arguments) = command.split_first().ok_or_else(|| Failure::usage("no command"))?;
        let cannot =
            |program: &OsStr, error: io::Error| Failure::new(126, format!("cannot run {}: {error}", program.display()));
        // The handler must be there before the first child can end.
        let changed = Signals::children()?;
        orphans::adopt();
        let sees = process_tree::is_shown();
        let others = if sees { process_tree::children(getpid()) } else { Vec::new() };
        let leads = !terminal::exists();
        let mut command = tied(program).map_err(|error| cannot(program, error))?;
        // An outer `run` may have set this variable.
        command.args(arguments).env_remove("QUORUMLOCK_PERMIT");
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        if leads {
            command.process_group(0);
        }
        let child = command.spawn().map_err(|error| cannot(command.get_program(), error))?;
        let pid = Pid::from_child(&child);
        Ok(Self {
            pid,
            leads,
            changed,
            sees,
            others,
            ended: None,
            grace,
            told_to_stop: None,
            stopped: None,
            followed: false,
            told_to_end: false,
            may_be_told_to_end: None,
            by_key: false,
        })
    }

    /// Waits until the command has ended. If a stop signal was sent, stops this process together
    /// with the command.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.look()? {
                return Ok(status);
            }
            let told = self.told_to_stop.is_some_and(|at| at.elapsed() < STOPS_WITHIN);
            if self.stops_by_itself() || told && self.is_stopped() {
                // This also stops processes that the terminal's signal does not reach.
                self.stop().await;
                // The caller polls signals first, and drops this future if one has come. Otherwise
                // this process might stop after its SIGCONT, which does not come again.
                yield_now().await;
                if self.ended.is_some() {
                    continue;
                }
                (self.told_to_stop, self.followed) = (None, true);
                stop_this_process();
            }
            self.change().await;
        }
    }

    /// Waits until the command has ended. If a signal asked for the end, also waits for all
    /// processes that the command started: a shell ends at once by the signal, and its children may
    /// still clean up.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn over(&mut self) -> io::Result<ExitStatus> {
        let status = self.wait().await?;
        if self.told_to_end { self.gone().await } else { Ok(status) }
    }

    /// Waits until all processes have ended.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn gone(&mut self) -> io::Result<ExitStatus> {
        let status = self.wait().await?;
        if std::mem::take(&mut self.by_key) {
            let unreached = |member: &&Member| member.group != Some(getpgrp());
            let descendants = self.descendants();
            descendants.members.iter().filter(unreached).for_each(|member| _ = kill_process(member.pid, Signal::TERM));
        }
        while !self.is_gone() {
            self.change().await;
            let _ = self.look();
        }
        Ok(status)
    }

    /// Kills all processes that still live, and does not wait.
    pub(crate) fn kill_rest(&self) {
        self.signal(&[Signal::KILL]);
    }

    /// Whether the command itself has ended. Processes that it started may go on.
    pub(crate) const fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Kills all processes, again and again, until they have ended or `over` completes. Returns
    /// descriptions of the processes that go on.
    pub(crate) async fn kill(&mut self, over: impl Future<Output = ()>) -> Vec<String> {
        let mut over = pin!(over);
        loop {
            self.signal(&[Signal::KILL]);
            let _ = self.look();
            if self.is_gone() {
                return Vec::new();
            }
            tokio::select! {
                biased;
                () = &mut over => break,
                () = self.change() => {}
            }
        }
        let descendants = self.descendants();
        let left: Vec<_> = descendants.members.iter().map(|member| process_tree::described(member.pid)).collect();
        if left.is_empty() { vec!["a process that cannot be seen".to_owned()] } else { left }
    }

    /// Passes a signal on to all processes, unless a key of the terminal has sent them the signal
    /// already.
    pub(crate) fn pass_on(&mut self, signal: Signal) {
        if signal == Signal::CHILD {
            return;
        }
        let asks = ASKING.contains(&signal);
        if stops(signal) {
            self.told_to_stop = Some(Instant::now());
        } else if asks || signal == Signal::CONT {
            self.told_to_stop = None;
        }
        let by_key = [Signal::INT, Signal::QUIT, Signal::TSTP].contains(&signal) && terminal::reaches_us();
        let by_terminal = by_key || [Signal::TTIN, Signal::TTOU].contains(&signal);
        let reached = !self.leads && by_terminal;
        match (reached, asks) {
            (false, true) => _ = self.signal_telling(&[signal, Signal::CONT]),
            (false, false) => _ = self.signal_telling(&[signal]),
            (true, true) => _ = self.signal(&[Signal::CONT]),
            (true, false) => {}
        }
        if asks {
            self.told_to_end = true;
            self.by_key |= reached;
        } else if ends(signal) {
            self.may_be_told_to_end = Some(Instant::now());
        }
    }

    /// Asks the command to end, even if it is stopped. False if this user may not send signals to
    /// the command.
    pub(crate) fn terminate(&mut self) -> bool {
        self.told_to_stop = None;
        let refused = self.signal_telling(&[Signal::TERM, Signal::CONT]);
        !refused.contains(&self.pid)
    }

    /// Sends signals to all processes. Writes a note about each process that this user may not
    /// signal, and returns these processes.
    fn signal_telling(&self, signals: &[Signal]) -> Vec<Pid> {
        let refused = self.signal(signals);
        for pid in &refused {
            let told = "cannot be signalled by this user; use `sudo quorumlock run ..`";
            output::note(&format!("{} {told}", process_tree::described(*pid)));
        }
        refused
    }

    /// Sends signals to all processes that one scan finds. Returns the processes that this user may
    /// not signal.
    fn signal(&self, signals: &[Signal]) -> Vec<Pid> {
        // The command comes first, before the scan: a scan takes time if there are many processes.
        let lives = self.ended.is_none();
        let sent = lives.then(|| signals.iter().try_for_each(|&signal| self.signal_command(signal)));
        let Descendants { members, mut groups, .. } = self.descendants();
        if lives {
            groups.remove(&self.pid);
        }
        // A signal to a group reaches all its processes at once, so that no process starts another
        // meanwhile. The signal also reaches processes that were not found.
        for &group in &groups {
            signals.iter().for_each(|&signal| _ = kill_process_group(group, signal));
        }
        let in_group = |member: &Member| {
            let with_command = lives && self.leads && member.group == Some(self.pid);
            with_command || member.group.is_some_and(|group| groups.contains(&group))
        };
        let refuses = |member: &Member| {
            let answer = match sent {
                Some(answer) if member.pid == self.pid && !self.leads => answer,
                _ if in_group(member) => test_kill_process(member.pid),
                _ => signals.iter().try_for_each(|&signal| kill_process(member.pid, signal)),
            };
            matches!(answer, Err(Errno::PERM | Errno::ACCESS))
        };
        members.iter().filter(|member| refuses(member)).map(|member| member.pid).collect()
    }

    /// Sends a signal to the command, or to the whole group that the command leads. All processes
    /// of the group get the signal at once, so that no process starts another meanwhile. The
    /// command was not reaped, so its process id and its group id are still its own.
    fn signal_command(&self, signal: Signal) -> Result<(), Errno> {
        if self.leads { kill_process_group(self.pid, signal) } else { kill_process(self.pid, signal) }
    }

    /// The living processes. If `/proc` does not show them, only the command itself.
    fn descendants(&self) -> Descendants {
        let mut descendants =
            if self.sees { process_tree::below(getpid(), &self.others) } else { Descendants::default() };
        if self.ended.is_none() && !descendants.members.iter().any(|member| member.pid == self.pid) {
            let (group, parent) = (self.leads.then_some(self.pid), Some(getpid()));
            descendants.members.push(Member { pid: self.pid, group, parent, state: 'R', ended: false });
        }
        descendants
    }

    /// Whether all processes have ended.
    fn is_gone(&self) -> bool {
        // The kernel knows whether there are children, without a scan.
        if self.sees && self.others.is_empty() {
            return orphans::are_gone();
        }
        let descendants = self.descendants();
        descendants.members.is_empty() && !descendants.may_lack
    }

    /// Reaps processes that have ended. Returns how the command itself ended, if it has.
    fn look(&mut self) -> io::Result<Option<ExitStatus>> {
        let others = &mut self.others;
        let ended = orphans::reap_with(self.pid, |reaped| others.retain(|other| *other != reaped));
        if self.ended.is_none() {
            self.ended = ended?;
            let by_signal = self.may_be_told_to_end.is_some_and(|at| at.elapsed() < self.grace);
            self.told_to_end |= self.ended.is_some() && by_signal;
        }
        Ok(self.ended)
    }

    /// Stops all processes, also processes that are started between two scans.
    ///
    /// # Cancel safety
    /// Safe: the next call goes on.
    async fn stop(&mut self) {
        for _ in 0..STOPS {
            // A process that ends during a scan may leave one behind that the scan misses. This
            // process becomes its parent, so the next scan finds it.
            if self.all_rest() && self.all_rest() {
                return;
            }
            yield_now().await;
        }
    }

    /// Sends the stop signal to all processes. Returns whether all processes that are found after
    /// that rest.
    fn all_rest(&mut self) -> bool {
        let refused = self.signal(&[Signal::STOP]);
        let _ = self.look();
        let descendants = self.descendants();
        let rests = |member: &Member| member.rests() || refused.contains(&member.pid);
        !descendants.may_lack && descendants.members.iter().all(rests)
    }

    /// Whether the command is stopped.
    fn is_stopped(&self) -> bool {
        self.stopped_by().is_some() || self.waits_for_a_stopped_child()
    }

    fn stopped_by(&self) -> Option<i32> {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(self.pid), options).ok()??.stopping_signal()
    }

    /// Whether the command has stopped itself on a terminal, whose shell waits for this process. A
    /// stop signal by a key would have reached this process, too, by now. SIGSTOP does not count:
    /// its sender may continue the command alone.
    fn stops_by_itself(&mut self) -> bool {
        if self.leads || !self.stopped_by().and_then(Signal::from_named_raw).is_some_and(stops) {
            (self.stopped, self.followed) = (None, false);
            return false;
        }
        let since = *self.stopped.get_or_insert_with(Instant::now);
        !self.followed && since.elapsed() >= LOOK
    }

    /// Whether the command waits for a child that was stopped before its exec. A shell that starts
    /// a program by vfork cannot stop until then.
    fn waits_for_a_stopped_child(&self) -> bool {
        let descendants = self.descendants();
        let has = |what: fn(&Member) -> Option<Pid>, state| {
            descendants.members.iter().any(|member| what(member) == Some(self.pid) && member.state == state)
        };
        has(|itself| Some(itself.pid), 'D') && has(|child| child.parent, 'T')
    }

    /// Waits until a child has changed, for [`LOOK`] at most. Always yields, so that renewals run
    /// however often children change.
    async fn change(&mut self) {
        yield_now().await;
        let _ = timeout(LOOK, self.changed.next()).await;
    }
}
