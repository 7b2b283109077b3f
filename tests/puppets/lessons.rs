//! Nodes that forgot which ballots they granted: they are told in time.

use quorumlock::node::{Outcome, Verb};

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
