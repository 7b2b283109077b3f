//! What is known of one server by now, and whether it may be asked.

use std::sync::Arc;
use std::time::Duration;

use super::admission::Server;
use super::looks::Looks;
use super::wire::Wire;
use super::{Counts, Settings};
use crate::node::operation::Operation;
use crate::node::reply::{Fault, FaultKind};
use crate::node::status::NodeState;
use crate::rules::doubt::Doubt;
use crate::rules::roster::{Roster, Standing};
use crate::rules::{RestartGuard, Tick};

#[derive(Debug)]
pub(super) struct State {
    pub(super) link: Link,
    pub(super) guard: RestartGuard,
    pub(super) server: Option<Server>,
    /// Why its record could not be read when it was greeted.
    pub(super) unreadable: Option<String>,
    /// Whether wake-ups work: the present connection listens to the channel, and may publish there.
    pub(super) hinting: bool,
    /// Why they did not, when that was noticed first.
    pub(super) silent: Option<String>,
    /// Whether it was said that news of names is refused.
    pub(super) newsless: bool,
    /// When it may be told again that messages were missed.
    pub(super) missed_next: Tick,
    pub(super) looks: Looks,
    pub(super) round_trip: Option<Duration>,
    /// How many connections there were.
    pub(super) generations: u64,
    /// Whether votes of the server of that run id count, as far as rosters go.
    pub(super) standing: Standing,
    pub(super) enrolled: String,
    pub(super) roster: Option<Roster>,
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
    Up(Arc<Wire>),
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
            looks: Looks::default(),
            round_trip: None,
            generations: 0,
            standing: if settings.counts == Counts::Always { Standing::Exempt } else { Standing::Unknown },
            enrolled: String::new(),
            roster: None,
            renewals: Renewals::default(),
            probing: Probing::default(),
        }
    }

    pub(super) fn link_for(&mut self, operation: &Operation, now: Tick) -> Result<Arc<Wire>, Fault> {
        if let Operation::Renew(renew) = operation {
            self.renewals.seen(renew.ttl, now);
        }
        let Link::Up(wire) = &self.link else {
            let state = self.node_state(now);
            let kind = if state.is_unfit() { FaultKind::Unfit } else { FaultKind::Down };
            return Err(Fault::new(kind, state.to_string()));
        };
        match (operation, self.guard.quarantined(now)) {
            (Operation::Claim(_), _) if !self.standing.counts(now) => {
                let listed = !matches!(self.standing, Standing::Unlisted(_));
                let kind = if listed { FaultKind::Quarantined } else { FaultKind::Unlisted };
                Err(Fault::new(kind, self.unlisted(now)))
            }
            (Operation::Claim(_), Some((left, doubt))) => {
                Err(Fault::new(FaultKind::Quarantined, NodeState::Quarantined { left, doubt }.to_string()))
            }
            // The memory that it was meant for has gone, and the next one needs another, later.
            (Operation::Teach(teach), _) if self.guard.lesson().is_some_and(|lesson| lesson.number != teach.lesson) => {
                Err(Fault::new(FaultKind::Down, "it has restarted since"))
            }
            _ => Ok(wire.clone()),
        }
    }

    /// Why no vote counts of a server that is not listed.
    pub(super) fn unlisted(&self, now: Tick) -> String {
        match self.node_state(now) {
            _ if self.standing == Standing::Few => "no quorum of nodes is listed, so no vote counts".to_owned(),
            NodeState::Connecting => "it is being asked whether all its clients have the same list".to_owned(),
            state => state.to_string(),
        }
    }

    pub(super) fn node_state(&self, now: Tick) -> NodeState {
        match &self.link {
            Link::Up(_) if !self.standing.counts(now) => match &self.standing {
                Standing::Unlisted(why) => NodeState::Unlisted { why: why.clone() },
                Standing::Few => self.memory(now),
                Standing::Newcomer(until) if now < *until => match self.memory(now) {
                    NodeState::Up => NodeState::Quarantined { left: until.since(now), doubt: Doubt::Newcomer },
                    state => state,
                },
                Standing::Waiting(until) if now < *until => NodeState::Waiting { left: until.since(now) },
                _ => NodeState::Connecting,
            },
            Link::Up(_) => self.memory(now),
            Link::Out(state) => state.clone(),
        }
    }

    /// How a node that is connected to is, as far as its memory and its clock go.
    pub(super) fn memory(&self, now: Tick) -> NodeState {
        match self.guard.quarantined(now) {
            // For a moment, as it is with what comes before.
            Some(_) if self.guard.only_waits_for_a_lesson(now) => NodeState::Connecting,
            Some((left, doubt)) => NodeState::Quarantined { left, doubt },
            None => NodeState::Up,
        }
    }
}
