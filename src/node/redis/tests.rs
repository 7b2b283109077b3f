//! Tests of one node over a scripted transport, on a virtual clock.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::ready;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::sync::mpsc::UnboundedSender;

use super::transport::{Answer, Argument, Arguments, Connection, Dialer, Dialing, Event, Value};
use super::{RedisNode, Registry, Settings};
use crate::host::{Host, TokioTime};
use crate::node::operation::Intent;
use crate::node::{Claim, Hint, Listener, Node, NodeState, Outcome};
use crate::node::{Reply, ReplyTo, Request, Sink, Verb};
use crate::rules::list::List;

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// How the scripted server behaves.
#[derive(Debug, Default)]
struct Script {
    dials: AtomicU32,
    /// How many dials panic before one succeeds.
    panics: u32,
    /// What `poll_event` returns on each connection.
    event: Option<fn() -> Poll<Event>>,
    /// The time of the first INFO. At that time, the server had been up for 1,000 seconds.
    began: OnceLock<TokioTime>,
}

#[derive(Debug)]
struct Played(Arc<Script>);

#[derive(Debug)]
struct Line {
    script: Arc<Script>,
}

impl Dialer for Played {
    fn address(&self) -> String {
        "redis://played".to_owned()
    }

    fn dial(&self, _: Duration) -> Dialing<'_> {
        let panics = self.0.dials.fetch_add(1, Relaxed) < self.0.panics;
        assert!(!panics, "panics like rustls without a provider");
        let line: Box<dyn Connection> = Box::new(Line { script: self.0.clone() });
        async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok(line)
        }
        .boxed()
    }
}

impl Line {
    fn info(&self) -> Answer<Value> {
        let began = self.script.began.get_or_init(|| TokioTime::new(Handle::current()));
        let uptime = 1_000 + began.now().since_origin().as_secs();
        ready(Ok(format!("run_id:played\r\nuptime_in_seconds:{uptime}\r\nrole:master\r\n").into())).boxed()
    }
}

impl Connection for Line {
    fn send(&self, command: &'static str, arguments: &dyn Arguments) -> Answer<Value> {
        match command {
            "INFO" => self.info(),
            "EVALSHA" if greets(arguments) => ready(Ok(record("played"))).boxed(),
            "EVALSHA" => ready(Ok(granted(arguments))).boxed(),
            _ => ready(Ok("OK".into())).boxed(),
        }
    }

    fn subscribe(&self, _: &[String]) -> Answer<()> {
        ready(Ok(())).boxed()
    }

    fn unsubscribe(&self, _: &[String]) -> Answer<()> {
        ready(Ok(())).boxed()
    }

    fn poll_event(&mut self, _: &mut Context<'_>) -> Poll<Event> {
        self.script.event.map_or(Poll::Pending, |event| event())
    }
}

fn granted(arguments: &dyn Arguments) -> Value {
    // The first three arguments are the script, the number of keys, and the record's key. Each
    // claim has 17 more.
    grants((arguments.count() - 3) / 17)
}

fn greets(arguments: &dyn Arguments) -> bool {
    let mut greets = false;
    arguments.each(&mut |argument| greets |= argument == Argument::Word(Intent::Put.as_str()));
    greets
}

/// The reply to a hello: an old and synced record of this process.
pub(super) fn record(process: &str) -> Value {
    let (age, none) = (Value::Integer(1_000_000_000), Value::Integer(0));
    let said = [
        Value::Integer(1),
        "hello".into(),
        ID.into(),
        process.to_owned().into(),
        age,
        "0".into(),
        "0".into(),
        "1".into(),
    ];
    let list = ["".into(), "".into(), none.clone(), none, "".into()];
    Value::Array(vec![format!("1 0 1 {ID}").into(), "".into(), Value::Array(said.into_iter().chain(list).collect())])
}

pub(super) const ID: &str = "0123456789abcdef";

/// The reply to a call that grants this many claims.
pub(super) fn grants(claims: usize) -> Value {
    format!("1 0 {claims} {ID}").into()
}

#[derive(Debug, Default)]
struct Missed(AtomicU32);

impl Listener for Missed {
    fn client(&self) -> &'static str {
        "host/1/uuid"
    }

    fn hint(&self, _: usize, _: &Hint) {}

    fn missed(&self, _: usize) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn node(script: &Arc<Script>, listener: Arc<Missed>) -> RedisNode {
    over(Arc::new(Played(script.clone())), listener, Duration::ZERO)
}

/// A node with a command timeout of one second.
pub(super) fn over(dialer: Arc<dyn Dialer>, listener: Arc<dyn Listener>, max_ttl: Duration) -> RedisNode {
    let host: Arc<dyn Host> = Arc::new(TokioTime::new(Handle::current()));
    let settings = Settings {
        quorum: "default".into(),
        timeout: SECOND,
        max_ttl,
        list: Arc::new(List::new("alone", ["alone"], max_ttl)),
        greets: Intent::Put,
        drift: 0.01,
        record: "node".into(),
        client_name: "test".into(),
        channel: "wake:".into(),
        listener,
    };
    RedisNode::new(0, "alone".into(), dialer, settings, host, Arc::new(Registry::new(1)))
}

