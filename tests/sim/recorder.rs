//! A wrapper around a node, which records the library's requests and the node's replies.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use quorumlock::node::redis::RedisNode;
use quorumlock::node::{Listener, Name, Node, NodeStatus, Operation, Outcome, Reply, ReplyTo, Request, Sink, Verb};
use quorumlock::rules::known_nodes::{Known, MembershipState};

use crate::asked::Asked;
use crate::judge::history::{self, Answer, Micros, Op, What};
use crate::world::{Core, World};

/// A node that records requests and their replies.
#[derive(Debug)]
pub struct Recorder {
    pub world: Arc<World>,
    pub process: usize,
    pub node: usize,
    pub inner: RedisNode,
}

/// Operations that have no reply yet, in the order in which they were submitted.
#[derive(Debug, Default)]
pub struct Submitted {
    open: VecDeque<Entry>,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    operation: Arc<Operation>,
    op: Op,
    sent: bool,
}

impl Submitted {
    fn push(&mut self, operation: &Arc<Operation>, op: Op) -> u64 {
        self.next += 1;
        self.open.push_back(Entry { number: self.next, operation: operation.clone(), op, sent: false });
        self.next
    }

    fn take(&mut self, number: u64) -> Option<Op> {
        let index = self.open.binary_search_by_key(&number, |entry| entry.number).ok()?;
        self.open.remove(index).map(|entry| entry.op)
    }

    /// The shared text of an owner, if an open operation has this owner; otherwise a copy.
    pub fn owner(&self, text: &str) -> Arc<str> {
        let known = self.open.iter().filter_map(|entry| entry.operation.owner()).find(|owner| ***owner == *text);
        known.cloned().unwrap_or_else(|| text.into())
    }

    /// The open operation that a command on the wire corresponds to: the oldest equal operation
    /// that was not sent yet. If all equal operations were sent, the command repeats the oldest of
    /// them.
    pub fn sent(&mut self, operation: &Operation) -> Option<Op> {
        let same = |entry: &&mut Entry| alike(&entry.operation, operation);
        let first = self.open.iter_mut().filter(|entry| !entry.sent).find(same);
        let entry = match first {
            Some(entry) => entry,
            None => self.open.iter_mut().find(same)?,
        };
        entry.sent = true;
        Some(entry.op)
    }
}

/// Whether two operations are equal on the wire, which drops or rounds some of their fields.
fn alike(one: &Operation, other: &Operation) -> bool {
    one.verb() == other.verb() && one.names() == other.names() && {
        let (one, other) = (Asked::from(one), Asked::from(other));
        one.ballot == other.ballot
            && one.count == other.count
            && one.owner == other.owner
            && one.next == other.next
            && one.token == other.token
            && one.hand().as_millis() == other.hand().as_millis()
            && one.hello.map(|hello| (hello.intent, hello.new)) == other.hello.map(|hello| (hello.intent, hello.new))
    }
}

/// The number of a name, from its last letter or digit. The semaphore is name 0, and permit n is
/// name n + 1.
pub fn letter(name: &Name) -> u8 {
    match name.text().as_bytes().last() {
        Some(digit @ b'0'..=b'9') => 1 + digit - b'0',
        last => last.map_or(0, |last| last - b'a'),
    }
}

impl Core {
    /// An operation in the form that the judge reads.
    pub fn op(&mut self, now: Micros, process: usize, node: usize, operation: &Operation) -> Op {
        let operation = &Asked::from(operation);
        let verb = match operation.verb {
            Verb::Claim => history::Verb::Claim,
            Verb::Renew => history::Verb::Renew,
            Verb::Release => history::Verb::Release,
            Verb::Withdraw => history::Verb::Withdraw,
            Verb::Revoke => history::Verb::Revoke,
            _ => history::Verb::Other,
        };
        let owner = self.history.owner(process as u16, &operation.owner);
        let hand = operation.hand().as_millis() as u32;
        let (waits, shared) = (operation.waiter.is_some(), Operation::is_shared(&operation.owner));
        let mut names = operation.names.iter().map(letter);
        let name = names.next().unwrap_or(0);
        let also = names.fold(0, |also, name| also | 1 << name);
        let (ballot, token, ttl) = (operation.ballot, operation.token, operation.ttl.as_millis() as u32);
        // The recorder learns the real server only when the request arrives.
        let (process, node, server) = (process as u16, node as u8, node as u8);
        Op { process, node, server, name, also, verb, owner, waits, shared, ballot, token, ttl, hand, sent: now }
    }

