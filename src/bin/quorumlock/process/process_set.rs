//! The processes of a command: the command itself, and all processes that it started.

use std::io;
use std::process::ExitStatus;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpgrp, getpid, kill_process, kill_process_group, test_kill_process, waitid,
};

use super::orphans;
use super::process_tree::{self, Descendants, Member};
use crate::output;

pub(super) struct ProcessSet {
    /// The command.
    pub(super) pid: Pid,
    /// Whether the command leads a process group of its own.
    pub(super) leads: bool,
    /// Children of this process that do not belong to the command. The kernel gives their process
    /// ids to no other process until they are reaped. `None` if `/proc` does not show processes.
    pub(super) others: Option<Vec<Pid>>,
    /// How the command ended, once it was reaped.
    pub(super) ended: Option<ExitStatus>,
}

impl ProcessSet {
    /// Whether all processes have ended.
    pub(super) fn are_gone(&self) -> bool {
        // If there are no others, all children of this process belong to the command. Then no scan
        // is needed: the kernel knows whether this process has a child.
        if self.others.as_ref().is_some_and(Vec::is_empty) {
            return orphans::are_gone();
        }
        let descendants = self.descendants();
        descendants.members.is_empty() && !descendants.may_lack
    }

    /// Reaps processes that have ended. Returns how the command itself ended, if it has ended.
    pub(super) fn reap(&mut self) -> io::Result<Option<ExitStatus>> {
        let ended = orphans::reap_with(self.pid, |reaped| {
            if let Some(others) = &mut self.others {
                others.retain(|other| *other != reaped);
            }
        });
        if self.ended.is_none() {
            self.ended = ended?;
        }
        Ok(self.ended)
    }

    /// Sends signals to all processes. Writes a note on each process to which this user may not
    /// send signals. Returns false if the command is such a process.
    pub(super) fn signal_telling(&self, signals: &[Signal]) -> bool {
        let refused = self.signal(signals);
        for pid in &refused {
            let told = "cannot be signalled by this user; use `sudo quorumlock run ..`";
            output::note(&format!("{} {told}", process_tree::described(*pid)));
        }
        !refused.contains(&self.pid)
    }

    /// Sends signals to the command, then to all processes that a scan finds, and to their groups.
    /// Returns the processes to which this user may not send signals.
    pub(super) fn signal(&self, signals: &[Signal]) -> Vec<Pid> {
        // Send to the command first: with many processes, the scan takes time.
        let lives = self.ended.is_none();
        let sent = lives.then(|| signals.iter().try_for_each(|&signal| self.signal_command(signal)));
        let Descendants { members, mut groups, .. } = self.descendants();
        if lives {
            groups.remove(&self.pid);
        }
        // A signal to a group reaches all its processes at once, so none of them can start a
        // process that escapes the signal. The signal also reaches processes that the scan did not
        // find.
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

    /// Sends a signal to the command, or to the command's group if the command leads a group. Do
    /// not call this after the command was reaped: another process may have got its process id.
    fn signal_command(&self, signal: Signal) -> Result<(), Errno> {
        if self.leads { kill_process_group(self.pid, signal) } else { kill_process(self.pid, signal) }
    }

    /// Sends SIGTERM to the processes that have left our process group. Signals from the terminal's
    /// keys do not reach these processes.
    pub(super) fn terminate_outside_our_group(&self) {
        let unreached = |member: &&Member| member.group != Some(getpgrp());
        let descendants = self.descendants();
        descendants.members.iter().filter(unreached).for_each(|member| _ = kill_process(member.pid, Signal::TERM));
    }

    /// Descriptions of the processes that still run.
    pub(super) fn described(&self) -> Vec<String> {
        let descendants = self.descendants();
        let left: Vec<_> = descendants.members.iter().map(|member| process_tree::described(member.pid)).collect();
        if left.is_empty() { vec!["a process that cannot be seen".to_owned()] } else { left }
    }

    /// Whether no process runs (see [`Member::rests`]), except for the processes in `except`.
    pub(super) fn rest(&self, except: &[Pid]) -> bool {
        let descendants = self.descendants();
        let rests = |member: &Member| member.rests() || except.contains(&member.pid);
        !descendants.may_lack && descendants.members.iter().all(rests)
    }

    /// Whether the command is stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped_by().is_some() || self.waits_for_a_stopped_child()
    }

    /// The signal that stopped the command itself, if the command is stopped.
    pub(super) fn stopped_by(&self) -> Option<i32> {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(self.pid), options).ok()??.stopping_signal()
    }

    /// Whether the command waits for a child that was stopped before its exec. A shell that starts
    /// a child by vfork cannot stop until the child's exec.
    fn waits_for_a_stopped_child(&self) -> bool {
        let descendants = self.descendants();
        let has = |what: fn(&Member) -> Option<Pid>, state| {
            descendants.members.iter().any(|member| what(member) == Some(self.pid) && member.state == state)
        };
        has(|itself| Some(itself.pid), 'D') && has(|child| child.parent, 'T')
    }

    /// The living processes. If `/proc` does not show processes, returns only the command itself.
    fn descendants(&self) -> Descendants {
        let seen = self.others.as_deref().map(|others| process_tree::below(getpid(), others));
        let mut descendants = seen.unwrap_or_default();
        if self.ended.is_none() && !descendants.members.iter().any(|member| member.pid == self.pid) {
            let (group, parent) = (self.leads.then_some(self.pid), Some(getpid()));
            descendants.members.push(Member { pid: self.pid, group, parent, state: 'R', ended: false });
        }
        descendants
    }
}
