//! Clients, servers and faults, and all possible next events.

use std::sync::Arc;

use super::client::Client;
use super::nodes::Nodes;
use super::{Action, Fault, Scope};
use crate::scope::Ticks;

/// The state of the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Trouble {
    /// The fault has not happened yet.
    NotYet,
    /// This node has not answered this client since this moment.
    Silent(usize, usize, Ticks),
    /// This client has been slow since this moment.
    Slow(usize, Ticks),
    /// The fault ended at this moment.
    Over(Ticks),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    nodes: Nodes,
    clients: Vec<Arc<Client>>,
    trouble: Trouble,
    /// The highest token of any holder, and whether a later token was not above an earlier one.
    token: u64,
    pub fell: bool,
}

impl World {
    pub fn new(scope: &Scope) -> Self {
        let clients = (0..2 + usize::from(scope.third)).map(|number| Arc::new(Client::new(scope, number))).collect();
        let mut world = Self { nodes: Nodes::default(), clients, trouble: Trouble::NotYet, token: 0, fell: false };
        // The third client runs from the beginning. So does the first client, if there is only one
        // list. With two lists, either client may start first.
        if scope.is_alike() {
            world.start(0);
        }
        (2..world.clients.len()).for_each(|client| world.start(client));
        world
    }

    /// Whether both clients may still hold the lock, together or one after the other.
    pub fn matters(&self, scope: &Scope) -> bool {
        let of = |client: &usize| self.clients[*client].matters(self.nodes.now);
        let won = |client: &usize| scope.is_alike() && self.clients[*client].has_won();
        (0..2).all(|client| of(&client) || won(&client))
    }

    /// Whether both clients hold the lock, and one of them should have noticed the other's list.
    pub fn both_hold(&self, scope: &Scope) -> bool {
        self.clients[..2].iter().all(|client| client.holds(self.nodes.now)) && !self.is_excused(scope)
    }

    /// Two lists may share only a node that one client cannot reach, or that has just forgotten the
    /// list in force. Then the clients need not notice each other until both have said hello.
    fn is_excused(&self, scope: &Scope) -> bool {
        let restarts = matches!(scope.fault, Fault::Restart(_) | Fault::Flush(_));
        !scope.is_alike()
            && match self.trouble {
                Trouble::Silent(..) => true,
                Trouble::Over(since) => restarts && self.nodes.now < since + 2,
                _ => false,
            }
    }

    pub fn has_won(&self, client: usize) -> bool {
        self.clients[client].has_won()
    }

    pub fn is_shut_out(&self) -> bool {
        self.clients.iter().any(|client| client.is_shut_out())
    }

    fn is_slow(&self, client: usize) -> bool {
        matches!(self.trouble, Trouble::Slow(it, _) if it == client)
    }

    pub fn actions(&self, scope: &Scope, actions: &mut Vec<Action>) {
        (0..2).for_each(|client| self.of_client(scope, client, actions));
        self.of_trouble(scope, actions);
        if self.nodes.now < scope.end && !self.must_heal(scope) {
            actions.push(Action::Tick);
        }
    }

    /// Whether the fault has lasted as long as its scope allows.
    fn must_heal(&self, scope: &Scope) -> bool {
        let now = self.nodes.now;
        match (self.trouble, scope.fault) {
            (Trouble::Silent(_, _, since), Fault::Silent(_, lasts)) => now - since >= lasts,
            (Trouble::Slow(_, since), Fault::Slow(lasts)) => now - since >= lasts,
            _ => false,
        }
    }

    fn of_client(&self, scope: &Scope, client: usize, actions: &mut Vec<Action>) {
        let it = &self.clients[client];
        if it.since.is_none() {
            return actions.push(Action::Start(client));
        }
        if it.may_claim(self.nodes.now) {
            actions.push(Action::Claim(client));
        }
        if let Some(asking) = &it.asking {
            let shared = |node: &usize| scope.shares(it.server(*node));
            // The claim reaches the shared nodes in the order of the client's list, or in reverse.
            let mut comes = asking.pending.iter().filter(shared);
            let next = if client == 0 { comes.next() } else { comes.last() };
            actions.extend(next.map(|node| Action::Vote(client, node)));
            actions.push(if self.is_slow(client) { Action::Count(client) } else { Action::GiveUp(client) });
        }
    }

