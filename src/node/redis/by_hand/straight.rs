//! Which calls go straight from their caller.

use std::sync::atomic::Ordering::Relaxed;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{advance, sleep};

use super::stage::{MS, Sent, Stage, failed, granted, settled};
use crate::node::redis::tests::{SECOND, claimed, claimed_at_once, grants};
use crate::node::redis::transport::Event;
use crate::node::{FaultKind, Node, Outcome, Reply};

/// What has been sent already, while no other task could run.
fn sent(stage: &mut Stage) -> Vec<Sent> {
    std::iter::from_fn(|| stage.sent.try_recv().ok()).collect()
}

/// A claim that its caller has sent, with where its answer goes.
async fn on_its_way() -> (Stage, UnboundedReceiver<Reply>, Sent) {
    let mut stage = Stage::up().await;
    settled().await;
    let answers = claimed(&stage.node);
    let lone = sent(&mut stage).pop().expect("it is on its way");
    (stage, answers, lone)
}

#[tokio::test(start_paused = true)]
async fn two_operations_are_sent_by_their_callers_and_those_behind_them_by_the_batcher_together() {
    let mut stage = Stage::up().await;
    settled().await;
    for _ in 0..3 {
        let mut first = [claimed(&stage.node), claimed(&stage.node)];
        let lone = sent(&mut stage);
        assert_eq!(lone.len(), 2, "they are on their way");
        let mut behind = [claimed(&stage.node), claimed(&stage.node)];
        assert!(sent(&mut stage).is_empty(), "the batcher puts them together");
        let both = stage.next("EVALSHA").await;
        stage.is_quiet().await;
        both.reply(grants(2));
        for answers in &mut behind {
            granted(answers).await;
        }
        lone.into_iter().for_each(|sent| sent.reply(grants(1)));
        for answers in &mut first {
            granted(answers).await;
        }
    }
}

