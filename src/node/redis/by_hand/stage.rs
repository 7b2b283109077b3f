//! A transport whose commands the test answers one by one, and a node that uses this transport.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;

use crate::node::redis::RedisNode;
use crate::node::redis::script::Script;
use crate::node::redis::tests::{ID, claimed, is_down, over, record, until};
use crate::node::redis::transport::{Answer, Arguments, Connection, Dialer, Dialing, Event, Value};
use crate::node::{Fault, FaultKind, Hint, Listener, Name, NodeState, Outcome, Reply};

pub(super) const MS: Duration = Duration::from_millis(1);

/// A command that waits for its reply.
pub(super) struct Sent {
    pub(super) command: &'static str,
    answer: oneshot::Sender<Result<Value, Fault>>,
}

impl Sent {
    pub(super) fn reply(self, value: impl Into<Value>) {
        let _ = self.answer.send(Ok(value.into()));
    }

    pub(super) fn fail(self, kind: FaultKind, message: &str) {
        let _ = self.answer.send(Err(Fault::new(kind, message)));
    }
}

/// Passes commands to the test. To open a connection, the node sends the command `DIAL`.
#[derive(Clone, Debug)]
pub(super) struct Hand {
    sent: UnboundedSender<Sent>,
    events: Arc<Mutex<UnboundedReceiver<Event>>>,
    /// Whether this connection carries votes: it has sent a command. The other connections are for
    /// news, and get no events.
    votes: Arc<AtomicBool>,
}

impl std::fmt::Debug for Sent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.command)
    }
}

impl Hand {
    fn ask(&self, command: &'static str) -> Answer<Value> {
        let (answer, answered) = oneshot::channel();
        self.sent.send(Sent { command, answer }).unwrap();
        async move { answered.await.unwrap_or_else(|_| Err(Fault::new(FaultKind::Closed, "nobody answers"))) }.boxed()
    }
}

impl Dialer for Hand {
    fn address(&self) -> String {
        "redis://hand".to_owned()
    }

    fn dial(&self, _: Duration) -> Dialing<'_> {
        let dialed = self.ask("DIAL");
        let connection: Box<dyn Connection> = Box::new(Self { votes: Arc::default(), ..self.clone() });
        async move { dialed.await.map(|_| connection) }.boxed()
    }
}

impl Connection for Hand {
    fn send(&self, command: &'static str, _: &dyn Arguments) -> Answer<Value> {
        self.votes.store(true, Relaxed);
        self.ask(command)
    }

    fn subscribe(&self, _: &[String]) -> Answer<()> {
        let subscribed = self.ask("SUBSCRIBE");
        async move { subscribed.await.map(drop) }.boxed()
    }

    fn unsubscribe(&self, _: &[String]) -> Answer<()> {
        let unsubscribed = self.ask("UNSUBSCRIBE");
        async move { unsubscribed.await.map(drop) }.boxed()
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        if !self.votes.load(Relaxed) {
            return Poll::Pending;
        }
        self.events.lock().unwrap().poll_recv(context).map(Option::unwrap)
    }
}

/// A listener that counts the calls of its methods.
#[derive(Debug, Default)]
pub(super) struct Client {
    pub(super) hints: AtomicU32,
    pub(super) news: AtomicU32,
    /// The pushes of hand-overs that may count as votes.
    pub(super) counted: AtomicU32,
    pub(super) missed: AtomicU32,
    pub(super) doubted: AtomicU32,
}

impl Listener for Client {
    fn client(&self) -> &'static str {
        "host/1/uuid"
    }

    fn hint(&self, _: usize, hint: &Hint) {
        self.hints.fetch_add(1, Relaxed);
        let counts = hint.granted.as_ref().is_some_and(|granted| granted.counts);
        self.counted.fetch_add(counts.into(), Relaxed);
    }

    fn news(&self, _: usize, _: &Name) {
        self.news.fetch_add(1, Relaxed);
    }

    fn missed(&self, _: usize) {
        self.missed.fetch_add(1, Relaxed);
    }

    fn doubted(&self, _: usize) {
        self.doubted.fetch_add(1, Relaxed);
    }
}

pub(super) struct Stage {
    pub(super) node: RedisNode,
    pub(super) client: Arc<Client>,
    pub(super) sent: UnboundedReceiver<Sent>,
    pub(super) events: UnboundedSender<Event>,
}

