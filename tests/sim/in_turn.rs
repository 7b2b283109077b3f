//! Worlds in which nodes restart and forget in turn, so few at a time that each can be synced by the
//! others. There tokens must grow whatever wall clocks show.
//!
//! What is not drawn there is what docs/guarantees.md does not promise (point 7: when tokens rest on
//! wall clocks): too many nodes that are not synced, a quarantine that is not well
//! above 10 s, and that no client reaches the others and that node until it is over. So while some
//! node is not synced, one process goes on undisturbed, and so do the nodes that are up. Everybody
//! else is disturbed as ever.

use std::sync::Arc;
use std::time::Duration;

use crate::faults::Action;
use crate::judge::history::Memory;
use crate::plan::Plan;
use crate::world::{Core, Weather, World, micros};

/// How long a crash waits for its turn before it asks again.
const PAUSE: Duration = Duration::from_millis(500);

impl Plan {
    /// How many nodes may be unsynced at a time: any two quorums share one node more.
    fn pupils(&self) -> usize {
        self.nodes - (self.nodes / 2 + 1)
    }
}

impl Core {
    /// The nodes that are to be synced, or have not rested since they restarted; but `node`.
    fn pupils(&self, now: u64, node: Option<usize>) -> usize {
        let Some(rest) = self.plan.in_turn else { return 0 };
        let pending = |at: &usize| {
            let server = &self.servers[*at];
            server.down || !server.is_synced(now) || server.started_at.is_some_and(|at| now < at + micros(rest))
        };
        (0..self.servers.len()).filter(|&at| Some(at) != node).filter(pending).count()
    }

    /// Whether this process syncs nodes, and is left alone: the first that lives, while some node is
    /// not synced.
    pub fn syncs(&self, now: u64, process: usize) -> bool {
        self.disturbed_by(now) && self.live().first() == Some(&process)
    }

    /// Whether what disturbs everybody must wait.
    pub fn disturbed_by(&self, now: u64) -> bool {
        self.plan.in_turn.is_some() && self.pupils(now, None) > 0
    }
}

impl World {
    /// Whether a node may crash now. If not, it does so later; if so, one process is left alone
    /// from now on.
    pub fn takes_its_turn(self: &Arc<Self>, node: usize, memory: Memory, down: Duration) -> bool {
        let now = self.now();
        let mut core = self.core.lock().unwrap();
        if core.plan.in_turn.is_none() {
            return true;
        }
        // Now and then the same once more, before it was synced.
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

    /// Ends what would keep the first process from that.
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
