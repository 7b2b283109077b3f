//! The network between one process and one node: what the library sees as a [`Node`].
//!
//! Order is kept within a connection. A connection that was replaced may still have requests on their way.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use quorumlock::node::{
    Fault, FaultKind, Hint, Listener, Node, NodeState, NodeStatus, Operation, Outcome, Reply, ReplyTo, Request, Stance,
    Verb,
};
use quorumlock::quorum::{Guard, Tick};

use crate::faults::Action;
use crate::judge::history;
use crate::judge::history::{Answer, Micros, Op, What};
use crate::world::{Core, Effect, Effects, Event, Process, World, deliver, micros};

/// How far the guard lets clocks run apart.
const DRIFT: f64 = 0.01;
/// How many timeouts in a row end a connection.
const TIMEOUTS: u32 = 3;
/// How often a server is asked whether it is still the same.
const PROBE: Duration = Duration::from_secs(5);

/// One process's side of its connections to one node.
#[derive(Debug)]
pub struct Link {
    state: State,
    attempt: u32,
    connection: u32,
    epoch: u32,
    pub guard: Guard,
    /// When the node's clock was last seen.
    pub seen: Micros,
    pending: VecDeque<Pending>,
    next_request: u64,
    timeouts: u32,
    overdue_set: bool,
    /// When the last message arrives, either way: the next arrives behind it.
    last: [Micros; 2],
    pub cut: [bool; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Down,
    Connecting,
    Up,
}

#[derive(Debug)]
struct Pending {
    request: u64,
    due: Micros,
    sent: Tick,
    what: Option<(ReplyTo, Op)>,
}

/// A request on its way.
#[derive(Debug)]
pub struct Arrival {
    process: usize,
    pub node: usize,
    connection: u32,
    epoch: u32,
    request: u64,
    what: Option<(Arc<Operation>, Op)>,
}

/// An answer on its way.
#[derive(Debug)]
pub struct Landing {
    process: usize,
    node: usize,
    what: Landed,
}

#[derive(Debug)]
enum Landed {
    Reply {
        connection: u32,
        request: u64,
        outcome: Option<Outcome>,
        time: Duration,
        info: Option<Info>,
    },
    /// Published on the connection.
    Hint {
        connection: u32,
        hint: Hint,
    },
    /// The server ended the connection.
    Reset {
        connection: u32,
    },
    Welcome {
        attempt: u32,
        sent: Micros,
        time: Duration,
        info: Info,
    },
    Refused {
        attempt: u32,
    },
}

#[derive(Debug)]
struct Info {
    epoch: u32,
    uptime: Duration,
}

const THERE: usize = 0;
const BACK: usize = 1;

impl Link {
    pub fn new(max_ttl: Duration) -> Self {
        Self {
            state: State::Down,
            attempt: 0,
            connection: 0,
            epoch: 0,
            guard: Guard::new(max_ttl, DRIFT),
            seen: 0,
            pending: VecDeque::new(),
            next_request: 0,
            timeouts: 0,
            overdue_set: false,
            last: [0; 2],
            cut: [false; 2],
        }
    }

    pub fn is_up(&self) -> bool {
        self.state == State::Up
    }

    /// Takes note of the node's clock.
    fn observe(&mut self, now: Micros, time: Duration, sent: Tick, received: Tick) {
        self.guard.observe(time, sent, received);
        self.seen = now;
    }

    /// Takes note of what the node says of itself.
    fn meet(&mut self, now: Micros, info: &Info, time: Duration, sent: Tick, received: Tick) {
        self.guard.meet(&info.epoch.to_string(), info.uptime, Some(time), sent, received);
        self.seen = now;
    }

    fn queue(&mut self, due: Micros, sent: Tick, what: Option<(ReplyTo, Op)>) -> u64 {
        let request = self.next_request;
        self.next_request += 1;
        self.pending.push_back(Pending { request, due, sent, what });
        request
    }

