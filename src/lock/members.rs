//! Which servers vote, as the nodes have it, and what is told them by hand.

use std::sync::Arc;
use std::time::Duration;

use super::quorum::Quorum;
use crate::error::{Error, ErrorKind, NodeReport, Result};
use crate::node::redis::Endpoint;
use crate::node::{FaultKind, Operation, Outcome, Reply};
use crate::protocol::{Known, Said, Voters, census, met, roster, tell};
use crate::quorum::NodeSet;
use crate::quorum::roster::{Agreement, LASTS, Roster, agreement};
use crate::quorum::teaching::Records;

/// What one node says of the servers that vote.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeMembers {
    /// The node's address, without user and password.
    pub node: Arc<str>,
    /// Its server's run id, as rosters have it; `None` where there is no connection.
    pub run: Option<String>,
    /// Its roster, or what kept it from telling.
    pub roster: Result<Roster, String>,
    /// Whether it never forgot up to which ballots it granted, or was taught since. `None` where it
    /// did not tell.
    pub taught: Option<bool>,
}

/// What all nodes say of the servers that vote. See [`Quorum::members`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Members {
    /// Each node, in the order in which they were configured.
    pub nodes: Vec<NodeMembers>,
}

impl Members {
    /// Whether they have one list, but for those that were retired.
    #[must_use]
    pub fn agreement(&self) -> Agreement {
        let counts = |roster: &&Roster| roster.retired.is_none();
        let rosters: Vec<_> = self.nodes.iter().map(|node| node.roster.as_ref().ok().filter(counts)).collect();
        agreement(&rosters)
    }
}

/// A node was retired. See [`Quorum::retire`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Retired {
    /// The node.
    pub node: Arc<str>,
    /// For how long it has been retired; about zero where it was not before.
    pub since: Duration,
    /// When nothing rests on it any more: no lock that clients hold by its vote, where none has
    /// longer ones than they told there, or than this quorum's `max_ttl`.
    pub free_in: Duration,
    /// Whether no client is enrolled there.
    pub unused: bool,
}

/// The retirement of a node was taken back. See [`Quorum::reset`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reset {
    /// The node.
    pub node: Arc<str>,
    /// For how long it had been retired; `None` if it was not.
    pub was: Option<Duration>,
    /// Where its roster is that of another list, which keeps clients of this one out: for how long
    /// that lasts still, after the last of those clients has stopped.
    pub others: Option<Duration>,
}

