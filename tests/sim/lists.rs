//! Random worlds in which processes are not all configured alike: other lists of nodes, another
//! `ttl` and `max_ttl`, the next protocol; and how one configuration follows another.
//!
//! (Nobody calls `force_release`. It may make two holders, until the old one's time is over or its
//! next renewal: the judge would have to look away for so long, and that hides what it is for.)

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use quorumlock::rules::roster::{LASTS, PROTOCOL, SPARE, YOUNG};

use crate::dice::Dice;
use crate::judge::history::{Micros, SECOND as MICROS};
use crate::plan::{FaultKind, Plan};
use crate::world::micros;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// In so many of a hundred random worlds.
static SHARE: AtomicU32 = AtomicU32::new(20);

/// From now on so many of a hundred random worlds have clients that are configured differently.
pub fn draw_in(percent: u32) {
    SHARE.store(percent, Ordering::Relaxed);
}

/// In so many of a hundred.
pub fn drawn_in() -> u32 {
    SHARE.load(Ordering::Relaxed)
}

/// How long a process needs at most to be connected again to a node that it can reach: a pause, a
/// timeout, and what timers are late after a suspension.
const BACK: Duration = Duration::from_millis(3_500);

/// Processes that are configured alike.
#[derive(Clone, Debug)]
pub struct Deployment {
    pub list: Vec<usize>,
    pub ttl: Duration,
    pub max_ttl: Duration,
    pub protocol: u32,
    /// The old configuration is 0, the new one 1.
    pub side: usize,
}

/// How one side follows the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// All run from the beginning on.
    Together,
    /// The old ones are stopped at a time, and the new ones start at another: as they should, too
    /// early, or at once. An old one may stand still then, and come back after so long.
    Cold { stop: Duration, start: Duration, stalled: Option<Duration> },
    /// One after the other is replaced.
    Rolling { from: Duration, every: Duration },
}

#[derive(Clone, Debug)]
pub struct Lists {
    pub deployments: Vec<Deployment>,
    /// The sides never vote together: while one of them is enrolled, the other is kept out.
    pub rivals: bool,
    pub change: Change,
    /// The side that is left when the faults end; both where there is none.
    pub left: Option<usize>,
    pub truces: Truces,
}

/// Rosters keep apart whom some node tells of each other. So a client that is cut off from the
/// nodes that it shares with others, or stalled, around a restart of those, or that starts then, is
/// promised nothing ("What is not promised" in docs/protocol.md). Here these nodes are in trouble
/// for a while only, and all is well with them between.
#[derive(Clone, Debug)]
pub struct Truces {
    /// The nodes that clients of several configurations share.
    pub common: BTreeSet<usize>,
    trouble: Micros,
    peace: Micros,
    /// How long after time zero the first trouble begins.
    offset: Micros,
    /// Whether processes of a new list may start amid trouble: it is over before they stop waiting
    /// for who does not answer.
    pub starts: bool,
}

impl Truces {
    fn phase(&self, now: Micros) -> Micros {
        let period = self.trouble + self.peace;
        (now + period - self.offset % period) % period
    }

    /// Whether common nodes may be in trouble.
    pub fn trouble(&self, now: Micros) -> bool {
        self.common.is_empty() || self.phase(now) < self.trouble
    }

    /// When the trouble ends that is or comes next.
    pub fn next(&self, now: Micros) -> Micros {
        let phase = self.phase(now);
        let period = self.trouble + self.peace;
        now + if phase < self.trouble { self.trouble - phase } else { period - phase + self.trouble }
    }

    /// When a process may start that would not wait for long.
    pub fn start(&self, now: Micros) -> Micros {
        let phase = self.phase(now);
        let settled = self.trouble + MICROS;
        let late = self.trouble + self.peace - 2 * MICROS;
        match phase {
            _ if self.common.is_empty() => now,
            _ if phase < settled => now + settled - phase,
            _ if phase > late => now + self.trouble + self.peace - phase + settled,
            _ => now,
        }
    }
}

