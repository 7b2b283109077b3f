//! What this client knows of one server, and which operations it may send to the server.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::admission::Server;
use super::{Job, Settings};
use crate::node::operation::{Intent, Operation};
use crate::node::reply::{Fault, FaultKind};
use crate::node::status::{NodeState, UNLISTED};
use crate::rules::known_nodes::{Known, MembershipState};
use crate::rules::list::Record;
use crate::rules::{RestartGuard, Tick};

#[derive(Debug)]
pub(super) struct State {
    pub(super) link: Link,
    pub(super) guard: RestartGuard,
    pub(super) server: Option<Server>,
    /// Why the server did not carry out the last hello.
    pub(super) unreadable: Option<String>,
    /// Whether the present connection gets hints, and the client's user may publish hints.
    pub(super) hinting: bool,
    /// Why hints failed for the first time; `None` if they never failed.
    pub(super) silent: Option<String>,
    /// Whether the log has a warning about a quarantine whose end is not logged yet.
    pub(super) warned: bool,
    /// The last record whose loss the log reports. A loss is logged and counted once.
    told: Option<Arc<str>>,
    /// Whether a warning was logged that the server refuses subscriptions to news of names.
    pub(super) newsless: bool,
    /// The earliest time for the next report of lost messages.
    pub(super) missed_next: Tick,
    pub(super) round_trip: Option<Duration>,
    /// The number of connections so far.
    pub(super) generations: u64,
    /// Whether the node is used without a quorum. If so, its votes always count, and a hello may
    /// name any process.
    alone: bool,
    /// Whether the lists in force and the ids of records allow the node's votes to count.
    pub(super) standing: MembershipState,
    /// When the last answered hello was sent.
    pub(super) greeted: Option<Tick>,
    /// When a reply showed that the answer to the last hello is out of date; `None` if no reply
    /// showed this.
    pub(super) stale: Option<Tick>,
    pub(super) renewals: Renewals,
    pub(super) probing: Probing,
}

/// The shortest ttl of the locks that are renewed on this node, and until when this ttl counts.
/// Pauses between attempts to connect are at most a share of this ttl, so that renewals come in
/// time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Renewals(Option<(Duration, Tick)>);

/// A pause between two attempts to connect is at most the shortest ttl divided by `SHARE`.
const SHARE: u32 = 16;

impl Renewals {
    /// Notes that a lock with this ttl is renewed, even if the node is not connected.
    fn seen(&mut self, ttl: Duration, now: Tick) {
        if self.0.is_none_or(|(shortest, until)| ttl <= shortest || now >= until) {
            self.0 = Some((ttl, now + ttl));
        }
    }

    /// The longest pause between two attempts to connect. If no lock with the shortest ttl was
    /// renewed within this ttl, all of these locks have ended, and the pause has no limit.
    pub(super) fn longest_pause(&self, now: Tick) -> Duration {
        self.0.filter(|&(_, until)| now < until).map_or(Duration::MAX, |(ttl, _)| ttl / SHARE)
    }
}

/// How often the client sends INFO as a probe, to check that the server is still the same. The
/// probes also keep the server from closing the connection as idle (its setting `timeout`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Probing {
    pub(super) interval: Duration,
    /// Whether the last connection ended while it was idle, before its first probe.
    ended_idle: bool,
}

/// The server's setting `timeout` is in whole seconds, so an idle connection lasts at least this
/// long.
const IDLE: Duration = Duration::from_secs(1);

impl Default for Probing {
    fn default() -> Self {
        Self { interval: Duration::from_secs(5), ended_idle: false }
    }
}

impl Probing {
    /// Notes that a connection ended before its first probe, after it was unused for `idle`. If
    /// this happens twice in a row, the interval between probes becomes at most half of `idle`.
    pub(super) fn ended_idle(&mut self, idle: Duration) {
        if idle >= IDLE && std::mem::replace(&mut self.ended_idle, true) {
            self.interval = self.interval.min(idle / 2);
        }
    }

    /// Notes that a probe was answered, so the server did not close this connection as idle.
    pub(super) const fn kept(&mut self) {
        self.ended_idle = false;
    }
}

#[derive(Debug)]
pub(super) enum Link {
    /// Connected: the queue for jobs.
    Up(mpsc::Sender<Job>),
    /// Not usable: the state, which is neither `Up` nor `Quarantined`.
    Out(NodeState),
}

impl State {
    pub(super) fn new(settings: &Settings, now: Tick) -> Self {
        Self {
            link: Link::Out(NodeState::Connecting),
            guard: RestartGuard::new(settings.max_ttl, settings.drift),
            server: None,
            unreadable: None,
            hinting: false,
            silent: None,
            warned: false,
            told: None,
            newsless: false,
            missed_next: now,
            round_trip: None,
            generations: 0,
            alone: settings.greets == Intent::Put,
            standing: match settings.greets {
                Intent::Put => MembershipState::Counts { until: Tick::NEVER },
                _ => MembershipState::Unknown,
            },
            greeted: None,
            stale: None,
            renewals: Renewals::default(),
            probing: Probing::default(),
        }
    }

