//! Releases: which nodes get a release again, when, and for how long.

use quorumlock::node::{FaultKind, Outcome, Verb};
use quorumlock::{LockGuard, Released};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use crate::answers::{SILENCE, fault, granted, held, nothing_held, released, stale};
use crate::stage::{MS, SECOND, Stage};

fn release(guard: LockGuard) -> JoinHandle<quorumlock::Result<Released>> {
    tokio::spawn(guard.release())
}

#[tokio::test(start_paused = true)]
async fn release_is_sent_again_after_silence_and_not_after_an_error() {
    let stage = Stage::new(3);
    let (guard, claim) = stage.won().await;
    let releasing = release(guard);
    let answer = |node, _: &_| match node {
        0 => released(),
        1 => fault(FaultKind::Timeout),
        _ => fault(FaultKind::Rejected),
    };
    stage.round(Verb::Release, answer).await;
    assert!(releasing.await.unwrap().unwrap_err().is_unavailable());
    for kind in [FaultKind::Closed, FaultKind::Down] {
        assert!((50 * MS..=51 * MS).contains(&stage.asked_after().await));
        let again = stage.only(&[1], Verb::Release, |_, _| fault(kind)).await;
        assert_eq!(again.owner, claim.owner);
    }
    stage.only(&[1], Verb::Release, |_, _| released()).await;
    stage.quorum.quiet().await;
    stage.quiet_for(30 * SECOND).await;
    assert_eq!(stage.quorum.in_use(), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn release_is_sent_again_only_when_all_nodes_have_answered() {
    let stage = Stage::new(3);
    let (guard, _) = stage.won().await;
    drop(guard);
    stage.round(Verb::Release, |node, _| if node == 0 { fault(FaultKind::Timeout) } else { SILENCE }).await;
    stage.quiet_for(5 * SECOND).await;
    stage.answer(1, released);
    stage.quiet_for(5 * SECOND).await;
    stage.answer(2, released);
    stage.only(&[0], Verb::Release, |_, _| released()).await;
}

#[tokio::test(start_paused = true)]
async fn a_release_that_all_confirm_leaves_nothing_to_be_done() {
    let stage = Stage::new(3);
    let (guard, _) = stage.won().await;
    let releasing = release(guard);
    stage.round(Verb::Release, |_, _| released()).await;
    assert_eq!(releasing.await.unwrap().unwrap(), Released::Released);
    sleep(MS).await;
    assert_eq!(stage.quorum.in_use(), (0, 0, 0));
}

/// The silent node decides whether two of three nodes held the name.
#[tokio::test(start_paused = true)]
async fn release_with_split_replies_and_a_silent_node_is_unavailable() {
    for silent in [fault(FaultKind::Timeout), SILENCE] {
        let stage = Stage::new(3);
        let (guard, _) = stage.won().await;
        let releasing = release(guard);
        let answer = |node, _: &_| match node {
            0 => released(),
            1 => nothing_held(),
            _ => silent.clone(),
        };
        stage.round(Verb::Release, answer).await;
        let error = releasing.await.unwrap().unwrap_err();
        assert!(error.is_unavailable(), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn release_reports_expiry_if_two_of_three_held_nothing() {
    let stage = Stage::new(3);
    let (guard, _) = stage.won().await;
    let releasing = release(guard);
    stage.round(Verb::Release, |node, _| if node == 0 { SILENCE } else { nothing_held() }).await;
    assert_eq!(releasing.await.unwrap().unwrap(), Released::AlreadyExpired);
}

async fn lock_on_two_names(stage: &Stage) -> LockGuard {
    let lock = stage.quorum.lock_all(["a", "b"]);
    let acquiring = tokio::spawn(async move { lock.acquire(10 * SECOND).await });
    stage.round(Verb::Claim, |_, _| granted()).await;
    acquiring.await.unwrap().unwrap()
}

/// One of the lock's names was released by force, and another owner got it before the lock's
/// release.
#[tokio::test(start_paused = true)]
async fn lock_on_two_names_of_which_one_was_taken_away_had_expired() {
    let stage = Stage::new(3);
    let releasing = release(lock_on_two_names(&stage).await);
    let first = stage.round(Verb::Release, |_, _| released()).await;
    let second = stage.round(Verb::Release, |_, _| nothing_held()).await;
    assert_eq!([first.names, second.names].map(|names| names.len()), [1, 1]);
    assert_eq!(releasing.await.unwrap().unwrap(), Released::AlreadyExpired);
}

/// The release of the lock's other name was not confirmed.
#[tokio::test(start_paused = true)]
async fn lock_of_which_one_name_was_surely_gone_had_expired() {
    let stage = Stage::new(3);
    let releasing = release(lock_on_two_names(&stage).await);
    let answer = |node, _: &_| match node {
        0 => released(),
        1 => nothing_held(),
        _ => fault(FaultKind::Timeout),
    };
    stage.round(Verb::Release, answer).await;
    stage.round(Verb::Release, |node, _| if node == 2 { fault(FaultKind::Timeout) } else { nothing_held() }).await;
    assert_eq!(releasing.await.unwrap().unwrap(), Released::AlreadyExpired);
}

/// If the call returned at once and the caller exited, the other name would stay held.
#[tokio::test(start_paused = true)]
async fn lock_of_which_one_name_was_surely_gone_waits_for_the_other() {
    let stage = Stage::new(3);
    let releasing = release(lock_on_two_names(&stage).await);
    let began = tokio::time::Instant::now();
    stage.round(Verb::Release, |_, _| nothing_held()).await;
    stage.round(Verb::Release, |_, _| SILENCE).await;
    assert_eq!(releasing.await.unwrap().unwrap(), Released::AlreadyExpired);
    assert!(began.elapsed() >= SECOND);
}

/// Only one node held both names. Each other node held only one of the names, because a failed
/// claim of another owner had taken the other name.
#[tokio::test(start_paused = true)]
async fn lock_whose_names_were_held_by_different_quorums_was_held() {
    let stage = Stage::new(3);
    let releasing = release(lock_on_two_names(&stage).await);
    stage.round(Verb::Release, |node, _| if node == 2 { nothing_held() } else { released() }).await;
    stage.round(Verb::Release, |node, _| if node == 0 { nothing_held() } else { released() }).await;
    assert_eq!(releasing.await.unwrap().unwrap(), Released::Released);
}

/// A node without a record carries nothing out, and holds nothing.
#[tokio::test(start_paused = true)]
async fn release_that_nodes_without_a_record_answer_is_confirmed() {
    let stage = Stage::new(3);
    let (guard, _) = stage.won().await;
    let releasing = release(guard);
    stage.round(Verb::Release, |node, _| if node == 0 { SILENCE } else { Some(Ok(Outcome::Forgot)) }).await;
    assert_eq!(releasing.await.unwrap().unwrap(), Released::AlreadyExpired);
}

/// Node 0 granted the first ballot. The second ballot was never sent to node 0.
#[tokio::test(start_paused = true)]
async fn withdrawal_goes_to_a_node_that_granted_a_lower_ballot() {
    let stage = Stage::new(3);
    let trying = stage.try_acquire();
    let first = stage.round(Verb::Claim, |node, _| if node == 0 { granted() } else { stale(1) }).await;
    let answer = |node, _: &_| if node == 0 { fault(FaultKind::Down) } else { held(60) };
    let second = stage.round(Verb::Claim, answer).await;
    assert_eq!(first.owner, second.owner);
    // Nodes that replied `stale` may hold the name with a higher ballot.
    let withdrawal = stage.round(Verb::Withdraw, |node, _| if node == 0 { fault(FaultKind::Down) } else { released() });
    let withdrawal = withdrawal.await;
    assert_eq!((&withdrawal.owner, withdrawal.ballot), (&second.owner, second.ballot));
    assert!(trying.await.unwrap().unwrap().is_none());
    // Node 0 may still hold the name, so the client sends the withdrawal again.
    stage.only(&[0], Verb::Withdraw, |_, _| released()).await;
}

#[tokio::test(start_paused = true)]
async fn tries_become_rare() {
    let stage = Stage::new(1);
    stage.pause_long();
    let (guard, _) = stage.won().await;
    drop(guard);
    stage.round(Verb::Release, |_, _| fault(FaultKind::Timeout)).await;
    for pause in [200, 400, 800, 1_600, 2_000, 2_000] {
        let (took, pause) = (stage.asked_after().await, pause * MS);
        assert!(took <= pause + MS && took + 2 * MS >= pause, "{took:?} and not {pause:?}");
        stage.round(Verb::Release, |_, _| fault(FaultKind::Timeout)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn release_is_not_sent_again_after_the_hold_has_expired() {
    for (late, again) in [(false, true), (true, false)] {
        let stage = Stage::with(1, true, |builder| builder.ttl(SECOND));
        let (guard, _) = stage.won().await;
        let sent = Instant::now();
        drop(guard);
        stage.round(Verb::Release, |_, _| SILENCE).await;
        sleep_until(sent + if late { SECOND } else { SECOND - MS }).await;
        stage.answer(0, || fault(FaultKind::Timeout));
        if again {
            stage.round(Verb::Release, |_, _| released()).await;
        }
        stage.quorum.quiet().await;
        stage.quiet_for(10 * SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_never_heard_of_the_claim_is_asked_once() {
    for (kind, insists) in [(FaultKind::Down, false), (FaultKind::Quarantined, false), (FaultKind::Timeout, true)] {
        let stage = Stage::new(3);
        let (guard, _) = stage.won_with(|node| if node == 2 { fault(kind) } else { granted() }).await;
        // The answer of node 2 may come after those of the quorum.
        drop(guard);
        stage.round(Verb::Release, |node, _| if node == 2 { fault(FaultKind::Down) } else { released() }).await;
        if insists {
            stage.only(&[2], Verb::Release, |_, _| released()).await;
        }
        stage.quiet_for(10 * SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn wait_for_all_releases_ends_with_the_last_reply() {
    let stage = Stage::new(1);
    let (guard, _) = stage.won().await;
    drop(guard);
    let quorum = stage.quorum.clone();
    let waiting = tokio::spawn(async move { quorum.quiet().await });
    stage.round(Verb::Release, |_, _| SILENCE).await;
    sleep(MS).await;
    assert!(!waiting.is_finished());
    stage.answer(0, released);
    waiting.await.unwrap();
}

/// The release of a later holder ends all earlier tokens, as a revocation does.
#[tokio::test(start_paused = true)]
async fn writer_that_nodes_call_lost_after_its_deadline_has_expired() {
    let stage = Stage::new(3);
    let options = stage.quorum.options().auto_renew(false);
    let lock = stage.quorum.rw_lock_with("a", &options).unwrap();
    let writing = tokio::spawn(async move { lock.write(10 * SECOND).await });
    stage.round(Verb::Claim, |_, _| granted()).await;
    let writer = writing.await.unwrap().unwrap();
    sleep(writer.remaining() - 20 * MS).await;
    let reading = tokio::spawn(writer.downgrade());
    stage.round(Verb::Claim, |_, _| SILENCE).await;
    sleep(40 * MS).await;
    (0..3).for_each(|node| stage.answer(node, || Some(Ok(Outcome::Lost { holder: String::new() }))));
    let error = reading.await.unwrap().unwrap_err();
    assert!(error.is_lost() && !error.to_string().contains("revoked"), "{error}");
}
