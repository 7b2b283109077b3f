//! Tests of `FaultyNode` over a scripted node, which answers and sends hints when the test says so.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::advance;

use quorumlock::host::{Host, TokioTime};
use quorumlock::node::{FaultKind, Hint, Listener, Name, Node, NodeState, NodeStatus, Operation, Outcome};
use quorumlock::node::{Reply, ReplyTo, Request, Sink, Verb};

use crate::fault::{Faults, FaultyNode};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// The node behind the faults.
#[derive(Debug, Default)]
struct Inner {
    label: Arc<str>,
    requests: Mutex<VecDeque<Request>>,
    listener: Mutex<Option<Arc<dyn Listener>>>,
    notifies: AtomicBool,
    closed: AtomicBool,
}

impl Inner {
    fn answer(&self, outcome: Outcome) {
        let request = self.requests.lock().unwrap().pop_front().unwrap();
        request.reply.send(Ok(outcome));
    }

    fn listener(&self) -> Arc<dyn Listener> {
        self.listener.lock().unwrap().clone().unwrap()
    }

    fn hint(&self, number: u64) {
        let acquisition = format!("host/1/uuid/{number}").into();
        self.listener().hint(0, &Hint::ask_again(acquisition, Duration::ZERO));
    }
}

impl Node for Inner {
    fn label(&self) -> &Arc<str> {
        &self.label
    }

    fn submit(&self, request: Request) {
        self.requests.lock().unwrap().push_back(request);
    }

    fn hints(&self) -> bool {
        self.notifies.load(Relaxed)
    }

    fn clock_ahead(&self) -> Option<i128> {
        Some(7)
    }

    fn close(&self) {
        self.closed.store(true, Relaxed);
    }

    fn listen(&self, _: usize, listener: Arc<dyn Listener>) {
        *self.listener.lock().unwrap() = Some(listener);
    }

    fn status(&self) -> NodeStatus {
        NodeStatus::new(self.label.clone(), NodeState::Up)
    }
}

/// The messages that a client gets.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Hint(usize, u64),
    Missed(usize),
    Doubted(usize),
}

#[derive(Debug)]
struct Client(UnboundedSender<Told>);

impl Listener for Client {
    fn client(&self) -> &'static str {
        "host/1/uuid"
    }

    fn hint(&self, node: usize, hint: &Hint) {
        self.0.send(Told::Hint(node, hint.address().unwrap().1)).unwrap();
    }

    fn missed(&self, node: usize) {
        self.0.send(Told::Missed(node)).unwrap();
    }

    fn doubted(&self, node: usize) {
        self.0.send(Told::Doubted(node)).unwrap();
    }
}

struct Inbox(UnboundedSender<(usize, Reply)>);

impl Sink for Inbox {
    fn deliver(self: Arc<Self>, number: usize, reply: Reply) {
        self.0.send((number, reply)).unwrap();
    }
}

/// Node number 3 of a client, behind its faults.
struct Bench {
    inner: Arc<Inner>,
    node: Arc<FaultyNode>,
    faults: Faults,
    host: Arc<dyn Host>,
    _client: Arc<Client>,
    told: UnboundedReceiver<Told>,
    inbox: Arc<Inbox>,
    replies: UnboundedReceiver<(usize, Reply)>,
}

impl Bench {
    fn new() -> Self {
        let host: Arc<dyn Host> = Arc::new(TokioTime::new(Handle::current()));
        let inner = Arc::new(Inner { label: "played".into(), ..Inner::default() });
        let (node, faults) = FaultyNode::new(inner.clone(), host.clone());
        let (sender, told) = mpsc::unbounded_channel();
        let client = Arc::new(Client(sender));
        node.listen(3, client.clone());
        let (sender, replies) = mpsc::unbounded_channel();
        Self { inner, node, faults, host, _client: client, told, inbox: Arc::new(Inbox(sender)), replies }
    }

    fn ask(&self, number: usize) {
        let operation = Arc::new(Operation::Inspect([Name::new("", "a").unwrap()].into()));
        self.node.submit(Request { operation, reply: ReplyTo::new(number, self.inbox.clone()) });
    }

    async fn fault(&mut self) -> FaultKind {
        self.replies.recv().await.unwrap().1.unwrap_err().kind()
    }
}

