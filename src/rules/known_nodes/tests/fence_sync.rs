//! Nodes that forgot are synced to the ballots that other nodes granted.

use super::*;

/// A node that forgot its grants 10 s ago: it can be synced now, and its quarantine ends in 50 s.
fn forgot(bench: &Bench) -> Known {
    let record = Record { synced: false, age: SECOND * 10, ..bench.record(0) };
    Known { settles_at: bench.now, free_at: bench.now + SECOND * 50, ..bench.known(Some(record)) }
}

/// All other nodes answer now, each with this `high` and whether it is synced.
fn others(bench: &mut Bench, highs: &[(u64, bool)]) {
    for (node, &(high, synced)) in (1..).zip(highs) {
        let record = Record { high, synced, ..bench.record(node) };
        bench.hears(node, Some(record));
    }
}

fn sync(bench: &mut Bench) -> Option<u64> {
    bench.plan().hellos.into_iter().find(|(node, _)| *node == 0).and_then(|(_, wanted)| wanted.sync)
}

#[test]
fn node_that_forgot_is_synced_to_the_highest_ballot_of_others() {
    let mut bench = Bench::up(3);
    bench.passes(5);
    let known = forgot(&bench);
    bench.knows(0, known);
    bench.passes(5);
    others(&mut bench, &[(7, true), (9, true)]);
    assert_eq!(sync(&mut bench), Some(9));
    assert_eq!(sync(&mut bench), None, "the hello was sent");
}

#[test]
fn node_that_never_forgot_is_not_synced() {
    let mut bench = Bench::up(3);
    bench.passes(4_500);
    others(&mut bench, &[(7, true), (9, true)]);
    let hello = bench.hello(0);
    assert_eq!((hello.intent, hello.sync), (Intent::Keep, None));
}

#[test]
fn ballots_read_while_rounds_may_run_sync_nothing() {
    let mut bench = Bench::up(3);
    others(&mut bench, &[(7, true), (9, true)]);
    let known = forgot(&bench);
    bench.passes(5);
    bench.knows(0, Known { at: bench.now, ..known });
    assert_eq!(sync(&mut bench), None, "b and c were asked before");
    bench.passes(5);
    others(&mut bench, &[(7, true)]);
    assert_eq!(sync(&mut bench), None, "c was asked before");
    bench.passes(5);
    others(&mut bench, &[(8, true), (9, true)]);
    assert_eq!(sync(&mut bench), Some(9));
}

#[test]
fn node_is_not_synced_before_its_extensions_count() {
    let mut bench = Bench::up(3);
    let known = Known { settles_at: bench.now + SECOND, ..forgot(&bench) };
    bench.knows(0, known);
    bench.passes(1_000);
    others(&mut bench, &[(7, true), (9, true)]);
    assert_eq!(sync(&mut bench), None);
}

#[test]
fn nodes_that_forgot_sync_nobody() {
    let mut bench = Bench::up(3);
    let known = forgot(&bench);
    bench.knows(0, known);
    bench.passes(5);
    others(&mut bench, &[(7, true), (9, false)]);
    assert_eq!(sync(&mut bench), None);
}

#[test]
fn unsynced_peers_sync_a_node_two_seconds_after_quarantine() {
    let after = |ms| {
        let mut bench = Bench::up(3);
        let known = forgot(&bench);
        bench.passes(ms);
        bench.knows(0, Known { at: bench.now, ..known });
        others(&mut bench, &[(7, true), (9, false)]);
        sync(&mut bench)
    };
    assert_eq!((after(52_000), after(52_001)), (None, Some(9)), "then the `high` of an unsynced node counts");
}

#[test]
fn late_sync_needs_a_quorum() {
    let late = |others_heard: &[(u64, bool)]| {
        let mut bench = Bench::up(5);
        let known = forgot(&bench);
        bench.passes(52_001);
        bench.knows(0, Known { at: bench.now, ..known });
        others(&mut bench, others_heard);
        sync(&mut bench)
    };
    assert_eq!(late(&[(7, false)]), None);
    assert_eq!(late(&[(7, false), (3, false)]), Some(7));
}

#[test]
fn plan_is_due_when_a_node_can_be_synced() {
    let mut bench = Bench::up(3);
    bench.passes(5);
    let known = Known { settles_at: bench.now + SECOND, ..forgot(&bench) };
    bench.knows(0, known);
    assert_eq!(bench.plan().due, bench.now + SECOND);
}
