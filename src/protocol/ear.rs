//! What one acquisition hears: turns that it is given, and what is handed over to it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use crate::node::{Claim, Hint};
use crate::rules::handover::{Handovers, refresh};
use crate::rules::{NodeSet, Tick};

/// What one acquisition has heard.
#[derive(Debug)]
pub(super) struct Ear {
    state: Mutex<State>,
    pub(super) news: Notify,
}

#[derive(Debug)]
pub(super) struct State {
    mode: Mode,
    turns: NodeSet,
    first: Option<Tick>,
    ask_at: Tick,
    /// When it asked last.
    asked: Tick,
    /// Whom names may be handed over to, and for how long, by the last claim.
    present: Option<(Arc<str>, Duration)>,
    pub(super) handed: Handovers,
    /// When it was handed over first since it asked last.
    pushed: Option<Tick>,
    /// The nodes that have done so since.
    pushes: NodeSet,
    /// Whether a node granted what was asked last: where the round has failed before, that is late.
    pub(super) late: bool,
    /// The release of the owner, once it has ended.
    release: Option<Weak<dyn Releases>>,
}

/// A release that nodes are asked for.
pub(super) trait Releases: std::fmt::Debug + Send + Sync {
    /// Whether it is under way to this node, for this owner, and sent again if it is not confirmed.
    fn is_under_way(&self, node: usize, owner: &str) -> bool;
}

#[derive(Debug)]
enum Mode {
    /// It wants to know.
    Waiting,
    /// It holds the lock, and strengthens it where a node that refused it offers it a turn.
    Holding(Option<Arc<dyn Offered>>),
    /// It has ended.
    Ended,
}

/// Whoever holds the lock, and may take it on one more node.
pub(super) trait Offered: std::fmt::Debug + Send + Sync {
    /// This node gave its turn.
    fn offered(&self, node: usize);
}

/// What an acquisition has heard since its last round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    /// The nodes on which its turn has come.
    pub(crate) turns: NodeSet,
    /// When the first of them said so.
    pub(crate) first: Option<Tick>,
    /// When the turn of the one before it runs out, if that was told.
    pub(crate) ask_at: Tick,
    /// When a node handed the name over, the first of them.
    pub(crate) pushed: Option<Tick>,
    /// The nodes that did.
    pub(crate) pushes: NodeSet,
    /// Whether a node granted what was asked last.
    pub(crate) late: bool,
}

impl Heard {
    /// Whether any node gave a turn, handed the name over, or granted it late.
    pub(super) const fn is_news(&self) -> bool {
        self.first.is_some() || self.pushed.is_some() || self.late
    }
}

impl Ear {
    pub(super) fn new() -> Self {
        let state = State {
            mode: Mode::Waiting,
            turns: NodeSet::default(),
            first: None,
            ask_at: Tick::NEVER,
            asked: Tick::NEVER,
            present: None,
            handed: Handovers::default(),
            pushed: None,
            pushes: NodeSet::default(),
            late: false,
            release: None,
        };
        Self { state: Mutex::new(state), news: Notify::new() }
    }

    /// Takes note of a hint. Returns whether anybody looks after it: nobody does where the name was
    /// handed over to an owner that has ended, or to the writer that a reader was, and no release of
    /// it is under way there.
    pub(super) fn hear(&self, node: usize, hint: &Hint, now: Tick) -> bool {
        let mut state = self.state();
        if let Some(granted) = &hint.granted
            && state.present.as_ref().is_none_or(|(owner, _)| *owner != granted.owner)
        {
            return Self::released(state, node, &granted.owner);
        }
        match (&state.mode, &hint.granted) {
            (Mode::Ended, Some(granted)) => return Self::released(state, node, &granted.owner),
            (Mode::Ended, None) => return false,
            (Mode::Holding(_), Some(_)) => return true,
            (Mode::Holding(won), None) => {
                let won = won.clone();
                drop(state);
                won.filter(|_| hint.after.is_zero()).into_iter().for_each(|won| won.offered(node));
                return true;
            }
            (Mode::Waiting, Some(granted)) => {
                state.handed.push(node, granted.ballot, granted.lasts, granted.stamp, granted.counts);
                state.pushed.get_or_insert(now);
                state.pushes.insert(node);
            }
            (Mode::Waiting, None) if hint.after.is_zero() => {
                state.turns.insert(node);
                state.first.get_or_insert(now);
            }
            // What it has registered since is on its way.
            (Mode::Waiting, None) if hint.asks_to_register() && state.has_just_asked(now) => return true,
            (Mode::Waiting, None) => state.ask_at = state.ask_at.min(now + hint.after),
        }
        drop(state);
        self.news.notify_one();
        true
    }

