//! `quorumlock members show`: each node's roster, and whether all have one list.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use quorumlock::{Agreement, Counted, Members, NodeMembers, NodeState, Roster};
use serde_json::{Value, json};

use super::FAREWELL;
use crate::cli::Show;
use crate::duration::{left, show as shown};
use crate::failure::{Outcome, UNAVAILABLE, USAGE};
use crate::output::{self, green, milliseconds, red, yellow};
use crate::settings::Settings;

/// A check failed.
const DIFFERS: u8 = 1;

pub(super) async fn show(args: Show) -> Outcome {
    let quorum = Settings::with_nodes(&args.nodes)?.onlooker()?.open()?;
    let members = quorum.members().await?;
    let states = quorum.nodes().into_iter().map(|node| node.state).collect();
    let seen = Seen { counted: members.counted(), members, states };
    if args.json {
        output::say(&seen.json().to_string()).await?;
    } else {
        output::say(&seen.lines().join("\n")).await?;
    }
    quorum.shutdown(FAREWELL).await;
    Ok(ExitCode::from(seen.code()))
}

struct Seen {
    members: Members,
    /// What the nodes count for, to a client that comes now with this list.
    counted: Counted,
    states: Vec<NodeState>,
}

impl Seen {
    fn told(&self) -> impl Iterator<Item = (&NodeMembers, &Roster)> {
        self.members.nodes.iter().filter_map(|node| Some((node, node.roster.as_ref().ok()?)))
    }

    fn quorum_answers(&self) -> bool {
        2 * self.told().count() > self.members.nodes.len()
    }

    fn silent(&self) -> usize {
        self.members.nodes.len() - self.told().count()
    }

    /// How many answer and were not retired.
    fn standing(&self) -> usize {
        self.told().filter(|(_, roster)| roster.retired.is_none()).count()
    }

    fn too_few(&self) -> bool {
        2 * self.standing() <= self.members.nodes.len()
    }

    /// Whether one server is behind two addresses: then `run` and the library refuse to start.
    fn duplicate(&self) -> bool {
        self.states.iter().any(|state| matches!(state, NodeState::Duplicate { .. }))
    }

    fn code(&self) -> u8 {
        match self.members.agreement() {
            _ if self.duplicate() => USAGE,
            _ if self.too_few() => UNAVAILABLE,
            _ if self.counted.why.is_some() => DIFFERS,
            Agreement::Nobody if self.silent() > 0 => DIFFERS,
            Agreement::One | Agreement::Nobody => 0,
            _ => DIFFERS,
        }
    }

    fn lines(&self) -> Vec<String> {
        let lists = self.lists();
        let rows: Vec<_> = self.members.nodes.iter().map(|node| row(node, &lists)).collect();
        let mut lines = output::table(&["node", "run", "list", "lasts", "max ttl", "tokens"], &rows);
        lines.push(String::new());
        let mut letters: Vec<_> = lists.iter().collect();
        letters.sort_unstable_by_key(|(_, letter)| **letter);
        lines.extend(letters.into_iter().map(|(list, letter)| self.list_line(list, *letter)));
        lines.extend(self.members.nodes.iter().filter_map(remark).map(|remark| yellow(&remark)));
        let colour = if self.code() == 0 { green } else { red };
        lines.push(colour(&self.sentence()));
        lines.extend(self.warnings().map(|warning| yellow(&format!("warning: {warning}"))));
        lines
    }

    /// The lists that rosters have, each with a letter.
    fn lists(&self) -> BTreeMap<List, char> {
        let mut lists = BTreeMap::new();
        for (_, roster) in self.told().filter(|(_, roster)| !roster.servers.is_empty()) {
            let next = char::from(b'A' + u8::try_from(lists.len().min(25)).unwrap_or(25));
            lists.entry(List::of(roster)).or_insert(next);
        }
        lists
    }

