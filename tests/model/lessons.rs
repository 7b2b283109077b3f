//! What keeps tokens growing where wall clocks differ: each client teaches nodes that forgot, as
//! `protocol::teach` does.
//!
//! All nodes that it is connected to tell their records at one moment; what follows from them is
//! told to the node later. Time does not pass beyond the end of a quarantine before that was done:
//! votes of a node that nobody has taught by then count all the same, and tokens rest on clocks.

use std::sync::Arc;

use quorumlock::node::{Operation, Outcome};
use quorumlock::rules::doubt::Lesson;
use quorumlock::rules::teaching::{Advice, Records};
use quorumlock::rules::{NodeSet, Size};

use crate::client::{Client, NODES, tick};
use crate::scope::{Scope, Ticks};
use crate::server::Server;
use crate::world::{Action, World};

/// A lesson, and the ballot that is told.
pub type Prepared = (Lesson, u64);

impl Client {
    fn due(&self, node: usize, now: Ticks) -> Option<Lesson> {
        self.guards[node].lesson().filter(|lesson| lesson.from <= tick(now) && self.lessons[node].is_none())
    }

    /// Whether it would ask for records now.
    pub fn may_survey(&self, now: Ticks) -> bool {
        (0..NODES).any(|node| self.due(node, now).is_some())
    }

    /// Nodes told their records: what follows for each that needs a lesson.
    pub fn survey(&mut self, told: [Option<(u64, bool)>; NODES], now: Ticks) {
        let mut records = Records::new(Size::of(NODES as u32));
        told.into_iter().enumerate().for_each(|(node, record)| records.count(node, record));
        let free = self.guards.iter().all(|guard| guard.lesson().is_none_or(|lesson| lesson.ends <= tick(now)));
        for node in 0..NODES {
            let Some(lesson) = self.due(node, now) else { continue };
            match records.advise(node, free) {
                Advice::Nothing => self.guards[node].lesson_given(lesson, true, tick(now)),
                Advice::Teach(high) => self.lessons[node] = Some((lesson, high)),
                Advice::NobodyKnows(_) => {}
            }
        }
    }

    /// The nodes that it has a lesson for.
    pub fn pupils(&self) -> NodeSet {
        (0..NODES).filter(|&node| self.lessons[node].is_some()).collect()
    }

    /// Teaches a node.
    pub fn teach(&mut self, node: usize, server: &mut Server, now: Ticks) {
        let Some((lesson, high)) = self.lessons[node].take() else { return };
        let taught = server.apply(&Operation::teach(high, lesson.number), now).0 == Outcome::Taught;
        self.guards[node].lesson_given(lesson, taught, tick(now));
    }

    /// Whether a node would vote without a lesson if time went on.
    pub fn is_late(&self, now: Ticks) -> bool {
        self.guards.iter().any(|guard| guard.lesson().is_some_and(|lesson| lesson.ends <= tick(now)))
    }
}

impl World {
    pub fn of_lessons(&self, scope: &Scope, client: usize, actions: &mut Vec<Action>) {
        let of = &self.clients[client];
        if scope.has_lessons() && of.may_acquire(scope) {
            actions.extend(of.may_survey(self.now).then_some(Action::Survey(client)));
            actions.extend(of.pupils().iter().map(|node| Action::Teach(client, node)));
        }
    }

    /// Whether a node would vote without a lesson if time went on.
    pub fn waits_for_lessons(&self, scope: &Scope) -> bool {
        let late = |client: &Arc<Client>| client.may_acquire(scope) && client.is_late(self.now);
        scope.has_lessons() && self.clients.iter().any(late)
    }

    pub fn survey(&mut self, client: usize) {
        let now = self.now;
        let (connections, servers) = (&self.connections[client], &mut self.servers);
        let told = std::array::from_fn(|node| {
            let connected = connections[node].epoch == servers[node].epoch;
            connected.then(|| record(Arc::make_mut(&mut servers[node]), now)).flatten()
        });
        Arc::make_mut(&mut self.clients[client]).survey(told, now);
    }

    pub fn teach(&mut self, client: usize, node: usize) {
        let server = Arc::make_mut(&mut self.servers[node]);
        Arc::make_mut(&mut self.clients[client]).teach(node, server, self.now);
    }
}

/// What a node tells of its record.
pub fn record(server: &mut Server, now: Ticks) -> Option<(u64, bool)> {
    match server.apply(&Operation::Record, now).0 {
        Outcome::Record { high, taught, .. } => Some((high, taught)),
        _ => None,
    }
}
