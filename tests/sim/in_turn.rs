//! Worlds in which nodes restart and forget in turn. At any time, enough nodes are synced to sync
//! the other nodes. In these worlds tokens must grow, whatever wall clocks show.
//!
//! Point 7 of "What is not promised" (docs/guarantees.md) lists cases in which tokens rest on wall
//! clocks. These worlds exclude three such cases: too many unsynced nodes, a short quarantine, and
//! a quarantine in which no client can sync the node. So while a node is not synced, faults spare
//! the nodes that are up, and one process. All other processes meet faults as usual.

use std::sync::Arc;
use std::time::Duration;

use crate::faults::Action;
use crate::judge::history::Memory;
use crate::plan::Plan;
use crate::world::{Core, Weather, World, micros};

/// If a crash may not happen yet, the simulation tries again after this time.
const PAUSE: Duration = Duration::from_millis(500);

impl Plan {
    /// How many nodes may be unsynced at a time. The other nodes are a quorum, which is enough to
    /// sync a node.
    fn pupils(&self) -> usize {
        self.nodes - (self.nodes / 2 + 1)
    }
}

impl Core {
    /// How many nodes, except `node`, are down, not synced, or restarted less than the plan's time
    /// `in_turn` ago.
    fn pupils(&self, now: u64, node: Option<usize>) -> usize {
        let Some(rest) = self.plan.in_turn else { return 0 };
        let pending = |at: &usize| {
            let server = &self.servers[*at];
            server.down || !server.is_synced(now) || server.started_at.is_some_and(|at| now < at + micros(rest))
        };
        (0..self.servers.len()).filter(|&at| Some(at) != node).filter(pending).count()
    }

    /// Whether faults must spare this process, so that it can sync nodes. While any node is not
    /// synced, faults spare the first live process.
    pub fn syncs(&self, now: u64, process: usize) -> bool {
        self.disturbed_by(now) && self.live().first() == Some(&process)
    }

    /// Whether faults that disturb all processes must wait.
    pub fn disturbed_by(&self, now: u64) -> bool {
        self.plan.in_turn.is_some() && self.pupils(now, None) > 0
    }
}

impl World {
    /// Whether a node may crash now. If so, ends the faults that disturb the first process. If not,
    /// schedules the crash again.
    pub fn takes_its_turn(self: &Arc<Self>, node: usize, memory: Memory, down: Duration) -> bool {
        let now = self.now();
        let mut core = self.core.lock().unwrap();
        if core.plan.in_turn.is_none() {
            return true;
        }
        // Sometimes one node crashes again before it was synced.
        let once_more = core.dice.chance(0.1).then_some(node);
        if core.pupils(now, once_more) >= core.plan.pupils() {
            let again = now + micros(PAUSE) < micros(core.plan.length) && core.plan.pupils() > 0;
            drop(core);
            if again {
                self.after(PAUSE, Action::Crash { node, memory, down });
            }
            return false;
        }
        drop(core);
        self.calm();
        true
    }

    /// Ends all faults that could keep the first process from syncing nodes.
    fn calm(self: &Arc<Self>) {
        self.weather(Weather::default());
        let mut core = self.core.lock().unwrap();
        let (first, nodes) = (core.live().first().copied(), core.servers.len());
        let hung: Vec<_> = (0..nodes).filter(|&node| core.servers[node].hung).collect();
        first.into_iter().for_each(|first| core.hold_back_of_no_more(first));
        drop(core);
        hung.into_iter().for_each(|node| self.unhang(node));
        if let Some(first) = first {
            (0..nodes).for_each(|node| self.cut(first, node, [false; 2]));
            self.resume(first);
        }
    }
}
