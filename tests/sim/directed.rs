//! Faults that wait for their moment: after a grant, between two grants of one round, between a
//! release and the next claim, or between the last vote and the decision. Also `squeeze`, which
//! leaves a process with exactly a quorum.

use std::sync::Arc;
use std::time::Duration;

use crate::cue::{Cue, HeldBack};
use crate::faults::Action;
use crate::judge::history::{Answer, Memory, Micros, Op, What};
use crate::world::{Core, World, micros};

/// A fault on the node that granted, extended or released a lock, or on the process that gets the
/// reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directed {
    Forget,
    Flush,
    Restart,
    StepClock,
    /// Replies of this node no longer reach this process.
    CutAnswers,
    CutRequests,
    /// The process is cut off from some node, in both directions.
    CutOther,
    Replace,
    Pause,
    /// Some process revokes the lock on the name.
    Revoke,
}

impl Directed {
    pub const ALL: [Self; 10] = [
        Self::Forget,
        Self::Flush,
        Self::Restart,
        Self::StepClock,
        Self::CutAnswers,
        Self::CutRequests,
        Self::CutOther,
        Self::Replace,
        Self::Pause,
        Self::Revoke,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Forget => "directed_crash_empty",
            Self::Flush => "directed_flush",
            Self::Restart => "directed_crash_with_data",
            Self::StepClock => "directed_clock_step",
            Self::CutAnswers => "directed_cut_of_answers",
            Self::CutRequests => "directed_cut_of_requests",
            Self::CutOther => "directed_cut_of_another_node",
            Self::Replace => "directed_replacement",
            Self::Pause => "directed_pause",
            Self::Revoke => "directed_revocation",
        }
    }
}

/// The operation of this event, if a directed fault may strike right after the event.
fn moment(what: What) -> Option<Op> {
    match what {
        What::Did(op, Answer::Granted | Answer::Released(true) | Answer::Extended | Answer::Healed)
        | What::Delivered(op, Answer::Granted) => Some(op),
        _ => None,
    }
}

impl Core {
    pub fn directed(&mut self, now: Micros, what: What) -> Vec<Cue> {
        if self.plan.directed.is_empty() || now >= micros(self.plan.length) {
            return Vec::new();
        }
        let Some(op) = moment(what) else { return Vec::new() };
        if !self.dice.chance(self.plan.directed_share) {
            return Vec::new();
        }
        let kinds = self.plan.directed.clone();
        let kind = self.dice.pick(&kinds);
        *self.faults.entry(kind.name()).or_default() += 1;
        vec![self.aimed(kind, op)]
    }

    fn aimed(&mut self, kind: Directed, op: Op) -> Cue {
        let (process, node, server) = (op.process as usize, op.node as usize, op.server as usize);
        let last = self.fault_length();
        let down = self.dice.log(Duration::from_millis(1), Duration::from_millis(200));
        match kind {
            Directed::Forget => Cue::Crash { node: server, memory: Memory::Empty, down },
            Directed::Flush => Cue::Flush(server),
            Directed::Restart => Cue::Crash { node: server, memory: Memory::Kept, down },
            Directed::StepClock => Cue::StepSeenClock(server),
            Directed::CutAnswers => Cue::Cut { process, node, ways: [false, true], last },
            Directed::CutRequests => Cue::Cut { process, node, ways: [true, false], last },
            Directed::CutOther => Cue::Cut { process, node: self.some_node(), ways: [true; 2], last },
            Directed::Replace => Cue::Replace { process, node },
            Directed::Pause => Cue::Pause { process, last },
            Directed::Revoke => Cue::Revokes { process: self.some_process().unwrap_or(process), name: op.name },
        }
    }

    /// A process (mostly the latest holder, if it lives), and its nodes in random order.
    fn squeezed(&mut self, holder: Option<usize>) -> Option<(usize, Vec<usize>)> {
        let process = match holder {
            Some(holder) if self.dice.chance(0.7) && !self.processes[holder].dead => holder,
            _ => self.some_process()?,
        };
        let mut nodes = self.processes[process].list.clone();
        for left in (1..nodes.len()).rev() {
            nodes.swap(left, self.dice.index(left + 1));
        }
        Some((process, nodes))
    }
}

impl World {
    /// Leaves one process with exactly a quorum. Later cuts the process off from one node of this
    /// quorum, and reconnects it to a spare node. The spare node may restart empty at that moment.
    /// Sometimes holds back other processes' requests to the node that was cut off, until holds on
    /// this node may have expired.
    pub fn squeeze(self: &Arc<Self>, last: Duration) -> bool {
        let (now, holder) = (self.now(), self.leases.some_holder());
        let mut core = self.core.lock().unwrap();
        let Some((process, nodes)) = core.squeezed(holder) else { return false };
        let (spare, quorum) = nodes.split_at(nodes.len() - (nodes.len() / 2 + 1));
        let Some(&back) = spare.first() else { return false };
        let lost = quorum[0];
        let turn = now + micros(last.mul_f64(core.dice.share()));
        let forgets = core.plan.forgets() && core.dice.chance(0.7);
        let (down, ttl) = (core.dice.log(Duration::from_millis(1), last), core.plan.ttl);
        let others = if core.dice.chance(0.5) { core.live() } else { Vec::new() };
        for other in others.into_iter().filter(|&other| other != process) {
            if core.syncs(now, other) {
                continue;
            }
            let until = turn + micros(core.dice.log(ttl / 4, 2 * ttl));
            let sent = now..until;
            core.hold_back(HeldBack { process: other, node: lost, way: 0, sent, until: Some(until), verb: None });
        }
        drop(core);
        for &node in spare {
            self.cue(Cue::Cut { process, node, ways: [true; 2], last: 2 * last });
        }
        self.cue_at(turn, Cue::Cut { process, node: lost, ways: [true; 2], last });
        if forgets {
            let node = self.core.lock().unwrap().route(process, back);
            self.cue_at(turn, Cue::Crash { node, memory: Memory::Empty, down });
        }
        self.after(Duration::from_micros(turn - now), Action::Mend(vec![(process, back)]));
        true
    }
}
