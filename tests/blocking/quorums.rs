//! What a `Quorum` reports about its nodes and names, and what an operator does by hand, such as a
//! revocation.

use std::time::Duration;

use quorumlock::QuorumBuilder;
use quorumlock::blocking::Quorum;

use crate::common::PATIENCE;
use crate::world::{SECOND, World, eventually, freed};

fn held_names_search_finds_each_held_name_once(world: &World) {
    let (client, other) = (world.client(), world.client());
    let names: Vec<_> = (0..300).map(|number| format!("name/{number:03}")).collect();
    let guard = client.lock_all(&names).acquire(PATIENCE).unwrap();
    // A quorum of nodes is enough for the lock, and for a client to connect. So search again until
    // the last node has shown all names too.
    eventually("one search finds each name once, on all three nodes", || {
        let (mut pages, mut found) = (other.held_names(), Vec::new());
        for page in &mut pages {
            found.extend(page.unwrap().into_iter().filter(|(_, said)| said.holder().is_some()).map(|(name, _)| name));
        }
        assert!(pages.next().is_none());
        found.sort();
        assert!(found.windows(2).all(|pair| pair[0] != pair[1]), "a name was found twice");
        found == names && pages.is_complete() && pages.looked_at() >= 900 && pages.unread().is_empty()
    });
    drop(guard);
}

fn holder_note_appears_in_inspect_and_in_timeout_errors(world: &World) {
    let (client, other) = (world.client(), world.client());
    let _guard = client.lock("prod").describe("deploy #812").acquire(PATIENCE).unwrap();
    let says =
        || other.inspect("prod").is_ok_and(|seen| seen.description().is_some_and(|told| &*told.says == "deploy #812"));
    eventually("nodes have the note", says);
    let late = || other.lock("prod").acquire(Duration::ZERO).unwrap_err();
    eventually("it is told", || late().holder_says() == Some("deploy #812"));
    assert!(client.lock("other").describe("a\nb").acquire(SECOND).unwrap_err().is_config());
}

fn a_name_is_taken_from_its_holder(world: &World) {
    let (client, other) = (world.client(), world.client());
    let guard = client.lock("a").acquire(PATIENCE).unwrap();
    let taken = other.force_release("a").unwrap();
    assert!(taken.fence > guard.token());
    freed(&other, "a");
}

fn the_records_of_all_nodes_are_told(world: &World) {
    let client = world.client();
    // A node that answers too late is an error among the records.
    eventually("all records are told", || {
        let members = client.members().unwrap();
        members.nodes.len() == 3 && members.nodes.iter().all(|node| matches!(node.record, Ok(Some(_))))
    });
    assert!(client.init().unwrap_err().is_unavailable(), "they are not new");
}

both!(
    held_names_search_finds_each_held_name_once,
    holder_note_appears_in_inspect_and_in_timeout_errors,
    a_name_is_taken_from_its_holder,
    the_records_of_all_nodes_are_told,
);

#[test]
fn a_quorum_in_memory_has_the_settings_that_it_was_given() {
    let brief = || QuorumBuilder::default().ttl(SECOND).wait(Duration::ZERO);
    let quorum = Quorum::in_memory_with(brief(), 5).unwrap();
    assert_eq!(quorum.nodes().len(), 5);
    let guard = quorum.lock("a").acquire_default().unwrap();
    assert!(guard.remaining() <= SECOND);
    assert!(quorum.lock("a").acquire_default().unwrap_err().is_timeout());
    for nodes in [0, 65] {
        assert!(Quorum::in_memory_with(brief(), nodes).unwrap_err().is_config());
    }
    assert!(Quorum::in_memory_with(brief().ttl(Duration::ZERO), 3).unwrap_err().is_config());
}

#[test]
fn calls_after_a_shutdown_fail_as_closed() {
    let quorum = Quorum::in_memory(3).unwrap();
    let mut names = quorum.held_names();
    quorum.shutdown(PATIENCE).unwrap();
    assert!(names.next().unwrap().unwrap_err().is_closed());
    assert!(names.next().is_none(), "an error is the end");
    assert!(quorum.members().unwrap_err().is_closed());
    assert!(quorum.init().unwrap_err().is_closed());
    assert!(quorum.force_release("a").unwrap_err().is_closed());
}
