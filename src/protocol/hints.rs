//! Who of this client waits for hints, and what hints they got.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::holding::Holding;
use super::release::{Cleanup, Whom};
use super::round::Round;
use super::voters::Voters;
use crate::host::Host;
use crate::node::{HandedOver, Hint, Listener, Operation, Outcome, Reply, Stance, Verb};
use crate::quorum::handover::{Handovers, Registered};
use crate::quorum::{ClaimTally, NodeSet, Tick, Validity};

/// All of a client's acquisitions that stand in line somewhere.
#[derive(Debug)]
pub(crate) struct Hints {
    /// `host/pid/uuid`: unguessable, made once.
    client: String,
    host: Arc<dyn Host>,
    /// Through whom what was handed over to nobody is released.
    voters: OnceLock<Weak<Voters>>,
    /// In order, so that all are woken in the order in which they came.
    ears: Mutex<BTreeMap<u64, Arc<Ear>>>,
    /// The last owner that something was given back for, and the ballot of whom that is handed over to.
    given_back: Mutex<Option<(Arc<str>, u64)>>,
    doubts: Arc<Doubts>,
    pupils: Arc<Doubts>,
    members: Arc<Doubts>,
    heard: metrics::Counter,
    wasted: metrics::Counter,
}

/// The nodes that may have forgotten what they granted, for one who looks after that.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    nodes: Mutex<Doubted>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Doubted {
    /// Those that nobody has taken.
    news: NodeSet,
    /// When each came into doubt last.
    last: BTreeMap<usize, Tick>,
}

impl Doubts {
    /// Waits until some nodes are in doubt, and takes them.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn next(&self) -> NodeSet {
        loop {
            let nodes = std::mem::take(&mut self.nodes().news);
            if !nodes.is_empty() {
                return nodes;
            }
            self.news.notified().await;
        }
    }

    /// The nodes that came into doubt at `t0` or later: what was asked then may rest on them.
    pub(crate) fn since(&self, t0: Tick) -> NodeSet {
        let mut since = NodeSet::default();
        self.nodes().last.iter().filter(|(_, at)| **at >= t0).for_each(|(node, _)| since.insert(*node));
        since
    }

    fn add(&self, node: usize, now: Tick) {
        let mut nodes = self.nodes();
        nodes.news.insert(node);
        nodes.last.insert(node, now);
        drop(nodes);
        self.news.notify_one();
    }

    fn nodes(&self) -> MutexGuard<'_, Doubted> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one acquisition has heard.
#[derive(Debug)]
pub(crate) struct Ear {
    state: Mutex<State>,
    news: Notify,
}

#[derive(Debug)]
struct State {
    mode: Mode,
    turns: NodeSet,
    first: Option<Tick>,
    ask_at: Tick,
    /// The last claim: whose owner it is that names may be handed over to.
    claim: Option<Arc<Operation>>,
    handed: Handovers,
    /// When it was handed over first since it asked last.
    pushed: Option<Tick>,
    /// The nodes that have done so since.
    pushes: NodeSet,
    /// Whether a node granted what was asked last: where the round has failed before, that is late.
    late: bool,
}

#[derive(Debug)]
enum Mode {
    /// It wants to know.
    Waiting,
    /// It holds the lock, and strengthens it where a node that refused it offers it a turn.
    Holding(Option<Arc<Won>>),
    /// It has ended.
    Ended,
}

/// A round that was won after waiting.
#[derive(Debug)]
struct Won {
    voters: Weak<Voters>,
    claim: Arc<Operation>,
    round: Arc<Round<ClaimTally>>,
}

impl Won {
    /// Takes what a node offers that had refused. One that granted, or is about to answer, needs nothing.
    fn strengthen(&self, node: usize) {
        let refused = self.round.look(ClaimTally::refused).contains(node);
        if let Some(voters) = self.voters.upgrade().filter(|_| refused) {
            Holding::strengthen(&voters, node, &self.claim);
        }
    }
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

/// What an ask listens with: what nodes reply to it says what they may hand over.
#[derive(Debug)]
pub(crate) struct Watch {
    ear: Arc<Ear>,
    owner: Arc<str>,
    t0: Tick,
    lasts: Option<Validity>,
}

impl Watch {
    /// Lets its owner look at the votes once more.
    pub(super) fn wake(&self) {
        self.ear.news.notify_one();
    }

    /// A node answered, before anything else that it has said since. Returns whether the name was handed over anywhere.
    pub(super) fn heard(&self, node: usize, reply: &Reply) -> bool {
        let queued = match reply {
            Ok(Outcome::Held { queued, .. } | Outcome::Reserved { queued, .. }) => *queued,
            Ok(Outcome::Granted { .. }) => {
                return self.ear.of(&self.owner, |state| {
                    state.handed.granted(node);
                    state.late = true;
                });
            }
            Ok(Outcome::Stale { .. }) => return self.ear.of(&self.owner, |state| state.handed.stale(node)),
            _ => return false,
        };
        let registered = self.lasts.zip(queued).map(|(lasts, queued)| Registered {
            t0: self.t0,
            lasts,
            stamp: queued.stamp,
            rank: queued.rank,
        });
        self.ear.of(&self.owner, |state| state.handed.refused(node, registered))
    }
}

impl Hints {
    pub(crate) fn new(client: String, host: Arc<dyn Host>) -> Arc<Self> {
        let (heard, wasted) = crate::metrics::hint_counters();
        Arc::new(Self {
            client,
            host,
            voters: OnceLock::new(),
            ears: Mutex::default(),
            given_back: Mutex::default(),
            doubts: Arc::default(),
            pupils: Arc::default(),
            members: Arc::default(),
            heard,
            wasted,
        })
    }