    fn submitted(&mut self, now: Micros, process: usize, node: usize, operation: &Arc<Operation>) -> u64 {
        let op = self.op(now, process, node, operation);
        self.history.record(now, What::Submitted(op));
        self.link(process, node).submitted.push(operation, op)
    }

    fn delivered(&mut self, now: Micros, process: usize, node: usize, number: u64, reply: &Reply) {
        let op = self.link(process, node).submitted.take(number);
        let told = reply.as_ref().map_or_else(|fault| !fault.nothing_ran(), |_| true);
        // Record every reply to a release: a release also counts nodes to which nothing was sent.
        let told = |op: &Op| told || op.verb == history::Verb::Release;
        if let Some(op) = op.filter(|op| told(op) && !self.processes[process].dead) {
            self.history.record(now, What::Delivered(op, answer(op, reply)));
        }
    }
}

pub fn answer(to: Op, reply: &Reply) -> Answer {
    match reply {
        Ok(Outcome::Granted { .. }) => Answer::Granted,
        Ok(Outcome::Stale { .. }) => Answer::Stale,
        Ok(Outcome::Extended) => Answer::Extended,
        Ok(Outcome::Healed) => Answer::Healed,
        // True if all names of the release were held.
        Ok(Outcome::Released { held }) => Answer::Released(*held == 1 + to.also.count_ones()),
        Ok(Outcome::Inspected(_) | Outcome::Scanned { .. } | Outcome::Hello(_)) => Answer::Other,
        // The node carried out nothing.
        Ok(Outcome::Forgot) => Answer::Forgot,
        Ok(Outcome::NoList | Outcome::OtherList { .. }) => Answer::Fault,
        Ok(_) => Answer::Refused,
        Err(_) => Answer::Fault,
    }
}

/// Records a reply on its way to the library.
struct Passing {
    world: Arc<World>,
    process: usize,
    number: u64,
    to: Mutex<Option<ReplyTo>>,
}

impl Sink for Passing {
    fn deliver(self: Arc<Self>, node: usize, reply: Reply) {
        let now = self.world.now();
        self.world.core.lock().unwrap().delivered(now, self.process, node, self.number, &reply);
        let to = self.to.lock().unwrap().take();
        if let Some(to) = to {
            to.send(reply);
        }
    }
}

impl Recorder {
    /// Records a request. Returns the request, with a reply path that records the reply too;
    /// `None` if the process is dead.
    fn recorded(&self, Request { operation, reply }: Request) -> Option<Request> {
        let now = self.world.now();
        let mut core = self.world.core.lock().unwrap();
        if core.processes[self.process].dead {
            drop(core);
            drop(reply);
            return None;
        }
        let number = core.submitted(now, self.process, self.node, &operation);
        drop(core);
        let to = Mutex::new(Some(reply));
        let passing = Passing { world: self.world.clone(), process: self.process, number, to };
        Some(Request { operation, reply: ReplyTo::new(self.node, Arc::new(passing)) })
    }
}

impl Node for Recorder {
    fn label(&self) -> &Arc<str> {
        self.inner.label()
    }

    fn submit(&self, request: Request) {
        if let Some(request) = self.recorded(request) {
            self.inner.submit(request);
        }
    }

    fn submit_all(&self, requests: Vec<Request>) {
        self.inner.submit_all(requests.into_iter().filter_map(|request| self.recorded(request)).collect());
    }

    fn hints(&self) -> bool {
        self.inner.hints()
    }

    fn clock_ahead(&self) -> Option<i128> {
        self.inner.clock_ahead()
    }

    fn known(&self) -> Option<Known> {
        self.inner.known()
    }

    fn takes_hello(&self) -> bool {
        self.inner.takes_hello()
    }

    fn judged(&self, standing: MembershipState) {
        self.inner.judged(standing);
    }

    fn votes(&self) -> bool {
        self.inner.votes()
    }

    fn follow(&self, name: &Name, on: bool) {
        self.inner.follow(name, on);
    }

    fn close(&self) {
        self.inner.close();
    }

    fn listen(&self, index: usize, listener: Arc<dyn Listener>) {
        self.inner.listen(index, listener);
    }

    fn status(&self) -> NodeStatus {
        self.inner.status()
    }
}
