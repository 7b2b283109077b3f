//! Random worlds in which processes have different configurations (other nodes, another `max_ttl`,
//! another list name), and the ways in which one configuration replaces another.
//!
//! No world calls `force_release`: the judge would have to excuse two holders, and could miss bugs.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use quorumlock::rules::list::List;

use crate::dice::Dice;
use crate::plan::{FaultKind, Plan};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// The percentage of random worlds with different configurations.
static SHARE: AtomicU32 = AtomicU32::new(20);
const TEAMS: [&str; 2] = ["default", "other"];

/// Sets the percentage of random worlds with different configurations.
pub fn draw_in(percent: u32) {
    SHARE.store(percent, Ordering::Relaxed);
}

/// The percentage of random worlds with different configurations.
pub fn drawn_in() -> u32 {
    SHARE.load(Ordering::Relaxed)
}

/// One configuration, which several processes may have.
#[derive(Clone, Debug)]
pub struct Deployment {
    pub list: Vec<usize>,
    pub ttl: Duration,
    pub max_ttl: Duration,
    /// The index of the list's name in `TEAMS`.
    pub team: u8,
    /// 0 for the old configurations, 1 for the new ones.
    pub side: usize,
}

impl Deployment {
    pub const fn name(&self) -> &'static str {
        TEAMS[self.team as usize]
    }

    pub fn listed(&self) -> List {
        List::new(self.name(), self.list.iter().map(|node| format!("n{node}")), self.max_ttl)
    }
}

/// How the new side replaces the old side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Processes of both sides run from the beginning.
    Together,
    /// All old processes stop at `stop`, and new processes start at `start`. `start` is before the
    /// stop, at the stop, or so late that the old list has lapsed. One old process may stand still
    /// at the stop, and continue later.
    Cold { stop: Duration, start: Duration, stalled: Option<Duration> },
    /// Old processes are replaced one by one. From `back` on, new processes are replaced by old
    /// processes.
    Rolling { from: Duration, every: Duration, back: Option<Duration> },
    /// A new process runs beside the old ones for a while, as a canary or a stray client does.
    Beside { from: Duration, last: Duration },
}

#[derive(Clone, Debug)]
pub struct Lists {
    pub deployments: Vec<Deployment>,
    pub change: Change,
    /// The side whose processes are left when the faults end; `None` if both sides are left.
    pub left: Option<usize>,
}

impl Plan {
    /// The configuration of a process. In scenes it depends on the process's number, otherwise on
    /// the plan.
    pub fn configuration(&self, number: usize, deployment: usize) -> Deployment {
        if let Some(mixed) = &self.mixed {
            return mixed.deployments[deployment].clone();
        }
        let list = self.lists.get(number).cloned().unwrap_or_else(|| (0..self.nodes).collect());
        let team = u8::from(self.strangers.contains(&number));
        Deployment { list, ttl: self.ttl, max_ttl: self.max_ttl, team, side: 0 }
    }
}

impl Lists {
    /// Sometimes gives the processes of a plain world different configurations.
    pub fn draw(plan: &mut Plan, mut dice: Dice) {
        if !dice.chance(f64::from(drawn_in()) / 100.0) {
            return;
        }
        let shape = dice.weighed(&[
            (2, Shape::Alike),
            (4, Shape::Apart(1)),
            (4, Shape::Apart(2)),
            (1, Shape::Apart(0)),
            (2, Shape::Sizes),
            (2, Shape::Ttls),
            (2, Shape::Foreign),
        ]);
        let (old, new) = shape.lists(&mut dice);
        plan.nodes = old.iter().chain(&new).max().map_or(1, |last| last + 1);
        plan.draw_clocks(&mut dice);
        slow_down(plan, &mut dice);
        let deployments = deployments(shape, [old, new], plan, &mut dice);
        plan.ttl = deployments.iter().map(|one| one.ttl).max().unwrap_or(plan.ttl);
        plan.max_ttl = deployments.iter().map(|one| one.max_ttl).max().unwrap_or(plan.max_ttl);
        if dice.chance(0.5) {
            plan.young = (0..plan.nodes).filter(|_| dice.chance(0.4)).collect();
        }
        let change = change(shape, plan.max_ttl, &mut dice);
        let left = if dice.chance(0.6) { Some(dice.index(2)) } else { None };
        let alone = match change {
            _ if shape == Shape::Alike => None,
            Change::Together => left,
            Change::Beside { .. } => Some(0),
            Change::Rolling { back: Some(_), .. } => left.map(|_| 0),
            Change::Rolling { .. } | Change::Cold { .. } => left.map(|_| 1),
        };
        let lists = Self { deployments, change, left: alone };
        bound_faults(plan);
        plan.length = lists.length(plan.max_ttl);
        plan.processes = plan.processes.max(3);
        plan.clients = plan.clients.max(plan.processes);
        plan.mixed = Some(lists);
    }

    /// How long a list stays in force at most after its clients have gone.
    pub fn lasts(max_ttl: Duration) -> Duration {
        List::new(TEAMS[0], ["n0"], max_ttl).lasts()
    }

    fn length(&self, max_ttl: Duration) -> Duration {
        match self.change {
            Change::Together => 45 * SECOND,
            Change::Cold { stop, start, stalled } => {
                let back = stop + stalled.unwrap_or_default() + 10 * SECOND;
                (stop.max(start) + Self::lasts(max_ttl) + 10 * SECOND).max(back)
            }
            Change::Rolling { from, every, back } => back.unwrap_or(from) + 6 * every + Self::lasts(max_ttl),
            Change::Beside { from, last } => from + last + Self::lasts(max_ttl) + 10 * SECOND,
        }
    }

