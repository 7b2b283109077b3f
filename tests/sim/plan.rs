//! What a seed draws: the size of the world, its clocks, its network, its faults and its clients'
//! habits.

use std::time::Duration;

use crate::dice::Dice;
use crate::directed::Directed;
use crate::lists::Lists;
use crate::twins::Twin;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    SlowNetwork,
    LostRequests,
    LostReplies,
    Replaced,
    Partition,
    Cut,
    Squeeze,
    RegionPartition,
    OneWay,
    Hang,
    CrashKept,
    CrashEmpty,
    CrashOld,
    RollingRestart,
    /// FLUSHALL on a running server.
    Flush,
    /// A replica takes over.
    Promote,
    NodeClockStep,
    WallStep,
    Pause,
    Suspend,
    Kill,
    DeadHead,
    Revoke,
}

impl FaultKind {
    pub const ALL: [Self; 23] = [
        Self::SlowNetwork,
        Self::LostRequests,
        Self::LostReplies,
        Self::Replaced,
        Self::Partition,
        Self::Cut,
        Self::Squeeze,
        Self::RegionPartition,
        Self::OneWay,
        Self::Hang,
        Self::CrashKept,
        Self::CrashEmpty,
        Self::CrashOld,
        Self::RollingRestart,
        Self::Flush,
        Self::Promote,
        Self::NodeClockStep,
        Self::WallStep,
        Self::Pause,
        Self::Suspend,
        Self::Kill,
        Self::DeadHead,
        Self::Revoke,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::SlowNetwork => "slow_network",
            Self::LostRequests => "lost_requests",
            Self::LostReplies => "lost_replies",
            Self::Replaced => "connection_replaced",
            Self::Partition => "partition",
            Self::Cut => "one_node_cut_off",
            Self::Squeeze => "quorum_hangs_on_one_node",
            Self::RegionPartition => "region_partition",
            Self::OneWay => "one_way_partition",
            Self::Hang => "node_hangs",
            Self::CrashKept => "crash_with_data",
            Self::CrashEmpty => "crash_empty",
            Self::CrashOld => "crash_with_old_data",
            Self::RollingRestart => "rolling_restart",
            Self::Flush => "flushed",
            Self::Promote => "replica_promoted",
            Self::NodeClockStep => "node_clock_step",
            Self::WallStep => "wall_clock_step",
            Self::Pause => "process_paused",
            Self::Suspend => "host_suspended",
            Self::Kill => "process_killed",
            Self::DeadHead => "head_of_line_dies",
            Self::Revoke => "revocation",
        }
    }

    /// Whether this fault gives a server an old state with its old record. Behind a proxy, whose
    /// connections stay open, the library does not promise to notice this.
    const fn is_unseen(self) -> bool {
        matches!(self, Self::CrashOld | Self::Promote)
    }

    const fn forgets(self) -> bool {
        matches!(self, Self::CrashEmpty | Self::CrashOld | Self::RollingRestart | Self::Flush | Self::Promote)
    }
}

/// Weights for `Plan::hints` with which no hint is delivered, not even after all faults.
pub const LOST: [(u32, u32); 3] = [(1, 0), (0, 1), (0, 2)];