    fn take(&mut self, request: u64) -> Option<(Tick, Option<(ReplyTo, Op)>)> {
        let first = self.pending.front()?.request;
        let pending = self.pending.get_mut(usize::try_from(request.checked_sub(first)?).ok()?)?;
        let found = (pending.sent, pending.what.take());
        pending.due = Micros::MAX;
        while self.pending.front().is_some_and(|pending| pending.due == Micros::MAX) {
            self.pending.pop_front();
        }
        Some(found)
    }
}

impl Process {
    pub fn tick(&self, now: Micros) -> Tick {
        Tick::new(Duration::from_micros(
            self.origin + now / 1_000_000 * self.rate + now % 1_000_000 * self.rate / 1_000_000,
        ))
    }
}

impl Core {
    pub fn network(&mut self, now: Micros, event: Event, effects: &mut Effects) {
        match event {
            Event::Arrive(arrival) => self.arrive(now, arrival),
            Event::Hello { process, node, attempt, sent } => self.hello(now, process, node, attempt, sent),
            Event::Land(Landing { process, .. })
            | Event::Overdue { process, .. }
            | Event::Connect { process, .. }
            | Event::Probe { process, .. }
                if self.processes[process].dead => {}
            Event::Land(Landing { process, .. })
            | Event::Overdue { process, .. }
            | Event::Connect { process, .. }
            | Event::Probe { process, .. }
                if self.processes[process].paused_at.is_some() =>
            {
                self.processes[process].inbox.push(event);
            }
            Event::Land(landing) => self.land(now, landing, effects),
            Event::Overdue { process, node, connection } => self.overdue(now, process, node, connection, effects),
            Event::Connect { process, node, attempt } => self.connect(now, process, node, attempt),
            Event::Probe { process, node, connection } => self.probe(now, process, node, connection),
            Event::Wake(_) | Event::WakeLate(_) | Event::Act(_) => {}
        }
    }

    fn link(&mut self, process: usize, node: usize) -> &mut Link {
        &mut self.processes[process].links[node]
    }

    fn submit(&mut self, now: Micros, process: usize, node: usize, request: Request, effects: &mut Effects) {
        let op = self.op(now, process, node, &request.operation);
        self.history.record(now, What::Submitted(op));
        let tick = self.processes[process].tick(now);
        let link = self.link(process, node);
        let refused = if link.state != State::Up {
            Some(FaultKind::Down)
        } else if matches!(request.operation.verb, Verb::Claim | Verb::Pass) && link.guard.quarantined(tick).is_some() {
            Some(FaultKind::Quarantined)
        } else {
            None
        };
        if let Some(kind) = refused {
            return effects.push(Effect::Answer(request.reply, Err(Fault::new(kind, kind.as_str()))));
        }
        self.send(now, process, node, Some((request.operation, op)), Some((request.reply, op)));
    }

    fn op(&mut self, now: Micros, process: usize, node: usize, operation: &Operation) -> Op {
        let verb = match operation.verb {
            Verb::Claim => history::Verb::Claim,
            Verb::Pass => history::Verb::Pass,
            Verb::Renew => history::Verb::Renew,
            Verb::Release => history::Verb::Release,
            _ => history::Verb::Other,
        };
        let from = operation.next.is_some().then(|| self.history.owner(process as u16, &operation.owner));
        let owner = self.history.owner(process as u16, operation.claimant());
        let acquisition = self.history.owner(process as u16, Operation::acquisition(operation.claimant()));
        let waits = matches!(operation.stance, Stance::Wait { .. });
        let name = operation.names[0].text().as_bytes().last().map_or(0, |last| last - b'a');
        let (ballot, ttl) = (operation.ballot, operation.ttl.as_millis() as u32);
        let (process, node) = (process as u16, node as u8);
        Op { process, node, name, verb, owner, from, acquisition, waits, ballot, ttl, sent: now }
    }

    fn send(
        &mut self,
        now: Micros,
        process: usize,
        node: usize,
        what: Option<(Arc<Operation>, Op)>,
        reply: Option<(ReplyTo, Op)>,
    ) {
        let due = now + micros(self.plan.node_timeout);
        let tick = self.processes[process].tick(now);
        let link = self.link(process, node);
        let request = link.queue(due, tick, reply);
        let (connection, epoch) = (link.connection, link.epoch);
        if !std::mem::replace(&mut link.overdue_set, true) {
            self.schedule(due, Event::Overdue { process, node, connection });
        }
        if let Some(at) = self.way(now, process, node, THERE) {
            self.schedule(at, Event::Arrive(Arrival { process, node, connection, epoch, request, what }));
        }
    }

