//! Tests of calls: which jobs wait, which jobs are sent, and which replies count.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{advance, sleep};

use super::stage::{MS, Stage, failed, granted, settled};
use crate::node::redis::batches::BATCH;
use crate::node::redis::tests::{ID, SECOND, claimed, claimed_at_once, grants, request};
use crate::node::redis::transport::Event;
use crate::node::redis::{Job, Link, QUEUE, Shared, supervisor};
use crate::node::{FaultKind, Node, NodeState, Reply, Sink, Verb};

/// There are more jobs than fit into the calls that may be in flight. Each call takes about half of
/// its time limit.
#[tokio::test(start_paused = true)]
async fn job_that_waited_longer_than_its_time_limit_is_not_sent() {
    let mut stage = Stage::up().await;
    let mut calls: Vec<_> = stage.calls(16).await.into_iter().map(|(sent, _)| sent).collect();
    let mut waiting: Vec<_> = (0..17 * BATCH).map(|_| claimed(&stage.node)).collect();
    for waited in [SECOND / 2, SECOND / 2 + MS] {
        stage.is_quiet().await;
        advance(waited).await;
        let under_way = std::mem::take(&mut calls);
        let batch = if waited == SECOND / 2 { 1 } else { BATCH };
        under_way.into_iter().for_each(|sent| sent.reply(grants(batch)));
        if batch == 1 {
            for _ in 0..16 {
                calls.push(stage.next("EVALSHA").await);
            }
        }
    }
    for (number, answers) in waiting.iter_mut().enumerate() {
        match number < 16 * BATCH {
            true => granted(answers).await,
            false => assert_eq!(failed(answers).await, FaultKind::Overloaded),
        }
    }
    stage.is_quiet().await;
}

