//! Who observes an election: when it looks, and that it believes nothing that no quorum says.

use std::time::Duration;

use futures::StreamExt;
use quorumlock::Leadership;
use quorumlock::node::memory::Store;
use quorumlock::node::{Name, Note, Operation, Outcome, Verb};
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

/// What a node says where somebody leads with this token, and has proclaimed so many values.
fn led(token: u64, values: u32) -> Outcome {
    let (mut store, now) = (Store::default(), SECOND);
    let names = [Name::new("quorumlock:", "it").unwrap()].into();
    let owner = format!("c/1/x/{token}.00").into();
    let leader = Asked { owner, ttl: 60 * SECOND, ballot: token, count: 1, ..Asked::inspect(names) };
    store.apply(&leader.with_verb(Verb::Claim).into(), now);
    let note = Note { number: values, age: Duration::ZERO, says: format!("value {values}").into() };
    store.apply(&Asked { note: Some(note), ..leader.with_verb(Verb::Renew) }.into(), now);
    store.apply(&leader.with_verb(Verb::Watch).into(), now)
}

fn watched(token: u64, values: u32) -> Answer {
    Some(Ok(led(token, values)))
}

/// The same of a node that has no room for one more who watches.
fn unregistered(token: u64) -> Answer {
    let Outcome::Watched { entries, .. } = led(token, 0) else { unreachable!("it is looked at") };
    Some(Ok(Outcome::Watched { entries, registered: false }))
}