    pub(super) fn link_for(&mut self, operation: &Operation, now: Tick) -> Result<mpsc::Sender<Job>, Fault> {
        if let Operation::Renew(renew) = operation {
            self.renewals.seen(renew.ttl, now);
        }
        let Link::Up(queue) = &self.link else {
            let state = self.node_state(now);
            let kind = if state.is_unfit() { FaultKind::Unfit } else { FaultKind::Down };
            return Err(Fault::new(kind, state.to_string()));
        };
        match operation {
            Operation::Claim(_) if !self.votes(now) => {
                let state = self.node_state(now);
                Err(match state {
                    NodeState::Connecting => Fault::new(FaultKind::Down, UNLISTED),
                    NodeState::Unclear | NodeState::Down { .. } => Fault::new(FaultKind::Down, state.to_string()),
                    state => Fault::new(FaultKind::Quarantined, state.to_string()),
                })
            }
            // The server has restarted after this hello was planned, so the hello names a former
            // process.
            Operation::Hello(hello) if !self.is_served_by(&hello.process) => {
                Err(Fault::new(FaultKind::Down, "the server has restarted since this hello was planned"))
            }
            _ => Ok(queue.clone()),
        }
    }

    fn is_served_by(&self, process: &str) -> bool {
        self.alone || process.is_empty() || self.server.as_ref().is_none_or(|server| *server.process == *process)
    }

    pub(super) fn votes(&self, now: Tick) -> bool {
        matches!(self.link, Link::Up(_)) && self.standing.counts(now) && self.guard.quarantined(now).is_none()
    }

    /// Stores the record from a hello that was sent at `sent` and answered at `received`. Returns
    /// true if the node lost the record that was known until now, and the log reports this loss
    /// already.
    pub(super) fn heard(&mut self, record: Option<&Record>, sent: Tick, received: Tick) -> bool {
        let is_lost = self.guard.id().is_some_and(|known| record.is_none_or(|record| record.id != *known));
        let is_told = is_lost && self.tell_loss();
        self.guard.hello(record, sent, received);
        if !is_lost && !self.guard.is_replaced() {
            // The node still has its record, or has it again, and may lose it another time.
            self.told = None;
        }
        self.unreadable = None;
        self.greeted = Some(sent);
        self.stale = self.stale.filter(|since| sent < *since);
        is_told
    }

    /// Notes that the log reports the loss of the known record. Returns true if it did so already.
    pub(super) fn tell_loss(&mut self) -> bool {
        let known = self.guard.id().cloned();
        std::mem::replace(&mut self.told, known.clone()) == known
    }

    /// The last known record and state; `None` if the node is unreachable or must not take part.
    pub(super) fn known(&self) -> Option<Known> {
        let connecting = match &self.link {
            Link::Up(_) => false,
            Link::Out(NodeState::Connecting) => true,
            Link::Out(_) => return None,
        };
        let server = self.server.as_ref();
        Some(Known {
            at: self.greeted.unwrap_or_default(),
            process: server.map(|server| server.process.clone()).unwrap_or_default(),
            connecting,
            record: self.guard.record().filter(|_| !connecting).cloned(),
            settles_at: self.guard.settles_at(),
            free_at: self.guard.free_at(),
            stale: self.stale.is_some(),
        })
    }

    pub(super) fn node_state(&self, now: Tick) -> NodeState {
        match (&self.link, &self.standing) {
            (Link::Out(state), _) => state.clone(),
            (Link::Up(_), standing) if standing.counts(now) => self.memory(now),
            (Link::Up(_), MembershipState::OtherList { why, .. }) => NodeState::OtherList { why: why.clone() },
            (Link::Up(_), MembershipState::Twins { why }) => NodeState::Twins { why: why.clone() },
            (Link::Up(_), _) if self.unreadable.is_some() => {
                NodeState::Down { why: self.unreadable.clone().unwrap_or_default() }
            }
            // This client never saw a record on this node. The next hello may make a record that
            // needs no quarantine.
            (Link::Up(_), _) if self.guard.record().is_none() && self.guard.id().is_none() => NodeState::Connecting,
            (Link::Up(_), standing) => match self.memory(now) {
                NodeState::Up if *standing == MembershipState::Unclear => NodeState::Unclear,
                NodeState::Up => NodeState::Connecting,
                state => state,
            },
        }
    }

    /// Whether the node is connected, carried out the last hello, and had memory left at the last
    /// INFO. (Rights may be missing for some names only, so refused claims show nothing.)
    pub(super) fn is_usable(&self) -> bool {
        let has_memory = self.server.as_ref().is_none_or(|server| server.full.is_none());
        matches!(self.link, Link::Up(_)) && self.unreadable.is_none() && has_memory
    }

    /// The state of a connected node, judged only by doubts about its memory and its clock.
    pub(super) fn memory(&self, now: Tick) -> NodeState {
        match self.guard.quarantined(now) {
            Some((left, doubt)) => NodeState::Quarantined { left, doubt },
            None => NodeState::Up,
        }
    }
}
