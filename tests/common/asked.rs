//! One type for the operations of all verbs, with the fields of all verbs. Tests use this type if
//! they send operations of several verbs, or check operations of any verb.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::sync::Arc;
use std::time::Duration;

use quorumlock::node::operation::Hello;
use quorumlock::node::operation::Predecessor;
use quorumlock::node::{Claim, Kind, Name, Note, Operation, Release, Renew, Revoke, Scan, Verb, Waiter};

/// An operation with the fields of all verbs. A field that the verb does not use is ignored. If
/// this value was made from an operation, such a field is zero or empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub verb: Verb,
    pub names: Arc<[Name]>,
    /// The owner; for a scan, the cursor at which it begins.
    pub owner: Arc<str>,
    /// For a claim: the hash of its list, or empty.
    pub list: Arc<str>,
    pub ttl: Duration,
    pub ballot: u64,
    /// The count of guards; for a scan, about how many keys the node checks.
    pub count: u32,
    pub waiter: Option<Waiter>,
    pub next: u64,
    /// For a release: the token. For a renewal: the token, or 0 if the token is the ballot.
    pub token: u64,
    /// For a claim: the lock that it takes over.
    pub follows: Option<Predecessor>,
    pub kind: Kind,
    /// For a renewal: the holder's note.
    pub note: Option<Note>,
    /// For a claim of permits: the semaphore's gate.
    pub gate: Option<Name>,
    pub hello: Option<Hello>,
}

impl Asked {
    /// An `inspect` of these names. Tests make other operations from this value.
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
            follows: None,
            kind: Kind::Lock,
            note: None,
            gate: None,
            hello: None,
        }
    }

    /// The same operation with another verb, and without a place in a queue. A release gets the
    /// ballot as its token.
    pub fn with_verb(&self, verb: Verb) -> Self {
        let token = if verb == Verb::Release { self.ballot } else { 0 };
        Self { verb, waiter: None, next: 0, token, ..self.clone() }
    }

    /// How long a hand-over to this waiter lasts; zero if the claim does not wait.
    pub fn hand(&self) -> Duration {
        self.waiter.map_or(Duration::ZERO, |waiter| waiter.lasts)
    }

    /// An operation on a node, without names.
    fn node(verb: Verb) -> Self {
        Self { verb, ..Self::inspect([].into()) }
    }

    fn by(verb: Verb, names: &Arc<[Name]>, owner: &Arc<str>) -> Self {
        Self { verb, owner: owner.clone(), ..Self::inspect(names.clone()) }
    }
}

impl From<Asked> for Operation {
    fn from(asked: Asked) -> Self {
        let Asked {
            verb,
            names,
            owner,
            list,
            ttl,
            ballot,
            count,
            waiter,
            next,
            token,
            follows,
            kind,
            note,
            gate,
            hello,
        } = asked;
        match verb {
            Verb::Claim => Claim { names, list, owner, kind, ttl, ballot, follows, gate, waiter, next }.into(),
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
                let Claim { names, list, owner, kind, ttl, ballot, follows, gate, waiter, next } = claim.clone();
                Self { list, kind, ttl, ballot, follows, gate, waiter, next, ..Self::by(verb, &names, &owner) }
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
