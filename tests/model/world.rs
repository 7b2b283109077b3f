//! The model: clients, nodes, messages between them, and all possible next events.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use quorumlock::node::{HandedOver, Name, Operation, Verb, Waiter};
use quorumlock::rules::handover::Stamp;
use stateright::{Model, Property};

use crate::asked::Asked;
use crate::client::{Answer, Client, Message, NODES, Owner, Push, Sent, State, lasts};
use crate::revoker::{Revoker, Told};
use crate::scope::{Fault, Late, Revokes, Scope, Slow, TICK, Ticks};
use crate::server::Server;

/// A message from a node. A connection delivers these in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Said {
    Answer(Answer),
    Push(Push),
}

/// A connection, which keeps messages in order in each direction. On a slow connection, a message
/// may take any time. On other connections, it takes no time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Connection {
    slow: bool,
    pub epoch: u8,
    requests: VecDeque<Message>,
    replies: VecDeque<Said>,
    generation: u64,
    /// Pushes of the previous connection, which arrive late.
    stray_pushes: VecDeque<Push>,
    /// Requests of the previous connection, which arrive late and get no answer.
    strays: VecDeque<Message>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub now: Ticks,
    pub servers: [Arc<Server>; NODES],
    pub clients: [Arc<Client>; 2],
    pub connections: [[Arc<Connection>; NODES]; 2],
    faulty: bool,
    /// The highest token of any owner, and the highest token of a writer.
    token: u64,
    written: u64,
    /// Whether a later holder got a token that was not higher, although it should be. (Tokens of
    /// concurrent readers have no order.)
    fell: bool,
    /// The client that takes the name away. `told` is the result that this client returned.
    pub revoker: Revoker,
    /// The ballot up to which each node has revoked; whether a node granted such a ballot later.
    pub revoked: [u64; NODES],
    pub took: bool,
    pub told: Option<Told>,
}

/// Something that may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Tick,
    Begin(usize),
    /// A node carries out the next request.
    Arrive(usize, usize),
    /// A request of an earlier connection arrives.
    Stray(usize, usize),
    /// A reply or a push reaches its client.
    Hear(usize, usize),
    /// A push of an earlier connection reaches its client.
    HearStray(usize, usize),
    /// A client gives up its round. After that, it makes another round (true), or ends.
    GiveUp(usize, bool),
    Renew(usize),
    Release(usize),
    Fault(usize),
    /// A client notices a node's new process, and connects again.
    Reconnect(usize, usize),
    /// The revoker asks all nodes, or all except one, who holds the name.
    Look(Option<usize>),
    /// A node revokes.
    Revoke(usize),
    /// All nodes, or all except one, revoke, and the revoker ends.
    RevokeAll(Option<usize>),
    /// The revoker ends with the answers that it has.
    GoOn,
}

impl Model for Scope {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let chosen = |slow: &u8| match self.slow {
            Slow::AtMost(most) => slow.count_ones() <= most && canonical(*slow, self.fault == Fault::None),
            Slow::These(these) => *slow == these,
        };
        (0..1u8 << (2 * NODES)).filter(chosen).map(|slow| World::new(self, slow)).collect()
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        // If no client can get the lock any more, nothing new can go wrong.
        if !world.matters(self) {
            return;
        }
        if world.now < self.end {
            actions.push(Action::Tick);
        }
        if world.faulty {
            let clients = if self.fault == Fault::Replace { 2 } else { 1 };
            actions.extend((0..clients).map(Action::Fault));
        }
        for client in 0..2 {
            world.of_client(self, client, actions);
            (0..NODES).for_each(|node| world.of_connection(client, node, actions));
        }
        world.of_revoker(self, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        next.take(self, action);
        next.forget(self);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("two_holders", |_: &Self, world: &World| {
                !world.clients.iter().all(|client| client.is_held(world.now))
            }),
            Property::always("tokens_grow", |_: &Self, world: &World| !world.fell),
            Property::always("revoked_goes_on", |_: &Self, world: &World| !world.goes_on()),
            // A model in which no token rests on a floor would find nothing about floors.
            Property::sometimes("rests_on_nodes", |scope: &Self, world: &World| {
                let behind = |(_, token): (_, u64)| u128::from(token) > scope.ahead.as_micros();
                world.clients[1].holds(world.now).is_some_and(behind)
            }),
            // A model in which no lock is taken away would find nothing about revocations.
            Property::sometimes("taken_away", |_: &Self, world: &World| {
                let later = |told: Told| world.clients[1].holds(world.now).is_some_and(|(_, token)| token > told.up_to);
                world.told.is_some_and(later)
            }),
            // A model in which nobody gets the lock would find nothing.
            Property::sometimes("both_got_it", |_: &Self, world: &World| {
                world.clients[1].is_held(world.now) && world.clients[0].rounds > 0
            }),
        ]
    }
}

