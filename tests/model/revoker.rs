//! Somebody who takes the name away, as `Quorum::revoke` does: asks the nodes who holds it, and all
//! of them to let that end. What is concluded from the answers is restated here: it stands in
//! `src/protocol/force.rs` and `revoke.rs`, among code that waits. All nodes vote, and tell.
//!
//! A quorum of nodes or all of them are asked at one moment who holds it. To let it end, each is
//! asked when it likes or never; whoever asks goes on at any moment at which a quorum has answered,
//! as if its patience was over then. Where the name may be handed over, that takes one moment, too. What
//! is revoked of several owners is carried out on a node at one moment.

use std::sync::Arc;
use std::time::Duration;

use quorumlock::node::{Operation, Outcome, Revoke, Verb};
use quorumlock::rules::ballot::{dealt, lifted};
use quorumlock::rules::{NodeSet, Size, Tick};

use crate::client::{Message, NODES, tick, wall};
use crate::scope::{Revokes, Scope, Ticks};
use crate::world::{Action, World, names, owner};

/// The owner of a revocation where no node names one.
const NOBODY: &str = "-";
/// How often the name is asked for: it passes on once here.
const TRIES: u8 = 2;

/// By how much its wall clock is ahead of the others: so its ballot is above what they deal in the
/// same tick.
const AHEAD: Duration = Duration::from_micros(50);

/// What a node said: who holds the name there, and its fence.
pub type Said = (Option<String>, u64);

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Revoker {
    doing: Doing,
    tries: u8,
    /// The highest ballot that it dealt or was told.
    highest: u64,
    longest: Option<Duration>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Doing {
    /// It is about to ask who holds the name.
    #[default]
    Looking,
    Taking(Box<Taking>),
    /// It has ended, whatever it came to.
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Taking {
    ballot: u64,
    /// Who is revoked, and what that came to.
    owners: Vec<(String, Votes)>,
    asked: NodeSet,
}

/// The answers to the revocation of one owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Votes {
    /// The nodes that named the owner.
    named: NodeSet,
    /// Those that hold it for the owner, those that do not, and those on which nobody holds it.
    marked: NodeSet,
    gone: NodeSet,
    nobody: NodeSet,
    left: Option<Duration>,
    others: Vec<String>,
}

/// What it told: who holds the name by a ballot below this does not beyond that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Told {
    pub below: u64,
    pub by: Tick,
}

impl Revoker {
    /// Whether it asks who holds the name.
    pub const fn looks(&self) -> bool {
        matches!(self.doing, Doing::Looking)
    }

    /// Whether it has ended.
    pub const fn is_done(&self) -> bool {
        matches!(self.doing, Doing::Done)
    }

    /// Whether it would revoke somebody on a node now.
    pub fn asks(&self, node: usize) -> bool {
        matches!(&self.doing, Doing::Taking(it) if !it.asked.contains(node))
    }

    /// Whom, and by which ballot.
    pub fn owners(&self) -> Vec<(Arc<str>, u64)> {
        match &self.doing {
            Doing::Taking(it) => it.owners.iter().map(|(owner, _)| (owner.as_str().into(), it.ballot)).collect(),
            Doing::Looking | Doing::Done => Vec::new(),
        }
    }

    /// A node has carried that out, for each of them.
    pub fn hear(&mut self, node: usize, outcomes: Vec<Outcome>) {
        if let Doing::Taking(it) = &mut self.doing {
            it.asked.insert(node);
            it.owners.iter_mut().zip(outcomes).for_each(|((_, votes), outcome)| votes.count(node, outcome));
        }
    }

    /// Whether a quorum has answered.
    pub fn may_go_on(&self) -> bool {
        matches!(&self.doing, Doing::Taking(it) if it.asked.len() >= size().quorum())
    }

    /// Goes on with what was answered so far.
    pub fn go_on(&mut self, now: Ticks) -> Option<Told> {
        match std::mem::take(&mut self.doing) {
            Doing::Taking(it) => self.taken(&it, now),
            Doing::Looking | Doing::Done => None,
        }
    }

    /// Nodes said who holds the name.
    pub fn look(&mut self, said: &[Option<Said>; NODES], now: Ticks) {
        let told = said.iter().flatten().map(|(_, fence)| *fence).max().unwrap_or(0);
        self.highest = dealt(self.highest.max(told), wall(now) + AHEAD);
        let ballot = lifted(self.highest, told).expect("small numbers");
        let mut owners: Vec<_> = said.iter().flatten().filter_map(|(holder, _)| holder.clone()).collect();
        owners.sort_unstable();
        owners.dedup();
        if owners.is_empty() {
            owners.push(NOBODY.to_owned());
        }
        let names =
            |node: usize, owner: &str| said[node].as_ref().is_some_and(|(holder, _)| holder.as_deref() == Some(owner));
        let naming = |owner: &str| (0..NODES).filter(|&node| names(node, owner)).collect::<NodeSet>();
        let owners = owners.into_iter().map(|owner| {
            let votes = Votes { named: naming(&owner), ..Votes::default() };
            (owner, votes)
        });
        self.tries += 1;
        self.doing = Doing::Taking(Box::new(Taking { ballot, owners: owners.collect(), asked: NodeSet::default() }));
    }

