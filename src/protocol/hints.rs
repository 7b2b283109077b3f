//! Who of this client waits for hints, and what hints they got.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use super::holding::Holding;
use super::round::Round;
use super::voters::Voters;
use crate::host::Host;
use crate::node::{Hint, Listener, Operation};
use crate::quorum::{ClaimTally, NodeSet, Tick};

/// All of a client's acquisitions that stand in line somewhere.
#[derive(Debug)]
pub(crate) struct Hints {
    /// `host/pid/uuid`: unguessable, made once.
    client: String,
    host: Arc<dyn Host>,
    /// In order, so that all are woken in the order in which they came.
    ears: Mutex<BTreeMap<u64, Arc<Ear>>>,
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
}

#[derive(Debug)]
enum Mode {
    /// It wants to know.
    Waiting,
    /// It holds the lock, and strengthens it where a node offers it a turn.
    Holding(Arc<Won>),
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
}

impl Hints {
    pub(crate) fn new(client: String, host: Arc<dyn Host>) -> Arc<Self> {
        let (heard, wasted) = crate::metrics::hint_counters();
        Arc::new(Self {
            client,
            host,
            ears: Mutex::default(),
            doubts: Arc::default(),
            pupils: Arc::default(),
            members: Arc::default(),
            heard,
            wasted,
        })
    }

    /// Listens for acquisition `number` until the returned ear is dropped.
    pub(crate) fn listen(self: &Arc<Self>, number: u64) -> Listening {
        let state = State { mode: Mode::Waiting, turns: NodeSet::default(), first: None, ask_at: Tick::NEVER };
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
}

impl Listener for Hints {
    fn client(&self) -> &str {
        &self.client
    }

    fn hint(&self, node: usize, hint: &Hint) {
        match self.ear(hint) {
            Some(ear) => {
                self.heard.increment(1);
                ear.hear(node, hint, self.host.now());
            }
            None => self.wasted.increment(1),
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
    fn hear(&self, node: usize, hint: &Hint, now: Tick) {
        let mut state = self.state();
        if let Mode::Holding(won) = &state.mode {
            let won = won.clone();
            drop(state);
            if hint.after.is_zero() {
                won.strengthen(node);
            }
            return;
        }
        if hint.after.is_zero() {
            state.turns.insert(node);
            state.first.get_or_insert(now);
        } else {
            state.ask_at = state.ask_at.min(now + hint.after);
        }
        drop(state);
        self.news.notify_one();
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
    /// Forgets what was heard: a round is about to ask everyone.
    pub(crate) fn clear(&self) {
        let mut state = self.ear.state();
        state.turns = NodeSet::default();
        state.first = None;
        state.ask_at = Tick::NEVER;
    }

    /// What was heard since.
    pub(crate) fn heard(&self) -> Heard {
        let state = self.ear.state();
        Heard { turns: state.turns, first: state.first, ask_at: state.ask_at }
    }

    /// Waits until something was heard.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn news(&self) {
        self.ear.news.notified().await;
    }

    /// From now on it holds the lock, and takes what further nodes offer.
    pub(super) fn hold(&self, voters: &Arc<Voters>, claim: &Arc<Operation>, round: &Arc<Round<ClaimTally>>) {
        let won = Arc::new(Won { voters: Arc::downgrade(voters), claim: claim.clone(), round: round.clone() });
        let mut state = self.ear.state();
        let turns = std::mem::take(&mut state.turns);
        state.mode = Mode::Holding(won.clone());
        drop(state);
        // Turns that came while the round was under way may be of nodes that refused it before.
        (0..voters.nodes.len()).filter(|&node| turns.contains(node)).for_each(|node| won.strengthen(node));
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.hints.ears().remove(&self.number);
    }
}
