//! An operation of any verb with the fields that some verb has: for tests that ask for several
//! things in one form, or look at what was asked whatever the verb is.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::sync::Arc;
use std::time::Duration;

use quorumlock::node::operation::Hello;
use quorumlock::node::{Claim, Kind, Name, Note, Operation, Release, Renew, Revoke, Scan, Verb, Waiter};

/// What a verb has no use for is left out of its operation, and is zero where it comes from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub verb: Verb,
    pub names: Arc<[Name]>,
    /// Of a scan where it begins.
    pub owner: Arc<str>,
    /// Of a claim: the hash of its list, or nothing.
    pub list: Arc<str>,
    pub ttl: Duration,
    pub ballot: u64,
    /// Of a scan about how many keys are looked at.
    pub count: u32,
    pub waiter: Option<Waiter>,
    pub next: u64,
    /// Of a release; of a renewal, 0 if it is its ballot; of a claim of a reader that was the writer, the
    /// one that it follows.
    pub token: u64,
    pub kind: Kind,
    /// Of a renewal.
    pub note: Option<Note>,
    /// Of a claim of permits.
    pub gate: Option<Name>,
    pub hello: Option<Hello>,
}

impl Asked {
    /// A question about these names, which other verbs may begin with.
    pub fn inspect(names: Arc<[Name]>) -> Self {
        Self {
            verb: Verb::Inspect,
            names,
            owner: "-".into(),
            list: "".into(),
            ttl: Duration::ZERO,
            ballot: 0,
            count: 0,
            waiter: None,
            next: 0,
            token: 0,
            kind: Kind::Lock,
            note: None,
            gate: None,
            hello: None,
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
}

impl From<Asked> for Operation {
    fn from(asked: Asked) -> Self {
        let Asked { verb, names, owner, list, ttl, ballot, count, waiter, next, token, kind, note, gate, hello } =
            asked;
        match verb {
            Verb::Claim => {
                let follows = token;
                Claim { names, list, owner, kind, ttl, ballot, follows, gate, waiter, next }.into()
            }
            Verb::Renew => {
                let token = if token == 0 { ballot } else { token };
                Renew { names, owner, kind, ttl, token, ballot, count, note }.into()
            }
            Verb::Release => Release { names, owner, ttl, token, ballot, next, place: None }.into(),
            Verb::Withdraw => {
                let place = waiter.map(|waiter| (kind, waiter));
                Self::Withdraw(Release { names, owner, ttl, token: 0, ballot, next, place })
            }
            Verb::Inspect => Self::Inspect(names),
            Verb::Revoke => Revoke { names, ballot }.into(),
            Verb::Hello => hello.expect("what a hello has").into(),
            Verb::Scan => Scan { from: owner, keys: count }.into(),
        }
    }
}

impl From<&Operation> for Asked {
    fn from(operation: &Operation) -> Self {
        let verb = operation.verb();
        match operation {
            Operation::Claim(claim) => {
                let Claim { ref names, ref list, ref owner, kind, ttl, ballot, follows, ref gate, waiter, next } =
                    *claim;
                let (token, list, gate) = (follows, list.clone(), gate.clone());
                Self { list, kind, ttl, ballot, token, gate, waiter, next, ..Self::by(verb, names, owner) }
            }
            Operation::Renew(renewal) => {
                let Renew { ref names, ref owner, kind, ttl, token, ballot, count, ref note } = *renewal;
                let (token, note) = (if token == ballot { 0 } else { token }, note.clone());
                Self { kind, ttl, token, ballot, count, note, ..Self::by(verb, names, owner) }
            }
            Operation::Release(release) | Operation::Withdraw(release) => {
                let Release { ref names, ref owner, ttl, token, ballot, next, place } = *release;
                let asked = Self { ttl, token, ballot, next, ..Self::by(verb, names, owner) };
                match place {
                    Some((kind, waiter)) => Self { kind, waiter: Some(waiter), ..asked },
                    None => asked,
                }
            }
            Operation::Inspect(names) => Self::inspect(names.clone()),
            Operation::Revoke(Revoke { names, ballot }) => {
                Self { ballot: *ballot, ..Self::by(verb, names, &"-".into()) }
            }
            Operation::Hello(hello) => Self { hello: Some(hello.clone()), ..Self::node(verb) },
            Operation::Scan(Scan { from, keys }) => Self { owner: from.clone(), count: *keys, ..Self::node(verb) },
        }
    }
}
