//! The network between processes and nodes: delays, losses, cuts and connections. A connection
//! keeps the order of its messages. Requests on a connection that was replaced may still arrive.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;

use futures::channel::oneshot;
use quorumlock::node::redis::transport::{self, Value};
use quorumlock::node::{Fault, FaultKind};

use crate::calls::{Calls, Reply};
use crate::commands::Command;
use crate::judge::history::{Answer, Micros, Op, What};
use crate::recorder::Submitted;
use crate::world::{Core, Event, micros};

/// The network path between one process and one node.
#[derive(Debug, Default)]
pub struct Link {
    /// Whether the path is cut: to the node, and back.
    pub cut: [bool; 2],
    /// The connection in use.
    pub connection: Option<usize>,
    /// When the library last learned what the node's clock shows.
    pub seen: Micros,
    pub submitted: Submitted,
}

/// One connection, with the state of both ends.
#[derive(Debug)]
pub struct Connection {
    pub process: usize,
    pub node: usize,
    /// The server to which the node's name led this process when the connection began.
    pub server: usize,
    /// The server's process that accepted the connection.
    epoch: Option<u32>,
    /// False once the client has given the connection up, or knows that it has ended.
    pub open: bool,
    /// True once the library has sent its first script call, which is the hello of the greeting.
    greeted: bool,
    /// True once the library has sent a second script call. This shows that the greeting is over,
    /// and that the library reads the node's clock.
    admitted: bool,
    /// When the last message arrives, in each direction. A message that is sent later never arrives
    /// earlier.
    last: [Micros; 2],
    calls: Calls,
    /// When the connection checks next for overdue calls.
    looks: Option<Micros>,
    events: VecDeque<transport::Event>,
    waker: Option<Waker>,
}

/// A request on its way to a server.
#[derive(Debug)]
pub struct Arrival {
    pub connection: usize,
    call: u64,
    command: Command,
}

/// An answer on its way to a process.
#[derive(Debug)]
pub struct Landing {
    connection: usize,
    what: Completed,
}

#[derive(Debug)]
enum Completed {
    /// The answer to a call. `timed` answers show the node's clock; `told` has the results of
    /// operations.
    Reply { call: u64, reply: Reply, timed: bool, told: Vec<(Op, Answer)> },
    /// A text from the connection's channel, and the hand-over that it reports, if any.
    Message(String, Option<Op>),
    /// The server ended the connection.
    Reset,
}

const THERE: usize = 0;
const BACK: usize = 1;

impl Link {
    /// When the library last read the node's clock; `None` if it does not know the clock.
    pub fn clock_seen(&self, connections: &[Connection]) -> Option<Micros> {
        let connection = &connections[self.connection?];
        (connection.open && connection.admitted).then_some(self.seen)
    }
}

impl Event {
    /// The process that this event reaches.
    fn reaches(&self, core: &Core) -> Option<usize> {
        match self {
            Self::Land(Landing { connection, .. }) | Self::Overdue(connection) => {
                Some(core.connections[*connection].process)
            }
            _ => None,
        }
    }
}

impl Core {
    pub fn network(&mut self, now: Micros, event: Event) {
        if let Some(process) = event.reaches(self) {
            let process = &mut self.processes[process];
            if process.dead {
                return;
            }
            if process.paused_at.is_some() {
                return process.inbox.push(event);
            }
        }
        match event {
            Event::Arrive(arrival) => self.arrive(now, arrival),
            Event::Land(landing) => self.land(now, landing),
            Event::Overdue(connection) => self.overdue(now, connection),
            Event::Wake(_) | Event::WakeLate(_) | Event::Act(_) => {}
        }
    }

    pub fn link(&mut self, process: usize, node: usize) -> &mut Link {
        &mut self.processes[process].links[node]
    }

    pub fn dial(
        &mut self,
        now: Micros,
        process: usize,
        node: usize,
        timeout: Duration,
    ) -> (usize, oneshot::Receiver<Reply>) {
        let number = self.connections.len();
        let server = self.route(process, node);
        self.connections.push(Connection {
            process,
            node,
            server,
            epoch: None,
            open: true,
            greeted: false,
            admitted: false,
            last: [0; 2],
            calls: Calls::default(),
            looks: None,
            events: VecDeque::new(),
            waker: None,
        });
        (number, self.send(now, number, Command::Hello, timeout))
    }