#[derive(Clone, Debug)]
pub struct Plan {
    pub nodes: usize,
    /// Servers to which no name leads when a run begins.
    pub spares: usize,
    /// The servers that start when a run begins. All other servers have run for a long time.
    pub young: Vec<usize>,
    /// The nodes in each process's list. A process without an entry has all nodes.
    pub lists: Vec<Vec<usize>>,
    /// The processes whose list has another name, and the processes that only observe.
    pub strangers: Vec<usize>,
    pub onlookers: Vec<usize>,
    /// In random worlds: the configurations, and how one replaces the other.
    pub mixed: Option<Lists>,
    /// In random worlds: how a name comes to lead to two servers.
    pub twin: Option<Twin>,
    pub regions: usize,
    pub processes: usize,
    pub clients: usize,
    pub names: u8,
    /// The number of permits, if the names are a semaphore and its permits; otherwise 0.
    pub permits: u32,
    /// How often a client asks for several names.
    pub sets: f64,
    /// How often a client acquires as a reader.
    pub readers: f64,
    /// How often a writer becomes a reader.
    pub downgrades: f64,
    /// How often a client makes or uses a ticket.
    pub tickets: f64,
    /// How often a client uses a session.
    pub sessions: f64,
    /// How often a client claims a period, and how long the period is.
    pub once: f64,
    pub period: Duration,
    /// How often a client campaigns in an election. If not 0, each process has observers.
    pub elections: f64,
    /// For each name, whether the storage behind it checks tokens.
    pub checking: Vec<bool>,
    pub ttl: Duration,
    pub max_ttl: Duration,
    /// The delay one way: within a region, and to another region.
    pub near: Duration,
    pub far: Duration,
    /// Nodes that are further away from all processes, each with its delay one way.
    pub distant: Vec<(usize, Duration)>,
    /// How often a message is late without a fault, and how late at most.
    pub tail: f64,
    pub longest_delay: Duration,
    pub node_timeout: Duration,
    /// Clock rates, in parts per million.
    pub node_rates: Vec<u64>,
    pub slowest_process: u64,
    /// How far wall clocks may be ahead of true time, and behind it.
    pub wall_skew: Duration,
    pub wall_behind: Duration,
    /// If nodes restart in turn: how long each node stays up before another may restart.
    pub in_turn: Option<Duration>,
    /// Whether connections outlive the servers behind them, as behind a proxy.
    pub proxied: bool,
    pub faults: Vec<FaultKind>,
    /// Faults that wait for their moment, and how often they strike at such a moment.
    pub directed: Vec<Directed>,
    pub directed_share: f64,
    /// How many times a hint is delivered: pairs of a weight and a number of times.
    pub hints: [(u32, u32); 3],
    pub fault_every: Duration,
    /// When all faults end. After that, each client makes only one last call.
    pub length: Duration,
    pub think: Duration,
    /// Weights for how long a client works under its lock: short, medium, for several ttls, to the
    /// edge of the validity, or until the lock is lost.
    pub sections: [u32; 5],
    pub auto_renew: f64,
}

impl Plan {
    /// A world without faults, in which nothing happens unless a script says so.
    pub fn still(nodes: usize, ttl: Duration, max_ttl: Duration) -> Self {
        Self {
            nodes,
            spares: 0,
            young: Vec::new(),
            lists: Vec::new(),
            strangers: Vec::new(),
            onlookers: Vec::new(),
            mixed: None,
            twin: None,
            regions: 1,
            processes: 0,
            clients: 0,
            names: 1,
            permits: 0,
            sets: 0.0,
            readers: 0.0,
            downgrades: 0.0,
            tickets: 0.0,
            sessions: 0.0,
            once: 0.0,
            period: Duration::ZERO,
            elections: 0.0,
            checking: vec![true],
            ttl,
            max_ttl,
            near: MS,
            far: MS,
            distant: Vec::new(),
            tail: 0.0,
            longest_delay: ttl,
            node_timeout: SECOND,
            node_rates: vec![1_000_000; nodes],
            slowest_process: 1_000_000,
            wall_skew: Duration::ZERO,
            wall_behind: Duration::ZERO,
            in_turn: None,
            proxied: false,
            faults: Vec::new(),
            directed: Vec::new(),
            directed_share: 0.0,
            hints: [(0, 0), (1, 1), (0, 2)],
            fault_every: SECOND,
            length: Duration::ZERO,
            think: MS,
            sections: [1; 5],
            auto_renew: 1.0,
        }
    }