    /// Who releases what is handed over to nobody.
    pub(crate) fn attach(&self, voters: &Arc<Voters>) {
        let _ = self.voters.set(Arc::downgrade(voters));
    }

    /// Listens for acquisition `number` until the returned ear is dropped.
    pub(crate) fn listen(self: &Arc<Self>, number: u64) -> Listening {
        let state = State {
            mode: Mode::Waiting,
            turns: NodeSet::default(),
            first: None,
            ask_at: Tick::NEVER,
            claim: None,
            handed: Handovers::default(),
            pushed: None,
            pushes: NodeSet::default(),
            late: false,
        };
        let ear = Arc::new(Ear { state: Mutex::new(state), news: Notify::new() });
        self.ears().insert(number, ear.clone());
        Listening { hints: self.clone(), number, ear }
    }

    /// The nodes that may have forgotten what they granted.
    pub(crate) fn doubts(&self) -> Arc<Doubts> {
        self.doubts.clone()
    }

    /// The same nodes, for whoever teaches them.
    pub(crate) fn pupils(&self) -> Arc<Doubts> {
        self.pupils.clone()
    }

    /// The nodes that were connected to, or whose connection has ended, for whoever enrols them.
    pub(crate) fn members(&self) -> Arc<Doubts> {
        self.members.clone()
    }

    /// What is enrolled has changed.
    pub(crate) fn enrol(&self) {
        self.members.add(0, self.host.now());
    }

    /// How many listen.
    #[cfg(feature = "test-util")]
    pub(crate) fn ears_in_use(&self) -> usize {
        self.ears().len()
    }

