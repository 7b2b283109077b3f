//! Reads a history, and reports each event that breaks a promise. The judge knows the protocol's
//! promises, and nothing of the client's code.
//!
//! The simulation records everything, including requests to nodes and their answers. Real processes
//! report only the leases that they believe in, and are judged by these reports.

mod asks;
mod beliefs;
mod calm;
pub mod history;
mod line;
mod newcomers;
mod nodes;
mod observers;
mod periods;
mod processes;
mod promises;
mod rounds;
mod rule;
mod storage;
pub mod text;
mod tokens;
mod trial;

pub use rule::{Rule, Violation};
pub use tokens::Clocks;
pub use trial::judge_the_judge;

use std::ops::Range;

use asks::Asks;
use beliefs::{Beliefs, Lease};
use calm::Calm;
use history::{Answer, Event, Memory, Micros, Op, Told, Verb, What};
use line::Line;
use newcomers::Newcomers;
use nodes::Nodes;
use observers::Observers;
use periods::{DRIFT, First, Periods};
use processes::Processes;
use promises::Promises;
use rounds::{Rounds, Try};
use rule::Verdict;
use storage::Storage;

/// Counts of what happened in a history.
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
    /// The violations, in the order of the history.
    pub violations: Vec<Violation>,
}

/// The configuration of a world whose history contains the requests to nodes and their answers.
#[derive(Debug)]
pub struct Watched {
    /// The configuration of each process.
    pub clients: Vec<Configured>,
    /// Set if nodes that forgot tokens need not be synced.
    pub clocks: Option<Clocks>,
    /// If true, the judge excuses nothing, not even cases in which nothing is promised.
    pub strict: bool,
}

/// The configuration of a process.
#[derive(Clone, Copy, Debug)]
pub struct Configured {
    /// The number of nodes in its list, and these nodes, one bit each.
    pub nodes: usize,
    pub of: u64,
    /// The rate of its clock, in parts per million of true time.
    pub rate: u64,
    /// The `max_ttl` of its list.
    pub max_ttl: Micros,
    /// The number of its list. While another list is in force, the process is kept out.
    pub list: u8,
    /// The number of the list's name. Lists with different names have nothing in common.
    pub team: u8,
}

/// Judges a history, whose events are in the order of their times.
pub fn judge(events: &[Event], watched: Option<Watched>) -> Judgement {
    let camps = watched.iter().flat_map(|world| &world.clients).map(|client| client.list).collect();
    let max_ttl = watched.iter().flat_map(|world| &world.clients).map(|client| client.max_ttl).max();
    let longest = watched.iter().flat_map(|world| &world.clients).map(|client| client.max_ttl).collect();
    let beliefs = Beliefs::new(watched.as_ref().and_then(|world| world.clocks));
    let known = watched.as_ref().map(|world| Promises::new(world.clients.clone(), world.strict));
    let promises = known.unwrap_or_default();
    let rounds = watched.map(|world| Rounds::new(world.clients));
    let (asks, newcomers) = (Asks::new(camps), Newcomers::new(longest));
    let calm = Calm::new(max_ttl.unwrap_or_default());
    let mut judge = Judge { asks, rounds, newcomers, beliefs, calm, promises, ..Judge::default() };
    for (at, event) in events.iter().enumerate() {
        judge.verdict.at = at;
        judge.look(event.at, event.what);
    }
    judge.finish()
}

/// The violations in a history of clients whose configurations are known, but whose requests are
/// not.
fn judge_beliefs(events: &[Event], clients: Vec<Configured>) -> Vec<Rule> {
    let mut judge = Judge { promises: Promises::new(clients, false), ..Judge::default() };
    for (at, event) in events.iter().enumerate() {
        judge.verdict.at = at;
        judge.look(event.at, event.what);
    }
    judge.finish().violations.iter().map(|violation| violation.rule).collect()
}

#[derive(Debug, Default)]
struct Judge {
    processes: Processes,
    asks: Asks,
    beliefs: Beliefs,
    storage: Storage,
    rounds: Option<Rounds>,
    nodes: Nodes,
    newcomers: Newcomers,
    promises: Promises,
    line: Line,
    periods: Periods,
    observers: Observers,
    calm: Calm,
    /// The leases of a release that is returning: its events come one by one.
    telling: Vec<u32>,
    tally: Tally,
    verdict: Verdict,
}

