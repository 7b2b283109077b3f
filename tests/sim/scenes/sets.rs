//! Locks on several names.

use std::time::Duration;

use super::part::Part;
use super::script::{NEVER, Script, millis};
use crate::cue::Cue;

/// A world with three names.
fn names(script: &mut Script, processes: usize) {
    script.world(5, processes, 2_000, 3_000);
    (script.plan.names, script.plan.checking) = (3, vec![true; 3]);
}

fn asks_for(names: &'static [u8], timeout: u64, hold: u64) -> Part {
    Part { names, timeout: millis(timeout), hold: millis(hold), ..Part::default() }
}

/// Callers ask for each of three names faster than they can hold this name in turn. A caller that
/// asks for all three must get them before callers that asked later.
pub fn a_set_among_locks_on_its_names(script: &mut Script) {
    names(script, 3);
    for nth in 0..200 {
        let name: &[u8] = [&[0], &[1], &[2]][nth % 3];
        let hold = script.about(40, 30);
        script.asks(nth as u64 * 10, 1 + nth % 2, asks_for(name, 60_000, hold));
    }
    let at = script.about(300, 200);
    script.asks(at, 0, Part { must: true, ..asks_for(&[0, 1, 2], 1_400, 20) });
}

/// Overlapping sets, from one process and from several, with their names in any order.
pub fn sets_that_overlap(script: &mut Script) {
    names(script, 3);
    let sets: [&[u8]; 6] = [&[0, 1], &[1, 2], &[2, 0], &[1, 0], &[2, 1], &[0, 2, 1]];
    for (nth, set) in sets.into_iter().cycle().take(24).enumerate() {
        let (at, process) = (script.about(nth as u64 * 3, 20), script.dice.index(3));
        script.asks(at, process, Part { must: true, ..asks_for(set, 8_000, 20) });
    }
}

/// A process that waits for a set dies. Names that it holds must become free after a ttl.
pub fn waiter_for_a_set_dies_and_its_names_become_free(script: &mut Script) {
    names(script, 3);
    script.asks(0, 0, asks_for(&[1], 5_000, 1_000));
    script.asks(100, 1, asks_for(&[0, 1, 2], 60_000, 20));
    let dies = script.about(200, 1_000);
    script.at(dies, Cue::Kill(1));
    for name in [&[0], &[2]] {
        script.asks(1_300, 2, Part { must: true, ..asks_for(name, 4_000, 10) });
    }
}

/// Overlapping sets beside a far node, with processes whose clocks are hours apart. Claims on near
/// nodes raise fences there again before the far node has answered other claims.
pub fn sets_that_overlap_beside_a_far_node(script: &mut Script) {
    script.world(4, 3, 2_000, 2_500);
    (script.plan.names, script.plan.checking) = (3, vec![true; 3]);
    script.plan.distant = vec![(0, Duration::from_millis(150))];
    let by_ms = script.about(30_000_000, 80_000_000) as i64;
    script.at(0, Cue::StepWall { process: 2, by_ms });
    let sets: [&[u8]; 4] = [&[0, 1, 2], &[2, 0], &[1, 0], &[0, 2, 1]];
    for (nth, set) in sets.into_iter().cycle().take(12).enumerate() {
        let at = script.about(600, 300);
        script.asks(at, nth % 3, Part { must: true, ..asks_for(set, 20_000, 20) });
    }
}

/// No node holds all names of a set: on two nodes, a dead process holds one of the names. Each name
/// has a quorum of its own.
pub fn set_is_granted_though_no_node_has_all_its_names(script: &mut Script) {
    script.world(3, 4, 2_000, 20_000);
    (script.plan.names, script.plan.checking) = (3, vec![true; 3]);
    // This ttl is longer than the rest of the scene. It ends before the run checks that nothing is
    // left.
    let long = Some(Duration::from_secs(9));
    for (process, node, name) in [(2, 0, &[2][..]), (3, 2, &[0])] {
        let others: Vec<_> = (0..3).filter(|&other| other != node).collect();
        script.hold_back(process, &others, 0..1_000, NEVER);
        script.asks(0, process, Part { ttl: long, once: true, ..asks_for(name, 1_000, 10) });
        script.at(150, Cue::Kill(process));
    }
    let hold = script.about(1_500, 1_500);
    script.asks(300, 0, Part { must: true, must_keep: true, ..asks_for(&[0, 2], 3_000, hold) });
}

/// While a set waits for a name, a name that it holds is revoked. The set must begin anew.
pub fn waiting_set_begins_anew_when_a_held_name_is_revoked(script: &mut Script) {
    names(script, 3);
    let hold = script.about(1_500, 500);
    script.asks(0, 1, asks_for(&[1], 5_000, hold));
    script.asks(100, 0, Part { must: true, ..asks_for(&[0, 1], 8_000, 50) });
    let at = script.about(300, 600);
    script.at(at, Cue::Revokes { process: 2, name: 0 });
    script.asks(at + 100, 2, Part { must: true, ..asks_for(&[0], 8_000, 300) });
}

/// A set loses a name while it waits for another. Later callers wait for the lost name. The set
/// begins anew, and must get this name before these callers.
pub fn a_set_that_begins_anew_keeps_its_place(script: &mut Script) {
    names(script, 6);
    script.asks(0, 1, asks_for(&[1], 5_000, 2_000));
    script.asks(100, 0, Part { must: true, ..asks_for(&[0, 1], 3_500, 50) });
    let at = script.about(300, 100);
    script.at(at, Cue::Revokes { process: 2, name: 0 });
    for process in 2..6 {
        script.asks(150, process, asks_for(&[0], 20_000, 1_500));
    }
}

/// A name of a held set is revoked. The set must lose all its names.
pub fn set_loses_all_names_when_one_is_revoked(script: &mut Script) {
    names(script, 3);
    script.asks(0, 0, asks_for(&[0, 1], 5_000, 8_000));
    let at = script.about(200, 500);
    script.at(at, Cue::Revokes { process: 2, name: 1 });
    script.asks(at + 100, 1, Part { must: true, ..asks_for(&[1], 5_000, 500) });
}

/// A set gets its names one after the other, and its holder dies soon after the last one. The next
/// holder of the first name has a clock that is behind, but must still get a higher token.
pub fn the_holder_of_a_set_that_was_gathered_dies(script: &mut Script) {
    names(script, 3);
    script.at(0, Cue::StepWall { process: 2, by_ms: -3_600_000 });
    let hold = script.about(200, 200);
    script.asks(50, 1, asks_for(&[1], 5_000, hold));
    script.asks(100, 0, asks_for(&[0, 1], 5_000, 5_000));
    script.at(hold + 150, Cue::Kill(0));
    script.asks(hold + 250, 2, Part { must: true, ..asks_for(&[0], 6_000, 100) });
}