/// Keeps only one of several equal worlds. Nodes 1 and 2 are alike, so the model explores only
/// worlds in which their slow connections are in order. If node 0 is `alike`, the same holds for
/// nodes 0 and 1.
const fn canonical(slow: u8, alike: bool) -> bool {
    const fn of_node(slow: u8, node: usize) -> u8 {
        (slow >> node & 1) + (slow >> (NODES + node) & 1) * 2
    }
    of_node(slow, 1) <= of_node(slow, 2) && (!alike || of_node(slow, 0) <= of_node(slow, 1))
}

impl World {
    fn new(scope: &Scope, slow: u8) -> Self {
        let reads = scope.reads.contains(&true);
        let whole = scope.hands || scope.revokes != Revokes::Never || !scope.ahead.is_zero() || reads;
        let server = Arc::new(Server::new(whole));
        let connection = |client: usize, node: usize| {
            Arc::new(Connection { slow: slow >> (client * NODES + node) & 1 > 0, ..Connection::default() })
        };
        Self {
            now: 0,
            servers: std::array::from_fn(|_| server.clone()),
            clients: [0, 1].map(|number| Arc::new(Client::new(number, scope))),
            connections: [0, 1].map(|client| std::array::from_fn(|node| connection(client as usize, node))),
            faulty: scope.fault != Fault::None,
            token: 0,
            written: 0,
            fell: false,
            revoker: Revoker::default(),
            revoked: [0; NODES],
            took: false,
            told: None,
        }
    }

    /// Whether anything can still go wrong: a client may get the lock, or go on after a revocation.
    fn matters(&self, scope: &Scope) -> bool {
        let open = |client: &Arc<Client>| {
            client.may_acquire(scope) || scope.revokes != Revokes::Never && client.is_held(self.now)
        };
        self.clients.iter().any(open)
    }

    fn of_client(&self, scope: &Scope, number: usize, actions: &mut Vec<Action>) {
        let client = &self.clients[number];
        let more = client.rounds < scope.rounds[number];
        // If both clients are readers, or both are writers, client 0 begins before client 1: the
        // other order shows almost the same worlds.
        let first = number == 0 || self.clients[0].rounds > 0 || scope.reads[0] != scope.reads[1];
        match &client.state {
            State::Idle if more && first => actions.push(Action::Begin(number)),
            State::Idle => {}
            State::Asking(_) if client.may_ask_again() => actions.push(Action::Begin(number)),
            State::Asking(_) => {
                actions.push(Action::GiveUp(number, false));
                if more && client.waits() {
                    actions.push(Action::Begin(number));
                } else if more {
                    actions.push(Action::GiveUp(number, true));
                }
            }
            State::Holding { .. } => {
                if client.may_renew(scope, self.now) {
                    actions.push(Action::Renew(number));
                }
                if scope.releases && client.is_held(self.now) {
                    actions.push(Action::Release(number));
                }
            }
        }
    }

    fn of_connection(&self, client: usize, node: usize, actions: &mut Vec<Action>) {
        let connection = &self.connections[client][node];
        if connection.epoch != self.servers[node].epoch {
            actions.push(Action::Reconnect(client, node));
        } else if !connection.requests.is_empty() {
            actions.push(Action::Arrive(client, node));
        }
        if !connection.strays.is_empty() {
            actions.push(Action::Stray(client, node));
        }
        if !connection.replies.is_empty() {
            actions.push(Action::Hear(client, node));
        }
        if !connection.stray_pushes.is_empty() {
            actions.push(Action::HearStray(client, node));
        }
    }