    /// When a message that leaves now arrives, if it does.
    fn way(&mut self, now: Micros, process: usize, node: usize, way: usize) -> Option<Micros> {
        let lost = [self.weather.lost_requests, self.weather.lost_replies][way];
        if self.dice.chance(lost) {
            return None;
        }
        // What a partition stops is lost, or comes when it has healed.
        let cut = self.processes[process].links[node].cut[way];
        if cut && self.dice.chance(0.5) {
            return None;
        }
        let late = cut || self.dice.chance(self.plan.tail + self.weather.slow);
        let held_back = self.held_back(now, process, node, way).unwrap_or(Some(now))?;
        let at = (now + self.delay(process, node, late)).max(held_back);
        let last = &mut self.link(process, node).last[way];
        *last = at.max(*last);
        Some(*last)
    }

    fn delay(&mut self, process: usize, node: usize, late: bool) -> Micros {
        let same = self.processes[process].region == self.servers[node].region;
        let base = if same { self.plan.near } else { self.plan.far };
        let delay = base.mul_f64(0.7 + 0.6 * self.dice.share());
        if !late {
            return micros(delay).max(1);
        }
        let longest = self.plan.longest_delay;
        micros(self.dice.log(delay, longest.max(2 * delay))).max(1)
    }

    fn arrive(&mut self, now: Micros, arrival: Arrival) {
        let Arrival { process, node, connection, epoch, .. } = arrival;
        let server = &mut self.servers[node];
        if server.down || server.epoch != epoch {
            return self.answer(now, process, node, Landed::Reset { connection });
        }
        if server.hung {
            return self.backlog[node].push(arrival);
        }
        let time = server.time(now);
        let info = arrival.what.is_none().then(|| Info { epoch: server.epoch, uptime: server.uptime(now) });
        let outcome = arrival.what.map(|(operation, op)| {
            let outcome = server.apply(&operation, now);
            self.history.record(now, What::Did(op, answer(&Ok(outcome.clone()))));
            if server.keeps_place(&operation, &outcome, now) {
                self.history.record(now, What::PlaceKept(op));
            }
            outcome
        });
        self.publish(now, node);
        // A connection that was replaced has nobody who listens.
        if self.link(process, node).connection == connection {
            let request = arrival.request;
            self.answer(now, process, node, Landed::Reply { connection, request, outcome, time, info });
        }
    }

    /// Sends the hints that the last operation gave rise to, some of them twice and some never.
    fn publish(&mut self, now: Micros, node: usize) {
        for hint in self.servers[node].hints() {
            let known = hint.address().and_then(|(client, _)| self.clients.get(client));
            let Some(&process) = known.filter(|&&process| !self.processes[process].dead) else { continue };
            if hint.after.is_zero() && std::mem::take(&mut self.head_dies) {
                self.schedule(now, Event::Act(Action::Fell(process)));
            }
            let connection = self.link(process, node).connection;
            let times = self.dice.weighed(&self.plan.hints);
            match times {
                0 => *self.faults.entry("hint_lost").or_default() += 1,
                1 => {}
                _ => *self.faults.entry("hint_doubled").or_default() += 1,
            }
            for _ in 0..times {
                self.answer(now, process, node, Landed::Hint { connection, hint: hint.clone() });
            }
        }
    }

    fn listener(&self, process: usize) -> Option<Arc<dyn Listener>> {
        self.processes[process].listener.as_ref()?.upgrade()
    }

    fn answer(&mut self, now: Micros, process: usize, node: usize, what: Landed) {
        if let Some(at) = self.way(now, process, node, BACK) {
            self.schedule(at, Event::Land(Landing { process, node, what }));
        }
    }

