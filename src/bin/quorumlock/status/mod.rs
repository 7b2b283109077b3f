//! `quorumlock status`: how the nodes are, and who holds a name.

mod all;
mod permits;
pub(crate) mod verdict;
mod waiting;

use std::collections::{BTreeSet, HashSet};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use quorumlock::{Agreement, Error, Inspected, Inspection, NodeSet, NodeState, NodeStatus, Quorum, Roster};
use serde_json::{Value, json};

use crate::cli::Status;
use crate::duration::{exact, left as time_left, show};
use crate::failure::{Outcome, UNAVAILABLE};
use crate::output::{self, bold, green, red, yellow};
use crate::settings::Settings;
pub(crate) use permits::Permits;
use verdict::Verdict;

/// How long to wait for a quorum, unless told otherwise: nodes that are up take milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long to wait for nodes that are far away or hang, until it is known which.
const FAR: Duration = Duration::from_secs(10);
/// The library's default.
pub(crate) const MAX_TTL: Duration = Duration::from_secs(60);
/// How long to wait for rosters to be told by themselves; then they are asked for.
const ROSTERS: Duration = Duration::from_millis(500);
/// What is told of a name that is held for a period.
const ONCE: &str = "; it is something that is done once in a period: it was done, or is being done";
/// How much is shown of what a holder says: values of leaders may be long.
const SAID: usize = 256;
/// Asked about where no name is given, to measure a round trip. Nobody is harmed by who holds it.
pub(crate) const PROBE: &str = "quorumlock status";

pub(crate) async fn status(args: Status) -> Outcome {
    let settings = Settings::with_nodes(&args.nodes)?;
    let quorum = settings.onlooker()?.open()?;
    let (asked, max_ttl) = (args.name.as_deref().unwrap_or(PROBE), settings.max_ttl.unwrap_or(MAX_TTL));
    match args.wait {
        Some(time) => {
            let votes = waiting::until_a_quorum_votes(&quorum, asked, max_ttl, time);
            output::telling(votes, async { waiting::waits(&quorum, time) }).await?;
        }
        None => output::telling(wait(&quorum, settings.connect_timeout), async { waits(&quorum) }).await,
    }
    if args.all {
        return all::all(&quorum, args.limit, args.json).await;
    }
    let looked = look(&quorum, args.name, max_ttl);
    let seen = output::telling(looked, async { waits(&quorum) }).await?;
    let code = seen.verdict().code();
    if args.json {
        output::say(&seen.json().to_string())?;
    } else {
        seen.lines().iter().try_for_each(|line| output::say(line))?;
    }
    if let Some(time) = args.wait.filter(|_| code == UNAVAILABLE) {
        output::note(&format!("no quorum of nodes voted within {}", exact(time)));
    }
    quorum.shutdown(Duration::ZERO).await;
    Ok(ExitCode::from(code))
}

/// Asks all nodes.
async fn look(quorum: &Quorum, name: Option<String>, max_ttl: Duration) -> Result<Seen, Error> {
    let inspected = quorum.inspect(name.as_deref().unwrap_or(PROBE)).await?;
    let permits = match &name {
        Some(name) => Permits::look(quorum, name, &inspected).await?,
        None => None,
    };
    Ok(Seen { nodes: nodes(quorum).await?, inspected, permits, name, max_ttl })
}

/// The nodes with their rosters. Those that have not told them by themselves are asked.
pub(crate) async fn nodes(quorum: &Quorum) -> Result<Vec<NodeStatus>, Error> {
    let mut nodes = quorum.nodes();
    if nodes.iter().any(|node| node.run.is_some() && node.roster.is_none()) {
        let members = quorum.members().await?;
        let told = members.nodes.into_iter().map(|member| member.roster.ok());
        nodes.iter_mut().zip(told).for_each(|(node, roster)| node.roster = node.roster.take().or(roster));
    }
    Ok(nodes)
}

pub(crate) fn waits(quorum: &Quorum) -> String {
    let slow = output::explained_once(quorum.nodes().iter().filter(|node| !node.state.is_admitted()).map(told));
    format!(
        "waiting for the nodes; {}",
        if slow.is_empty() { "one is slow to answer".to_owned() } else { slow.join("; ") }
    )
}

/// A node and its state, as a part of a sentence.
pub(crate) fn told(node: &NodeStatus) -> String {
    format!("{} is {}", node.node, node.state)
}

