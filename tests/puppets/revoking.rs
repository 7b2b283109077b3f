//! Revocations, and releases by force.

use std::time::Duration;

use quorumlock::node::{Fault, FaultKind, Inspection, NodeState, Outcome, Verb};
use quorumlock::rules::doubt::Doubt;
use quorumlock::{ErrorKind, List, Result, Taken};
use tokio::task::JoinHandle;

use crate::answers::{Answer, SILENCE, fault, nothing_held, released};
use crate::asked::Asked;
use crate::stage::{MINUTE, SECOND, Stage, record};

/// The highest fence that nodes return.
const FENCE: u64 = 1 << 52;

fn revoke(stage: &Stage) -> JoinHandle<Result<Taken>> {
    let quorum = stage.quorum.clone();
    tokio::spawn(async move { quorum.revoke("it").await })
}

/// Lets the nodes return their fences.
async fn look(stage: &Stage) {
    let said = |node: usize| Inspection::free(if node == 1 { FENCE } else { 7 });
    stage.round(Verb::Inspect, |node, _| Some(Ok(Outcome::Inspected(vec![said(node)])))).await;
}

/// A revocation in which all nodes were asked to revoke, and none has answered yet.
async fn asked(stage: &Stage) -> (JoinHandle<Result<Taken>>, Asked) {
    let revoking = revoke(stage);
    look(stage).await;
    let operation = stage.round(Verb::Revoke, |_, _| SILENCE).await;
    (revoking, operation)
}

fn held_by(holder: &str, ballot: u64, left: Duration) -> Answer {
    Some(Ok(Outcome::Revoked { holder: Some(holder.to_owned()), ballot, left }))
}

const fn free() -> Answer {
    Some(Ok(Outcome::Revoked { holder: None, ballot: 0, left: Duration::ZERO }))
}

fn refused() -> Answer {
    Some(Err(Fault::new(FaultKind::Rejected, "OOM: raise maxmemory")))
}

fn stepped(stage: &Stage, node: usize) {
    stage.turns(node, NodeState::Quarantined { left: 9 * SECOND, doubt: Doubt::ClockStepped });
}

#[tokio::test(start_paused = true)]
async fn quorum_tells_from_whom_it_was_taken_and_how_long_that_takes() {
    let stage = Stage::new(3);
    let (revoking, operation) = asked(&stage).await;
    assert_eq!(operation.ballot, FENCE + 1, "above every fence that was told");
    stage.answer(0, || held_by("one", 7, 3 * SECOND));
    stage.answer(2, || held_by("one", 9, 8 * SECOND));
    let taken = revoking.await.unwrap().unwrap();
    assert_eq!((taken.left, taken.fence), (Some(8 * SECOND), operation.ballot));
    assert_eq!(taken.from, ["one"]);
}

#[tokio::test(start_paused = true)]
async fn name_that_nobody_holds_is_told_to_be_free() {
    let stage = Stage::new(3);
    let (revoking, operation) = asked(&stage).await;
    (0..2).for_each(|node| stage.answer(node, free));
    let taken = revoking.await.unwrap().unwrap();
    assert_eq!((taken.left, taken.from, taken.fence), (None, vec![], operation.ballot));
}

/// The holder's token comes from other nodes, and may be lower than its ballot on this node.
#[tokio::test(start_paused = true)]
async fn holder_with_higher_ballot_is_not_named_and_its_time_counts() {
    let stage = Stage::new(3);
    let (revoking, operation) = asked(&stage).await;
    stage.answer(0, || held_by("one", 7, 3 * SECOND));
    stage.answer(1, || held_by("two", operation.ballot + 1, 8 * SECOND));
    let taken = revoking.await.unwrap().unwrap();
    assert_eq!((taken.left, taken.from), (Some(8 * SECOND), vec!["one".to_owned()]));
}

