//! Clients, servers and what went wrong, and everything that may happen next.

use std::sync::Arc;

use quorumlock::rules::NodeSet;

use super::client::Client;
use super::nodes::{Nodes, tick};
use super::{Action, Fault, LIST, Scope};
use crate::scope::Ticks;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Trouble {
    /// Nothing did.
    NotYet,
    /// This node does not answer this client, since then.
    Silent(usize, usize, Ticks),
    /// This client is slow, since then.
    Slow(usize, Ticks),
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    nodes: Nodes,
    clients: [Arc<Client>; 2],
    trouble: Trouble,
}

impl World {
    pub fn new(scope: &Scope) -> Self {
        let clients = [0, 1].map(|number| Arc::new(Client::new(scope, number)));
        Self { nodes: Nodes::default(), clients, trouble: Trouble::NotYet }
    }

    /// Whether both may hold still; or one may after the other, where that is to be shown.
    pub fn matters(&self, scope: &Scope) -> bool {
        let matters = |client: &Arc<Client>| client.matters(self.nodes.now) || client.has_won() && scope.passes_on();
        self.clients.iter().all(matters)
    }

    pub fn both_hold(&self) -> bool {
        self.clients.iter().all(|client| client.holds(self.nodes.now))
    }

    pub fn has_won(&self, client: usize) -> bool {
        self.clients[client].has_won()
    }

    /// Whether a node has refused somebody.
    pub fn refuses(&self) -> bool {
        self.clients.iter().any(|client| !client.refused(tick(self.nodes.now)).is_empty())
    }

    fn is_slow(&self, client: usize) -> bool {
        matches!(self.trouble, Trouble::Slow(it, _) if it == client)
    }

    pub fn actions(&self, scope: &Scope, actions: &mut Vec<Action>) {
        (0..2).for_each(|client| self.of_client(scope, client, actions));
        self.of_trouble(scope, actions);
        if self.nodes.now < scope.end && self.may_tick(scope) {
            actions.push(Action::Tick);
        }
    }

    /// Whether time may go on: everybody has done what it does within a tick, but who is slow.
    fn may_tick(&self, scope: &Scope) -> bool {
        let done = |client: &usize| {
            let it = &self.clients[*client];
            let connected = it.links.iter().all(|link| link.silent || link.epoch.is_some());
            it.since.is_none() && *client == 1
                || self.is_slow(*client)
                || it.since.is_some() && connected && !it.due && it.writing.is_none() && it.asking.is_none()
        };
        (0..2).all(|client| done(&client)) && !self.must_heal(scope)
    }

    /// Whether what went wrong has done so for as long as it may.
    fn must_heal(&self, scope: &Scope) -> bool {
        let now = self.nodes.now;
        match (self.trouble, scope.fault) {
            (Trouble::Silent(client, node, since), Fault::Silent(lasts)) => {
                // Who has not enrolled it waits for 5 s.
                let lasts = if scope.shares_one() && !self.is_known(client, node) { 1 } else { lasts };
                self.clients[client].since.is_some_and(|began| now - began.max(since) >= lasts)
            }
            (Trouble::Slow(_, since), Fault::Slow(lasts)) => now - since >= lasts,
            _ => false,
        }
    }

    fn of_client(&self, scope: &Scope, client: usize, actions: &mut Vec<Action>) {
        let it = &self.clients[client];
        if it.since.is_none() {
            return actions.push(Action::Start(client));
        }
        for (node, link) in it.links.iter().enumerate() {
            if link.epoch.is_none() && !link.silent {
                actions.push(Action::Connect(client, node));
            }
        }
        if it.due && it.writing.is_none() && !self.is_slow(client) {
            actions.push(Action::Enrol(client));
        }
        if it.may_claim(self.nodes.now) {
            actions.push(Action::Claim(client));
        }
        self.of_messages(scope, client, actions);
    }

    fn of_messages(&self, scope: &Scope, client: usize, actions: &mut Vec<Action>) {
        let it = &self.clients[client];
        let silent = it.silent();
        // In the order of its list, or the other way round.
        let first = |nodes: NodeSet| {
            let mut shared = nodes.iter().filter(|node| scope.shares(it.list[*node]));
            if client == 0 { shared.next() } else { shared.last() }
        };
        if let Some(writing) = &it.writing {
            let comes = writing.pending.without(silent);
            actions.extend(first(comes).map(|node| Action::Write(client, node)));
            if it.may_conclude() {
                actions.push(Action::Conclude(client));
            }
        }
        if let Some(asking) = &it.asking {
            let comes = asking.pending.without(silent);
            actions.extend(first(comes).map(|node| Action::Vote(client, node)));
            if self.is_slow(client) {
                actions.push(Action::Count(client));
            }
        }
    }