/// Waits until it is known how the nodes are. What keeps them from being ready is told by each.
pub(crate) async fn wait(quorum: &Quorum, told: Option<Duration>) {
    let _ = quorum.ready(told.unwrap_or(PATIENCE)).await;
    let end = Instant::now() + FAR;
    while told.is_none() && connecting(quorum) && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Rosters are asked for once there is a connection.
    let untold = || quorum.nodes().iter().any(|node| node.state.is_admitted() && node.roster.is_none());
    let end = Instant::now() + ROSTERS;
    while untold() && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Whether it is not known yet how some node is.
fn connecting(quorum: &Quorum) -> bool {
    quorum.nodes().iter().any(|node| matches!(node.state, NodeState::Connecting | NodeState::Waiting { .. }))
}

/// What was seen of the nodes and of a name.
struct Seen {
    nodes: Vec<NodeStatus>,
    inspected: Inspected,
    /// Where it is the name of a semaphore.
    permits: Option<Permits>,
    name: Option<String>,
    max_ttl: Duration,
}

impl Seen {
    fn verdict(&self) -> Verdict<'_> {
        Verdict::new(&self.nodes, &self.inspected, self.max_ttl)
    }

    fn lines(&self) -> Vec<String> {
        // Fits into 80 columns where nothing is wrong: what is long has lines of its own below.
        let heading: &[_] = match self.name {
            Some(_) => &["node", "holder", "left", "fence", "waiting", "state"],
            None => &["node", "round trip", "version", "uptime", "state"],
        };
        let verdict = self.verdict();
        let labels = labels(&self.nodes).into_iter().enumerate();
        let rows: Vec<_> = labels.map(|(index, label)| self.row(&verdict, label, index)).collect();
        let mut lines = output::table(heading, &rows);
        lines.push(String::new());
        // Why rosters keep the whole list out is told once, below.
        let told = |why: &String| verdict.kept_out().is_none() || !why.contains("unlisted: ");
        let whys =
            self.nodes.iter().enumerate().filter_map(|(index, node)| {
                Some(format!("{}: {}", node.node, why(&verdict, index, node).filter(told)?))
            });
        lines.extend(output::explained_once(whys).iter().map(|why| yellow(why)));
        let colour = if verdict.can_acquire() { green } else { red };
        lines.push(colour(&verdict.sentence()));
        lines.push(self.clients());
        lines.extend(verdict.warnings().iter().map(|warning| yellow(&format!("warning: {warning}"))));
        if let Some(name) = &self.name {
            lines.push(self.holding(name));
            lines.extend(says(&self.inspected));
            lines.extend(self.permits.iter().flat_map(|permits| permits.lines(name)));
            lines.extend(line(&self.inspected));
        }
        lines
    }

    /// What clients have in common, as rosters tell.
    fn clients(&self) -> String {
        let rosters: Vec<_> = self.nodes.iter().map(NodeStatus::latest).collect();
        let (told, all) = (rosters.iter().flatten().count(), self.nodes.len());
        let (agreed, differs) = match Agreement::of(&self.nodes) {
            _ if told < self.verdict().quorum() => {
                return format!(
                    "nobody knows which clients use these nodes: {told} of {all} told it, so mend the others first"
                );
            }
            Agreement::Nobody => return "no client is enrolled".to_owned(),
            Agreement::One => ("one list", NodeSet::default()),
            Agreement::But(these) => ("one list", these),
            _ => ("several lists", NodeSet::default()),
        };
        let labels: Vec<_> = differs.iter().map(|node| &*self.nodes[node].node).collect();
        let differing = match labels.as_slice() {
            [] => String::new(),
            [one] => format!("; the roster of {one} differs"),
            some => format!("; the rosters of {} differ", some.join(", ")),
        };
        let all = || rosters.iter().flatten().filter(|roster| roster.nodes > 0);
        let longest = all().map(|roster| roster.max_ttl).max().unwrap_or_default();
        let theirs = rosters.iter().enumerate().filter(|(node, _)| !differs.contains(*node));
        let theirs = Some(kinds(theirs.filter_map(|(_, roster)| *roster)));
        // Each may have a part of the list only.
        let kinds = theirs.filter(|kinds| !kinds.is_empty()).unwrap_or_else(|| kinds(all().copied()));
        // Who is not enrolled yet has not told any.
        let locks = if longest.is_zero() { String::new() } else { format!(", and locks of up to {}", exact(longest)) };
        format!("clients have {agreed} {kinds}{locks}{differing}")
    }

    fn row(&self, verdict: &Verdict<'_>, label: &str, index: usize) -> Vec<String> {
        let (node, said) = (&self.nodes[index], &self.inspected.nodes[index].1);
        let mut row = vec![label.to_owned()];
        if self.name.is_some() {
            row.extend(holder_cells(node.state == NodeState::Up && verdict.counts(index), said));
        } else {
            let [round_trip, uptime] = [node.round_trip, node.uptime].map(|time| time.map_or_else(dash, show));
            row.extend([round_trip, node.version.clone().unwrap_or_else(dash), uptime]);
        }
        let refused = verdict.refusal(index).map(|_| red("no vote"));
        row.push(refused.unwrap_or_else(|| in_short(node)));
        row
    }

    fn holding(&self, name: &str) -> String {
        match (self.agreed(), self.inspected.holder()) {
            (_, Some(holder)) => {
                let revoked =
                    if self.inspected.revoked() { "; it was revoked, and is not renewed any more" } else { "" };
                let holder = with_readers(&self.inspected, holder);
                let fence = self.inspected.fence();
                let once = if self.inspected.is_once() { ONCE } else { "" };
                format!("{} is held by {holder}, token at most {fence}{revoked}{once}", bold(&shown(name)))
            }
            (Some(_), None) if self.any_permit() => {
                let (name, few, fence) = (bold(&shown(name)), left_over(&self.inspected), self.inspected.fence());
                format!(
                    "{name} is a semaphore, of which permits are held{few}; its gate's tokens so far are at most {fence}"
                )
            }
            (Some(_), None) => {
                let (name, few, fence) = (bold(&shown(name)), left_over(&self.inspected), self.inspected.fence());
                format!("{name} is free{few}; its tokens so far are at most {fence}")
            }
            (None, None) => self.unknown(name),
        }
    }

    /// Whether a quorum names who holds some permit of it.
    fn any_permit(&self) -> bool {
        let held = self.permits.iter().flat_map(|permits| &permits.held);
        held.into_iter().any(|(_, seen)| seen.holder().is_some())
    }

    /// Whether it is held, as a quorum of nodes has it. Only where a quorum votes is it known to be
    /// free.
    fn agreed(&self) -> Option<bool> {
        self.inspected.agreed().filter(|held| *held || self.verdict().quorum_knows())
    }

    /// Nobody can tell who holds the name: too few nodes vote, or votes are split for a moment.
    fn unknown(&self, name: &str) -> String {
        let name = shown(name);
        if self.inspected.is_conclusive() && self.verdict().quorum_knows() {
            return yellow(&format!("{name}: no quorum of nodes names the same holder; look again"));
        }
        let (votes, all) = (self.verdict().votes(), self.nodes.len());
        let known = known(&self.inspected);
        red(&format!("{name}: nobody can tell who holds it; {votes} of {all} nodes vote, which is no quorum{known}"))
    }

    fn json(&self) -> Value {
        let verdict = self.verdict();
        let nodes: Vec<_> = (0..self.nodes.len()).map(|index| self.node_json(&verdict, index)).collect();
        let mut object = json!({
            "nodes": nodes,
            "quorum": verdict.quorum(),
            "votes": verdict.votes(),
            "quorum_votes": verdict.can_acquire(),
            "refused": verdict.kept_out(),
            "warnings": verdict.warnings(),
        });
        if let Some(name) = &self.name {
            object["name"] = json!(name);
            object["agreed"] = json!(self.agreed().is_some());
            object["held"] = json!(self.agreed().map(|held| held || self.any_permit()));
            object["holder"] = json!(self.inspected.holder());
            object["revoked"] = json!(self.inspected.revoked());
            object["fence"] = json!(self.inspected.fence());
            object["remaining_ms"] = json!(self.remaining().map(milliseconds));
            object["count"] = json!(self.held().map(|said| said.count).max());
            object["waiting"] = json!(waiting(&self.inspected));
            object["turn"] = json!(turn(&self.inspected));
            object["once"] = json!(self.inspected.is_once());
            object["permits"] = json!(self.inspected.permits());
            object["permits_held"] = json!(self.permits.as_ref().map(Permits::json));
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
            "counts": verdict.counts(index),
            "listed": node.listed,
            "roster": node.roster.as_ref().map(|roster| json!({
                "n": roster.nodes,
                "protocol": roster.protocol,
                "max_ttl_ms": milliseconds(roster.max_ttl),
                "servers": roster.servers.len(),
                "lasts_ms": milliseconds(roster.lasts),
                "retired_ms": roster.retired.map(milliseconds),
            })),
        });
        if let (Some(_), Ok(said)) = (&self.name, said) {
            object["holder"] = json!(said.holder);
            object["revoked"] = json!(said.revoked);
            object["count"] = json!(said.count);
            object["remaining_ms"] = json!(said.remaining.map(milliseconds));
            object["fence"] = json!(said.fence);
            object["waiting"] = json!(said.waiting);
            object["turn"] = json!(said.turn.as_ref().map(|(who, _)| who));
            object["turn_ms"] = json!(said.turn.as_ref().map(|(_, left)| milliseconds(*left)));
        }
        object
    }

    /// What those nodes say that agree on the holder.
    fn held(&self) -> impl Iterator<Item = &Inspection> {
        let holder = self.inspected.holder();
        said(&self.inspected).filter(move |said| holder.is_some() && said.holder.as_deref() == holder)
    }

    /// For how long a quorum of nodes still has the holder: it ends when the first node too many
    /// forgets it.
    fn remaining(&self) -> Option<Duration> {
        let mut left: Vec<_> = self.held().filter_map(|said| said.remaining).collect();
        left.sort_unstable();
        left.iter().rev().nth(self.verdict().quorum() - 1).copied()
    }
}

