//! The requests that a session sends to its nodes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use quorumlock::node::{FaultKind, Outcome, Verb};
use quorumlock::{Released, Result, Session};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::answers::{Answer, SILENCE, fault, granted, nothing_held, released};
use crate::asked::Asked;
use crate::handovers::{handed, queued};
use crate::stage::{MS, SECOND, Stage};

fn extended() -> Answer {
    Some(Ok(Outcome::Extended))
}

fn lost() -> Answer {
    Some(Ok(Outcome::Lost { holder: String::new() }))
}

fn names(asked: &Asked) -> Vec<&str> {
    asked.names.iter().map(|name| &**name.text()).collect()
}

/// Three nodes, with locks that last for 9 s, and a session.
async fn begun() -> (Stage, Session) {
    let stage = Stage::with(3, true, |builder| builder.ttl(9 * SECOND));
    let session = stage.quorum.session().grant(SECOND).await.unwrap();
    (stage, session)
}

fn lock(session: &Session, names: &'static [&'static str]) -> JoinHandle<Result<()>> {
    let session = session.clone();
    tokio::spawn(async move { session.lock(names, SECOND).await })
}

fn unlock(session: &Session, names: &'static [&'static str]) -> JoinHandle<Result<Released>> {
    let session = session.clone();
    tokio::spawn(async move { session.unlock(names).await })
}

async fn locked(stage: &Stage, session: &Session, names: &'static [&'static str]) -> Asked {
    let locking = lock(session, names);
    let claim = stage.round(Verb::Claim, |_, _| granted()).await;
    locking.await.unwrap().unwrap();
    claim
}

#[tokio::test(start_paused = true)]
async fn a_session_without_locks_asks_nodes_for_nothing() {
    let (stage, session) = begun().await;
    stage.quiet_for(60 * SECOND).await;
    assert_eq!(session.revoke().await.unwrap(), Released::Released);
    drop(session);
    stage.quiet_for(MS).await;
}

/// Each name is renewed by an operation of its own.
async fn renewed(stage: &Stage, owner: &Arc<str>, all: &[&str]) {
    for name in all {
        let renewal = stage.round(Verb::Renew, |_, _| extended()).await;
        assert_eq!((&renewal.owner, names(&renewal)), (owner, vec![*name]));
    }
}

