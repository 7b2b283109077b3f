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
            missed_next: now,
            looks: Looks::default(),
            round_trip: None,
            generations: 0,
            standing: if settings.counts == Counts::Always { Standing::Exempt } else { Standing::Unknown },
            enrolled: String::new(),
            roster: None,
        }
    }

    pub(super) fn link_for(&self, operation: &Operation, now: Tick) -> Result<Arc<Wire>, Fault> {
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