    fn list_line(&self, list: &List, letter: char) -> String {
        let mut runs: Vec<_> = list.servers.iter().collect();
        runs.sort_by_key(|run| self.place(run));
        let missing = (list.nodes as usize).saturating_sub(runs.len());
        let missing = (missing > 0).then(|| format!("({missing} more, which no roster has yet)"));
        let servers: Vec<_> = runs.into_iter().map(|run| self.known(run)).chain(missing).collect();
        format!("list {letter}, of {} nodes, protocol {}:\n  {}", list.nodes, list.protocol, servers.join("\n  "))
    }

    /// Where a server stands in the list that was given here; behind all others if it does not.
    fn place(&self, run: &str) -> usize {
        let place = self.members.nodes.iter().position(|node| node.run.as_deref() == Some(run));
        place.unwrap_or(self.members.nodes.len())
    }

    /// A server as people know it.
    fn known(&self, run: &str) -> String {
        let node = self.members.nodes.iter().find(|node| node.run.as_deref() == Some(run));
        let down = self.members.nodes.iter().any(|node| node.run.is_none());
        let stranger = if down { "none of these nodes, or one that is down" } else { "none of these nodes" };
        node.map_or_else(|| format!("{} ({stranger})", short(run)), |node| node.node.to_string())
    }

    fn sentence(&self) -> String {
        let (standing, all) = (self.standing(), self.members.nodes.len());
        if self.duplicate() {
            return "one server is behind two addresses, which `quorumlock run` refuses".to_owned();
        }
        if !self.quorum_answers() {
            return "no quorum of nodes tells its roster".to_owned();
        }
        if self.too_few() {
            let vote = if standing == 1 { "votes" } else { "vote" };
            return format!(
                "{standing} of {all} nodes {vote}, which is no quorum: clients of this list acquire nothing"
            );
        }
        match self.members.agreement() {
            Agreement::One if standing < self.told().count() => {
                "the nodes have one list, but for those that were retired".to_owned()
            }
            Agreement::One => "the nodes have one list".to_owned(),
            Agreement::Nobody if self.silent() > 0 => {
                format!("nobody has a list on the nodes that told; {} did not", self.silent())
            }
            Agreement::Nobody => {
                "nobody has a list: no client is enrolled, and clients of any list may come".to_owned()
            }
            Agreement::But(nodes) => {
                let names: Vec<_> = nodes.iter().map(|node| &*self.members.nodes[node].node).collect();
                let empty = nodes
                    .iter()
                    .all(|node| matches!(&self.members.nodes[node].roster, Ok(it) if it.servers.is_empty()));
                format!("{} {} from the others: {}", names.join(" and "), differ(names.len()), self.what_to_do(empty))
            }
            _ => format!(
                "the nodes have several lists: give all clients the same list, or stop those of all others and wait \
                 {} after the last has stopped",
                left(self.binds())
            ),
        }
    }

    fn what_to_do(&self, empty: bool) -> String {
        match empty {
            true if self.counted.why.is_some() => "no client has enrolled there".to_owned(),
            true => "no client has enrolled there; if that lasts, see that all clients reach it".to_owned(),
            false => format!(
                "this lasts for up to {} while a server is replaced; else give all clients the same list",
                left(self.binds())
            ),
        }
    }

    fn binds(&self) -> Duration {
        self.told().map(|(_, roster)| roster.binds()).max().unwrap_or_default()
    }

    /// What a client with the list that was given here meets.
    fn warnings(&self) -> impl Iterator<Item = String> {
        let what = if self.counted.nodes.is_empty() { "acquires nothing" } else { "counts not all of these nodes" };
        let kept_out = self.counted.why.as_ref().map(|why| format!("a client with this list {what}: {why}"));
        let quarantined = self.states.iter().filter_map(|state| match state {
            NodeState::Quarantined { left, .. } => Some(*left),
            _ => None,
        });
        let (count, all) = (quarantined.clone().count(), self.members.nodes.len());
        let longest = quarantined.max().map(|longest| {
            format!("{count} of {all} nodes are quarantined, and vote on no claim for up to another {}", left(longest))
        });
        kept_out.into_iter().chain(longest)
    }