/// A later call in flight must not delay the timeouts of earlier calls.
#[tokio::test(start_paused = true)]
async fn unanswered_call_times_out_and_delays_no_other() {
    let mut stage = Stage::up().await;
    for _ in 0..3 {
        settled().await;
        let began = stage.node.shared.host.now();
        let mut late = stage.calls(2).await;
        advance(SECOND / 2).await;
        let (sent, mut answers) = stage.calls(1).await.pop().unwrap();
        for (_, answers) in &mut late {
            assert_eq!(failed(answers).await, FaultKind::Timeout);
        }
        let took = stage.node.shared.host.now().since(began);
        assert!(took >= SECOND && took < SECOND + 5 * MS, "{took:?}");
        sent.reply(grants(1));
        granted(&mut answers).await;
        // Replies that come too late are not assigned to later calls.
        late.into_iter().for_each(|(sent, _)| sent.reply(grants(1)));
        let (sent, mut answers) = stage.calls(1).await.pop().unwrap();
        sent.reply(grants(1));
        granted(&mut answers).await;
    }
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
async fn claims_submitted_at_once_go_into_the_fewest_calls() {
    let mut stage = Stage::up().await;
    // The queue would have no room for these claims if each claim took a place of its own.
    let mut answers = claimed_at_once(&stage.node, 10_000);
    for call in 0..79 {
        let claims = if call < 78 { BATCH } else { 10_000 - 78 * BATCH };
        stage.next("EVALSHA").await.reply(grants(claims));
        for _ in 0..claims {
            granted(&mut answers).await;
        }
    }
    stage.is_quiet().await;
    assert!(answers.recv().await.is_none(), "each was answered once");
}

#[tokio::test(start_paused = true)]
async fn claims_submitted_at_once_take_one_place_and_fail_together() {
    let mut stage = Stage::up().await;
    let mut calls = stage.calls(16).await;
    let waiting: Vec<_> = (0..QUEUE - 1).map(|_| claimed(&stage.node)).collect();
    let (mut last, mut refused) = (claimed_at_once(&stage.node, 3), claimed_at_once(&stage.node, 2));
    assert_eq!([failed(&mut refused).await, failed(&mut refused).await], [FaultKind::Overloaded; 2]);
    stage.events.send(Event::Ended("gone".to_owned())).unwrap();
    for _ in 0..3 {
        assert_eq!(failed(&mut last).await, FaultKind::Down);
    }
    let mut down = claimed_at_once(&stage.node, 2);
    assert_eq!([failed(&mut down).await, failed(&mut down).await], [FaultKind::Down; 2]);
    drop((waiting, calls.pop()));
}

#[tokio::test(start_paused = true)]
async fn job_waiting_when_the_node_is_closed_is_sent_and_answered() {
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
async fn closed_node_waits_for_replies_until_their_timeout() {
    let mut stage = Stage::up().await;
    let mut calls = stage.calls(1).await;
    stage.node.close();
    settled().await;
    advance(SECOND - MS).await;
    settled().await;
    assert_eq!(stage.node.status().state, NodeState::Up);
    advance(MS).await;
    stage.comes_down("was closed").await;
    assert_eq!(failed(&mut calls[0].1).await, FaultKind::Timeout);
}

#[tokio::test(start_paused = true)]
async fn server_without_the_script_gets_it_whole() {
    let mut stage = Stage::up().await;
    let (sent, mut answers) = stage.calls(1).await.pop().unwrap();
    sent.fail(FaultKind::Rejected, "NOSCRIPT No matching script");
    stage.next("EVAL").await.reply(grants(1));
    granted(&mut answers).await;
    stage.is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn grant_with_another_record_counts_for_nothing() {
    for id in ["another", "-"] {
        let mut stage = Stage::guarded(60 * SECOND);
        stage.admit().await;
        let (sent, mut answers) = stage.calls(1).await.pop().unwrap();
        sent.reply(format!("1 0 1 {id}"));
        let fault = answers.recv().await.unwrap().unwrap_err();
        assert!(fault.kind() == FaultKind::Doubted && !fault.nothing_ran(), "{fault}");
        assert_eq!(stage.client.doubted.load(Relaxed), 1);
        assert!(matches!(stage.node.status().state, NodeState::Quarantined { .. }));
    }
}

#[tokio::test(start_paused = true)]
async fn call_sent_again_has_no_extra_time() {
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

/// A push that hands a name over.
fn push(id: &str) -> String {
    format!("7 host/1/uuid/7 9 1000001 3040 {id} p:{{a}}")
}

impl Stage {
    fn says(&self, text: &str) {
        self.events.send(Event::Message(text.to_owned())).unwrap();
    }

    fn counted(&self) -> u32 {
        self.client.counted.load(Relaxed)
    }
}

#[tokio::test(start_paused = true)]
async fn a_push_counts_however_many_messages_came_before_it() {
    let mut stage = Stage::up().await;
    // With this extra message, the 64th message in a row (`IN_A_ROW`) comes together with a reply.
    stage.says("7 0");
    for number in 1..=200 {
        let (sent, mut answers) = stage.calls(1).await.pop().unwrap();
        sent.reply(grants(1));
        stage.says("7 0");
        granted(&mut answers).await;
        stage.says(&push(ID));
        settled().await;
        assert_eq!(stage.counted(), number);
    }
}

#[tokio::test(start_paused = true)]
async fn a_push_with_another_id_does_not_count() {
    let stage = Stage::up().await;
    for (id, counted) in [("another", 0), (ID, 1)] {
        stage.says(&push(id));
        settled().await;
        assert_eq!(stage.counted(), counted, "{id}");
    }
    assert_eq!(stage.client.hints.load(Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn push_that_a_reply_may_have_overtaken_does_not_count() {
    let mut stage = Stage::up().await;
    let (sent, mut answers) = stage.calls(1).await.pop().unwrap();
    (0..300).for_each(|_| stage.says(&push(ID)));
    sent.reply(grants(1));
    granted(&mut answers).await;
    let before = stage.counted();
    assert!(before <= 128, "too many messages were read before the reply: {before}");
    settled().await;
    assert_eq!(
        (stage.counted(), stage.client.hints.load(Relaxed)),
        (before, 300),
        "pushes that were handled after the reply do not count"
    );
    let (sent, mut answers) = stage.calls(1).await.pop().unwrap();
    sent.reply(grants(1));
    granted(&mut answers).await;
    stage.says(&push(ID));
    settled().await;
    assert_eq!(stage.counted(), before + 1);
}

/// The reply may have come while the process stood still. So the call must not time out before the
/// reply is read.
#[tokio::test(start_paused = true)]
async fn reply_to_a_call_from_before_a_stall_is_read_after_it() {
    for late in [20 * MS, 60 * SECOND] {
        let mut stage = Stage::up().await;
        let (sent, mut answers) = stage.calls(1).await.pop().unwrap();
        settled().await;
        advance(SECOND + late).await;
        sleep(10 * MS).await;
        sent.reply(grants(1));
        granted(&mut answers).await;
    }
}

#[tokio::test(start_paused = true)]
async fn call_without_a_reply_after_a_stall_times_out_soon() {
    let mut stage = Stage::up().await;
    let (_sent, mut answers) = stage.calls(1).await.pop().unwrap();
    settled().await;
    advance(60 * SECOND).await;
    let began = stage.node.shared.host.now();
    assert_eq!(failed(&mut answers).await, FaultKind::Timeout);
    assert!(stage.node.shared.host.now().since(began) < SECOND, "the call is given up soon");
}

/// The order matters because a hand-over counts only if it was pushed after the reply to the
/// waiter's ask.
#[tokio::test(start_paused = true)]
async fn reply_does_not_overtake_an_earlier_push() {
    let mut stage = Stage::up().await;
    let (sent, mut answers) = stage.calls(1).await.pop().unwrap();
    stage.says("7 0");
    sent.reply(grants(1));
    granted(&mut answers).await;
    assert_eq!(stage.client.hints.load(Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn call_in_flight_is_unknown_when_its_connection_ends() {
    let mut stage = Stage::up().await;
    let (_sent, mut answers) = stage.calls(1).await.pop().unwrap();
    stage.events.send(Event::Ended("gone".to_owned())).unwrap();
    assert_eq!(failed(&mut answers).await, FaultKind::Closed);
}

/// A call that may have reached the server is not sent again.
#[tokio::test(start_paused = true)]
async fn call_is_unknown_if_the_connection_panics_while_sending() {
    let mut stage = Stage::up().await;
    settled().await;
    // The transport panics when it sends: its receiver is gone.
    let (_, nobody) = tokio::sync::mpsc::unbounded_channel();
    drop(std::mem::replace(&mut stage.sent, nobody));
    let mut answers = claimed(&stage.node);
    assert_eq!(failed(&mut answers).await, FaultKind::Closed);
    stage.comes_down("panicked").await;
}

/// A caller may be delayed between reserving a place in the queue and filling it.
#[tokio::test(start_paused = true)]
async fn late_job_is_answered_outside_of_the_lock() {
    let stage = Stage::up().await;
    let (told, mut answers) = tokio::sync::mpsc::unbounded_channel();
    let (jobs, queue) = tokio::sync::mpsc::channel(1);
    let place = jobs.try_reserve_owned().unwrap();
    drop(queue);
    let again = Arc::new(Again(stage.node.shared.clone(), told));
    let request = request(Verb::Claim, again);
    let jobs = place.send(Job { request, submitted: stage.node.shared.host.now(), others: Vec::new() });
    stage.node.shared.state().link = Link::Up(jobs);
    supervisor::lower(&stage.node.shared, NodeState::Replica, true);
    assert_eq!(answers.recv().await, Some(FaultKind::Closed));
}

#[tokio::test(start_paused = true)]
async fn job_with_a_place_from_before_the_close_is_sent() {
    let mut stage = Stage::up().await;
    let jobs = match &stage.node.shared.state().link {
        Link::Up(jobs) => jobs.clone(),
        Link::Out(state) => panic!("it is {state}"),
    };
    let place = jobs.clone().try_reserve_owned().unwrap();
    let (told, _answers) = tokio::sync::mpsc::unbounded_channel();
    let request = request(Verb::Release, Arc::new(Again(stage.node.shared.clone(), told)));
    let job = Job { request, submitted: stage.node.shared.host.now(), others: Vec::new() };
    let late = std::thread::spawn(move || {
        while !jobs.is_closed() {
            std::thread::yield_now();
        }
        drop(place.send(job));
    });
    stage.node.close();
    let _unanswered = stage.next("EVALSHA").await;
    late.join().unwrap();
}

/// Checks at each reply that the node's lock is free: a caller that gets a reply may submit again.
struct Again(Arc<Shared>, UnboundedSender<FaultKind>);

impl Sink for Again {
    fn deliver(self: Arc<Self>, _: usize, reply: Reply) {
        let _ = self.1.send(reply.unwrap_err().kind());
        assert!(self.0.state.try_lock().is_ok(), "a reply under the node's lock would deadlock");
    }
}