    fn ears(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Ear>>> {
        self.ears.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ear(&self, hint: &Hint) -> Option<Arc<Ear>> {
        let (client, number) = hint.address()?;
        if client == self.client { self.ears().get(&number).cloned() } else { None }
    }

    /// What a node has handed over to an owner that has ended, it is to hand over to the next. Its acquisition may
    /// have a place in the queue still, as another owner.
    fn give_back(&self, node: usize, granted: &HandedOver) {
        let Some(voters) = self.voters.get().and_then(Weak::upgrade) else { return };
        // Tried again for as long as it would be held.
        let ttl = Duration::from_secs(5);
        let names = [granted.name.clone()].into();
        let (owner, ballot) = (granted.owner.clone(), granted.ballot);
        let next = self.next_after(&voters, granted);
        let release = Operation {
            verb: Verb::Release,
            owner,
            ttl,
            ballot,
            stance: Stance::Barge,
            next,
            ..Operation::inspect(names)
        };
        Cleanup::start(&voters, release, Whom::all(NodeSet::of(node)));
    }
}

impl Hints {
    /// The ballot of whoever comes next: the same for all nodes that handed over to one owner.
    fn next_after(&self, voters: &Voters, granted: &HandedOver) -> u64 {
        let mut given_back = self.given_back.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((owner, next)) = &*given_back
            && *owner == granted.owner
            && *next > granted.ballot
        {
            return *next;
        }
        let next = voters.next_ballot(granted.ballot);
        *given_back = Some((granted.owner.clone(), next));
        next
    }
}

impl Listener for Hints {
    fn client(&self) -> &str {
        &self.client
    }

    fn hint(&self, node: usize, hint: &Hint) {
        match self.ear(hint) {
            Some(ear) => {
                self.heard.increment(1);
                let heard = ear.hear(node, hint, self.host.now());
                if let Some(granted) = hint.granted.as_ref().filter(|_| !heard) {
                    self.give_back(node, granted);
                }
            }
            None => {
                self.wasted.increment(1);
                // Others listen to the same node here.
                let mine = hint.address().is_some_and(|(client, _)| client == self.client);
                if let Some(granted) = hint.granted.as_ref().filter(|_| mine) {
                    self.give_back(node, granted);
                }
            }
        }
    }

    fn missed(&self, _node: usize) {
        let ears: Vec<_> = self.ears().values().cloned().collect();
        ears.iter().for_each(|ear| ear.ask_now(self.host.now()));
    }

    fn doubted(&self, node: usize) {
        self.doubts.add(node, self.host.now());
        self.pupils.add(node, self.host.now());
        // Its roster may have gone too.
        self.members.add(node, self.host.now());
    }

    fn connected(&self, node: usize) {
        self.members.add(node, self.host.now());
    }

    fn met(&self, node: usize) {
        self.pupils.add(node, self.host.now());
    }
}

impl Ear {
    /// Takes note of a hint. Returns whether there is somebody whom it is for: not where the name was handed over to an
    /// owner that has ended.
    fn hear(&self, node: usize, hint: &Hint, now: Tick) -> bool {
        let mut state = self.state();
        if let Some(granted) = &hint.granted
            && state.claim.as_ref().is_none_or(|claim| claim.owner != granted.owner)
        {
            return false;
        }
        match (&state.mode, &hint.granted) {
            (Mode::Ended, _) => return false,
            (Mode::Holding(_), Some(_)) => return true,
            (Mode::Holding(won), None) => {
                let won = won.clone();
                drop(state);
                won.filter(|_| hint.after.is_zero()).into_iter().for_each(|won| won.strengthen(node));
                return true;
            }
            (Mode::Waiting, Some(granted)) => {
                state.handed.push(node, granted.ballot, granted.stamp, granted.counts);
                state.pushed.get_or_insert(now);
                state.pushes.insert(node);
            }
            (Mode::Waiting, None) if hint.after.is_zero() => {
                state.turns.insert(node);
                state.first.get_or_insert(now);
            }
            (Mode::Waiting, None) => state.ask_at = state.ask_at.min(now + hint.after),
        }
        drop(state);
        self.news.notify_one();
        true
    }

    /// Changes what is known of an owner, if that is the present one. Whether the name was handed over to it anywhere.
    fn of(&self, owner: &Arc<str>, change: impl FnOnce(&mut State)) -> bool {
        let mut state = self.state();
        let present = state.claim.as_ref().is_some_and(|claim| claim.owner == *owner);
        if present {
            change(&mut state);
        }
        present && !state.handed.is_empty()
    }

    fn ask_now(&self, now: Tick) {
        let mut state = self.state();
        state.ask_at = now;
        drop(state);
        self.news.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One acquisition that listens. Dropping it stops listening.
#[derive(Debug)]
pub(crate) struct Listening {
    hints: Arc<Hints>,
    number: u64,
    ear: Arc<Ear>,
}

impl Listening {
    /// `claim` is about to ask everyone at `t0`. Forgets what was heard, but for what was handed over to the same
    /// owner. What it is asked with says what nodes may hand over from now on: `lasts`, if anything.
    pub(super) fn asks(&self, claim: &Arc<Operation>, t0: Tick, lasts: Option<Validity>) -> Watch {
        let mut state = self.ear.state();
        state.turns = NodeSet::default();
        state.first = None;
        state.ask_at = Tick::NEVER;
        (state.pushed, state.pushes, state.late) = (None, NodeSet::default(), false);
        let before = state.claim.replace(claim.clone());
        if before.is_none_or(|before| before.owner != claim.owner) {
            state.handed = Handovers::default();
        }
        Watch { ear: self.ear.clone(), owner: claim.owner.clone(), t0, lasts }
    }

    /// What was heard since.
    pub(crate) fn heard(&self) -> Heard {
        let state = self.ear.state();
        Heard {
            turns: state.turns,
            first: state.first,
            ask_at: state.ask_at,
            pushed: state.pushed,
            pushes: state.pushes,
            late: state.late,
        }
    }

    /// What was handed over to the present owner.
    pub(super) fn handed(&self) -> Handovers {
        self.ear.state().handed.clone()
    }

    /// The present owner has ended, and `next` is who comes after it. What was handed over so far; what is from now on is
    /// given back.
    pub(super) fn turn_to(&self, next: Arc<Operation>) -> Handovers {
        let mut state = self.ear.state();
        state.claim = Some(next);
        (state.pushed, state.pushes, state.late) = (None, NodeSet::default(), false);
        std::mem::take(&mut state.handed)
    }

    /// The acquisition has ended. What was handed over so far; what is from now on is given back.
    pub(super) fn end(self) -> Handovers {
        let mut state = self.ear.state();
        state.mode = Mode::Ended;
        let handed = std::mem::take(&mut state.handed);
        drop(state);
        handed
    }

    /// Waits until something was heard.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn news(&self) {
        self.ear.news.notified().await;
    }

    /// From now on it holds the lock, and takes what further nodes offer that refused it in `round`.
    pub(super) fn hold(&self, voters: &Arc<Voters>, claim: &Arc<Operation>, round: Option<&Arc<Round<ClaimTally>>>) {
        let won = round
            .map(|round| Arc::new(Won { voters: Arc::downgrade(voters), claim: claim.clone(), round: round.clone() }));
        let mut state = self.ear.state();
        let turns = std::mem::take(&mut state.turns);
        state.mode = Mode::Holding(won.clone());
        drop(state);
        // Turns that came while the round was under way may be of nodes that refused it before.
        let Some(won) = won else { return };
        (0..voters.nodes.len()).filter(|&node| turns.contains(node)).for_each(|node| won.strengthen(node));
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.hints.ears().remove(&self.number);
        // The round that was won keeps the ear, which keeps the round.
        let mode = std::mem::replace(&mut self.ear.state().mode, Mode::Ended);
        drop(mode);
    }
}
