//! Operations for unit tests.

use std::sync::Arc;
use std::time::Duration;

use super::Operation;
use super::bodies::{Claim, Release, Renew, Revoke, Scan};
use super::hello::{Hello, Intent};
use super::kind::Kind;
use super::name::Name;
use super::verb::Verb;
use crate::rules::list::List;

impl Claim {
    /// A claim of one name for a minute, which does not wait.
    pub(crate) fn sample(name: &str, owner: &str, ballot: u64) -> Self {
        Self {
            names: [Name::new("p:", name).unwrap()].into(),
            list: "".into(),
            owner: owner.into(),
            kind: Kind::Lock,
            ttl: Duration::from_secs(60),
            ballot,
            follows: None,
            gate: None,
            waiter: None,
            next: 0,
        }
    }

    /// The operation with this verb, for the owner and the names of this claim.
    pub(crate) fn with_verb(self, verb: Verb) -> Operation {
        let Self { names, ballot, .. } = &self;
        match verb {
            Verb::Claim => Operation::Claim(self),
            Verb::Renew => Renew::of(&self, 1).into(),
            Verb::Release => Release { token: *ballot, ..Release::of(&self) }.into(),
            Verb::Withdraw => Operation::Withdraw(Release::of(&self)),
            Verb::Inspect => Operation::Inspect(self.names),
            Verb::Revoke => Revoke { names: names.clone(), ballot: *ballot }.into(),
            Verb::Hello => Hello::sample(Intent::Look).into(),
            Verb::Scan => Scan { from: Scan::FIRST.into(), keys: 100 }.into(),
        }
    }
}

impl Hello {
    /// A hello for a list with one node, the process `process`, and a `max_ttl` of one minute.
    pub(crate) fn sample(intent: Intent) -> Self {
        Self {
            intent,
            new: "new".into(),
            process: "process".into(),
            list: Arc::new(List::new("default", ["node"], Duration::from_secs(60))),
            old: None,
            knew: None,
            sync: None,
            seen: Vec::new(),
        }
    }
}