/// How long the lists of these rosters are, and by which protocols they are used.
fn kinds<'a>(rosters: impl Iterator<Item = &'a Roster>) -> String {
    let kinds: BTreeSet<_> = rosters.filter(|it| it.nodes > 0).map(|it| (it.nodes, it.protocol)).collect();
    let kind = |(nodes, protocol)| format!("of {nodes} nodes by protocol {protocol}");
    kinds.into_iter().map(kind).collect::<Vec<_>>().join(", ")
}

/// What keeps a node from voting, or from answering.
fn why(verdict: &Verdict<'_>, index: usize, node: &NodeStatus) -> Option<String> {
    verdict.refusal(index).map(|refused| format!("{}, but {refused}", word(&node.state))).or_else(|| {
        match &node.state {
            NodeState::Up => None,
            NodeState::Connecting => Some("connecting: not done yet; --connect-timeout waits longer for it".to_owned()),
            state => Some(state.to_string()),
        }
    })
}

/// Holder, time left, fence, and how many wait.
fn holder_cells(votes: bool, said: &Result<Inspection, String>) -> [String; 4] {
    // Who may have forgotten a holder, or never knew of one, does not know that there is none.
    let nobody = if votes { "free" } else { "?" };
    match said {
        Err(_) => ["?".to_owned(), dash(), dash(), dash()],
        Ok(said) => {
            let nobody = if said.permits.is_some() && votes { "gate free" } else { nobody };
            let holder = said.holder.as_deref().map_or_else(|| nobody.to_owned(), cut);
            let holder =
                if said.count > 1 && said.holder.is_some() { format!("{holder} x{}", said.count) } else { holder };
            [holder, said.remaining.map_or_else(dash, show), said.fence.to_string(), said.waiting.to_string()]
        }
    }
}