impl Quorum {
    /// Asks all nodes which servers vote: their rosters, and whether each remembers its ballots.
    /// Changes nothing. Waits for nodes that are being connected to for `connect_timeout` at most,
    /// and for answers as long as for a round.
    ///
    /// # Errors
    /// `Config` outside of a Tokio runtime, `Closed` after a shutdown. Nodes that do not answer are
    /// part of the result.
    ///
    /// # Cancel safety
    /// Safe.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> quorumlock::Result<()> {
    /// let members = quorumlock::Quorum::in_memory(3)?.members().await?;
    /// assert!(members.nodes.iter().all(|node| node.roster.is_ok()));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn members(&self) -> Result<Members> {
        self.0.usable()?;
        let voters = self.all_met().await;
        let said = census(voters, self.0.rules.round_timeout).await;
        let of = |(node, (roster, record)): (usize, (Said<Roster>, Said<Known>))| NodeMembers {
            node: voters.nodes[node].label().clone(),
            run: voters.nodes[node].member().map(|member| member.run),
            roster: roster.map_err(|fault| fault.to_string()),
            taught: record.ok().map(|(_, taught)| taught),
        };
        Ok(Members { nodes: said.into_iter().enumerate().map(of).collect() })
    }

    /// Retires a node, by its address: from its next enrolment on, which is some 5 s later and 10 s
    /// at most, no client counts its votes. It renews and releases as ever, and its roster goes on,
    /// by which clients of other lists find out. Clients that have a quorum without it go on;
    /// others acquire nothing, and their errors name it.
    ///
    /// The node keeps that until [`reset`](Self::reset). One that forgets (no persistence) forgets
    /// this too. (Nodes in memory have no clients that enrol: it changes nothing there.)
    ///
    /// # Errors
    /// `Config` if the address is none of this quorum's, or outside of a Tokio runtime;
    /// `Unavailable` if the node does not confirm it: then it is retired or not; ask again.
    /// `Closed` after a shutdown.
    ///
    /// # Cancel safety
    /// The node has done it, or not; ask again.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> quorumlock::Result<()> {
    /// let quorum = quorumlock::Quorum::in_memory(3)?;
    /// quorum.retire("memory://2").await?;
    /// assert!(quorum.reset("memory://2").await?.was.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn retire(&self, node: &str) -> Result<Retired> {
        let (node, roster) = self.told(node, Operation::retire()).await?;
        let since = roster.retired.unwrap_or_default();
        // What an entry outlasts: see docs/protocol.md, "Why F and T are enough".
        // A node that has just restarted may not have been told of its clients' ttls again.
        let free_in = (roster.max_ttl.max(self.0.max_ttl()) + LASTS).saturating_sub(since);
        let node = self.0.leases.voters.nodes[node].label().clone();
        Ok(Retired { node, since, free_in, unused: roster.servers.is_empty() })
    }

    /// Takes the retirement of a node back, by its address. Its roster stays: without it, clients
    /// of another list might enter while those of this one still count its votes.
    ///
    /// # Errors
    /// As [`retire`](Self::retire).
    ///
    /// # Cancel safety
    /// The node has done it, or not; ask again.
    pub async fn reset(&self, node: &str) -> Result<Reset> {
        let (node, roster) = self.told(node, Operation::reset()).await?;
        let voters = self.all_met().await;
        let others = is_of_others(voters, &roster).then(|| roster.binds());
        Ok(Reset { node: voters.nodes[node].label().clone(), was: roster.retired, others })
    }

    /// Teaches all nodes of `pupils` the highest ballot that the nodes of this quorum know, so that
    /// tokens go on growing where a quorum of new nodes takes the place of this one. Returns that
    /// ballot: no token of the new nodes is up to it. **All clients of this one must have
    /// stopped**: while some are enrolled, nothing is written.
    ///
    /// # Errors
    /// `Unavailable` if clients of this quorum's nodes are enrolled, or if fewer than
    /// N - quorum + 1 of this quorum's nodes tell that they never forgot; then nothing was written, and the
    /// error says of each what it knows. Also if some pupil does not confirm it; the others know by
    /// then, and to ask again does no harm. `Config` if a server is in both quorums, or outside of
    /// a Tokio runtime; `Closed` after a shutdown of either.
    ///
    /// # Cancel safety
    /// Each pupil knows, or not; ask again.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example() -> quorumlock::Result<()> {
    /// use quorumlock::Quorum;
    ///
    /// let old = Quorum::builder().nodes(["redis://a", "redis://b", "redis://c"]).onlooker().connect().await?;
    /// let new = Quorum::builder().node("redis://d").onlooker().open()?;
    /// println!("tokens go on above {}", old.teach(&new).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn teach(&self, pupils: &Self) -> Result<u64> {
        self.0.usable()?;
        pupils.0.usable()?;
        let (old, new) = tokio::join!(self.all_met(), pupils.all_met());
        apart(old, new)?;
        let patience = self.0.rules.round_timeout;
        let (rosters, known): (Vec<_>, Vec<_>) = census(old, patience).await.into_iter().unzip();
        stopped(old, &rosters)?;
        let high = highest(old, &known)?;
        let lesson = |node: usize| new.nodes[node].lesson().map_or(0, |lesson| lesson.number);
        let taught =
            (0..new.nodes.len()).map(|node| tell(new, node, Operation::teach_by_hand(high, lesson(node)), patience));
        let taught = futures::future::join_all(taught).await;
        let records = (0..new.nodes.len()).map(|node| tell(new, node, Operation::record(), patience));
        let records = futures::future::join_all(records).await;
        let knows = |reply: &Reply| matches!(reply, Ok(Outcome::Record { floor, .. }) if *floor >= high);
        if taught.iter().all(Result::is_ok) && records.iter().all(knows) {
            return Ok(high);
        }
        let said = |(told, record): (Reply, Reply)| match (told, record) {
            (Ok(_), Ok(Outcome::Record { floor, .. })) if floor >= high => "it knows".to_owned(),
            (Ok(_), Ok(Outcome::Record { floor, .. })) => {
                format!("it grants none up to {floor} only, of {high}: its clock is behind those of the old nodes")
            }
            (Err(fault), _) | (_, Err(fault)) => fault.to_string(),
            (Ok(_), Ok(told)) => told.to_string(),
        };
        let error = Error::new(ErrorKind::Unavailable, "not all new nodes were taught; mend them and ask again");
        Err(error.with_nodes(reports(new, taught.into_iter().zip(records).map(said))))
    }

    /// One node was told something, and has answered with its roster.
    async fn told(&self, address: &str, operation: Operation) -> Result<(usize, Roster)> {
        self.0.usable()?;
        let voters = &self.0.leases.voters;
        let node = numbered(voters, address)?;
        met(voters, NodeSet::of(node), self.0.connect_timeout()).await;
        let reply = tell(voters, node, operation, self.0.rules.round_timeout).await;
        match roster(reply) {
            Ok(roster) => Ok((node, roster)),
            Err(fault) => {
                let report = NodeReport { node: voters.nodes[node].label().clone(), said: fault.to_string() };
                let message = match fault.kind() {
                    FaultKind::Rejected | FaultKind::Busy => "the node refused it",
                    _ => "the node did not confirm it; ask again once it answers",
                };
                Err(Error::new(ErrorKind::Unavailable, message).with_nodes(vec![report]))
            }
        }
    }

    async fn all_met(&self) -> &Arc<Voters> {
        let voters = &self.0.leases.voters;
        met(voters, voters.everyone(), self.0.connect_timeout()).await;
        voters
    }
}