    fn of_trouble(&self, scope: &Scope, actions: &mut Vec<Action>) {
        if matches!(self.trouble, Trouble::Silent(..) | Trouble::Slow(..)) {
            return actions.push(Action::Heal);
        }
        if self.trouble == Trouble::Over {
            return;
        }
        let nodes = || (0..LIST).flat_map(|node| [(0, node), (1, node)]);
        match scope.fault {
            Fault::None => {}
            Fault::Restart => {
                actions.extend(scope.shared().map(Action::Restart));
            }
            Fault::Slow(_) => {
                let runs = |client: &usize| self.clients[*client].since.is_some();
                actions.extend((0..2).filter(runs).map(Action::Slow));
            }
            Fault::Silent(_) => {
                let may = |&(client, node): &(usize, usize)| scope.shares(self.clients[client].list[node]);
                actions.extend(nodes().filter(may).map(|(client, node)| Action::Silence(client, node)));
            }
        }
    }

    /// Whether a client has enrolled this node there, or was refused there.
    fn is_known(&self, client: usize, node: usize) -> bool {
        let it = &self.clients[client];
        it.is_listed(node) || it.refused(tick(self.nodes.now)).contains(node)
    }

    pub fn take(&mut self, scope: &Scope, action: Action) {
        match action {
            Action::Tick => {
                self.nodes.now += 1;
                (0..2).for_each(|client| self.client(client).due = self.clients[client].since.is_some());
            }
            Action::Start(client) => self.start(client),
            Action::Connect(client, node) => self.act(client, |it, nodes| it.connect(nodes, node)),
            Action::Enrol(client) => self.act(client, |it, nodes| it.enrol(nodes)),
            Action::Write(client, node) => self.act(client, |it, nodes| it.written(nodes, node)),
            Action::Conclude(client) => self.act(client, |it, nodes| it.conclude(nodes.now)),
            Action::Claim(client) => self.act(client, |it, nodes| it.claim(nodes.now)),
            Action::Vote(client, node) => self.act(client, |it, nodes| it.vote(nodes, node)),
            Action::Count(client) => self.act(client, Client::count),
            Action::Silence(client, node) => {
                self.trouble = Trouble::Silent(client, node, self.nodes.now);
                self.client(client).links[node].silent = true;
            }
            Action::Restart(server) => self.restart(server),
            Action::Slow(client) => self.trouble = Trouble::Slow(client, self.nodes.now),
            Action::Heal => self.heal(),
        }
        // What is concluded may be written at once.
        (0..2 * LIST).for_each(|client| self.settle(scope, client % 2));
    }

    fn client(&mut self, client: usize) -> &mut Client {
        Arc::make_mut(&mut self.clients[client])
    }

    fn act(&mut self, client: usize, act: impl FnOnce(&mut Client, &mut Nodes)) {
        act(Arc::make_mut(&mut self.clients[client]), &mut self.nodes);
    }

    fn start(&mut self, client: usize) {
        let now = self.nodes.now;
        self.act(client, |it, nodes| {
            it.since = Some(now);
            let answers = |node: &usize| !it.links[*node].silent;
            let answering: Vec<_> = (0..LIST).filter(answers).collect();
            answering.into_iter().for_each(|node| it.connect(nodes, node));
            it.enrol(nodes);
        });
    }

    fn restart(&mut self, server: usize) {
        self.trouble = Trouble::Over;
        self.nodes.restart(server);
        for client in 0..2 {
            let node = self.clients[client].list.iter().position(|it| *it == server);
            let node = node.filter(|_| self.clients[client].since.is_some());
            node.into_iter().for_each(|node| self.client(client).disconnect(node));
        }
    }

    fn heal(&mut self) {
        if let Trouble::Silent(client, node, _) = self.trouble {
            self.client(client).links[node].silent = false;
        }
        self.trouble = Trouble::Over;
    }

    /// What reaches a server of one list only does so at once, and who is not slow decides as soon
    /// as it can.
    fn settle(&mut self, scope: &Scope, client: usize) {
        let slow = self.is_slow(client);
        let it = &self.clients[client];
        let mine: Vec<_> = (0..LIST).filter(|&node| !scope.shares(it.list[node])).collect();
        let writes = it.writing.as_ref().map(|writing| writing.pending).unwrap_or_default();
        let claims = it.asking.as_ref().map(|asking| asking.pending).unwrap_or_default();
        for node in mine {
            if writes.contains(node) {
                self.act(client, |it, nodes| it.written(nodes, node));
            }
            if claims.contains(node) {
                self.act(client, |it, nodes| it.vote(nodes, node));
            }
        }
        if !slow && self.clients[client].may_conclude() {
            self.act(client, |it, nodes| it.conclude(nodes.now));
        }
        if !slow && self.clients[client].asking.is_some() {
            self.act(client, Client::count);
        }
    }
}
