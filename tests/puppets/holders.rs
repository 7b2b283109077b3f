//! What a holder says to its nodes: renewals, counts, and claims on nodes that offer a turn after
//! all.

use std::time::Duration;

use quorumlock::LockGuard;
use quorumlock::node::{Outcome, Verb};
use tokio::time::sleep;

use crate::answers::{Answer, SILENCE, granted, held, released, reserved};
use crate::asked::Asked;
use crate::stage::{MS, SECOND, Stage};

/// A holder that had to wait, and what the nodes answered to the round that it won.
async fn waited(stage: &Stage, answer: impl Fn(usize) -> Answer) -> (LockGuard, Asked) {
    let waiting = stage.acquire(60 * SECOND);
    let first = stage.round(Verb::Claim, |_, _| held(60)).await;
    sleep(MS).await;
    (0..2).for_each(|node| stage.hint(node, &first, Duration::ZERO));
    let claim = stage.round(Verb::Claim, |node, _| answer(node)).await;
    (waiting.await.unwrap().unwrap(), claim)
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_a_node_offers_after_all_is_taken_by_the_holder() {
    for refusal in [held(60), reserved(60, true)] {
        let stage = Stage::new(3);
        let (guard, claim) = waited(&stage, |node| if node == 2 { refusal.clone() } else { granted() }).await;
        stage.hint(0, &claim, Duration::ZERO);
        stage.hint(2, &claim, 100 * MS);
        stage.quiet_for(MS).await;
        stage.hint(2, &claim, Duration::ZERO);
        let again = stage.only(&[2], Verb::Claim, |_, _| granted()).await;
        assert_eq!((&again.owner, again.ballot), (&claim.owner, guard.token()));
        drop(guard);
        stage.round(Verb::Release, |_, _| released()).await;
        stage.hint(2, &claim, Duration::ZERO);
        stage.quiet_for(SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_has_not_answered_yet_is_not_asked_twice() {
    let stage = Stage::new(3);
    let (_guard, claim) = waited(&stage, |node| if node == 2 { SILENCE } else { granted() }).await;
    stage.hint(2, &claim, Duration::ZERO);
    stage.quiet_for(SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_offers_many_turns_is_asked_once_until_it_refuses_again() {
    let stage = Stage::new(3);
    let (_guard, claim) = waited(&stage, |node| if node == 2 { held(60) } else { granted() }).await;
    let offers = || (0..10).for_each(|_| stage.hint(2, &claim, Duration::ZERO));
    offers();
    stage.only(&[2], Verb::Claim, |_, _| held(60)).await;
    sleep(MS).await;
    offers();
    stage.only(&[2], Verb::Claim, |_, _| granted()).await;
    sleep(MS).await;
    offers();
    stage.quiet_for(MS).await;
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_came_while_the_round_was_under_way_is_taken_too() {
    let stage = Stage::new(3);
    let waiting = stage.acquire(60 * SECOND);
    let first = stage.round(Verb::Claim, |_, _| held(60)).await;
    sleep(MS).await;
    (0..2).for_each(|node| stage.hint(node, &first, Duration::ZERO));
    let claim = stage.round(Verb::Claim, |node, _| if node == 2 { held(60) } else { SILENCE }).await;
    stage.hint(2, &claim, Duration::ZERO);
    (0..2).for_each(|node| stage.answer(node, granted));
    let _guard = waiting.await.unwrap().unwrap();
    stage.only(&[2], Verb::Claim, |_, _| granted()).await;
}

#[tokio::test(start_paused = true)]
async fn reentry_sends_nothing_and_the_next_renewal_has_the_count() {
    let stage = Stage::with(3, true, |builder| builder.ttl(9 * SECOND));
    let (guard, claim) = stage.won().await;
    let inner = guard.reenter().unwrap();
    stage.quiet_for(MS).await;
    let renewal = stage.round(Verb::Renew, |_, _| Some(Ok(Outcome::Extended))).await;
    assert_eq!((&renewal.owner, renewal.count), (&claim.owner, 2));
    drop(inner);
    stage.quiet_for(MS).await;
    assert_eq!(stage.round(Verb::Renew, |_, _| Some(Ok(Outcome::Extended))).await.count, 1);
}

/// The process stands still until a millisecond before the deadline, and finds both: the deadlines'
/// timers, which are set a little earlier, and the answers to the renewals.
#[tokio::test(start_paused = true)]
async fn renewals_that_were_answered_in_time_count_before_deadlines_are_looked_at() {
    let stage = Stage::with(3, true, |builder| builder.ttl(9 * SECOND));
    let (one, _) = stage.won().await;
    let acquiring = stage.acquire_other("other", SECOND);
    stage.round(Verb::Claim, |_, _| granted()).await;
    let other = acquiring.await.unwrap().unwrap();
    for _ in 0..2 {
        stage.round(Verb::Renew, |_, _| SILENCE).await;
    }
    (0..2).for_each(|node| stage.answer(node, || Some(Ok(Outcome::Extended))));
    tokio::time::advance(one.remaining() - MS).await;
    sleep(2 * MS).await;
    assert!(one.is_held() && other.is_held());
}
