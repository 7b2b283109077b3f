//! One client of the model: the real rules, told the time and the replies by hand.

use std::sync::Arc;
use std::time::Duration;

use quorumlock::node::trust::trusted;
use quorumlock::node::vote::{claimed, renewed, told};
use quorumlock::node::{Outcome, Reply, Verb};
use quorumlock::rules::ballot::{dealt, lifted};
use quorumlock::rules::handover::{Registered, Stamp};
use quorumlock::rules::{
    Acquisition, Ask, Backoff, ClaimTally, Decision, Drift, Due, Expiry, Handovers, Heard, LeaseState, NodeSet, Pace,
    Phase, Renewal, RenewalTally, Renewed, RestartGuard, Size, Terms, Tick, Validity, Won,
};

use crate::scope::{Fault, Scope, TICK, Ticks};
use crate::server::Server;

/// How many nodes there are.
pub const NODES: usize = 3;

/// What is sent to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    pub verb: Verb,
    pub owner: Owner,
    pub ballot: u64,
    /// Of its client: which ask or renewal this belongs to.
    pub number: u8,
    pub sent: Ticks,
    /// Of a release or a withdrawal: the ballot of whom it hands over to.
    pub next: u64,
    /// Of a release: the token that its owner had.
    pub token: u64,
}

/// Who asks: an acquisition of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    pub client: u8,
    pub reads: bool,
    pub acquisition: u8,
}

/// A reply on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Answer {
    pub to: Message,
    pub outcome: Arc<Outcome>,
    pub time: Duration,
    /// Over which connection.
    pub generation: u64,
}

/// What a node handed over, on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Push {
    pub owner: Owner,
    pub ballot: u64,
    pub lasts: Duration,
    pub stamp: Stamp,
}

/// For how long a hand-over is asked for: one to a claim that is a tick old lasts for longer.
pub fn lasts() -> Validity {
    Validity::new(Duration::from_secs(3), Drift::default())
}

/// What a client is doing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    Idle,
    Asking(Acquisition<ClaimTally>),
    Holding { tenure: LeaseState, token: u64, renewal: Option<(Ticks, RenewalTally)> },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    pub number: u8,
    pub reads: bool,
    pub state: State,
    pub guards: [RestartGuard; NODES],
    /// The highest ballot that was dealt here or told.
    highest: u64,
    /// The highest fence told in this acquisition.
    told: u64,
    acquisition: u8,
    pub rounds: u8,
    pub renewals: u8,
    /// How many asks and renewals were sent.
    sent: u8,
    /// Which of them was the first of the present owner.
    first: u8,
    held_highest: u64,
    /// What was handed over to the present owner.
    handed: Handovers,
    /// Its last round failed, and it waits.
    waiting: bool,
    /// It was handed over since it asked.
    fresh: bool,
    /// By how much its wall clock is ahead.
    ahead: Duration,
}

/// What a client sends, to which nodes.
pub type Sent = Vec<(NodeSet, Message)>;

pub fn tick(now: Ticks) -> Tick {
    // Away from the clock's origin, where time would be cut off.
    Tick::new(TICK * (100 + now).unsigned_abs())
}

/// What wall clocks show that are not ahead.
pub fn wall(now: Ticks) -> Duration {
    Duration::from_micros(100 * u64::from(now.unsigned_abs()))
}

/// How leases are renewed: at any moment, as if timers fired whenever they want to. What is checked
/// is that those which are set do so in time.
fn pace(now: Ticks) -> Pace<impl FnOnce() -> u64> {
    let (backoff, round_trip) = (Backoff::default(), Duration::ZERO);
    Pace { auto_renew: true, backoff, round_trip, phase: 0, from: tick(now), random: || 0 }
}

/// A lease that goes on has a renewal before its deadline.
fn in_time(tenure: &LeaseState, due: Option<Due>) {
    let due = due.expect("it is renewed again").at();
    assert!(due < tenure.deadline(), "renewed at {due:?}: {tenure:?}");
}

/// A node is met: it shows its process, its clock and its record.
fn meet(guard: &mut RestartGuard, server: &mut Server, now: Ticks) {
    guard.meets_process(&server.process());
    guard.observe(server.time(now), tick(now), tick(now));
    guard.hello(server.hello(None, now).as_ref(), tick(now), tick(now));
    guard.take_news();
}

