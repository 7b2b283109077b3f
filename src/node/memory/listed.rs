//! The list of nodes that is in force on a node.

use std::sync::Arc;
use std::time::Duration;

use super::millis;
use crate::node::operation::{Hello, Intent};
use crate::rules::list::InForce;

/// The list that a hello put in force last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Listed {
    hash: Arc<str>,
    says: Arc<str>,
    /// Since when the list has been in force.
    begun: Duration,
    until: Duration,
    /// For how long a hello puts the list in force, or renews it.
    lasts: Duration,
}

impl Listed {
    /// The list in force after `hello`, whose intent must not be `Look`. `before` is the list in
    /// force before this hello.
    pub(super) fn behind(hello: &Hello, before: Option<Self>, now: Duration) -> Option<Self> {
        let (list, lasts) = (&hello.list, millis(hello.list.lasts()));
        let (hash, says) = (list.hash().clone(), list.says().clone());
        let put = || Self { hash, says, begun: now, until: now + lasts, lasts };
        let mut listed = before.or_else(|| (hello.intent == Intent::Put).then(put))?;
        if listed.is(list.hash()) && listed.until < now + millis(list.fresh()) {
            listed.until = now + lasts;
        }
        Some(listed)
    }

    /// This list, if it is still in force. If its end is further ahead than `lasts`, the clock was
    /// set back, and the end is moved to `lasts` from now.
    pub(super) fn unexpired(&self, now: Duration) -> Option<Self> {
        let until = self.until.min(now + self.lasts);
        (until > now).then(|| Self { until, ..self.clone() })
    }

    pub(super) fn is(&self, hash: &str) -> bool {
        *self.hash == *hash
    }

    pub(super) fn fields(&self) -> [(&'static str, String); 5] {
        let millis = |time: Duration| time.as_millis().to_string();
        [
            ("list", self.hash.to_string()),
            ("says", self.says.to_string()),
            ("begun", millis(self.begun)),
            ("until", millis(self.until)),
            ("lasts", millis(self.lasts)),
        ]
    }

    pub(super) fn told(&self, now: Duration) -> InForce {
        let Self { hash, says, begun, until, .. } = self;
        let (left, age) = (until.saturating_sub(now), now.saturating_sub(*begun));
        InForce { hash: hash.clone(), says: says.clone(), left, age }
    }
}