impl Judge {
    fn look(&mut self, now: Micros, what: What) {
        self.overdue(now);
        self.calm.look(now, &what);
        self.promises.look(now, &what);
        let Self { processes, asks, verdict, tally, .. } = self;
        match what {
            What::Started { .. } => processes.started(),
            What::Paused { process, suspended } => processes.paused(now, process, suspended),
            What::Resumed { process } => processes.resumed(now, process),
            What::Killed { process } => {
                processes.killed(process);
                asks.killed(process);
                self.beliefs.killed(process);
            }
            What::ShutDown { process } => self.beliefs.shut_down(now, process),
            What::Asked { process, ask, by, must, .. } => {
                tally.asked += 1;
                asks.asked(process, ask, by, must, processes);
            }
            What::Acquired { process, ask, name, lease, token, until, shared, owner } => {
                asks.acquired(now, ask, processes, verdict);
                self.acquired(lease, Lease::new(process, name, token, now, until).by(owner, shared));
            }
            What::First { lease, name, period, .. } => {
                self.first(now, name, lease, period);
                self.keeps(lease, true);
            }
            What::Skipped { name, began, period, .. } => self.skipped(name, began, period),
            // If another caller in the same process waits, the try may have been denied because of
            // that caller.
            What::Denied { process, name } if !asks.waits(process) => self.denied(process, name),
            What::Denied { .. } => {}
            What::Yields { lease, .. } => {
                self.beliefs.ended(now, verdict.at, lease, false);
                self.beliefs.let_go(now, lease);
            }
            What::HandsOn { lease, .. } => {
                self.beliefs.ended(now, verdict.at, lease, false);
                self.beliefs.let_go(now, lease);
                self.keeps(lease, true);
                if let Some((owner, name)) = self.beliefs.of_nodes(lease) {
                    self.line.handed_on(owner, name);
                }
            }
            What::Follows { lease, writer, .. } => self.beliefs.follows(lease, writer),
            What::Proclaims { lease, value, .. } => {
                if let Some(office) = self.beliefs.get(lease) {
                    self.observers.proclaims(lease, office, value);
                }
            }
            What::Saw { observer, name, owner, token, value, .. } => {
                self.observers.saw(observer, name, (owner, token), value, verdict);
                self.led((owner, name));
            }
            What::Unseen { observer, .. } => {
                verdict.broken(Rule::Unseen, format!("observer {observer} has not seen what was proclaimed last"));
            }
            What::Undone { lease, .. } => {
                self.beliefs.let_go(now, lease);
                // If the period is over when its permit is undone, no node holds the name any more.
                if self.periods.undone(now, lease) {
                    self.keeps(lease, false);
                }
            }
            What::Counted { lease, permits, .. } => self.beliefs.counted(lease, permits),
            What::Shares { ask, lease, .. } => {
                asks.acquired(now, ask, processes, verdict);
                self.beliefs.shared(lease, verdict);
            }
            What::Begun { ask, .. } => asks.answered(now, ask, processes, verdict),
            What::HeldAmiss { process, .. } => {
                verdict.broken(Rule::HeldAmiss, format!("a session of p{process} does not hold what it locked"));
            }
            What::Together { lease, other, .. } => self.together(lease, other),
            What::Failed { ask, kept_out, .. } => asks.failed(now, ask, kept_out, processes, verdict),
            What::Cancelled { ask, .. } => {
                tally.cancelled += 1;
                asks.cancelled(ask);
            }
            What::Sample { lease, held: true, until, .. } => self.held(now, lease, until),
            What::Sample { lease, .. } => self.beliefs.denied(lease),
            What::Released { lease, .. } => {
                self.beliefs.ended(now, verdict.at, lease, false);
                self.let_go(now, lease);
            }
            What::Freed { lease, .. } => {
                if let (Some(rounds), Some(of)) = (&self.rounds, self.beliefs.of_nodes(lease)) {
                    rounds.freed(of, verdict);
                }
            }
            What::ReleaseTold { lease, told, round, more, .. } => {
                self.telling.push(lease);
                if !more {
                    self.told(now, told, round);
                }
            }
            What::LostTold { lease, expired, .. } => {
                tally.losses += 1;
                self.lost(now, lease, expired);
            }
            What::LetGo { lease, .. } => self.let_go(now, lease),
            What::Revoked { process, name, began, by } => {
                let unknown = self.newcomers.unknown_step(process, began);
                self.beliefs.revoked(process, name, began, by, unknown);
            }
            What::ClockStepped { node, by_ms } => {
                self.newcomers.stepped(now, node, by_ms);
                self.nodes.stepped(node);
                self.rounds.as_mut().into_iter().for_each(|rounds| rounds.stepped(node, by_ms));
            }
            What::Connected { process, node } => self.newcomers.connected(now, process, node),
            What::Wrote { lease, taken, checked, .. } => {
                if let Some(written) = self.beliefs.get(lease) {
                    self.storage.wrote(lease, written, taken, checked, verdict);
                }
            }
            What::Submitted(op) => op.each().for_each(|op| self.submitted(op)),
            What::Did(op, answer) => op.each().for_each(|each| self.did(now, each, answer, op.also == 0)),
            What::GrantedToOther(op) => {
                let why = format!("n{} granted a claim of a list that is not in force there", op.server);
                verdict.broken(Rule::GrantedToOther, why);
            }
            What::Delivered(op, answer) => {
                let rounds = self.rounds.as_mut();
                rounds.into_iter().for_each(|rounds| op.each().for_each(|op| rounds.delivered(now, op, answer)));
            }
            What::HandedOver(op) => {
                let at = self.verdict.at;
                self.rounds.as_mut().into_iter().for_each(|rounds| {
                    rounds.handed_over(now, op, at);
                    rounds.has(now, op);
                });
                self.nodes.handed_over(now, op, &mut self.verdict);
            }
            What::Idle { node, name, owner, asks, since, by } => {
                self.idle(now, node, [(owner, name), (asks, name)], since..by);
            }
            What::Pushed(op) => {
                self.rounds.as_mut().into_iter().for_each(|rounds| rounds.pushed(now, op));
                self.nodes.pushed(now, op);
            }
            What::NodeDown { node, memory } | What::Forgot { node, memory } if memory != Memory::Kept => {
                self.forgot(now, node);
            }
            What::Healed => asks.healed(now),
            other => left_behind(other, verdict),
        }
    }

