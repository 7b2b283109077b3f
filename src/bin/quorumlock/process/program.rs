//! A command of the user's, with everything that it started.

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

use super::family::{self, Family, Member};
use super::signals::{ends, stop_this_process, stops};
use super::{Signals, orphans, terminal, tied};
use crate::failure::Failure;
use crate::output;

/// How often to look at it unasked: a parent may have blocked the signal that tells of a child's end.
const LOOK: Duration = Duration::from_millis(500);
/// How long it may take to stop after a stop signal.
const STOPS_WITHIN: Duration = Duration::from_secs(30);

/// How often the stop signal is repeated, at most: a process can fork between two looks.
const STOPS: u32 = 50;
/// The signals by which people and supervisors ask for the end. Others may be messages: SIGHUP often
/// means that a configuration is to be read again.
const ASKING: [Signal; 3] = [Signal::INT, Signal::QUIT, Signal::TERM];

/// A command of the user's, with everything that it started.
pub(crate) struct Program {
    pid: Pid,
    /// Whether it leads a process group of its own.
    leads: bool,
    changed: Signals,
    /// Whether processes can be seen.
    sees: bool,
    /// Children of ours that it has nothing to do with. Their numbers are theirs until they are
    /// reaped.
    others: Vec<Pid>,
    /// How it ended, once it was reaped.
    ended: Option<ExitStatus>,
    /// An end this soon after a signal that may ask for it counts as asked for.
    grace: Duration,
    told_to_stop: Option<Instant>,
    /// Since when it has stopped itself as a key would.
    stopped: Option<Instant>,
    /// Whether we have stopped with it since.
    followed: bool,
    told_to_end: bool,
    /// When it got a signal last that may ask for the end.
    may_be_told_to_end: Option<Instant>,
    /// Whether a key of the terminal did. What has left our group did not hear of it.
    by_key: bool,
}

impl Program {
    /// Starts it.
    ///
    /// With a terminal it stays in our process group: another could not read from there. Without one
    /// it leads a group of its own, so that what others send to ours does not reach it twice. What
    /// it leaves behind becomes ours, and is found by descent.
    pub(crate) fn start(command: &[OsString], variables: &[(&str, String)], grace: Duration) -> Result<Self, Failure> {
        let (program, arguments) = command.split_first().ok_or_else(|| Failure::usage("no command"))?;
        let cannot =
            |program: &OsStr, error: io::Error| Failure::new(126, format!("cannot run {}: {error}", program.display()));
        // Listening begins before there is anything to hear.
        let changed = Signals::children()?;
        orphans::adopt();
        let sees = family::is_shown();
        let others = if sees { family::children(getpid()) } else { Vec::new() };
        let leads = !terminal::exists();
        let mut command = tied(program).map_err(|error| cannot(program, error))?;
        // That of an outer `run`, perhaps.
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

    /// Waits until it has ended. Stops this process with it, if a stop signal was sent.
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
                // What the terminal does not reach, too.
                self.stop().await;
                // The caller looks for signals first, and drops this future if one has come: a SIGCONT
                // does not come again.
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

    /// Waits until it has ended; if a signal asked for that, until all that it started has gone too. A
    /// shell ends at once by the signal, and what it started may still clear up.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn over(&mut self) -> io::Result<ExitStatus> {
        let status = self.wait().await?;
        if self.told_to_end { self.gone().await } else { Ok(status) }
    }