    pub fn draw(dice: &mut Dice) -> Self {
        let nodes = dice.weighed(&[(1, 1), (8, 3), (1, 4), (3, 5), (1, 7)]);
        let ttl = match dice.weighed(&[(4, 0), (4, 1), (1, 2)]) {
            0 => dice.log(100 * MS, 300 * MS),
            1 => dice.log(300 * MS, 1_000 * MS),
            _ => dice.log(2 * SECOND, 10 * SECOND),
        };
        let ttl = Duration::from_millis(u64::try_from(ttl.as_millis()).unwrap_or(100).max(100));
        let near = dice.log(MS / 20, MS).min(ttl / 100);
        let regions = dice.weighed(&[(2, 1), (1, 3)]);
        let far = dice.log(2 * MS, 40 * MS).min(ttl / 16);
        let processes = dice.between(2, 6) as usize;
        let mut plan = Self {
            nodes,
            spares: 0,
            young: Vec::new(),
            lists: Vec::new(),
            strangers: Vec::new(),
            onlookers: Vec::new(),
            mixed: None,
            twin: None,
            regions,
            processes,
            clients: dice.between(processes as u64, 13) as usize,
            names: dice.weighed(&[(3, 1), (1, 2), (1, 3)]),
            permits: 0,
            sets: 0.0,
            readers: 0.0,
            downgrades: 0.0,
            tickets: 0.0,
            sessions: 0.0,
            once: 0.0,
            period: Duration::ZERO,
            elections: 0.0,
            checking: (0..3).map(|_| dice.chance(0.7)).collect(),
            ttl,
            max_ttl: ttl.mul_f64(1.0 + dice.share()).max(SECOND),
            near,
            far,
            distant: Vec::new(),
            tail: dice.pick(&[0.0, 0.001, 0.01]),
            longest_delay: dice.log(ttl / 2, 3 * ttl).min(4 * SECOND),
            node_timeout: ttl.mul_f64(0.2 + dice.share()).clamp(40 * MS, SECOND),
            node_rates: Vec::new(),
            slowest_process: dice.pick(&[1_000_000, 997_000, 994_500]),
            wall_skew: Duration::ZERO,
            wall_behind: Duration::ZERO,
            in_turn: None,
            proxied: false,
            faults: Vec::new(),
            directed: Vec::new(),
            directed_share: 0.0,
            hints: dice.pick(&[[(0, 0), (49, 1), (1, 2)], [(1, 0), (8, 1), (1, 2)], [(4, 0), (4, 1), (2, 2)]]),
            fault_every: ttl.mul_f64(0.5 + 3.0 * dice.share()).clamp(200 * MS, 5 * SECOND),
            length: (ttl * 30).clamp(6 * SECOND, 60 * SECOND),
            think: dice.log(MS, ttl / 3),
            sections: dice.pick(&[[8, 2, 1, 1, 1], [4, 4, 2, 2, 2], [3, 1, 1, 4, 4], [20, 1, 0, 1, 1]]),
            auto_renew: dice.pick(&[0.0, 0.5, 0.8, 1.0]),
        };
        plan.draw_clocks(dice);
        plan.draw_faults(dice);
        plan.proxied = dice.chance(0.1);
        if plan.proxied {
            plan.faults.retain(|fault| !fault.is_unseen());
        }
        // The draws below use dice of their own, so that worlds without these features stay the
        // same.
        let mut own = dice.clone().fork();
        let mut faces = own.fork();
        plan.sets = faces.pick(&[0.0, 0.2, 0.5]);
        plan.readers = faces.pick(&[0.0, 0.0, 0.3, 0.7]);
        let (distant, twins) = (faces.fork(), faces.fork());
        if plan.in_turn.is_none() {
            Lists::draw(&mut plan, own);
        }
        if plan.in_turn.is_none() && plan.mixed.is_none() {
            Twin::draw(&mut plan, twins);
        }
        if plan.is_plain() {
            plan.draw_distant(distant);
        }
        plan
    }

    /// Whether all processes have one configuration, and each name leads to one server.
    pub const fn is_plain(&self) -> bool {
        self.mixed.is_none() && self.twin.is_none()
    }