struct Inbox(UnboundedSender<Reply>);

impl Sink for Inbox {
    fn deliver(self: Arc<Self>, _: usize, reply: Reply) {
        let _ = self.0.send(reply);
    }
}

pub(super) fn request(verb: Verb, sink: Arc<dyn Sink>) -> Request {
    let operation = Claim { ttl: SECOND, ..Claim::sample("a", "host/1/uuid/1.0", 1) }.with_verb(verb);
    Request { operation: Arc::new(operation), reply: ReplyTo::new(0, sink) }
}

/// Submits several claims together. Returns the receiver of their replies.
pub(super) fn claimed_at_once(node: &RedisNode, count: usize) -> mpsc::UnboundedReceiver<Reply> {
    let (sender, answers) = mpsc::unbounded_channel();
    let sink: Arc<dyn Sink> = Arc::new(Inbox(sender));
    node.submit_all((0..count).map(|_| request(Verb::Claim, sink.clone())).collect());
    answers
}

pub(super) fn claimed(node: &RedisNode) -> mpsc::UnboundedReceiver<Reply> {
    asked(node, Verb::Claim)
}

/// Like [`claimed`], but with this verb.
pub(super) fn asked(node: &RedisNode, verb: Verb) -> mpsc::UnboundedReceiver<Reply> {
    let (sender, answers) = mpsc::unbounded_channel();
    node.submit(request(verb, Arc::new(Inbox(sender))));
    answers
}

pub(super) async fn until(node: &RedisNode, reached: impl Fn(&NodeState) -> bool) {
    let host = &node.shared.host;
    let began = host.now();
    while !reached(&node.status().state) {
        assert!(host.now().since(began) < 60 * SECOND, "it is {}", node.status().state);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

pub(super) fn is_down(state: &NodeState, reason: &str) -> bool {
    matches!(state, NodeState::Down { why } if why.contains(reason))
}

#[tokio::test(start_paused = true)]
async fn node_is_down_and_redialed_after_its_transport_panics() {
    let script = Arc::new(Script { panics: 3, ..Script::default() });
    let node = node(&script, Arc::default());
    until(&node, |state| is_down(state, "panicked")).await;
    until(&node, |state| *state == NodeState::Up).await;
    assert_eq!(script.dials.load(Relaxed), 4);
    assert_eq!(claimed(&node).recv().await.unwrap().unwrap(), Outcome::Granted { fence: 1 });
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_panics_takes_no_supervisor_with_it() {
    let script = Arc::new(Script { event: Some(|| panic!("a bug below")), ..Script::default() });
    let node = node(&script, Arc::default());
    until(&node, |state| is_down(state, "panicked")).await;
    tokio::time::sleep(60 * SECOND).await;
    assert!(script.dials.load(Relaxed) > 3, "the node is dialed again");
}

#[tokio::test(start_paused = true)]
async fn connection_that_ends_at_once_is_remade_after_growing_pauses() {
    let ended = || Poll::Ready(Event::Ended("flapping".to_owned()));
    let script = Arc::new(Script { event: Some(ended), ..Script::default() });
    let listener = Arc::new(Missed::default());
    let node = node(&script, listener.clone());
    tokio::time::sleep(60 * SECOND).await;
    assert!(is_down(&node.status().state, "flapping"));
    let (dials, told) = (script.dials.load(Relaxed), listener.0.load(Relaxed));
    assert!((20..200).contains(&dials), "{dials} connections in a minute");
    assert!(told <= dials.min(61), "all waiters were woken {told} times");
}

/// Uses the real clock: a virtual clock does not advance while tasks have work.
#[tokio::test]
async fn a_flood_of_messages_does_not_keep_callers_from_their_answers() {
    for flood in [|| Poll::Ready(Event::Message("hello".to_owned())), || Poll::Ready(Event::Missed)] {
        let script = Arc::new(Script { event: Some(flood), ..Script::default() });
        let listener = Arc::new(Missed::default());
        #[allow(clippy::disallowed_methods, reason = "this is a test")]
        let began = std::time::Instant::now();
        let node = node(&script, listener.clone());
        until(&node, |state| *state == NodeState::Up).await;
        assert_eq!(claimed(&node).recv().await.unwrap().unwrap(), Outcome::Granted { fence: 1 });
        let most = 2 + began.elapsed().as_secs();
        assert!(u64::from(listener.0.load(Relaxed)) <= most, "waiters are woken at most once a second");
    }
}

#[tokio::test(start_paused = true)]
async fn offset_of_the_nodes_clock_is_known_from_its_first_reply_on() {
    let node = node(&Arc::default(), Arc::default());
    assert_eq!(node.clock_ahead(), None);
    until(&node, |state| *state == NodeState::Up).await;
    // The node's clock showed 1 s, and the client's clock 1 ms, because the dial took 1 ms.
    assert_eq!(node.clock_ahead(), Some(999_000));
}