    fn of_trouble(&self, scope: &Scope, actions: &mut Vec<Action>) {
        match (self.trouble, scope.fault) {
            (Trouble::Silent(..) | Trouble::Slow(..), _) => actions.push(Action::Heal),
            (Trouble::Over(_), _) | (_, Fault::None) => {}
            (_, Fault::Restart(server)) => actions.push(Action::Restart(server)),
            (_, Fault::Flush(server)) => actions.push(Action::Flush(server)),
            (_, Fault::Slow(_)) => {
                let runs = |client: &usize| self.clients[*client].since.is_some();
                actions.extend((0..2).filter(runs).map(Action::Slow));
            }
            // The fault may begin before the client starts, or while the client runs.
            (_, Fault::Silent(server, _)) => {
                let node = |client: usize| Some(Action::Silence(client, self.clients[client].node(server)?));
                actions.extend((0..2).filter_map(node));
            }
        }
    }

    pub fn take(&mut self, scope: &Scope, action: Action) {
        match action {
            Action::Tick => self.nodes.now += 1,
            Action::Start(client) => self.start(client),
            Action::Claim(client) => {
                let now = self.nodes.now;
                self.client(client).claim(now);
            }
            Action::Vote(client, node) => self.act(client, |it, nodes| it.vote(nodes, node)),
            Action::GiveUp(client) => self.act(client, Client::give_up),
            Action::Count(client) => self.count(scope, client),
            Action::Silence(client, node) => {
                self.trouble = Trouble::Silent(client, node, self.nodes.now);
                self.act(client, |it, nodes| it.silence(nodes, node, true));
            }
            Action::Restart(server) => {
                self.trouble = Trouble::Over(self.nodes.now);
                self.nodes.restart(server);
                for client in 0..self.clients.len() {
                    self.act(client, |it, nodes| it.reconnect(nodes, server));
                }
            }
            Action::Flush(server) => {
                self.trouble = Trouble::Over(self.nodes.now);
                self.nodes.flush(server);
            }
            Action::Slow(client) => self.trouble = Trouble::Slow(client, self.nodes.now),
            Action::Heal => self.heal(),
        }
        // The third client settles last: what it does must not help the others in this moment.
        (0..self.clients.len()).for_each(|client| self.settle(scope, client));
    }

    fn client(&mut self, client: usize) -> &mut Client {
        Arc::make_mut(&mut self.clients[client])
    }

    fn act(&mut self, client: usize, act: impl FnOnce(&mut Client, &mut Nodes)) {
        act(Arc::make_mut(&mut self.clients[client]), &mut self.nodes);
    }

    fn start(&mut self, client: usize) {
        self.act(client, |it, nodes| {
            it.start(nodes);
            it.greet(nodes);
        });
    }

    fn heal(&mut self) {
        if let Trouble::Silent(client, node, _) = self.trouble {
            self.act(client, |it, nodes| it.silence(nodes, node, false));
        }
        self.trouble = Trouble::Over(self.nodes.now);
    }

    fn count(&mut self, scope: &Scope, client: usize) {
        let token = Arc::make_mut(&mut self.clients[client]).count(&mut self.nodes);
        if let Some(token) = token {
            // Clients of different lists do not know each other's tokens.
            self.fell |= scope.is_alike() && token <= self.token;
            self.token = self.token.max(token);
        }
    }

    /// Delivers claims to servers of only one list at once. A client that is not slow says hello
    /// and decides as soon as it can.
    fn settle(&mut self, scope: &Scope, client: usize) {
        if self.clients[client].since.is_none() {
            return;
        }
        if let Some(asking) = self.clients[client].asking {
            let mine = asking.pending.iter().filter(|&node| !scope.shares(self.clients[client].server(node)));
            let mine: Vec<_> = mine.collect();
            mine.into_iter().for_each(|node| self.act(client, |it, nodes| it.vote(nodes, node)));
        }
        if !self.is_slow(client) {
            self.act(client, Client::greet);
            self.count(scope, client);
        }
    }
}
