//! The observed state of the nodes and of a name, for people and for programs.

use std::time::Duration;

use quorumlock::{Inspected, Inspection, List, NodeState, NodeStatus, Record};
use serde_json::{Value, json};

use super::holders::{describe, in_cell, known, left_over, line, said, says, shown, waiting, with_readers};
use super::permits::Permits;
use super::states::{in_short, labels, why, word};
use super::verdict::Verdict;
use super::warnings::warnings;
use crate::duration::show;
use crate::lists::{Lists, Whose};
use crate::output::{self, bold, dash, green, milliseconds, red, yellow};
use crate::raw_connection::rights::Asked;

/// The text about a job that is done once in each period.
const ONCE: &str = "; this name is a job that is done once in a period: it was done, or is being done";

/// The observed state of the nodes and of a name.
pub(super) struct Seen {
    pub(super) nodes: Vec<NodeStatus>,
    pub(super) inspected: Inspected,
    /// The held permits, if the name is a semaphore's.
    pub(super) permits: Permits,
    pub(super) name: Option<String>,
    /// The list of nodes in this command's settings.
    pub(super) list: List,
    pub(super) rights: Vec<Asked>,
    /// The user's limit for the wait for nodes, if the user set one.
    pub(super) waited: Option<Duration>,
}

impl Seen {
    pub(super) fn verdict(&self) -> Verdict<'_> {
        let verdict = Verdict::new(&self.nodes, &self.inspected, &self.list);
        verdict.with_rights(self.rights.clone()).waited(self.waited)
    }

    pub(super) fn lines(&self) -> Vec<String> {
        // The table fits into 80 columns if nothing is wrong. Long texts get lines below the table.
        let heading: &[_] = match self.name {
            Some(_) => &["node", "holder", "left", "fence", "waiting", "state"],
            None => &["node", "round trip", "version", "uptime", "state"],
        };
        let verdict = self.verdict();
        let labels = labels(&self.nodes).into_iter().enumerate();
        let rows: Vec<_> = labels.map(|(index, label)| self.row(&verdict, &label, index)).collect();
        let mut lines = output::table(heading, &rows);
        lines.push(String::new());
        // A conflict with another list is reported once, below these lines.
        let conflict = self.conflict();
        let told = |why: &String| conflict.is_none() || !why.starts_with("other list: ");
        let whys = self.nodes.iter().enumerate();
        let whys = whys.filter_map(|(index, node)| Some((&*node.node, why(&verdict, index, node).filter(told)?)));
        let whys = output::same_once(whys).into_iter().map(|(nodes, why)| format!("{nodes}: {why}"));
        lines.extend(output::explained_once(whys).iter().map(|why| yellow(why)));
        lines.extend(conflict.as_deref().map(red));
        let colour = match verdict.can_acquire() {
            true if verdict.is_bare() => yellow,
            true => green,
            false => red,
        };
        lines.push(colour(&verdict.sentence()));
        if conflict.is_none() {
            lines.push(self.clients(&verdict));
        }
        lines.extend(self.warnings().iter().map(|warning| yellow(&format!("warning: {warning}"))));
        if let Some(name) = &self.name {
            lines.push(self.holding(&verdict, name));
            lines.extend(says(&self.inspected));
            lines.extend(self.permits.lines(name));
            lines.extend(line(&self.inspected));
        }
        lines
    }

    fn warnings(&self) -> Vec<String> {
        warnings(&self.nodes, &self.rights, self.list.max_ttl())
    }

    /// A text that says which other list is in force, and what to do; `None` if there is none.
    fn conflict(&self) -> Option<String> {
        Lists::of_nodes(&self.list, &self.nodes).any_conflict()
    }

    /// A text that says on how many nodes this client's list is in force.
    fn clients(&self, verdict: &Verdict<'_>) -> String {
        let lists = Lists::of_nodes(&self.list, &self.nodes);
        let told = self.nodes.iter().filter(|node| node.run.is_some() && node.unreadable.is_none()).count();
        let (own, all) = (lists.with(Whose::Own).len(), self.nodes.len());
        match own {
            _ if told < verdict.quorum() => {
                format!("nobody knows which clients use these nodes: {told} of {all} answered; mend the others first")
            }
            0 => "no list is in force: no client is connected, or the nodes forgot".to_owned(),
            own => format!("this list is in force on {own} of {all} nodes"),
        }
    }

    fn row(&self, verdict: &Verdict<'_>, label: &str, index: usize) -> Vec<String> {
        let (node, said) = (&self.nodes[index], &self.inspected.nodes[index].1);
        let mut row = vec![label.to_owned()];
        if self.name.is_some() {
            row.extend(self.holder_cells(node.state == NodeState::Up && verdict.counts(index), said));
        } else {
            let [round_trip, uptime] = [node.round_trip, node.uptime].map(|time| time.map_or_else(dash, show));
            row.extend([round_trip, node.version.clone().unwrap_or_else(dash), uptime]);
        }
        let refused = verdict.refusal(index).map(|_| red("no vote"));
        row.push(refused.unwrap_or_else(|| in_short(verdict, index, node)));
        row
    }

    /// The cells for holder, time left, fence and number of waiters.
    fn holder_cells(&self, votes: bool, said: &Result<Inspection, String>) -> [String; 4] {
        let Ok(said) = said else { return ["?".to_owned(), dash(), dash(), dash()] };
        let holder = match &said.holder {
            Some(holder) if said.count > 1 => format!("{} x{}", in_cell(&self.inspected, holder, votes), said.count),
            Some(holder) => in_cell(&self.inspected, holder, votes),
            None if votes => "free".to_owned(),
            // A node that does not vote may have forgotten the holder, so the name may not be free.
            None => "?".to_owned(),
        };
        [holder, said.remaining.map_or_else(dash, show), said.fence.to_string(), said.waiting.to_string()]
    }

    /// Whether the name or any of its permits is held; `None` if that is unknown. The name counts
    /// as free only if a quorum of nodes is up and knows its holders.
    fn held(&self, verdict: &Verdict<'_>) -> Option<bool> {
        let agreed = self.inspected.agreed().filter(|held| *held || verdict.quorum_knows());
        agreed.map(|held| held || self.permits.0.iter().any(|(_, seen)| seen.holder().is_some()))
    }

    fn holding(&self, verdict: &Verdict<'_>, name: &str) -> String {
        let (seen, name, all) = (&self.inspected, shown(name), self.nodes.len());
        let (title, few, known, fence) = (bold(&name), left_over(seen), known(seen), seen.fence());
        let waits = verdict.waiting_for_a_client();
        match (seen.holder().map(|holder| with_readers(seen, holder)), self.held(verdict)) {
            (Some(holder), _) if seen.is_gate() => {
                format!("{title} is the gate of a semaphore, which {holder} holds while it waits for permits")
            }
            (Some(holder), _) => {
                let revoked = if seen.revoked() { "; the lock was revoked, and is not renewed any more" } else { "" };
                let once = if seen.is_once() { ONCE } else { "" };
                format!("{title} is held by {holder}, token at most {fence}{revoked}{once}")
            }
            (None, Some(true)) => format!(
                "{title} is a semaphore, and permits of it are held; its gate's tokens so far are at most {fence}"
            ),
            (None, Some(false)) => {
                // A node without memory knows that the name is free, but grants nothing.
                let but = if verdict.can_acquire() { "" } else { ", but cannot be locked now" };
                format!("{title} is free{few}{but}; its tokens so far are at most {fence}")
            }
            // Either nodes name different holders for a moment, or they began to vote after their
            // replies.
            (None, None) if verdict.quorum_knows() => {
                yellow(&format!("{name}: no quorum of nodes names the same holder; look again"))
            }
            (None, None) if waits > 0 && verdict.can_acquire() => yellow(&format!(
                "{name}: nobody can tell who holds it yet: {waits} of {all} nodes wait for a client{known}"
            )),
            (None, None) => {
                let votes = output::voting(verdict.votes(), all);
                red(&format!("{name}: nobody can tell who holds it; {votes}, which is no quorum{known}"))
            }
        }
    }

    pub(super) fn json(&self) -> Value {
        let verdict = self.verdict();
        let nodes: Vec<_> = (0..self.nodes.len()).map(|index| self.node_json(&verdict, index)).collect();
        let mut object = json!({
            "nodes": nodes,
            "quorum": verdict.quorum(),
            "votes": verdict.votes(),
            "quorum_votes": verdict.can_acquire(),
            "refused": verdict.kept_out(),
            "warnings": self.warnings(),
        });
        if let Some(name) = &self.name {
            let held = self.held(&verdict);
            object["name"] = json!(name);
            object["agreed"] = json!(held.is_some());
            object["held"] = json!(held);
            object["holder"] = json!(self.inspected.holder());
            object["revoked"] = json!(self.inspected.revoked());
            object["fence"] = json!(self.inspected.fence());
            object["remaining_ms"] = json!(self.remaining(verdict.quorum()).map(milliseconds));
            object["count"] = json!(self.of_holder().map(|said| said.count).max());
            object["waiting"] = json!(waiting(&self.inspected));
            object["once"] = json!(self.inspected.is_once());
            object["permits_held"] = self.permits.json();
            describe(&mut object, &self.inspected);
        }
        object
    }

    fn node_json(&self, verdict: &Verdict<'_>, index: usize) -> Value {
        let (node, said) = (&self.nodes[index], &self.inspected.nodes[index].1);
        let mut object = json!({
            "node": &*node.node,
            "state": word(&node.state),
            "why": why(verdict, index, node),
            "answers": said.is_ok(),
            "quarantine_ms": if let NodeState::Quarantined { left, .. } = node.state { Some(milliseconds(left)) } else { None },
            "round_trip_ms": node.round_trip.map(milliseconds),
            "version": node.version,
            "uptime_seconds": node.uptime.map(|time| time.as_secs()),
            "evicts": node.evicts,
            "out_of_memory": node.out_of_memory,
            "no_wake_ups": node.no_wake_ups,
            "lacks": verdict.lacks(index),
            "counts": verdict.has_vote(index),
            "name": &*node.name,
            "record": node.record.as_ref().map(record_json),
        });
        if let (Some(_), Ok(said)) = (&self.name, said) {
            object["holder"] = json!(said.holder);
            object["revoked"] = json!(said.is_revoked());
            object["count"] = json!(said.count);
            object["remaining_ms"] = json!(said.remaining.map(milliseconds));
            object["fence"] = json!(said.fence);
            object["waiting"] = json!(said.waiting);
        }
        object
    }

    /// The reports of the nodes that name the holder.
    fn of_holder(&self) -> impl Iterator<Item = &Inspection> {
        let holder = self.inspected.holder();
        said(&self.inspected).filter(move |said| holder.is_some() && said.holder.as_deref() == holder)
    }

    /// The time for which a quorum of nodes still holds the name for its holder.
    fn remaining(&self, quorum: usize) -> Option<Duration> {
        let mut left: Vec<_> = self.of_holder().filter_map(|said| said.remaining).collect();
        left.sort_unstable();
        left.iter().rev().nth(quorum - 1).copied()
    }
}

fn record_json(record: &Record) -> Value {
    let list = record.in_force.as_ref();
    json!({
        "id": &*record.id,
        "age_ms": milliseconds(record.age),
        "synced": record.synced,
        "list": list.map(|list| &*list.says),
        "list_left_ms": list.map(|list| milliseconds(list.left)),
    })
}
