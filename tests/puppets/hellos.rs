//! Hellos: the client keeps its list in force, and stops if another list of the same name is in
//! force.

use std::time::Duration;

use quorumlock::node::operation::{Hello, Intent};
use quorumlock::node::{FaultKind, Outcome, Verb};
use quorumlock::{List, LostReason, NodeState};

use crate::answers::{Answer, fault, granted, nothing_held, released};
use crate::stage::{MINUTE, MS, PROCESS, SECOND, Stage, record};

fn ours() -> List {
    List::new("default", ["puppet://0", "puppet://1", "puppet://2"], MINUTE)
}

fn theirs() -> List {
    List::new("default", ["puppet://2", "puppet://3", "puppet://4"], MINUTE)
}

/// The hello that is sent to these nodes, and to no others.
async fn hello(stage: &Stage, nodes: &[usize], answer: impl Fn(usize) -> Answer) -> Hello {
    let asked = stage.only(nodes, Verb::Hello, |node, _| answer(node)).await;
    asked.hello.expect("what a hello has")
}

#[tokio::test(start_paused = true)]
async fn hello_goes_to_each_node_every_five_seconds_with_all_ids() {
    let stage = Stage::of_list(3);
    for _ in 0..3 {
        let after = stage.asked_after().await;
        assert!((4_400 * MS..=5 * SECOND).contains(&after), "{after:?}");
        let told = hello(&stage, &[0, 1, 2], |node| Some(Ok(Outcome::Hello(Some(record(node, &ours())))))).await;
        assert_eq!((told.intent, &*told.process, told.list.hash()), (Intent::Keep, PROCESS, ours().hash()));
        let ids: Vec<_> = told.seen.iter().map(|(name, id)| format!("{name} {id}")).collect();
        assert_eq!(ids, ["puppet://0 record-0", "puppet://1 record-1", "puppet://2 record-2"]);
        (0..3).for_each(|node| stage.told(node, Some(record(node, &ours()))));
    }
}

#[tokio::test(start_paused = true)]
async fn node_that_lost_its_record_is_asked_until_it_makes_another() {
    let stage = Stage::of_list(3);
    stage.quiet_for(SECOND).await;
    stage.told(0, None);
    let told = hello(&stage, &[0], |_| fault(FaultKind::Closed)).await;
    assert_eq!((told.intent, told.old, told.knew.as_deref()), (Intent::Put, None, Some("record-0")));
    let after = stage.asked_after().await;
    assert!(after <= SECOND / 2, "{after:?}");
    let again = hello(&stage, &[0], |_| Some(Ok(Outcome::Hello(Some(record(0, &ours())))))).await;
    assert_eq!(again.intent, Intent::Put);
    stage.told(0, Some(record(0, &ours())));
    stage.quiet_for(2 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn locks_are_lost_while_another_list_of_this_name_is_in_force() {
    let stage = Stage::of_list(3);
    let (guard, claim) = stage.won().await;
    assert_eq!(claim.list, *ours().hash());
    stage.told(2, Some(record(2, &theirs())));
    assert_eq!(guard.lost().await, LostReason::OtherList);
    stage.quiet_for(Duration::ZERO).await;
    // Until the guard is dropped, somebody may still work under the lost lock.
    drop(guard);
    stage.round(Verb::Release, |_, _| released()).await;
    let trying = stage.try_acquire();
    stage.round(Verb::Claim, |_, _| fault(FaultKind::Quarantined)).await;
    let error = trying.await.unwrap().unwrap_err();
    let said = error.to_string();
    assert!(error.is_unavailable() && said.contains("another list is in force on puppet://2"), "{said}");
    stage.told(2, Some(record(2, &ours())));
    stage.quiet_for(Duration::ZERO).await;
    let (guard, _) = stage.won().await;
    drop(guard);
}

/// For example, after the process has stood still, no vote counts before the next hello.
#[tokio::test(start_paused = true)]
async fn try_waits_for_hellos_that_are_due() {
    let stage = Stage::new(3);
    [0, 1].into_iter().for_each(|node| stage.turns(node, NodeState::Connecting));
    let trying = stage.try_acquire();
    stage.quiet_for(SECOND / 10).await;
    stage.turns(1, NodeState::Up);
    stage.round(Verb::Claim, |_, _| granted()).await;
    assert!(trying.await.unwrap().unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn try_does_not_wait_for_hellos_where_no_quorum_will_vote() {
    let stage = Stage::new(3);
    let down = || NodeState::Down { why: "refused".into() };
    stage.turns(0, down());
    stage.turns(1, NodeState::Connecting);
    let trying = stage.try_acquire();
    stage.quiet_for(SECOND / 10).await;
    stage.turns(1, down());
    stage.round(Verb::Claim, |node, _| if node == 2 { granted() } else { fault(FaultKind::Down) }).await;
    stage.only(&[2], Verb::Withdraw, |_, _| nothing_held()).await;
    assert!(trying.await.unwrap().unwrap_err().is_unavailable());
}
