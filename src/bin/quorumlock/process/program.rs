//! A command of the user's, with everything that it started.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpgrp, getpid, kill_process, kill_process_group, test_kill_process, waitid,
};
use tokio::time::timeout;

use super::family::{self, Member};
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

/// A command of the user's, with everything that it started.
pub(crate) struct Program {
    pid: Pid,
    /// Whether it leads a process group of its own.
    leads: bool,
    changed: Signals,
    /// Children of ours that it has nothing to do with.
    others: Vec<Pid>,
    /// How it ended, once it was reaped.
    ended: Option<ExitStatus>,
    told_to_stop: Option<Instant>,
    /// Since when it has stopped itself as a key would.
    stopped: Option<Instant>,
    /// Whether we have stopped with it since.
    followed: bool,
    told_to_end: bool,
    /// Whether a key of the terminal did. What has left our group did not hear of it.
    by_key: bool,
}

impl Program {
    /// Starts it.
    ///
    /// With a terminal it stays in our process group: another could not read from there. Without one
    /// it leads a group of its own, so that what others send to ours does not reach it twice. What
    /// it leaves behind becomes ours, and is found by descent.
    pub(crate) fn start(command: &[OsString], variables: &[(&str, String)]) -> Result<Self, Failure> {
        let (program, arguments) = command.split_first().ok_or_else(|| Failure::usage("no command"))?;
        let cannot =
            |program: &OsStr, error: io::Error| Failure::new(126, format!("cannot run {}: {error}", program.display()));
        // Listening begins before there is anything to hear.
        let changed = Signals::children()?;
        orphans::adopt();
        let others = family::children(getpid());
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
            others,
            ended: None,
            told_to_stop: None,
            stopped: None,
            followed: false,
            told_to_end: false,
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
                self.told_to_stop = None;
                self.followed = true;
                // What the terminal does not reach, too.
                self.stop();
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
        if self.told_to_end { self.gone().await } else { self.wait().await }
    }

    /// Waits until all of it has gone.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn gone(&mut self) -> io::Result<ExitStatus> {
        let status = self.wait().await?;
        if std::mem::take(&mut self.by_key) {
            let unreached = |member: &&Member| member.group != Some(getpgrp());
            self.family().iter().filter(unreached).for_each(|member| _ = kill_process(member.pid, Signal::TERM));
        }
        while !self.family().is_empty() {
            self.change().await;
            let _ = self.look();
        }
        Ok(status)
    }

    /// Kills what lives of it, and does not wait.
    pub(crate) fn kill_rest(&self) {
        self.signal(Signal::KILL);
    }

    /// Whether the command itself has ended. What it started may go on.
    pub(crate) const fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Kills all of it, and waits until that has gone. Returns what cannot be killed.
    pub(crate) async fn kill(&mut self) -> Vec<String> {
        loop {
            let refused = self.signal(Signal::KILL);
            let _ = self.look();
            if self.family().iter().all(|member| refused.contains(&member.pid)) {
                return refused.into_iter().map(family::described).collect();
            }
            self.change().await;
        }
    }

    /// Passes a signal on to all of it, except what a key of the terminal has sent there already.
    pub(crate) fn pass_on(&mut self, signal: Signal) {
        if signal == Signal::CHILD {
            return;
        }
        if stops(signal) {
            self.told_to_stop = Some(Instant::now());
        }
        let by_key = [Signal::INT, Signal::QUIT, Signal::TSTP].contains(&signal) && terminal::reaches_us();
        let by_terminal = by_key || [Signal::TTIN, Signal::TTOU].contains(&signal);
        if self.leads || !by_terminal {
            self.signal_telling(signal);
        }
        if ends(signal) {
            self.by_key |= !self.leads && by_terminal;
            self.told_to_end = true;
            self.signal(Signal::CONT);
        }
    }

    /// Asks it to end: also if it is stopped. False if it cannot be asked.
    pub(crate) fn terminate(&mut self) -> bool {
        self.told_to_stop = None;
        let refused = self.signal_telling(Signal::TERM);
        self.signal(Signal::CONT);
        !refused.contains(&self.pid)
    }

    /// Sends a signal to all of it, and says at once to what it cannot be sent. Returns that.
    fn signal_telling(&self, signal: Signal) -> Vec<Pid> {
        let refused = self.signal(signal);
        for pid in &refused {
            let told = "cannot be signalled by this user; `sudo quorumlock run ..` can";
            output::note(&format!("{} {told}", family::described(*pid)));
        }
        refused
    }

    /// Sends a signal to all of it. Returns what it cannot be sent to, since that is another user's.
    fn signal(&self, signal: Signal) -> Vec<Pid> {
        // First, and without a look at all processes: that takes its time where there are many.
        let lives = self.ended.is_none();
        let sent = lives.then(|| self.signal_command(signal));
        let family = self.family();
        let in_group = |member: &Member| self.leads && member.group == Some(self.pid);
        if !lives && family.iter().any(in_group) {
            // All at once, so that none starts another meanwhile.
            let _ = kill_process_group(self.pid, signal);
        }
        let refuses = |member: &Member| {
            let answer = match sent {
                Some(answer) if member.pid == self.pid && !self.leads => answer,
                _ if in_group(member) => test_kill_process(member.pid),
                _ => kill_process(member.pid, signal),
            };
            matches!(answer, Err(Errno::PERM | Errno::ACCESS))
        };
        family.iter().filter(|member| refuses(member)).map(|member| member.pid).collect()
    }

    /// Sends a signal to the command, and to the group that it leads: all at once, so that none
    /// starts another meanwhile. It was not reaped, so both are still its own.
    fn signal_command(&self, signal: Signal) -> Result<(), Errno> {
        if self.leads { kill_process_group(self.pid, signal) } else { kill_process(self.pid, signal) }
    }

    /// What lives of it; where that cannot be seen, itself.
    fn family(&self) -> Vec<Member> {
        let mut family = family::below(getpid(), &self.others);
        if self.ended.is_none() && !family.iter().any(|member| member.pid == self.pid) {
            family.push(Member { pid: self.pid, group: self.leads.then_some(self.pid), parent: getpid(), state: 'R' });
        }
        family
    }

    /// Reaps what has ended of it. Tells how the command itself ended.
    fn look(&mut self) -> io::Result<Option<ExitStatus>> {
        let ended = orphans::reap_with(self.pid);
        if self.ended.is_none() {
            self.ended = ended?;
        }
        Ok(self.ended)
    }

    /// Stops all of it: what was started between two looks, too.
    fn stop(&self) {
        for _ in 0..STOPS {
            let refused = self.signal(Signal::STOP);
            let rests = |member: &Member| member.is_stopped() || member.state == 'D' || refused.contains(&member.pid);
            if self.family().iter().all(rests) {
                return;
            }
        }
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
        let has = |what: fn(&Member) -> Pid, state| {
            family.iter().any(|member| what(member) == self.pid && member.state == state)
        };
        has(|itself| itself.pid, 'D') && has(|child| child.parent, 'T')
    }

    /// Waits until a child has changed, or for a while.
    async fn change(&mut self) {
        let _ = timeout(LOOK, self.changed.next()).await;
    }
}
