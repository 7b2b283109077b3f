//! `Quorum::init`: lets servers that never served a client vote without waiting for `max_ttl`.

use std::sync::Arc;

use super::members::{look, record};
use super::quorum::Quorum;
use crate::error::{Error, ErrorKind, NodeCause, NodeReport, Result};
use crate::node::operation::{Hello, Intent, OldAtOnce};
use crate::node::{Fault, Operation, Reply};
use crate::protocol::{Pages, Voters, answers};
use crate::rules::list::Record;

impl Quorum {
    /// Declares that the servers of all nodes are new: they never served a client of these locks,
    /// and replaced no server that served such a client. After this call, they vote without waiting
    /// for [`max_ttl`](crate::QuorumBuilder::max_ttl).
    ///
    /// Call `init` once, by hand, before the first client connects. Use an onlooker
    /// ([`QuorumBuilder::onlooker`](crate::QuorumBuilder::onlooker) and
    /// [`open`](crate::QuorumBuilder::open)): any other quorum makes records on the nodes when it
    /// connects, and `init` fails if there are records. **Never put this call into a script that
    /// may run twice**: in the second run, servers that lost their data would grant locks that are
    /// still held.
    ///
    /// Before the call writes anything, it checks that every node answers, and has no record and no
    /// key with the prefix.
    ///
    /// # Errors
    /// `Unavailable` if a node does not answer, has a record or has keys: nothing was written.
    /// `Unavailable` also if a node did not confirm its new record: the nodes that confirmed are
    /// ready, and the others vote after `max_ttl`. (The message says which of the two happened.)
    /// `Config` outside of a Tokio runtime, `Closed` after a shutdown.
    ///
    /// # Cancel safety
    /// If the call is cancelled, some nodes may be ready. The others vote after `max_ttl`.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example() -> quorumlock::Result<()> {
    /// let nodes = ["redis://eu:6379", "redis://us:6379", "redis://asia:6379"];
    /// quorumlock::Quorum::builder().nodes(nodes).onlooker().open()?.init().await
    /// # }
    /// ```
    pub async fn init(&self) -> Result<()> {
        self.0.usable()?;
        let voters = self.all_met().await;
        let patience = self.0.rules.round_timeout;
        let looked = answers(voters, patience, |_| look(voters)).await;
        all(voters, looked, "nothing was written: all nodes must answer, and be empty", is_unused)?;
        self.have_no_keys(voters).await?;
        let made = answers(voters, patience, |node| made(voters, node)).await;
        all(voters, made, "some nodes are not ready: they vote only after max_ttl", is_made)
    }

    /// Returns an error unless every node reports that it has no key of these locks.
    async fn have_no_keys(&self, voters: &Arc<Voters>) -> Result<()> {
        let mut pages = Pages::begin(voters.nodes.len());
        while let Some(turned) = pages.turn(voters, self.0.rules.round_timeout).await {
            if let Some(name) = turned.names.first() {
                return Err(Error::new(
                    ErrorKind::Unavailable,
                    format!("nothing was written: a node has keys of these locks, such as {name:?}, so it is not new"),
                ));
            }
            pages.turned(turned);
        }
        match pages.unread() {
            unread if unread.is_empty() => Ok(()),
            unread => {
                let message = "nothing was written: some nodes did not report whether they have keys of these locks";
                Err(Error::new(ErrorKind::Unavailable, message).with_nodes(unread))
            }
        }
    }
}

/// A `hello` that puts the list in force, and makes a record with which the node votes at once.
fn made(voters: &Voters, node: usize) -> Operation {
    let process = voters.nodes[node].known().map_or_else(|| "".into(), |known| known.process);
    let new = format!("{:016x}", voters.host.random()).into();
    let (list, old, sync) = (voters.membership.list.clone(), Some(OldAtOnce::Init), Some(0));
    Operation::Hello(Hello { intent: Intent::Put, new, process, list, old, knew: None, sync, seen: Vec::new() })
}

/// Returns an error with a report for each node, unless `fits` accepts all replies.
fn all(
    voters: &Voters,
    replies: Vec<Reply>,
    message: &str,
    fits: impl Fn(Option<&Record>) -> Result<&'static str, &'static str>,
) -> Result<()> {
    let records: Vec<_> = replies.into_iter().map(record).collect();
    let fit = |record: &Option<Record>| fits(record.as_ref()).is_ok();
    if records.iter().all(|record| record.as_ref().is_ok_and(fit)) {
        return Ok(());
    }
    let report = |(node, record): (usize, &Result<Option<Record>, Fault>)| {
        let label = voters.nodes[node].label();
        match record.as_ref().map(|record| fits(record.as_ref())) {
            Ok(Ok(said)) => NodeReport::new(label, NodeCause::Agreed, said),
            Ok(Err(said)) => NodeReport::new(label, NodeCause::Rejected, said),
            Err(fault) => NodeReport::of_fault(label, fault),
        }
    };
    let reports = records.iter().enumerate().map(report).collect();
    Err(Error::new(ErrorKind::Unavailable, message).with_nodes(reports))
}

const fn is_unused(record: Option<&Record>) -> Result<&'static str, &'static str> {
    match record {
        None => Ok("it has no record"),
        Some(_) => Err("it has a record: clients have used this node, or a client has connected just now"),
    }
}

fn is_made(record: Option<&Record>) -> Result<&'static str, &'static str> {
    match record {
        Some(Record { word: Some(OldAtOnce::Init), .. }) => Ok("it votes"),
        Some(_) => Err("a client has connected meanwhile"),
        None => Err("it made no record"),
    }
}

#[cfg(test)]
mod tests {
    use crate::Quorum;

    #[tokio::test]
    async fn init_of_nodes_that_have_records_writes_nothing() {
        let refused = Quorum::in_memory(3).unwrap().init().await.unwrap_err();
        assert!(refused.is_unavailable() && refused.to_string().contains("it has a record"), "{refused}");
    }
}
