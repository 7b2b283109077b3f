//! `quorumlock members show`: each node's roster, and whether all have one list.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use quorumlock::quorum::roster::{Agreement, Roster};
use quorumlock::{Members, NodeMembers};
use serde_json::{Value, json};

use super::FAREWELL;
use crate::cli::Show;
use crate::duration::{left, show as shown};
use crate::failure::{Outcome, UNAVAILABLE};
use crate::output::{self, green, red, yellow};
use crate::settings::Settings;
use crate::status::milliseconds;

/// A check failed.
const DIFFERS: u8 = 1;

pub(super) async fn show(args: Show) -> Outcome {
    let quorum = Settings::with_nodes(&args.nodes)?.onlooker().open()?;
    let seen = Seen(quorum.members().await?);
    if args.json {
        output::say(&seen.json().to_string())?;
    } else {
        seen.lines().iter().try_for_each(|line| output::say(line))?;
    }
    quorum.shutdown(FAREWELL).await;
    Ok(ExitCode::from(seen.code()))
}

struct Seen(Members);

impl Seen {
    fn told(&self) -> impl Iterator<Item = (&NodeMembers, &Roster)> {
        self.0.nodes.iter().filter_map(|node| Some((node, node.roster.as_ref().ok()?)))
    }

    fn quorum_answers(&self) -> bool {
        2 * self.told().count() > self.0.nodes.len()
    }

    fn silent(&self) -> usize {
        self.0.nodes.len() - self.told().count()
    }

    /// Whether those that were not retired are no quorum.
    fn too_many_retired(&self) -> bool {
        let retired = self.told().filter(|(_, roster)| roster.retired.is_some()).count();
        2 * (self.0.nodes.len() - retired) <= self.0.nodes.len()
    }

    fn code(&self) -> u8 {
        match self.0.agreement() {
            _ if !self.quorum_answers() || self.too_many_retired() => UNAVAILABLE,
            _ if self.silent() > 0 && self.0.agreement() == Agreement::Nobody => DIFFERS,
            Agreement::One | Agreement::Nobody => 0,
            Agreement::But(_) | Agreement::Several => DIFFERS,
        }
    }

    fn lines(&self) -> Vec<String> {
        let lists = self.lists();
        let rows: Vec<_> = self.0.nodes.iter().map(|node| row(node, &lists)).collect();
        let mut lines = output::table(&["node", "run", "list", "lasts", "max ttl", "tokens"], &rows);
        lines.push(String::new());
        let mut letters: Vec<_> = lists.iter().collect();
        letters.sort_unstable_by_key(|(_, letter)| **letter);
        lines.extend(letters.into_iter().map(|(list, letter)| self.list_line(list, *letter)));
        lines.extend(self.0.nodes.iter().filter_map(remark).map(|remark| yellow(&remark)));
        let colour = if self.code() == 0 { green } else { red };
        lines.push(colour(&self.sentence()));
        lines.extend(self.against_this_one().map(|warning| yellow(&format!("warning: {warning}"))));
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
        let servers: Vec<_> = runs.into_iter().map(|run| self.known(run)).collect();
        format!("list {letter}, of {} nodes, protocol {}: {}", list.nodes, list.protocol, servers.join(", "))
    }

    /// Where a server stands in the list that was given here; behind all others if it does not.
    fn place(&self, run: &str) -> usize {
        let place = self.0.nodes.iter().position(|node| node.run.as_deref() == Some(run));
        place.unwrap_or(self.0.nodes.len())
    }

    /// A server as people know it.
    fn known(&self, run: &str) -> String {
        let node = self.0.nodes.iter().find(|node| node.run.as_deref() == Some(run));
        node.map_or_else(|| format!("{} (none of these nodes)", short(run)), |node| node.node.to_string())
    }

    fn sentence(&self) -> String {
        if !self.quorum_answers() {
            return "no quorum of nodes tells its roster".to_owned();
        }
        if self.too_many_retired() {
            return "no quorum of nodes votes: too many were retired".to_owned();
        }
        match self.0.agreement() {
            Agreement::One => "the nodes have one list".to_owned(),
            Agreement::Nobody if self.silent() > 0 => {
                format!("nobody has a list on the nodes that told; {} did not", self.silent())
            }
            Agreement::Nobody => {
                "nobody has a list: no client is enrolled, and clients of any list may come".to_owned()
            }
            Agreement::Several => format!(
                "the nodes have several lists: give all clients the same list, or stop those of all others and wait \
                 {} after the last has stopped",
                left(self.binds())
            ),
            Agreement::But(nodes) => {
                let names: Vec<_> = nodes.iter().map(|node| &*self.0.nodes[node].node).collect();
                let empty =
                    nodes.iter().all(|node| matches!(&self.0.nodes[node].roster, Ok(it) if it.servers.is_empty()));
                format!("{} {} from the others: {}", names.join(" and "), differ(names.len()), self.what_to_do(empty))
            }
        }
    }

    fn what_to_do(&self, empty: bool) -> String {
        match empty {
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

    /// Where the list that was given here is another one.
    fn against_this_one(&self) -> Option<String> {
        let given = self.0.nodes.len();
        let (node, roster) = self.told().find(|(_, it)| !it.servers.is_empty() && it.nodes as usize != given)?;
        Some(format!("clients of {} have a list of {} nodes; the one given here has {given}", node.node, roster.nodes))
    }

    fn json(&self) -> Value {
        let differs: Vec<_> = match self.0.agreement() {
            Agreement::But(nodes) => nodes.iter().map(|node| &*self.0.nodes[node].node).collect(),
            _ => Vec::new(),
        };
        json!({
            "nodes": self.0.nodes.iter().map(|node| self.node_json(node)).collect::<Vec<_>>(),
            "verdict": word(self.0.agreement()),
            "differs": differs,
            "sentence": self.sentence(),
        })
    }

    fn node_json(&self, node: &NodeMembers) -> Value {
        let roster = node.roster.as_ref().ok();
        let address =
            |run: &String| self.0.nodes.iter().find(|node| node.run.as_ref() == Some(run)).map(|node| &*node.node);
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
        Agreement::Several => "several",
    }
}

/// Enough of a run id to find the server by its `INFO`.
fn short(run: &str) -> String {
    run.chars().take(8).chain("..".chars()).collect()
}
