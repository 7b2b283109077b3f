//! One node over a transport of which the test answers every command by hand, on a virtual clock.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::time::advance;

use super::tests::{SECOND, asked, claimed, grants, is_down, over, until};
use super::transport::{Answer, Arguments, Connection, Dialer, Dialing, Event, Value};
use super::{QUEUE, RedisNode};
use crate::node::{Fault, FaultKind, Hint, Listener, Node, NodeState, Outcome, Reply, Verb};

const MS: Duration = Duration::from_millis(1);

/// A command that was sent and not answered yet.
struct Sent {
    command: &'static str,
    answer: oneshot::Sender<Result<Value, Fault>>,
}

impl Sent {
    fn reply(self, value: impl Into<Value>) {
        let _ = self.answer.send(Ok(value.into()));
    }

    fn fail(self, kind: FaultKind, message: &str) {
        let _ = self.answer.send(Err(Fault::new(kind, message)));
    }
}

/// Hands commands to the test. `DIAL` is one of them.
#[derive(Clone, Debug)]
struct Hand {
    sent: UnboundedSender<Sent>,
    events: Arc<Mutex<UnboundedReceiver<Event>>>,
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
        let connection: Box<dyn Connection> = Box::new(self.clone());
        async move { dialed.await.map(|_| connection) }.boxed()
    }
}

impl Connection for Hand {
    fn send(&self, command: &'static str, _: &dyn Arguments) -> Answer<Value> {
        self.ask(command)
    }

    fn subscribe(&self, _: &str) -> Answer<()> {
        let subscribed = self.ask("SUBSCRIBE");
        async move { subscribed.await.map(drop) }.boxed()
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        self.events.lock().unwrap().poll_recv(context).map(Option::unwrap)
    }
}

/// Counts what it is told.
#[derive(Debug, Default)]
struct Client {
    hints: AtomicU32,
    missed: AtomicU32,
    doubted: AtomicU32,
}

impl Listener for Client {
    fn client(&self) -> &'static str {
        "host/1/uuid"
    }

    fn hint(&self, _: usize, _: &Hint) {
        self.hints.fetch_add(1, Relaxed);
    }

    fn missed(&self, _: usize) {
        self.missed.fetch_add(1, Relaxed);
    }

    fn doubted(&self, _: usize) {
        self.doubted.fetch_add(1, Relaxed);
    }
}

struct Stage {
    node: RedisNode,
    client: Arc<Client>,
    sent: UnboundedReceiver<Sent>,
    events: UnboundedSender<Event>,
}

/// What the server says of itself when it has been up for so long.
fn info(run: &str, uptime: u32) -> String {
    format!("run_id:{run}\r\nuptime_in_seconds:{uptime}\r\nrole:master\r\n")
}

impl Stage {
    fn new() -> Self {
        Self::guarded(Duration::ZERO)
    }

    /// With the restart guard.
    fn guarded(max_ttl: Duration) -> Self {
        let (sender, sent) = mpsc::unbounded_channel();
        let (events, happens) = mpsc::unbounded_channel();
        let client = Arc::<Client>::default();
        let hand = Hand { sent: sender, events: Arc::new(Mutex::new(happens)) };
        Self { node: over(Arc::new(hand), client.clone(), max_ttl), client, sent, events }
    }

    /// A node that has been admitted, and confirmed.
    async fn up() -> Self {
        let mut stage = Self::new();
        stage.admit().await;
        stage.confirm("run").await;
        stage
    }

    /// The next command, which is this one.
    async fn next(&mut self, command: &str) -> Sent {
        let sent = self.sent.recv().await.unwrap();
        assert_eq!(sent.command, command);
        sent
    }

    /// Answers what is asked before a connection may be used.
    async fn admit(&mut self) {
        self.greet().await;
        self.next("SUBSCRIBE").await.reply("");
        self.is_up().await;
    }

    /// Answers all of that but the subscription.
    async fn greet(&mut self) {
        self.next("DIAL").await.reply("");
        self.next("CLIENT").await.reply("OK");
        self.next("SCRIPT").await.reply("digest");
        self.next("INFO").await.reply(info("run", 1_000));
        self.next("EVALSHA").await.reply(known("run"));
    }

    async fn is_up(&self) {
        until(&self.node, |state| *state == NodeState::Up).await;
    }

    /// Answers who has the script.
    async fn confirm(&mut self, run: &str) {
        self.next("SCRIPT").await.reply("digest");
        self.next("INFO").await.reply(info(run, 1_000));
    }

    /// Claims, each in a call of its own.
    async fn calls(&mut self, count: usize) -> Vec<(Sent, UnboundedReceiver<Reply>)> {
        let mut calls = Vec::new();
        for _ in 0..count {
            let answers = claimed(&self.node);
            calls.push((self.next("EVALSHA").await, answers));
        }
        calls
    }

