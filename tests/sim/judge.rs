//! Reads a history and says what in it must not be. Knows the protocol's promises, and nothing of the client.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::history::{Answer, Event, Memory, Micros, Op, Owner, SECOND, Verb, What};

/// A promise that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Two processes that both run believe to hold one name.
    TwoBelievers,
    /// Who believed later has no higher token.
    TokenOrder,
    /// A storage that checks tokens took an older holder's write.
    StaleWrite,
    /// A lease says that it is held past what its quorum allows: t0 + ttl - drift of its last round.
    BelievedTooLong,
    /// The holder was not told by the deadline.
    ToldLate,
    /// After it was lost or released, it was held or renewed again.
    NotFinal,
    /// What a node had granted was never released.
    NeverReleased,
    /// A claim was granted after its own release.
    LateClaim,
    /// A release freed what was granted after it was sent.
    NewerUndone,
    /// A node took the name from one owner for another.
    StolenOnNode,
    /// A caller got no answer in time.
    NoAnswer,
    /// After all faults had ended, a caller did not get the lock.
    Starved,
    /// A key, a task, a queue's entry or a timer is left at the end.
    LeftBehind,
}

impl Rule {
    pub const fn name(self) -> &'static str {
        match self {
            Self::TwoBelievers => "two_believers",
            Self::TokenOrder => "token_order",
            Self::StaleWrite => "stale_write",
            Self::BelievedTooLong => "believed_too_long",
            Self::ToldLate => "told_late",
            Self::NotFinal => "not_final",
            Self::NeverReleased => "never_released",
            Self::LateClaim => "late_claim",
            Self::NewerUndone => "newer_undone",
            Self::StolenOnNode => "stolen_on_node",
            Self::NoAnswer => "no_answer",
            Self::Starved => "starved",
            Self::LeftBehind => "left_behind",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Violation {
    pub rule: Rule,
    /// The event at which it showed, by its place in the history.
    pub event: usize,
    pub why: String,
}

/// What a history was good for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub asked: u64,
    pub acquired: u64,
    pub losses: u64,
    pub cancelled: u64,
    pub rejected_writes: u64,
    pub stale_unchecked_writes: u64,
}

#[derive(Debug, Default)]
pub struct Judgement {
    pub tally: Tally,
    pub violations: Vec<Violation>,
}

/// Clocks are read in whole microseconds.
const ROUNDING: Micros = 5;
/// How much later than a process goes on its tasks have run.
const WAKE: Micros = 3_000;
/// How long a timer sleeps at most before it looks at the clock: a host that was suspended tells a loss that much later.
const SLEEP: Micros = SECOND + WAKE;

/// A promise of a quorum: the round in which it was asked, and who granted.
#[derive(Debug, Default)]
struct Round {
    votes: u64,
}

/// What is known of an owner: one try to hold a name.
#[derive(Debug, Default)]
struct Claimed {
    process: u16,
    name: u8,
    rounds: BTreeMap<(Micros, Verb2), Round>,
    /// Until when its quorum lets it believe.
    deadline: Option<Micros>,
    lease: Option<u32>,
    granted: u64,
    released: u64,
    ended: bool,
    acquisition: Owner,
}

/// A place in a node's line.
#[derive(Clone, Copy, Debug, Default)]
struct Stand {
    /// When the last message was sent that took it.
    taken: Option<Micros>,
    /// When the last one was sent that gives it up: a release, or what was granted the name.
    left: Micros,
}

type Verb2 = u8;

#[derive(Debug)]
struct Lease {
    process: u16,
    name: u8,
    owner: Option<Owner>,
    until: Micros,
    released: Option<Micros>,
    told: Option<Micros>,
    order: u64,
    late_known: bool,
}

/// What a node holds, as far as its answers tell.
#[derive(Clone, Copy, Debug)]
struct Hold {
    owner: Owner,
    claimed: Micros,
}

#[derive(Debug, Default)]
struct Process {
    paused: bool,
    dead: bool,
    suspended: bool,
    /// From when on all its tasks run, if it is not paused.
    awake: Micros,
    stood_still: Micros,
    paused_at: Micros,
}

struct Ask {
    process: u16,
    by: Micros,
    stood_still: Micros,
    must: bool,
}

pub struct Judge<'a> {
    events: &'a [Event],
    quorum: u32,
    rates: Vec<u64>,
    at: usize,
    judgement: Judgement,
    owners: HashMap<Owner, Claimed>,
    by_ballot: HashMap<(u16, u8, u64), Owner>,
    leases: BTreeMap<u32, Lease>,
    live: Vec<u32>,
    holds: HashMap<(u8, u8), Hold>,
    tombs: HashMap<(u8, Owner), u64>,
    places: BTreeMap<(Owner, u8), (u16, Stand)>,
    stepped: HashSet<u8>,
    processes: Vec<Process>,
    asks: BTreeMap<u32, Ask>,
    orders: Vec<u64>,
    tokens: Vec<u64>,
    stored: Vec<u64>,
}