impl Client {
    pub fn new(number: u8, scope: &Scope) -> Self {
        let mut guard = RestartGuard::new(TICK * scope.max_ttl.unsigned_abs(), 0.01);
        meet(&mut guard, &mut Server::new(false), 0);
        Self {
            number,
            reads: scope.reads[number as usize],
            state: State::Idle,
            guards: [guard.clone(), guard.clone(), guard],
            highest: 0,
            told: 0,
            acquisition: 0,
            rounds: 0,
            renewals: 0,
            sent: 0,
            first: 0,
            held_highest: 0,
            handed: Handovers::default(),
            waiting: false,
            fresh: false,
            ahead: if number == 0 { scope.ahead } else { Duration::ZERO },
        }
    }

    /// Whether it may get the lock now or later.
    pub fn may_acquire(&self, scope: &Scope) -> bool {
        matches!(self.state, State::Asking(_)) || self.rounds < scope.rounds[self.number as usize]
    }

    /// Whether a reply to this matters still.
    pub fn waits_for(&self, scope: &Scope, message: &Message) -> bool {
        let asked = match &self.state {
            State::Idle => false,
            State::Asking(_) => message.verb == Verb::Claim,
            State::Holding { renewal, .. } => message.verb == Verb::Renew && renewal.is_some(),
        };
        let watches = matches!(scope.fault, Fault::Step(_)) && (asked || self.may_acquire(scope));
        watches || asked && scope.hands || asked && message.number == self.sent
    }

    /// What it has done with, it forgets.
    pub fn forget(&mut self, scope: &Scope) {
        if matches!(self.state, State::Idle) && !self.may_acquire(scope) {
            *self = Self { rounds: self.rounds, ..Self::new(self.number, scope) };
        }
    }

    pub fn is_held(&self, now: Ticks) -> bool {
        matches!(&self.state, State::Holding { tenure, .. } if tenure.is_held(tick(now)))
    }

    /// Until when it treats the lock as held, and the token that it has it by.
    pub fn holds(&self, now: Ticks) -> Option<(Tick, u64)> {
        match &self.state {
            State::Holding { tenure, token, .. } if tenure.is_held(tick(now)) => Some((tenure.deadline(), *token)),
            _ => None,
        }
    }

    /// Begins an acquisition.
    pub fn begin(&mut self, scope: &Scope, now: Ticks) -> Sent {
        let validity = Validity::new(TICK * scope.ttl.unsigned_abs(), Drift::default());
        let terms = Terms { size: Size::of(NODES as u32), validity, min_validity: Duration::ZERO };
        self.acquisition += 1;
        self.told = 0;
        self.handed = Handovers::default();
        let mut rules = Acquisition::new(terms);
        let sent = self.ask(&mut rules, now);
        self.state = State::Asking(rules);
        self.rounds += 1;
        sent
    }

    fn ask(&mut self, rules: &mut Acquisition<ClaimTally>, now: Ticks) -> Sent {
        self.highest = dealt(self.highest, wall(now) + self.ahead);
        // As `Attempt::ballot` has it.
        let (known, above) = (rules.highest().max(self.handed.top()), self.told.max(rules.withdrawn()));
        let ballot = if known > above { known } else { lifted(self.highest, above.max(known)).expect("small numbers") };
        (self.waiting, self.fresh) = (false, false);
        if rules.highest() == 0 {
            self.first = self.sent + 1;
        }
        rules.ask(Ask { t0: tick(now), ballot, votes: ClaimTally::new(Size::of(NODES as u32)) });
        self.send(Verb::Claim, ballot, now)
    }

    const fn owner(&self) -> Owner {
        Owner { client: self.number, reads: self.reads, acquisition: self.acquisition }
    }

    /// What undoes something for the present owner.
    const fn undo(&self, verb: Verb, ballot: u64, next: u64, now: Ticks) -> Message {
        Message { verb, owner: self.owner(), ballot, number: 0, sent: now, next, token: 0 }
    }

    fn send(&mut self, verb: Verb, ballot: u64, now: Ticks) -> Sent {
        self.sent += 1;
        vec![(NodeSet::first(NODES as u32), Message { number: self.sent, ..self.undo(verb, ballot, 0, now) })]
    }

    /// A reply of a node came: what it says of the node counts first, then what it says of the
    /// name.
    pub fn hear(&mut self, scope: &Scope, node: usize, answer: &Answer, now: Ticks) {
        let guard = &mut self.guards[node];
        // Where no clock is stepped, looking at them changes nothing, and would make many states of
        // one.
        if matches!(scope.fault, Fault::Step(_)) {
            guard.observe(answer.time, tick(answer.to.sent), tick(now));
        }
        let reply = trusted(Ok((*answer.outcome).clone()), guard.trust(tick(now)));
        if let Some(fence) = told(&reply) {
            self.told = self.told.max(fence);
            self.highest = self.highest.max(fence);
        }
        if answer.to.verb == Verb::Claim && answer.to.owner == self.owner() && matches!(&self.state, State::Asking(_)) {
            self.placed(node, answer, &reply);
        }
        let (mine, number) = (answer.to.number, self.sent);
        match &mut self.state {
            State::Asking(rules) if answer.to.verb == Verb::Claim && mine == number => {
                if let Some(ask) = rules.last_mut() {
                    ask.votes.count(node, claimed(&reply, answer.to.ballot));
                }
            }
            State::Holding { renewal: Some((_, votes)), .. } if answer.to.verb == Verb::Renew && mine == number => {
                votes.count(node, renewed(&reply));
            }
            _ => {}
        }
    }

