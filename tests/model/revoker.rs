//! A client that takes the name away, as `Quorum::revoke` does. It reads the nodes' fences, and
//! then asks all nodes to revoke tokens up to a ballot. The revoker's conclusions are restated
//! here, because the real code (`src/protocol/take_away.rs`, `revoke.rs`) is asynchronous. All
//! nodes vote and answer.
//!
//! A quorum of nodes, or all nodes, return their fences at one moment. After that, each node gets
//! the revocation at any moment, or never. The revoker may stop waiting once a quorum has answered,
//! as if its timeout had passed. In scopes with hand-overs, all revocations happen at one moment.

use std::sync::Arc;
use std::time::Duration;

use quorumlock::node::{Operation, Outcome, Revoke, Verb};
use quorumlock::rules::ballot::{dealt, lifted};
use quorumlock::rules::{NodeSet, Size, Tick};

use crate::client::{Message, NODES, tick, wall};
use crate::scope::{Revokes, Scope, Ticks};
use crate::world::{Action, World, names};

/// The revoker's wall clock is this far ahead, so that its ballot is above all ballots of the same
/// tick.
const AHEAD: Duration = Duration::from_micros(50);

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Revoker {
    /// The revoker has not read the fences yet.
    #[default]
    Looking,
    Taking(Taking),
    /// The revoker has ended, with any result.
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Taking {
    ballot: u64,
    asked: NodeSet,
    /// The longest time for which an asked node may still hold the name.
    left: Duration,
}

/// The result that the revoker returned: each lock with a token up to `up_to` ends at `by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Told {
    pub up_to: u64,
    pub by: Tick,
}

impl Revoker {
    /// The nodes have returned their fences.
    fn look(told: u64, now: Ticks) -> Self {
        let ballot = lifted(dealt(told, wall(now) + AHEAD), told).expect("small numbers");
        Self::Taking(Taking { ballot, asked: NodeSet::default(), left: Duration::ZERO })
    }

    /// Whether a quorum has answered.
    fn may_go_on(&self) -> bool {
        matches!(self, Self::Taking(it) if it.asked.len() >= Size::of(NODES as u32).quorum())
    }
}

impl World {
    /// Whether a revoked holder holds the lock for longer than the revoker's result says, or a node
    /// granted a ballot that it had revoked.
    pub fn goes_on(&self) -> bool {
        let long = |told: Told| {
            let holds = self.clients.iter().filter_map(|client| client.holds(self.now));
            holds.into_iter().any(|(until, token)| token <= told.up_to && until > told.by)
        };
        self.took || self.told.is_some_and(long)
    }

    pub fn of_revoker(&self, scope: &Scope, actions: &mut Vec<Action>) {
        if scope.revokes == Revokes::Never || self.clients[0].rounds == 0 {
            return;
        }
        let quorums = || std::iter::once(None).chain((0..NODES).map(Some));
        match &self.revoker {
            Revoker::Looking => {
                // In scopes with hand-overs, revoke only while a client holds the name.
                let held = self.clients.iter().any(|client| client.is_held(self.now));
                let looks = quorums().take(if scope.hands { held.into() } else { 1 + NODES });
                actions.extend(looks.map(Action::Look));
            }
            Revoker::Taking(it) if scope.revokes == Revokes::NodeByNode => {
                actions.extend((0..NODES).filter(|&node| !it.asked.contains(node)).map(Action::Revoke));
                actions.extend(self.revoker.may_go_on().then_some(Action::GoOn));
            }
            Revoker::Taking(_) => actions.extend(quorums().map(Action::RevokeAll)),
            Revoker::Done => {}
        }
    }

    pub fn look(&mut self, but: Option<usize>) {
        let now = self.now;
        let mut told = 0;
        for node in (0..NODES).filter(|&node| Some(node) != but) {
            let outcome = Arc::make_mut(&mut self.servers[node]).apply(&Operation::Inspect(names()), now).0;
            let Outcome::Inspected(entries) = outcome else { continue };
            told = entries.first().map_or(0, |entry| entry.fence).max(told);
        }
        self.revoker = Revoker::look(told, now);
    }

    /// All nodes, or all except one, revoke, and the revoker ends.
    pub fn revoke_all(&mut self, but: Option<usize>) {
        (0..NODES).filter(|&node| Some(node) != but).for_each(|node| self.revoke(node));
        self.go_on();
    }

    pub fn go_on(&mut self) {
        if let Revoker::Taking(Taking { ballot, left, .. }) = std::mem::replace(&mut self.revoker, Revoker::Done) {
            self.told = Some(Told { up_to: ballot, by: tick(self.now) + left });
        }
    }

    pub fn revoke(&mut self, node: usize) {
        let Revoker::Taking(it) = &mut self.revoker else { return };
        let revoke = Revoke { names: names(), ballot: it.ballot }.into();
        let outcome = Arc::make_mut(&mut self.servers[node]).apply(&revoke, self.now).0;
        it.asked.insert(node);
        self.revoked[node] = it.ballot;
        if let Outcome::Revoked { left, .. } = outcome {
            it.left = it.left.max(left);
        }
    }

    /// Records whether a node granted or renewed a ballot that it had revoked.
    pub fn note_grant(&mut self, node: usize, message: Message, outcome: &Outcome) {
        let granted = message.verb == Verb::Claim && matches!(outcome, Outcome::Granted { .. });
        let renewed = message.verb == Verb::Renew && matches!(outcome, Outcome::Extended | Outcome::Healed);
        self.took |= (granted || renewed) && message.ballot <= self.revoked[node];
    }
}