    /// In some worlds one or two nodes are on another continent. In these worlds, leases last for
    /// many round trips, and a node may take several round trips to answer.
    fn draw_distant(&mut self, mut dice: Dice) {
        if !dice.chance(0.15) {
            return;
        }
        let many = self.nodes.min(1 + dice.index(2));
        let first = dice.index(self.nodes);
        let far = |nth| ((first + nth) % self.nodes, dice.log(80 * MS, 250 * MS));
        self.distant = (0..many).map(far).collect();
        let longest = self.farthest();
        self.ttl = Duration::from_millis(dice.log(12 * longest, 24 * longest).as_millis() as u64);
        // Hellos come every fifth of `max_ttl`: leave several round trips for each.
        self.max_ttl = self.max_ttl.max(self.ttl).max(20 * longest);
        self.node_timeout = longest.mul_f64(4.0 + 4.0 * dice.share());
        self.length = self.length.max(8 * self.ttl);
    }

    /// The longest delay of a message that is not late.
    pub fn farthest(&self) -> Duration {
        self.distant.iter().map(|&(_, far)| far).chain([self.near, self.far]).max().unwrap_or(self.far)
    }

    /// The delay to a node from a process in the same region, or in another.
    pub fn way(&self, node: usize, same: bool) -> Duration {
        let distant = self.distant.iter().find(|(far, _)| *far == node).map(|&(_, far)| far);
        distant.unwrap_or(if same { self.near } else { self.far })
    }

    pub fn draw_clocks(&mut self, dice: &mut Dice) {
        let regime = dice.index(4);
        let rate = |node: usize, dice: &mut Dice| match regime {
            0 => 1_000_000,
            1 => dice.between(996_000, 1_004_001),
            2 => 1_004_000,
            _ => [996_000, 1_004_000][node % 2],
        };
        self.node_rates = (0..self.nodes).map(|node| rate(node, dice)).collect();
    }

    fn draw_faults(&mut self, dice: &mut Dice) {
        let share = dice.pick(&[0.15, 0.3, 0.6]);
        self.faults = FaultKind::ALL.into_iter().filter(|_| dice.chance(share)).collect();
        // A cut is the most frequent fault in practice: one client, one node, one direction.
        if !self.faults.contains(&FaultKind::Cut) && dice.chance(0.6) {
            self.faults.push(FaultKind::Cut);
        }
        self.directed_share = dice.pick(&[0.0, 0.003, 0.01, 0.03]);
        let kinds = if self.directed_share > 0.0 { &Directed::ALL[..] } else { &[] };
        self.directed = kinds.iter().copied().filter(|_| dice.chance(share.max(0.3))).collect();
        self.draw_wall_clocks(dice);
    }

    /// Draws how far wall clocks may be off. Because of point 7 of docs/guarantees.md, worlds in
    /// which nodes forget exclude two cases. If nodes may forget at any time, wall clocks must not
    /// differ by more than a quarantine, because tokens rest on these clocks. If nodes restart in
    /// turn, no wall clock may be a day ahead.
    ///
    /// If no node forgets, wall clocks may be days apart: a node keeps each fence until the node's
    /// clock has passed the fence.
    fn draw_wall_clocks(&mut self, dice: &mut Dice) {
        const HOUR: Duration = Duration::from_secs(3_600);
        let forgets = self.forgets();
        let in_turn = forgets && self.nodes > 2 && dice.chance(0.35);
        let (ahead, behind) = match (forgets, in_turn) {
            (false, _) => (72 * HOUR, 72 * HOUR),
            (true, true) => (20 * HOUR, 24 * HOUR),
            (true, false) => (self.max_ttl.mul_f64(0.95), Duration::ZERO),
        };
        let share = dice.pick(&[0.0, 0.1, 0.5, 1.0]);
        (self.wall_skew, self.wall_behind) = (ahead.mul_f64(share), behind.mul_f64(share));
        if in_turn {
            self.draw_turns(dice);
        }
    }

