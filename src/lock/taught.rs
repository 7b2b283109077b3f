//! Teaching new nodes by hand which tokens the old ones have dealt.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;

use super::quorum::Quorum;
use crate::error::{Error, ErrorKind, NodeCause, NodeReport, Result};
use crate::node::{Node, Operation, Outcome, Reply};
use crate::protocol::{Known, Said, Voters, census, tell};
use crate::rules::roster::Roster;
use crate::rules::teaching::Records;

impl Quorum {
    /// Teaches all nodes of `pupils` the highest ballot that the nodes of this quorum know, so that
    /// tokens go on growing where a quorum of new nodes takes the place of this one. Returns that
    /// ballot: no token of the new nodes is up to it. **All clients of this one must have
    /// stopped**: while some are enrolled, nothing is written.
    ///
    /// # Errors
    /// `Unavailable` if clients of this quorum's nodes are enrolled, or if fewer than N - quorum +
    /// 1 of this quorum's nodes tell that they never forgot; then nothing was written, and the
    /// error says of each what it knows. Also if they know of no token, and if some pupil does not
    /// confirm it; the others know by then, and to ask again does no harm. `Config` if a server is
    /// in both quorums, or outside of a Tokio runtime; `Closed` after a shutdown of either.
    ///
    /// # Cancel safety
    /// Each pupil knows, or not; ask again.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example() -> quorumlock::Result<()> {
    /// use quorumlock::Quorum;
    ///
    /// let old = ["redis://a", "redis://b", "redis://c"];
    /// let old = Quorum::builder().nodes(old).onlooker().connect().await?;
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
        let high = dealt(old, patience).await?;
        let answers = taught(new, high, patience).await;
        all_know(new, high, &answers)
    }
}

/// No server may be in both.
fn apart(old: &Voters, new: &Voters) -> Result<()> {
    for pupil in &new.nodes {
        let same = |node: &&Arc<dyn Node>| {
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

/// The highest ballot that the old nodes have dealt, and deal no more.
async fn dealt(old: &Arc<Voters>, patience: Duration) -> Result<u64> {
    let (rosters, known): (Vec<_>, Vec<_>) = census(old, patience).await.into_iter().unzip();
    stopped(old, &rosters)?;
    // With another key prefix they were never taught.
    let nothing = known.iter().all(|known| matches!(known, Ok((0, _))));
    match highest(old, &known) {
        Ok(high) if high > 0 => Ok(high),
        Err(error) if !nothing => Err(error),
        _ => Err(Error::new(
            ErrorKind::Unavailable,
            "the old nodes know of no token, so there is nothing to teach; is the key prefix right?",
        )),
    }
}

/// While clients of the old nodes are enrolled, they may deal more tokens.
fn stopped(old: &Arc<Voters>, rosters: &[Said<Roster>]) -> Result<()> {
    let enrolled = rosters.iter().flatten().filter(|roster| !roster.servers.is_empty());
    // While they run, what is left of an entry is less than what is written next.
    let Some(lasts) = enrolled.map(Roster::binds).max() else { return Ok(()) };
    let said = |node: &Arc<str>, roster: &Said<Roster>| match roster {
        Ok(roster) if roster.servers.is_empty() => NodeReport::new(node, NodeCause::Agreed, "no client is enrolled"),
        Ok(roster) => {
            NodeReport::new(node, NodeCause::Held, format!("clients are enrolled for {:.0?} more", roster.lasts))
        }
        Err(fault) => NodeReport::of_fault(node, fault),
    };
    let message = format!(
        "clients of the old nodes are enrolled, and may deal more tokens; nothing was written. Stop them, and ask \
         again {lasts:.0?} after the last has stopped"
    );
    Err(Error::new(ErrorKind::Unavailable, message).with_nodes(reports(old, rosters, said)))
}

/// The highest ballot that enough of the old nodes know of.
fn highest(old: &Arc<Voters>, known: &[Said<Known>]) -> Result<u64> {
    let mut records = Records::new(old.size);
    known.iter().enumerate().for_each(|(node, record)| records.count(node, record.as_ref().ok().copied()));
    records.known().ok_or_else(|| {
        let said = |node: &Arc<str>, record: &Said<Known>| match record {
            Ok((_, true)) => NodeReport::new(node, NodeCause::Agreed, "it knows"),
            Ok((_, false)) => NodeReport::new(node, NodeCause::Outdated, "it restarted, and was not taught since"),
            Err(fault) => NodeReport::of_fault(node, fault),
        };
        let message = format!(
            "{} of the {} old nodes must know which tokens were dealt; nothing was written. Start those that are \
             down; one that restarted is taught by the others while a client of that list runs, such as `quorumlock run`",
            old.size.blocking(),
            old.size.nodes()
        );
        Error::new(ErrorKind::Unavailable, message).with_nodes(reports(old, known, said))
    })
}

/// What one new node answered: to the lesson, and then to the question what it knows.
struct Answers {
    told: Reply,
    record: Reply,
}

/// Teaches all new nodes, and then looks what they know.
async fn taught(new: &Arc<Voters>, high: u64, patience: Duration) -> Vec<Answers> {
    let lesson = |node: usize| new.nodes[node].lesson().map_or(0, |lesson| lesson.number);
    let told = each(new, patience, |node| Operation::teach_by_hand(high, lesson(node))).await;
    let records = each(new, patience, |_| Operation::Record).await;
    told.into_iter().zip(records).map(|(told, record)| Answers { told, record }).collect()
}

/// What each node answers to its operation.
async fn each(voters: &Arc<Voters>, patience: Duration, operation: impl Fn(usize) -> Operation) -> Vec<Reply> {
    join_all((0..voters.nodes.len()).map(|node| tell(voters, node, operation(node), patience))).await
}

fn all_know(new: &Arc<Voters>, high: u64, answers: &[Answers]) -> Result<u64> {
    if answers.iter().all(|answers| answers.know(high)) {
        return Ok(high);
    }
    let error = Error::new(ErrorKind::Unavailable, "not all new nodes were taught; mend them and ask again");
    Err(error.with_nodes(reports(new, answers, |node, answers| answers.report(node, high))))
}

impl Answers {
    fn know(&self, high: u64) -> bool {
        self.told.is_ok() && matches!(self.record, Ok(Outcome::Record { floor, .. }) if floor >= high)
    }

    fn report(&self, node: &Arc<str>, high: u64) -> NodeReport {
        let (cause, said) = match (&self.told, &self.record) {
            _ if self.know(high) => (NodeCause::Agreed, "it knows".to_owned()),
            (Ok(_), Ok(Outcome::Record { floor, .. })) => {
                let why = "its clock is behind those of the old nodes";
                (NodeCause::Outdated, format!("it grants none up to {floor} only, of {high}: {why}"))
            }
            (Err(fault), _) | (_, Err(fault)) => return NodeReport::of_fault(node, fault),
            (Ok(_), told) => return NodeReport::of_reply(node, Some(told)),
        };
        NodeReport::new(node, cause, said)
    }
}

fn reports<T>(voters: &Voters, said: &[T], report: impl Fn(&Arc<str>, &T) -> NodeReport) -> Vec<NodeReport> {
    voters.nodes.iter().zip(said).map(|(node, said)| report(node.label(), said)).collect()
}