    fn acquired(&mut self, number: u32, mut lease: Lease) {
        self.tally.acquired += 1;
        let (now, rounds) = (lease.from, self.rounds.as_ref());
        let known = lease.owner.filter(|_| rounds.is_some());
        lease.owner = known.or_else(|| rounds?.owner(lease.process, lease.name, lease.token));
        let team = rounds.map_or(0, |rounds| rounds.team(lease.process));
        let lease = lease.in_team(team);
        let (of, token) = (lease.of_nodes(), lease.token);
        self.observers.acquired(&lease);
        let asked = rounds.and_then(|rounds| rounds.dealt(lease.process, lease.name, lease.token)).unwrap_or(now);
        self.beliefs.acquired(number, lease, asked, &self.promises, &mut self.verdict);
        if let (Some(rounds), Some(of)) = (&mut self.rounds, of) {
            rounds.acquired(of, number, token);
        }
        self.bounded(now, number);
    }

    fn first(&mut self, now: Micros, name: u8, lease: u32, period: Micros) {
        let (of, rounds) = (self.beliefs.of_nodes(lease), self.rounds.as_ref());
        let asked = of.zip(rounds).and_then(|(of, rounds)| rounds.first_asked(of));
        let first = First::new(lease, of.map(|(owner, _)| owner), (now, asked), period);
        let remembered = |owner| rounds.is_none_or(|rounds| rounds.is_remembered((owner, name)));
        self.periods.first(now, name, first, remembered, &mut self.verdict);
    }

