//! Somebody who takes the name away, as `Quorum::revoke` does: asks the nodes for their fences, and
//! all of them to let holds up to a token end. What is concluded from the answers is restated here:
//! it stands in `src/protocol/take_away.rs` and `revoke.rs`, among code that waits. All nodes vote, and
//! tell.
//!
//! A quorum of nodes or all of them are asked at one moment for their fences. To let holds end, each
//! is asked when it likes or never; whoever asks goes on at any moment at which a quorum has answered,
//! as if its patience was over then. Where the name may be handed over, that takes one moment, too.

use std::sync::Arc;
use std::time::Duration;

use quorumlock::node::{Operation, Outcome, Revoke, Verb};
use quorumlock::rules::ballot::{dealt, lifted};
use quorumlock::rules::{NodeSet, Size, Tick};

use crate::client::{Message, NODES, tick, wall};
use crate::scope::{Revokes, Scope, Ticks};
use crate::world::{Action, World, names};

/// By how much its wall clock is ahead of the others: so its ballot is above what they deal in the
/// same tick.
const AHEAD: Duration = Duration::from_micros(50);

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Revoker {
    /// It is about to ask for fences.
    #[default]
    Looking,
    Taking(Taking),
    /// It has ended, whatever it came to.
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Taking {
    ballot: u64,
    asked: NodeSet,
    /// The longest that anybody holds it still.
    left: Duration,
}

/// What it told: who holds the name by a token up to this does not beyond that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Told {
    pub up_to: u64,
    pub by: Tick,
}

impl Revoker {
    /// Nodes told their fences.
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
    /// Whether somebody has the lock for longer than whoever took it away was told, or a node granted
    /// something that it had revoked.
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
                // Where it may be handed over, it is taken from somebody who holds it.
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

    /// All nodes but one let holds end, or all, and who asks goes on.
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

    /// What was revoked on a node is granted no more there.
    pub fn note_grant(&mut self, node: usize, message: Message, outcome: &Outcome) {
        let granted = message.verb == Verb::Claim && matches!(outcome, Outcome::Granted { .. });
        let renewed = message.verb == Verb::Renew && matches!(outcome, Outcome::Extended | Outcome::Healed);
        self.took |= (granted || renewed) && message.ballot <= self.revoked[node];
    }
}
