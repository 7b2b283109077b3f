//! Taking a name away from a holder.

use std::time::Duration;

use quorumlock::node::{Fault, FaultKind, Inspection, NodeState, Outcome, Queued, Verb};
use quorumlock::rules::doubt::Doubt;
use quorumlock::rules::handover::Stamp;
use quorumlock::rules::roster::{PROTOCOL, Roster};
use quorumlock::{ErrorKind, Result, Taken};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::answers::{Answer, SILENCE, granted, released};
use crate::stage::{MS, SECOND, Stage};

fn revoke(stage: &Stage) -> JoinHandle<Result<Taken>> {
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
    let taken = revoking.await.unwrap().unwrap();
    assert_eq!((taken.left, taken.fence), (Some(8 * SECOND), second.ballot));
    assert_eq!(taken.from, ["two"], "the first had let go before it was asked");
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
    let taken = revoking.await.unwrap().unwrap();
    assert_eq!((taken.left, taken.fence), (Some(3 * SECOND), second.ballot), "the longest");
    assert_eq!(taken.from, ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_was_free_and_is_held_by_the_time_is_taken_away() {
    let stage = Stage::new(3);
    let revoking = revoke(&stage);
    stage.round(Verb::Inspect, |_, _| Some(Ok(Outcome::Inspected(vec![Inspection::free(7)])))).await;
    stage.round(Verb::Revoke, |node, _| if node == 0 { revoked(0, Duration::ZERO) } else { held_by("two") }).await;
    named(&stage, "two").await;
    stage.round(Verb::Revoke, |_, _| revoked(1, SECOND)).await;
    assert_eq!(revoking.await.unwrap().unwrap().left, Some(SECOND));
}

/// By the second look somebody has it whom the first did not name, and whose ballot is no higher
/// than the release's.
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
    let taken = freeing.await.unwrap().unwrap();
    assert_eq!((taken.left, taken.fence), (Some(Duration::ZERO), second.ballot));
    assert_eq!(taken.from, ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_passes_on_and_on_is_not_called_free() {
    let stage = Stage::new(3);
    let revoking = revoke(&stage);
    for number in 0..20 {
        named(&stage, &format!("holder {number}")).await;
        let marked = |node| number % 10 == 0 && node == 0;
        let next = || held_by(&format!("holder {}", number + 1));
        stage.round(Verb::Revoke, |node, _| if marked(node) { revoked(1, 8 * SECOND) } else { next() }).await;
    }
    let error = revoking.await.unwrap().unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("changed hands"), "{error}");
    assert!(error.to_string().contains("away from holder 0 and holder 10, for 8s at most"), "{error}");
}

/// A node that is free is held by one after another who asks for the name and is refused by the
/// others. `last` is what the last node says of the hold of who has those.
async fn look(stage: &Stage, last: Answer) {
    let held =
        |owner: &str| Some(Ok(Outcome::Inspected(vec![Inspection::held(owner.to_owned(), 1, Some(9 * SECOND), 7)])));
    stage.round(Verb::Inspect, |node, _| held(if node == 0 { "one" } else { "me" })).await;
    let answer = |node: usize| [held_by("two"), revoked(1, 8 * SECOND), last.clone()][node].clone();
    assert_eq!(&*stage.round(Verb::Revoke, |node, _| answer(node)).await.owner, "me");
}

/// By then it is another.
async fn stranger(stage: &Stage) {
    let operation = stage.round(Verb::Revoke, |node, _| held_by(if node == 0 { "two" } else { "me" })).await;
    assert_eq!(&*operation.owner, "one");
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_so_many_nodes_marked_that_nobody_else_has_a_quorum_is_taken_away_whomever_others_name() {
    let stage = Stage::new(3);
    let revoking = revoke(&stage);
    look(&stage, revoked(1, 9 * SECOND)).await;
    stranger(&stage).await;
    stage.quiet_for(SECOND).await;
    assert_eq!(revoking.await.unwrap().unwrap().left, Some(9 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn who_names_another_may_be_the_nearest() {
    let stage = Stage::new(3);
    let revoking = revoke(&stage);
    look(&stage, SILENCE).await;
    stranger(&stage).await;
    stage.quiet_for(20 * MS).await;
    stage.answer(2, || revoked(1, 8 * SECOND));
    stage.quiet_for(SECOND).await;
    assert_eq!(revoking.await.unwrap().unwrap().left, Some(8 * SECOND));
}

/// What it forgot may be that it granted the name to another, whose lease goes on.
#[tokio::test(start_paused = true)]
async fn that_a_node_has_marked_it_which_may_have_forgotten_others_does_not_count() {
    let stage = Stage::new(3);
    let (left, doubt) = (SECOND, Doubt::Restarted);
    stage.turns(2, NodeState::Quarantined { left, doubt });
    let revoking = revoke(&stage);
    look(&stage, revoked(1, 9 * SECOND)).await;
    stranger(&stage).await;
    stage.turns(2, NodeState::Up);
    look(&stage, revoked(1, 7 * SECOND)).await;
    stranger(&stage).await;
    assert_eq!(revoking.await.unwrap().unwrap().left, Some(9 * SECOND));
}

/// Found by seed 43882343: it was free when it was asked for, and its next holder has it from this
/// node and two that are late.
#[tokio::test(start_paused = true)]
async fn a_node_whose_clock_was_stepped_does_not_tell_that_nobody_has_it() {
    let stage = Stage::new(5);
    stage.turns(2, NodeState::Quarantined { left: 9 * SECOND, doubt: Doubt::ClockStepped });
    let revoking = revoke(&stage);
    stage.round(Verb::Inspect, |_, _| Some(Ok(Outcome::Inspected(vec![Inspection::free(7)])))).await;
    let late = |node: usize| matches!(node, 0 | 4);
    stage.round(Verb::Revoke, |node, _| if late(node) { SILENCE } else { revoked(0, Duration::ZERO) }).await;
    stage.quiet_for(SECOND).await;
    stage.answer(4, || held_by("one"));
    named(&stage, "one").await;
    stage.round(Verb::Revoke, |_, _| revoked(1, 8 * SECOND)).await;
    assert_eq!(revoking.await.unwrap().unwrap().from, ["one"]);
}

/// No node knows of anybody when they are asked who holds it, and none has answered the revocation.
async fn free_and_asked(stage: &Stage) -> JoinHandle<Result<Taken>> {
    let revoking = revoke(stage);
    stage.round(Verb::Inspect, |_, _| Some(Ok(Outcome::Inspected(vec![Inspection::free(7)])))).await;
    stage.round(Verb::Revoke, |_, _| SILENCE).await;
    revoking
}

fn stepped(stage: &Stage, node: usize) {
    stage.turns(node, NodeState::Quarantined { left: 9 * SECOND, doubt: Doubt::ClockStepped });
}

/// Its next holder has it from this node, which ended that hold when its clock was stepped, and
/// from one that is late.
#[tokio::test(start_paused = true)]
async fn nor_does_a_node_whose_answer_shows_that_its_clock_was_stepped() {
    let stage = Stage::new(3);
    let revoking = free_and_asked(&stage).await;
    stepped(&stage, 2);
    [1, 2].iter().for_each(|&node| stage.answer(node, || revoked(0, Duration::ZERO)));
    stage.quiet_for(SECOND).await;
    stage.answer(0, || held_by("one"));
    named(&stage, "one").await;
    stage.round(Verb::Revoke, |_, _| revoked(1, 8 * SECOND)).await;
    assert_eq!(revoking.await.unwrap().unwrap().from, ["one"]);
}

/// The same, where that node is late for good, or refuses.
#[tokio::test(start_paused = true)]
async fn who_may_hold_it_where_too_few_answer_that_vote_is_not_told_to_be_nobody() {
    for last in [SILENCE, refused()] {
        let stage = Stage::new(3);
        stepped(&stage, 2);
        let revoking = free_and_asked(&stage).await;
        [1, 2].iter().for_each(|&node| stage.answer(node, || revoked(0, Duration::ZERO)));
        last.iter().for_each(|reply| stage.answer(0, || Some(reply.clone())));
        let error = revoking.await.unwrap().unwrap_err();
        assert!(error.is_unavailable() && error.to_string().contains("nobody can tell who holds \"it\""), "{error}");
        let said = ["raise maxmemory", "no answer"];
        assert!(said.iter().any(|why| error.nodes()[0].said.contains(why)), "{error}");
        assert!(error.nodes()[2].said.contains("quarantined"), "{error}");
    }
}

/// What is left of another's hold says nothing of who has it from those that are late.
#[tokio::test(start_paused = true)]
async fn a_leftover_that_too_few_mark_which_vote_is_not_all_that_was_taken_away() {
    let stage = Stage::new(5);
    stepped(&stage, 2);
    let revoking = revoke(&stage);
    let held = || Inspection::held("leftover".to_owned(), 1, Some(9 * SECOND), 7);
    let of = |node| if node == 1 { held() } else { Inspection::free(7) };
    stage.round(Verb::Inspect, |node, _| Some(Ok(Outcome::Inspected(vec![of(node)])))).await;
    let answer = |node: usize| match node {
        1 => revoked(1, SECOND),
        2 | 3 => revoked(0, Duration::ZERO),
        _ => SILENCE,
    };
    stage.round(Verb::Revoke, |node, _| answer(node)).await;
    let error = revoking.await.unwrap().unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("nobody can tell"), "{error}");
    assert!(error.to_string().contains("it was taken away from leftover"), "{error}");
}

/// As for who looks only: a quorum of nodes names one holder.
#[tokio::test(start_paused = true)]
async fn a_hold_that_a_quorum_marked_was_taken_away_though_a_node_of_it_does_not_vote() {
    let stage = Stage::new(3);
    stepped(&stage, 2);
    let revoking = revoke(&stage);
    named(&stage, "one").await;
    stage.round(Verb::Revoke, |node, _| if node == 0 { SILENCE } else { revoked(1, SECOND) }).await;
    assert_eq!(revoking.await.unwrap().unwrap().from, ["one"]);
}

/// The same of a reader: others may read beside it on the node that does not say so, and on the one
/// that may have forgotten them.
#[tokio::test(start_paused = true)]
async fn that_a_quorum_marked_a_reader_says_nothing_of_others_where_a_node_of_it_does_not_vote() {
    let stage = Stage::new(3);
    stepped(&stage, 2);
    let revoking = revoke(&stage);
    named(&stage, "c/1/x/s1.0").await;
    stage.round(Verb::Revoke, |node, _| if node == 0 { SILENCE } else { revoked(1, SECOND) }).await;
    let error = revoking.await.unwrap().unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("nobody can tell who holds \"it\""), "{error}");
    assert!(error.to_string().contains("it was taken away from c/1/x/s1.0"), "{error}");
}

/// Two of three nodes name somebody, and neither votes: that tells who holds it alone, and not who
/// reads it.
#[tokio::test(start_paused = true)]
async fn nodes_that_do_not_vote_tell_of_one_holder_and_not_of_all_readers() {
    let readers = ["c/1/x/s1.0", "c/1/x/s2.0"];
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

/// Nobody else has a quorum without one of the two nodes that vote.
#[tokio::test(start_paused = true)]
async fn what_nobody_else_can_have_is_not_waited_for() {
    let stage = Stage::new(4);
    stepped(&stage, 2);
    let (revoking, began) = (revoke(&stage), Instant::now());
    named(&stage, "one").await;
    stage.round(Verb::Revoke, |node, _| if node == 3 { SILENCE } else { revoked(1, 8 * SECOND) }).await;
    assert_eq!(revoking.await.unwrap().unwrap().from, ["one"]);
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
}

/// Clients of the nodes have another list.
fn theirs(stage: &Stage) {
    let servers = ["c", "d", "e"].map(str::to_owned).to_vec();
    let roster = Roster { nodes: 3, protocol: PROTOCOL, servers, ..Roster::default() };
    ["a", "b", "c"].iter().enumerate().for_each(|(node, run)| stage.told(node, run, &roster));
}

/// Found by seeds 284 and 497 of random worlds with several lists: who holds it goes on with the
/// nodes that this list lacks.
#[tokio::test(start_paused = true)]
async fn a_holder_that_all_nodes_of_another_list_name_is_not_told_to_be_revoked() {
    let stage = Stage::new(3);
    theirs(&stage);
    let revoking = revoke(&stage);
    named(&stage, "one").await;
    stage.round(Verb::Revoke, |_, _| revoked(1, 9 * SECOND)).await;
    let error = revoking.await.unwrap().unwrap_err();
    let said = error.to_string();
    assert!(
        error.is_unavailable() && said.contains("is used by clients of") && said.contains("one may go on"),
        "{said}"
    );
}

/// The one before had let go of it for sure.
#[tokio::test(start_paused = true)]
async fn only_whom_the_last_try_named_may_go_on_where_that_does_not_count() {
    let stage = Stage::new(3);
    let revoking = revoke(&stage);
    named(&stage, "one").await;
    stage.round(Verb::Revoke, |node, _| if node == 0 { revoked(1, 3 * SECOND) } else { held_by("two") }).await;
    named(&stage, "two").await;
    theirs(&stage);
    stage.round(Verb::Revoke, |_, _| revoked(1, SECOND)).await;
    let said = revoking.await.unwrap().unwrap_err().to_string();
    assert!(said.contains("; two may go on") && !said.contains("one and"), "{said}");
}

/// Node 2 is of another list, and node 1 refuses: who holds it may renew it there.
#[tokio::test(start_paused = true)]
async fn a_quorum_that_clients_do_not_count_takes_nothing_away_and_the_error_says_who_refused() {
    let stage = Stage::new(3);
    let roster = ["a", "b", "c"].map(str::to_owned).to_vec();
    let roster = Roster { nodes: 3, protocol: PROTOCOL, servers: roster, ..Roster::default() };
    ["a", "b", "d"].iter().enumerate().for_each(|(node, run)| stage.told(node, run, &roster));
    let revoking = revoke(&stage);
    named(&stage, "one").await;
    stage.round(Verb::Revoke, |node, _| if node == 1 { refused() } else { revoked(1, 9 * SECOND) }).await;
    let error = revoking.await.unwrap().unwrap_err();
    assert!(
        error.to_string().contains("was not taken away on a quorum") && !error.to_string().contains("taken away from")
    );
    assert!(error.nodes()[1].said.contains("raise maxmemory"), "{error}");
}

/// A quorum of nearer nodes has answered that they know of nobody.
#[tokio::test(start_paused = true)]
async fn what_only_the_slowest_node_holds_is_taken_away_and_told() {
    let stage = Stage::new(3);
    let revoking = revoke(&stage);
    let held = || Inspection::held("one".to_owned(), 1, Some(9 * SECOND), 7);
    let of = |node| if node == 2 { held() } else { Inspection::free(7) };
    stage.round(Verb::Inspect, |node, _| Some(Ok(Outcome::Inspected(vec![of(node)])))).await;
    stage.round(Verb::Revoke, |node, _| if node == 2 { SILENCE } else { revoked(0, Duration::ZERO) }).await;
    stage.quiet_for(SECOND).await;
    stage.answer(2, || revoked(1, 8 * SECOND));
    let taken = revoking.await.unwrap().unwrap();
    assert_eq!((taken.left, taken.from), (Some(8 * SECOND), vec!["one".to_owned()]));
}

/// The node 2 names "one", and refuses to take it away.
const REFUSES: usize = 2;

fn refused() -> Answer {
    Some(Err(Fault::new(FaultKind::Rejected, "OOM: raise maxmemory")))
}

/// What the others name, or nobody.
async fn named_beside(stage: &Stage, others: [Option<&str>; 2]) {
    let held = |owner: &str| Inspection::held(owner.to_owned(), 1, Some(9 * SECOND), 7);
    let of = |node: usize| match others.get(node) {
        Some(owner) => owner.map_or(Inspection::free(7), held),
        None => held("one"),
    };
    stage.round(Verb::Inspect, |node, _| Some(Ok(Outcome::Inspected(vec![of(node)])))).await;
}

async fn revoked_beside(stage: &Stage, others: Answer) -> String {
    let answer = |node: usize| if node == REFUSES { refused() } else { others.clone() };
    stage.round(Verb::Revoke, |node, _| answer(node)).await.owner.to_string()
}

/// The nodes 0 and 1 know of `others`, and the node that alone named an owner refuses.
async fn refused_where_it_was_named(stage: &Stage, others: Answer) -> JoinHandle<Result<Taken>> {
    let revoking = revoke(stage);
    named_beside(stage, [None, None]).await;
    assert_eq!(revoked_beside(stage, others).await, "one");
    revoking
}

#[tokio::test(start_paused = true)]
async fn where_a_node_that_named_the_owner_refuses_the_quorum_that_knows_of_nobody_is_enough() {
    let stage = Stage::new(3);
    let taken = refused_where_it_was_named(&stage, revoked(0, Duration::ZERO)).await.await.unwrap().unwrap();
    assert_eq!((taken.left, taken.from), (None, vec![]));
}

/// A quorum has said that the first one does not hold it.
#[tokio::test(start_paused = true)]
async fn where_others_name_the_next_one_it_is_taken_from_that_though_one_refuses() {
    let stage = Stage::new(3);
    let revoking = refused_where_it_was_named(&stage, held_by("two")).await;
    named_beside(&stage, [Some("two"), Some("two")]).await;
    assert_eq!(revoked_beside(&stage, held_by("two")).await, "one");
    assert_eq!(revoked_beside(&stage, revoked(1, 8 * SECOND)).await, "two");
    let taken = revoking.await.unwrap().unwrap();
    assert_eq!((taken.left, taken.from), (Some(8 * SECOND), vec!["two".to_owned()]));
}

/// Its hold may rest on what a quarantined node forgot. What is left of another's says nothing of
/// it.
#[tokio::test(start_paused = true)]
async fn who_may_hold_it_where_nobody_answers_is_told_beside_another_that_was_revoked() {
    let stage = Stage::new(3);
    stage.turns(0, NodeState::Quarantined { left: SECOND, doubt: Doubt::Restarted });
    let revoking = revoke(&stage);
    named_beside(&stage, [None, Some("leftover")]).await;
    let marked = |node| if node == 1 { revoked(1, SECOND) } else { revoked(0, Duration::ZERO) };
    let other = |node| if node == 1 { held_by("leftover") } else { revoked(0, Duration::ZERO) };
    let first = stage.round(Verb::Revoke, |node, _| if node == REFUSES { refused() } else { marked(node) }).await;
    let second = stage.round(Verb::Revoke, |node, _| if node == REFUSES { refused() } else { other(node) }).await;
    assert_eq!([&*first.owner, &*second.owner], ["leftover", "one"]);
    let error = revoking.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("did not confirm"), "{error}");
    assert!(error.to_string().contains("taken away from leftover"), "{error}");
}

/// A node of that quorum may have forgotten who holds it.
#[tokio::test(start_paused = true)]
async fn nor_is_a_quorum_enough_of_which_a_node_is_quarantined() {
    let stage = Stage::new(3);
    stage.turns(1, NodeState::Quarantined { left: SECOND, doubt: Doubt::Restarted });
    let revoking = refused_where_it_was_named(&stage, revoked(0, Duration::ZERO)).await;
    let error = revoking.await.unwrap().unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("did not confirm"), "{error}");
    assert!(error.nodes()[REFUSES].said.contains("raise maxmemory"), "{error}");
}

/// Else each of them would take as long as a round may.
#[tokio::test(start_paused = true)]
async fn all_who_are_named_are_asked_about_at_once() {
    let stage = Stage::new(3);
    let revoking = revoke(&stage);
    let held = |owner: &str| Inspection::held(owner.to_owned(), 1, Some(9 * SECOND), 7);
    let of = |node: usize| held(["me", "one", "two"][node]);
    stage.round(Verb::Inspect, |node, _| Some(Ok(Outcome::Inspected(vec![of(node)])))).await;
    for owner in ["me", "one", "two"] {
        assert_eq!(&*stage.round(Verb::Revoke, |_, _| SILENCE).await.owner, owner);
    }
    for (node, left) in [(0, 3), (1, 4), (2, 5)] {
        stage.answer(node, || revoked(1, left * SECOND));
    }
    assert_eq!(revoking.await.unwrap().unwrap().left, Some(5 * SECOND));
}

/// Clients of the other list may hold it where this list has no node.
#[tokio::test(start_paused = true)]
async fn nodes_of_another_list_do_not_count_among_those_that_know_of_nobody() {
    let stage = Stage::new(3);
    theirs(&stage);
    let revoking = revoke(&stage);
    stage.round(Verb::Inspect, |_, _| Some(Ok(Outcome::Inspected(vec![Inspection::free(7)])))).await;
    stage.round(Verb::Revoke, |_, _| revoked(0, Duration::ZERO)).await;
    let error = revoking.await.unwrap().unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("whose votes clients count"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn where_nobody_can_tell_the_error_still_says_from_whom_it_was_taken() {
    let stage = Stage::new(3);
    let revoking = revoke(&stage);
    named(&stage, "one").await;
    stage.round(Verb::Revoke, |node, _| if node == 0 { revoked(1, SECOND) } else { held_by("two") }).await;
    stage.turns(1, NodeState::Quarantined { left: SECOND, doubt: Doubt::Restarted });
    stage.turns(2, NodeState::Quarantined { left: SECOND, doubt: Doubt::Restarted });
    stage.round(Verb::Inspect, |_, _| Some(Ok(Outcome::Inspected(vec![Inspection::free(7)])))).await;
    stage.round(Verb::Revoke, |_, _| revoked(0, Duration::ZERO)).await;
    let error = revoking.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("it was taken away from one"), "{error}");
}

/// By the time that the hold is marked, a node that said it knew of nobody has restarted.
#[tokio::test(start_paused = true)]
async fn a_node_that_restarts_meanwhile_does_not_count_among_those_that_knew_of_nobody() {
    let stage = Stage::new(3);
    let revoking = revoke(&stage);
    let nobody = || Some(Ok(Outcome::Inspected(vec![Inspection::free(7)])));
    let down = || Some(Err(Fault::new(FaultKind::Down, "there is no connection")));
    stage.round(Verb::Inspect, |node, _| if node == 0 { down() } else { nobody() }).await;
    stage.round(Verb::Revoke, |_, _| SILENCE).await;
    stage.turns(2, NodeState::Quarantined { left: SECOND, doubt: Doubt::Restarted });
    (1..3).for_each(|node| stage.answer(node, || revoked(0, Duration::ZERO)));
    let error = revoking.await.unwrap().unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("nobody can tell"), "{error}");
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
        let release = stage.round(Verb::Release, |_, _| released()).await;
        assert_eq!(release.owner, first.owner, "it is registered still, or was handed the name unheard");
        let took = stage.asked_after().await;
        assert!(took <= 50 * MS, "as another owner it is registered nowhere: {took:?}");
        let next = stage.round(Verb::Claim, |_, _| granted()).await;
        assert_ne!(next.owner, first.owner);
        assert!(waiting.await.unwrap().unwrap().is_held());
    }
}
