//! `quorumlock members`: for each node, the list in force and the servers behind the node's name.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use quorumlock::{InForce, NodeMembers, NodeState, OldAtOnce, Record};
use serde_json::{Value, json};

use crate::cli::Members;
use crate::duration::{left, show};
use crate::failure::{Outcome, UNAVAILABLE, USAGE};
use crate::lists::{Lists, Whose, described};
use crate::output::{self, dash, green, milliseconds, red, yellow};
use crate::settings::Settings;
use crate::status::{silent, wait, waits};

/// The library's connect timeout. This timeout can be short, because `wait` has waited for slow
/// nodes before.
const WAITED: Duration = Duration::from_millis(1);
/// How long to wait until connections are closed.
const FAREWELL: Duration = Duration::from_millis(500);
/// The exit code if lists differ, or two servers are behind one name.
const DIFFERS: u8 = 1;

pub(crate) async fn members(args: Members) -> Outcome {
    let settings = Settings::with_nodes(&args.nodes)?;
    let quorum = settings.onlooker()?.connect_timeout(WAITED).open()?;
    let members = async {
        wait(&quorum, args.nodes.connect_timeout).await;
        quorum.members().await
    };
    let mut members = output::telling(members, async { waits(&quorum) }).await?;
    let nodes = quorum.nodes();
    silent(&mut members, &nodes, args.nodes.connect_timeout);
    let duplicate = nodes.iter().any(|node| matches!(node.state, NodeState::Duplicate { .. }));
    let own = settings.own_list(members.nodes.iter().map(|node| &*node.name));
    let seen = Seen { nodes: &members.nodes, lists: Lists::of_members(&own, &members), says: own.says(), duplicate };
    let text = if args.json { seen.json().to_string() } else { seen.lines().join("\n") };
    output::say(&text).await?;
    quorum.shutdown(FAREWELL).await;
    Ok(ExitCode::from(seen.verdict().code()))
}

/// The result of comparing all records. If several variants apply, the first one is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// One server is behind two names. `run` and the library refuse to start with such nodes.
    Duplicate,
    /// No quorum of nodes answers.
    Unknown,
    /// Two servers are behind one name.
    TwoServers,
    /// Another list is in force on some node.
    Other,
    /// This client's list is in force, and no other list.
    This,
    Nothing,
}

impl Verdict {
    const fn code(self) -> u8 {
        match self {
            Self::Duplicate => USAGE,
            Self::Unknown => UNAVAILABLE,
            Self::TwoServers | Self::Other => DIFFERS,
            Self::This | Self::Nothing => 0,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Duplicate => "duplicate",
            Self::Unknown => "unknown",
            Self::TwoServers => "two_servers",
            Self::Other => "other",
            Self::This => "this",
            Self::Nothing => "none",
        }
    }
}

struct Seen<'a> {
    nodes: &'a [NodeMembers],
    lists: Lists<'a>,
    /// The list of nodes in this command's settings, in the form of the records.
    says: &'a str,
    duplicate: bool,
}

