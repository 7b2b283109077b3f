//! The messages for one acquisition: hand-overs to it, and hints to ask again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use crate::node::{Claim, Hint};
use crate::rules::handover::{Handovers, again};
use crate::rules::{NodeSet, Tick};

/// Receives the messages for one acquisition.
#[derive(Debug)]
pub(super) struct PushReceiver {
    state: Mutex<State>,
    pub(super) news: Notify,
}

#[derive(Debug)]
pub(super) struct State {
    mode: Mode,
    pub(super) heard: Heard,
    /// When the owner asked last.
    asked: Tick,
    /// The current owner, and how long a hand-over to it lasts; `None` before the first claim.
    present: Option<(Arc<str>, Duration)>,
    pub(super) handed: Handovers,
    /// The release of the owner, once the owner has ended.
    release: Option<Weak<dyn Releases>>,
}

/// A release that was sent to nodes.
pub(super) trait Releases: std::fmt::Debug + Send + Sync {
    /// Whether the release of this owner is under way to the node, and is repeated until confirmed.
    fn is_under_way(&self, node: usize, owner: &str) -> bool;
}

#[derive(Clone, Copy, Debug)]
enum Mode {
    /// Waits for the lock.
    Waiting,
    /// Holds the lock. A later hand-over to this owner is renewed and released together with the
    /// lock.
    Holding,
    /// Has ended.
    Ended,
}

/// The messages for an acquisition since its last ask or withdrawal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    /// When to ask again, by the hints of nodes. A withdrawal does not reset this time.
    pub(crate) ask_at: Tick,
    /// Whether the owner is the first or the second in the queue of a node that refused the last
    /// claim.
    pub(crate) is_near: bool,
    /// When the first push came.
    pub(crate) pushed: Option<Tick>,
    /// The nodes that have pushed.
    pub(crate) pushes: NodeSet,
    /// Whether a node granted the last claim. Such a grant is late if the round has failed.
    pub(crate) late: bool,
}

impl Heard {
    /// No push, no reply, and `ask_at` as given.
    fn nothing(ask_at: Tick) -> Self {
        Self { ask_at, is_near: false, pushed: None, pushes: NodeSet::default(), late: false }
    }

    /// Whether any node handed the name over, or granted the last claim.
    pub(super) const fn is_news(&self) -> bool {
        self.pushed.is_some() || self.late
    }
}

impl PushReceiver {
    pub(super) fn new() -> Self {
        let state = State {
            mode: Mode::Waiting,
            heard: Heard::nothing(Tick::NEVER),
            asked: Tick::NEVER,
            present: None,
            handed: Handovers::default(),
            release: None,
        };
        Self { state: Mutex::new(state), news: Notify::new() }
    }

    /// Takes note of a push or a hint. Returns false if the client must release the name that the
    /// push hands over. This is so if the push's owner has ended or is not the present owner, and
    /// no release of that owner is under way to the node.
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
                state.heard.pushed.get_or_insert(now);
                state.heard.pushes.insert(node);
            }
            // The node may have sent the hint before the last ask, so a hint waits until
            // `may_ask_at`.
            (Mode::Waiting, None) => {
                state.heard.ask_at = state.heard.ask_at.min(state.may_ask_at().max(now + hint.after));
            }
        }
        drop(state);
        self.news.notify_one();
        true
    }

    /// Whether a release of this owner is under way to the node. Such a release also frees the name
    /// that the node has just handed over.
    fn released(state: MutexGuard<'_, State>, node: usize, owner: &str) -> bool {
        let release = state.release.as_ref().and_then(Weak::upgrade);
        // Unlock first: dropping the last reference to a release drops its receiver, which locks
        // this state.
        drop(state);
        release.is_some_and(|release| release.is_under_way(node, owner))
    }

    /// Calls `change` if `owner` is the current owner. Returns true if `owner` is current and a
    /// node has handed the name over.
    pub(super) fn of(&self, owner: &Arc<str>, change: impl FnOnce(&mut State)) -> bool {
        let mut state = self.state();
        let present = state.present.as_ref().is_some_and(|(known, _)| known == owner);
        if present {
            change(&mut state);
        }
        present && !state.handed.is_empty()
    }

    pub(super) fn ask_now(&self, now: Tick) {
        self.state().heard.ask_at = now;
        self.news.notify_one();
    }

    /// Call this before `claim` is sent. Forgets all messages except hand-overs. `lasts` is how
    /// long a hand-over after this claim lasts. Returns whether this is the acquisition's first
    /// claim.
    pub(super) fn asks(&self, claim: &Claim, t0: Tick, lasts: Duration) -> bool {
        let mut state = self.state();
        state.asked = t0;
        state.heard = Heard::nothing(Tick::NEVER);
        state.present.replace((claim.owner.clone(), lasts)).is_none()
    }

    /// The messages since the last ask or withdrawal.
    pub(super) fn heard(&self) -> Heard {
        self.state().heard
    }

    /// The hand-overs so far.
    pub(super) fn handed(&self) -> Handovers {
        self.state().handed.clone()
    }

    /// If `targets` selects any node, notes that the caller withdraws all hand-overs so far. Returns
    /// the nodes that need a withdrawal, which `targets` selects, and the ballot of the withdrawal:
    /// the higher of `asked` and the highest pushed ballot.
    pub(super) fn withdraw(&self, asked: u64, targets: impl Fn(&Handovers) -> NodeSet) -> (NodeSet, u64) {
        let mut state = self.state();
        let (nodes, ballot) = (targets(&state.handed), asked.max(state.handed.top()));
        if !nodes.is_empty() {
            state.handed.withdraw();
            state.heard = Heard::nothing(state.heard.ask_at);
        }
        (nodes, ballot)
    }

    /// Ends the acquisition, and returns the hand-overs so far.
    pub(super) fn end(&self) -> Handovers {
        let mut state = self.state();
        state.mode = Mode::Ended;
        std::mem::take(&mut state.handed)
    }

    /// Sets the release that ended the owner.
    pub(super) fn release(&self, release: Weak<dyn Releases>) {
        self.state().release = Some(release);
    }

    /// The owner holds the lock from now on.
    pub(super) fn hold(&self) {
        self.state().mode = Mode::Holding;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The earliest time at which a hint makes the owner ask again.
    fn may_ask_at(&self) -> Tick {
        let asked = |(_, lasts): &(_, Duration)| self.asked + again(*lasts, Duration::ZERO, true);
        self.present.as_ref().map_or_else(Tick::default, asked)
    }
}