/// Whether it is certainly the roster of another list. A server that cannot be reached may be one
/// of those in it.
fn is_of_others(voters: &Voters, roster: &Roster) -> bool {
    let known: Vec<_> = voters.nodes.iter().filter_map(|node| node.member()).map(|member| member.run).collect();
    let strangers = roster.servers.iter().filter(|run| !known.contains(run)).count();
    let differs = (roster.nodes, roster.protocol) != (voters.size.nodes(), voters.members.protocol);
    !roster.servers.is_empty() && (differs || strangers > voters.nodes.len() - known.len())
}

/// Which of the nodes has this address.
fn numbered(voters: &Voters, address: &str) -> Result<usize> {
    let labels = || voters.nodes.iter().map(|node| &**node.label());
    if let Some(node) = labels().position(|label| label == address) {
        return Ok(node);
    }
    let label = Endpoint::parse(address)?.to_string();
    labels().position(|known| known == label).ok_or_else(|| {
        let known: Vec<_> = labels().collect();
        Error::config(format!("{label} is none of these nodes: {}; name one of them", known.join(", ")))
    })
}

/// No server may be in both.
fn apart(old: &Voters, new: &Voters) -> Result<()> {
    for pupil in &new.nodes {
        let same = |node: &&Arc<dyn crate::node::Node>| {
            let (run, other) = (node.member(), pupil.member());
            node.label() == pupil.label() || run.is_some_and(|run| other.is_some_and(|other| other.run == run.run))
        };
        if let Some(node) = old.nodes.iter().find(same) {
            let (pupil, node) = (pupil.label(), node.label());
            return Err(Error::config(format!(
                "{pupil} is the same server as {node}, which is one of the old nodes; it knows already"
            )));
        }
    }
    Ok(())
}

/// While clients of the old nodes are enrolled, they may deal more tokens.
fn stopped(old: &Arc<Voters>, rosters: &[Said<Roster>]) -> Result<()> {
    let enrolled = rosters.iter().flatten().filter(|roster| !roster.servers.is_empty());
    let Some(lasts) = enrolled.map(|roster| roster.lasts).max() else { return Ok(()) };
    let said = |roster: &Said<Roster>| match roster {
        Ok(roster) if roster.servers.is_empty() => "no client is enrolled".to_owned(),
        Ok(roster) => format!("clients are enrolled for {:.0?} more", roster.lasts),
        Err(fault) => fault.to_string(),
    };
    let message = format!(
        "clients of the old nodes are enrolled, and may deal more tokens; nothing was written. Stop them, and ask again {lasts:.0?} after \
         the last has stopped"
    );
    Err(Error::new(ErrorKind::Unavailable, message).with_nodes(reports(old, rosters.iter().map(said))))
}

/// The highest ballot that enough of the old nodes know of.
fn highest(old: &Arc<Voters>, known: &[Said<Known>]) -> Result<u64> {
    let mut records = Records::new(old.size);
    known.iter().enumerate().for_each(|(node, record)| records.count(node, record.as_ref().ok().copied()));
    records.known().ok_or_else(|| {
        let said = |record: &Said<Known>| match record {
            Ok((_, true)) => "it knows".to_owned(),
            Ok((_, false)) => "it restarted, and was not taught since".to_owned(),
            Err(fault) => fault.to_string(),
        };
        let message = format!(
            "{} of the {} old nodes must know which tokens were dealt; nothing was written. Start those that are down; one that \
             restarted is taught by the others while a client is connected",
            old.size.blocking(),
            old.size.nodes()
        );
        Error::new(ErrorKind::Unavailable, message).with_nodes(reports(old, known.iter().map(said)))
    })
}

fn reports(voters: &Voters, said: impl Iterator<Item = String>) -> Vec<NodeReport> {
    let report = |(node, said): (&Arc<dyn crate::node::Node>, String)| NodeReport { node: node.label().clone(), said };
    voters.nodes.iter().zip(said).map(report).collect()
}
