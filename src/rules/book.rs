//! What a client concludes of the records of all nodes: which of them may vote as far as lists go,
//! and which hellos it sends next.
//!
//! Pure: [`Book`] is given what each node's last hello returned, and returns a [`Plan`]. The code
//! around it (`protocol::hello`) carries that out. `docs/protocol.md`, "One list", says why the rules
//! are enough.

mod judged;
mod node;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use self::node::Node;
use super::list::{Intent, List, OldAtOnce, Record};
use super::tally::Size;
use super::tick::Tick;

/// What a node's last hello returned, and what is known beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Known {
    /// When that hello was sent.
    pub at: Tick,
    /// The server's process, by INFO.
    pub process: Arc<str>,
    /// Whether a connection is still being made: nothing else is known then.
    pub connecting: bool,
    /// The record; `None` if the node has none.
    pub record: Option<Record>,
    /// From when on the node can be synced: see
    /// [`RestartGuard::settles_at`](super::RestartGuard::settles_at).
    pub settles_at: Tick,
    /// When its quarantine ends, unless it is still to be synced.
    pub free_at: Tick,
    /// Whether a reply that came since is at odds with it: no record, another id, no list, another
    /// list. Then the node is asked again at once.
    pub stale: bool,
}

/// Whether a node's votes count, as far as lists go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Standing {
    /// No hello was answered lately, or this client's list is not in force there yet.
    #[default]
    Unknown,
    /// They count.
    Counts {
        /// Until then: no later hello was answered so far.
        until: Tick,
    },
    /// They do not: another list is in force there, or another list of this name on any node.
    OtherList {
        /// Until then, as far as is known.
        until: Tick,
        /// Both lists, for people.
        why: Arc<str>,
    },
    /// They do not, nor does its `extended`: clients meet two servers behind the node's name.
    Twins {
        /// How that shows, for people.
        why: Arc<str>,
    },
}

impl Standing {
    /// Whether a vote on a claim counts that is looked at `now`.
    #[must_use]
    pub fn counts(&self, now: Tick) -> bool {
        matches!(self, Self::Counts { until } if now < *until)
    }
}

/// What a client does next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// Whose votes count, by node.
    pub standings: Vec<Standing>,
    /// The hellos that are sent now, each to one node.
    pub hellos: Vec<(usize, Wanted)>,
    /// Another list of this name is in force on some node, for people: nothing may be acquired, and
    /// all locks are lost. No standing counts then.
    pub other_list: Option<Arc<str>>,
    /// When to plan again, unless there is news of a node before.
    pub due: Tick,
}

/// What a hello asks for and shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wanted {
    /// How much it may change.
    pub intent: Intent,
    /// Whether a record that it makes is old at once, if the node's INFO agrees.
    pub old: Option<OldAtOnce>,
    /// The id of the record that this client saw there last, or `held` if it saw none and holds a
    /// lock.
    pub knew: Option<Arc<str>>,
    /// The ballot to which the node is synced.
    pub sync: Option<u64>,
    /// Names of nodes, and the ids of their records.
    pub seen: Vec<(Arc<str>, Arc<str>)>,
}

/// What a client that holds locks says it knew of a node whose record it never saw.
const HELD: &str = "held";

/// All nodes, as one client sees them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Book {
    list: Arc<List>,
    size: Size,
    round_timeout: Duration,
    onlooker: bool,
    nodes: Vec<Node>,
    /// Since when some node has no record, or no list in force.
    lacks: Option<Tick>,
}

/// What holds for all nodes at one moment.
#[derive(Clone, Copy, Debug)]
struct Moment {
    now: Tick,
    /// Whether this client holds a lock.
    holds: bool,
    /// Whether hellos write nothing.
    looks: bool,
    /// Whether lists may be put in force: all nodes were asked which one is.
    puts: bool,
}

impl Book {
    /// Nothing is known yet of the nodes with these names, by their numbers: all are being connected
    /// to. An `onlooker` writes nothing.
    #[must_use]
    pub fn new(list: Arc<List>, names: Vec<Arc<str>>, round_timeout: Duration, onlooker: bool) -> Self {
        let size = Size::of(u32::try_from(names.len()).unwrap_or(u32::MAX));
        let nodes = names.into_iter().map(Node::new).collect();
        Self { list, size, round_timeout, onlooker, nodes, lacks: None }
    }

