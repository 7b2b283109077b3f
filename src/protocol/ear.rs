//! What one acquisition hears: what is handed over to it, and that it had better ask again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use crate::node::{Claim, Hint};
use crate::rules::handover::{Handovers, again};
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
    /// When it had better ask again, if a node said so.
    ask_at: Tick,
    /// When it asked last.
    asked: Tick,
    /// The current owner of this acquisition, and how long a hand-over to it lasts. `None` before
    /// its first claim.
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

#[derive(Clone, Copy, Debug)]
enum Mode {
    /// It wants to know.
    Waiting,
    /// It holds the lock. What else is handed over to it is renewed and released with that.
    Holding,
    /// It has ended.
    Ended,
}

/// What an acquisition has heard since its last round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    /// When it had better ask again, if a node said so.
    pub(crate) ask_at: Tick,
    /// When a node handed the name over, the first of them.
    pub(crate) pushed: Option<Tick>,
    /// The nodes that did.
    pub(crate) pushes: NodeSet,
    /// Whether a node granted what was asked last.
    pub(crate) late: bool,
}

impl Heard {
    /// Whether any node handed the name over, or granted it late.
    pub(super) const fn is_news(&self) -> bool {
        self.pushed.is_some() || self.late
    }
}

impl Ear {
    pub(super) fn new() -> Self {
        let state = State {
            mode: Mode::Waiting,
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
            (Mode::Holding, _) => return true,
            (Mode::Waiting, Some(granted)) => {
                state.handed.push(node, granted.ballot, granted.lasts, granted.stamp, granted.counts);
                state.pushed.get_or_insert(now);
                state.pushes.insert(node);
            }
            // What it asked since may be on its way.
            (Mode::Waiting, None) => state.ask_at = state.ask_at.min(state.may_ask_at().max(now + hint.after)),
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
    /// whether it is the first claim. A hand-over to it lasts so long.
    pub(super) fn asks(&self, claim: &Claim, t0: Tick, lasts: Duration) -> bool {
        let mut state = self.state();
        state.asked = t0;
        state.ask_at = Tick::NEVER;
        (state.pushed, state.pushes, state.late) = (None, NodeSet::default(), false);
        state.present.replace((claim.owner.clone(), lasts)).is_none()
    }

    /// What was heard since it asked last.
    pub(super) fn heard(&self) -> Heard {
        let state = self.state();
        Heard { ask_at: state.ask_at, pushed: state.pushed, pushes: state.pushes, late: state.late }
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
            state.handed.withdraw();
            (state.pushed, state.pushes, state.late) = (None, NodeSet::default(), false);
        }
        (nodes, ballot)
    }

    /// The acquisition has ended. What was handed over so far.
    pub(super) fn end(&self) -> Handovers {
        let mut state = self.state();
        state.mode = Mode::Ended;
        std::mem::take(&mut state.handed)
    }

    /// Its owner has ended, with this release.
    pub(super) fn release(&self, release: Weak<dyn Releases>) {
        self.state().release = Some(release);
    }

    /// From now on it holds the lock.
    pub(super) fn hold(&self) {
        self.state().mode = Mode::Holding;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// When it asks again at the earliest, because a node says so.
    fn may_ask_at(&self) -> Tick {
        let asked = |(_, lasts): &(_, Duration)| self.asked + again(*lasts, Duration::ZERO, true);
        self.present.as_ref().map_or_else(Tick::default, asked)
    }
}