    /// Whether a release of this owner is under way: what the node granted before that, it frees,
    /// and hands over to the next.
    fn released(state: MutexGuard<'_, State>, node: usize, owner: &str) -> bool {
        let release = state.release.as_ref().and_then(Weak::upgrade);
        // A release that ends drops its ear.
        drop(state);
        release.is_some_and(|release| release.is_under_way(node, owner))
    }

    /// Changes what is known of an owner. Whether the name was handed over to it anywhere.
    pub(super) fn of(&self, owner: &Arc<str>, change: impl FnOnce(&mut State)) -> bool {
        let mut state = self.state();
        let present = state.present.as_ref().is_some_and(|(known, _)| known == owner);
        if present {
            change(&mut state);
        }
        present && !state.handed.is_empty()
    }

    pub(super) fn ask_now(&self, now: Tick) {
        let mut state = self.state();
        state.ask_at = now;
        drop(state);
        self.news.notify_one();
    }

    /// `claim` is about to ask everyone. Forgets what was heard, but for what was handed over. Returns
    /// whether it is the first claim.
    pub(super) fn asks(&self, claim: &Claim, t0: Tick) -> bool {
        let mut state = self.state();
        state.asked = t0;
        state.turns = NodeSet::default();
        state.first = None;
        state.ask_at = Tick::NEVER;
        (state.pushed, state.pushes, state.late) = (None, NodeSet::default(), false);
        state.present.replace((claim.owner.clone(), claim.handover)).is_none()
    }

    /// What was heard since it asked last.
    pub(super) fn heard(&self) -> Heard {
        let state = self.state();
        Heard {
            turns: state.turns,
            first: state.first,
            ask_at: state.ask_at,
            pushed: state.pushed,
            pushes: state.pushes,
            late: state.late,
        }
    }

    /// What was handed over.
    pub(super) fn handed(&self) -> Handovers {
        self.state().handed.clone()
    }

    /// Withdraws the grants so far, up to the highest ballot that was asked with or pushed. Returns
    /// the nodes to send that to, by the hand-overs before it, and that ballot.
    pub(super) fn withdraw(&self, asked: u64, whom: impl Fn(&Handovers) -> NodeSet) -> (NodeSet, u64) {
        let mut state = self.state();
        let (nodes, ballot) = (whom(&state.handed), asked.max(state.handed.top()));
        if !nodes.is_empty() {
            state.handed.withdraw(ballot);
            (state.pushed, state.pushes, state.late) = (None, NodeSet::default(), false);
        }
        (nodes, ballot)
    }

    /// The acquisition has ended. What was handed over so far.
    pub(super) fn end(&self) -> Handovers {
        let mut state = self.state();
        // Whoever holds keeps the round, which keeps the ear: it is dropped outside of the lock.
        let mode = std::mem::replace(&mut state.mode, Mode::Ended);
        let handed = std::mem::take(&mut state.handed);
        drop(state);
        drop(mode);
        handed
    }

    /// Its owner has ended, with this release.
    pub(super) fn release(&self, release: Weak<dyn Releases>) {
        self.state().release = Some(release);
    }

    /// From now on it holds the lock. Turns that came while the round was under way may be of nodes
    /// that refused it before.
    pub(super) fn hold(&self, holder: Option<Arc<dyn Offered>>) {
        let mut state = self.state();
        let turns = std::mem::take(&mut state.turns);
        state.mode = Mode::Holding(holder.clone());
        drop(state);
        holder.into_iter().for_each(|holder| turns.iter().for_each(|node| holder.offered(node)));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether what it has registered last is so young that nobody needs it to register again.
    fn has_just_asked(&self, now: Tick) -> bool {
        self.present.as_ref().is_some_and(|(_, handover)| now < self.asked + refresh(*handover))
    }
}