    /// The configuration of a process that starts at the beginning.
    pub fn first(&self, number: usize) -> usize {
        match self.change {
            Change::Together => number % self.deployments.len(),
            _ => self.some_of(0, number),
        }
    }

    /// One of the configurations of a side.
    pub fn some_of(&self, side: usize, number: usize) -> usize {
        let of: Vec<_> = (0..self.deployments.len()).filter(|&one| self.deployments[one].side == side).collect();
        of[number % of.len()]
    }
}

/// Excludes faults under which nothing is promised to clients of different lists. Nodes of one list
/// do not know the tokens of another list. So tokens grow only if wall clocks agree.
fn bound_faults(plan: &mut Plan) {
    plan.wall_skew = plan.wall_skew.min(SECOND);
    plan.wall_behind = Duration::ZERO;
    // Behind a proxy, clients would notice another server's list only with their next hello.
    plan.proxied = false;
    plan.faults.retain(|fault| *fault != FaultKind::RollingRestart);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// One list, perhaps written in another order.
    Alike,
    /// Lists of equal size that share this many nodes.
    Apart(usize),
    /// Lists of different sizes.
    Sizes,
    /// The same nodes with another `max_ttl`.
    Ttls,
    /// A list with another name.
    Foreign,
}

impl Shape {
    fn lists(self, dice: &mut Dice) -> (Vec<usize>, Vec<usize>) {
        let [old, new, shared] = match self {
            Self::Alike | Self::Ttls => dice.pick(&[[3, 3, 3], [3, 3, 3], [5, 5, 5], [1, 1, 1]]),
            Self::Apart(shared) => dice.pick(&[[3, 3, shared], [3, 3, shared], [5, 5, shared]]),
            Self::Sizes => dice.pick(&[[3, 5, 3], [3, 5, 1], [5, 3, 2], [1, 3, 1], [3, 1, 1]]),
            Self::Foreign => dice.pick(&[[3, 3, 1], [3, 3, 1], [5, 5, 2], [3, 3, 2], [3, 3, 3]]),
        };
        let mut nodes: Vec<_> = (0..old + new - shared).collect();
        shuffle(&mut nodes, dice);
        (nodes[..old].to_vec(), shuffled(&nodes[old - shared..], dice))
    }
}

fn shuffle(nodes: &mut [usize], dice: &mut Dice) {
    for left in (1..nodes.len()).rev() {
        nodes.swap(left, dice.index(left + 1));
    }
}

fn shuffled(nodes: &[usize], dice: &mut Dice) -> Vec<usize> {
    let mut nodes = nodes.to_vec();
    shuffle(&mut nodes, dice);
    nodes
}

/// Slows a world down, since lists stay in force for many seconds.
pub fn slow_down(plan: &mut Plan, dice: &mut Dice) {
    plan.ttl = whole(dice.log(400 * MS, 5 * SECOND));
    plan.max_ttl = whole(dice.log(6 * SECOND, 20 * SECOND));
    plan.think = dice.log(10 * MS, plan.ttl);
    plan.longest_delay = plan.longest_delay.min(500 * MS);
    plan.node_timeout = plan.node_timeout.min(400 * MS);
    plan.fault_every = dice.log(200 * MS, 2 * SECOND);
}

fn whole(duration: Duration) -> Duration {
    Duration::from_millis(duration.as_millis() as u64)
}

/// One or two configurations for each list. The lists of `Shape::Alike` are both on side 0.
fn deployments(shape: Shape, lists: [Vec<usize>; 2], plan: &Plan, dice: &mut Dice) -> Vec<Deployment> {
    let mut all = Vec::new();
    for (side, list) in lists.into_iter().enumerate() {
        let team = u8::from(side == 1 && shape == Shape::Foreign);
        let max_ttl = if side == 1 && shape == Shape::Ttls { 2 * plan.max_ttl } else { plan.max_ttl };
        let side = if shape == Shape::Alike { 0 } else { side };
        let one = Deployment { list, ttl: plan.ttl, max_ttl, team, side };
        all.push(one.clone());
        if dice.chance(0.3) {
            let list = shuffled(&one.list, dice);
            // A round waits for a sixth of the ttl, and must be longer than a round trip.
            let least = (20 * plan.farthest()).max(400 * MS).min(plan.ttl);
            let ttl = whole(dice.log(least, plan.ttl));
            all.push(Deployment { list, ttl, ..one });
        }
    }
    all
}

fn change(shape: Shape, max_ttl: Duration, dice: &mut Dice) -> Change {
    let stop = SECOND.mul_f64(10.0 + 8.0 * dice.share());
    let cold = |start, stalled| Change::Cold { stop, start, stalled };
    let long = Lists::lasts(max_ttl).mul_f64(0.8 + 0.4 * dice.share());
    let (early, every) = (stop.mul_f64(dice.share()), SECOND.mul_f64(1.0 + 4.0 * dice.share()));
    let last = dice.log(2 * SECOND, 40 * SECOND);
    let rolled = stop + 4 * every + SECOND.mul_f64(5.0 * dice.share());
    let change = dice.weighed(&[
        (3, Change::Together),
        (2, cold(stop, None)),
        (1, cold(early, None)),
        (2, cold(stop + Lists::lasts(max_ttl), None)),
        (2, cold(stop, Some(long))),
        (2, Change::Rolling { from: stop, every, back: None }),
        (2, Change::Rolling { from: stop, every, back: Some(rolled) }),
        (2, Change::Beside { from: stop, last }),
    ]);
    if shape == Shape::Alike { Change::Together } else { change }
}
