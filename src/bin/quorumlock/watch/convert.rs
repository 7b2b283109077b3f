//! Turns the library's reports on nodes and names into plain data.

use std::time::{Duration, Instant};

use quorumlock::{Doubt, HeldNames, Inspected, Inspection, NodeState, NodeStatus, Record};

use super::seen::{Hold, Mood, Names, Node, Quorum, Seen};
use crate::output::dash;
use crate::status::verdict::Verdict;
use crate::status::{in_cell, is_idle, is_unused, labels, left, plain, plainly, waiting, why, word};
use crate::words::counted;

/// A node that takes longer than this to answer is shown as slow. A search for names waits for a
/// node only this long.
pub(super) const SLOW: Duration = Duration::from_millis(500);

/// The times of one node's polls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// When the request that has no answer yet was sent; `None` if there is no such request.
    pub(super) asked: Option<Instant>,
    /// When the last request was answered, or failed.
    pub(super) answered: Option<Instant>,
    /// How long the last answer took. If later requests failed after a longer time, the longest of
    /// these times.
    pub(super) took: Option<Duration>,
}

impl Pace {
    /// Notes that the request ended at `now`, after `took`. A fast error does not count as a fast
    /// answer, so a node that was slow stays slow.
    pub(super) fn ended(self, is_answer: bool, took: Duration, now: Instant) -> Self {
        let longest = took.max(self.took.unwrap_or_default());
        Self { asked: None, answered: Some(now), took: Some(if is_answer { took } else { longest }) }
    }

    fn is_slow(&self, now: Instant) -> bool {
        let waits = self.asked.map_or(Duration::ZERO, |asked| now.saturating_duration_since(asked));
        waits.max(self.took.unwrap_or_default()) > SLOW
    }

    /// The greatest possible age of the node's last answer: the node cannot have answered before
    /// the request was sent.
    fn age(&self, now: Instant) -> Duration {
        let since = self.answered.map_or(Duration::ZERO, |answered| now.saturating_duration_since(answered));
        since + self.took.unwrap_or_default()
    }
}

/// The latest reports of the nodes.
pub(super) struct Reports<'a> {
    pub(super) verdict: Verdict<'a>,
    pub(super) nodes: &'a [NodeStatus],
    pub(super) inspected: &'a Inspected,
    pub(super) paces: &'a [Pace],
    /// If a server without its record has a shorter uptime than this, a restart lost the record.
    pub(super) lately: Duration,
}

/// The nodes, and the name that is watched if there is one.
pub(super) fn seen(reports: &Reports<'_>, named: bool) -> Seen {
    let Reports { verdict, nodes, inspected, paces, .. } = reports;
    let now = Instant::now();
    let rows = labels(nodes).into_iter().enumerate().map(|(index, label)| node(reports, index, label, now)).collect();
    let ages: Vec<_> = paces.iter().map(|pace| pace.age(now)).collect();
    let hold = named.then(|| Hold {
        agreed: agreed(verdict, inspected),
        left: quorum_left(inspected, &ages, verdict.quorum()),
        told: quorum_left(inspected, &vec![Duration::ZERO; ages.len()], verdict.quorum()),
        ..hold(inspected)
    });
    let mood = match verdict.can_acquire() {
        true if verdict.is_bare() => Mood::Doubtful,
        true => Mood::Good,
        false => Mood::Bad,
    };
    // If another list keeps this client out, the text about that list says more than the verdict.
    let sentence = verdict.kept_out().map_or_else(|| verdict.sentence(), str::to_owned);
    // A verdict may be wrong at first. "Can acquire" is certain only after a quorum was asked for
    // the user's rights (a node that comes back is asked anew). "Cannot acquire" is certain only
    // after all nodes have answered.
    let is_known = if verdict.can_acquire() { verdict.knows_rights() } else { verdict.slow() == 0 };
    let quorum = is_known.then(|| Quorum { votes: verdict.can_acquire(), news: verdict.news() });
    Seen { nodes: rows, verdict: sentence, mood, quorum, hold }
}

/// The nodes before the first answers have come.
pub(super) fn unasked(nodes: &[NodeStatus]) -> Seen {
    let row = |(label, node): (String, &NodeStatus)| Node {
        label,
        word: word(&node.state),
        state: plain(node),
        mood: mood(&node.state),
        why: is_refused(&node.state).then(|| node.state.to_string()),
        round_trip: node.round_trip,
        slow: false,
        fails: false,
        memory: memory(node),
        record: record(node),
        holder: dash(),
        left: None,
    };
    let rows = labels(nodes).into_iter().zip(nodes).map(row).collect();
    let verdict = "waiting for the nodes' first answers".to_owned();
    Seen { nodes: rows, verdict, mood: Mood::Bad, quorum: None, hold: None }
}