/// Where it is woken: no other task runs in between.
#[tokio::test(start_paused = true)]
async fn a_lone_answer_goes_straight_to_whoever_waits_for_it_and_the_next_may_be_asked_at_once() {
    let mut stage = Stage::up().await;
    settled().await;
    for _ in 0..3 {
        let mut answers = claimed(&stage.node);
        sent(&mut stage).pop().expect("it is on its way").reply(grants(1));
        assert_eq!(answers.try_recv().unwrap().unwrap(), Outcome::Granted { fence: 1 });
    }
    stage.is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn of_two_lone_answers_each_goes_to_whoever_waits_for_it_whichever_comes_first() {
    let mut stage = Stage::up().await;
    settled().await;
    for first in [0, 1] {
        let mut answers = [claimed(&stage.node), claimed(&stage.node)];
        let mut both = sent(&mut stage);
        both.remove(first).reply(grants(1));
        assert_eq!(answers[first].try_recv().unwrap().unwrap(), Outcome::Granted { fence: 1 });
        assert!(answers[1 - first].try_recv().is_err());
        both.remove(0).reply(grants(1));
        assert_eq!(answers[1 - first].try_recv().unwrap().unwrap(), Outcome::Granted { fence: 1 });
    }
    stage.is_quiet().await;
}

/// Also where the timer of those before it fired meanwhile.
#[tokio::test(start_paused = true)]
async fn a_lone_operation_that_is_not_answered_is_given_up_in_its_time() {
    let mut stage = Stage::up().await;
    settled().await;
    let mut before = claimed(&stage.node);
    sent(&mut stage).pop().unwrap().reply(grants(1));
    granted(&mut before).await;
    advance(SECOND / 2).await;
    let mut answers = claimed(&stage.node);
    let lone = sent(&mut stage).pop().unwrap();
    advance(SECOND / 2 + MS).await;
    settled().await;
    lone.reply(grants(1));
    granted(&mut answers).await;
    let (began, mut never) = (stage.node.shared.host.now(), claimed(&stage.node));
    let _open = sent(&mut stage).pop().expect("it is on its way");
    assert_eq!(failed(&mut never).await, FaultKind::Timeout);
    let took = stage.node.shared.host.now().since(began);
    assert!(took >= SECOND && took < SECOND + 5 * MS, "{took:?}");
}

/// Its answer may have come meanwhile, and be read by a task that runs later.
#[tokio::test(start_paused = true)]
async fn what_was_asked_before_the_process_stood_still_is_heard_after_that() {
    for late in [20 * MS, 60 * SECOND] {
        let (_stage, mut answers, lone) = on_its_way().await;
        advance(SECOND + late).await;
        sleep(10 * MS).await;
        lone.reply(grants(1));
        granted(&mut answers).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_answered_after_the_process_stood_still_is_given_up() {
    let (stage, mut answers, _lone) = on_its_way().await;
    advance(60 * SECOND).await;
    let began = stage.node.shared.host.now();
    assert_eq!(failed(&mut answers).await, FaultKind::Timeout);
    assert!(stage.node.shared.host.now().since(began) < SECOND, "soon");
}

/// What is handed over counts only behind the reply that said it might be.
#[tokio::test(start_paused = true)]
async fn a_lone_answer_does_not_overtake_what_was_pushed_before_it() {
    let (stage, mut answers, lone) = on_its_way().await;
    stage.events.send(Event::Message("7 0".to_owned())).unwrap();
    lone.reply(grants(1));
    assert!(answers.try_recv().is_err(), "the batcher hands out what came before");
    assert_eq!(stage.client.hints.load(Relaxed), 0);
    granted(&mut answers).await;
    assert_eq!(stage.client.hints.load(Relaxed), 1);
}

/// What follows from an error takes more than to tell it.
#[tokio::test(start_paused = true)]
async fn a_lone_answer_that_the_script_is_unknown_is_the_batchers() {
    let mut stage = Stage::up().await;
    settled().await;
    let mut answers = claimed(&stage.node);
    sent(&mut stage).pop().unwrap().fail(FaultKind::Rejected, "NOSCRIPT No matching script");
    assert!(answers.try_recv().is_err());
    stage.next("EVAL").await.reply(grants(1));
    granted(&mut answers).await;
}

#[tokio::test(start_paused = true)]
async fn a_closing_node_waits_for_a_lone_answer_that_comes_in_time() {
    let mut stage = Stage::up().await;
    settled().await;
    let mut answers = claimed(&stage.node);
    let lone = sent(&mut stage).pop().unwrap();
    stage.node.close();
    settled().await;
    lone.reply(grants(1));
    granted(&mut answers).await;
    stage.comes_down("the quorum was closed").await;
}

#[tokio::test(start_paused = true)]
async fn what_is_submitted_together_is_sent_by_the_batcher() {
    let mut stage = Stage::up().await;
    settled().await;
    let mut answers = claimed_at_once(&stage.node, 2);
    assert!(sent(&mut stage).is_empty());
    stage.next("EVALSHA").await.reply(grants(2));
    granted(&mut answers).await;
}

/// fred's timers are those of the caller's runtime, which may end before the answer comes.
#[tokio::test(start_paused = true)]
async fn whoever_is_elsewhere_queues() {
    let mut stage = Stage::up().await;
    settled().await;
    let node = &stage.node;
    let mut answers = std::thread::scope(|scope| scope.spawn(|| claimed(node)).join().unwrap());
    assert!(sent(&mut stage).is_empty());
    stage.next("EVALSHA").await.reply(grants(1));
    granted(&mut answers).await;
}

#[tokio::test(start_paused = true)]
async fn who_sent_straight_is_told_that_the_connection_ended() {
    let mut stage = Stage::up().await;
    settled().await;
    let mut answers = claimed(&stage.node);
    let _sent = sent(&mut stage);
    // Before the batcher could take it over.
    stage.events.send(Event::Ended("gone".to_owned())).unwrap();
    assert_eq!(super::stage::failed(&mut answers).await, FaultKind::Closed);
}

/// It may have been sent, so it is not sent again.
#[tokio::test(start_paused = true)]
async fn whoever_sent_while_the_connection_panicked_is_told_so_and_the_connection_ends() {
    let mut stage = Stage::up().await;
    settled().await;
    // Nobody takes what is sent.
    let (_, nobody) = tokio::sync::mpsc::unbounded_channel();
    drop(std::mem::replace(&mut stage.sent, nobody));
    let mut answers = claimed(&stage.node);
    assert_eq!(super::stage::failed(&mut answers).await, FaultKind::Closed);
    stage.comes_down("panicked").await;
}
