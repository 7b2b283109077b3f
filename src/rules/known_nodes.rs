//! What a client concludes from all nodes' records: which nodes' votes count, and which hellos to
//! send.
//!
//! This code is pure: [`KnownNodes`] takes the result of each node's last hello, and returns a
//! [`Plan`], which `protocol::hello` carries out. `docs/protocol.md`, "One list", says how these
//! rules keep clients of two lists from holding one name, and in which cases they do not.

mod fence_sync;
mod membership_state;
mod node;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use self::node::Node;
use super::list::{Intent, List, OldAtOnce, Record};
use super::tally::Size;
use super::tick::Tick;

/// The result of a node's last hello, and other facts about the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Known {
    /// When the hello was sent.
    pub at: Tick,
    /// The server's process, by INFO.
    pub process: Arc<str>,
    /// Whether the client is still connecting. If so, nothing else is known of the node.
    pub connecting: bool,
    /// The record in the answer to the hello; `None` if the node had none.
    pub record: Option<Record>,
    /// From when on the node can be synced: see
    /// [`RestartGuard::settles_at`](super::RestartGuard::settles_at).
    pub settles_at: Tick,
    /// When the quarantine ends. Before the node may vote on claims, it must also be synced.
    pub free_at: Tick,
    /// Whether a later reply contradicts the answer to the hello: the reply showed no record or no
    /// list, or another id or list. If so, the next hello is sent at once.
    pub stale: bool,
}

/// Whether a node's votes count. The lists in force and the ids of records decide this.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum MembershipState {
    /// No hello was answered lately, or this client's list is not in force on the node for long
    /// enough.
    #[default]
    Unknown,
    /// The votes count.
    Counts {
        /// When the votes stop counting, unless a later hello is answered by then.
        until: Tick,
    },
    /// Votes on claims do not count, but votes on renewals do. Either another list is in force on
    /// this node, or another list with the name of this client's list is in force on some node.
    OtherList {
        /// When the other list lapses, if no client extends it.
        until: Tick,
        /// A description of both lists, for people.
        why: Arc<str>,
    },
    /// No vote counts, not even for a renewal. A client has just reported another id of the node's
    /// record. This may be a newer id, or that of another server. The next hello, which is sent at
    /// once, decides this.
    Unclear,
    /// No vote counts, not even for a renewal: the node's name leads clients to two servers.
    Twins {
        /// The evidence, for people.
        why: Arc<str>,
    },
}

impl MembershipState {
    /// Whether a vote on a renewal may count.
    #[must_use]
    pub const fn renews(&self) -> bool {
        !matches!(self, Self::Unclear | Self::Twins { .. })
    }

    /// Whether a vote on a claim counts at `now`.
    #[must_use]
    pub fn counts(&self, now: Tick) -> bool {
        matches!(self, Self::Counts { until } if now < *until)
    }
}

/// What a client does next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// Whether each node's votes count.
    pub standings: Vec<MembershipState>,
    /// The hellos to send now, each with the number of its node.
    pub hellos: Vec<(usize, Wanted)>,
    /// A message for people, if another list with the name of this client's list is in force on
    /// some node. If so, the client acquires nothing, and all its locks are lost.
    pub other_list: Option<Arc<str>>,
    /// When to plan again, if no node's state changes by then.
    pub due: Tick,
}

/// The contents of a hello.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wanted {
    /// How much the hello may change.
    pub intent: Intent,
    /// Why the node may vote at once, if this hello makes the record; `None` if the node must wait.
    /// The node itself checks `FirstUse`.
    pub old: Option<OldAtOnce>,
    /// The id of the last record that this client saw on the node. If this client never saw a
    /// record there: `held` if the client holds a lock, else `None`.
    pub knew: Option<Arc<str>>,
    /// The ballot to which the hello syncs the node; `None` for no sync.
    pub sync: Option<u64>,
    /// The records that this client has read lately, on all nodes: each with the node's name and
    /// the record's id.
    pub seen: Vec<(Arc<str>, Arc<str>)>,
}

/// A client sends this instead of an id if it holds locks and never saw the node's record.
const HELD: &str = "held";

/// All nodes, as one client sees them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KnownNodes {
    list: Arc<List>,
    size: Size,
    round_timeout: Duration,
    onlooker: bool,
    nodes: Vec<Node>,
    /// Since when there has always been a node without a record or without a list in force.
    lacks: Option<Tick>,
    /// Before this moment, the client puts its list in force on no node, so that clients of another
    /// list can begin anew.
    yields: Tick,
}

/// Facts about the client at one moment.
#[derive(Clone, Copy, Debug)]
struct Moment {
    now: Tick,
    /// Whether this client holds a lock.
    holds: bool,
    /// Whether hellos write nothing.
    looks: bool,
    /// Whether hellos may put the list in force. Before that, all nodes that answer must have shown
    /// which list is in force on them.
    puts: bool,
}