/// A doubted node may have forgotten the holder, even if only its own answer raises the doubt.
#[tokio::test(start_paused = true)]
async fn node_in_doubt_is_none_of_the_quorum_that_tells() {
    for before in [true, false] {
        let stage = Stage::new(3);
        before.then(|| stepped(&stage, 2));
        let (revoking, _) = asked(&stage).await;
        stepped(&stage, 2);
        [1, 2].iter().for_each(|&node| stage.answer(node, free));
        stage.quiet_for(SECOND).await;
        assert!(!revoking.is_finished());
        stage.answer(0, || held_by("one", 7, 8 * SECOND));
        assert_eq!(revoking.await.unwrap().unwrap().from, ["one"]);
    }
}

#[tokio::test(start_paused = true)]
async fn revocation_without_a_quorum_fails_and_names_the_holder() {
    for last in [SILENCE, refused()] {
        let stage = Stage::new(3);
        stepped(&stage, 2);
        let (revoking, _) = asked(&stage).await;
        stage.answer(1, || held_by("one", 7, SECOND));
        stage.answer(2, free);
        last.iter().for_each(|reply| stage.answer(0, || Some(reply.clone())));
        let error = revoking.await.unwrap().unwrap_err();
        assert!(error.is_unavailable() && error.to_string().contains("nobody can tell who holds \"it\""), "{error}");
        assert!(error.to_string().contains("the name was taken away from one"), "{error}");
        let said = ["raise maxmemory", "no answer"];
        assert!(said.iter().any(|why| error.nodes()[0].said.contains(why)), "{error}");
        assert!(error.nodes()[2].said.contains("quarantined"), "{error}");
    }
}

/// Two of three nodes name a holder, and neither of them votes. If both name the same writer, the
/// answer is conclusive. If they name readers, there may be more readers.
#[tokio::test(start_paused = true)]
async fn nonvoting_nodes_prove_one_writer_but_not_all_readers() {
    let readers = ["c/1/x/s1", "c/1/x/s2"];
    for (named, conclusive) in [(["one"; 2], true), (["one", "two"], false), ([readers[0]; 2], false), (readers, false)]
    {
        let stage = Stage::new(3);
        [1, 2].iter().for_each(|&node| stepped(&stage, node));
        let quorum = stage.quorum.clone();
        let looking = tokio::spawn(async move { quorum.inspect("it").await.unwrap() });
        let held = |node: usize| Inspection::held(named[node - 1].to_owned(), 1, Some(9 * SECOND), 7);
        let answer = |node| if node == 0 { SILENCE } else { Some(Ok(Outcome::Inspected(vec![held(node)]))) };
        stage.round(Verb::Inspect, |node, _| answer(node)).await;
        assert_eq!(looking.await.unwrap().is_conclusive(), conclusive, "{named:?}");
    }
}

