//! What is known of one server by now, and whether it may be asked.

use std::time::Duration;

use tokio::sync::mpsc;

use super::admission::Server;
use super::{Job, Settings};
use crate::node::operation::{Intent, Operation};
use crate::node::reply::{Fault, FaultKind};
use crate::node::status::{NodeState, UNLISTED};
use crate::rules::book::{Known, Standing};
use crate::rules::list::Record;
use crate::rules::{RestartGuard, Tick};

#[derive(Debug)]
pub(super) struct State {
    pub(super) link: Link,
    pub(super) guard: RestartGuard,
    pub(super) server: Option<Server>,
    /// Why it did not carry out the last hello.
    pub(super) unreadable: Option<String>,
    /// Whether wake-ups work: the present connection listens to the channel, and may publish there.
    pub(super) hinting: bool,
    /// Why they did not, when that was noticed first.
    pub(super) silent: Option<String>,
    /// Whether it was said that news of names is refused.
    pub(super) newsless: bool,
    /// When it may be told again that messages were missed.
    pub(super) missed_next: Tick,
    pub(super) round_trip: Option<Duration>,
    /// How many connections there were.
    pub(super) generations: u64,
    /// Whether there is no quorum around it: its votes always count, and hellos may name any process.
    alone: bool,
    /// Whether its votes count, as far as lists go.
    pub(super) standing: Standing,
    /// When the hello was sent whose reply is known.
    pub(super) greeted: Option<Tick>,
    /// Since when it is known that the reply to that is out of date.
    stale: Option<Tick>,
    pub(super) renewals: Renewals,
    pub(super) probing: Probing,
}

/// What is renewed at this node, as far as a node that is away must be there again for that.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Renewals(Option<(Duration, Tick)>);

/// The share of the shortest ttl that a pause between two attempts to connect takes at most.
const SHARE: u32 = 16;

impl Renewals {
    /// A lock with this ttl is renewed, also where the node is away.
    fn seen(&mut self, ttl: Duration, now: Tick) {
        if self.0.is_none_or(|(shortest, until)| ttl <= shortest || now >= until) {
            self.0 = Some((ttl, now + ttl));
        }
    }

    /// The longest pause between two attempts to connect. What was not renewed for its ttl is not
    /// held any more.
    pub(super) fn longest_pause(&self, now: Tick) -> Duration {
        self.0.filter(|&(_, until)| now < until).map_or(Duration::MAX, |(ttl, _)| ttl / SHARE)
    }
}

/// How often a server is asked whether it is still the same. That also keeps a connection open
/// which the server would close because it is idle (`timeout`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Probing {
    interval: Duration,
    /// Whether the last connection ended idle.
    ended_idle: bool,
}

/// What ends sooner was not closed for being idle: servers count whole seconds.
const IDLE: Duration = Duration::from_secs(1);

impl Default for Probing {
    fn default() -> Self {
        Self { interval: Duration::from_secs(5), ended_idle: false }
    }
}

impl Probing {
    pub(super) const fn interval(self) -> Duration {
        self.interval
    }

    /// A connection ended that nobody had used for that long, before it was used for the first
    /// probe. Where that happens twice in a row, the next is used twice in that time.
    pub(super) fn ended_idle(&mut self, idle: Duration) {
        if idle >= IDLE && std::mem::replace(&mut self.ended_idle, true) {
            self.interval = self.interval.min(idle / 2);
        }
    }

    /// A connection lasted until its first probe.
    pub(super) const fn kept(&mut self) {
        self.ended_idle = false;
    }
}

#[derive(Debug)]
pub(super) enum Link {
    /// Where jobs go.
    Up(mpsc::Sender<Job>),
    /// Anything but up or quarantined.
    Out(NodeState),
}

impl State {
    /// It is being connected to.
    pub(super) fn new(settings: &Settings, now: Tick) -> Self {
        Self {
            link: Link::Out(NodeState::Connecting),
            guard: RestartGuard::new(settings.max_ttl, settings.drift),
            server: None,
            unreadable: None,
            hinting: false,
            silent: None,
            newsless: false,
            missed_next: now,
            round_trip: None,
            generations: 0,
            alone: settings.greets == Intent::Put,
            standing: match settings.greets {
                Intent::Put => Standing::Counts { until: Tick::NEVER },
                _ => Standing::Unknown,
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
                    state => Fault::new(FaultKind::Quarantined, state.to_string()),
                })
            }
            // Another process answers by now: the one that was meant has gone.
            Operation::Hello(hello) if !self.is_served_by(&hello.process) => {
                Err(Fault::new(FaultKind::Down, "it has restarted since"))
            }
            _ => Ok(queue.clone()),
        }
    }

    fn is_served_by(&self, process: &str) -> bool {
        self.alone || process.is_empty() || self.server.as_ref().is_none_or(|server| *server.process == *process)
    }

    /// Whether its votes on claims count.
    pub(super) fn votes(&self, now: Tick) -> bool {
        matches!(self.link, Link::Up(_)) && self.standing.counts(now) && self.guard.quarantined(now).is_none()
    }

    /// A hello that was sent at `sent` was answered at `received`.
    pub(super) fn heard(&mut self, record: Option<&Record>, sent: Tick, received: Tick) {
        self.guard.hello(record, sent, received);
        self.unreadable = None;
        self.greeted = Some(sent);
        self.stale = self.stale.filter(|since| sent < *since);
    }

    /// A reply showed that the record, or the list in force, is not the one that is known.
    pub(super) fn is_out_of_date(&mut self, now: Tick) {
        self.stale = Some(now);
    }

    /// What is known of it; `None` if it cannot be reached, or must not take part.
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
            (Link::Up(_), Standing::OtherList { until, why }) if now < *until => {
                NodeState::OtherList { why: why.clone() }
            }
            (Link::Up(_), Standing::Twins { why }) => NodeState::Twins { why: why.clone() },
            (Link::Up(_), _) if self.unreadable.is_some() => {
                NodeState::Down { why: self.unreadable.clone().unwrap_or_default() }
            }
            // Its first hello may make a record that is old at once.
            (Link::Up(_), _) if self.guard.record().is_none() && self.guard.id().is_none() => NodeState::Connecting,
            (Link::Up(_), _) => match self.memory(now) {
                NodeState::Up => NodeState::Connecting,
                state => state,
            },
        }
    }

    /// How a node that is connected to is, as far as its memory and its clock go.
    pub(super) fn memory(&self, now: Tick) -> NodeState {
        match self.guard.quarantined(now) {
            Some((left, doubt)) => NodeState::Quarantined { left, doubt },
            None => NodeState::Up,
        }
    }
}
