//! Time, events, and everything that events change. A run uses one thread. Virtual time moves only
//! when no task is ready.
//!
//! The network runs in microseconds. The library's timers use Tokio's paused clock, which follows
//! in whole milliseconds. So a timer fires up to a millisecond late.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::book::Sessions;
use crate::clients::Leases;
use crate::commands::Names;
use crate::cue::Cues;
use crate::dice::Dice;
use crate::elections::Elections;
use crate::exec::Exec;
use crate::faults::Action;
use crate::idle::Idle;
use crate::judge::history::{History, Micros, What};
use crate::link::{Arrival, Connection, Landing, Link};
use crate::plan::Plan;
use crate::process::Quorums;
use crate::revoke::Revoking;
use crate::scenes::Parts;
use crate::server::Server;
use crate::tickets::Tickets;

/// Something that happens at a moment.
pub enum Event {
    /// A request reaches its server.
    Arrive(Arrival),
    /// An answer reaches its process.
    Land(Landing),
    /// A connection checks for overdue calls.
    Overdue(usize),
    Wake(Waker),
    WakeLate(usize),
    Act(Action),
}

struct Due {
    at: Micros,
    number: u64,
    event: Event,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// The simulator's state of a process.
pub struct Process {
    pub region: usize,
    /// The index of the process's configuration, if there are several.
    pub deployment: usize,
    /// The number of its list's name.
    pub team: u8,
    pub list: Vec<usize>,
    pub ttl: Duration,
    /// The rate of its clock, in parts per million.
    pub rate: u64,
    pub wall: i64,
    pub links: Vec<Link>,
    pub clients: usize,
    pub paused_at: Option<Micros>,
    /// Whether its machine is suspended, so that its timers stand still too.
    pub suspended: bool,
    pub dead: bool,
    /// Events that reached the process while it stood still.
    pub inbox: Vec<Event>,
}

pub struct Core {
    pub plan: Plan,
    pub dice: Dice,
    pub servers: Vec<Server>,
    pub processes: Vec<Process>,
    pub history: History,
    pub faults: BTreeMap<&'static str, u64>,
    /// All connections, including ended ones.
    pub connections: Vec<Connection>,
    /// The names and scripts that commands have contained.
    pub names: Names,
    pub weather: Weather,
    /// Whether the next process that is handed a lock stands still or dies.
    pub head_dies: bool,
    /// How many clients must finish.
    pub expected: u64,
    /// The server that each node's name leads to; `views` has exceptions for single processes.
    pub homes: Vec<usize>,
    pub views: BTreeMap<(usize, usize), usize>,
    /// The process that stands still while its configuration is replaced.
    pub stalled: Option<usize>,
    /// For each list name and lock name, the highest token that the storage has seen.
    pub highest: BTreeMap<(u8, u8), u64>,
    /// Requests that wait for a server that hangs.
    pub backlog: Vec<Vec<Arrival>>,
    pub cues: Cues,
    pub idle: Idle,
    heap: BinaryHeap<Reverse<Due>>,
    count: u64,
}

/// What the network does to messages at present.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    pub slow: f64,
    pub lost_requests: f64,
    pub lost_replies: f64,
}

pub struct World {
    now: AtomicU64,
    pub exec: Exec,
    pub core: Mutex<Core>,
    pub leases: Leases,
    pub quorums: Quorums,
    pub parts: Parts,
    pub revoking: Revoking,
    pub elections: Elections,
    pub sessions: Sessions,
    pub tickets: Tickets,
    /// The number of clients that have finished.
    pub finished: AtomicU64,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("now", &self.now).finish_non_exhaustive()
    }
}

impl Core {
    pub fn new(plan: Plan, mut dice: Dice) -> Self {
        let rate = |number: usize| plan.node_rates.get(number).copied().unwrap_or(1_000_000);
        let server = |number: usize| Server::new(number, number % plan.regions, rate(number));
        let all = plan.nodes + plan.spares;
        let mut servers: Vec<_> = (0..all).map(server).collect();
        plan.young.iter().for_each(|&young| servers[young].begin(0));
        let backlog = (0..all).map(|_| Vec::new()).collect();
        let dice = dice.fork();
        let (history, faults, weather) = (History::default(), BTreeMap::new(), Weather::default());
        let (processes, connections, heap) = (Vec::new(), Vec::new(), BinaryHeap::new());
        let names = Names::default();
        let highest = BTreeMap::new();
        let (head_dies, cues, count) = (false, Cues::default(), 0);
        let expected = plan.clients as u64;
        Self {
            expected,
            homes: (0..plan.nodes).collect(),
            views: BTreeMap::new(),
            stalled: None,
            plan,
            dice,
            servers,
            processes,
            history,
            faults,
            connections,
            names,
            weather,
            head_dies,
            highest,
            backlog,
            cues,
            idle: Idle::default(),
            heap,
            count,
        }
    }