#[tokio::test(start_paused = true)]
async fn session_renews_all_its_locks_at_one_moment() {
    let (stage, session) = begun().await;
    let first = locked(&stage, &session, &["a", "b"]).await;
    sleep(SECOND).await;
    let second = locked(&stage, &session, &["c"]).await;
    let after = stage.asked_after().await;
    assert!(after < 2 * SECOND, "as soon as the first is due: {after:?}");
    for _ in 0..3 {
        let at = Instant::now();
        renewed(&stage, &first.owner, &["a", "b"]).await;
        renewed(&stage, &second.owner, &["c"]).await;
        assert_eq!(at.elapsed(), Duration::ZERO);
        let after = stage.asked_after().await;
        assert!((2_900 * MS..3 * SECOND).contains(&after), "{after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn session_releases_one_name_of_a_set_and_renews_the_rest() {
    let (stage, session) = begun().await;
    let claim = locked(&stage, &session, &["a", "b", "c"]).await;
    let unlocking = unlock(&session, &["b"]);
    let release = stage.round(Verb::Release, |_, _| released()).await;
    assert_eq!((&release.owner, names(&release)), (&claim.owner, vec!["b"]));
    assert!(release.ballot == claim.ballot && release.next > claim.ballot, "it raises the fence, and hands over");
    assert_eq!(unlocking.await.unwrap().unwrap(), Released::Released);
    renewed(&stage, &claim.owner, &["a", "c"]).await;
    drop(session);
    for name in ["a", "c"] {
        let release = stage.round(Verb::Release, |_, _| released()).await;
        assert_eq!((&release.owner, names(&release)), (&claim.owner, vec![name]));
    }
}

/// A renewal of a name that was given up arrives after the release, on another connection. Nodes
/// reply that this name is lost. The session must not be lost by these replies.
#[tokio::test(start_paused = true)]
async fn renewal_overtaken_by_a_partial_release_keeps_the_session() {
    let (stage, session) = begun().await;
    locked(&stage, &session, &["a", "b"]).await;
    for name in ["a", "b"] {
        assert_eq!(names(&stage.round(Verb::Renew, |_, _| SILENCE).await), [name]);
    }
    let unlocking = unlock(&session, &["a"]);
    let release = stage.round(Verb::Release, |_, _| released()).await;
    assert_eq!(names(&release), ["a"]);
    unlocking.await.unwrap().unwrap();
    stage.answer_all(|_| lost());
    let again = stage.round(Verb::Renew, |_, _| extended()).await;
    assert_eq!(names(&again), ["b"], "the rest is renewed at once");
    sleep(MS).await;
    assert!(session.is_alive() && session.remaining() > 8 * SECOND);
    // The replies to a later renewal count against the session.
    stage.round(Verb::Renew, |_, _| lost()).await;
    stage.round(Verb::Release, |_, _| released()).await;
    assert!(!session.is_alive());
}

#[tokio::test(start_paused = true)]
async fn failed_renewals_of_a_session_are_retried_at_one_moment() {
    let (stage, session) = begun().await;
    stage.pause_long();
    locked(&stage, &session, &["a"]).await;
    locked(&stage, &session, &["b"]).await;
    locked(&stage, &session, &["c"]).await;
    let answer = |node, asked: &Asked| match names(asked)[0] {
        "b" => extended(),
        _ if node == 0 => extended(),
        _ => fault(FaultKind::Busy),
    };
    let mut renewed = Vec::new();
    for _ in 0..3 {
        renewed.push(names(&stage.round(Verb::Renew, answer).await)[0].to_owned());
    }
    renewed.sort();
    assert_eq!(renewed, ["a", "b", "c"]);
    let mut again = Vec::new();
    let at = stage.asked_after().await;
    assert!(at > MS, "after a pause");
    for _ in 0..2 {
        assert!(session.failed_renewal().len() == 3, "{:?}", session.failed_renewal());
        let now = Instant::now();
        again.push(names(&stage.round(Verb::Renew, |_, _| extended()).await)[0].to_owned());
        assert_eq!(now.elapsed(), Duration::ZERO);
    }
    assert_eq!(again, ["a", "c"]);
    sleep(MS).await;
    assert!(session.failed_renewal().is_empty() && session.is_alive());
    // After the first renewal, all locks are renewed together, in the order in which they would
    // have been due.
    let (mut together, mut moments) = (Vec::new(), BTreeSet::new());
    for _ in 0..3 {
        together.push(names(&stage.round(Verb::Renew, |_, _| extended()).await)[0].to_owned());
        moments.insert(Instant::now());
    }
    together.sort();
    assert_eq!((together, moments.len()), (renewed, 1));
}

#[tokio::test(start_paused = true)]
async fn session_renews_at_once_if_suspects_leave_it_no_quorum() {
    let (stage, session) = begun().await;
    locked(&stage, &session, &["a"]).await;
    locked(&stage, &session, &["b"]).await;
    stage.doubted(0);
    stage.quiet_for(MS).await;
    stage.doubted(1);
    for name in ["a", "b"] {
        let now = Instant::now();
        let renewal = stage.round(Verb::Renew, |_, _| extended()).await;
        assert!(names(&renewal) == [name] && now.elapsed() <= MS);
    }
    stage.quiet_for(SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn handover_to_a_session_is_renewed_soon_and_alone() {
    let stage = Stage::with(3, true, |builder| builder.ttl(30 * SECOND));
    let session = stage.quorum.session().grant(SECOND).await.unwrap();
    locked(&stage, &session, &["a"]).await;
    let locking = lock(&session, &["it"]);
    let claim = stage.round(Verb::Claim, |_, _| queued(1)).await;
    sleep(MS).await;
    (0..2).for_each(|node| stage.push(node, handed(&claim, claim.ballot + 7)));
    locking.await.unwrap().unwrap();
    assert_eq!(session.token("it"), Some(claim.ballot + 7));
    assert!(session.remaining() < 5 * SECOND, "it is held for as long as it was handed over");
    assert!(stage.asked_after().await <= 101 * MS);
    let renewal = stage.round(Verb::Renew, |_, _| extended()).await;
    assert_eq!((&renewal.owner, names(&renewal)), (&claim.owner, vec!["it"]));
    stage.quiet_for(5 * SECOND).await;
    assert!(session.remaining() > 20 * SECOND);
    for name in ["a", "it"] {
        let renewal = stage.round(Verb::Renew, |_, _| extended()).await;
        assert_eq!(names(&renewal), [name], "and from then on with the others");
    }
}

/// 2,048 renewals are under way, each for a lock that ends sooner than the session's.
#[tokio::test(start_paused = true)]
async fn handover_moves_a_waiting_session_up_the_renewal_queue() {
    let stage = Stage::with(3, true, |builder| builder.ttl(600 * SECOND).max_ttl(600 * SECOND));
    let mut kept = Vec::new();
    for number in 0..=2_048 {
        let acquiring = stage.acquire_other(&format!("lock-{number}"), SECOND);
        stage.round(Verb::Claim, |_, _| granted()).await;
        kept.push(acquiring.await.unwrap().unwrap());
    }
    let session = stage.quorum.session().grant(SECOND).await.unwrap();
    locked(&stage, &session, &["a"]).await;
    // The doubts make all locks due for renewal at once.
    (0..2).for_each(|node| stage.doubted(node));
    for number in 0..2_047 {
        let renewal = stage.round(Verb::Renew, |_, _| SILENCE).await;
        assert_eq!(names(&renewal), [format!("lock-{number}")]);
    }
    let others = stage.answers(extended);
    stage.round(Verb::Renew, |_, _| SILENCE).await;
    let locking = lock(&session, &["it"]);
    let claim = stage.round(Verb::Claim, |_, _| queued(1)).await;
    sleep(MS).await;
    (1..3).for_each(|node| stage.push(node, handed(&claim, claim.ballot + 7)));
    locking.await.unwrap().unwrap();
    stage.quiet_for(200 * MS).await;
    stage.answer_all(|_| extended());
    let renewal = stage.round(Verb::Renew, |_, _| extended()).await;
    assert_ne!(names(&renewal), ["lock-2048"], "which ends long after what was handed over");
    drop(others);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_when_the_session_has_ended_is_released() {
    let (stage, session) = begun().await;
    let locking = lock(&session, &["a"]);
    stage.round(Verb::Claim, |_, _| SILENCE).await;
    assert_eq!(session.revoke().await.unwrap(), Released::Released);
    assert!(locking.await.unwrap().unwrap_err().is_lost());
    stage.answer_all(|_| granted());
    let release = stage.round(Verb::Release, |_, _| released()).await;
    assert_eq!(names(&release), ["a"]);
    stage.quorum.quiet().await;
    assert_eq!(stage.quorum.in_use(), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn session_revocation_reports_the_worst_of_its_releases() {
    for (answer, says) in [(nothing_held(), Some(Released::AlreadyExpired)), (fault(FaultKind::Rejected), None)] {
        let (stage, session) = begun().await;
        locked(&stage, &session, &["a"]).await;
        locked(&stage, &session, &["b"]).await;
        let revoking = tokio::spawn(async move { session.revoke().await });
        stage.round(Verb::Release, |_, _| released()).await;
        stage.round(Verb::Release, |_, _| answer.clone()).await;
        let revoked = revoking.await.unwrap();
        assert_eq!(revoked.as_ref().ok(), says.as_ref());
        assert!(revoked.is_ok() || revoked.unwrap_err().is_unavailable());
    }
}

#[tokio::test(start_paused = true)]
async fn unconfirmed_release_of_a_name_is_sent_again_for_that_name() {
    let (stage, session) = begun().await;
    locked(&stage, &session, &["a", "b"]).await;
    let unlocking = unlock(&session, &["a"]);
    stage.round(Verb::Release, |node, _| if node == 2 { fault(FaultKind::Timeout) } else { released() }).await;
    assert_eq!(unlocking.await.unwrap().unwrap(), Released::Released);
    let again = stage.only(&[2], Verb::Release, |_, _| released()).await;
    assert_eq!(names(&again), ["a"]);
    assert!(session.is_alive());
}

/// The process stands still after the votes, before the session has added the lock. The test tries
/// each step at which this may happen.
#[tokio::test(start_paused = true)]
async fn lock_expired_before_it_is_added_leaves_the_session_alive() {
    let mut over = 0;
    for reading in 1..8 {
        let (stage, session) = begun().await;
        let trying = session.clone();
        let trying = tokio::spawn(async move { trying.try_lock(["a"]).await });
        stage.round(Verb::Claim, |_, _| SILENCE).await;
        stage.stand_still_before(reading, 10);
        stage.answer_all(|_| granted());
        let Err(error) = trying.await.unwrap() else { continue };
        assert!(session.is_alive(), "{reading}: {error}");
        assert_eq!(names(&stage.round(Verb::Release, |_, _| released()).await), ["a"]);
        if error.to_string().contains("the grant expired before this process could use it") {
            assert!(error.is_unavailable(), "{error}");
            over += 1;
        }
        let claim = locked(&stage, &session, &["a"]).await;
        assert_eq!(names(&claim), ["a"]);
    }
    assert!(over > 0, "it stood still between the two");
}

#[tokio::test(start_paused = true)]
async fn suspect_hastens_a_renewal_while_another_is_in_flight() {
    let (stage, session) = begun().await;
    locked(&stage, &session, &["a"]).await;
    locked(&stage, &session, &["b"]).await;
    let begins = |node, asked: &Asked| match names(asked)[0] {
        "a" if node == 2 => extended(),
        _ => SILENCE,
    };
    for _ in 0..2 {
        stage.round(Verb::Renew, begins).await;
    }
    stage.doubted(2);
    sleep(MS).await;
    // Node 0 answers both renewals. After that, the renewal of "b" still waits for one more vote.
    stage.answer(0, extended);
    assert!(stage.asked_after().await <= MS, "only node 0 stands behind it");
    assert_eq!(names(&stage.round(Verb::Renew, |_, _| extended()).await), ["a"]);
    assert!(session.is_alive());
}