    fn land(&mut self, now: Micros, landing: Landing, effects: &mut Effects) {
        let Landing { process, node, what } = landing;
        match what {
            Landed::Reset { connection } => {
                if self.link(process, node).connection == connection {
                    self.replace(now, process, node, effects);
                }
            }
            Landed::Hint { connection, hint } => {
                if self.link(process, node).connection == connection {
                    effects.extend(self.listener(process).map(|listener| Effect::Hint(listener, node, hint)));
                }
            }
            Landed::Refused { attempt } => {
                if self.link(process, node).attempt == attempt {
                    self.connect_later(now, process, node);
                }
            }
            Landed::Welcome { attempt, sent, time, info } => {
                if self.welcome(now, process, node, attempt, sent, time, &info) {
                    effects.extend(self.listener(process).map(|listener| Effect::Missed(listener, node)));
                }
            }
            Landed::Reply { connection, request, outcome, time, info } => {
                let tick = self.processes[process].tick(now);
                let link = self.link(process, node);
                if link.connection != connection || link.state != State::Up {
                    return;
                }
                let Some((sent, what)) = link.take(request) else { return };
                link.timeouts = 0;
                match info {
                    Some(info) => link.meet(now, &info, time, sent, tick),
                    None => link.observe(now, time, sent, tick),
                }
                let quarantined = link.guard.quarantined(tick).is_some();
                if let (Some((to, op)), Some(outcome)) = (what, outcome) {
                    let reply = if quarantined { doubted(outcome) } else { Ok(outcome) };
                    self.history.record(now, What::Delivered(op, answer(&reply)));
                    effects.push(Effect::Answer(to, reply));
                }
            }
        }
    }

    fn overdue(&mut self, now: Micros, process: usize, node: usize, connection: u32, effects: &mut Effects) {
        let link = self.link(process, node);
        if link.connection != connection {
            return;
        }
        link.overdue_set = false;
        while link.pending.front().is_some_and(|pending| pending.due <= now || pending.due == Micros::MAX) {
            let pending = link.pending.pop_front();
            if let Some(pending) = pending.filter(|pending| pending.due != Micros::MAX) {
                link.timeouts += 1;
                if let Some((to, _)) = pending.what {
                    effects.push(Effect::Answer(to, Err(Fault::new(FaultKind::Timeout, "no answer in time"))));
                }
            }
        }
        if link.timeouts >= TIMEOUTS {
            return self.replace(now, process, node, effects);
        }
        if let Some(due) = link.pending.front().map(|pending| pending.due) {
            link.overdue_set = true;
            self.schedule(due, Event::Overdue { process, node, connection });
        }
    }

    /// The connection ends: what waits for an answer will have none.
    pub fn replace(&mut self, now: Micros, process: usize, node: usize, effects: &mut Effects) {
        let link = self.link(process, node);
        if link.state != State::Up {
            return;
        }
        link.state = State::Down;
        link.connection += 1;
        link.timeouts = 0;
        link.overdue_set = false;
        let closed = || Err(Fault::new(FaultKind::Closed, "the connection ended before the answer"));
        effects.extend(
            link.pending.drain(..).filter_map(|pending| pending.what).map(|(to, _)| Effect::Answer(to, closed())),
        );
        self.history.record(now, What::Replaced { process: process as u16, node: node as u8 });
        self.connect_later(now, process, node);
    }

    fn connect_later(&mut self, now: Micros, process: usize, node: usize) {
        let pause = self.dice.between(1_000, 100_000);
        let link = self.link(process, node);
        link.attempt += 1;
        let attempt = link.attempt;
        self.schedule(now + pause, Event::Connect { process, node, attempt });
    }

    pub fn connect(&mut self, now: Micros, process: usize, node: usize, attempt: u32) {
        let link = self.link(process, node);
        if link.attempt != attempt || link.state == State::Up {
            return;
        }
        link.state = State::Connecting;
        // A new connection has no order with the old one.
        link.last = [0; 2];
        link.attempt += 1;
        let attempt = link.attempt;
        if let Some(at) = self.way(now, process, node, THERE) {
            self.schedule(at, Event::Hello { process, node, attempt, sent: now });
        }
        let patience = 2 * micros(self.plan.node_timeout);
        self.schedule(now + patience, Event::Connect { process, node, attempt });
    }

    fn hello(&mut self, now: Micros, process: usize, node: usize, attempt: u32, sent: Micros) {
        let server = &self.servers[node];
        if server.hung {
            return;
        }
        let what = if server.down {
            Landed::Refused { attempt }
        } else {
            let info = Info { epoch: server.epoch, uptime: server.uptime(now) };
            Landed::Welcome { attempt, sent, time: server.time(now), info }
        };
        self.answer(now, process, node, what);
    }