    /// What is known of a node by now; `None` if it cannot be reached. The same again changes
    /// nothing.
    pub fn heard(&mut self, node: usize, known: Option<Known>, now: Tick) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.heard(&self.list, known, now);
        }
    }

    /// A hello that was planned was not carried out, or its answer was lost.
    pub fn failed(&mut self, node: usize, now: Tick) {
        let (pause, longest) = (self.pause(), self.list.every());
        if let Some(node) = self.nodes.get_mut(node) {
            node.failed(now, pause, longest);
        }
    }

    /// What follows at `now` for a client that `holds` a lock, or does not. The hellos are as good as
    /// sent. `random` spreads the hellos of several clients.
    pub fn plan(&mut self, now: Tick, holds: bool, random: u64) -> Plan {
        let lacks = self.nodes.iter().any(Node::lacks);
        self.lacks = self.lacks.or(Some(now)).filter(|_| lacks);
        let looks = self.onlooker || self.other_list(now).is_some();
        let moment = Moment { now, holds, looks, puts: !looks && self.all_were_asked(now) };
        let standings = (0..self.nodes.len()).map(|node| self.standing(node, now)).collect();
        let wanted = |node| Some((node, self.wanted(node, moment)?));
        let hellos: Vec<_> = (0..self.nodes.len()).filter_map(wanted).collect();
        let (next, again) = (now + self.period(random), now + self.pause());
        for (node, wanted) in &hellos {
            self.nodes[*node].asked(wanted.intent, now, next, again);
        }
        let other_list = self.other_list(now).map(|(on, other)| format!("{on}: {}", other.why).into());
        Plan { standings, hellos, other_list, due: self.due(moment) }
    }

    /// The hello that a node is sent now, if it is sent one.
    fn wanted(&self, number: usize, moment: Moment) -> Option<Wanted> {
        let Moment { now, holds, looks, .. } = moment;
        let node = &self.nodes[number];
        let intent = self.intent(number, moment);
        let urgent = self.is_urgent(number, moment);
        if !node.is_due(intent, urgent, self.round_timeout, now) {
            return None;
        }
        let first = intent >= Intent::Make && self.may_be_first(number, now);
        // No node of this list knows of any ballot.
        let knows_all = first && self.seen(now).is_empty();
        Some(Wanted {
            intent,
            old: first.then_some(OldAtOnce::FirstUse),
            knew: node.id.clone().or_else(|| holds.then(|| HELD.into())),
            sync: if knows_all { Some(0) } else { self.sync(number, now).filter(|_| !looks) },
            seen: if looks { Vec::new() } else { self.seen(now) },
        })
    }

    fn intent(&self, node: usize, moment: Moment) -> Intent {
        match moment {
            Moment { looks: true, .. } => Intent::Look,
            Moment { puts: true, .. } if self.nodes[node].lacks() => Intent::Put,
            _ => Intent::Keep,
        }
    }

    /// Whether a hello to a node does not wait for its turn.
    fn is_urgent(&self, node: usize, moment: Moment) -> bool {
        let Moment { now, looks, puts, .. } = moment;
        let at = &self.nodes[node];
        let puts = puts && at.lacks();
        let asks = !looks && self.lacks.is_some() && !at.was_asked(self.round_timeout, now);
        let syncs = !looks && self.sync(node, now).is_some();
        puts || asks || syncs || at.is_outdated(&self.list, looks, now)
    }

    /// Whether all nodes were asked lately which list is in force there: those that can be reached
    /// and answer. Those being connected to are waited for, but not for long.
    fn all_were_asked(&self, now: Tick) -> bool {
        let Some(lacks) = self.lacks else { return false };
        let patience = self.round_timeout;
        let late = now >= lacks + patience;
        self.nodes.iter().all(|node| match node.answer() {
            Some(_) => node.was_asked(patience, now) || node.is_silent(patience, now),
            None => late || !node.is_connecting(),
        })
    }

    /// How long after a hello the next one follows.
    fn period(&self, random: u64) -> Duration {
        let tenth = self.list.every() / 10;
        let spread = u32::try_from(random % 1_024).unwrap_or(0);
        tenth * 9 + tenth * spread / 1_024
    }

    /// How long after a hello the same one may follow.
    fn pause(&self) -> Duration {
        self.list.every() / 20
    }

    /// For how long the answer to a hello counts from when that was sent.
    fn fresh(&self) -> Duration {
        self.list.every() * 2
    }

    /// When something changes by itself that is not known at this moment.
    fn due(&self, moment: Moment) -> Tick {
        let Moment { now, .. } = moment;
        let waits = self.lacks.map(|lacks| lacks + self.round_timeout);
        let of = |number: usize| {
            let urgent = self.is_urgent(number, moment);
            self.nodes[number].changes(&self.list, urgent, self.fresh(), self.round_timeout)
        };
        let changes = (0..self.nodes.len()).flat_map(of).flatten();
        changes.chain(waits).filter(|&at| at > now).min().unwrap_or(Tick::NEVER)
    }
}
