//! Taking a name away from a holder.

use std::time::Duration;

use quorumlock::node::{Fault, FaultKind, Inspection, Outcome, Queued, Verb};
use quorumlock::quorum::handover::Stamp;
use quorumlock::{ErrorKind, Result};
use tokio::task::JoinHandle;

use crate::answers::{Answer, granted, released};
use crate::stage::{MS, SECOND, Stage};

fn revoke(stage: &Stage) -> JoinHandle<Result<Option<Duration>>> {
    let quorum = stage.quorum.clone();
    tokio::spawn(async move { quorum.revoke("it").await })
}

/// All nodes say that `owner` holds it.
async fn named(stage: &Stage, owner: &str) {
    let held = || Inspection::held(owner.to_owned(), 1, Some(9 * SECOND), 7);
    stage.round(Verb::Inspect, |_, _| Some(Ok(Outcome::Inspected(vec![held()])))).await;
}

const fn revoked(held: u32, left: Duration) -> Answer {
    Some(Ok(Outcome::Revoked { held, left, other: None }))
}

/// It is not the owner that holds it, but `other`.
fn held_by(other: &str) -> Answer {
    Some(Ok(Outcome::Revoked { held: 0, left: Duration::ZERO, other: Some(other.to_owned()) }))
}

#[tokio::test(start_paused = true)]
async fn a_name_that_passed_to_another_meanwhile_is_taken_from_that_one() {
    let stage = Stage::new(3);
    let revoking = revoke(&stage);
    named(&stage, "one").await;
    stage.round(Verb::Revoke, |_, _| revoked(0, Duration::ZERO)).await;
    named(&stage, "two").await;
    let second = stage.round(Verb::Revoke, |_, _| revoked(1, 8 * SECOND)).await;
    assert_eq!(&*second.owner, "two");
    assert_eq!(revoking.await.unwrap().unwrap(), Some(8 * SECOND));
}

/// One node has not heard of the release yet, and the others have handed the name over.
#[tokio::test(start_paused = true)]
async fn a_name_that_passed_on_where_most_nodes_are_is_taken_from_the_next_one_too() {
    let stage = Stage::new(3);
    let revoking = revoke(&stage);
    named(&stage, "one").await;
    stage.round(Verb::Revoke, |node, _| if node == 0 { revoked(1, 3 * SECOND) } else { held_by("two") }).await;
    named(&stage, "two").await;
    let second = stage.round(Verb::Revoke, |_, _| revoked(1, SECOND)).await;
    assert_eq!(&*second.owner, "two");
    assert_eq!(revoking.await.unwrap().unwrap(), Some(3 * SECOND), "the longest");
}

#[tokio::test(start_paused = true)]
async fn a_name_that_was_free_and_is_held_by_the_time_is_taken_away() {
    let stage = Stage::new(3);
    let revoking = revoke(&stage);
    stage.round(Verb::Inspect, |_, _| Some(Ok(Outcome::Inspected(vec![Inspection::free(7)])))).await;
    stage.round(Verb::Revoke, |node, _| if node == 0 { revoked(0, Duration::ZERO) } else { held_by("two") }).await;
    named(&stage, "two").await;
    stage.round(Verb::Revoke, |_, _| revoked(1, SECOND)).await;
    assert_eq!(revoking.await.unwrap().unwrap(), Some(SECOND));
}

/// By the second look somebody has it whom the first did not name, and whose ballot is no higher than the release's.
#[tokio::test(start_paused = true)]
async fn a_name_that_is_freed_by_force_is_freed_again_where_it_passed_on_meanwhile() {
    let stage = Stage::new(3);
    let quorum = stage.quorum.clone();
    let freeing = tokio::spawn(async move { quorum.force_release("it").await });
    named(&stage, "one").await;
    let released = |_: usize, _: &_| Some(Ok(Outcome::Released { held: 1 }));
    stage.round(Verb::Release, released).await;
    named(&stage, "two").await;
    let second = stage.round(Verb::Release, released).await;
    assert_eq!(&*second.owner, "two");
    let later = || Inspection::held("three".to_owned(), 1, Some(9 * SECOND), second.ballot + 1);
    stage.round(Verb::Inspect, |_, _| Some(Ok(Outcome::Inspected(vec![later()])))).await;
    assert!(freeing.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_name_that_passes_on_and_on_is_not_called_free() {
    let stage = Stage::new(3);
    let revoking = revoke(&stage);
    for number in 0..20 {
        named(&stage, &format!("holder {number}")).await;
        stage.round(Verb::Revoke, |_, _| revoked(0, Duration::ZERO)).await;
    }
    let error = revoking.await.unwrap().unwrap_err();
    assert!(error.kind() == ErrorKind::Contended && error.to_string().contains("changed hands"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn where_nodes_refuse_it_the_error_says_why() {
    let stage = Stage::new(3);
    let revoking = revoke(&stage);
    named(&stage, "one").await;
    let refused = || Some(Err(Fault::new(FaultKind::Rejected, "OOM: raise maxmemory")));
    stage.round(Verb::Revoke, |node, _| if node == 0 { revoked(1, SECOND) } else { refused() }).await;
    let error = revoking.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let why: Vec<_> = error.nodes().iter().filter(|node| node.said.contains("raise maxmemory")).collect();
    assert_eq!(why.len(), 2, "{error}");
}

/// The nodes that took note of it grant this owner nothing any more, and keep no place for it.
#[tokio::test(start_paused = true)]
async fn who_is_revoked_while_it_waits_goes_on_as_another_owner() {
    let queued = || {
        let (holder, remaining) = ("somebody".to_owned(), Some(60 * SECOND));
        let queued = Some(Queued { rank: 1, stamp: Stamp { generation: 1, time: 100 * SECOND } });
        Some(Ok(Outcome::Held { holder, remaining, fence: 1, queued }))
    };
    let lost = || Some(Ok(Outcome::Lost { holder: String::new() }));
    // How many nodes have taken note of it.
    for noted in [1, 2, 3] {
        let stage = Stage::with(3, true, |builder| builder.ttl(30 * SECOND));
        let waiting = stage.acquire(60 * SECOND);
        let first = stage.round(Verb::Claim, |_, _| queued()).await;
        let again = stage.round(Verb::Claim, |node, _| if node < noted { lost() } else { queued() }).await;
        assert_eq!(again.owner, first.owner);
        if noted < 3 {
            let release = stage.some(noted..3, Verb::Release, |_, _| released()).await;
            assert_eq!(release.owner, first.owner, "where it is registered still");
        }
        let took = stage.asked_after().await;
        assert!(took <= 50 * MS, "as another owner it is registered nowhere: {took:?}");
        let next = stage.round(Verb::Claim, |_, _| granted()).await;
        assert_ne!(next.owner, first.owner);
        assert!(waiting.await.unwrap().unwrap().is_held());
    }
}