    /// Makes nodes restart in turn. Their quarantines are longer than 10 s. This leaves time to
    /// notice a restart (5 s behind a proxy), to wait for MAX_ROUND, and to sync the node in two
    /// tries.
    fn draw_turns(&mut self, dice: &mut Dice) {
        self.max_ttl = self.ttl.max(16 * SECOND) + 8 * SECOND.mul_f64(dice.share());
        self.in_turn = Some(self.max_ttl.mul_f64(dice.pick(&[0.0, 0.5, 1.2])));
        self.length = self.length.max(3 * self.max_ttl);
        // If no quorum votes, calls fail at once. Pauses keep clients from making some hundred
        // thousand calls.
        self.think = self.think.max(self.length / 5_000);
    }

    pub fn forgets(&self) -> bool {
        let directed = [Directed::Forget, Directed::Flush].iter().any(|fault| self.directed.contains(fault));
        directed || self.faults.iter().any(|fault| fault.forgets())
    }

    fn steps(&self) -> bool {
        self.directed.contains(&Directed::StepClock) || self.faults.contains(&FaultKind::NodeClockStep)
    }

    /// The same world with a semaphore of this many permits in place of its names.
    pub fn with_permits(mut self, permits: u32) -> Self {
        (self.permits, self.names) = (permits, 1 + permits as u8);
        // `checking` has one entry for the semaphore, and one for each digit that may end a
        // permit's name.
        self.checking.resize(11, true);
        self
    }

    /// The same world without faults. Clients still hold too long and release too late.
    pub fn without_faults(self) -> Self {
        let (faults, directed, hints) = (Vec::new(), Vec::new(), [(0, 0), (1, 1), (0, 2)]);
        Self { faults, directed, hints, directed_share: 0.0, tail: 0.0, in_turn: None, proxied: false, ..self }
    }

    /// The same world, with writers that become readers.
    pub fn with_downgrades(self) -> Self {
        Self { readers: self.readers.max(0.3), downgrades: 0.5, ..self }
    }

    /// The same world, with locks that become tickets.
    pub fn with_tickets(self) -> Self {
        Self { tickets: 0.5, ..self }
    }

    /// The same world, with sessions and more names.
    pub fn with_sessions(mut self, dice: &mut Dice) -> Self {
        self.sessions = dice.pick(&[0.5, 0.8, 1.0]);
        self.names = dice.between(2, 6) as u8;
        self.checking.resize(5, true);
        self
    }

    /// The same world, with jobs that run once a period.
    pub fn with_periods(self, dice: &mut Dice) -> Self {
        let period = dice.log(self.ttl, (8 * self.ttl).min(self.length / 3).max(2 * self.ttl));
        let period = Duration::from_millis(period.as_millis() as u64).max(self.ttl);
        Self { once: dice.pick(&[0.5, 1.0]), period, ..self }
    }

    /// The same world, with elections on one name, and observers.
    pub fn with_elections(self, dice: &mut Dice) -> Self {
        Self { elections: dice.pick(&[0.5, 1.0]), names: 1, ..self }
    }

    pub fn name_of(&self, name: u8) -> String {
        match name {
            1.. if self.permits > 0 => format!("lock-a/{}", name - 1),
            name => format!("lock-{}", char::from(b'a' + name)),
        }
    }

    /// How long a client may have to wait after the faults: for holds that were left behind, for
    /// quarantines, and for its turn.
    pub fn patience(&self) -> Duration {
        // Two lists may have to lapse one after the other: the client's own list and another list.
        let lists = if self.mixed.is_some() { 2 * Lists::lasts(self.max_ttl) } else { Duration::ZERO };
        // If nodes are distant: each earlier waiter takes two asks and a release.
        let ways = if self.distant.is_empty() { 0 } else { 8 * self.clients as u32 };
        let periods = 2 * self.period + if self.once > 0.0 { 2 * self.step() } else { Duration::ZERO };
        20 * SECOND + 4 * self.max_ttl + self.longest_delay + self.step() + lists + ways * self.farthest() + periods
    }

    /// The time on which steps of nodes' clocks are based: longer than any hold lasts. Zero if no
    /// fault steps a clock.
    pub fn step(&self) -> Duration {
        if self.steps() { 2 * self.max_ttl + SECOND } else { Duration::ZERO }
    }
}