    fn take(&mut self, scope: &Scope, action: Action) {
        let now = self.now;
        match action {
            Action::Tick => {
                self.now += scope.stride;
                (0..2).for_each(|client| self.settle(scope, client));
            }
            Action::Begin(client) => self.act(scope, client, |client| {
                if client.may_ask_again() || client.waits() { client.ask_again(now) } else { client.begin(scope, now) }
            }),
            Action::Arrive(client, node) => self.arrive(scope, client, node),
            Action::Stray(client, node) => {
                let stray = self.connection(client, node).strays.pop_front();
                stray.into_iter().for_each(|message| drop(self.carry_out(scope, node, message)));
            }
            Action::Hear(client, node) => {
                if let Some(said) = self.connection(client, node).replies.pop_front() {
                    self.hear(scope, client, node, &said);
                }
            }
            Action::HearStray(client, node) => {
                if let Some(push) = self.connection(client, node).stray_pushes.pop_front() {
                    self.hear(scope, client, node, &Said::Push(push));
                }
            }
            Action::GiveUp(client, again) => {
                self.act(scope, client, |client| match std::mem::replace(&mut client.state, State::Idle) {
                    State::Asking(rules) => client.give_up(rules, again, now),
                    _ => Vec::new(),
                })
            }
            Action::Renew(client) => self.act(scope, client, |client| client.renew(now)),
            Action::Release(client) => self.act(scope, client, |client| client.release(now)),
            Action::Fault(client) => self.fault(scope, client),
            Action::Reconnect(client, node) => self.reconnect(client, node),
            Action::Look(but) => self.look(but),
            Action::Revoke(node) => self.revoke(node),
            Action::RevokeAll(but) => self.revoke_all(but),
            Action::GoOn => self.go_on(),
        }
    }

    fn connection(&mut self, client: usize, node: usize) -> &mut Connection {
        Arc::make_mut(&mut self.connections[client][node])
    }

    /// Removes state that cannot matter any more, since it would multiply the states.
    fn forget(&mut self, scope: &Scope) {
        for client in 0..2 {
            if matches!(self.clients[client].state, State::Idle) {
                Arc::make_mut(&mut self.clients[client]).forget(scope);
            }
            for node in 0..NODES {
                let of = self.clients[client].clone();
                let matters = |said: &Said| match said {
                    Said::Answer(answer) => of.waits_for(scope, &answer.to),
                    Said::Push(_) => true,
                };
                if !self.connections[client][node].replies.iter().all(matters) {
                    self.connection(client, node).replies.retain(matters);
                }
            }
        }
    }

    fn reconnect(&mut self, client: usize, node: usize) {
        let now = self.now;
        let (epoch, slow) = (self.servers[node].epoch, self.connections[client][node].slow);
        let generation = self.connections[client][node].generation + 1;
        *self.connection(client, node) = Connection { slow, generation, epoch, ..Connection::default() };
        let server = Arc::make_mut(&mut self.servers[node]);
        Arc::make_mut(&mut self.clients[client]).meet(node, server, now);
    }

    /// Lets a client act, and sends its messages.
    fn act(&mut self, scope: &Scope, client: usize, act: impl FnOnce(&mut Client) -> Sent) {
        let sent = act(Arc::make_mut(&mut self.clients[client]));
        self.send(scope, client, sent);
    }

    fn send(&mut self, scope: &Scope, client: usize, sent: Sent) {
        for (nodes, message) in sent {
            nodes.iter().for_each(|node| self.send_one(scope, client, node, message));
        }
        self.settle(scope, client);
    }

    /// Sends a message. If the connection is not slow, the answer arrives at once. Messages to a
    /// process that is gone are lost.
    fn send_one(&mut self, scope: &Scope, client: usize, node: usize, message: Message) {
        let connection = &self.connections[client][node];
        if connection.epoch != self.servers[node].epoch {
            return;
        }
        if connection.slow && scope.late != Late::Replies {
            return self.connection(client, node).requests.push_back(message);
        }
        let late = connection.slow;
        self.ask(scope, client, node, message, late);
    }

    /// A node carries out a request. The reply is late, or arrives at once.
    fn ask(&mut self, scope: &Scope, client: usize, node: usize, message: Message, late: bool) {
        let generation = self.connections[client][node].generation;
        let answer = Answer { generation, ..self.carry_out(scope, node, message) };
        if late {
            self.connection(client, node).replies.push_back(Said::Answer(answer));
        } else {
            Arc::make_mut(&mut self.clients[client]).hear(scope, node, &answer, self.now);
        }
    }

    /// Lets a client decide whatever it can decide now.
    fn settle(&mut self, scope: &Scope, client: usize) {
        if !self.clients[client].may_decide(self.now) {
            return;
        }
        let (sent, token) = Arc::make_mut(&mut self.clients[client]).decide(scope, self.now);
        if let Some(token) = token {
            let reads = self.clients[client].reads;
            self.fell |= token <= if reads { self.written } else { self.token };
            self.token = self.token.max(token);
            self.written = if reads { self.written } else { self.written.max(token) };
        }
        self.send(scope, client, sent);
    }