impl KnownNodes {
    /// The state of a client that begins to connect to `names`. An `onlooker` writes nothing.
    #[must_use]
    pub fn new(list: Arc<List>, names: Vec<Arc<str>>, round_timeout: Duration, onlooker: bool) -> Self {
        let size = Size::of(u32::try_from(names.len()).unwrap_or(u32::MAX));
        let nodes = names.into_iter().map(Node::new).collect();
        Self { list, size, round_timeout, onlooker, nodes, lacks: None, yields: Tick::default() }
    }

    /// Updates what is known of a node; `known` is `None` if the node cannot be reached. Repeated
    /// calls with the same `known` change nothing.
    pub fn heard(&mut self, node: usize, known: Option<Known>, now: Tick) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.heard(&self.list, known, now);
        }
    }

    /// Notes that a planned hello was not carried out, or that its answer was lost.
    pub fn failed(&mut self, node: usize, now: Tick) {
        let (pause, longest) = (self.pause(), self.list.every());
        if let Some(node) = self.nodes.get_mut(node) {
            node.failed(now, pause, longest);
        }
    }

    /// The plan at `now`; `holds` says whether the client holds a lock. The hellos of the plan
    /// count as sent at `now`. `random` spreads the hellos of several clients in time.
    pub fn plan(&mut self, now: Tick, holds: bool, random: u64) -> Plan {
        let lacks = self.nodes.iter().any(Node::lacks);
        self.lacks = self.lacks.or(Some(now)).filter(|_| lacks);
        // The two lists lapse at almost the same moment. If clients of both put their lists in force
        // then, each could again get the nodes that are near to it.
        if let Some(lapses) = self.rival(now) {
            self.yields = lapses + self.period(random) + self.round_timeout;
        }
        let looks = self.onlooker || self.other_list(now).is_some();
        let puts = !looks && now >= self.yields && self.all_were_asked(now);
        let moment = Moment { now, holds, looks, puts };
        for node in 0..self.nodes.len() {
            self.nodes[node].twins = self.twins(node, now);
        }
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

    /// The hello to send to a node now, if one is due.
    fn wanted(&self, number: usize, moment: Moment) -> Option<Wanted> {
        let Moment { now, holds, looks, .. } = moment;
        let node = &self.nodes[number];
        let intent = self.intent(number, moment);
        let urgent = self.is_urgent(number, moment);
        if !node.is_due(intent, urgent, self.round_timeout, now) {
            return None;
        }
        let first = intent >= Intent::Make && self.may_be_first(number, now);
        // If no node shows a record, there are no ballots to sync to. So sync to 0.
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

    /// Whether a hello to this node is due before its regular time.
    fn is_urgent(&self, node: usize, moment: Moment) -> bool {
        let Moment { now, looks, puts, .. } = moment;
        let at = &self.nodes[node];
        let puts = puts && at.lacks();
        let asks = !looks && self.lacks.is_some() && !at.was_asked(self.recent(), now);
        let syncs = !looks && self.sync(node, now).is_some();
        puts || asks || syncs || self.is_unclear(node, now) || at.is_outdated(&self.list, looks, now)
    }

    /// Whether every node has lately shown which list is in force there. Nodes that are unreachable
    /// or do not answer are left out. Nodes to which the client is still connecting are left out
    /// only after one round timeout.
    fn all_were_asked(&self, now: Tick) -> bool {
        let Some(lacks) = self.lacks else { return false };
        let patience = self.round_timeout;
        let late = now >= lacks + patience;
        self.nodes.iter().all(|node| match node.answer() {
            Some(_) => node.was_asked(self.recent(), now) || node.is_silent(patience, now),
            None => late || !node.is_connecting(),
        })
    }

    /// The time from one regular hello to the next.
    fn period(&self, random: u64) -> Duration {
        let tenth = self.list.every() / 10;
        let spread = u32::try_from(random % 1_024).unwrap_or(0);
        tenth * 9 + tenth * spread / 1_024
    }

    /// The shortest time from a hello to an urgent hello to the same node with the same or a lower
    /// intent.
    fn pause(&self) -> Duration {
        self.list.every() / 20
    }

    /// How long a node counts as asked before a list is put in force. Urgent hellos to different nodes
    /// may be a `pause` apart for ever, so an answer must count for longer than that.
    fn recent(&self) -> Duration {
        self.round_timeout.max(self.pause()) * 2
    }

    /// How long the answer to a hello counts, from the time at which the hello was sent.
    fn fresh(&self) -> Duration {
        self.list.every() * 2
    }

    /// The next moment at which the plan may change without an answer from a node.
    fn due(&self, moment: Moment) -> Tick {
        let Moment { now, .. } = moment;
        let waits = self.lacks.map(|lacks| lacks + self.round_timeout);
        let of = |number: usize| {
            let urgent = self.is_urgent(number, moment);
            self.nodes[number].changes(&self.list, urgent, self.fresh(), self.round_timeout)
        };
        let changes = (0..self.nodes.len()).flat_map(of).flatten();
        changes.chain(waits).chain([self.yields]).filter(|&at| at > now).min().unwrap_or(Tick::NEVER)
    }
}
