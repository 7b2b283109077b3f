//! Collects the nodes' answers, one at a time.

use std::time::{Duration, Instant};

use quorumlock::{Inspected, Inspection, Quorum};

use super::convert::{self, Pace, Reports};
use super::seen::Seen;
use crate::raw_connection::rights::Asked;
use crate::settings::Settings;
use crate::status::own_list;
use crate::status::verdict::Verdict;

/// The latest answer of each node.
pub(super) struct Collected {
    quorum: Quorum,
    inspected: Option<Inspected>,
    /// Answers of single nodes that came before `inspected` was set.
    early: Vec<Option<Result<Inspection, String>>>,
    paces: Vec<Pace>,
    rights: Vec<Asked>,
    settings: Settings,
    named: bool,
    began: Instant,
}

impl Collected {
    pub(super) fn new(quorum: Quorum, settings: Settings, named: bool) -> Self {
        let nodes = quorum.nodes().len();
        let (early, paces) = (vec![None; nodes], vec![Pace::default(); nodes]);
        Self { quorum, inspected: None, early, paces, rights: Vec::new(), settings, named, began: Instant::now() }
    }

    pub(super) fn asked(&mut self, node: usize) {
        self.paces[node].asked = Some(Instant::now());
    }

    pub(super) fn told(&mut self, node: usize, said: Result<Inspection, String>, took: Duration) {
        self.paces[node] = self.paces[node].ended(said.is_ok(), took, Instant::now());
        match &mut self.inspected {
            Some(inspected) => inspected.nodes[node].1 = said,
            None => self.early[node] = Some(said),
        }
    }

    pub(super) fn all(&mut self, mut inspected: Inspected) {
        for (entry, early) in inspected.nodes.iter_mut().zip(&mut self.early) {
            if let Some(early) = early.take() {
                entry.1 = early;
            }
        }
        self.inspected = Some(inspected);
    }

    pub(super) fn rights(&mut self, rights: Vec<Asked>) {
        self.rights = rights;
    }

    /// The nodes and the name, by the latest answers.
    pub(super) fn seen(&self) -> Seen {
        let nodes = self.quorum.nodes();
        let Some(inspected) = &self.inspected else { return convert::unasked(&nodes) };
        let list = own_list(&self.settings, &nodes);
        let verdict = Verdict::new(&nodes, inspected, &list).with_rights(self.rights.clone());
        // Clients report the id of a lost record for a while, and nodes store this id for a while.
        // A restart while this command runs always counts.
        let lately = self.began.elapsed().max(list.spare() + list.overlap());
        convert::seen(&Reports { verdict, nodes: &nodes, inspected, paces: &self.paces, lately }, self.named)
    }
}
