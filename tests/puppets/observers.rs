//! Observers of an election: when they ask the nodes, and that they report only leaders that a
//! quorum names.

use std::time::Duration;

use futures::StreamExt;
use quorumlock::Leadership;
use quorumlock::node::memory::Store;
use quorumlock::node::{Kind, Name, Note, Verb};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::answers::{Answer, SILENCE};
use crate::asked::Asked;
use crate::stage::{MS, SECOND, Stage};

/// Reports what an observer of `it` sees.
fn observe(stage: &Stage) -> (JoinHandle<()>, mpsc::UnboundedReceiver<Leadership>) {
    let (sees, seen) = mpsc::unbounded_channel();
    let mut leaders = stage.quorum.election("it").observe().unwrap().boxed();
    let task = tokio::spawn(async move {
        while let Some(leader) = leaders.next().await {
            sees.send(leader).unwrap();
        }
    });
    (task, seen)
}

/// A node's answer if a leader holds the name with this token for this ttl, and has proclaimed this
/// many values.
fn led_for(ttl: Duration, token: u64, values: u32) -> Answer {
    let (mut store, now) = (Store::made("record"), SECOND);
    let names = [Name::new("quorumlock:", "it").unwrap()].into();
    let (owner, kind) = (format!("c/1/x/{token}").into(), Kind::Noted);
    let leader = Asked { owner, kind, ttl, ballot: token, count: 1, ..Asked::inspect(names) };
    store.apply(&leader.with_verb(Verb::Claim).into(), now);
    let note = Note { number: values, age: Duration::ZERO, says: format!("value {values}").into() };
    store.apply(&Asked { note: Some(note), ..leader.with_verb(Verb::Renew) }.into(), now);
    Some(Ok(store.apply(&leader.with_verb(Verb::Inspect).into(), now)))
}

fn led(token: u64, values: u32) -> Answer {
    led_for(60 * SECOND, token, values)
}