/// Judges a history of a world of `nodes` nodes, whose processes' clocks ran at `rates` parts per million.
pub fn judge(events: &[Event], nodes: usize, rates: Vec<u64>) -> Judgement {
    let mut judge = Judge {
        events,
        quorum: nodes as u32 / 2 + 1,
        rates,
        at: 0,
        judgement: Judgement::default(),
        owners: HashMap::new(),
        by_ballot: HashMap::new(),
        leases: BTreeMap::new(),
        live: Vec::new(),
        holds: HashMap::new(),
        tombs: HashMap::new(),
        places: BTreeMap::new(),
        stepped: HashSet::new(),
        processes: Vec::new(),
        asks: BTreeMap::new(),
        orders: vec![0; 26],
        tokens: vec![0; 26],
        stored: vec![0; 26],
    };
    for (at, event) in events.iter().enumerate() {
        judge.at = at;
        judge.look(event.at, event.what);
    }
    judge.finish();
    judge.judgement
}

impl Judge<'_> {
    fn broken(&mut self, rule: Rule, why: impl Into<String>) {
        // One broken promise breaks others; the first few tell enough.
        if self.judgement.violations.len() < 20 {
            self.judgement.violations.push(Violation { rule, event: self.at, why: why.into() });
        }
    }

    fn look(&mut self, now: Micros, what: What) {
        self.overdue(now);
        match what {
            What::Started { .. } => self.processes.push(Process::default()),
            What::Paused { process, suspended } => self.paused(now, process, suspended),
            What::Resumed { process } => self.resumed(now, process),
            What::Killed { process } => self.killed(process),
            What::Asked { process, ask, by, must, .. } => self.asked(process, ask, by, must),
            What::Acquired { process, ask, name, lease, token, until } => {
                self.answered(now, ask);
                self.acquired(now, process, name, lease, token, until);
            }
            What::Failed { ask, .. } => self.failed(now, ask),
            What::Cancelled { ask, .. } => {
                self.asks.remove(&ask);
                self.judgement.tally.cancelled += 1;
            }
            What::Sample { lease, held, until, .. } => self.sampled(now, lease, held, until),
            What::Released { lease, .. } => self.released(now, lease),
            What::LostTold { lease, .. } => self.told(now, lease),
            What::Wrote { name, lease, taken, checked, .. } => self.wrote(name, lease, taken, checked),
            What::Submitted(op) => self.submitted(op),
            What::Did(op, answer) => self.did(op, answer),
            What::Delivered(op, answer) => self.delivered(now, op, answer),
            What::NodeDown { node, memory } => self.crashed(node, memory),
            What::ClockStepped { node, .. } => drop(self.stepped.insert(node)),
            What::LineLeft { node } => self.broken(Rule::LeftBehind, format!("somebody is left in a line on n{node}")),
            What::PlaceKept(op) => {
                self.broken(Rule::LeftBehind, format!("n{} keeps a place in line that was given up", op.node));
            }
            What::KeyLeft { node } => self.broken(Rule::LeftBehind, format!("a key is left on n{node}")),
            What::TasksLeft { process, tasks } => {
                self.broken(Rule::LeftBehind, format!("{tasks} tasks of p{process} are left"));
            }
            What::EntriesLeft { process, lines, timers } => {
                self.broken(Rule::LeftBehind, format!("p{process} has {lines} lines and {timers} timers left"));
            }
            What::NotQuiet { process } => self.broken(Rule::LeftBehind, format!("releases of p{process} do not end")),
            What::Unfinished { clients } => self.broken(Rule::NoAnswer, format!("{clients} clients did not finish")),
            _ => {}
        }
    }

    fn paused(&mut self, now: Micros, process: u16, suspended: bool) {
        let process = &mut self.processes[process as usize];
        process.paused = true;
        process.suspended = suspended;
        process.paused_at = now;
    }

    fn resumed(&mut self, now: Micros, process: u16) {
        let process = &mut self.processes[process as usize];
        process.paused = false;
        process.awake = process.awake.max(now + if process.suspended { SLEEP } else { WAKE });
        process.stood_still += now - process.paused_at;
    }

    fn killed(&mut self, process: u16) {
        self.processes[process as usize].dead = true;
        self.asks.retain(|_, ask| ask.process != process);
        let leases = &self.leases;
        self.live.retain(|lease| leases[lease].process != process);
    }

    fn asked(&mut self, process: u16, ask: u32, by: Micros, must: bool) {
        self.judgement.tally.asked += 1;
        let stood_still = self.processes[process as usize].stood_still;
        self.asks.insert(ask, Ask { process, by, stood_still, must });
    }

    fn answered(&mut self, now: Micros, ask: u32) {
        let Some(ask) = self.asks.remove(&ask) else { return };
        let process = &self.processes[ask.process as usize];
        let pauses = process.stood_still - ask.stood_still;
        // Each suspension may make each of three timers late.
        let late = if pauses > 0 { 3 * SLEEP } else { 0 };
        if now > ask.by + pauses + late {
            self.broken(Rule::NoAnswer, format!("the answer came {} us late", now - ask.by - pauses));
        }
    }

    fn failed(&mut self, now: Micros, ask: u32) {
        if self.asks.get(&ask).is_some_and(|ask| ask.must) {
            self.broken(Rule::Starved, "all faults have ended, and it did not get the lock");
        }
        self.answered(now, ask);
    }

    fn acquired(&mut self, now: Micros, process: u16, name: u8, number: u32, token: u64, until: Micros) {
        self.judgement.tally.acquired += 1;
        let owner = self.by_ballot.get(&(process, name, token)).copied();
        let rivals: Vec<_> = self.live.iter().copied().filter(|&other| self.believes(now, other, name)).collect();
        for other in rivals {
            let holder = self.leases[&other].process;
            self.broken(Rule::TwoBelievers, format!("lease {other} of p{holder} is believed in too"));
        }
        if token <= self.tokens[name as usize] {
            let known = self.tokens[name as usize];
            self.broken(Rule::TokenOrder, format!("token {token} comes after {known}"));
        }
        self.tokens[name as usize] = self.tokens[name as usize].max(token);
        self.orders[name as usize] += 1;
        let order = self.orders[name as usize];
        if let Some(claimed) = owner.and_then(|owner| self.owners.get_mut(&owner)) {
            claimed.lease = Some(number);
        }
        let (released, told) = (None, None);
        let lease = Lease { process, name, owner, until, released, told, order, late_known: false };
        self.leases.insert(number, lease);
        self.live.push(number);
        self.bounded(now, number, until);
    }

    /// Whether a lease was held when last asked, which is at this very moment, by a process that runs.
    fn believes(&self, now: Micros, lease: u32, name: u8) -> bool {
        let lease = &self.leases[&lease];
        lease.name == name && now + ROUNDING < lease.until && !self.processes[lease.process as usize].paused
    }

    fn deadline(&self, lease: u32) -> Option<Micros> {
        self.owners.get(&self.leases[&lease].owner?)?.deadline
    }

    fn bounded(&mut self, now: Micros, lease: u32, until: Micros) {
        match self.deadline(lease) {
            None => self.broken(Rule::BelievedTooLong, format!("no quorum has granted lease {lease}")),
            Some(deadline) if until > deadline + ROUNDING && until > now => {
                self.broken(
                    Rule::BelievedTooLong,
                    format!("lease {lease} is believed in {} us too long", until - deadline),
                );
            }
            Some(_) => {}
        }
    }

    fn sampled(&mut self, now: Micros, number: u32, held: bool, until: Micros) {
        let Some(lease) = self.leases.get_mut(&number) else { return };
        lease.until = if held { until } else { 0 };
        if !held {
            return;
        }
        if lease.told.is_some() || lease.released.is_some() {
            return self.broken(Rule::NotFinal, format!("lease {number} had ended and is held again"));
        }
        self.bounded(now, number, until);
    }

    fn released(&mut self, now: Micros, number: u32) {
        let Some(lease) = self.leases.get_mut(&number) else { return };
        lease.released = Some(now);
        self.ended(number);
    }

    fn told(&mut self, now: Micros, number: u32) {
        self.judgement.tally.losses += 1;
        let Some(lease) = self.leases.get_mut(&number) else { return };
        lease.told = Some(now);
        self.ended(number);
    }

    fn ended(&mut self, number: u32) {
        self.live.retain(|&live| live != number);
        let owner = self.leases[&number].owner;
        if let Some(claimed) = owner.and_then(|owner| self.owners.get_mut(&owner)) {
            claimed.ended = true;
        }
    }

    /// Whoever has not been told by its deadline is told late.
    fn overdue(&mut self, now: Micros) {
        let mut late = Vec::new();
        for &number in &self.live {
            let lease = &self.leases[&number];
            let process = &self.processes[lease.process as usize];
            let Some(deadline) = self.deadline(number) else { continue };
            if !process.paused && !lease.late_known && now > deadline.max(process.awake) {
                late.push((number, deadline));
            }
        }
        for (number, deadline) in late {
            if let Some(lease) = self.leases.get_mut(&number) {
                lease.late_known = true;
            }
            self.broken(Rule::ToldLate, format!("lease {number} ended {} us ago, and nobody was told", now - deadline));
        }
    }

    fn wrote(&mut self, name: u8, lease: u32, taken: bool, checked: bool) {
        let Some(order) = self.leases.get(&lease).map(|lease| lease.order) else { return };
        if !taken {
            self.judgement.tally.rejected_writes += 1;
            return;
        }
        let latest = &mut self.stored[name as usize];
        if order >= *latest {
            *latest = order;
        } else if checked {
            self.broken(Rule::StaleWrite, format!("lease {lease} wrote after a later holder"));
        } else {
            self.judgement.tally.stale_unchecked_writes += 1;
        }
    }

    fn submitted(&mut self, op: Op) {
        let claimed = self.owners.entry(op.owner).or_default();
        claimed.process = op.process;
        claimed.name = op.name;
        claimed.acquisition = op.acquisition;
        if op.verb == Verb::Release && !op.waits {
            self.places.entry((op.acquisition, op.node)).or_insert((op.process, Stand::default())).1.left = op.sent;
        }
        let bit = 1u64 << op.node;
        match op.verb {
            Verb::Claim | Verb::Pass => {
                self.by_ballot.insert((op.process, op.name, op.ballot), op.owner);
                if claimed.ended {
                    self.broken(Rule::NotFinal, "it claims what it had given up");
                }
            }
            Verb::Renew if claimed.ended => self.broken(Rule::NotFinal, "it renews what it had lost or released"),
            Verb::Release => claimed.released |= bit,
            Verb::Renew | Verb::Other => {}
        }
    }

    /// What a node did. A node whose clock is stepped, or that forgets, may do what it likes; the guard must deal with that.
    fn did(&mut self, op: Op, answer: Answer) {
        let place = (op.node, op.name);
        if let Some(from) = op.from {
            self.passed(op, from, answer);
        }
        self.stood(op, answer);
        match answer {
            Answer::Granted | Answer::Healed | Answer::Extended => {
                let tomb = self.tombs.get(&(op.node, op.owner)).copied();
                if answer == Answer::Granted && tomb.is_some_and(|ballot| op.ballot <= ballot) {
                    self.broken(Rule::LateClaim, format!("n{} granted a claim whose release it had seen", op.node));
                }
                if answer == Answer::Granted
                    && let Some(claimed) = self.owners.get_mut(&op.owner)
                {
                    claimed.granted |= 1 << op.node;
                }
                if answer == Answer::Healed {
                    // A renewal that comes after the release takes the name again until it expires. See the contributor's guide.
                    self.tombs.remove(&(op.node, op.owner));
                }
                self.holds.insert(place, Hold { owner: op.owner, claimed: op.sent });
            }
            Answer::Released(held) => {
                let tomb = self.tombs.entry((op.node, op.owner)).or_default();
                *tomb = (*tomb).max(op.ballot);
                if held {
                    self.freed(op, place);
                }
            }
            Answer::Refused | Answer::Stale | Answer::Fault | Answer::Other => {}
        }
    }

    /// Who waits takes a place; who is granted the name has left it.
    fn stood(&mut self, op: Op, answer: Answer) {
        let stand = &mut self.places.entry((op.acquisition, op.node)).or_insert((op.process, Stand::default())).1;
        match answer {
            Answer::Refused | Answer::Released(_) if op.waits => stand.taken = stand.taken.max(Some(op.sent)),
            Answer::Granted => stand.left = stand.left.max(op.sent),
            _ => {}
        }
    }

    /// A pass leaves nothing with the holder before, unless its ballot was stale while that one holds it.
    fn passed(&mut self, op: Op, from: Owner, answer: Answer) {
        let held = self.holds.get(&(op.node, op.name)).is_some_and(|hold| hold.owner == from);
        if let Some(claimed) = self.owners.get_mut(&from).filter(|_| !(held && answer == Answer::Stale)) {
            claimed.granted &= !(1 << op.node);
            // Also where it stands in no line: a claim of it may come later than this.
            let place = (claimed.acquisition, op.node);
            let stand = &mut self.places.entry(place).or_insert((claimed.process, Stand::default())).1;
            stand.left = stand.left.max(op.sent);
        }
    }

    fn freed(&mut self, op: Op, place: (u8, u8)) {
        let Some(hold) = self.holds.remove(&place) else { return };
        if hold.owner != op.owner {
            self.broken(Rule::StolenOnNode, format!("n{} released what another holds", op.node));
        } else if hold.claimed > op.sent {
            self.broken(Rule::NewerUndone, format!("n{} undid a grant newer than the release", op.node));
        }
    }

    fn delivered(&mut self, now: Micros, op: Op, answer: Answer) {
        let counts =
            matches!((op.verb, answer), (Verb::Claim | Verb::Pass, Answer::Granted) | (Verb::Renew, Answer::Extended));
        if !counts {
            return;
        }
        let rate = self.rates[op.process as usize];
        let quorum = self.quorum;
        let Some(claimed) = self.owners.get_mut(&op.owner) else { return };
        let round = claimed.rounds.entry((op.sent, op.verb as u8)).or_default();
        round.votes |= 1 << op.node;
        let ttl = u64::from(op.ttl) * 1_000;
        let deadline = op.sent + (ttl - ttl / 100 - 2_000) * 1_000_000 / rate;
        let alive = claimed.deadline.is_none_or(|known| now <= known);
        if round.votes.count_ones() == quorum && now < deadline && alive {
            claimed.deadline = Some(claimed.deadline.map_or(deadline, |known| known.max(deadline)));
        }
    }

    fn crashed(&mut self, node: u8, memory: Memory) {
        self.stepped.remove(&node);
        if memory != Memory::Kept {
            self.holds.retain(|&(at, _), _| at != node);
            self.tombs.retain(|&(at, _), _| at != node);
            self.places.retain(|&(_, at), _| at != node);
            let bit = 1u64 << node;
            self.owners.values_mut().for_each(|claimed| claimed.granted &= !bit);
        }
    }

    /// Whoever took a place gives it up there. A message that was late may take it again; then it ends by itself.
    fn places_left(&mut self) {
        let places = std::mem::take(&mut self.places);
        let lives = |process: u16| !self.processes[process as usize].dead;
        let kept = |stand: Stand| stand.taken.is_some_and(|taken| taken > stand.left);
        let left: Vec<_> = places.into_iter().filter(|(_, (process, stand))| lives(*process) && kept(*stand)).collect();
        for ((acquisition, node), _) in left {
            self.broken(Rule::LeftBehind, format!("acquisition number {acquisition} never left the line of n{node}"));
        }
    }

    fn finish(&mut self) {
        self.at = self.events.len().saturating_sub(1);
        self.places_left();
        let stands = |process: u16| !self.processes[process as usize].dead;
        let kept =
            |(_, claimed): &(&Owner, &Claimed)| claimed.granted & !claimed.released != 0 && stands(claimed.process);
        let mut forgotten: Vec<_> = self.owners.iter().filter(kept).map(|(owner, _)| *owner).collect();
        forgotten.sort_unstable();
        for owner in forgotten {
            let Claimed { granted, released, .. } = self.owners[&owner];
            let nodes: Vec<_> = (0..64).filter(|node| granted & !released & 1 << node != 0).collect();
            self.broken(
                Rule::NeverReleased,
                format!("owner number {owner} was granted by n{nodes:?} what it never released"),
            );
        }
    }
}
