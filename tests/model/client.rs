//! One client of the model: the real rules, with times and replies given by the model.

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

pub const NODES: usize = 3;

/// A request to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    pub verb: Verb,
    pub owner: Owner,
    pub ballot: u64,
    /// The number of the client's ask or renewal that this request belongs to.
    pub number: u8,
    pub sent: Ticks,
    /// For a release or withdrawal: the ballot for a hand-over.
    pub next: u64,
    /// For a release: the owner's token, or 0.
    pub token: u64,
}

/// An owner: one acquisition of a client.
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
    /// The connection that carries the reply.
    pub generation: u64,
}

/// A push on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Push {
    pub owner: Owner,
    pub ballot: u64,
    pub lasts: Duration,
    pub stamp: Stamp,
}

/// The time H that waiters choose. It is longer than one tick, so a push can still win a tick after
/// the ask.
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
    /// The highest ballot that this client has used or received.
    highest: u64,
    /// The highest fence that was returned in this acquisition.
    told: u64,
    acquisition: u8,
    pub rounds: u8,
    pub renewals: u8,
    /// The number of asks and renewals that were sent.
    sent: u8,
    /// The number of the present owner's first ask.
    first: u8,
    held_highest: u64,
    /// The hand-overs to the present owner.
    handed: Handovers,
    /// Whether the last round failed and the client waits.
    waiting: bool,
    /// Whether a push arrived after the last ask.
    fresh: bool,
    /// How far the client's wall clock is ahead.
    ahead: Duration,
}

/// Requests that a client sends, each with the nodes that get it.
pub type Sent = Vec<(NodeSet, Message)>;

pub fn tick(now: Ticks) -> Tick {
    // The ticks start at 100, so that no time is below the clock's origin.
    Tick::new(TICK * (100 + now).unsigned_abs())
}

/// The time of wall clocks that are not ahead.
pub fn wall(now: Ticks) -> Duration {
    Duration::from_micros(100 * u64::from(now.unsigned_abs()))
}

/// How leases are renewed. The model renews at any moment, as if timers fired at any time. It only
/// checks that the real timers would fire in time.
fn pace(now: Ticks) -> Pace<impl FnOnce() -> u64> {
    let (backoff, round_trip) = (Backoff::default(), Duration::ZERO);
    Pace { auto_renew: true, backoff, round_trip, phase: 0, from: tick(now), random: || 0 }
}

/// Asserts that the next renewal of a lease is due before its deadline.
fn in_time(tenure: &LeaseState, due: Option<Due>) {
    let due = due.expect("it is renewed again").at();
    assert!(due < tenure.deadline(), "renewed at {due:?}: {tenure:?}");
}