/// The nodes' addresses, without the scheme where all have the same.
fn labels(nodes: &[NodeStatus]) -> Vec<&str> {
    let parts = || nodes.iter().map(|node| node.node.split_once("://").unwrap_or(("", &node.node)));
    let schemes: HashSet<_> = parts().map(|(scheme, _)| scheme).collect();
    if schemes.len() > 1 {
        return nodes.iter().map(|node| &*node.node).collect();
    }
    parts().map(|(_, rest)| rest).collect()
}

/// What the holder says of itself, and for how long it has held the name.
fn says(inspected: &Inspected) -> Option<String> {
    let told = inspected.description()?;
    let since = show(told.since);
    Some(match &*told.says {
        "" => format!("it has been held for {since}"),
        says => format!("its holder says \"{}\", and has held it for {since}", shown(&shortened_to(says, SAID))),
    })
}

/// The same for programs.
fn describe(object: &mut Value, inspected: &Inspected) {
    let told = inspected.description();
    object["says"] = json!(told.map(|told| &*told.says));
    object["held_for_ms"] = json!(told.map(|told| milliseconds(told.since)));
    object["token"] = json!(told.map(|told| told.token));
}

/// How many wait in the queue of the node that knows of the most. All of one process that wait for
/// a name count as one.
fn waiting(inspected: &Inspected) -> u32 {
    said(inspected).map(|said| said.waiting).max().unwrap_or(0)
}

/// Whose turn it is, by most nodes.
fn turn(inspected: &Inspected) -> Option<&str> {
    let turns = || said(inspected).filter_map(|said| Some(&*said.turn.as_ref()?.0));
    turns().max_by_key(|turn| turns().filter(|other| other == turn).count())
}

fn said(inspected: &Inspected) -> impl Iterator<Item = &Inspection> {
    inspected.nodes.iter().filter_map(|(_, said)| said.as_ref().ok())
}

/// For how long any node still has it.
fn left(inspected: &Inspected) -> Option<Duration> {
    said(inspected).filter_map(|said| said.remaining).max()
}