impl Plan {
    /// How a process is configured: in a scene by its number, and else as the plan has drawn it.
    pub fn configuration(&self, number: usize, deployment: usize) -> Deployment {
        if let Some(mixed) = &self.mixed {
            return mixed.deployments[deployment].clone();
        }
        let unlike = self.unlike.iter().find(|(process, ..)| *process == number);
        let (ttl, max_ttl) = unlike.map_or((self.ttl, self.max_ttl), |&(_, ttl, max_ttl)| (ttl, max_ttl));
        let protocol = if self.upgraded.is_some_and(|from| number >= from) { PROTOCOL + 1 } else { PROTOCOL };
        let list = self.lists.get(number).cloned().unwrap_or_else(|| (0..self.nodes).collect());
        Deployment { list, ttl, max_ttl, protocol, side: 0 }
    }

    /// Which processes may vote together.
    pub fn camp(&self, deployment: usize) -> u8 {
        self.mixed.as_ref().map_or(0, |mixed| mixed.camp(deployment))
    }
}

impl Lists {
    /// Sometimes makes a world of clients that are not configured alike out of one in which they
    /// are.
    pub fn draw(plan: &mut Plan, mut dice: Dice) {
        if !dice.chance(f64::from(drawn_in()) / 100.0) {
            return;
        }
        let shape = dice.weighed(&[
            (2, Shape::Alike),
            (5, Shape::Apart),
            (2, Shape::Sizes),
            (2, Shape::Replaced),
            (2, Shape::Protocol),
        ]);
        let (old, new) = shape.lists(&mut dice);
        plan.nodes = old.iter().chain(&new).max().map_or(1, |last| last + 1);
        plan.draw_clocks(&mut dice);
        slow_down(plan, &mut dice);
        let deployments = deployments(shape, [old, new], plan, &mut dice);
        plan.ttl = deployments.iter().map(|one| one.ttl).max().unwrap_or(plan.ttl);
        plan.max_ttl = deployments.iter().map(|one| one.max_ttl).max().unwrap_or(plan.max_ttl);
        let rivals = matches!(shape, Shape::Apart | Shape::Sizes | Shape::Protocol);
        let change = change(shape, plan.max_ttl, &mut dice);
        let left = if dice.chance(0.6) { Some(dice.index(2)) } else { None };
        let left = left.filter(|_| rivals).map(|side| if change == Change::Together { side } else { 1 });
        let truces = draw_truces(shape, &deployments, plan, &mut dice);
        let lists = Self { deployments, rivals, change, left, truces };
        lists.bound_faults(plan, &mut dice);
        plan.length = lists.length(plan.max_ttl);
        plan.processes = plan.processes.max(3);
        plan.clients = plan.clients.max(plan.processes);
        plan.mixed = Some(lists);
    }

    /// How long an entry lasts at most whose client has gone.
    pub fn lasts(max_ttl: Duration) -> Duration {
        max_ttl + LASTS + SPARE
    }

    fn length(&self, max_ttl: Duration) -> Duration {
        match self.change {
            Change::Together => 45 * SECOND,
            Change::Cold { stop, start, stalled } => {
                let back = stop + stalled.unwrap_or_default() + 10 * SECOND;
                (stop.max(start) + Self::lasts(max_ttl) + 10 * SECOND).max(back)
            }
            Change::Rolling { from, every } => from + 6 * every + Self::lasts(max_ttl),
        }
    }

    /// What the protocol cannot survive beside other lists ("What is not promised" in
    /// docs/protocol.md) is kept out.
    fn bound_faults(&self, plan: &mut Plan, dice: &mut Dice) {
        // All nodes forget their rosters.
        plan.faults.retain(|fault| *fault != FaultKind::RollingRestart);
        if self.stalls() {
            plan.keep_memory();
        }
        if dice.chance(0.4) {
            plan.faults.push(FaultKind::Retire);
        }
        // Nodes of one list know nothing of tokens that were dealt on those of another: there they
        // grow by wall clocks.
        plan.wall_skew = plan.wall_skew.min(SECOND);
        plan.wall_behind = Duration::ZERO;
        plan.proxied = false;
        if !self.truces.common.is_empty() {
            plan.tail = 0.0;
        }
    }

    pub fn stalls(&self) -> bool {
        matches!(self.change, Change::Cold { stalled: Some(_), .. })
    }

    /// How the processes that start at the beginning are configured.
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