/// A client meets a node: it learns the node's process, clock and record.
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

    /// Whether the client may get the lock now or later.
    pub fn may_acquire(&self, scope: &Scope) -> bool {
        matches!(self.state, State::Asking(_)) || self.rounds < scope.rounds[self.number as usize]
    }

    /// Whether a reply to this message can still matter.
    pub fn waits_for(&self, scope: &Scope, message: &Message) -> bool {
        let asked = match &self.state {
            State::Idle => false,
            State::Asking(_) => message.verb == Verb::Claim,
            State::Holding { renewal, .. } => message.verb == Verb::Renew && renewal.is_some(),
        };
        let watches = matches!(scope.fault, Fault::Step(_)) && (asked || self.may_acquire(scope));
        watches || asked && scope.hands || asked && message.number == self.sent
    }

    /// Clears the state of a client that has ended.
    pub fn forget(&mut self, scope: &Scope) {
        if matches!(self.state, State::Idle) && !self.may_acquire(scope) {
            *self = Self { rounds: self.rounds, ..Self::new(self.number, scope) };
        }
    }

    pub fn is_held(&self, now: Ticks) -> bool {
        matches!(&self.state, State::Holding { tenure, .. } if tenure.is_held(tick(now)))
    }

    /// If the client holds the lock: its deadline, and its token.
    pub fn holds(&self, now: Ticks) -> Option<(Tick, u64)> {
        match &self.state {
            State::Holding { tenure, token, .. } if tenure.is_held(tick(now)) => Some((tenure.deadline(), *token)),
            _ => None,
        }
    }

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
        // The same rule as `Attempt::ballot`.
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

    /// A release or withdrawal for the present owner.
    const fn undo(&self, verb: Verb, ballot: u64, next: u64, now: Ticks) -> Message {
        Message { verb, owner: self.owner(), ballot, number: 0, sent: now, next, token: 0 }
    }

    fn send(&mut self, verb: Verb, ballot: u64, now: Ticks) -> Sent {
        self.sent += 1;
        vec![(NodeSet::first(NODES as u32), Message { number: self.sent, ..self.undo(verb, ballot, 0, now) })]
    }

    /// Delivers a reply: first judges the node, and then counts the vote.
    pub fn hear(&mut self, scope: &Scope, node: usize, answer: &Answer, now: Ticks) {
        let guard = &mut self.guards[node];
        // If no clock is stepped, observing clocks has no effect, and would only multiply the
        // states.
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

    /// Passes the reply to a claim on to `Handovers`. A later push counts only from a place that a
    /// reply has confirmed.
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

    /// Delivers a push. Returns a release if the push is for an owner that has ended.
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

    /// Whether the client can decide its round or its renewal now.
    pub fn may_decide(&self, now: Ticks) -> bool {
        match &self.state {
            State::Idle => false,
            State::Asking(rules) => match rules.decide(tick(now), &self.handed) {
                None => false,
                // The client waits for other owners.
                Some(Decision::Failed(_)) => !self.waiting,
                Some(_) => true,
            },
            State::Holding { tenure, renewal, .. } => {
                tick(now) >= tenure.expires() || renewal.is_some_and(|(_, votes)| votes.verdict().is_some())
            }
        }
    }

    /// Decides. Returns the messages to send, and the token if the client got the lock.
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

    /// Whether a round was given up, and the next ask has not been sent.
    pub fn may_ask_again(&self) -> bool {
        matches!(&self.state, State::Asking(rules) if rules.last().is_none())
    }

    /// Whether the client has nothing to withdraw, and may ask again.
    pub const fn waits(&self) -> bool {
        self.waiting && matches!(self.state, State::Asking(_))
    }

    pub fn ask_again(&mut self, now: Ticks) -> Sent {
        let State::Asking(mut rules) = std::mem::replace(&mut self.state, State::Idle) else { return Vec::new() };
        self.rounds += 1;
        let sent = self.ask(&mut rules, now);
        self.state = State::Asking(rules);
        sent
    }

    /// Gives a round up. If `again`, the client makes another round later; otherwise, its
    /// acquisition ends.
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

    /// The same rule as `Attempt::withdraw`.
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
        // A client drops its guard as soon as it learns of a loss. A real client may drop it later.
        if is_early && tenure.phase() == Phase::Held {
            self.state = State::Holding { tenure, token, renewal: None };
            return Vec::new();
        }
        self.let_go(token, now)
    }

    /// The ballot for a hand-over to the next waiter.
    fn next(&mut self, above: u64, now: Ticks) -> u64 {
        self.highest = dealt(self.highest, wall(now) + self.ahead);
        lifted(self.highest, above.max(self.told)).expect("small numbers")
    }

    fn let_go(&mut self, token: u64, now: Ticks) -> Sent {
        let (ballot, next) = (self.held_highest, self.next(token.max(self.held_highest), now));
        let release = Message { token, ..self.undo(Verb::Release, ballot, next, now) };
        vec![(NodeSet::first(NODES as u32), release)]
    }

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

    /// Sends a renewal. Replies to the previous renewal do not count any more.
    pub fn renew(&mut self, now: Ticks) -> Sent {
        let State::Holding { token, renewal, .. } = &mut self.state else { return Vec::new() };
        *renewal = Some((now, RenewalTally::new(Size::of(NODES as u32))));
        let token = *token;
        self.renewals += 1;
        self.send(Verb::Renew, token, now)
    }

    /// Connects to a node again.
    pub fn meet(&mut self, node: usize, server: &mut Server, now: Ticks) {
        meet(&mut self.guards[node], server, now);
    }
}
