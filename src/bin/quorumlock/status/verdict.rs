//! Concludes from the nodes' votes whether a lock can be acquired, and says so in a sentence.

use std::time::Duration;

use quorumlock::{Inspected, List, Members, NodeState, NodeStatus};

use super::FAR;
use super::idle::is_unused;
use super::vote::{Node, Vote};
use crate::duration::{exact, left};
use crate::failure::{UNAVAILABLE, USAGE};
use crate::lists::{Lists, Whose};
use crate::output::voting;
use crate::raw_connection::rights::Asked;
use crate::words::counted;

const SILENT: &str = "no answer so far, so it hangs or is far away";

/// The text about a node that has not answered, although the command waited for it. `told` is the
/// user's limit for this wait, if the user set one.
fn silence(told: Option<Duration>) -> String {
    match told {
        None => format!("{SILENT}; use --connect-timeout {}s to find out which", FAR.as_secs()),
        Some(told) if told < FAR => format!(
            "no answer within {}, so it hangs or is far away; use a longer --connect-timeout to find out which",
            exact(told)
        ),
        Some(told) => format!("no answer within {}, so it hangs", exact(told)),
    }
}

/// Writes the text of [`silence`] as the reason for each node that has not answered yet. The
/// library's own text only says that the client is connecting.
pub(crate) fn silent(members: &mut Members, nodes: &[NodeStatus], told: Option<Duration>) {
    for (member, node) in members.nodes.iter_mut().zip(nodes) {
        if let (Err(why), NodeState::Connecting, None) = (&mut member.record, &node.state, &node.run) {
            *why = silence(told);
        }
    }
}

/// The nodes and their votes.
pub(crate) struct Verdict<'a> {
    nodes: Vec<Node<'a>>,
    votes: Vec<Vote>,
    /// The text about a list that keeps this client out, if there is one. Then no vote counts.
    kept_out: Option<String>,
    list: &'a List,
    /// The text about a node that has not answered yet.
    silence: String,
}

impl<'a> Verdict<'a> {
    /// `list` is the list of nodes in this command's settings.
    pub(crate) fn new(nodes: &'a [NodeStatus], inspected: &'a Inspected, list: &'a List) -> Self {
        let lists = Lists::of_nodes(list, nodes);
        let node = |(index, status): (usize, &'a NodeStatus)| Node {
            status,
            said: &inspected.nodes[index].1,
            asked: Ok(None),
            met: !lists.servers(index).is_empty(),
            list,
        };
        let nodes: Vec<_> = nodes.iter().enumerate().map(node).collect();
        let votes = nodes.iter().map(Node::vote).collect();
        Self { nodes, votes, kept_out: lists.conflict(Whose::Rival), list, silence: SILENT.to_owned() }
    }

    /// Adds each node's reply about the user's rights and about writes. If no node was asked,
    /// `rights` is empty.
    pub(crate) fn with_rights(mut self, rights: Vec<Asked>) -> Self {
        self.nodes.iter_mut().zip(rights).for_each(|(node, asked)| node.asked = asked);
        self.votes = self.nodes.iter().map(Node::vote).collect();
        self
    }

    /// Notes that the command waited for nodes. `told` is the user's limit for this wait, if the
    /// user set one.
    pub(super) fn waited(mut self, told: Option<Duration>) -> Self {
        self.silence = silence(told);
        self
    }

    pub(super) fn silence(&self) -> &str {
        &self.silence
    }

    pub(super) fn max_ttl(&self) -> Duration {
        self.list.max_ttl()
    }

    /// Why a client with this list acquires nothing; `None` if no other list keeps the client out.
    pub(crate) fn kept_out(&self) -> Option<&str> {
        self.kept_out.as_deref()
    }

    pub(crate) fn quorum(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    /// The missing rights that acquiring needs on this node; `None` if none is known to be missing.
    pub(super) fn lacks(&self, index: usize) -> Option<String> {
        self.nodes[index].lacks()?.to_acquire()
    }

    /// The sign that a node forgot locks while it ran; `None` if there is no sign.
    pub(crate) fn forgot(&self, index: usize) -> Option<&'static str> {
        self.nodes[index].forgot()
    }

    /// Whether clients lately saw a record on a node that has none now.
    pub(crate) fn lost_record(&self, index: usize) -> bool {
        let node = &self.nodes[index];
        node.met && is_unused(node.status)
    }