    /// Waits until all of it has gone.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn gone(&mut self) -> io::Result<ExitStatus> {
        let status = self.wait().await?;
        if std::mem::take(&mut self.by_key) {
            let unreached = |member: &&Member| member.group != Some(getpgrp());
            let family = self.family();
            family.members.iter().filter(unreached).for_each(|member| _ = kill_process(member.pid, Signal::TERM));
        }
        while !self.is_gone() {
            self.change().await;
            let _ = self.look();
        }
        Ok(status)
    }

    /// Kills what lives of it, and does not wait.
    pub(crate) fn kill_rest(&self) {
        self.signal(&[Signal::KILL]);
    }

    /// Whether the command itself has ended. What it started may go on.
    pub(crate) const fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Kills all of it, again and again, until that has gone or `over` ends. Returns what goes on.
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
        let family = self.family();
        let left: Vec<_> = family.members.iter().map(|member| family::described(member.pid)).collect();
        if left.is_empty() { vec!["a process that cannot be seen".to_owned()] } else { left }
    }

    /// Passes a signal on to all of it, except what a key of the terminal has sent there already.
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

    /// Asks it to end: also if it is stopped. False if it cannot be asked.
    pub(crate) fn terminate(&mut self) -> bool {
        self.told_to_stop = None;
        let refused = self.signal_telling(&[Signal::TERM, Signal::CONT]);
        !refused.contains(&self.pid)
    }

    /// Sends signals to all of it, and says at once to what they cannot be sent. Returns that.
    fn signal_telling(&self, signals: &[Signal]) -> Vec<Pid> {
        let refused = self.signal(signals);
        for pid in &refused {
            let told = "cannot be signalled by this user; `sudo quorumlock run ..` can";
            output::note(&format!("{} {told}", family::described(*pid)));
        }
        refused
    }

    /// Sends signals to all of it that one look finds. Returns what they cannot be sent to, since that
    /// is another user's.
    fn signal(&self, signals: &[Signal]) -> Vec<Pid> {
        // First, and without a look at all processes: that takes its time where there are many.
        let lives = self.ended.is_none();
        let sent = lives.then(|| signals.iter().try_for_each(|&signal| self.signal_command(signal)));
        let Family { members, mut groups, .. } = self.family();
        if lives {
            groups.remove(&self.pid);
        }
        // All of a group at once, so that none starts another meanwhile: also one that was not seen.
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

    /// Sends a signal to the command, and to the group that it leads: all at once, so that none
    /// starts another meanwhile. It was not reaped, so both are still its own.
    fn signal_command(&self, signal: Signal) -> Result<(), Errno> {
        if self.leads { kill_process_group(self.pid, signal) } else { kill_process(self.pid, signal) }
    }

    /// What lives of it; where that cannot be seen, itself.
    fn family(&self) -> Family {
        let mut family = if self.sees { family::below(getpid(), &self.others) } else { Family::default() };
        if self.ended.is_none() && !family.members.iter().any(|member| member.pid == self.pid) {
            let (group, parent) = (self.leads.then_some(self.pid), Some(getpid()));
            family.members.push(Member { pid: self.pid, group, parent, state: 'R', ended: false });
        }
        family
    }

    /// Whether nothing of it is left.
    fn is_gone(&self) -> bool {
        // Without a look at all processes, where the kernel's word tells.
        if self.sees && self.others.is_empty() {
            return orphans::are_gone();
        }
        let family = self.family();
        family.members.is_empty() && !family.may_lack
    }

    /// Reaps what has ended of it. Tells how the command itself ended.
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

    /// Stops all of it: what was started between two looks, too.
    ///
    /// # Cancel safety
    /// Safe: the next call goes on.
    async fn stop(&mut self) {
        for _ in 0..STOPS {
            // A process that ends during a look may leave one behind that this does not find. Its
            // parent is this process then, and the next look finds it.
            if self.all_rest() && self.all_rest() {
                return;
            }
            yield_now().await;
        }
    }

    /// Sends the stop signal to all of it. Whether all that is found then does nothing.
    fn all_rest(&mut self) -> bool {
        let refused = self.signal(&[Signal::STOP]);
        let _ = self.look();
        let family = self.family();
        let rests = |member: &Member| member.rests() || refused.contains(&member.pid);
        !family.may_lack && family.members.iter().all(rests)
    }

    /// Whether it has stopped, and was not continued.
    fn is_stopped(&self) -> bool {
        self.stopped_by().is_some() || self.waits_for_a_stopped_child()
    }

    fn stopped_by(&self) -> Option<i32> {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(self.pid), options).ok()??.stopping_signal()
    }

    /// Whether it has stopped itself on a terminal, whose shell waits for us. A key would have told us
    /// too by now; SIGSTOP is another's, who may continue it alone.
    fn stops_by_itself(&mut self) -> bool {
        if self.leads || !self.stopped_by().and_then(Signal::from_named_raw).is_some_and(stops) {
            (self.stopped, self.followed) = (None, false);
            return false;
        }
        let since = *self.stopped.get_or_insert_with(Instant::now);
        !self.followed && since.elapsed() >= LOOK
    }

    /// A shell that has just started a program by vfork cannot stop before that has: the program may
    /// have been stopped first.
    fn waits_for_a_stopped_child(&self) -> bool {
        let family = self.family();
        let has = |what: fn(&Member) -> Option<Pid>, state| {
            family.members.iter().any(|member| what(member) == Some(self.pid) && member.state == state)
        };
        has(|itself| Some(itself.pid), 'D') && has(|child| child.parent, 'T')
    }

    /// Waits until a child has changed, or for a while. Renewals have their turn, however often
    /// children change.
    async fn change(&mut self) {
        yield_now().await;
        let _ = timeout(LOOK, self.changed.next()).await;
    }
}