#[tokio::test(start_paused = true)]
async fn wakeups_are_delayed_like_replies_and_doubled_on_request() {
    let mut bench = Bench::new();
    assert_eq!(bench.inner.listener().client(), "host/1/uuid");
    bench.faults.delay(SECOND, 20 * MS);
    bench.inner.hint(1);
    assert_eq!(bench.told.recv().await, Some(Told::Hint(3, 1)));
    assert_eq!(bench.host.now().since_origin().as_millis() / 2, 10, "20 ms, to a millisecond");
    bench.faults.double_hints(true);
    bench.inner.hint(2);
    bench.inner.hint(3);
    let told = [bench.told.recv().await, bench.told.recv().await, bench.told.recv().await, bench.told.recv().await];
    assert_eq!(told.map(Option::unwrap), [2, 2, 3, 3].map(|number| Told::Hint(3, number)));
    bench.faults.double_hints(false);
    bench.inner.hint(4);
    bench.inner.hint(5);
    assert_eq!(bench.told.recv().await, Some(Told::Hint(3, 4)));
    assert_eq!(bench.told.recv().await, Some(Told::Hint(3, 5)), "once each");
}

#[tokio::test(start_paused = true)]
async fn node_that_is_down_hung_or_lossy_sends_no_wakeups() {
    let mut bench = Bench::new();
    bench.faults.lose_hints(true);
    bench.inner.hint(1);
    bench.faults.lose_hints(false);
    bench.faults.pause();
    bench.inner.hint(2);
    bench.faults.resume();
    bench.faults.kill();
    bench.inner.hint(3);
    bench.faults.reconnect();
    bench.inner.hint(4);
    assert_eq!(bench.told.recv().await, Some(Told::Missed(3)));
    assert_eq!(bench.told.recv().await, Some(Told::Hint(3, 4)));
}

#[tokio::test(start_paused = true)]
async fn missed_and_suspect_events_carry_the_number_of_the_node() {
    let mut bench = Bench::new();
    bench.inner.listener().missed(0);
    bench.inner.listener().doubted(0);
    let another = Arc::new(Inner::default());
    bench.faults.restart(another.clone(), SECOND);
    another.hint(1);
    let mut told = Vec::new();
    for _ in 0..5 {
        told.push(bench.told.recv().await.unwrap());
    }
    let expected = [Told::Missed(3), Told::Doubted(3), Told::Missed(3), Told::Doubted(3), Told::Hint(3, 1)];
    assert_eq!(told, expected, "and a node that is new is listened to");
}

#[tokio::test(start_paused = true)]
async fn played_node_passes_on_its_clock_wakeups_and_close() {
    let bench = Bench::new();
    assert_eq!((bench.node.clock_ahead(), bench.node.hints()), (Some(7), false));
    bench.inner.notifies.store(true, Relaxed);
    assert!(bench.node.hints());
    bench.faults.kill();
    assert!(!bench.node.hints(), "it has no connection");
    let shown = format!("{:?}", bench.faults);
    assert!(shown.contains("played") && shown.contains("down: true"), "{shown}");
    bench.node.close();
    assert!(bench.inner.closed.load(Relaxed));
}

#[tokio::test(start_paused = true)]
async fn restarted_node_is_quarantined_until_its_time_has_ended() {
    let bench = Bench::new();
    bench.faults.restart(bench.inner.clone(), 5 * SECOND);
    advance(5 * SECOND - MS).await;
    assert!(matches!(bench.node.status().state, NodeState::Quarantined { .. }));
    advance(MS).await;
    assert_eq!(bench.node.status().state, NodeState::Up);
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_an_earlier_life_is_never_told() {
    let mut bench = Bench::new();
    bench.ask(0);
    bench.faults.kill();
    bench.faults.reconnect();
    bench.inner.answer(Outcome::Granted { fence: 1 });
    assert_eq!(bench.fault().await, FaultKind::Closed);
    bench.ask(1);
    bench.inner.answer(Outcome::Granted { fence: 1 });
    assert_eq!(bench.replies.recv().await.unwrap().1.unwrap(), Outcome::Granted { fence: 1 });
}

#[tokio::test(start_paused = true)]
async fn unanswered_request_times_out_after_the_set_timeout() {
    let mut bench = Bench::new();
    bench.faults.timeout(5 * SECOND);
    bench.ask(0);
    assert_eq!(bench.fault().await, FaultKind::Timeout);
    assert_eq!(bench.host.now().since_origin().as_secs(), 5);
    bench.ask(1);
    assert_eq!(bench.faults.asked(Verb::Inspect), 2);
}

#[tokio::test(start_paused = true)]
async fn requests_overtake_each_other_within_their_delay() {
    let mut bench = Bench::new();
    bench.faults.timeout(60 * SECOND);
    bench.faults.delay(SECOND, Duration::ZERO);
    bench.faults.reorder(true);
    (0..50).for_each(|number| bench.ask(number));
    advance(SECOND / 2).await;
    tokio::time::sleep(SECOND / 2 + 2 * MS).await;
    (0..50).for_each(|_| bench.inner.answer(Outcome::Granted { fence: 1 }));
    let mut order = Vec::new();
    for _ in 0..50 {
        order.push(bench.replies.recv().await.unwrap().0);
    }
    assert!(!order.is_sorted(), "{order:?}");
}