    fn json(&self) -> Value {
        let differs: Vec<_> = match self.members.agreement() {
            Agreement::But(nodes) => nodes.iter().map(|node| &*self.members.nodes[node].node).collect(),
            _ => Vec::new(),
        };
        json!({
            "nodes": self.members.nodes.iter().map(|node| self.node_json(node)).collect::<Vec<_>>(),
            "verdict": if self.quorum_answers() { word(self.members.agreement()) } else { "unknown" },
            "votes": self.standing(),
            "differs": differs,
            "sentence": self.sentence(),
            "warnings": self.warnings().collect::<Vec<_>>(),
        })
    }

    fn node_json(&self, node: &NodeMembers) -> Value {
        let roster = node.roster.as_ref().ok();
        let address = |run: &String| {
            self.members.nodes.iter().find(|node| node.run.as_ref() == Some(run)).map(|node| &*node.node)
        };
        let servers =
            |it: &Roster| it.servers.iter().map(|run| json!({ "run": run, "node": address(run) })).collect::<Vec<_>>();
        json!({
            "node": &*node.node,
            "run": node.run,
            "why": node.roster.as_ref().err(),
            "n": roster.map(|it| it.nodes),
            "protocol": roster.map(|it| it.protocol),
            "servers": roster.map(servers),
            "lasts_ms": roster.map(|it| milliseconds(it.lasts)),
            "max_ttl_ms": roster.map(|it| milliseconds(it.max_ttl)),
            "retired_ms": roster.and_then(|it| it.retired).map(milliseconds),
            "knows_tokens": node.taught,
        })
    }
}

/// What one roster has.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct List {
    nodes: u32,
    protocol: u32,
    servers: Vec<String>,
}

impl List {
    fn of(roster: &Roster) -> Self {
        Self { nodes: roster.nodes, protocol: roster.protocol, servers: roster.servers.clone() }
    }
}

fn row(node: &NodeMembers, lists: &BTreeMap<List, char>) -> Vec<String> {
    let dash = || "-".to_owned();
    let run = node.run.as_deref().map_or_else(dash, short);
    let address = node.node.split_once("://").map_or(&*node.node, |(_, rest)| rest).to_owned();
    let Ok(roster) = &node.roster else { return vec![address, run, "?".to_owned(), dash(), dash(), dash()] };
    let letter = lists.get(&List::of(roster)).map_or_else(dash, char::to_string);
    let list = if roster.retired.is_some() { red(&format!("{letter} retired")) } else { letter };
    let times = [roster.lasts, roster.max_ttl].map(|time| if time.is_zero() { dash() } else { shown(time) });
    let known = match node.taught {
        Some(true) => "known",
        Some(false) => "unknown",
        None => "?",
    };
    let [lasts, most] = times;
    vec![address, run, list, lasts, most, known.to_owned()]
}

/// What else is to be said of a node.
fn remark(node: &NodeMembers) -> Option<String> {
    match &node.roster {
        Err(why) => Some(format!("{}: {why}", node.node)),
        Ok(roster) => roster.retired.map(|since| {
            let node = &node.node;
            format!("{node}: retired {} ago; `quorumlock members reset {node}` takes that back", shown(since))
        }),
    }
}

const fn differ(many: usize) -> &'static str {
    if many == 1 { "differs" } else { "differ" }
}

/// For programs.
const fn word(agreement: Agreement) -> &'static str {
    match agreement {
        Agreement::Nobody => "nobody",
        Agreement::One => "one",
        Agreement::But(_) => "but",
        _ => "several",
    }
}

/// Enough of a run id to find the server by its `INFO`.
fn short(run: &str) -> String {
    run.chars().take(8).chain("..".chars()).collect()
}
