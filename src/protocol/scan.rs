//! Lists the names that nodes store, node by node and page by page.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;

use super::answers::answer;
use super::voters::Voters;
use crate::error::{NodeCause, NodeReport};
use crate::node::{Name, Outcome, Reply, Scan};

/// How many keys a node examines for one page. This takes about a millisecond.
const KEYS: u32 = 1_000;

/// How far the scan of one node has come.
#[derive(Debug)]
enum Place {
    At(Arc<str>),
    /// The node has returned all names, or the scan failed with this report.
    Ended(Option<NodeReport>),
}

/// One page from each node whose scan has not ended.
#[derive(Debug, Default)]
pub(crate) struct Turned {
    /// The names on these pages, held or not.
    pub(crate) names: BTreeSet<Name>,
    places: Vec<(usize, Place)>,
}

/// The scan of all nodes.
#[derive(Debug)]
pub(crate) struct Pages {
    nodes: Vec<Place>,
    /// About how many keys the nodes have examined.
    pub(crate) looked_at: u64,
}

impl Pages {
    /// Begins with the first page of each node.
    pub(crate) fn begin(nodes: usize) -> Self {
        Self { nodes: (0..nodes).map(|_| Place::At(Scan::FIRST.into())).collect(), looked_at: 0 }
    }

    /// The next page of each node whose scan has not ended; `None` if all scans have ended.
    pub(crate) async fn turn(&self, voters: &Arc<Voters>, patience: Duration) -> Option<Turned> {
        let open = self.nodes.iter().enumerate().filter_map(|(node, place)| match place {
            Place::At(from) => Some((node, Scan { from: from.clone(), keys: KEYS })),
            Place::Ended(_) => None,
        });
        let asked = open.map(|(node, scan)| async move { (node, answer(voters, node, scan.into(), patience).await) });
        let replies = join_all(asked).await;
        let mut turned = Turned::default();
        for (node, reply) in &replies {
            let (place, names) = read(voters, *node, reply);
            turned.places.push((*node, place));
            turned.names.extend(names);
        }
        (!replies.is_empty()).then_some(turned)
    }

    /// Records that these pages were read.
    pub(crate) fn turned(&mut self, turned: Turned) {
        for (node, place) in turned.places {
            self.nodes[node] = place;
            self.looked_at += u64::from(KEYS);
        }
    }

    /// The nodes whose scan failed, and why.
    pub(crate) fn unread(&self) -> Vec<NodeReport> {
        let failed = |place: &Place| match place {
            Place::Ended(failed) => failed.clone(),
            Place::At(_) => None,
        };
        self.nodes.iter().filter_map(failed).collect()
    }
}

/// Reads one page of a node: where the node's scan goes on, and the names on the page.
fn read(voters: &Voters, node: usize, reply: &Reply) -> (Place, Vec<Name>) {
    let label = voters.nodes[node].label();
    match reply {
        Ok(Outcome::Scanned { next, names }) if next == Scan::FIRST => (Place::Ended(None), names.clone()),
        Ok(Outcome::Scanned { next, names }) => (Place::At(next.as_str().into()), names.clone()),
        Ok(_) => {
            let report = NodeReport::new(label, NodeCause::Rejected, "the reply belongs to another operation");
            (Place::Ended(Some(report)), Vec::new())
        }
        Err(_) => (Place::Ended(Some(NodeReport::of_reply(label, Some(reply)))), Vec::new()),
    }
}