/// Who waits, in words; nothing if nobody does.
pub(crate) fn line(inspected: &Inspected) -> Option<String> {
    let (waiting, turn) = (waiting(inspected), turn(inspected));
    let whose = turn.map(|turn| format!("it is the turn of {}", shortened(turn)));
    let many = (waiting > 0).then(|| format!("{waiting} {} in the queue", if waiting == 1 { "waits" } else { "wait" }));
    let both: Vec<_> = [many, whose].into_iter().flatten().collect();
    (!both.is_empty()).then(|| both.join("; "))
}

/// `host/pid/1a2b3c4d..`: enough to tell owners apart in a table.
fn shortened(holder: &str) -> String {
    shortened_to(holder, 28)
}

fn shortened_to(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.to_owned(),
    }
}

/// `machin..c9/12.0`: enough to tell owners apart in a table, by how they begin and end.
fn cut(holder: &str) -> String {
    let characters: Vec<_> = holder.chars().collect();
    match characters.len() {
        0..=18 => holder.to_owned(),
        length => characters[..6].iter().chain(&['.', '.']).chain(&characters[length - 10..]).collect(),
    }
}

fn in_short(node: &NodeStatus) -> String {
    coloured(
        node,
        &match node.state {
            NodeState::Quarantined { left: time, .. } => format!("quarantined {}", time_left(time)),
            _ => word(&node.state).to_owned(),
        },
    )
}

pub(crate) fn state(node: &NodeStatus) -> String {
    coloured(node, &node.state.to_string())
}

fn coloured(node: &NodeStatus, text: &str) -> String {
    match node.state {
        NodeState::Up => green(text),
        NodeState::Quarantined { .. } | NodeState::Waiting { .. } | NodeState::Connecting => yellow(text),
        _ => red(text),
    }
}

/// The state in one word, for programs.
pub(crate) const fn word(state: &NodeState) -> &'static str {
    match state {
        NodeState::Up => "up",
        NodeState::Quarantined { .. } => "quarantined",
        NodeState::Connecting => "connecting",
        NodeState::Waiting { .. } => "waiting",
        NodeState::Down { .. } => "down",
        NodeState::Replica => "replica",
        NodeState::Cluster => "cluster",
        NodeState::Unlisted { .. } => "unlisted",
        NodeState::Duplicate { .. } => "duplicate",
        _ => "other",
    }
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    // Microseconds are as exact as clocks are.
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn dash() -> String {
    "-".to_owned()
}

/// A name as it is told on a terminal: it may hold anything.
fn shown(name: &str) -> String {
    name.escape_debug().to_string()
}

/// Whom single nodes name that do not decide, as the end of a sentence.
fn known(inspected: &Inspected) -> String {
    let holders: Vec<_> = named(inspected).into_iter().collect();
    if holders.is_empty() { String::new() } else { format!("; of a holder they know {}", holders.join(" and ")) }
}

/// Whom any node names.
pub(crate) fn named(inspected: &Inspected) -> BTreeSet<&str> {
    said(inspected).filter_map(|said| said.holder.as_deref()).collect()
}

/// Whom too few nodes name for a quorum, where a quorum says that nobody has it: of a claim that
/// failed, or is under way.
fn left_over(inspected: &Inspected) -> String {
    let few: Vec<_> = named(inspected).into_iter().collect();
    if few.is_empty() { String::new() } else { format!(" on a quorum of nodes, and others name {}", few.join(" and ")) }
}

/// The holder, or one of the readers with how many there are.
fn with_readers(inspected: &Inspected, holder: &str) -> String {
    match inspected.readers() {
        None => holder.to_owned(),
        Some(1) => format!("1 reader, {holder}"),
        Some(readers) => format!("{readers} readers, one of which is {holder}"),
    }
}

/// Who holds a name, as a part of a sentence.
pub(crate) fn held_by(inspected: &Inspected) -> String {
    let holder = inspected.holder().map(|holder| with_readers(inspected, holder));
    match (holder, inspected.agreed()) {
        (Some(holder), _) if inspected.revoked() => {
            format!("held by {holder}, and was revoked: it is not renewed any more")
        }
        (Some(holder), _) => match says(inspected) {
            Some(says) => format!("held by {holder}: {says}"),
            None => format!("held by {holder}"),
        },
        (None, Some(_)) => format!("free{}", left_over(inspected)),
        (None, None) if !inspected.is_conclusive() => {
            format!("perhaps held, since no quorum of nodes votes, and nobody can tell{}", known(inspected))
        }
        (None, None) => "held by nobody on a quorum of nodes, and not free on one either".to_owned(),
    }
}