    fn taken(&mut self, it: &Taking, now: Ticks) -> Option<Told> {
        self.longest = self.longest.max(it.left());
        let told = Told { below: it.ballot, by: tick(now) + self.longest.unwrap_or_default() };
        let came = it.comes_to();
        if came != Came::Again || self.tries == TRIES {
            *self = Self { doing: Doing::Done, ..Self::default() };
        }
        (came == Came::Whole).then_some(told)
    }
}

/// What the answers come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    /// It was taken from all who had it.
    Whole,
    /// Somebody else may have it.
    Again,
    /// Whoever was named may have it on a node that does not answer.
    Unknown,
}

impl Taking {
    fn left(&self) -> Option<Duration> {
        self.owners.iter().filter_map(|(_, votes)| votes.left).max()
    }

    fn comes_to(&self) -> Came {
        let votes = || self.owners.iter().map(|(_, votes)| votes);
        let silent = votes().any(|votes| votes.is_silent(self.asked));
        let unheard = votes().any(|votes| votes.is_silent(self.asked) && votes.gone.len() < size().quorum());
        let nobody = votes().any(|votes| votes.nobody.len() >= size().quorum());
        let alone = votes().any(|votes| votes.marked.len() >= size().blocking());
        let named = self.owners.iter().any(|(owner, _)| owner != NOBODY);
        let passed_on = self.left().is_none() && named && !(silent && nobody);
        let is_known = |other: &String| self.owners.iter().any(|(owner, _)| owner == other);
        match () {
            () if !alone && unheard => Came::Unknown,
            () if alone || !passed_on && votes().flat_map(|votes| &votes.others).all(is_known) => Came::Whole,
            () => Came::Again,
        }
    }
}

impl Votes {
    fn count(&mut self, node: usize, outcome: Outcome) {
        let Outcome::Revoked { held, left, other } = outcome else { return };
        if held > 0 {
            self.marked.insert(node);
            self.left = self.left.max(Some(left));
        } else {
            self.gone.insert(node);
            other.is_none().then(|| self.nobody.insert(node));
        }
        self.others.extend(other);
    }

    /// Whether all that answered know nothing of it, and one that named the owner has not.
    fn is_silent(&self, asked: NodeSet) -> bool {
        self.marked.is_empty() && !self.named.without(asked).is_empty()
    }
}

const fn size() -> Size {
    Size::of(NODES as u32)
}

impl World {
    /// Whether somebody has the lock for longer than whoever took it away was told, or was granted
    /// something where it had been revoked.
    pub fn goes_on(&self) -> bool {
        let long = |told: Told| {
            let holds = self.clients.iter().filter_map(|client| client.holds(self.now));
            holds.into_iter().any(|(until, token)| token < told.below && until > told.by)
        };
        self.took || self.told.is_some_and(long)
    }

    pub fn of_revoker(&self, scope: &Scope, actions: &mut Vec<Action>) {
        if scope.revokes == Revokes::Never || self.clients[0].rounds == 0 {
            return;
        }
        let quorums = || std::iter::once(None).chain((0..NODES).map(Some));
        if self.revoker.looks() {
            // Where it may be handed over, it is taken from somebody who holds it.
            let held = self.clients.iter().any(|client| client.is_held(self.now));
            let looks = quorums().take(if scope.hands { held.into() } else { 1 + NODES });
            actions.extend(looks.map(Action::Look));
        } else if scope.revokes == Revokes::NodeByNode {
            let asks = |node: &usize| self.revoker.asks(*node);
            actions.extend((0..NODES).filter(asks).map(Action::Revoke));
            actions.extend(self.revoker.may_go_on().then_some(Action::GoOn));
        } else if !self.revoker.is_done() {
            actions.extend(quorums().map(Action::RevokeAll));
        }
    }

    pub fn look(&mut self, but: Option<usize>) {
        let now = self.now;
        let mut said = |node: usize| {
            let outcome = Arc::make_mut(&mut self.servers[node]).apply(&Operation::Inspect(names()), now).0;
            let Outcome::Inspected(entries) = outcome else { return None };
            entries.into_iter().next().map(|entry| (entry.holder, entry.fence))
        };
        let said = std::array::from_fn(|node| if Some(node) == but { None } else { said(node) });
        self.revoker.look(&said, now);
    }

    /// All nodes but one let it end, or all, and who asks goes on.
    pub fn revoke_all(&mut self, but: Option<usize>) {
        (0..NODES).filter(|&node| Some(node) != but).for_each(|node| self.revoke(node));
        self.go_on();
    }

    pub fn go_on(&mut self) {
        self.told = self.revoker.go_on(self.now).or(self.told);
    }

    pub fn revoke(&mut self, node: usize) {
        let (owners, now) = (self.revoker.owners(), self.now);
        let mut outcomes = Vec::new();
        for (owner, ballot) in owners {
            let noted = (node, owner.clone());
            let revoke = Revoke { names: names(), owner, ballot }.into();
            outcomes.push(Arc::make_mut(&mut self.servers[node]).apply(&revoke, now).0);
            if let Err(at) = self.revoked.binary_search(&noted) {
                self.revoked.insert(at, noted);
            }
        }
        self.revoker.hear(node, outcomes);
    }

    /// Who was revoked on a node is granted nothing more there.
    pub fn note_grant(&mut self, node: usize, message: Message, outcome: &Outcome) {
        let granted = message.verb == Verb::Claim && matches!(outcome, Outcome::Granted { .. });
        if granted && !self.revoked.is_empty() {
            self.took |= self.revoked.contains(&(node, owner(message.owner)));
        }
    }
}