    /// Sends a command. Its answer must come within `timeout`.
    pub fn send(
        &mut self,
        now: Micros,
        number: usize,
        command: Command,
        timeout: Duration,
    ) -> oneshot::Receiver<Reply> {
        let due = now + micros(timeout);
        // Only the connection for operations sends a name, and so becomes the link's connection. A
        // connection that only subscribes to news sends none.
        if matches!(command, Command::Name) {
            let Connection { process, node, .. } = self.connections[number];
            self.link(process, node).connection = Some(number);
        }
        let connection = &mut self.connections[number];
        let (process, node) = (connection.process, connection.node);
        let (call, receiver) = connection.calls.push(due);
        if !connection.open {
            connection.calls.clear();
            return receiver;
        }
        if matches!(command, Command::Script(_)) {
            connection.admitted = std::mem::replace(&mut connection.greeted, true);
        }
        if connection.looks.is_none_or(|at| due < at) {
            connection.looks = Some(due);
            self.schedule(due, Event::Overdue(number));
        }
        let strays = match &command {
            Command::Script(script) => self.strays(now, process, node, &script.verbs()),
            _ => None,
        };
        if let Some(at) = strays.unwrap_or_else(|| self.way(now, number, THERE)) {
            self.schedule(at, Event::Arrive(Arrival { connection: number, call, command }));
        }
        receiver
    }

    /// When a message that is sent now arrives; `None` if it is lost.
    fn way(&mut self, now: Micros, number: usize, way: usize) -> Option<Micros> {
        let lost = [self.weather.lost_requests, self.weather.lost_replies][way];
        if self.dice.chance(lost) {
            return None;
        }
        let Connection { process, node, server, .. } = self.connections[number];
        // A message on a cut path is lost, or arrives late.
        let cut = self.processes[process].links[node].cut[way];
        if cut && self.dice.chance(0.5) {
            return None;
        }
        let late = cut || self.dice.chance(self.plan.tail + self.weather.slow);
        let held_back = self.held_back(now, process, node, way).unwrap_or(Some(now))?;
        let at = (now + self.delay(process, (node, server), late)).max(held_back);
        let last = &mut self.connections[number].last[way];
        // Requests arrive at different moments, so that something may happen between two of them.
        // An answer and a push may arrive together.
        *last = at.max(*last + Micros::from(way == THERE));
        Some(*last)
    }

    fn delay(&mut self, process: usize, (node, server): (usize, usize), late: bool) -> Micros {
        let same = self.processes[process].region == self.servers[server].region;
        let delay = self.plan.way(node, same).mul_f64(0.7 + 0.6 * self.dice.share());
        if !late {
            return micros(delay).max(1);
        }
        let longest = self.plan.longest_delay;
        micros(self.dice.log(delay, longest.max(2 * delay))).max(1)
    }

    fn arrive(&mut self, now: Micros, arrival: Arrival) {
        let Arrival { connection: number, call, .. } = arrival;
        let Connection { server: at, epoch, .. } = self.connections[number];
        let hello = matches!(arrival.command, Command::Hello);
        let server = &mut self.servers[at];
        if server.down && hello {
            let refused = Err(Fault::new(FaultKind::Down, "connection refused"));
            return self.answer(now, number, Completed::Reply { call, reply: refused, timed: false, told: Vec::new() });
        }
        // Behind a proxy, the connection survives its server, and the server's next process uses
        // it.
        if server.down && self.plan.proxied {
            return;
        }
        if server.down || !hello && epoch != Some(server.epoch) && !self.plan.proxied {
            return self.answer(now, number, Completed::Reset);
        }
        if server.hung {
            return self.backlog[at].push(arrival);
        }
        if hello {
            self.connections[number].epoch = Some(server.epoch);
        }
        let timed = matches!(arrival.command, Command::Info(_) | Command::Script(_));
        let (reply, told) = self.carry_out(now, number, arrival.command);
        // If the client has given up this connection, nobody reads the answer.
        if self.connections[number].open {
            self.answer(now, number, Completed::Reply { call, reply, timed, told });
        }
    }

    /// Sends a published text to its connection. Some texts are sent twice, and some never.
    pub fn publish(&mut self, now: Micros, number: usize, text: &str, handed: Option<Op>) {
        let times = self.dice.weighed(&self.plan.hints);
        match times {
            0 => *self.faults.entry("hint_lost").or_default() += 1,
            1 => {}
            _ => *self.faults.entry("hint_doubled").or_default() += 1,
        }
        for _ in 0..times {
            self.answer(now, number, Completed::Message(text.to_owned(), handed));
        }
    }

    fn answer(&mut self, now: Micros, number: usize, what: Completed) {
        if let Some(at) = self.way(now, number, BACK) {
            self.schedule(at, Event::Land(Landing { connection: number, what }));
        }
    }

