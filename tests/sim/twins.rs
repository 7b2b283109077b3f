//! Random worlds in which one name leads to two servers: split DNS, a failover that left the old
//! server running, or a replaced node that comes back.

use std::sync::Arc;
use std::time::Duration;

use crate::dice::Dice;
use crate::faults::Action;
use crate::judge::history::{Memory, What};
use crate::lists::slow_down;
use crate::plan::{FaultKind, Plan};
use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);
/// The share of random worlds with two servers behind one name.
const SHARE: f64 = 0.05;
/// The time from the new server's start to the first restart of a process, and the time between two
/// restarts.
const RESTARTS: [Duration; 2] = [Duration::from_secs(25), Duration::from_secs(6)];

/// Longer than any run.
const FOREVER: Duration = Duration::from_secs(1_000_000);

/// What happens to one node in the run.
#[derive(Clone, Copy, Debug)]
pub struct Twin {
    node: usize,
    at: Duration,
    how: How,
}

#[derive(Clone, Copy, Debug)]
enum How {
    /// For a time, the node's name leads some processes to another server. This server has a copy
    /// of the node's data, or no data.
    Split { copied: bool, last: Duration },
    /// The server is destroyed, and another server gets its name after `max_ttl`. Some time later,
    /// the old server may come back for some processes.
    Replaced { back: Option<Duration> },
}

/// One step of a `Twin`.
#[derive(Clone, Copy, Debug)]
pub enum Move {
    /// The name now leads some processes, or all, to this server.
    Leads { node: usize, server: usize, all: bool },
    /// The name leads all processes to its own server again.
    Joined { node: usize },
    /// A process ends, and a new process replaces it.
    Renewed(usize),
}

impl Twin {
    /// Sometimes turns a plain world into a world of this kind.
    pub fn draw(plan: &mut Plan, mut dice: Dice) {
        if plan.nodes < 3 || !dice.chance(SHARE) {
            return;
        }
        slow_down(plan, &mut dice);
        plan.proxied = false;
        plan.wall_skew = plan.wall_skew.min(SECOND);
        plan.wall_behind = Duration::ZERO;
        // With faults of other kinds, too many nodes would forget.
        let few = |fault: &FaultKind| matches!(fault, FaultKind::Cut | FaultKind::Pause | FaultKind::Kill);
        plan.faults.retain(few);
        plan.directed.clear();
        plan.spares = 1;
        plan.node_rates.push(1_000_000);
        if dice.chance(0.3) {
            plan.young = vec![plan.nodes];
        }
        let (node, at) = (dice.index(plan.nodes), SECOND.mul_f64(10.0 + 5.0 * dice.share()));
        let last = SECOND.mul_f64(dice.pick(&[20.0, 40.0]));
        let back = dice.chance(0.5).then(|| SECOND.mul_f64(20.0 * dice.share()));
        let how = match dice.chance(0.6) {
            true => How::Split { copied: dice.chance(0.4), last },
            false => How::Replaced { back },
        };
        let twin = Self { node, at, how };
        plan.length = twin.ends(plan) + 10 * SECOND;
        plan.processes = plan.processes.max(3);
        plan.clients = plan.clients.max(plan.processes);
        plan.twin = Some(twin);
    }

    /// When all steps are over.
    fn ends(&self, plan: &Plan) -> Duration {
        let [first, next] = RESTARTS;
        match self.how {
            How::Split { last, .. } => self.at + last,
            How::Replaced { back } => {
                let replaced = self.at + plan.max_ttl.mul_f64(1.03) + first + next * plan.processes as u32;
                replaced + back.map_or(Duration::ZERO, |back| back + 20 * SECOND)
            }
        }
    }
}

impl World {
    /// Schedules the steps, if the plan has any.
    pub fn plan_twins(self: &Arc<Self>) {
        let plan = self.core.lock().unwrap().plan.clone();
        let Some(Twin { node, at, how }) = plan.twin else { return };
        let spare = plan.nodes;
        let moves = |at, step| self.after(at, Action::Move(step));
        match how {
            How::Split { copied, last } => {
                if copied {
                    self.after(at, Action::Copy { from: node, to: spare });
                }
                moves(at, Move::Leads { node, server: spare, all: false });
                moves(at + last, Move::Joined { node });
            }
            How::Replaced { back } => {
                self.after(at, Action::Crash { node, memory: Memory::Kept, down: FOREVER });
                let comes = at + plan.max_ttl.mul_f64(1.03);
                moves(comes, Move::Leads { node, server: spare, all: true });
                let [first, next] = RESTARTS;
                (0..plan.processes)
                    .for_each(|process| moves(comes + first + next * process as u32, Move::Renewed(process)));
                if let Some(back) = back {
                    let back = comes + first + next * plan.processes as u32 + back;
                    self.after(back, Action::Restart { node, epoch: 1 });
                    moves(back, Move::Leads { node, server: node, all: false });
                    moves(back + 20 * SECOND, Move::Joined { node });
                }
            }
        }
    }

    pub fn move_on(self: &Arc<Self>, step: Move) {
        match step {
            Move::Leads { node, server, all: true } => self.leads(node, server),
            Move::Leads { node, server, all: false } => {
                let mut core = self.core.lock().unwrap();
                let live = core.live();
                let whom: Vec<_> = live.into_iter().filter(|_| core.dice.chance(0.5)).collect();
                drop(core);
                self.split(node, &whom, server);
            }
            Move::Joined { node } => self.join(node),
            Move::Renewed(process) => {
                let dead = self.core.lock().unwrap().processes[process].dead;
                if !dead {
                    self.kill(process);
                }
            }
        }
    }

    /// From now on, a name leads all processes to another server.
    pub fn leads(&self, node: usize, server: usize) {
        let now = self.now();
        let mut core = self.core.lock().unwrap();
        core.homes[node] = server;
        core.views.retain(|(_, name), _| *name != node);
        let live = core.live();
        core.reroute(now, node, &live, server, true);
        core.history.record(now, What::Moved { node: node as u8, server: server as u8 });
    }

    /// From now on, a name leads these processes to another server.
    pub fn split(&self, node: usize, whom: &[usize], server: usize) {
        let now = self.now();
        let mut core = self.core.lock().unwrap();
        core.reroute(now, node, whom, server, true);
        core.history.record(now, What::Split { node: node as u8, server: server as u8, split: true });
    }

    /// From now on, a name leads all processes to its own server again.
    pub fn join(&self, node: usize) {
        let now = self.now();
        let mut core = self.core.lock().unwrap();
        let (live, server) = (core.live(), core.homes[node]);
        core.views.retain(|(_, name), _| *name != node);
        core.reroute(now, node, &live, server, true);
        core.history.record(now, What::Split { node: node as u8, server: server as u8, split: false });
    }

    /// Gives the server `to` all data of the server `from`, as if `to` had been a replica of
    /// `from`.
    pub fn copy(&self, from: usize, to: usize) {
        let mut core = self.core.lock().unwrap();
        let copied = core.servers[from].copied();
        core.servers[to].take_over(copied);
    }
}
