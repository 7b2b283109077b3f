//! An operation of any verb with the fields that some verb has: for tests that ask for several
//! things in one form, or look at what was asked whatever the verb is.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::sync::Arc;
use std::time::Duration;

use quorumlock::node::{
    Claim, Kind, Name, Note, Operation, Release, Renew, Revoke, Scan, Teach, Verb, Waiter, Withdraw,
};
use quorumlock::rules::roster::{Enrolment, Server};

/// What a verb has no use for is left out of its operation, and is zero where it comes from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub verb: Verb,
    pub names: Arc<[Name]>,
    /// Of an enrolment its servers; of a scan where it begins.
    pub owner: Arc<str>,
    /// Of an enrolment the longest ttl.
    pub ttl: Duration,
    /// Of a lesson the highest one; of an enrolment the protocol.
    pub ballot: u64,
    /// Of a lesson its number; of an enrolment how many nodes its list has; of a scan about how many
    /// keys are looked at.
    pub count: u32,
    pub waiter: Option<Waiter>,
    /// Of an enrolment how long an entry lasts; of a lesson more than zero where it is by hand.
    pub lasts: Duration,
    pub next: u64,
    /// Of a release; of a renewal, 0 if it is its ballot; of a claim of a reader that was the writer, the
    /// one that it follows.
    pub token: u64,
    pub kind: Kind,
    /// Of a renewal.
    pub note: Option<Note>,
    /// Of a claim of permits.
    pub gate: Option<Name>,
}

impl Asked {
    /// A question about these names, which other verbs may begin with.
    pub fn inspect(names: Arc<[Name]>) -> Self {
        Self {
            verb: Verb::Inspect,
            names,
            owner: "-".into(),
            ttl: Duration::ZERO,
            ballot: 0,
            count: 0,
            waiter: None,
            lasts: Duration::ZERO,
            next: 0,
            token: 0,
            kind: Kind::Lock,
            note: None,
            gate: None,
        }
    }

    /// The same with another verb, and without a place in line: a release is of what was held with
    /// that ballot.
    pub fn with_verb(&self, verb: Verb) -> Self {
        let token = if verb == Verb::Release { self.ballot } else { 0 };
        Self { verb, waiter: None, next: 0, token, ..self.clone() }
    }

    /// How long a hand-over to it lasts; zero if it does not wait.
    pub fn hand(&self) -> Duration {
        self.waiter.map_or(Duration::ZERO, |waiter| waiter.lasts)
    }

    /// About a node.
    fn node(verb: Verb) -> Self {
        Self { verb, ..Self::inspect([].into()) }
    }

    fn by(verb: Verb, names: &Arc<[Name]>, owner: &Arc<str>) -> Self {
        Self { verb, owner: owner.clone(), ..Self::inspect(names.clone()) }
    }

    fn enrolment(enrolment: &Enrolment) -> Self {
        let Enrolment { nodes, protocol, max_ttl, lasts, ref servers } = *enrolment;
        let servers: Vec<_> = servers.iter().map(ToString::to_string).collect();
        let (owner, ballot) = (servers.join(" ").into(), u64::from(protocol));
        Self { owner, ttl: max_ttl, ballot, count: nodes, lasts, ..Self::node(Verb::Enrol) }
    }
}

impl From<Asked> for Operation {
    fn from(asked: Asked) -> Self {
        let Asked { verb, names, owner, ttl, ballot, count, waiter, lasts, next, token, kind, note, gate } = asked;
        match verb {
            Verb::Claim => {
                let follows = token;
                Claim { names, owner, kind, ttl, ballot, follows, gate, waiter, next }.into()
            }
            Verb::Renew => {
                let token = if token == 0 { ballot } else { token };
                Renew { names, owner, kind, ttl, token, ballot, count, note }.into()
            }
            Verb::Release => Release { names, owner, ttl, token, ballot, next }.into(),
            Verb::Withdraw => Withdraw { names, owner, ttl, ballot, next }.into(),
            Verb::Inspect => Self::Inspect(names),
            Verb::Teach => Teach { high: ballot, lesson: count, by_hand: !lasts.is_zero() }.into(),
            Verb::Record => Self::Record,
            Verb::Revoke => Revoke { names, ballot }.into(),
            Verb::Enrol => {
                let servers = owner.split_whitespace().map(Server::parse).collect();
                let protocol = u32::try_from(ballot).unwrap_or(u32::MAX);
                Enrolment { nodes: count, protocol, max_ttl: ttl, lasts, servers }.into()
            }
            Verb::Retire => Self::Retire,
            Verb::Reset => Self::Reset,
            Verb::Scan => Scan { from: owner, keys: count }.into(),
        }
    }
}

impl From<&Operation> for Asked {
    fn from(operation: &Operation) -> Self {
        let verb = operation.verb();
        match operation {
            Operation::Claim(claim) => {
                let Claim { ref names, ref owner, kind, ttl, ballot, follows, ref gate, waiter, next } = *claim;
                let (token, gate) = (follows, gate.clone());
                Self { kind, ttl, ballot, token, gate, waiter, next, ..Self::by(verb, names, owner) }
            }
            Operation::Renew(renewal) => {
                let Renew { ref names, ref owner, kind, ttl, token, ballot, count, ref note } = *renewal;
                let (token, note) = (if token == ballot { 0 } else { token }, note.clone());
                Self { kind, ttl, token, ballot, count, note, ..Self::by(verb, names, owner) }
            }
            Operation::Release(release) => {
                let Release { ref names, ref owner, ttl, token, ballot, next } = *release;
                Self { ttl, token, ballot, next, ..Self::by(verb, names, owner) }
            }
            Operation::Withdraw(withdraw) => {
                let Withdraw { ref names, ref owner, ttl, ballot, next } = *withdraw;
                Self { ttl, ballot, next, ..Self::by(verb, names, owner) }
            }
            Operation::Inspect(names) => Self::inspect(names.clone()),
            Operation::Teach(Teach { high, lesson, by_hand }) => {
                let lasts = Duration::from_millis(u64::from(*by_hand));
                Self { ballot: *high, count: *lesson, lasts, ..Self::node(verb) }
            }
            Operation::Revoke(Revoke { names, ballot }) => {
                Self { ballot: *ballot, ..Self::by(verb, names, &"-".into()) }
            }
            Operation::Enrol(enrolment) => Self::enrolment(enrolment),
            Operation::Scan(Scan { from, keys }) => Self { owner: from.clone(), count: *keys, ..Self::node(verb) },
            Operation::Record | Operation::Retire | Operation::Reset => Self::node(verb),
        }
    }
}
