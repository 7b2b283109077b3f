//! What the records of all nodes show together: which nodes' votes count, and which records clients
//! saw.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::node::{Node, Other, Twins};
use super::{KnownNodes, MembershipState};
use crate::rules::list::{Record, Sighting};
use crate::rules::tick::Tick;

impl KnownNodes {
    /// Whether a node's votes count. While another list with the name of this client's list is in
    /// force anywhere, no node's votes on claims count. Otherwise, this client could acquire a lock
    /// that a client of the other list holds.
    pub(super) fn standing(&self, number: usize, now: Tick) -> MembershipState {
        let node = &self.nodes[number];
        let Some(known) = node.answer() else { return MembershipState::Unknown };
        if let Some(Twins { why, .. }) = &node.twins {
            return MembershipState::Twins { why: why.clone() };
        }
        if self.is_unclear(number, now) {
            return MembershipState::Unclear;
        }
        if let Some(other) = node.other(self.round_timeout, now) {
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

    /// When another list lapses that this client lets go first: both lists have one name, and each is
    /// in force on some node. So the clients of both may keep each other out.
    pub(super) fn rival(&self, now: Tick) -> Option<Tick> {
        let others = self.nodes.iter().filter_map(|node| node.other(self.round_timeout, now));
        let lapses = others.filter(|other| other.same_name && other.goes_first).map(|other| other.until).max()?;
        self.nodes.iter().any(|node| node.showed(&self.list)).then_some(lapses)
    }

    /// Another list, with the name of this client's list, that is in force on some node; and a text
    /// that names this node.
    pub(super) fn other_list(&self, now: Tick) -> Option<(String, &Other)> {
        let mut others = self.nodes.iter().filter_map(|node| Some((node, node.other(self.round_timeout, now)?)));
        let (node, other) = others.find(|(_, other)| other.same_name)?;
        Some((format!("another list is in force on {}", node.name), other))
    }

    /// Whether clients of this list reach two servers by this node's name. A finding ends when, for
    /// `List::spare`, no other id was reported, although this client would have read reports. So it
    /// does not end if several clients were suspended, or cut off, at the same time.
    pub(super) fn twins(&self, number: usize, now: Tick) -> Option<Twins> {
        let (node, (mut ids, are_certain)) = (&self.nodes[number], self.other_ids(number, now));
        if ids.is_empty() {
            let known = node.twins.clone()?;
            let seen = if self.reads_reports(number, now) { known.seen } else { now };
            return Some(Twins { seen, ..known }).filter(|_| now < seen + self.list.spare());
        }
        // Once found, the other ids are not unclear again: clients report them again and again.
        if !are_certain && node.twins.is_none() {
            return None;
        }
        ids.extend(node.record().map(|record| &*record.id));
        let (name, ids) = (&node.name, ids.into_iter().collect::<Vec<_>>().join(", "));
        let why = format!(
            "clients meet two servers behind the name {name} (records {ids}): wait for max_ttl, then stop the wrong \
             server, or correct the address, so that the name leads all clients to one server"
        );
        Some(Twins { seen: now, why: why.into() })
    }

    /// Whether this client reads what others report of a node: the node and a quorum have answered
    /// lately, and so has each other node that is connected and does not refuse hellos.
    fn reads_reports(&self, number: usize, now: Tick) -> bool {
        let is_fresh = |node: &Node| node.fresh(self.fresh(), now).is_some();
        let is_left_out = |node: &Node| node.answer().is_none() || node.fails();
        let answered = self.nodes.iter().filter(|node| is_fresh(node)).count();
        is_fresh(&self.nodes[number])
            && answered >= self.size.quorum() as usize
            && self.nodes.iter().all(|node| is_fresh(node) || is_left_out(node))
    }

    /// The ids that clients of this list report for this node, and that differ from the id of this
    /// node's record. Leaves out reports that came less than `List::overlap` after this record got
    /// its id: they may show a former id.
    ///
    /// Also returns whether the ids certainly belong to another server. This is so if a report came
    /// at least a `pause` before the hello that read this record. A later report may show a newer
    /// id, which this client has not read yet.
    fn other_ids(&self, number: usize, now: Tick) -> (BTreeSet<&str>, bool) {
        let node = &self.nodes[number];
        let (mut ids, mut are_certain) = (BTreeSet::new(), false);
        let Some((own, asked)) = node.record().zip(node.answer().map(|known| known.at)) else { return (ids, false) };
        for (at, record) in self.fresh_records(now).filter(|(at, _)| at.has(&self.list, now)) {
            let told = at.answer().map(|known| known.at).unwrap_or_default();
            let is_late = |seen: &Sighting| told + own.age > asked + seen.age + self.list.overlap();
            let is_other = |seen: &&Sighting| seen.node == node.name && seen.id != own.id && is_late(seen);
            for seen in record.seen.iter().filter(is_other) {
                ids.insert(&*seen.id);
                are_certain |= told + self.pause() <= asked + seen.age;
            }
        }
        (ids, are_certain)
    }

    /// Whether a hello must read this node's record again, because a report of another id is too
    /// new.
    pub(super) fn is_unclear(&self, number: usize, now: Tick) -> bool {
        let (other_ids, are_certain) = self.other_ids(number, now);
        !other_ids.is_empty() && !are_certain && self.nodes[number].twins.is_none()
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