fn node(reports: &Reports<'_>, index: usize, label: String, now: Instant) -> Node {
    let Reports { verdict, nodes, inspected, paces, lately } = reports;
    let (node, said, pace) = (&nodes[index], &inspected.nodes[index].1, &paces[index]);
    let refuses = verdict.refusal(index).is_some();
    let slow = pace.is_slow(now) && node.state.is_admitted();
    let left = said.as_ref().ok().and_then(|said| said.remaining);
    // For a server without a record that started lately, `forgot` returns nothing, so look for a
    // lost record.
    let lost = if is_unused(node) { verdict.lost_record(index) } else { verdict.forgot(index).is_some() };
    let restarted = !refuses && lost && has_restarted(node, *lately);
    Node {
        label,
        word: if refuses { "no vote" } else { word(&node.state) },
        state: match restarted {
            _ if refuses => "no vote".to_owned(),
            true => plain(node),
            false => plainly(verdict, index, node),
        },
        mood: if refuses { Mood::Bad } else { mood(&node.state) },
        why: match restarted {
            true if is_unused(node) => Some("no record: it has restarted, and no client has used it since".to_owned()),
            true => Some(node.state.to_string()),
            false => why(verdict, index, node),
        },
        round_trip: node.round_trip.or(pace.took.filter(|_| said.is_ok())).filter(|_| node.state.is_admitted()),
        slow,
        fails: said.is_err(),
        memory: memory(node),
        record: record(node),
        holder: holder(inspected, said, node),
        left: left.map(|left| left.saturating_sub(pace.age(now))),
    }
}

/// Whether the server lost its record by a restart. FLUSHALL deletes the record, too. But then the
/// server's uptime is longer, because the server ran when clients saw the record.
fn has_restarted(node: &NodeStatus, lately: Duration) -> bool {
    // With this doubt, the same process had a record before, so a restart is not the reason.
    let forgot = matches!(node.state, NodeState::Quarantined { doubt: Doubt::Forgot, .. });
    !forgot && node.uptime.is_some_and(|uptime| uptime < lately)
}

fn memory(node: &NodeStatus) -> String {
    node.record.as_ref().map(|record| record.id.to_string()).unwrap_or_default()
}

/// Whether something other than a quarantine or a pending connection keeps the node from voting.
const fn is_refused(state: &NodeState) -> bool {
    matches!(mood(state), Mood::Bad)
}

const fn mood(state: &NodeState) -> Mood {
    match state {
        NodeState::Up => Mood::Good,
        NodeState::Quarantined { .. } | NodeState::Connecting | NodeState::Unclear => Mood::Doubtful,
        _ => Mood::Bad,
    }
}

/// The node's record in short: how many nodes the list of its clients has.
fn record(node: &NodeStatus) -> String {
    match &node.record {
        _ if node.unreadable.is_some() => "unreadable".to_owned(),
        _ if is_unused(node) => "no record".to_owned(),
        Some(Record { in_force: Some(list), .. }) => counted(list.says.split(' ').skip(3).count(), "node"),
        Some(_) => "no client".to_owned(),
        None => dash(),
    }
}

/// The holder that the node names. A node that does not vote may have forgotten a holder, so the
/// name is not shown as free.
fn holder(inspected: &Inspected, said: &Result<Inspection, String>, node: &NodeStatus) -> String {
    match said {
        Ok(Inspection { holder: Some(holder), .. }) => in_cell(inspected, holder, node.state == NodeState::Up),
        Ok(_) if node.state == NodeState::Up => "free".to_owned(),
        _ => "?".to_owned(),
    }
}

/// Whether a quorum names one holder, or a quorum of nodes that know it reports the name as free.
fn agreed(verdict: &Verdict<'_>, inspected: &Inspected) -> bool {
    let is_free = |said: &Result<Inspection, String>| said.as_ref().is_ok_and(|said| said.holder.is_none());
    let said = inspected.nodes.iter().enumerate();
    let free = said.filter(|(index, (_, said))| verdict.knows(*index) && is_free(said)).count();
    inspected.holder().is_some() || free >= verdict.quorum()
}

