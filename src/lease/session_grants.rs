//! The grants of a session, their names, and the [`SessionState`] that decides about them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::node::Name;
use crate::protocol::{Grant, Renewing, Voters};
use crate::rules::{LeaseState, NodeSet, Pace, SessionState, Tick};

/// Grants that are held together.
pub(super) struct SessionGrants {
    pub(super) tenancy: SessionState,
    grants: BTreeMap<u64, Grant>,
    /// All names, in their order, each with the number of its grant.
    pub(super) names: BTreeMap<Name, u64>,
}

/// Grants that were taken out of a session and must be released.
#[derive(Default)]
pub(super) struct Taken {
    /// Each grant with the nodes that may hold it.
    pub(super) grants: Vec<(Grant, NodeSet)>,
    /// For each grant that was taken out with all its names: when the grant began.
    pub(super) since: Vec<Tick>,
}

impl SessionGrants {
    pub(super) const fn new(tenancy: SessionState) -> Self {
        Self { tenancy, grants: BTreeMap::new(), names: BTreeMap::new() }
    }

    /// Adds a grant. `doubted` are the nodes that came into doubt after the grant's claim was sent.
    pub(super) fn add(&mut self, grant: Grant, tenure: LeaseState, doubted: NodeSet, pace: Pace<impl FnOnce() -> u64>) {
        let number = self.tenancy.add(tenure, grant.won(), doubted, pace);
        self.names.extend(grant.names().iter().map(|name| (name.clone(), number)));
        self.grants.insert(number, grant);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.grants.is_empty()
    }

    pub(super) fn grant(&self, number: u64) -> Option<&Grant> {
        self.grants.get(&number)
    }

    /// How many operations a renewal at `now` sends to each node.
    pub(super) fn sends(&self, now: Tick) -> usize {
        self.tenancy.goes(now).filter_map(|number| self.grant(number)).map(Grant::weight).sum()
    }

    /// Those of `names` that are not held.
    pub(super) fn missing(&self, names: &[Name]) -> Vec<Name> {
        names.iter().filter(|name| !self.names.contains_key(name)).cloned().collect()
    }

    pub(super) fn tokens(&self) -> impl Iterator<Item = (Arc<str>, u64)> {
        self.names.keys().filter_map(|name| Some((name.text().clone(), self.token(name)?)))
    }

    pub(super) fn token(&self, name: &Name) -> Option<u64> {
        self.grant_of(name).map(Grant::token)
    }

    /// The grant that has this name.
    pub(super) fn grant_of(&self, name: &Name) -> Option<&Grant> {
        self.grant(*self.names.get(name)?)
    }

    /// Takes out names, which must be held and sorted. Other names of the same grants stay held.
    pub(super) fn take_out(&mut self, names: &[Name]) -> Taken {
        let mut leaving: BTreeMap<u64, Vec<&Name>> = BTreeMap::new();
        for name in names {
            if let Some(number) = self.names.remove(name) {
                leaving.entry(number).or_default().push(name);
            }
        }
        let mut taken = Taken::default();
        leaving.into_iter().for_each(|(number, names)| self.take_of(number, &names, &mut taken));
        taken
    }

    /// Takes out names of one grant. `names` must be sorted.
    fn take_of(&mut self, number: u64, names: &[&Name], taken: &mut Taken) {
        let Some(tenure) = self.tenancy.tenure(number).copied() else { return };
        let Some(grant) = self.grants.remove(&number) else { return };
        if names.len() == grant.names().len() {
            self.tenancy.remove(number);
            taken.since.push(tenure.since());
            taken.grants.push((grant, tenure.may_hold()));
        } else if let Some((left, kept)) = grant.split(|name| names.binary_search(&name).is_ok()) {
            self.tenancy.narrow(number);
            taken.grants.push((left, tenure.may_hold()));
            self.grants.insert(number, kept);
        }
    }

    /// Sends a renewal of each grant now, even if none is due. These renewals and all later ones
    /// carry the same ballot: the highest token of the grants.
    pub(super) fn renew_as_one(&mut self, voters: &Arc<Voters>) -> (u64, Vec<Renewing>) {
        let token = self.grants.values().map(Grant::token).max().unwrap_or_default();
        self.grants.values_mut().for_each(|grant| grant.raise(token));
        let renewals = Grant::renew_all(voters, self.grants.values());
        // Renewals can make nodes hold names without a claim, so record all nodes that get them.
        self.grants.keys().zip(&renewals).for_each(|(&number, sent)| self.tenancy.sent(number, sent.votes().sent()));
        (token, renewals)
    }

    /// Removes all names, because none is held any more. The grants stay, because they may still
    /// have to be released. Returns when each grant began.
    pub(super) fn forget_names(&mut self) -> Vec<Tick> {
        self.names.clear();
        self.grants.keys().filter_map(|&number| self.tenancy.tenure(number)).map(LeaseState::since).collect()
    }

    /// After a loss, takes out the grants whose deadline has passed at `now`.
    pub(super) fn take_expired(&mut self, now: Tick) -> Vec<(Grant, NodeSet)> {
        let expired = self.tenancy.expired(now);
        self.take_whole(expired)
    }

    /// After the session has ended, takes out all grants.
    pub(super) fn take_all(&mut self) -> Vec<(Grant, NodeSet)> {
        let all = self.grants.keys().copied().collect();
        self.take_whole(all)
    }

    fn take_whole(&mut self, numbers: Vec<u64>) -> Vec<(Grant, NodeSet)> {
        let take = |number| {
            let may_hold = self.tenancy.tenure(number)?.may_hold();
            self.tenancy.remove(number);
            Some((self.grants.remove(&number)?, may_hold))
        };
        numbers.into_iter().filter_map(take).collect()
    }
}