    /// What a reply says of what may be handed over.
    fn placed(&mut self, node: usize, answer: &Answer, reply: &Reply) {
        match reply {
            Ok(Outcome::Held { queued, .. }) => {
                let stamp = Stamp { generation: answer.generation, time: answer.time };
                let registered = queued.map(|queued| Registered {
                    t0: tick(answer.to.sent),
                    lasts: lasts(),
                    stamp,
                    rank: queued.rank,
                    first: answer.to.number == self.first,
                });
                self.handed.refused(node, registered);
            }
            Ok(Outcome::Granted { .. }) => self.handed.granted(node),
            Ok(Outcome::Stale { .. }) => self.handed.stale(node),
            _ => {}
        }
    }

    /// A node has handed the name over. What is sent, if that was to an owner that has ended.
    pub fn pushed(&mut self, scope: &Scope, node: usize, push: &Push, now: Ticks) -> Sent {
        if matches!(scope.fault, Fault::Step(_)) {
            self.guards[node].observe_push(push.stamp.time, tick(now));
        }
        let present = match &self.state {
            State::Idle => false,
            State::Asking(_) => push.owner == self.owner(),
            State::Holding { .. } if push.owner == self.owner() => return Vec::new(),
            State::Holding { .. } => false,
        };
        if present {
            self.highest = self.highest.max(push.ballot);
            let counts = self.guards[node].trust(tick(now)).grants;
            self.handed.push(node, push.ballot, push.lasts, push.stamp, counts);
            self.fresh = true;
            return Vec::new();
        }
        let next = lifted(self.highest, push.ballot).expect("small numbers");
        let release = Message { owner: push.owner, ..self.undo(Verb::Release, push.ballot, next, now) };
        vec![(NodeSet::of(node), release)]
    }

    /// Whether there is something to decide.
    pub fn may_decide(&self, now: Ticks) -> bool {
        match &self.state {
            State::Idle => false,
            State::Asking(rules) => match rules.decide(tick(now), &self.handed) {
                None => false,
                // It waits for the others.
                Some(Decision::Failed(_)) => !self.waiting,
                Some(_) => true,
            },
            State::Holding { tenure, renewal, .. } => {
                tick(now) >= tenure.expires() || renewal.is_some_and(|(_, votes)| votes.verdict().is_some())
            }
        }
    }