    pub fn schedule(&mut self, at: Micros, event: Event) {
        self.count += 1;
        self.heap.push(Reverse(Due { at, number: self.count, event }));
    }

    fn next_at(&self) -> Option<Micros> {
        self.heap.peek().map(|due| due.0.at)
    }

    fn pop_until(&mut self, at: Micros) -> Option<(Micros, Event)> {
        self.next_at().filter(|&next| next <= at)?;
        self.heap.pop().map(|Reverse(due)| (due.at, due.event))
    }
}

pub fn micros(duration: Duration) -> Micros {
    duration.as_micros() as u64
}

impl World {
    pub fn new(plan: Plan, mut dice: Dice) -> Arc<Self> {
        let exec = Exec::new(dice.fork());
        let core = Mutex::new(Core::new(plan, dice));
        Arc::new(Self {
            now: AtomicU64::new(0),
            exec,
            core,
            leases: Leases::default(),
            quorums: Quorums::default(),
            parts: Parts::default(),
            revoking: Revoking::default(),
            elections: Elections::default(),
            sessions: Sessions::default(),
            tickets: Tickets::default(),
            finished: AtomicU64::new(0),
        })
    }

    pub fn now(&self) -> Micros {
        self.now.load(Ordering::Relaxed)
    }

    pub fn record(&self, what: What) {
        let now = self.now();
        self.core.lock().unwrap().history.record(now, what);
    }

    /// Runs until `done` is true, or until the virtual time `limit`.
    pub async fn run(self: &Arc<Self>, limit: Micros, done: impl Fn() -> bool) {
        let limit = limit.next_multiple_of(1_000);
        let origin = tokio::time::Instant::now();
        let base = self.now() / 1_000 * 1_000;
        let sleep = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(sleep);
        loop {
            self.exec.run_ready();
            let ticked = base + micros(tokio::time::Instant::now() - origin);
            self.now.fetch_max(ticked, Ordering::Relaxed);
            self.exec.run_timers();
            // Tokio's clock shows whole milliseconds. Events within this millisecond happen now.
            loop {
                let due = self.core.lock().unwrap().pop_until(ticked + 999);
                let Some((at, event)) = due else { break };
                self.now.fetch_max(at, Ordering::Relaxed);
                self.handle(event);
                self.cued();
                self.exec.run_ready();
            }
            if done() || self.now() >= limit {
                return;
            }
            let next = self.core.lock().unwrap().next_at().unwrap_or(limit).min(limit) / 1_000 * 1_000;
            sleep.as_mut().reset(origin + Duration::from_micros(next.saturating_sub(base)));
            self.exec.sleep(sleep.as_mut()).await;
        }
    }

    fn handle(self: &Arc<Self>, event: Event) {
        match event {
            Event::Wake(waker) => waker.wake(),
            Event::WakeLate(task) => self.exec.wake_late(task),
            Event::Act(action) => self.act(action),
            other => self.network(other),
        }
    }

    fn network(&self, event: Event) {
        self.core.lock().unwrap().network(self.now(), event);
    }

    /// Delivers the events that reached a process while it stood still.
    pub fn unload(&self, process: usize) {
        let inbox = std::mem::take(&mut self.core.lock().unwrap().processes[process].inbox);
        inbox.into_iter().for_each(|event| self.network(event));
    }

    /// Sleeps for a virtual time, to the microsecond.
    pub fn sleep(self: &Arc<Self>, length: Duration) -> Sleep {
        Sleep { world: self.clone(), until: self.now() + micros(length), set: false }
    }
}

pub struct Sleep {
    world: Arc<World>,
    until: Micros,
    set: bool,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.world.now() >= self.until {
            return Poll::Ready(());
        }
        if !self.set {
            self.set = true;
            let waker = context.waker().clone();
            self.world.core.lock().unwrap().schedule(self.until, Event::Wake(waker));
        }
        Poll::Pending
    }
}
