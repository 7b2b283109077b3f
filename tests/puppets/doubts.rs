//! Nodes that may have forgotten their grants: if a holder's deadline depends on the vote of such a
//! node, the holder renews at once.

use std::time::Duration;

use quorumlock::node::{FaultKind, Outcome, Verb};
use quorumlock::{LockGuard, LockOptions};
use tokio::time::sleep;

use crate::answers::{Answer, SILENCE, fault, granted, held, released};
use crate::asked::Asked;
use crate::stage::{MS, Reading, SECOND, Stage};

const TTL: Duration = Duration::from_secs(9);

fn extended() -> Answer {
    Some(Ok(Outcome::Extended))
}

/// The holder of a lock on nodes 0 and 1 of three.
async fn holder(options: LockOptions) -> (Stage, LockGuard, Asked) {
    let stage = Stage::with(3, true, |builder| builder.options(options.ttl(TTL)));
    let (guard, claim) = stage.won_with(|node| if node == 2 { held(60) } else { granted() }).await;
    (stage, guard, claim)
}

#[tokio::test(start_paused = true)]
async fn holder_renews_at_once_if_a_suspect_leaves_it_no_quorum() {
    let (stage, guard, claim) = holder(LockOptions::default()).await;
    sleep(SECOND).await;
    let before = guard.remaining();
    stage.doubted(0);
    assert!(stage.asked_after().await <= MS, "not after a third of its ttl");
    let answer = |node, _: &_| if node == 0 { fault(FaultKind::Doubted) } else { extended() };
    let renewal = stage.round(Verb::Renew, answer).await;
    assert_eq!(renewal.owner, claim.owner);
    stage.quiet_for(MS).await;
    assert!(guard.remaining() > before, "nodes 1 and 2 stand behind it now");
}

#[tokio::test(start_paused = true)]
async fn suspect_that_leaves_a_quorum_hastens_no_renewal() {
    let stage = Stage::with(3, true, |builder| builder.ttl(TTL));
    let (_guard, _) = stage.won().await;
    stage.doubted(2);
    stage.quiet_for(SECOND).await;
    stage.doubted(1);
    assert!(stage.asked_after().await <= MS, "only node 0 is left");
}

#[tokio::test(start_paused = true)]
async fn a_doubt_about_a_node_that_did_not_grant_hurries_nobody() {
    let (stage, _guard, _) = holder(LockOptions::default()).await;
    stage.doubted(2);
    stage.quiet_for(SECOND).await;
}

/// The doubt comes between two of the votes: there is no lease yet that could be renewed.
#[tokio::test(start_paused = true)]
async fn voter_that_turns_suspect_before_the_win_hastens_a_renewal() {
    for (node, hurries) in [(0, true), (2, false)] {
        let stage = Stage::with(3, true, |builder| builder.ttl(TTL));
        let acquiring = stage.acquire(SECOND);
        let claim = stage.round(Verb::Claim, |_, _| SILENCE).await;
        stage.answer(0, granted);
        stage.doubted(node);
        sleep(MS).await;
        stage.answer(1, granted);
        let _guard = acquiring.await.unwrap().unwrap();
        if hurries {
            assert!(stage.asked_after().await <= MS, "not after a third of its ttl");
            assert_eq!(stage.round(Verb::Renew, |_, _| extended()).await.owner, claim.owner);
        }
        stage.quiet_for(SECOND).await;
    }
}

/// The doubt comes between two votes of a renewal. Before this renewal, the deadline did not rest
/// on the doubted node.
#[tokio::test(start_paused = true)]
async fn voter_that_turns_suspect_in_a_renewal_hastens_the_next_one() {
    let (stage, _guard, _) = holder(LockOptions::default()).await;
    stage.round(Verb::Renew, |node, _| if node == 2 { extended() } else { SILENCE }).await;
    stage.doubted(2);
    sleep(MS).await;
    stage.answer(1, extended);
    assert!(stage.asked_after().await <= MS, "only node 1 is left");
    stage.round(Verb::Renew, |_, _| extended()).await;
    stage.quiet_for(SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn a_doubt_renews_nothing_that_is_not_to_be_renewed() {
    let (stage, guard, _) = holder(LockOptions::default().auto_renew(false)).await;
    stage.doubted(0);
    stage.quiet_for(SECOND).await;
    drop(guard);
    stage.round(Verb::Release, |_, _| released()).await;
    stage.doubted(1);
    stage.quiet_for(SECOND).await;
}

/// Found by seed 86 of commit 5e30884 with plant 17 (`left_behind`). The doubt came together with
/// the answers of a renewal. From then on, two timers renewed the lease in turns.
#[tokio::test(start_paused = true)]
async fn suspect_amid_renewal_replies_doubles_no_later_renewal() {
    let (stage, guard, _) = holder(LockOptions::default()).await;
    stage.round(Verb::Renew, |_, _| SILENCE).await;
    stage.doubted(0);
    let (mut answers, mut readings) = (stage.answers(extended), 0);
    // At the first reading of the clock, the client sets the timer that the doubt asks for. At the
    // second reading, the client takes this timer out.
    stage.meanwhile(Reading::Now, move || {
        readings += 1;
        if readings == 2 {
            answers();
        }
        readings == 2
    });
    stage.round(Verb::Renew, |_, _| extended()).await;
    for _ in 0..3 {
        stage.round(Verb::Renew, |_, _| extended()).await;
        stage.quiet_for(SECOND).await;
    }
    drop(guard);
    stage.round(Verb::Release, |_, _| released()).await;
    assert_eq!(stage.quorum.in_use(), (0, 0, 0));
}