    async fn is_quiet(&mut self) {
        settled().await;
        assert!(self.sent.try_recv().is_err(), "nothing more is sent");
    }

    async fn comes_down(&mut self, reason: &str) {
        until(&self.node, |state| is_down(state, reason)).await;
    }
}

/// The record of a server that forgot nothing in this run.
fn known(run: &'static str) -> Value {
    replied(1_000_000, &["record", "0", "0", run])
}

/// The reply to one operation at the server's time.
fn replied(time: i64, words: &[&'static str]) -> Value {
    let words = words.iter().map(|&word| word.into()).collect();
    Value::Array(vec![Value::Integer(time), "".into(), Value::Array(words)])
}

/// Lets all others run until they wait, without time passing.
async fn settled() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

async fn granted(answers: &mut UnboundedReceiver<Reply>) {
    assert_eq!(answers.recv().await.unwrap().unwrap(), Outcome::Granted { fence: 1 });
}

async fn failed(answers: &mut UnboundedReceiver<Reply>) -> FaultKind {
    answers.recv().await.unwrap().unwrap_err().kind()
}

#[tokio::test(start_paused = true)]
async fn what_waited_longer_than_a_command_may_take_is_not_sent() {
    let mut stage = Stage::up().await;
    let mut calls = stage.calls(16).await;
    let (mut timely, mut late) = (claimed(&stage.node), None);
    for waited in [SECOND, SECOND + MS] {
        stage.is_quiet().await;
        advance(waited).await;
        calls.pop().unwrap().0.reply(grants(1));
        if waited == SECOND {
            stage.next("EVALSHA").await.reply(grants(1));
            granted(&mut timely).await;
            calls.extend(stage.calls(1).await);
            late = Some(claimed(&stage.node));
        }
    }
    assert_eq!(failed(late.as_mut().unwrap()).await, FaultKind::Overloaded);
    stage.is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn more_than_may_wait_is_refused() {
    let mut stage = Stage::up().await;
    let _calls = stage.calls(16).await;
    let waiting: Vec<_> = (0..QUEUE).map(|_| claimed(&stage.node)).collect();
    assert_eq!(failed(&mut claimed(&stage.node)).await, FaultKind::Overloaded);
    drop(waiting);
}

#[tokio::test(start_paused = true)]
async fn what_waits_when_the_node_is_closed_is_sent_and_answered() {
    let mut stage = Stage::up().await;
    let calls = stage.calls(16).await;
    let mut waiting = claimed(&stage.node);
    stage.node.close();
    stage.next("EVALSHA").await.reply(grants(1));
    granted(&mut waiting).await;
    assert_eq!(failed(&mut claimed(&stage.node)).await, FaultKind::Down);
    for (sent, mut answers) in calls {
        sent.reply(grants(1));
        granted(&mut answers).await;
    }
    stage.comes_down("was closed").await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_closed_waits_for_answers_as_long_as_one_may_take() {
    let mut stage = Stage::up().await;
    let mut calls = stage.calls(1).await;
    stage.node.close();
    settled().await;
    advance(SECOND - MS).await;
    settled().await;
    assert_eq!(stage.node.status().state, NodeState::Up);
    advance(MS).await;
    stage.comes_down("was closed").await;
    assert_eq!(failed(&mut calls[0].1).await, FaultKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn no_reply_counts_before_it_is_confirmed_who_gave_it_when_the_node_is_closed_either() {
    for (run, counts) in [("run", true), ("another", false)] {
        let mut stage = Stage::new();
        stage.admit().await;
        let (script, info_asked) = (stage.next("SCRIPT").await, stage.next("INFO").await);
        let (sent, mut answers) = stage.calls(1).await.pop().unwrap();
        stage.node.close();
        sent.reply(grants(1));
        settled().await;
        assert!(answers.try_recv().is_err(), "it is not known whose it is");
        script.reply("digest");
        info_asked.reply(info(run, 1_000));
        let reply = answers.recv().await.unwrap();
        assert_eq!(reply.is_ok(), counts, "{reply:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn three_timeouts_in_a_row_end_a_connection_and_what_comes_between_counts_anew() {
    let mut stage = Stage::up().await;
    let between: [fn(Sent); 2] = [|sent| sent.reply(grants(1)), |sent| sent.fail(FaultKind::Rejected, "ERR no")];
    for answer in between {
        for _ in 0..2 {
            let (sent, mut answers) = stage.calls(1).await.pop().unwrap();
            sent.fail(FaultKind::Timeout, "no answer in time");
            assert_eq!(failed(&mut answers).await, FaultKind::Timeout);
        }
        let (sent, mut answers) = stage.calls(1).await.pop().unwrap();
        answer(sent);
        let _counted = answers.recv().await.unwrap();
        assert_eq!(stage.node.status().state, NodeState::Up);
    }
    for (sent, _) in stage.calls(3).await {
        sent.fail(FaultKind::Timeout, "no answer in time");
    }
    stage.comes_down("3 answers in a row did not come in time").await;
}

#[tokio::test(start_paused = true)]
async fn a_server_is_asked_every_five_seconds_whether_it_is_still_the_same() {
    let mut stage = Stage::up().await;
    for uptime in [1_005, 1_010] {
        settled().await;
        let began = stage.node.shared.host.now();
        let probe = stage.next("INFO").await;
        let waited = stage.node.shared.host.now().since(began);
        assert!(waited > 5 * SECOND - 10 * MS && waited < 5 * SECOND + 10 * MS, "{waited:?}");
        advance(20 * MS).await;
        probe.reply(info("run", uptime));
        settled().await;
        let status = stage.node.status();
        assert_eq!((status.state, status.uptime), (NodeState::Up, Some(SECOND * uptime)));
        assert_eq!(status.round_trip, Some(20 * MS));
        advance(5 * SECOND - 20 * MS).await;
        stage.next("INFO").await.reply("not what it was asked");
        settled().await;
        assert_eq!(stage.node.status().state, NodeState::Up, "once is not enough");
    }
    stage.next("INFO").await.reply(info("another", 1_020));
    stage.comes_down("another server answers at this address").await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_asked_three_times_and_silent_is_left() {
    let mut stage = Stage::up().await;
    for _ in 0..3 {
        assert_eq!(stage.node.status().state, NodeState::Up);
        stage.next("INFO").await.fail(FaultKind::Timeout, "no answer in time");
    }
    stage.comes_down("3 answers in a row did not come in time").await;
}

#[tokio::test(start_paused = true)]
async fn a_server_without_the_script_gets_it_whole_and_counts_once_it_is_known() {
    for (run, counts) in [("run", true), ("another", false)] {
        let mut stage = Stage::up().await;
        let (sent, mut answers) = stage.calls(1).await.pop().unwrap();
        sent.fail(FaultKind::Rejected, "NOSCRIPT No matching script");
        stage.next("EVAL").await.reply(grants(1));
        let asked = stage.next("INFO").await;
        settled().await;
        assert!(answers.try_recv().is_err(), "it is not known who ran it");
        asked.reply(info(run, 1_000));
        let reply = answers.recv().await.unwrap();
        assert_eq!(reply.as_ref().err().map(Fault::kind), (!counts).then_some(FaultKind::Closed));
        if counts {
            stage.next("SCRIPT").await.reply("digest");
            stage.is_quiet().await;
        } else {
            stage.comes_down("another server answers at this address").await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_sent_again_has_no_more_time_than_one_that_is_not() {
    let mut stage = Stage::up().await;
    let (sent, mut answers) = stage.calls(1).await.pop().unwrap();
    let until = stage.node.shared.host.now() + SECOND;
    advance(SECOND / 2).await;
    sent.fail(FaultKind::Rejected, "NOSCRIPT No matching script");
    let _unanswered = stage.next("EVAL").await;
    assert_eq!(failed(&mut answers).await, FaultKind::Timeout);
    let late = stage.node.shared.host.now().since(until);
    assert!(late < 5 * MS, "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn hints_are_handed_on_and_what_was_missed_is_told_once_a_second_at_most() {
    let mut stage = Stage::up().await;
    let missed = |stage: &Stage| stage.client.missed.load(Relaxed);
    settled().await;
    assert_eq!(missed(&stage), 1, "what was published before");
    for text in ["7 0", "no hint", "8 500"] {
        stage.events.send(Event::Message(text.to_owned())).unwrap();
    }
    for _ in 0..5 {
        stage.events.send(Event::Missed).unwrap();
    }
    settled().await;
    assert_eq!((stage.client.hints.load(Relaxed), missed(&stage)), (2, 1));
    advance(SECOND - 10 * MS).await;
    settled().await;
    assert_eq!(missed(&stage), 1);
    advance(20 * MS).await;
    settled().await;
    assert_eq!(missed(&stage), 2, "five times are told once");
    for _ in 0..200 {
        stage.events.send(Event::Message("9 0".to_owned())).unwrap();
    }
    settled().await;
    assert_eq!(stage.client.hints.load(Relaxed), 202, "others have their turn, and then there are more");
    stage.events.send(Event::Ended("over".to_owned())).unwrap();
    stage.comes_down("over").await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_was_steady_is_made_again_at_once_and_one_that_was_not_after_a_pause() {
    let mut stage = Stage::new();
    for (lasts, least, most) in [(SECOND, 25 * MS, 60 * MS), (6 * SECOND, Duration::ZERO, 5 * MS)] {
        stage.admit().await;
        stage.confirm("run").await;
        settled().await;
        advance(lasts).await;
        let ended = stage.node.shared.host.now();
        stage.events.send(Event::Ended("over".to_owned())).unwrap();
        let dial = loop {
            match stage.sent.recv().await.unwrap() {
                sent if sent.command == "DIAL" => break sent,
                probe => assert_eq!(probe.command, "INFO"),
            }
        };
        let paused = stage.node.shared.host.now().since(ended);
        assert!(paused >= least && paused <= most, "{paused:?} after {lasts:?}");
        dial.fail(FaultKind::Down, "refused");
        settled().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_to_write_has_become_a_replica() {
    let mut stage = Stage::up().await;
    let (sent, mut answers) = stage.calls(1).await.pop().unwrap();
    sent.reply(replied(1_000_000, &["error", "READONLY You can't write against a read only replica."]));
    assert_eq!(failed(&mut answers).await, FaultKind::Rejected);
    stage.comes_down("it has become a replica").await;
}

#[tokio::test(start_paused = true)]
async fn a_stepped_clock_is_told_and_counted_and_keeps_claims_from_being_sent() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let told = recorder.handle();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let mut stage = Stage::guarded(60 * SECOND);
    stage.admit().await;
    stage.confirm("run").await;
    let quarantined = |value| told.render().contains(&format!("node_quarantined{{node=\"redis://hand\"}} {value}\n"));
    for (time, doubted) in [(1_000_000, 0), (100_000_000, 1)] {
        assert!(quarantined(0));
        let (sent, mut answers) = stage.calls(1).await.pop().unwrap();
        sent.reply(replied(time, &["granted", "1"]));
        let reply = answers.recv().await.unwrap();
        assert_eq!(reply.err().map(|fault| fault.kind()), (doubted > 0).then_some(FaultKind::Doubted));
        assert_eq!(stage.client.doubted.load(Relaxed), doubted);
    }
    assert!(quarantined(1), "{}", told.render());
    assert!(matches!(stage.node.status().state, NodeState::Quarantined { .. }));
    assert_eq!(failed(&mut claimed(&stage.node)).await, FaultKind::Quarantined);
    // The node is asked for its record, by which it looks at its clock; and again if it refuses.
    stage.next("EVALSHA").await.reply(replied(100_000_000, &["error", "OOM command not allowed"]));
    stage.next("INFO").await.reply(info("run", 1_005));
    stage.next("EVALSHA").await.reply(replied(105_000_000, &["record", "1", "0", "run"]));
    let mut answers = asked(&stage.node, Verb::Release);
    stage.next("EVALSHA").await.reply(replied(105_000_000, &["released", "1"]));
    assert_eq!(answers.recv().await.unwrap().unwrap(), Outcome::Released { held: 1 });
    stage.next("INFO").await.reply(info("run", 1_010));
    stage.is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_refuses_the_subscription_is_used_without_and_one_that_is_silent_is_not() {
    let mut stage = Stage::new();
    stage.greet().await;
    stage.next("SUBSCRIBE").await.fail(FaultKind::Timeout, "no answer in time");
    stage.comes_down("no answer to SUBSCRIBE within node_timeout").await;
    assert!(!stage.node.hints());
    stage.greet().await;
    stage.next("SUBSCRIBE").await.fail(FaultKind::Rejected, "NOPERM no channel");
    stage.greet().await;
    stage.is_up().await;
    assert!(!stage.node.hints());
    assert_eq!(stage.node.status().no_wake_ups.as_deref(), Some("NOPERM no channel"));
    stage.confirm("run").await;
    stage.events.send(Event::Ended("over".to_owned())).unwrap();
    stage.comes_down("over").await;
    stage.admit().await;
    assert!(stage.node.hints());
    assert_eq!(stage.node.status().no_wake_ups, None, "that was another connection");
    stage.confirm("run").await;
    stage.events.send(Event::Ended("over".to_owned())).unwrap();
    stage.comes_down("over").await;
    assert!(!stage.node.hints(), "it has no connection");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_silent_while_it_is_greeted_is_told_with_the_question() {
    for (silent, told) in [
        ("SCRIPT", "no answer to SCRIPT LOAD within"),
        ("INFO", "no answer to INFO within"),
        ("EVALSHA", "no answer to EVALSHA within"),
    ] {
        let mut stage = Stage::new();
        stage.next("DIAL").await.reply("");
        let info = || info("run", 1_000).into();
        for (command, answer) in
            [("CLIENT", "OK".into()), ("SCRIPT", "digest".into()), ("INFO", info()), ("EVALSHA", known("run"))]
        {
            let sent = stage.next(command).await;
            if command == silent { sent.fail(FaultKind::Timeout, "no answer in time") } else { sent.reply(answer) }
        }
        stage.next("SUBSCRIBE").await.reply("");
        stage.comes_down(told).await;
    }
}