    /// A claim got no permit. So another client must have had a permit no earlier than one period,
    /// by the slowest clock, before this claim began.
    fn skipped(&mut self, name: u8, began: Micros, period: Micros) {
        let since = began.saturating_sub(period + period / DRIFT);
        if self.rounds.as_ref().is_some_and(|rounds| !rounds.somebody_had(name, since)) {
            self.verdict.broken(Rule::SkippedPeriod, "no quorum has had anybody who was the first");
        }
    }

    fn denied(&mut self, process: u16, name: u8) {
        if self.rounds.as_ref().is_some_and(|rounds| !rounds.is_in_use(process, name)) {
            self.verdict.broken(Rule::DeniedAmiss, "no quorum has ever had anybody for it, and nobody waited");
        }
    }

    /// An observer saw this owner lead. So a quorum must have held the name for this owner.
    fn led(&mut self, of: Try) {
        if self.rounds.as_ref().is_some_and(|rounds| !rounds.was_had(of)) {
            self.verdict.broken(Rule::SeenAmiss, "no quorum has had it for this leader");
        }
    }

    /// Sets whether nodes are to keep the name for this lease's owner after the lease has ended.
    fn keeps(&mut self, lease: u32, keeps: bool) {
        if let (Some(rounds), Some(of)) = (&mut self.rounds, self.beliefs.of_nodes(lease)) {
            rounds.keeps(of, keeps);
        }
    }

    fn together(&mut self, lease: u32, other: u32) {
        let Some(rounds) = &self.rounds else { return };
        let renewed = |lease| self.beliefs.of_nodes(lease).and_then(|of| rounds.deadline(of));
        if renewed(lease) != renewed(other) {
            let why = format!("lease {lease} was renewed at another moment than lease {other}");
            self.verdict.broken(Rule::RenewedApart, why);
        }
    }

    fn held(&mut self, now: Micros, number: u32, until: Micros) {
        self.beliefs.held(now, number, until, (&self.processes, &self.promises), &mut self.verdict);
        let apart = self.beliefs.get(number).is_some_and(|lease| lease.apart);
        self.storage.held(number, apart, &mut self.verdict);
        self.bounded(now, number);
    }

    fn bounded(&mut self, now: Micros, number: u32) {
        if let (Some(rounds), Some(lease)) = (&self.rounds, self.beliefs.get(number)) {
            let deadline = lease.of_nodes().and_then(|of| rounds.deadline(of));
            self.beliefs.bounded(now, number, deadline, &mut self.verdict);
        }
    }

    fn told(&mut self, now: Micros, told: Told, round: Micros) {
        let leases = std::mem::take(&mut self.telling);
        let of: Option<Vec<_>> = leases.iter().map(|&lease| self.beliefs.of_nodes(lease)).collect();
        let held = leases.iter().all(|&lease| self.beliefs.was_held(lease));
        if let (Some(rounds), Some(of)) = (&self.rounds, of) {
            rounds.told(now, &of, (told, held, round), &self.processes, &mut self.verdict);
        }
    }

    fn lost(&mut self, now: Micros, number: u32, expired: bool) {
        self.beliefs.ended(now, self.verdict.at, number, expired);
        if let (Some(rounds), Some(of)) = (&mut self.rounds, self.beliefs.of_nodes(number)) {
            rounds.lost(of);
        }
    }

    fn let_go(&mut self, now: Micros, number: u32) {
        self.beliefs.let_go(now, number);
        if let (Some(rounds), Some(of)) = (&mut self.rounds, self.beliefs.of_nodes(number)) {
            rounds.let_go(now, of, &self.processes);
        }
    }

