//! What a quorum tells of its nodes and names, and what is done to them by hand.

use std::time::Duration;

use quorumlock::QuorumBuilder;
use quorumlock::blocking::Quorum;

use crate::common::PATIENCE;
use crate::world::{SECOND, World, eventually, freed, servers};

fn all_names_that_are_held_are_found(world: &World) {
    let (client, other) = (world.client(), world.client());
    let names: Vec<_> = (0..300).map(|number| format!("name/{number:03}")).collect();
    let guard = client.lock_all(&names).acquire(PATIENCE).unwrap();
    let mut found = Vec::new();
    let mut pages = other.held_names();
    for page in &mut pages {
        found.extend(page.unwrap().into_iter().filter(|(_, said)| said.holder().is_some()).map(|(name, _)| name));
    }
    found.sort();
    assert_eq!(found, names);
    assert!(pages.is_complete() && pages.looked_at() >= 900 && pages.unread().is_empty());
    assert!(pages.next().is_none());
    drop(guard);
}

fn a_holder_is_described_to_who_looks_and_to_who_waits_in_vain(world: &World) {
    let (client, other) = (world.client(), world.client());
    let _guard = client.lock("prod").describe("deploy #812").acquire(PATIENCE).unwrap();
    let says = || other.inspect("prod").unwrap().description().is_some_and(|told| &*told.says == "deploy #812");
    eventually("nodes have the note", says);
    let late = other.lock("prod").acquire(Duration::ZERO).unwrap_err();
    assert_eq!(late.holder_says(), Some("deploy #812"));
    assert!(client.lock("other").describe("a\nb").acquire(SECOND).unwrap_err().is_config());
}

fn a_name_is_taken_from_its_holder(world: &World) {
    let (client, other) = (world.client(), world.client());
    let guard = client.lock("a").acquire(PATIENCE).unwrap();
    let taken = other.force_release("a").unwrap();
    assert!(taken.fence > guard.token());
    freed(&other, "a");
}

fn a_node_is_retired_and_that_is_taken_back(world: &World) {
    let client = world.client();
    let members = client.members().unwrap();
    assert!(members.nodes.len() == 3 && members.nodes.iter().all(|node| node.roster.is_ok()));
    let node = members.nodes[2].node.clone();
    assert_eq!(client.retire(&node).unwrap().node, node);
    let retired = |quorum: &Quorum| {
        let members = quorum.members().unwrap();
        members.nodes.iter().filter(|node| node.roster.as_ref().is_ok_and(|roster| roster.retired.is_some())).count()
    };
    assert_eq!(retired(&client), 1);
    assert!(client.reset(&node).unwrap().was.is_some());
    assert_eq!(retired(&client), 0);
    assert!(client.reset(&node).unwrap().was.is_none());
    let error = client.retire("redis://nobody").unwrap_err();
    assert!(error.is_config() && error.to_string().contains("none of these nodes"), "{error}");
}

both!(
    all_names_that_are_held_are_found,
    a_holder_is_described_to_who_looks_and_to_who_waits_in_vain,
    a_name_is_taken_from_its_holder,
    a_node_is_retired_and_that_is_taken_back,
);

/// Each quorum has a thread of its own.
#[test]
fn new_servers_are_taught_which_tokens_the_old_ones_dealt() {
    let all = servers(4);
    let of = |range: &[_]| {
        let urls = range.iter().map(crate::common::server::Server::url);
        QuorumBuilder::default().nodes(urls).max_ttl(3 * SECOND).ttl(3 * SECOND)
    };
    let client = Quorum::connect(of(&all[..3])).unwrap();
    let token = client.lock("a").acquire(PATIENCE).unwrap().token();
    let old = Quorum::connect(of(&all[..3]).onlooker()).unwrap();
    let new = Quorum::connect(of(&all[3..]).onlooker()).unwrap();
    let early = old.teach(&new).unwrap_err();
    assert!(early.is_unavailable() && early.to_string().contains("ask again"), "{early}");
    assert!(old.teach(&old).unwrap_err().is_config(), "it knows already");
    client.shutdown(PATIENCE).unwrap();
    drop(client);
    eventually("its entries have ended", || old.teach(&new).is_ok_and(|high| high >= token));
    let after = Quorum::connect(of(&all[3..])).unwrap();
    assert!(after.lock("a").acquire(PATIENCE).unwrap().token() > token);
}

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
fn after_a_shutdown_nothing_is_told() {
    let quorum = Quorum::in_memory(3).unwrap();
    let mut names = quorum.held_names();
    quorum.shutdown(PATIENCE).unwrap();
    assert!(names.next().unwrap().unwrap_err().is_closed());
    assert!(names.next().is_none(), "an error is the end");
    assert!(quorum.members().unwrap_err().is_closed());
    assert!(quorum.retire("memory://0").unwrap_err().is_closed());
    assert!(quorum.reset("memory://0").unwrap_err().is_closed());
    assert!(quorum.teach(&Quorum::in_memory(1).unwrap()).unwrap_err().is_closed());
    assert!(quorum.force_release("a").unwrap_err().is_closed());
}