    /// Why a node that was reached grants no lock on this name. `None` if the node grants locks, or
    /// if its state says why not.
    pub(crate) fn refusal(&self, index: usize) -> Option<&str> {
        self.votes[index].refusal()
    }

    /// Why a node that was reached did not say who holds a name; `None` if it did.
    pub(crate) fn unanswered(&self, index: usize) -> Option<&'a str> {
        match (&self.votes[index], self.nodes[index].said) {
            (Vote::Unknown(_), Err(why)) => Some(why),
            _ => None,
        }
    }

    /// Whether a node's votes would count for this client. But the node may have no vote now.
    pub(crate) fn counts(&self, index: usize) -> bool {
        self.kept_out.is_none() && self.votes[index] != Vote::Absent
    }

    pub(super) fn has_vote(&self, index: usize) -> bool {
        self.kept_out.is_none() && self.votes[index].is_now()
    }

    /// All nodes, each with its vote; none if another list keeps this client out.
    fn counted(&self) -> impl Iterator<Item = (&Node<'a>, &Vote)> {
        self.nodes.iter().zip(&self.votes).filter(|_| self.kept_out.is_none())
    }

    fn voters(&self) -> impl Iterator<Item = &Node<'a>> {
        self.counted().filter(|(_, vote)| vote.is_now()).map(|(node, _)| node)
    }

    /// How many nodes vote on claims of a client with this list.
    pub(super) fn votes(&self) -> usize {
        self.voters().count()
    }

    pub(crate) fn can_acquire(&self) -> bool {
        self.votes() >= self.quorum() && !self.duplicate()
    }

    /// Like `can_acquire`, but does not count nodes that were asked for the user's rights and did
    /// not report them.
    pub(super) fn surely_acquires(&self) -> bool {
        self.voters().filter(|node| node.asked.is_ok()).count() >= self.quorum() && !self.duplicate()
    }

    /// Whether a quorum of nodes votes and was asked for the user's rights.
    pub(crate) fn knows_rights(&self) -> bool {
        self.voters().filter(|node| !matches!(node.asked, Ok(None))).count() >= self.quorum()
    }

    /// Whether locks can be acquired now, but not after one more failure. False for lists of one or
    /// two nodes: these never outlast a failure, so there is nothing to warn of.
    pub(crate) fn is_bare(&self) -> bool {
        self.can_acquire() && self.votes() == self.quorum() && self.quorum() < self.nodes.len()
    }

    /// Whether the same server is behind two addresses: then `run` and the library refuse to start.
    pub(super) fn duplicate(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node.status.state, NodeState::Duplicate { .. }))
    }

    /// Whether enough nodes are up to know that a name is free.
    pub(super) fn quorum_knows(&self) -> bool {
        (0..self.nodes.len()).filter(|&index| self.knows(index)).count() >= self.quorum()
    }

    /// Whether a node is up, and so knows whether a name is free. A node that grants no lock (out
    /// of memory, for example) knows this as well.
    pub(crate) fn knows(&self, index: usize) -> bool {
        let (status, vote) = (self.nodes[index].status, &self.votes[index]);
        let is_up = self.kept_out.is_none() && status.state == NodeState::Up && !is_unused(status);
        is_up && matches!(vote, Vote::Now | Vote::GrantsNothing(_))
    }

    /// Whether a quorum would vote on other names, so that only the data under this name prevents
    /// the lock.
    fn only_this_name(&self) -> bool {
        self.are_quorum(|vote| matches!(vote, Vote::Now | Vote::NotThisName(_)))
    }

    /// Whether a quorum of nodes renews held locks, as far as this command can see. A quarantined
    /// node renews locks, and so does a node on which another list is in force. The renewals of a
    /// node whose name leads to two servers do not count.
    fn a_quorum_renews(&self) -> bool {
        use NodeState::{OtherList, Quarantined, Up};
        let renews = |node: &&Node<'_>| match node.status.state {
            OtherList { .. } => true,
            Up | Quarantined { .. } => node.knows_names() && node.takes_writes(),
            _ => false,
        };
        self.nodes.iter().filter(renews).count() >= self.quorum()
    }

    /// Whether a quorum of nodes is up, with votes that pass the test `like`.
    fn are_quorum(&self, like: fn(&Vote) -> bool) -> bool {
        let up = |node: &NodeStatus| node.state == NodeState::Up && !is_unused(node);
        self.counted().filter(|(node, vote)| up(node.status) && like(vote)).count() >= self.quorum()
    }

    /// How many nodes vote only after a client has come.
    pub(super) fn waiting_for_a_client(&self) -> usize {
        self.counted().filter(|(_, vote)| matches!(vote, Vote::AfterAClient(_))).count()
    }

    /// Whether all nodes look new: no node shows a sign of an earlier client.
    pub(crate) fn is_new(&self) -> bool {
        self.nodes.iter().all(|node| is_unused(node.status) && node.forgot().is_none())
    }

    /// How many nodes have not answered yet. A node whose `asked` is an error does not count: the
    /// command's own connection to it failed, and `doctor` reports that.
    pub(crate) fn slow(&self) -> usize {
        let is_slow = |node: &NodeStatus| node.state == NodeState::Connecting && !is_unused(node);
        self.nodes.iter().filter(|node| is_slow(node.status) && node.asked.is_ok()).count()
    }

    /// When a quorum votes: `Vote::In`, or `Vote::AfterAClient` if that needs a client first.
    pub(crate) fn opens(&self) -> Option<Vote> {
        self.when(self.quorum())
    }

    /// When one more node votes than a quorum needs.
    pub(crate) fn spare(&self) -> Option<Vote> {
        self.when(self.quorum() + 1)
    }

    fn when(&self, count: usize) -> Option<Vote> {
        let alone = self.nth(count, |vote| vote.is_now() || !matches!(vote, Vote::AfterAClient(_)));
        alone.map(Vote::In).or_else(|| self.nth(count, |_| true).map(Vote::AfterAClient))
    }

    /// How long it takes until `count` nodes vote. Only nodes whose vote passes the test `like` are
    /// counted.
    fn nth(&self, count: usize, like: fn(&Vote) -> bool) -> Option<Duration> {
        let waits = self.counted().map(|(_, vote)| vote).filter(|vote| like(vote)).filter_map(Vote::wait);
        let mut waits: Vec<_> = waits.collect();
        waits.sort_unstable();
        waits.get(count - 1).copied()
    }

    /// The exit code: 0 if `run` could acquire a free lock, else the code with which `run` would
    /// end.
    pub(super) fn code(&self) -> u8 {
        match self.can_acquire() {
            true => 0,
            false if self.duplicate() => USAGE,
            false => UNAVAILABLE,
        }
    }

    pub(crate) fn sentence(&self) -> String {
        let votes = voting(self.votes(), self.nodes.len());
        format!("{votes}; a quorum is {}{}", self.quorum(), self.meaning())
    }

    /// The sentence for a log, if a quorum votes now and did not before, or the reverse.
    pub(crate) fn news(&self) -> String {
        let votes = match self.can_acquire() {
            true => "a quorum of nodes votes again",
            false if self.duplicate() => "no lock can be acquired",
            false if self.only_this_name() => "no quorum of nodes votes on this name",
            false => "no quorum of nodes votes",
        };
        format!("{votes}{}", self.meaning())
    }

    /// The end of the sentence: what the number of votes means.
    fn meaning(&self) -> String {
        match self.opens() {
            _ if self.duplicate() => ": one server is behind two addresses, which `quorumlock run` refuses".to_owned(),
            _ if self.kept_out.is_some() => ": a client with this list acquires nothing".to_owned(),
            Some(vote) if vote.is_now() => self.margin(),
            Some(Vote::In(wait)) => {
                format!(": no lock can be acquired for another {}, then a quorum votes", left(wait))
            }
            Some(Vote::AfterAClient(wait)) if self.is_new() => format!(
                ": no client has used the servers yet, and the first one waits for {}. If the servers are new and never \
                 held a lock, `quorumlock init` makes them vote at once",
                left(wait)
            ),
            Some(Vote::AfterAClient(wait)) => format!(
                ": some of the servers started, restarted or forgot, and no client has used them since; the first one \
                 waits for {}",
                left(wait)
            ),
            _ if self.only_this_name() => ": this name cannot be locked, but other names can".to_owned(),
            _ if !self.a_quorum_renews() => {
                ": no lock can be acquired. Unless other clients reach more nodes, held locks end within their ttl"
                    .to_owned()
            }
            _ => ": no lock can be acquired".to_owned(),
        }
    }

    /// The end of the sentence if a quorum votes: what may end this quorum. If another node will
    /// vote soon, the sentence says when: the user only has to wait.
    fn margin(&self) -> String {
        // Voters without a record that have not reported whether they forgot locks.
        let assumed = self.voters().filter(|node| is_unused(node.status) && node.lacks().is_none()).count();
        match (self.spare(), self.slow()) {
            _ if self.votes() - assumed < self.quorum() => format!(
                ". Nodes without a record vote at once. If they were flushed, evicted keys or were replicas, the first \
                 client waits for {}",
                left(self.max_ttl())
            ),
            _ if !self.is_bare() => String::new(),
            (Some(Vote::AfterAClient(wait)), _) => {
                format!(". Restart no other node: one more votes {} after a client has used it", left(wait))
            }
            (Some(Vote::In(wait)), _) => {
                format!(". Restart no other node: one more votes in {}", left(wait))
            }
            (_, 0) => ": the next failure stops all locks".to_owned(),
            (_, slow) => {
                let without = if slow == 1 { "it" } else { "them" };
                format!(
                    ". No answer so far from {}: without {without}, the next failure stops all locks",
                    counted(slow, "node")
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use quorumlock::{Doubt, Inspection, Quorum, Record};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A node that answers. Its record names the server process `process`.
    fn node(state: NodeState, process: &str) -> NodeStatus {
        let mut node = NodeStatus::new("redis://n".into(), state);
        node.run = Some("run".to_owned());
        node.record = Some(Record {
            id: "id".into(),
            process: process.into(),
            age: SECOND,
            high: 1,
            floor: 0,
            synced: true,
            word: None,
            in_force: None,
            seen: Vec::new(),
        });
        node
    }

    fn quarantined(seconds: u32, process: &str) -> NodeStatus {
        node(NodeState::Quarantined { left: SECOND * seconds, doubt: Doubt::Restarted }, process)
    }

    fn full(mut node: NodeStatus) -> NodeStatus {
        node.out_of_memory = Some("maxmemory is 1 bytes".to_owned());
        node
    }

    /// The sentence about these nodes, and which of them refuse.
    async fn told(nodes: &[NodeStatus]) -> (String, Vec<bool>) {
        let list = List::new("default", ["n"], SECOND * 60);
        let mut inspected = Quorum::in_memory(nodes.len()).unwrap().inspect("job").await.unwrap();
        inspected.nodes.iter_mut().for_each(|(_, said)| *said = Ok(Inspection::free(0)));
        let verdict = Verdict::new(nodes, &inspected, &list);
        (verdict.sentence(), (0..nodes.len()).map(|node| verdict.refusal(node).is_some()).collect())
    }

    #[tokio::test]
    async fn held_locks_end_only_if_no_quorum_renews_them() {
        let down = || node(NodeState::Down { why: "gone".to_owned() }, "run");
        let ends = async |nodes: &[NodeStatus]| told(nodes).await.0.contains("held locks end within their ttl");
        assert!(ends(&[node(NodeState::Up, "run"), down(), down()]).await);
        assert!(ends(&[full(node(NodeState::Up, "run")), down(), down()]).await);
        assert!(!ends(&[node(NodeState::Up, "run"), quarantined(30, "run"), down()]).await);
        assert!(!ends(&[node(NodeState::Up, "run"), full(node(NodeState::Up, "run")), down()]).await);
        assert!(!ends(&[node(NodeState::Up, "run"), node(NodeState::Up, "run"), down()]).await);
        let other = || node(NodeState::OtherList { why: "theirs is \"jobs\"".into() }, "run");
        assert!(!ends(&[other(), other(), down()]).await, "the clients of that list renew their locks");
    }

    #[tokio::test]
    async fn a_node_without_memory_is_no_vote_later() {
        let up = || node(NodeState::Up, "run");
        let (said, refuse) = told(&[up(), quarantined(30, "run"), full(quarantined(20, "run"))]).await;
        assert!(said.ends_with(": no lock can be acquired for another 30 s, then a quorum votes"), "{said}");
        assert_eq!(refuse, [false, false, true]);
        // The restarted node waits until a client uses it.
        let (said, refuse) = told(&[full(up()), quarantined(30, "run"), quarantined(60, "before")]).await;
        assert!(said.contains("no client has used them since") && said.ends_with("waits for 60 s"), "{said}");
        assert_eq!(refuse, [true, false, false]);
    }
}
