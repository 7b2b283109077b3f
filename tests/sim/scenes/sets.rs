//! Locks on several names.

use std::time::Duration;

use super::part::Part;
use super::script::{Script, millis};
use crate::cue::Cue;

/// Three names.
fn names(script: &mut Script, processes: usize) {
    script.world(5, processes, 2_000, 3_000);
    (script.plan.names, script.plan.checking) = (3, vec![true; 3]);
}

fn asks_for(names: &'static [u8], timeout: u64, hold: u64) -> Part {
    Part { names, timeout: millis(timeout), hold: millis(hold), ..Part::default() }
}

/// Sets that overlap, from one process and from several, in any order of names.
pub fn sets_that_overlap(script: &mut Script) {
    names(script, 3);
    let sets: [&[u8]; 6] = [&[0, 1], &[1, 2], &[2, 0], &[1, 0], &[2, 1], &[0, 2, 1]];
    for (nth, set) in sets.into_iter().cycle().take(24).enumerate() {
        let (at, process) = (script.about(nth as u64 * 3, 20), script.dice.index(3));
        script.asks(at, process, Part { must: true, ..asks_for(set, 8_000, 20) });
    }
}

/// Whoever waits for a set dies: its names are free when its turns are over.
pub fn who_waits_for_a_set_dies(script: &mut Script) {
    names(script, 3);
    script.asks(0, 0, asks_for(&[1], 5_000, 1_000));
    script.asks(100, 1, asks_for(&[0, 1, 2], 60_000, 20));
    let dies = script.about(200, 1_000);
    script.at(dies, Cue::Kill(1));
    for name in [&[0], &[2]] {
        script.asks(1_300, 2, Part { must: true, ..asks_for(name, 4_000, 10) });
    }
}

/// The same beside a far node, by processes whose clocks are hours apart. Whoever tries a near node
/// that is free raises its fence, sooner and more often than the far one answers the others.
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