/// The holder may go on with nodes that are not in this client's list.
#[tokio::test(start_paused = true)]
async fn client_that_met_another_list_cannot_confirm_a_revocation() {
    for answer in [held_by("one", 7, 9 * SECOND), free()] {
        let stage = Stage::of_list(3);
        let theirs = List::new("default", ["puppet://2", "puppet://3", "puppet://4"], MINUTE);
        stage.told(2, Some(record(2, &theirs)));
        stage.quiet_for(Duration::ZERO).await;
        let (revoking, _) = asked(&stage).await;
        stage.answer_all(|_| answer.clone());
        let error = revoking.await.unwrap().unwrap_err();
        let said = error.to_string();
        assert!(error.is_unavailable() && said.contains("nobody can tell who holds \"it\""), "{said}");
        assert!(said.contains("another list is in force"), "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn revocation_that_nodes_refuse_reports_the_reason() {
    let stage = Stage::new(3);
    let (revoking, _) = asked(&stage).await;
    stage.answer_all(|node| if node == 0 { held_by("one", 7, SECOND) } else { refused() });
    let error = revoking.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let why: Vec<_> = error.nodes().iter().filter(|node| node.said.contains("raise maxmemory")).collect();
    assert_eq!(why.len(), 2, "{error}");
}

/// Begins to free a name by force, and lets nodes answer the revocation.
async fn forced(stage: &Stage, revoked: impl Fn(usize) -> Answer) -> (JoinHandle<Result<Taken>>, u64) {
    let quorum = stage.quorum.clone();
    let freeing = tokio::spawn(async move { quorum.force_release("it").await });
    look(stage).await;
    let revocation = stage.round(Verb::Revoke, |node, _| revoked(node)).await;
    (freeing, revocation.ballot)
}

/// A node's answer: this owner holds the name with this ballot, and all tokens up to `over` are
/// revoked.
fn named(owner: &str, ballot: u64, over: u64) -> Answer {
    let held = Inspection::held(owner.to_owned(), 1, Some(9 * SECOND), over).with_ballots(ballot, over);
    Some(Ok(Outcome::Inspected(vec![held])))
}

/// A node names only one of its readers at a time. Owners that came after the revocation keep the
/// name.
#[tokio::test(start_paused = true)]
async fn forced_release_repeats_until_no_revoked_owner_is_left() {
    let stage = Stage::new(3);
    let (freeing, over) = forced(&stage, |_| held_by("one", 7, 9 * SECOND)).await;
    for owner in ["one", "two"] {
        stage.round(Verb::Inspect, |_, _| named(owner, 7, over)).await;
        let release = stage.round(Verb::Withdraw, |_, _| released()).await;
        assert_eq!((&*release.owner, release.ballot), (owner, over));
    }
    stage.round(Verb::Inspect, |_, _| named("three", over + 1, over)).await;
    let taken = freeing.await.unwrap().unwrap();
    assert_eq!((taken.left, taken.fence), (Some(Duration::ZERO), over));
    assert_eq!(taken.from, ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn name_of_which_too_few_nodes_tell_is_not_said_to_be_freed() {
    for answers in [0, 1] {
        let stage = Stage::new(3);
        let (freeing, over) = forced(&stage, |_| held_by("one", 7, 9 * SECOND)).await;
        let free = || Some(Ok(Outcome::Inspected(vec![Inspection::free(over)])));
        stage.round(Verb::Inspect, |node, _| if node < answers { free() } else { SILENCE }).await;
        let error = freeing.await.unwrap().unwrap_err();
        assert!(error.is_unavailable() && error.nodes().len() == 3, "{error}");
    }
}

/// A quorum of voting nodes replied that nobody holds the name, so the client did not wait for the
/// third node.
#[tokio::test(start_paused = true)]
async fn forced_release_frees_a_hold_that_only_one_node_has() {
    let stage = Stage::new(3);
    let (freeing, over) = forced(&stage, |node| if node < 2 { free() } else { SILENCE }).await;
    let nobody = || Some(Ok(Outcome::Inspected(vec![Inspection::free(over)])));
    let told = |node| if node < 2 { nobody() } else { named("one", 7, over) };
    stage.round(Verb::Inspect, |node, _| told(node)).await;
    // One node does not answer, but the other two nodes are a quorum.
    let answer = |node| {
        if node == 1 {
            SILENCE
        } else if node == 2 {
            released()
        } else {
            nothing_held()
        }
    };
    let withdrawal = stage.round(Verb::Withdraw, |node, _| answer(node)).await;
    assert_eq!(&*withdrawal.owner, "one");
    stage.round(Verb::Inspect, |_, _| nobody()).await;
    let taken = freeing.await.unwrap().unwrap();
    assert_eq!((taken.left, taken.from), (Some(Duration::ZERO), vec!["one".to_owned()]));
}

/// The other nodes are a quorum, and free the name. So the call ends although one node frees
/// nothing.
#[tokio::test(start_paused = true)]
async fn node_that_frees_nothing_is_not_asked_without_end() {
    let stage = Stage::new(3);
    let (freeing, over) = forced(&stage, |_| held_by("one", 7, 9 * SECOND)).await;
    for freed in [false, true] {
        let nobody = || Some(Ok(Outcome::Inspected(vec![Inspection::free(over)])));
        let told = |node| if node == 0 || !freed { named("one", 7, over) } else { nobody() };
        stage.round(Verb::Inspect, |node, _| told(node)).await;
        if !freed {
            stage.round(Verb::Withdraw, |node, _| if node == 0 { refused() } else { released() }).await;
        }
    }
    let taken = freeing.await.unwrap().unwrap();
    assert_eq!((taken.left, taken.from), (Some(Duration::ZERO), vec!["one".to_owned()]));
}

/// The third node does not answer any more.
#[tokio::test(start_paused = true)]
async fn forced_release_reports_time_left_if_one_node_still_holds() {
    let stage = Stage::new(3);
    let (freeing, over) = forced(&stage, |_| held_by("one", 7, 9 * SECOND)).await;
    stage.round(Verb::Inspect, |_, _| named("one", 7, over)).await;
    stage.round(Verb::Withdraw, |node, _| if node == 0 { refused() } else { released() }).await;
    let told = |node| match node {
        0 => named("one", 7, over),
        1 => Some(Ok(Outcome::Inspected(vec![Inspection::free(over)]))),
        _ => SILENCE,
    };
    stage.round(Verb::Inspect, |node, _| told(node)).await;
    assert_eq!(freeing.await.unwrap().unwrap().left, Some(9 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn forced_release_frees_a_holder_the_revocation_did_not_reach() {
    let stage = Stage::new(3);
    let (freeing, over) = forced(&stage, |node| if node == 2 { SILENCE } else { held_by("one", 7, 9 * SECOND) }).await;
    let told = |node| match node {
        0 => Some(Ok(Outcome::Inspected(vec![Inspection::free(over)]))),
        1 => SILENCE,
        _ => named("one", 7, 0),
    };
    stage.round(Verb::Inspect, |node, _| told(node)).await;
    let withdrawal = stage.round(Verb::Withdraw, |node, _| if node == 1 { SILENCE } else { released() }).await;
    assert_eq!((&*withdrawal.owner, withdrawal.ballot), ("one", over));
    let nobody = || Some(Ok(Outcome::Inspected(vec![Inspection::free(over)])));
    stage.round(Verb::Inspect, |node, _| if node == 1 { SILENCE } else { nobody() }).await;
    assert_eq!(freeing.await.unwrap().unwrap().left, Some(Duration::ZERO));
}

/// A node names only one reader, and prefers a reader that was not revoked.
#[tokio::test(start_paused = true)]
async fn reader_that_came_since_may_hide_one_that_was_revoked() {
    let stage = Stage::new(3);
    let (freeing, over) = forced(&stage, |_| held_by("c/1/x/s1", 7, 9 * SECOND)).await;
    stage.round(Verb::Inspect, |_, _| named("c/1/x/s2", over + 1, over)).await;
    let taken = freeing.await.unwrap().unwrap();
    assert_eq!(taken.left, Some(9 * SECOND), "it may be held still");
}

/// The two other nodes may still renew the lock.
#[tokio::test(start_paused = true)]
async fn lock_revoked_on_a_minority_is_not_reported_as_revoked() {
    let stage = Stage::new(3);
    for (revoked, silent) in [(1, 1), (2, 0), (2, 1)] {
        let quorum = stage.quorum.clone();
        let looking = tokio::spawn(async move { quorum.inspect("it").await });
        let told = |node| match node {
            _ if node < revoked => named("one", 7, 9),
            _ if node < 3 - silent => named("one", 7, 0),
            _ => fault(FaultKind::Timeout),
        };
        stage.round(Verb::Inspect, |node, _| told(node)).await;
        assert_eq!(looking.await.unwrap().unwrap().revoked(), revoked == 2);
    }
}