    fn arrive(&mut self, scope: &Scope, client: usize, node: usize) {
        let Some(message) = self.connection(client, node).requests.pop_front() else { return };
        self.ask(scope, client, node, message, false);
        self.settle(scope, client);
    }

    fn carry_out(&mut self, scope: &Scope, node: usize, message: Message) -> Answer {
        let now = self.now;
        let server = Arc::make_mut(&mut self.servers[node]);
        let (outcome, published) = server.apply(&operation(scope, message), now);
        let time = server.time(now);
        self.note_grant(node, message, &outcome);
        for granted in published {
            self.publish(scope, node, &granted);
        }
        Answer { to: message, outcome: Arc::new(outcome), time, generation: 0 }
    }

    /// Delivers a push: late if replies are slow on the connection, and not at all if the
    /// connection has ended.
    fn publish(&mut self, scope: &Scope, node: usize, granted: &HandedOver) {
        let owner = owner_of(&granted.owner);
        let client = usize::from(owner.client);
        let connection = &self.connections[client][node];
        if connection.epoch != self.servers[node].epoch {
            return;
        }
        let stamp = Stamp { generation: connection.generation, ..granted.stamp };
        let push = Push { owner, ballot: granted.ballot, lasts: granted.lasts, stamp };
        if connection.slow || !connection.replies.is_empty() {
            return self.connection(client, node).replies.push_back(Said::Push(push));
        }
        self.hear(scope, client, node, &Said::Push(push));
    }

    fn hear(&mut self, scope: &Scope, client: usize, node: usize, said: &Said) {
        let now = self.now;
        match said {
            Said::Answer(answer) => Arc::make_mut(&mut self.clients[client]).hear(scope, node, answer, now),
            Said::Push(push) => self.act(scope, client, |client| client.pushed(scope, node, push, now)),
        }
        self.settle(scope, client);
    }

    fn fault(&mut self, scope: &Scope, client: usize) {
        self.faulty = false;
        let server = Arc::make_mut(&mut self.servers[0]);
        match scope.fault {
            Fault::None => {}
            Fault::Crash => {
                server.crash();
                let quick = |client: &usize| !self.connections[*client][0].slow;
                let quick: Vec<_> = (0..2).filter(quick).collect();
                quick.into_iter().for_each(|client| self.reconnect(client, 0));
            }
            Fault::Step(by) => server.step(by),
            Fault::Replace => {
                let connection = self.connection(client, 0);
                connection.strays = std::mem::take(&mut connection.requests);
                // Pushes may still arrive late on the old connection. Replies on it are lost.
                let said = std::mem::take(&mut connection.replies);
                connection.stray_pushes = said.into_iter().filter_map(Said::push).collect();
                connection.generation += 1;
            }
        }
    }
}

impl Said {
    fn push(self) -> Option<Push> {
        match self {
            Self::Push(push) => Some(push),
            Self::Answer(_) => None,
        }
    }
}

fn operation(scope: &Scope, message: Message) -> Operation {
    let waits = scope.hands && matches!(message.verb, Verb::Claim | Verb::Withdraw);
    let waiter = Waiter { arrival: 1, lasts: lasts().ttl(), again: TICK * 100 };
    let next = if message.verb == Verb::Claim { message.ballot + 1 } else { message.next };
    let asked = Asked {
        waiter: waits.then_some(waiter),
        next: if scope.hands { next } else { 0 },
        verb: message.verb,
        owner: owner(message.owner),
        ttl: TICK * scope.ttl.unsigned_abs(),
        ballot: message.ballot,
        token: message.token,
        gate: None,
        ..Asked::inspect(names())
    };
    asked.into()
}

pub fn names() -> Arc<[Name]> {
    static NAMES: OnceLock<Arc<[Name]>> = OnceLock::new();
    NAMES.get_or_init(|| Arc::from([Name::new("", "it").expect("a name")])).clone()
}

pub fn owner(owner: Owner) -> Arc<str> {
    format!("{}/{}{}", owner.client, if owner.reads { "s" } else { "" }, owner.acquisition).into()
}

fn owner_of(text: &str) -> Owner {
    let number = |part: &str| part.trim_start_matches('s').parse::<u32>().expect("a number");
    let mut parts = text.split('/').map(number);
    let mut next = || parts.next().expect("an owner");
    Owner { client: next() as u8, reads: Operation::is_shared(text), acquisition: next() as u8 }
}
