//! The holders of several names, for a caller that was refused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::round::{Count, Round};
use super::voters::Voters;
use crate::error::Conflict;
use crate::host::before;
use crate::node::{Inspection, Name, Operation, Outcome, Reply};

/// Counts replies until a quorum of nodes has replied without an error, or all nodes have replied.
struct Told {
    open: usize,
    missing: u32,
}

impl Count for Told {
    type Verdict = ();

    fn count(&mut self, _: usize, reply: &Reply, _: u64) {
        self.open -= 1;
        self.missing = self.missing.saturating_sub(u32::from(reply.is_ok()));
    }

    fn verdict(&self) -> Option<()> {
        (self.open == 0 || self.missing == 0).then_some(())
    }
}

/// The holder of each of `names`: the owner that most replies name. Waits for the replies of a
/// quorum, for `patience` at most. Leaves out names for which no reply names a holder.
pub(crate) async fn holders(voters: &Arc<Voters>, names: &Arc<[Name]>, patience: Duration) -> Vec<Conflict> {
    let said = said(voters, names, patience, |_| true).await;
    let of = |(at, name)| holder(name, said.iter().filter_map(|said| said.get(at)));
    names.iter().enumerate().filter_map(of).collect()
}

/// Collects the nodes' reports about `names`, until a quorum has replied and `enough` returns true.
/// Ends earlier when all nodes have replied, or `patience` is over.
pub(super) async fn said(
    voters: &Arc<Voters>,
    names: &Arc<[Name]>,
    patience: Duration,
    enough: impl Fn(&[Vec<Inspection>]) -> bool,
) -> Vec<Vec<Inspection>> {
    let told = Told { open: voters.nodes.len(), missing: voters.size.quorum() };
    let round = Round::new(voters, 0, told, None);
    let until = voters.host.now() + patience;
    voters.ask(voters.everyone(), &Arc::new(Operation::Inspect(names.clone())), &round);
    let said = || -> Vec<_> {
        round.replies(|replies| replies.iter().filter_map(entries).map(<[Inspection]>::to_vec).collect())
    };
    let told = async {
        round.verdict().await;
        while !enough(&said()) && round.look(|told| told.open > 0) {
            round.changed().await;
        }
    };
    let _ = before(&voters.host, until, told).await;
    said()
}

fn entries(reply: &Option<Reply>) -> Option<&[Inspection]> {
    match reply {
        Some(Ok(Outcome::Inspected(entries))) => Some(entries),
        _ => None,
    }
}

/// The holder that most of the reports name, and its longest remaining time in these reports.
fn holder<'a>(name: &Name, said: impl Iterator<Item = &'a Inspection>) -> Option<Conflict> {
    let mut named: BTreeMap<&str, (u32, Option<Duration>)> = BTreeMap::new();
    for said in said {
        if let Some(holder) = &said.holder {
            let (times, left) = named.entry(holder).or_default();
            *times += 1;
            *left = (*left).max(said.remaining);
        }
    }
    let (holder, (_, left)) = named.into_iter().max_by_key(|(_, (times, _))| *times)?;
    Some(Conflict { name: name.text().clone(), holder: holder.to_owned(), left })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_whom_most_nodes_name() {
        let name = Name::new("", "it").unwrap();
        let held = |who: &str, left| Inspection::held(who.to_owned(), 1, Some(Duration::from_secs(left)), 1);
        let said = [held("one", 9), Inspection::free(3), held("other", 5), held("other", 7)];
        let found = holder(&name, said.iter()).unwrap();
        assert_eq!((&*found.name, &*found.holder, found.left), ("it", "other", Some(Duration::from_secs(7))));
        assert!(holder(&name, said[1..2].iter()).is_none());
    }
}