    fn land(&mut self, now: Micros, landing: Landing) {
        let Landing { connection: number, what } = landing;
        let connection = &mut self.connections[number];
        if !connection.open {
            return;
        }
        match what {
            Completed::Reset => self.end(number, "the server ended the connection"),
            Completed::Message(text, handed) => {
                connection.happens(transport::Event::Message(text));
                if let Some(op) = handed {
                    self.history.record(now, What::Pushed(op));
                }
            }
            Completed::Reply { call, reply, timed, told } => {
                connection.calls.answer(call, reply);
                let (process, node) = (connection.process, connection.node);
                if timed && connection.admitted {
                    self.link(process, node).seen = now;
                }
                self.cues.answered(told);
            }
        }
    }

    fn overdue(&mut self, now: Micros, number: usize) {
        let connection = &mut self.connections[number];
        // The calls were already checked after this event was scheduled, or their next check is
        // later.
        if connection.looks.is_none_or(|at| now < at) {
            return;
        }
        connection.looks = connection.calls.expire(now);
        if let Some(due) = connection.looks {
            self.schedule(due, Event::Overdue(number));
        }
    }

    /// Ends the connection between a process and a node. Its open calls get no answer.
    pub fn replace(&mut self, process: usize, node: usize) {
        if let Some(number) = self.link(process, node).connection {
            self.end(number, "reset");
        }
    }

    fn end(&mut self, number: usize, why: &str) {
        let connection = &mut self.connections[number];
        if std::mem::take(&mut connection.open) {
            connection.calls.clear();
            connection.happens(transport::Event::Ended(why.to_owned()));
        }
    }

    /// The library gives up a connection.
    pub fn hang_up(&mut self, now: Micros, number: usize) {
        let connection = &mut self.connections[number];
        connection.open = false;
        connection.calls.clear();
        connection.events.clear();
        connection.waker = None;
        let (process, node) = (connection.process, connection.node);
        let accepted = connection.epoch.is_some();
        let link = self.link(process, node);
        link.connection.take_if(|present| *present == number);
        if accepted && !self.processes[process].dead {
            self.history.record(now, What::Replaced { process: process as u16, node: node as u8 });
        }
    }

    /// A server has crashed. Most connections notice this at once, and some only at their next use.
    pub fn reset_connections(&mut self, now: Micros, server: usize) {
        if self.plan.proxied {
            return;
        }
        for number in self.connections_to(server) {
            if self.dice.chance(0.8) {
                self.answer(now, number, Completed::Reset);
            }
        }
    }

    /// The connections in use between live processes and this server.
    fn connections_to(&mut self, server: usize) -> Vec<usize> {
        let nodes = self.plan.nodes;
        let links: Vec<_> =
            self.live().into_iter().flat_map(|process| (0..nodes).map(move |node| (process, node))).collect();
        let used =
            links.into_iter().filter_map(|(process, node)| self.link(process, node).connection).collect::<Vec<_>>();
        used.into_iter().filter(|&number| self.connections[number].server == server).collect()
    }

    /// The server to which a node's name leads a process.
    pub fn route(&self, process: usize, node: usize) -> usize {
        self.views.get(&(process, node)).copied().unwrap_or(self.homes[node])
    }

    /// From now on a node's name leads these processes to `server`. With `ends`, open connections
    /// to other servers end.
    pub fn reroute(&mut self, now: Micros, node: usize, whom: &[usize], server: usize, ends: bool) {
        for &process in whom {
            self.views.insert((process, node), server);
            // The process may begin later, and then has no connection yet.
            let connection = self.processes.get(process).and_then(|process| process.links[node].connection);
            if let Some(number) = connection.filter(|&number| ends && self.connections[number].server != server) {
                self.answer(now, number, Completed::Reset);
            }
        }
    }

    /// A server that hung carries out the requests that reached it.
    pub fn unhang(&mut self, now: Micros, server: usize) {
        self.servers[server].hung = false;
        // Requests are carried out one by one, so that something may happen between two of them.
        for arrival in std::mem::take(&mut self.backlog[server]) {
            self.schedule(now, Event::Arrive(arrival));
        }
    }
}

impl Connection {
    fn happens(&mut self, event: transport::Event) {
        self.events.push_back(event);
        self.waker.take().into_iter().for_each(Waker::wake);
    }

    pub fn poll_event(&mut self, waker: &Waker) -> std::task::Poll<transport::Event> {
        if let Some(event) = self.events.pop_front() {
            return std::task::Poll::Ready(event);
        }
        if !self.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            self.waker = Some(waker.clone());
        }
        std::task::Poll::Pending
    }
}

/// The result of a call on a connection that has ended.
pub fn closed() -> Result<Value, Fault> {
    Err(Fault::new(FaultKind::Closed, "the connection ended before the answer"))
}