/// The time for which a quorum of nodes still holds the name for its holder.
fn quorum_left(inspected: &Inspected, ages: &[Duration], quorum: usize) -> Option<Duration> {
    let holder = inspected.holder()?;
    let said = inspected.nodes.iter().zip(ages).filter_map(|((_, said), age)| Some((said.as_ref().ok()?, age)));
    let same = said.filter(|(said, _)| said.holder.as_deref() == Some(holder));
    let mut left: Vec<_> = same.filter_map(|(said, age)| Some(said.remaining?.saturating_sub(*age))).collect();
    left.sort_unstable();
    // Each node names only one of its readers, so perhaps no quorum names the same reader. In that
    // case, returns the longest time.
    left.iter().rev().nth(quorum - 1).or(left.last()).copied()
}

/// Who holds a name, as the nodes reported.
fn hold(inspected: &Inspected) -> Hold {
    let (told, left) = (inspected.description(), left(inspected));
    Hold {
        agreed: inspected.agreed().is_some(),
        holder: inspected.holder().map(str::to_owned),
        readers: inspected.readers(),
        revoked: inspected.revoked(),
        note: told.map(|told| told.says.to_string()).unwrap_or_default(),
        held_for: told.map(|told| told.since),
        fence: inspected.fence(),
        left,
        told: left,
        most: left,
        waiting: waiting(inspected),
        gate: inspected.is_gate(),
    }
}

/// The names that are held. They are complete only if they come from a quorum of nodes that vote or
/// are idle: other nodes may have forgotten names.
pub(super) fn names(names: &HeldNames, held: &[(String, Inspected)], whole: bool, nodes: &[NodeStatus]) -> Names {
    let unread = names.unread();
    let is_read = |node: &NodeStatus| unread.iter().all(|report| report.node != node.node);
    // An idle node lacks only the highest tokens. Its quarantine is over, so the locks that it may
    // have forgotten have ended.
    let knows = |node: &NodeStatus| node.state == NodeState::Up || is_idle(node);
    let read = nodes.iter().filter(|node| knows(node) && is_read(node)).count();
    let complete = names.missed().is_empty() && read > nodes.len() / 2;
    let held = held.iter().map(|(name, inspected)| (name.clone(), hold(inspected))).collect();
    Names { held, whole, complete }
}

#[cfg(test)]
mod tests {
    use quorumlock::{InForce, List, Sighting};

    use super::super::changes;
    use super::*;
    use crate::raw_connection::rights::Lacks;

    const SECOND: Duration = Duration::from_secs(1);

    /// Three nodes that vote. Clients saw their records 2 s ago.
    fn voting() -> (Vec<NodeStatus>, List) {
        let names = ["redis://n1", "redis://n2", "redis://n3"];
        let list = List::new("default", names, 60 * SECOND);
        let in_force =
            InForce { hash: list.hash().clone(), says: list.says().clone(), left: 70 * SECOND, age: 900 * SECOND };
        let met = |name: &str| Sighting { node: name.into(), id: name.into(), age: 2 * SECOND };
        let status = |name: &str| {
            let mut status = NodeStatus::new(name.into(), NodeState::Up);
            (status.run, status.uptime) = (Some("run".to_owned()), Some(1_000 * SECOND));
            status.record = Some(Record {
                id: name.into(),
                process: "run".into(),
                age: 900 * SECOND,
                high: 1,
                floor: 0,
                synced: true,
                word: None,
                in_force: Some(in_force.clone()),
                seen: names.map(met).to_vec(),
            });
            status
        };
        (names.map(status).to_vec(), list)
    }

    /// What is shown, if the first node replies with `said`, and the first `asked` nodes reported
    /// the user's rights.
    async fn shown(
        nodes: &[NodeStatus],
        list: &List,
        said: Result<Inspection, String>,
        pace: Pace,
        asked: usize,
    ) -> Seen {
        let quorum = quorumlock::Quorum::in_memory(nodes.len()).unwrap();
        let mut inspected = quorum.inspect("job").await.unwrap();
        for (_, said) in &mut inspected.nodes {
            *said = Ok(Inspection::free(0));
        }
        inspected.nodes[0].1 = said;
        let rights = (0..nodes.len()).map(|node| Ok((node < asked).then(Lacks::default))).collect();
        let verdict = Verdict::new(nodes, &inspected, list).with_rights(rights);
        let paces = [pace, Pace::default(), Pace::default()];
        seen(&Reports { verdict, nodes, inspected: &inspected, paces: &paces, lately: 15 * SECOND }, true)
    }

    /// The first node as it is shown, if it replies with `said`.
    async fn first(nodes: &[NodeStatus], list: &List, said: Result<Inspection, String>, pace: Pace) -> Node {
        shown(nodes, list, said, pace, 0).await.nodes.swap_remove(0)
    }

