//! What a session holds: grants, their names, and what its [`Tenancy`] knows of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::node::Name;
use crate::protocol::Grant;
use crate::rules::{NodeSet, Pace, Tenancy, Tenure, Tick};

/// Grants that are held together.
pub(super) struct Kept {
    pub(super) tenancy: Tenancy,
    grants: BTreeMap<u64, Grant>,
    /// Which grant each name is of.
    names: BTreeMap<Name, u64>,
}

/// What was taken out and is to be given back.
#[derive(Default)]
pub(super) struct Taken {
    /// With the nodes that may hold it.
    pub(super) grants: Vec<(Grant, NodeSet)>,
    /// Since when those were held of which nothing is left.
    pub(super) since: Vec<Tick>,
}

impl Taken {
    /// All names, in their order.
    pub(super) fn names(&self) -> Vec<&Name> {
        let mut names: Vec<_> = self.grants.iter().flat_map(|(grant, _)| grant.names()).collect();
        names.sort_unstable();
        names
    }
}

impl Kept {
    pub(super) const fn new(tenancy: Tenancy) -> Self {
        Self { tenancy, grants: BTreeMap::new(), names: BTreeMap::new() }
    }

    /// One more, which was granted while these nodes came into doubt.
    pub(super) fn add(&mut self, grant: Grant, tenure: Tenure, doubted: NodeSet, pace: Pace<impl FnOnce() -> u64>) {
        let number = self.tenancy.add(tenure, grant.won(), doubted, pace);
        self.names.extend(grant.names().iter().map(|name| (name.clone(), number)));
        self.grants.insert(number, grant);
    }

    pub(super) fn grant(&self, number: u64) -> Option<&Grant> {
        self.grants.get(&number)
    }

    /// How much is sent when it is renewed at `now`.
    pub(super) fn sends(&self, now: Tick) -> usize {
        self.tenancy.goes(now).filter_map(|number| self.grant(number)).map(Grant::weight).sum()
    }

    /// All names, in their order.
    pub(super) const fn names(&self) -> &BTreeMap<Name, u64> {
        &self.names
    }

    /// Which of these names are not held.
    pub(super) fn missing(&self, names: &[Name]) -> Vec<Name> {
        names.iter().filter(|name| !self.names.contains_key(name)).cloned().collect()
    }

    /// The token of each name.
    pub(super) fn tokens(&self) -> impl Iterator<Item = (Arc<str>, u64)> {
        self.names.keys().filter_map(|name| Some((name.text().clone(), self.token(name)?)))
    }

    pub(super) fn token(&self, name: &Name) -> Option<u64> {
        self.grant_of(name).map(Grant::token)
    }

    /// What it was granted this name by.
    pub(super) fn grant_of(&self, name: &Name) -> Option<&Grant> {
        self.grant(*self.names.get(name)?)
    }

    /// Takes these names out, which are held. The others of their grants stay.
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

    /// Takes names of one grant out, in their order.
    fn take_of(&mut self, number: u64, names: &[&Name], taken: &mut Taken) {
        let Some(tenure) = self.tenancy.tenure(number).copied() else { return };
        let Some(mut grant) = self.grants.remove(&number) else { return };
        if names.len() == grant.names().len() {
            self.tenancy.remove(number);
            taken.since.push(tenure.since());
            taken.grants.push((grant, tenure.may_hold()));
        } else {
            self.tenancy.narrow(number);
            let left = grant.split_off(|name| names.binary_search(&name).is_ok());
            taken.grants.push((left, tenure.may_hold()));
            self.grants.insert(number, grant);
        }
    }

    /// Takes all out.
    pub(super) fn take_all(&mut self) -> Taken {
        self.names.clear();
        let mut taken = Taken::default();
        for (number, grant) in std::mem::take(&mut self.grants) {
            if let Some(tenure) = self.tenancy.tenure(number) {
                taken.since.push(tenure.since());
                taken.grants.push((grant, tenure.may_hold()));
            }
        }
        taken
    }
}
