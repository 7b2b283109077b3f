//! Nodes that forgot which ballots they granted: they are told in time.

use std::time::Duration;

use quorumlock::node::{Fault, FaultKind, Operation, Outcome, Verb};
use quorumlock::rules::roster::{PROTOCOL, Roster};

use crate::answers::{Answer, SILENCE};
use crate::stage::{MS, SECOND, Stage};

const HIGH: u64 = 7;

/// Nodes 0 and 1 forgot.
fn record(node: usize) -> Answer {
    Some(Ok(Outcome::Record { high: HIGH, floor: 0, taught: node > 1 }))
}

fn taught() -> Answer {
    Some(Ok(Outcome::Taught))
}

/// Found by seed 198030899 of the scene `who_forgot_does_not_teach`: it waited for a second, while
/// the other voted.
#[tokio::test(start_paused = true)]
async fn a_lesson_that_becomes_due_while_another_is_given_is_given_at_once() {
    let stage = Stage::new(5);
    stage.forgot(1, SECOND / 2);
    stage.forgot(0, MS);
    stage.round(Verb::Record, |node, _| record(node)).await;
    let teach = stage.only(&[0], Verb::Teach, |_, _| SILENCE).await;
    assert_eq!(teach.ballot, HIGH);
    stage.quiet_for(SECOND).await;
    stage.answer(0, taught);
    assert!(stage.asked_after().await <= 2 * MS, "node 1 has been waiting for half a second");
    stage.round(Verb::Record, |node, _| record(node)).await;
    stage.only(&[1], Verb::Teach, |_, _| taught()).await;
    stage.quiet_for(60 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_take_its_lesson_is_told_again_a_second_later() {
    let stage = Stage::new(5);
    stage.forgot(0, MS);
    stage.round(Verb::Record, |node, _| record(node)).await;
    stage.only(&[0], Verb::Teach, |_, _| SILENCE).await;
    // Two seconds for its answer, and one until the next try.
    stage.quiet_for(2 * SECOND).await;
    let again = stage.asked_after().await;
    assert!(again <= SECOND, "{again:?}");
}

/// Of three nodes, of which node 0 forgot; what node 2 says, if it can be reached.
fn of_three(node: usize, third: &Answer) -> Answer {
    let known = |high, taught| Some(Ok(Outcome::Record { high, floor: 0, taught }));
    match node {
        0 => known(0, false),
        1 => known(HIGH, true),
        _ => third.clone(),
    }
}

fn unreachable() -> Answer {
    Some(Err(Fault::new(FaultKind::Down, "no connection")))
}

#[tokio::test(start_paused = true)]
async fn what_too_few_know_is_told_and_is_no_lesson() {
    let stage = Stage::new(3);
    stage.forgot(0, MS);
    stage.round(Verb::Record, |node, _| of_three(node, &unreachable())).await;
    let told = stage.only(&[0], Verb::Teach, |_, _| taught()).await;
    assert_eq!(Operation::from(told), Operation::teach_by_hand(HIGH, 1));
    assert!(!stage.left_untaught(0), "somebody may come until its quarantine ends");
    let third = Some(Ok(Outcome::Record { high: HIGH + 2, floor: 0, taught: true }));
    stage.round(Verb::Record, |node, _| of_three(node, &third)).await;
    let lesson = stage.only(&[0], Verb::Teach, |_, _| taught()).await;
    assert_eq!(Operation::from(lesson), Operation::teach(HIGH + 2, 1));
    stage.quiet_for(60 * SECOND).await;
}

/// Else all who ask there with a lower ballot would have to ask twice each time.
#[tokio::test(start_paused = true)]
async fn who_votes_untaught_is_told_again_only_what_another_node_knows() {
    let stage = Stage::new(3);
    stage.forgot_for(0, MS, Duration::ZERO);
    stage.round(Verb::Record, |node, _| of_three(node, &unreachable())).await;
    stage.only(&[0], Verb::Teach, |_, _| taught()).await;
    assert!(stage.left_untaught(0));
    stage.round(Verb::Record, |node, _| of_three(node, &unreachable())).await;
    stage.quiet_for(SECOND / 2).await;
    let third = Some(Ok(Outcome::Record { high: HIGH + 2, floor: 0, taught: false }));
    stage.round(Verb::Record, |node, _| if node == 1 { unreachable() } else { of_three(node, &third) }).await;
    assert_eq!(stage.only(&[0], Verb::Teach, |_, _| taught()).await.ballot, HIGH + 2);
}

#[tokio::test(start_paused = true)]
async fn what_was_asked_before_a_quarantine_ended_is_not_the_last_word() {
    let stage = Stage::new(3);
    stage.forgot_for(0, MS, SECOND);
    stage.round(Verb::Record, |node, _| of_three(node, &SILENCE)).await;
    stage.quiet_for(3 * SECOND / 2).await;
    stage.answer(2, unreachable);
    stage.some([0].into_iter(), Verb::Teach, |_, _| taught()).await;
    assert!(!stage.left_untaught(0), "node 2 may be there by now");
    assert!(stage.asked_after().await <= 2 * MS, "it waits");
    stage.round(Verb::Record, |node, _| of_three(node, &unreachable())).await;
    stage.only(&[0], Verb::Teach, |_, _| taught()).await;
    assert!(stage.left_untaught(0));
}

/// It answers nothing else either, most likely; and its votes wait for two seconds at most.
#[tokio::test(start_paused = true)]
async fn it_is_no_last_word_where_a_node_does_not_take_it() {
    let stage = Stage::new(3);
    stage.forgot_for(0, MS, Duration::ZERO);
    stage.round(Verb::Record, |node, _| of_three(node, &unreachable())).await;
    stage.only(&[0], Verb::Teach, |_, _| unreachable()).await;
    stage.quiet_for(SECOND / 2).await;
    assert!(!stage.left_untaught(0));
}

/// Clients have the servers a, b and c; this list has the servers `runs`.
fn listed_elsewhere(stage: &Stage, runs: [&str; 3]) {
    let servers = ["a", "b", "c"].map(str::to_owned).to_vec();
    let roster = Roster { nodes: 3, protocol: PROTOCOL, servers, ..Roster::default() };
    runs.iter().enumerate().for_each(|(node, run)| stage.told(node, run, &roster));
}

/// What it is told by who has other nodes than the clients is no lesson: theirs may know of more.
#[tokio::test(start_paused = true)]
async fn nodes_whose_votes_clients_do_not_count_teach_nothing_and_learn_nothing() {
    // Node 0 forgot: a server of another list; one that is new in this one; one whose teacher is.
    for runs in [["c", "d", "e"], ["d", "a", "b"], ["b", "a", "d"]] {
        let stage = Stage::new(3);
        listed_elsewhere(&stage, runs);
        stage.forgot_for(0, MS, Duration::ZERO);
        let third = Some(Ok(Outcome::Record { high: HIGH, floor: 0, taught: true }));
        stage.round(Verb::Record, |node, _| of_three(node, &third)).await;
        let told = stage.only(&[0], Verb::Teach, |_, _| taught()).await;
        assert_eq!(Operation::from(told), Operation::teach_by_hand(HIGH, 1), "{runs:?}");
    }
}