    /// Decides. Returns what is sent, and the token if the lock was acquired.
    pub fn decide(&mut self, scope: &Scope, now: Ticks) -> (Sent, Option<u64>) {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle => (Vec::new(), None),
            State::Asking(rules) => self.asked(rules, scope, now),
            State::Holding { tenure, token, renewal } => (self.held(tenure, token, renewal, now), None),
        }
    }

    fn asked(&mut self, mut rules: Acquisition<ClaimTally>, scope: &Scope, now: Ticks) -> (Sent, Option<u64>) {
        match rules.decide(tick(now), &self.handed) {
            Some(Decision::Won(grant)) => {
                self.hold(scope, grant, now);
                (Vec::new(), Some(grant.ballot))
            }
            Some(Decision::Lift) => {
                let sent = self.ask(&mut rules, now);
                self.state = State::Asking(rules);
                (sent, None)
            }
            Some(Decision::Failed(_)) if scope.hands && rules.only_waits(&self.handed, self.fresh) => {
                rules.wait();
                self.waiting = true;
                self.state = State::Asking(rules);
                (Vec::new(), None)
            }
            Some(Decision::Failed(_)) | None => {
                let again = self.rounds < scope.rounds[self.number as usize];
                (self.give_up(rules, again, now), None)
            }
        }
    }

    fn hold(&mut self, scope: &Scope, won: Won, now: Ticks) {
        let validity = Validity::new(TICK * scope.ttl.unsigned_abs(), Drift::default());
        let tenure = LeaseState::new(Size::of(NODES as u32), validity, None, won, tick(now));
        in_time(&tenure, tenure.first_renewal(&won, pace(now)));
        self.held_highest = won.highest;
        self.handed = Handovers::default();
        self.state = State::Holding { tenure, token: won.ballot, renewal: None };
    }

    /// Whether a round was given up, and the next has not been asked for.
    pub fn may_ask_again(&self) -> bool {
        matches!(&self.state, State::Asking(rules) if rules.last().is_none())
    }

    /// Whether it has nothing to withdraw, and may ask again.
    pub const fn waits(&self) -> bool {
        self.waiting && matches!(self.state, State::Asking(_))
    }

    /// Makes another round.
    pub fn ask_again(&mut self, now: Ticks) -> Sent {
        let State::Asking(mut rules) = std::mem::replace(&mut self.state, State::Idle) else { return Vec::new() };
        self.rounds += 1;
        let sent = self.ask(&mut rules, now);
        self.state = State::Asking(rules);
        sent
    }

    /// Gives a round up; asks again later, or goes away.
    pub fn give_up(&mut self, mut rules: Acquisition<ClaimTally>, again: bool, now: Ticks) -> Sent {
        let ballot = rules.highest().max(self.handed.top());
        if again {
            return self.withdraw(rules, ballot, now);
        }
        let whom = rules.may_hold().or(self.handed.pushed()).or(self.handed.registered());
        let next = self.next(ballot, now);
        rules.withdraw(ballot);
        self.handed = Handovers::default();
        self.waiting = false;
        vec![(whom, self.undo(Verb::Release, ballot, next, now))]
    }

    /// As `Attempt::withdraw` has it.
    fn withdraw(&mut self, mut rules: Acquisition<ClaimTally>, ballot: u64, now: Ticks) -> Sent {
        let whom = rules.may_hold().or(self.handed.open());
        self.waiting = whom.is_empty();
        if self.waiting {
            rules.wait();
            self.state = State::Asking(rules);
            return Vec::new();
        }
        rules.withdraw(ballot);
        self.handed.withdraw();
        self.fresh = false;
        let next = self.next(ballot, now);
        self.state = State::Asking(rules);
        vec![(whom, self.undo(Verb::Withdraw, ballot, next, now))]
    }

    fn held(&mut self, mut tenure: LeaseState, token: u64, renewal: Option<(Ticks, RenewalTally)>, now: Ticks) -> Sent {
        if let Some((t0, votes)) = renewal {
            let renewal = votes.verdict().unwrap_or(Renewal::Unclear);
            let heard = Heard { t0: tick(t0), renewal, votes: &votes, doubted: NodeSet::default() };
            if let (Renewed::Extended { .. }, due) = tenure.renewed(heard, pace(now), tick(now)) {
                in_time(&tenure, due);
            }
        }
        let is_early = matches!(tenure.deadline_reached(tick(now)), Expiry::Later(_));
        // One that is told of a loss drops its guard at once: nobody lets go sooner.
        if is_early && tenure.phase() == Phase::Held {
            self.state = State::Holding { tenure, token, renewal: None };
            return Vec::new();
        }
        self.let_go(token, now)
    }

    /// The ballot of whoever comes next.
    fn next(&mut self, above: u64, now: Ticks) -> u64 {
        self.highest = dealt(self.highest, wall(now) + self.ahead);
        lifted(self.highest, above.max(self.told)).expect("small numbers")
    }

    fn let_go(&mut self, token: u64, now: Ticks) -> Sent {
        let (ballot, next) = (self.held_highest, self.next(token.max(self.held_highest), now));
        let release = Message { token, ..self.undo(Verb::Release, ballot, next, now) };
        vec![(NodeSet::first(NODES as u32), release)]
    }

    /// Gives the lock back.
    pub fn release(&mut self, now: Ticks) -> Sent {
        let State::Holding { tenure, token, .. } = &mut self.state else { return Vec::new() };
        let (held, token) = (tenure.release(tick(now)), *token);
        assert!(held, "only a holder releases");
        self.state = State::Idle;
        self.let_go(token, now)
    }

    pub fn may_renew(&self, scope: &Scope, now: Ticks) -> bool {
        let held = matches!(&self.state, State::Holding { tenure, .. } if tenure.may_renew(tick(now)));
        held && self.renewals < scope.renewals[self.number as usize]
    }

    /// Sends a renewal. What the one before it came to does not count any more.
    pub fn renew(&mut self, now: Ticks) -> Sent {
        let State::Holding { token, renewal, .. } = &mut self.state else { return Vec::new() };
        *renewal = Some((now, RenewalTally::new(Size::of(NODES as u32))));
        let token = *token;
        self.renewals += 1;
        self.send(Verb::Renew, token, now)
    }

    /// A new connection.
    pub fn meet(&mut self, node: usize, server: &mut Server, now: Ticks) {
        meet(&mut self.guards[node], server, now);
    }
}