#[tokio::test(start_paused = true)]
async fn news_during_a_look_causes_one_more_and_earlier_news_none() {
    let stage = Stage::new(3);
    let (_task, mut seen) = observe(&stage);
    stage.round(Verb::Inspect, |_, _| SILENCE).await;
    (0..3).for_each(|node| stage.news(node, "it"));
    stage.news(0, "it");
    stage.quiet_for(100 * MS).await;
    stage.answer_all(|_| led(5, 0));
    assert_eq!(seen.recv().await.unwrap().value, "value 0");
    stage.round(Verb::Inspect, |_, _| led(5, 1)).await;
    assert_eq!(seen.recv().await.unwrap().value, "value 1");
    stage.quiet_for(2 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn news_of_all_nodes_causes_one_look_and_of_other_names_none() {
    let stage = Stage::new(3);
    let (_task, mut seen) = observe(&stage);
    stage.round(Verb::Inspect, |_, _| led(5, 0)).await;
    seen.recv().await.unwrap();
    stage.news(0, "other");
    stage.quiet_for(SECOND).await;
    for node in [0, 1, 2, 1] {
        stage.news(node, "it");
    }
    stage.round(Verb::Inspect, |_, _| led(5, 1)).await;
    assert_eq!(seen.recv().await.unwrap().value, "value 1");
    stage.quiet_for(2 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn news_is_believed_no_more_than_a_quorum_says() {
    let stage = Stage::new(3);
    let (_task, mut seen) = observe(&stage);
    stage.round(Verb::Inspect, |_, _| led(5, 0)).await;
    assert_eq!(seen.recv().await.unwrap().token, 5);
    stage.news(2, "it");
    stage.round(Verb::Inspect, |node, _| if node == 2 { led(9, 0) } else { led(5, 0) }).await;
    stage.quiet_for(MS).await;
    assert!(seen.try_recv().is_err(), "one node of three says so");
    stage.news(1, "it");
    stage.round(Verb::Inspect, |node, _| if node == 0 { led(5, 0) } else { led(9, 0) }).await;
    assert_eq!(seen.recv().await.unwrap().token, 9);
    // These answers are late: they name the previous leader.
    stage.news(0, "it");
    stage.round(Verb::Inspect, |_, _| led(5, 7)).await;
    stage.quiet_for(MS).await;
    assert!(seen.try_recv().is_err(), "nobody leads after a later one");
}

#[tokio::test(start_paused = true)]
async fn observer_without_news_looks_at_least_every_five_seconds() {
    for hints in [true, false] {
        let stage = Stage::with(3, hints, |builder| builder);
        let (_task, _seen) = observe(&stage);
        for longest in [false, true, true] {
            stage.round(Verb::Inspect, |_, _| led(5, 0)).await;
            let pause = stage.asked_after().await;
            assert!((2_500..=5_001).contains(&pause.as_millis()), "{pause:?} where nodes give hints: {hints}");
            if longest {
                stage.pause_long();
            }
        }
    }
}

/// Nodes publish nothing when a hold expires.
#[tokio::test(start_paused = true)]
async fn an_observer_looks_when_a_hold_ends() {
    let stage = Stage::new(3);
    stage.pause_long();
    let (_task, _seen) = observe(&stage);
    let answer = |node| led_for(if node == 0 { SECOND } else { 2 * SECOND }, 5, 0);
    for _ in 0..2 {
        stage.round(Verb::Inspect, |node, _| answer(node)).await;
        let pause = stage.asked_after().await;
        assert!((2_000..=2_001).contains(&pause.as_millis()), "{pause:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn much_news_costs_few_looks_and_the_first_is_looked_at_at_once() {
    let stage = Stage::new(3);
    let (_task, mut seen) = observe(&stage);
    stage.round(Verb::Inspect, |_, _| led(5, 0)).await;
    seen.recv().await.unwrap();
    stage.quiet_for(SECOND).await;
    stage.news(0, "it");
    assert!(stage.asked_after().await < 2 * MS, "it has looked at nothing for a while");
    stage.round(Verb::Inspect, |_, _| led(5, 0)).await;
    let (asked, mut looks) = (stage.asked(Verb::Inspect), 0);
    for value in 0..500 {
        stage.news(value as usize % 3, "it");
        tokio::time::sleep(MS).await;
        if asked() {
            looks += 1;
            stage.round(Verb::Inspect, |_, _| led(5, value)).await;
        }
    }
    assert!((10..=26).contains(&looks), "one each 20 to 50 ms for half a second: {looks}");
    // The observer also asks after the last message.
    stage.round(Verb::Inspect, |_, _| led(5, 500)).await;
    while seen.recv().await.unwrap().value != "value 500" {}
    stage.quiet_for(2 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn an_observer_looks_at_once_if_messages_were_missed() {
    let stage = Stage::new(3);
    let (_task, _seen) = observe(&stage);
    stage.round(Verb::Inspect, |_, _| led(5, 0)).await;
    stage.quiet_for(SECOND).await;
    stage.missed(1);
    assert!(stage.asked_after().await < 2 * MS);
}

#[tokio::test(start_paused = true)]
async fn a_name_is_followed_from_its_first_observer_to_its_last() {
    let stage = Stage::new(3);
    let observers = || stage.quorum.in_use().2;
    let (task, _seen) = observe(&stage);
    let never_polled = stage.quorum.election("it").observe().unwrap();
    let other = stage.quorum.election("other").observe().unwrap();
    stage.round(Verb::Inspect, |_, _| SILENCE).await;
    assert_eq!((observers(), stage.followed()), (3, vec!["it".to_owned(), "other".to_owned()]));
    drop((never_polled, other));
    assert_eq!((observers(), stage.followed()), (1, vec!["it".to_owned()]));
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    assert_eq!((observers(), stage.followed()), (0, Vec::new()));
    stage.news(0, "it");
    stage.quiet_for(Duration::from_secs(10)).await;
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_news_causes_one_look_at_a_time() {
    let stage = Stage::new(3);
    let (_task, _seen) = observe(&stage);
    stage.round(Verb::Inspect, |_, _| led(5, 0)).await;
    stage.quiet_for(MS).await;
    for _ in 0..1_000 {
        stage.news(0, "it");
    }
    stage.round(Verb::Inspect, |_, _| SILENCE).await;
    for _ in 0..1_000 {
        stage.news(1, "it");
    }
    stage.quiet_for(100 * MS).await;
    stage.answer_all(|_| led(5, 0));
    stage.round(Verb::Inspect, |_, _| led(5, 0)).await;
    stage.quiet_for(2 * SECOND).await;
}