#[tokio::test(start_paused = true)]
async fn a_hint_that_comes_while_a_look_is_under_way_causes_one_more_look_and_others_cause_none() {
    let stage = Stage::new(3);
    let (_task, mut seen) = observe(&stage);
    stage.round(Verb::Watch, |_, _| SILENCE).await;
    (0..3).for_each(|node| stage.changed(node, "it"));
    stage.changed(0, "it");
    stage.quiet_for(100 * MS).await;
    stage.answer_all(|_| watched(5, 0));
    assert_eq!(seen.recv().await.unwrap().value, "value 0");
    stage.round(Verb::Watch, |_, _| watched(5, 1)).await;
    assert_eq!(seen.recv().await.unwrap().value, "value 1");
    stage.quiet_for(2 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn hints_of_all_nodes_cause_one_look_and_those_of_other_names_none() {
    let stage = Stage::new(3);
    let (_task, mut seen) = observe(&stage);
    stage.round(Verb::Watch, |_, _| watched(5, 0)).await;
    seen.recv().await.unwrap();
    stage.changed(0, "other");
    stage.quiet_for(SECOND).await;
    for node in [0, 1, 2, 1] {
        stage.changed(node, "it");
    }
    stage.round(Verb::Watch, |_, _| watched(5, 1)).await;
    assert_eq!(seen.recv().await.unwrap().value, "value 1");
    stage.quiet_for(2 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn a_hint_is_believed_no_more_than_a_quorum_says() {
    let stage = Stage::new(3);
    let (_task, mut seen) = observe(&stage);
    stage.round(Verb::Watch, |_, _| watched(5, 0)).await;
    assert_eq!(seen.recv().await.unwrap().token, 5);
    stage.changed(2, "it");
    stage.round(Verb::Watch, |node, _| if node == 2 { watched(9, 0) } else { watched(5, 0) }).await;
    stage.quiet_for(MS).await;
    assert!(seen.try_recv().is_err(), "one node of three says so");
    stage.changed(1, "it");
    stage.round(Verb::Watch, |node, _| if node == 0 { watched(5, 0) } else { watched(9, 0) }).await;
    assert_eq!(seen.recv().await.unwrap().token, 9);
    // It comes late.
    stage.changed(0, "it");
    stage.round(Verb::Watch, |_, _| watched(5, 7)).await;
    stage.quiet_for(MS).await;
    assert!(seen.try_recv().is_err(), "nobody leads after a later one");
}

#[tokio::test(start_paused = true)]
async fn it_asks_rarely_where_a_quorum_tells_it_of_changes_and_often_where_fewer_do() {
    for (registered, between) in [(3, 2_500..=5_001), (2, 2_500..=5_001), (1, 250..=501), (0, 250..=501)] {
        let stage = Stage::new(3);
        let (_task, _seen) = observe(&stage);
        for longest in [false, true, true] {
            let answer = |node| if node < registered { watched(5, 0) } else { unregistered(5) };
            stage.round(Verb::Watch, |node, _| answer(node)).await;
            let pause = stage.asked_after().await;
            assert!(between.contains(&pause.as_millis()), "{pause:?} with {registered}");
            if longest {
                stage.pause_long();
            }
        }
    }
}

/// A node each has no room for one more who watches, or sends no messages.
#[tokio::test(start_paused = true)]
async fn it_asks_often_where_fewer_than_a_quorum_both_keep_it_and_send_messages() {
    let stage = Stage::new(3);
    stage.mute(2);
    let (_task, _seen) = observe(&stage);
    for _ in 0..2 {
        stage.round(Verb::Watch, |node, _| if node == 0 { unregistered(5) } else { watched(5, 0) }).await;
        let pause = stage.asked_after().await;
        assert!((250..=501).contains(&pause.as_millis()), "{pause:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn many_hints_cost_few_looks_and_the_first_is_looked_at_at_once() {
    let stage = Stage::new(3);
    let (_task, mut seen) = observe(&stage);
    stage.round(Verb::Watch, |_, _| watched(5, 0)).await;
    seen.recv().await.unwrap();
    stage.quiet_for(SECOND).await;
    stage.changed(0, "it");
    assert!(stage.asked_after().await < 2 * MS, "it has looked at nothing for a while");
    stage.round(Verb::Watch, |_, _| watched(5, 0)).await;
    let (asked, mut looks) = (stage.asked(Verb::Watch), 0);
    for value in 0..500 {
        stage.changed(value as usize % 3, "it");
        tokio::time::sleep(MS).await;
        if asked() {
            looks += 1;
            stage.round(Verb::Watch, |_, _| watched(5, value)).await;
        }
    }
    assert!((10..=26).contains(&looks), "one each 20 to 50 ms for half a second: {looks}");
    // What was told last is looked at as well.
    stage.round(Verb::Watch, |_, _| watched(5, 500)).await;
    while seen.recv().await.unwrap().value != "value 500" {}
    stage.quiet_for(2 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn it_asks_often_and_writes_nothing_where_no_hints_can_be_had() {
    let stage = Stage::with(3, false, |builder| builder);
    let (_task, mut seen) = observe(&stage);
    let Outcome::Watched { entries, .. } = led(5, 0) else { unreachable!("it is looked at") };
    let looked = || Some(Ok(Outcome::Inspected(entries.clone())));
    stage.round(Verb::Inspect, |_, _| looked()).await;
    assert_eq!(seen.recv().await.unwrap().token, 5);
    assert!((250..=500).contains(&stage.asked_after().await.as_millis()));
    stage.round(Verb::Inspect, |_, _| looked()).await;
}

#[tokio::test(start_paused = true)]
async fn it_asks_again_long_before_a_node_forgets_it_and_at_once_where_hints_were_missed() {
    let stage = Stage::new(3);
    let (_task, _seen) = observe(&stage);
    stage.pause_long();
    let asked = stage.round(Verb::Watch, |_, _| watched(5, 0)).await;
    assert!(asked.ttl >= 20 * SECOND && asked.ttl <= 60 * SECOND);
    assert_eq!(asked.owner.matches('/').count(), 2, "a client, as channels name it: {}", asked.owner);
    assert!(stage.asked_after().await * 4 < asked.ttl);
    stage.round(Verb::Watch, |_, _| watched(5, 0)).await;
    stage.quiet_for(SECOND).await;
    stage.missed(1);
    assert!(stage.asked_after().await < 2 * MS);
}

#[tokio::test(start_paused = true)]
async fn one_that_was_dropped_leaves_nothing_behind_and_asks_nothing() {
    let stage = Stage::new(3);
    let ears = || stage.quorum.in_use().2;
    let (task, _seen) = observe(&stage);
    let never_polled = stage.quorum.election("it").observe().unwrap();
    stage.round(Verb::Watch, |_, _| SILENCE).await;
    assert_eq!(ears(), 2);
    drop(never_polled);
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    assert_eq!(ears(), 0);
    stage.changed(0, "it");
    stage.quiet_for(Duration::from_secs(10)).await;
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_hints_causes_one_look_at_a_time() {
    let stage = Stage::new(3);
    let (_task, _seen) = observe(&stage);
    stage.round(Verb::Watch, |_, _| watched(5, 0)).await;
    stage.quiet_for(MS).await;
    for _ in 0..1_000 {
        stage.changed(0, "it");
    }
    stage.round(Verb::Watch, |_, _| SILENCE).await;
    for _ in 0..1_000 {
        stage.changed(1, "it");
    }
    stage.quiet_for(100 * MS).await;
    stage.answer_all(|_| watched(5, 0));
    stage.round(Verb::Watch, |_, _| watched(5, 0)).await;
    stage.quiet_for(2 * SECOND).await;
}

#[test]
fn whoever_watches_owns_nothing() {
    assert_eq!(Operation::from(Asked::inspect([].into()).with_verb(Verb::Watch)).owner(), None);
}