    fn camp(&self, deployment: usize) -> u8 {
        if self.rivals { self.deployments[deployment].side as u8 } else { 0 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// One list; it may be written in another order.
    Alike,
    /// Lists of as many nodes which share fewer than a quorum.
    Apart,
    /// Lists of different sizes.
    Sizes,
    /// One node is another, or two of five.
    Replaced,
    /// One list, and another protocol.
    Protocol,
}

impl Shape {
    fn lists(self, dice: &mut Dice) -> (Vec<usize>, Vec<usize>) {
        let [old, new, shared] = match self {
            Self::Alike | Self::Protocol => dice.pick(&[[3, 3, 3], [3, 3, 3], [5, 5, 5], [1, 1, 1]]),
            Self::Apart => dice.pick(&[[3, 3, 1], [3, 3, 1], [5, 5, 2], [5, 5, 1]]),
            Self::Sizes => dice.pick(&[[3, 5, 3], [3, 5, 1], [5, 3, 2], [1, 3, 1], [3, 1, 1]]),
            Self::Replaced => dice.pick(&[[3, 3, 2], [3, 3, 2], [5, 5, 4], [5, 5, 3]]),
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

/// Entries last for so many seconds that these worlds are slower than others.
fn slow_down(plan: &mut Plan, dice: &mut Dice) {
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

/// One or two configurations of each side.
fn deployments(shape: Shape, lists: [Vec<usize>; 2], plan: &Plan, dice: &mut Dice) -> Vec<Deployment> {
    let mut all = Vec::new();
    for (side, list) in lists.into_iter().enumerate() {
        let protocol = if side == 1 && shape == Shape::Protocol { PROTOCOL + 1 } else { PROTOCOL };
        let side = if shape == Shape::Alike { 0 } else { side };
        let mut one = Deployment { list, ttl: plan.ttl, max_ttl: plan.max_ttl, protocol, side };
        if dice.chance(0.3) {
            one = unlike(one, dice);
        }
        all.push(one.clone());
        if dice.chance(0.3) {
            let list = shuffled(&one.list, dice);
            all.push(Deployment { list, ..one });
        }
    }
    all
}

/// Another ttl, and a `max_ttl` that is longer or shorter.
fn unlike(one: Deployment, dice: &mut Dice) -> Deployment {
    let max_ttl = whole(dice.log(6 * SECOND, 20 * SECOND));
    let ttl = whole(dice.log(400 * MS, max_ttl));
    Deployment { ttl, max_ttl, ..one }
}

fn change(shape: Shape, max_ttl: Duration, dice: &mut Dice) -> Change {
    let stop = SECOND.mul_f64(10.0 + 8.0 * dice.share());
    let cold = |start, stalled| Change::Cold { stop, start, stalled };
    let long = Lists::lasts(max_ttl).mul_f64(0.8 + 0.4 * dice.share());
    let (early, every) = (stop.mul_f64(dice.share()), SECOND.mul_f64(1.0 + 4.0 * dice.share()));
    let change = dice.weighed(&[
        (3, Change::Together),
        (2, cold(stop, None)),
        (1, cold(early, None)),
        (1, cold(stop + Lists::lasts(max_ttl), None)),
        (2, cold(stop, Some(long))),
        (2, Change::Rolling { from: stop, every }),
    ]);
    if shape == Shape::Alike { Change::Together } else { change }
}

fn draw_truces(shape: Shape, deployments: &[Deployment], plan: &Plan, dice: &mut Dice) -> Truces {
    let least = deployments.iter().map(|one| one.max_ttl).min().unwrap_or(plan.max_ttl);
    let unlike = deployments.iter().any(|one| one.max_ttl != least);
    let everywhere = |node: &usize| deployments.iter().all(|one| one.list.contains(node));
    let common = match shape {
        // Of clients that are alike nobody needs to be told.
        Shape::Alike if !unlike => BTreeSet::new(),
        // And who has longer locks than others must have told them.
        _ if unlike => (0..plan.nodes).collect(),
        _ => (0..plan.nodes).filter(everywhere).collect(),
    };
    // Whoever was connected to a server that restarts must be back while it is young.
    let longest = YOUNG.min(least).saturating_sub(BACK + plan.longest_delay);
    let starts = dice.chance(0.5);
    let longest = if starts { longest.min(2 * SECOND - plan.longest_delay) } else { longest };
    let trouble = micros(dice.log(500 * MS, longest.max(600 * MS)));
    let peace = micros(plan.longest_delay + 6 * SECOND);
    let offset = if starts { 0 } else { micros(2 * SECOND) };
    Truces { common, trouble, peace, offset, starts }
}
