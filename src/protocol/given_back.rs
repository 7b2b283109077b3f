//! What nodes hand over to owners that have ended: it is given back.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::hints::TakesBack;
use super::release::{Cleanup, Whom};
use super::voters::Voters;
use crate::node::{HandedOver, Release};
use crate::rules::NodeSet;

/// Gives back through these voters.
#[derive(Debug)]
pub(crate) struct GivenBack {
    voters: Weak<Voters>,
    /// The last owner that something was given back for, and the ballot of whom that is handed over
    /// to.
    last: Mutex<Option<(Arc<str>, u64)>>,
}

impl GivenBack {
    /// From now on, whatever these voters' hints say was handed over to nobody is given back.
    pub(crate) fn attach(voters: &Arc<Voters>) {
        voters.hints.attach(Arc::new(Self { voters: Arc::downgrade(voters), last: Mutex::default() }));
    }

    /// The ballot of whoever comes next: the same for all nodes that handed over to one owner.
    fn next_after(&self, voters: &Voters, granted: &HandedOver) -> u64 {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((owner, next)) = &*last
            && *owner == granted.owner
            && *next > granted.ballot
        {
            return *next;
        }
        let next = voters.next_ballot(granted.ballot);
        *last = Some((granted.owner.clone(), next));
        next
    }
}

impl TakesBack for GivenBack {
    fn take_back(&self, node: usize, granted: &HandedOver) {
        let Some(voters) = self.voters.upgrade() else { return };
        // Tried again for as long as it would be held.
        let ttl = Duration::from_secs(5);
        let names = [granted.name.clone()].into();
        let (owner, ballot) = (granted.owner.clone(), granted.ballot);
        let next = self.next_after(&voters, granted);
        let release = Release { names, owner, ttl, token: 0, ballot, next };
        Cleanup::start(&voters, release, Whom::all(NodeSet::of(node)));
    }
}