    #[allow(clippy::too_many_arguments)]
    fn welcome(
        &mut self,
        now: Micros,
        process: usize,
        node: usize,
        attempt: u32,
        sent: Micros,
        time: Duration,
        info: &Info,
    ) -> bool {
        let (sent, tick) = (self.processes[process].tick(sent), self.processes[process].tick(now));
        let link = self.link(process, node);
        if link.attempt != attempt || link.state != State::Connecting {
            return false;
        }
        link.state = State::Up;
        link.connection += 1;
        link.epoch = info.epoch;
        link.meet(now, info, time, sent, tick);
        let connection = link.connection;
        self.history.record(now, What::Connected { process: process as u16, node: node as u8 });
        self.schedule(now + micros(PROBE), Event::Probe { process, node, connection });
        true
    }

    fn probe(&mut self, now: Micros, process: usize, node: usize, connection: u32) {
        let link = self.link(process, node);
        if link.connection != connection || link.state != State::Up {
            return;
        }
        self.send(now, process, node, None, None);
        self.schedule(now + micros(PROBE), Event::Probe { process, node, connection });
    }

    /// A server has crashed: most connections notice at once, some when nothing effects.
    pub fn reset_connections(&mut self, now: Micros, node: usize) {
        for process in self.live() {
            let connection = self.link(process, node).connection;
            if self.dice.chance(0.8) {
                self.answer(now, process, node, Landed::Reset { connection });
            }
        }
    }

    /// A server that had hung carries out what reached it.
    pub fn unhang(&mut self, now: Micros, node: usize) {
        self.servers[node].hung = false;
        // Each at a moment of its own: something may happen between two of them.
        for arrival in std::mem::take(&mut self.backlog[node]) {
            self.schedule(now, Event::Arrive(arrival));
        }
    }
}

/// As the Redis adapter does: a grant by a node that is quarantined by now is no vote.
fn doubted(outcome: Outcome) -> Reply {
    match outcome {
        Outcome::Granted | Outcome::Passed { .. } => Err(Fault::new(FaultKind::Rejected, "it is quarantined")),
        other => Ok(other),
    }
}

fn answer(reply: &Reply) -> Answer {
    match reply {
        Ok(Outcome::Granted | Outcome::Passed { .. }) => Answer::Granted,
        Ok(Outcome::Stale { .. }) => Answer::Stale,
        Ok(Outcome::Extended) => Answer::Extended,
        Ok(Outcome::Healed) => Answer::Healed,
        Ok(Outcome::Released { held }) => Answer::Released(*held > 0),
        Ok(Outcome::Inspected(_)) => Answer::Other,
        Ok(_) => Answer::Refused,
        Err(_) => Answer::Fault,
    }
}

/// What the library sees of a node.
#[derive(Debug)]
pub struct SimNode {
    pub world: Arc<World>,
    pub process: usize,
    pub node: usize,
    pub label: Arc<str>,
}

impl Node for SimNode {
    fn label(&self) -> &Arc<str> {
        &self.label
    }

    fn submit(&self, request: Request) {
        let mut effects = Effects::new();
        let now = self.world.now();
        let mut core = self.world.core.lock().unwrap();
        if core.processes[self.process].dead {
            drop(core);
            return drop(request);
        }
        core.submit(now, self.process, self.node, request, &mut effects);
        drop(core);
        deliver(effects);
    }

    fn hints(&self) -> bool {
        self.world.core.lock().unwrap().processes[self.process].links[self.node].is_up()
    }

    fn listen(&self, _index: usize, listener: Arc<dyn Listener>) {
        let mut core = self.world.core.lock().unwrap();
        core.clients.insert(listener.client().to_owned(), self.process);
        core.processes[self.process].listener = Some(Arc::downgrade(&listener));
    }

    fn status(&self) -> NodeStatus {
        let up = self.world.core.lock().unwrap().processes[self.process].links[self.node].is_up();
        let state = if up { NodeState::Up } else { NodeState::Down { why: "down".to_owned() } };
        NodeStatus::new(self.label.clone(), state)
    }
}
