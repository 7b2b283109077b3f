//! The requests that a holder sends: renewals, with the number of guards.

use quorumlock::node::{Outcome, Verb};
use tokio::time::sleep;

use crate::answers::{SILENCE, granted};
use crate::stage::{MS, SECOND, Stage};

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

/// The process stands still until a millisecond before the deadline. When it continues, it finds
/// two things: the timers of the deadlines, which are set a little early and have fired, and the
/// answers to the renewals.
#[tokio::test(start_paused = true)]
async fn renewal_replies_in_time_count_before_deadlines_are_checked() {
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