    /// Records a violation if a name was free on a node while the owner `first` waited there, and
    /// the waiter `asks` did not ask in time. An owner that a quorum granted the name waits no more,
    /// even if this node does not know of the grants. While votes that reached the client of `asks`
    /// are enough to hold the name, this owner does not ask. After that, it has as much time as a
    /// waiter has when the name becomes free.
    fn idle(&mut self, now: Micros, node: u8, [first, asks]: [Try; 2], free: Range<Micros>) {
        let Some(rounds) = &self.rounds else { return };
        let may_hold = rounds.deadline(asks).is_some_and(|deadline| now <= deadline + (free.end - free.start));
        // The queues of a list that is not in force any more do not count.
        let waits = !rounds.was_had(first) && !may_hold && rounds.has_one_list();
        if waits && now >= free.end && self.calm.is_since(free.start) {
            let (long, first, asks) = (now - free.start, first.0, asks.0);
            let why = format!("n{node} had it free for {long} us while owner number {first} waited (silent: {asks})");
            self.verdict.broken(Rule::FreeThoughWaitedFor, why);
        }
    }

    fn overdue(&mut self, now: Micros) {
        if let Some(rounds) = &mut self.rounds {
            rounds.left(now, &self.processes, &mut self.verdict);
            self.beliefs.overdue(now, &self.processes, |of| rounds.deadline(of), &mut self.verdict);
        }
    }

    fn submitted(&mut self, op: Op) {
        if op.verb == Verb::Revoke {
            self.beliefs.revoking(op.process, op.name, op.ballot);
        }
        let released = self.rounds.as_ref().filter(|_| op.verb == Verb::Release).and_then(|rounds| rounds.lease(op));
        released.into_iter().for_each(|lease| self.beliefs.given_back(op.sent, lease, &mut self.verdict));
        self.line.submitted(op);
        self.nodes.submitted(op);
        self.rounds.as_mut().into_iter().for_each(|rounds| rounds.submitted(op, &mut self.verdict));
    }

    /// `alone` says whether the operation has only one name.
    fn did(&mut self, now: Micros, op: Op, answer: Answer, alone: bool) {
        let Some(rounds) = &mut self.rounds else { return };
        match (op.verb, answer) {
            (_, Answer::Granted) => {
                rounds.granted(op);
                rounds.has(now, op);
            }
            (_, Answer::Extended | Answer::Healed) => rounds.has(now, op),
            (Verb::Claim, Answer::Refused) => rounds.refused(op, self.verdict.at),
            // A node that forgot the name has freed it.
            (Verb::Release, Answer::Released(_) | Answer::Forgot) => rounds.released(op),
            (Verb::Withdraw, Answer::Released(true)) => rounds.withdrew(op),
            _ => {}
        }
        self.line.did(op, answer);
        self.nodes.did(now, op, answer, alone, &mut self.verdict);
    }

    fn forgot(&mut self, now: Micros, node: u8) {
        self.beliefs.forgot(now);
        self.nodes.forgot(node);
        self.line.forgot(node);
        self.rounds.as_mut().into_iter().for_each(|rounds| rounds.forgot(node));
    }

    fn finish(mut self) -> Judgement {
        self.beliefs.two_believers(&self.promises, &mut self.verdict);
        self.beliefs.too_many(&mut self.verdict);
        self.asks.kept_out(&mut self.verdict);
        self.line.never_left(&self.processes, &mut self.verdict);
        self.rounds.iter().for_each(|rounds| rounds.never_released(&self.processes, &mut self.verdict));
        self.tally.rejected_writes = self.storage.rejected;
        self.tally.stale_unchecked_writes = self.storage.stale_unchecked;
        Judgement { tally: self.tally, violations: self.verdict.told() }
    }
}

/// Violations that are found at the end of a run.
fn left_behind(what: What, verdict: &mut Verdict) {
    let why = match what {
        What::LineLeft { node } => format!("somebody is left in a line on n{node}"),
        What::PlaceKept(op) => format!("n{} keeps a place in line that was given up", op.node),
        What::KeyLeft { node } => format!("a key is left on n{node}"),
        What::TasksLeft { process, tasks } => format!("{tasks} tasks of p{process} are left"),
        What::EntriesLeft { process, lines, timers, ears } => {
            format!("p{process} has {lines} lines, {timers} timers and {ears} ears left")
        }
        What::NotQuiet { process } => format!("releases of p{process} do not end"),
        What::Unfinished { clients } => {
            return verdict.broken(Rule::NoAnswer, format!("{clients} clients did not finish"));
        }
        _ => return,
    };
    verdict.broken(Rule::LeftBehind, why);
}
