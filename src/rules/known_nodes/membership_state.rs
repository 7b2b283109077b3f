//! What the records of all nodes show together: which nodes' votes count, and which records clients
//! saw.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::node::{Node, Other};
use super::{KnownNodes, MembershipState, OtherId};
use crate::rules::list::{Record, Sighting};
use crate::rules::tick::Tick;

impl OtherId {
    fn is(&self, node: usize, id: &str) -> bool {
        self.node == node && *self.id == *id
    }
}

impl KnownNodes {
    /// Whether a node's votes count. While another list with the name of this client's list is in
    /// force anywhere, no node's votes on claims count. Otherwise, this client could acquire a lock
    /// that a client of the other list holds.
    pub(super) fn standing(&self, number: usize, now: Tick) -> MembershipState {
        let node = &self.nodes[number];
        let Some(known) = node.answer() else { return MembershipState::Unknown };
        if let Some(why) = self.twins(number, now) {
            return MembershipState::Twins { why };
        }
        if let Some(other) = node.other(now) {
            return MembershipState::OtherList { until: other.until, why: other.why.clone() };
        }
        if let Some((on, other)) = self.other_list(now) {
            return MembershipState::OtherList { until: other.until, why: on.into() };
        }
        let until = match self.onlooker {
            true => Some(known.at + self.fresh()),
            false => node.counts_until(&self.list, self.fresh()).filter(|_| node.has(&self.list, now)),
        };
        until.filter(|&until| now < until).map_or(MembershipState::Unknown, |until| MembershipState::Counts { until })
    }

    /// Another list, with the name of this client's list, that is in force on some node; and a text
    /// that names this node.
    pub(super) fn other_list(&self, now: Tick) -> Option<(String, &Other)> {
        let node = self.nodes.iter().find(|node| node.other(now).is_some_and(|other| other.same_name))?;
        Some((format!("another list is in force on {}", node.name), node.other(now)?))
    }

    /// The ids that clients report for each node, without the ids of this client's own records.
    pub(super) fn reported_ids(&self, now: Tick) -> Vec<OtherId> {
        let mut all: Vec<OtherId> = Vec::new();
        for (at, record) in self.fresh_records(now).filter(|(at, _)| at.has(&self.list, now)) {
            let told = at.answer().map(|known| known.at).unwrap_or_default();
            for seen in &record.seen {
                let Some(node) = self.nodes.iter().position(|node| node.name == seen.node) else { continue };
                let own = self.nodes[node].record().map(|record| &record.id);
                let known = self.other_ids.iter().find(|known| known.is(node, &seen.id));
                // Without a record of the node, keep what was known before.
                if own == Some(&seen.id) || (own.is_none() && known.is_none()) {
                    continue;
                }
                let first = known.map_or(Tick::NEVER, |known| known.first).min(told.minus(seen.age));
                match all.iter_mut().find(|other| other.is(node, &seen.id)) {
                    Some(other) => other.first = other.first.min(first),
                    None => all.push(OtherId { node, id: seen.id.clone(), first }),
                }
            }
        }
        all
    }

    /// Returns a message if clients of this list reach two servers by this node's name. The
    /// evidence is a client's report of an id that differs from the id of this node's record. A
    /// report counts only if both of these hold:
    ///
    /// - It came more than `List::overlap` after this record got its id. An earlier report may show
    ///   a former id.
    /// - The first report of this id came at least a `pause` before the hello that read this
    ///   record. An id that was first reported later may be a new id that this client has not read
    ///   yet.
    fn twins(&self, number: usize, now: Tick) -> Option<Arc<str>> {
        let node = &self.nodes[number];
        let (own, asked) = (node.record()?, node.answer()?.at);
        let mut ids = BTreeSet::from([&*own.id]);
        for (at, record) in self.fresh_records(now).filter(|(at, _)| at.has(&self.list, now)) {
            let told = at.answer().map(|known| known.at).unwrap_or_default();
            let is_late = |seen: &Sighting| told + own.age > asked + seen.age + self.list.overlap();
            let is_early = |other: &OtherId| other.first + self.pause() <= asked;
            let is_known = |seen: &Sighting| self.other_ids.iter().any(|it| it.is(number, &seen.id) && is_early(it));
            let counts = |seen: &&Sighting| seen.node == node.name && is_late(seen) && is_known(seen);
            ids.extend(record.seen.iter().filter(counts).map(|seen| &*seen.id));
        }
        if ids.len() < 2 {
            return None;
        }
        let (name, ids) = (&node.name, ids.into_iter().collect::<Vec<_>>().join(", "));
        let why = format!(
            "clients meet two servers behind the name {name} (records {ids}): stop one of them, or correct the address, \
             so that the name leads all clients to one server"
        );
        Some(why.into())
    }

    /// Whether a record that is made on a node now may be one of first use: no client is known to
    /// have seen a record on this node. The node also checks its INFO.
    pub(super) fn may_be_first(&self, number: usize, now: Tick) -> bool {
        let node = &self.nodes[number];
        let shows = |record: &Record| record.seen.iter().any(|seen| seen.node == node.name);
        node.id.is_none() && !self.fresh_records(now).any(|(_, record)| shows(record))
    }

    /// The ids of all records that were read lately.
    pub(super) fn seen(&self, now: Tick) -> Vec<(Arc<str>, Arc<str>)> {
        self.fresh_records(now).map(|(node, record)| (node.name.clone(), record.id.clone())).collect()
    }

    /// The nodes that answered a hello lately, with their records.
    pub(super) fn fresh_records(&self, now: Tick) -> impl Iterator<Item = (&Node, &Record)> {
        let fresh = self.fresh();
        self.nodes.iter().filter_map(move |node| Some((node, node.fresh(fresh, now)?.record.as_ref()?)))
    }
}
