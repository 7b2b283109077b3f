//! Turns the library's reports on nodes and names into plain data.

use std::time::{Duration, Instant};

use quorumlock::{HeldNames, Inspected, Inspection, NodeState, NodeStatus, Record};

use super::seen::{Hold, Mood, Names, Node, Seen};
use crate::output::dash;
use crate::status::verdict::Verdict;
use crate::status::{cut, is_unused, labels, left, plain, plainly, waiting, why, word};
use crate::words::counted;

/// A node that takes longer is shown as slow.
const SLOW: Duration = Duration::from_millis(500);

/// The times of one node's polls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// When the request without an answer was sent, if there is one.
    pub(super) asked: Option<Instant>,
    /// When the last answer came, or the request failed.
    pub(super) answered: Option<Instant>,
    /// How long the last answer took.
    pub(super) took: Option<Duration>,
}

impl Pace {
    fn is_slow(&self, now: Instant) -> bool {
        let waits = self.asked.map_or(Duration::ZERO, |asked| now.saturating_duration_since(asked));
        waits.max(self.took.unwrap_or_default()) > SLOW
    }

    /// The highest possible age of the node's last answer, which may be as old as the request.
    fn age(&self, now: Instant) -> Duration {
        let since = self.answered.map_or(Duration::ZERO, |answered| now.saturating_duration_since(answered));
        since + self.took.unwrap_or_default()
    }
}

/// The nodes, and the name that is watched if there is one.
pub(super) fn seen(
    verdict: &Verdict<'_>,
    nodes: &[NodeStatus],
    inspected: &Inspected,
    paces: &[Pace],
    named: bool,
) -> Seen {
    let now = Instant::now();
    let rows = labels(nodes).into_iter().enumerate();
    let rows = rows.map(|(index, label)| node(verdict, nodes, inspected, index, &label, &paces[index], now)).collect();
    let ages: Vec<_> = paces.iter().map(|pace| pace.age(now)).collect();
    let hold = named.then(|| Hold {
        agreed: agreed(verdict, nodes, inspected),
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
    Seen { nodes: rows, verdict: sentence, mood, hold }
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
        memory: memory(node),
        record: record(node),
        holder: dash(),
        left: None,
    };
    let rows = labels(nodes).into_iter().zip(nodes).map(row).collect();
    Seen { nodes: rows, verdict: "waiting for the nodes' first answers".to_owned(), mood: Mood::Bad, hold: None }
}

fn node(
    verdict: &Verdict<'_>,
    nodes: &[NodeStatus],
    inspected: &Inspected,
    index: usize,
    label: &str,
    pace: &Pace,
    now: Instant,
) -> Node {
    let (node, said) = (&nodes[index], &inspected.nodes[index].1);
    let refuses = verdict.refusal(index).is_some();
    let slow = pace.is_slow(now) && node.state.is_admitted();
    let left = said.as_ref().ok().and_then(|said| said.remaining);
    Node {
        label: label.to_owned(),
        word: if refuses { "no vote" } else { word(&node.state) },
        state: if refuses { "no vote".to_owned() } else { plainly(verdict, index, node) },
        mood: if refuses { Mood::Bad } else { mood(&node.state) },
        why: why(verdict, index, node),
        round_trip: pace.took.filter(|_| said.is_ok()).or(node.round_trip).filter(|_| node.state.is_admitted()),
        slow,
        memory: memory(node),
        record: record(node),
        holder: holder(said, node),
        left: left.map(|left| left.saturating_sub(pace.age(now))),
    }
}

fn memory(node: &NodeStatus) -> String {
    node.record.as_ref().map(|record| record.id.to_string()).unwrap_or_default()
}

/// Whether the node will not vote by itself.
const fn is_refused(state: &NodeState) -> bool {
    matches!(mood(state), Mood::Bad)
}

const fn mood(state: &NodeState) -> Mood {
    match state {
        NodeState::Up => Mood::Good,
        NodeState::Quarantined { .. } | NodeState::Connecting => Mood::Doubtful,
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

/// The holder that the node names. If a node that does not vote names no holder, that means
/// nothing.
fn holder(said: &Result<Inspection, String>, node: &NodeStatus) -> String {
    match said {
        Ok(Inspection { holder: Some(holder), .. }) => cut(holder),
        Ok(_) if node.state == NodeState::Up => "free".to_owned(),
        _ => "?".to_owned(),
    }
}

/// Whether a quorum names the holder, or a quorum of voting nodes names no holder.
fn agreed(verdict: &Verdict<'_>, nodes: &[NodeStatus], inspected: &Inspected) -> bool {
    let free = |index: &usize| {
        let said = inspected.nodes[*index].1.as_ref();
        let votes = nodes[*index].state == NodeState::Up && verdict.counts(*index);
        votes && verdict.refusal(*index).is_none() && said.is_ok_and(|said| said.holder.is_none())
    };
    inspected.holder().is_some() || (0..nodes.len()).filter(free).count() >= verdict.quorum()
}

/// For how much longer a quorum of nodes holds the name for the holder.
fn quorum_left(inspected: &Inspected, ages: &[Duration], quorum: usize) -> Option<Duration> {
    let holder = inspected.holder()?;
    let said = inspected.nodes.iter().zip(ages).filter_map(|((_, said), age)| Some((said.as_ref().ok()?, age)));
    let same = said.filter(|(said, _)| said.holder.as_deref() == Some(holder));
    let mut left: Vec<_> = same.filter_map(|(said, age)| Some(said.remaining?.saturating_sub(*age))).collect();
    left.sort_unstable();
    // Each node names one of its readers, so perhaps no quorum names the same reader. Then the
    // longest time must do.
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

/// The names that are held.
pub(super) fn names(names: &HeldNames, held: &[(String, Inspected)], whole: bool) -> Names {
    let held = held.iter().map(|(name, inspected)| (name.clone(), hold(inspected))).collect();
    Names { held, whole, complete: names.is_complete() }
}
