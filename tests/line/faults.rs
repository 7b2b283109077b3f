//! Tests of `FaultyNode`, which fails on demand, over a node in memory.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorumlock::host::{Host, TokioTime};
use quorumlock::node::{Claim, Hint, Kind, Listener, MemoryNode, Name, Node, Operation, Release, Renew, Reply};
use quorumlock::node::{ReplyTo, Request, Sink, Verb, Waiter};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::fault::{Faults, FaultyNode};

/// Passes replies on, with the numbers of their operations.
struct Inbox(mpsc::UnboundedSender<(usize, Reply)>);

impl Sink for Inbox {
    fn deliver(self: Arc<Self>, number: usize, reply: Reply) {
        self.0.send((number, reply)).unwrap();
    }
}

/// A claim of one name for a minute, without a place in the queue.
fn claim(owner: &str, ballot: u64) -> Claim {
    Claim {
        names: [Name::new("p:", "a").unwrap()].into(),
        list: "".into(),
        owner: owner.into(),
        kind: Kind::Lock,
        ttl: Duration::from_secs(60),
        ballot,
        follows: None,
        gate: None,
        waiter: None,
        next: 0,
    }
}

struct Bench {
    node: Arc<FaultyNode>,
    faults: Faults,
    host: Arc<dyn Host>,
    inbox: Arc<Inbox>,
    replies: mpsc::UnboundedReceiver<(usize, Reply)>,
}

impl Bench {
    fn new() -> Self {
        let host: Arc<dyn Host> = Arc::new(TokioTime::new(Handle::current()));
        let (node, faults) = FaultyNode::new(Arc::new(MemoryNode::new("memory://0", host.clone())), host.clone());
        let (sender, replies) = mpsc::unbounded_channel();
        Self { node, faults, host, inbox: Arc::new(Inbox(sender)), replies }
    }

    fn ask(&self, number: usize, verb: Verb) {
        let claim = claim("me", 7);
        let operation = match verb {
            Verb::Renew => Renew::of(&claim, 1).into(),
            Verb::Release => Release { token: claim.ballot, ..Release::of(&claim) }.into(),
            _ => claim.into(),
        };
        self.submit(number, operation);
    }

    /// Claims for another owner, which waits.
    fn wait(&self, number: usize) {
        let minute = Duration::from_secs(60);
        let waiter = Waiter { arrival: 1, lasts: minute, again: minute };
        let claim = Claim { waiter: Some(waiter), ..claim("one/1", 8) };
        self.submit(number, claim.into());
    }

    fn submit(&self, number: usize, operation: Operation) {
        let operation = Arc::new(operation);
        self.node.submit(Request { operation, reply: ReplyTo::new(number, self.inbox.clone()) });
    }

    async fn answer(&mut self) -> (usize, &'static str) {
        let (number, reply) = self.replies.recv().await.unwrap();
        (number, reply.map_or_else(|fault| fault.kind().as_str(), |outcome| outcome.as_str()))
    }
}

#[tokio::test(start_paused = true)]
async fn delays_keep_the_order_and_take_their_time() {
    let mut bench = Bench::new();
    bench.faults.delay(Duration::from_millis(30), Duration::from_millis(20));
    bench.ask(0, Verb::Claim);
    bench.ask(1, Verb::Release);
    assert_eq!(bench.answer().await, (0, "granted"));
    assert_eq!(bench.answer().await, (1, "released"));
    assert_eq!(bench.host.now().since_origin().as_millis() / 2, 25, "50 ms, to a millisecond or two");
}

#[tokio::test(start_paused = true)]
async fn a_lost_request_never_ran_and_a_lost_reply_did() {
    let mut bench = Bench::new();
    bench.faults.lose_requests(1);
    bench.ask(0, Verb::Claim);
    bench.ask(1, Verb::Renew);
    bench.faults.lose_replies(1);
    bench.ask(2, Verb::Release);
    bench.ask(3, Verb::Release);
    assert_eq!(bench.answer().await, (1, "healed"), "nothing had been claimed");
    assert_eq!(bench.answer().await, (3, "released"));
    assert_eq!((bench.answer().await, bench.answer().await), ((0, "timeout"), (2, "timeout")));
}

#[tokio::test(start_paused = true)]
async fn release_overtakes_a_claim_that_is_held_back() {
    let mut bench = Bench::new();
    bench.faults.hold_back(Verb::Claim);
    bench.ask(0, Verb::Claim);
    bench.ask(1, Verb::Release);
    assert_eq!(bench.answer().await, (1, "released"));
    bench.faults.let_go();
    assert_eq!(bench.answer().await, (0, "stale"), "the raised fence is the claim's tombstone");
}

#[tokio::test(start_paused = true)]
async fn a_hung_node_goes_on_in_order_and_a_dead_one_forgets() {
    let mut bench = Bench::new();
    bench.faults.pause();
    bench.ask(0, Verb::Claim);
    bench.ask(1, Verb::Renew);
    bench.faults.resume();
    assert_eq!((bench.answer().await, bench.answer().await), ((0, "granted"), (1, "extended")));
    bench.faults.pause();
    bench.ask(2, Verb::Renew);
    let fresh = Arc::new(MemoryNode::new("memory://0", bench.host.clone()));
    bench.faults.restart(fresh, Duration::from_secs(5));
    bench.ask(3, Verb::Claim);
    bench.ask(4, Verb::Renew);
    assert_eq!(bench.answer().await, (2, "closed"));
    assert_eq!((bench.answer().await, bench.answer().await), ((3, "quarantined"), (4, "healed")));
}

/// Records each message as one word.
#[derive(Debug)]
struct Told(&'static str, Mutex<Vec<&'static str>>);

impl Told {
    fn client(name: &'static str) -> Arc<Self> {
        Arc::new(Self(name, Mutex::default()))
    }

    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.1.lock().unwrap())
    }
}

impl Listener for Told {
    fn client(&self) -> &str {
        self.0
    }

    fn hint(&self, _: usize, _: &Hint) {
        self.1.lock().unwrap().push("hint");
    }

    fn missed(&self, _: usize) {
        self.1.lock().unwrap().push("missed");
    }

    fn doubted(&self, _: usize) {
        self.1.lock().unwrap().push("doubted");
    }
}

#[tokio::test(start_paused = true)]
async fn clients_of_one_node_each_get_all_of_its_events() {
    let mut bench = Bench::new();
    let clients = ["one", "other"].map(Told::client);
    clients.iter().for_each(|client| bench.node.listen(0, client.clone()));
    bench.faults.kill();
    bench.faults.reconnect();
    assert!(clients.iter().all(|client| client.take() == ["missed"]));
    bench.faults.restart(Arc::new(MemoryNode::new("memory://0", bench.host.clone())), Duration::ZERO);
    assert!(clients.iter().all(|client| client.take() == ["missed", "doubted"]));
    bench.ask(0, Verb::Claim);
    bench.wait(1);
    bench.submit(2, Release { next: 20, ..Release::of(&claim("me", 7)) }.into());
    let answers = [bench.answer().await, bench.answer().await, bench.answer().await];
    assert_eq!(answers, [(0, "granted"), (1, "held"), (2, "released")]);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(clients.iter().all(|client| client.take() == ["hint"]), "each sees by itself whom it is for");
    drop(clients);
    bench.node.listen(0, Told::client("third"));
    assert_eq!(bench.node.listeners(), 1, "who has gone is forgotten");
}
