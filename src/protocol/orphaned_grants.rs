//! Releases names that nodes hand over to owners that have ended.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::release::{ReleaseRequest, ReleaseTargets, ReleaseTask};
use super::voters::Voters;
use super::wakeups::TakesOrphans;
use crate::node::{HandedOver, Release};
use crate::rules::NodeSet;

/// Answers each push to an owner that has ended: releases the name on the node that sent the push.
#[derive(Debug)]
pub(crate) struct OrphanedGrants {
    voters: Weak<Voters>,
    /// The owner that the last release was for, and the ballot for the next waiter in this release.
    last: Mutex<Option<(Arc<str>, u64)>>,
}

impl OrphanedGrants {
    pub(crate) fn attach(voters: &Arc<Voters>) {
        voters.wakeups.attach(Arc::new(Self { voters: Arc::downgrade(voters), last: Mutex::default() }));
    }

    /// The ballot for the next waiter. All nodes that handed the name over to one owner get the
    /// same ballot.
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

impl TakesOrphans for OrphanedGrants {
    fn take_back(&self, node: usize, granted: &HandedOver) {
        let Some(voters) = self.voters.upgrade() else { return };
        // Repeat the release for as long as the node can hold the name: a hand-over lasts 5 s at
        // most.
        let ttl = Duration::from_secs(5);
        let names = [granted.name.clone()].into();
        let (owner, ballot) = (granted.owner.clone(), granted.ballot);
        let next = self.next_after(&voters, granted);
        let release = Release { names, owner, ttl, token: 0, ballot, next, place: None };
        let request = ReleaseRequest::release(release);
        ReleaseTask::start(&voters, request, ReleaseTargets::all(NodeSet::of(node)));
    }
}