impl Seen<'_> {
    fn verdict(&self) -> Verdict {
        let told = self.nodes.iter().filter(|node| node.record.is_ok()).count();
        let has = |whose| !self.lists.with(whose).is_empty();
        if self.duplicate {
            Verdict::Duplicate
        } else if 2 * told <= self.nodes.len() {
            Verdict::Unknown
        } else if !self.lists.shared_names().is_empty() {
            Verdict::TwoServers
        } else if has(Whose::Rival) || has(Whose::Foreign) {
            Verdict::Other
        } else if has(Whose::Own) {
            Verdict::This
        } else {
            Verdict::Nothing
        }
    }

    fn lines(&self) -> Vec<String> {
        let others = self.others();
        let rows: Vec<_> = (0..self.nodes.len()).map(|node| self.row(node, &others)).collect();
        let mut lines = output::table(&["node", "list", "for", "left", "record", "servers"], &rows);
        lines.push(String::new());
        lines.push(format!("this list: {}", described(self.says)));
        lines.extend(others.iter().map(|(says, letter)| format!("list {letter}: {}", described(says))));
        let remarks = output::same_once(self.nodes.iter().filter_map(remark)).into_iter();
        lines.extend(remarks.map(|(nodes, remark)| yellow(&format!("{nodes}: {remark}"))));
        lines.extend(self.lists.shared_names().into_iter().map(|node| red(&self.two_servers(node))));
        let colour = if self.verdict().code() == 0 { green } else { red };
        lines.push(colour(&self.sentence()));
        lines
    }

    /// The lists in force that are not this client's list, each with a letter.
    fn others(&self) -> BTreeMap<&str, char> {
        let mut others = BTreeMap::new();
        for (in_force, whose) in (0..self.nodes.len()).filter_map(|node| self.lists.at(node)) {
            let next = char::from(b'A' + u8::try_from(others.len().min(25)).unwrap_or(25));
            if whose != Whose::Own {
                others.entry(&*in_force.says).or_insert(next);
            }
        }
        others
    }

    fn row(&self, node: usize, others: &BTreeMap<&str, char>) -> Vec<String> {
        let members = &self.nodes[node];
        let list = |(in_force, whose): (&InForce, Whose)| match whose {
            Whose::Own => green("this"),
            _ => red(&others.get(&*in_force.says).map_or_else(dash, char::to_string)),
        };
        let in_force = self.lists.at(node);
        let [since, left] = [in_force.map(|(it, _)| show(it.age)), in_force.map(|(it, _)| left(it.left))];
        let record = match &members.record {
            Err(_) => "?".to_owned(),
            Ok(None) => dash(),
            Ok(Some(record)) => record.word.map_or_else(|| show(record.age), |word| of_word(word).to_owned()),
        };
        let servers = self.lists.servers(node).len();
        let servers = if servers > 1 { red(&servers.to_string()) } else { servers.to_string() };
        let [since, left] = [since, left].map(|time| time.unwrap_or_else(dash));
        vec![label(members), in_force.map_or_else(dash, list), since, left, record, servers]
    }

    fn two_servers(&self, node: usize) -> String {
        let ids: Vec<_> = self.lists.servers(node).into_iter().collect();
        format!("clients meet two servers behind the name {}, with the ids {}", self.nodes[node].name, ids.join(", "))
    }

    fn sentence(&self) -> String {
        let (own, all) = (self.lists.with(Whose::Own).len(), self.nodes.len());
        match self.verdict() {
            Verdict::Duplicate => "one server is behind two addresses, which `quorumlock run` refuses".to_owned(),
            Verdict::Unknown => "no quorum of nodes answers".to_owned(),
            Verdict::TwoServers => {
                "a name with two servers has no vote: wait for max_ttl, then stop the wrong server, or correct its address".to_owned()
            }
            Verdict::Other => self.lists.any_conflict().unwrap_or_default(),
            Verdict::This => format!("this list is in force on {own} of {all} nodes"),
            Verdict::Nothing => "no list is in force: clients of any list may come".to_owned(),
        }
    }

    fn json(&self) -> Value {
        json!({
            "nodes": (0..self.nodes.len()).map(|node| self.node_json(node)).collect::<Vec<_>>(),
            "list": self.says,
            "verdict": self.verdict().word(),
            "sentence": self.sentence(),
        })
    }

    fn node_json(&self, node: usize) -> Value {
        let members = &self.nodes[node];
        let record = members.record.as_ref().ok().and_then(Option::as_ref);
        let list = self.lists.at(node).map(|(in_force, whose)| {
            json!({
                "says": &*in_force.says,
                "this": whose == Whose::Own,
                "for_ms": milliseconds(in_force.age),
                "left_ms": milliseconds(in_force.left),
            })
        });
        json!({
            "node": &*members.node,
            "name": &*members.name,
            "run": members.run,
            "why": members.record.as_ref().err(),
            "record": record.map(of_record),
            "list": list,
            "servers": self.lists.servers(node),
        })
    }
}

fn of_record(record: &Record) -> Value {
    let (age, old) = (milliseconds(record.age), record.word.map(of_word));
    json!({ "id": &*record.id, "age_ms": age, "old_at_once": old, "synced": record.synced })
}

/// Why a node with a new record voted at once. The table shows this reason in place of the record's
/// age.
const fn of_word(word: OldAtOnce) -> &'static str {
    match word {
        OldAtOnce::Init => "init",
        OldAtOnce::FirstUse => "first use",
    }
}

/// The node's address, and the node's name if it differs from the address.
fn label(members: &NodeMembers) -> String {
    let address = members.node.split_once("://").map_or(&*members.node, |(_, rest)| rest);
    if address == &*members.name { address.to_owned() } else { format!("{} ({address})", members.name) }
}

/// A remark about a node, below the table.
fn remark(members: &NodeMembers) -> Option<(&str, String)> {
    let remark = match &members.record {
        Err(why) => why.clone(),
        Ok(None) => "no record: no client has used it since it started empty or lost its data".to_owned(),
        Ok(Some(record)) if !record.synced => {
            "it does not know the highest granted token; clients send it when its quarantine ends".to_owned()
        }
        Ok(Some(_)) => return None,
    };
    Some((&members.node, remark))
}