/// A reply to INFO of a server with this uptime in seconds.
pub(super) fn info(run: &str, uptime: u32) -> String {
    format!("run_id:{run}\r\nuptime_in_seconds:{uptime}\r\nrole:master\r\n")
}

impl Stage {
    pub(super) fn new() -> Self {
        Self::guarded(Duration::ZERO)
    }

    /// A node that is quarantined for up to `max_ttl` if it may have forgotten locks.
    pub(super) fn guarded(max_ttl: Duration) -> Self {
        let (sender, sent) = mpsc::unbounded_channel();
        let (events, happens) = mpsc::unbounded_channel();
        let client = Arc::<Client>::default();
        let hand = Hand { sent: sender, events: Arc::new(Mutex::new(happens)), votes: Arc::default() };
        Self { node: over(Arc::new(hand), client.clone(), max_ttl), client, sent, events }
    }

    pub(super) async fn up() -> Self {
        let mut stage = Self::new();
        stage.admit().await;
        stage
    }

    /// Returns the next command, which must be `command`.
    pub(super) async fn next(&mut self, command: &str) -> Sent {
        let sent = self.sent.recv().await.unwrap();
        assert_eq!(sent.command, command);
        sent
    }

    /// Answers all commands of a new connection, from its dial to its subscription.
    pub(super) async fn admit(&mut self) {
        self.greet().await;
        self.next("SUBSCRIBE").await.reply("");
        self.is_up().await;
    }

    /// Answers all commands of a new connection except the subscription.
    pub(super) async fn greet(&mut self) {
        self.next("DIAL").await.reply("");
        self.greeted().await;
    }

    /// Answers all commands of a new connection except the dial and the subscription.
    pub(super) async fn greeted(&mut self) {
        self.next("CLIENT").await.reply("OK");
        self.loads().await.into_iter().for_each(|load| load.reply("digest"));
        self.next("INFO").await.reply(info("run", 1_000));
        self.next("EVALSHA").await.reply(record("run"));
    }

    /// Ends the connection. Returns the next dial, and the pause before it.
    pub(super) async fn redialed(&mut self) -> (Sent, Duration) {
        let ended = self.node.shared.host.now();
        self.events.send(Event::Ended("over".to_owned())).unwrap();
        loop {
            match self.sent.recv().await.unwrap() {
                sent if sent.command == "DIAL" => return (sent, self.node.shared.host.now().since(ended)),
                probe => assert_eq!(probe.command, "INFO"),
            }
        }
    }

    pub(super) async fn is_up(&self) {
        until(&self.node, |state| *state == NodeState::Up).await;
    }

    pub(super) async fn loads(&mut self) -> Vec<Sent> {
        let mut loads = Vec::new();
        for _ in Script::ALL {
            loads.push(self.next("SCRIPT").await);
        }
        loads
    }

    /// Submits this many claims, each in a call of its own.
    pub(super) async fn calls(&mut self, count: usize) -> Vec<(Sent, UnboundedReceiver<Reply>)> {
        let mut calls = Vec::new();
        for _ in 0..count {
            let answers = claimed(&self.node);
            calls.push((self.next("EVALSHA").await, answers));
        }
        calls
    }

    pub(super) async fn is_quiet(&mut self) {
        settled().await;
        assert!(self.sent.try_recv().is_err(), "nothing more is sent");
    }

    pub(super) async fn comes_down(&mut self, reason: &str) {
        until(&self.node, |state| is_down(state, reason)).await;
    }
}

/// The reply to a call of one operation. `time` is the server's clock in microseconds. If `words`
/// is empty, the operation succeeded.
pub(super) fn replied(time: i64, words: &[&'static str]) -> Value {
    let reply = [Value::Integer(1)].into_iter().chain(words.iter().map(|&word| word.into())).collect();
    let done = format!("{} {} 1 {ID}", time / 1_000_000, time % 1_000_000);
    let others = (!words.is_empty()).then_some(Value::Array(reply));
    Value::Array([done.into(), "".into()].into_iter().chain(others).collect())
}

/// Lets all other tasks run until they wait, without advancing the clock.
pub(super) async fn settled() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

pub(super) async fn granted(answers: &mut UnboundedReceiver<Reply>) {
    assert_eq!(answers.recv().await.unwrap().unwrap(), Outcome::Granted { fence: 1 });
}

pub(super) async fn failed(answers: &mut UnboundedReceiver<Reply>) -> FaultKind {
    answers.recv().await.unwrap().unwrap_err().kind()
}