    #[tokio::test]
    async fn quorum_is_unknown_until_nodes_and_rights_are_known() {
        let (up, list) = voting();
        let with = |state: NodeState| {
            let mut nodes = up.clone();
            nodes[1..].iter_mut().for_each(|node| *node = NodeStatus::new(node.name.clone(), state.clone()));
            nodes
        };
        let quorum = async |nodes: &[NodeStatus], asked| {
            let seen = shown(nodes, &list, Ok(Inspection::free(0)), Pace::default(), asked).await;
            seen.quorum.map(|quorum| (quorum.votes, quorum.news))
        };
        assert_eq!((quorum(&up, 0).await, quorum(&up, 1).await), (None, None), "other nodes were not asked yet");
        assert_eq!(quorum(&up, 2).await, Some((true, "a quorum of nodes votes again".to_owned())));
        assert_eq!(quorum(&with(NodeState::Connecting), 3).await, None);
        let mut full = up.clone();
        full.iter_mut().for_each(|node| node.out_of_memory = Some("maxmemory is 1 bytes".to_owned()));
        let seen = shown(&full, &list, Ok(Inspection::free(0)), Pace::default(), 3).await;
        assert!(seen.mood == Mood::Bad && seen.hold.is_some_and(|hold| hold.agreed), "the nodes know that it is free");
        let (votes, news) = quorum(&with(NodeState::Down { why: "gone".to_owned() }), 0).await.unwrap();
        assert!(!votes && news.starts_with("no quorum of nodes votes: no lock can be acquired. "), "{news}");
        let mut twice = up.clone();
        twice[2].state = NodeState::Duplicate { of: "redis://n1".into() };
        let (votes, news) = quorum(&twice, 3).await.unwrap();
        assert!(!votes && news.starts_with("no lock can be acquired: one server is behind two addresses"), "{news}");
    }

    /// Between the restart and the first hello the server has no record, as after FLUSHALL.
    #[tokio::test]
    async fn server_that_restarted_empty_is_not_said_to_have_forgotten() {
        let restarted = "no record: it has restarted, and no client has used it since";
        for (doubt, uptime, state, why) in [
            (Doubt::Restarted, 1, "no record", restarted),
            (Doubt::Restarted, 1_000, "forgot", "forgot: it forgot while it ran"),
            (Doubt::Forgot, 1, "forgot", "forgot: it forgot while it ran"),
        ] {
            let (mut nodes, list) = voting();
            nodes[0].state = NodeState::Quarantined { left: 60 * SECOND, doubt };
            (nodes[0].uptime, nodes[0].record) = (Some(SECOND * uptime), None);
            let node = first(&nodes, &list, Err("it has no record".to_owned()), Pace::default()).await;
            assert!(node.state == state && node.why.as_ref().is_some_and(|said| said.starts_with(why)), "{node:?}");
        }
    }

    /// The node is connected again, and has not answered since its last failure.
    #[tokio::test]
    async fn node_that_comes_back_has_not_failed_again() {
        let down = NodeState::Down { why: "Connection refused".to_owned() };
        let quarantined = NodeState::Quarantined { left: 60 * SECOND, doubt: Doubt::Restarted };
        let (mut shown, free) = (Vec::new(), Inspection::free(0));
        let failed = || Err("down: Connection refused".to_owned());
        for (state, said) in
            [(down, failed()), (quarantined, failed()), (NodeState::Up, failed()), (NodeState::Up, Ok(free))]
        {
            let (mut nodes, list) = voting();
            nodes[0].state = state;
            shown.push(first(&nodes, &list, said, Pace::default()).await);
        }
        let events = shown.windows(2).flat_map(|pair| changes::of_node(&pair[0], &pair[1]));
        assert_eq!(events.map(|event| event.text).collect::<Vec<_>>(), ["up"]);
    }

    /// Requests over a closed connection fail at once.
    #[tokio::test]
    async fn node_whose_requests_fail_at_once_does_not_answer_in_time() {
        let ((nodes, list), now) = (voting(), Instant::now());
        let hangs = Pace { asked: Some(now - SECOND), ..Pace::default() };
        let late = hangs.ended(false, 2 * SECOND, now);
        let error = || Err("no answer".to_owned());
        let nodes = [
            first(&nodes, &list, Ok(Inspection::free(0)), Pace::default()).await,
            first(&nodes, &list, Ok(Inspection::free(0)), hangs).await,
            first(&nodes, &list, error(), late).await,
            first(&nodes, &list, error(), late.ended(false, Duration::ZERO, now)).await,
        ];
        let events = nodes.windows(2).flat_map(|pair| changes::of_node(&pair[0], &pair[1]));
        let told: Vec<_> = events.map(|event| event.text).collect();
        assert_eq!(told, ["slow to answer", "no vote: up, but does not answer: no answer"]);
    }
}
