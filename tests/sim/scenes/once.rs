//! Jobs that run once a period, in processes whose clocks differ.

use super::part::Part;
use super::script::{NEVER, Script, millis};
use crate::cue::Cue;

const PERIOD: u64 = 20_000;

fn claims(hold: u64) -> Part {
    Part { once_per: Some(millis(PERIOD)), hold: millis(hold), ..Part::default() }
}

/// The first process does the job within a second. The wall clocks of the others are half a minute
/// behind or ahead, so by their clocks another period has begun.
pub fn done_before_others_come_whose_clocks_differ(script: &mut Script) {
    script.world(3, 3, 2_000, 3_000);
    for (process, by_ms) in [(1, -30_000), (2, 30_000)] {
        script.at(0, Cue::StepWall { process, by_ms });
    }
    let hold = script.about(50, 400);
    script.asks(200, 0, Part { must: true, ..claims(hold) });
    for nth in 0..6u64 {
        let at = script.about(1_200 + nth * 300, 300);
        script.asks(at, 1 + nth as usize % 2, claims(50));
    }
}

/// A job takes so long that its lock is renewed. Renewals must not end the period.
pub fn renewed_before_it_is_done(script: &mut Script) {
    script.world(3, 3, 2_000, 3_000);
    let hold = script.about(2_000, 1_000);
    script.asks(200, 0, Part { must: true, ..claims(hold) });
    for nth in 0..6u64 {
        let at = script.about(4_000 + nth * 1_500, 1_000);
        script.asks(at, 1 + nth as usize % 2, claims(50));
    }
}

/// Many processes claim a period at the same moment, and their messages cross.
pub fn many_claim_a_period_at_once(script: &mut Script) {
    script.world(5, 5, 2_000, 3_000);
    script.jitter = 3;
    let undoes = script.dice.chance(0.5);
    for process in 0..5 {
        let hold = script.about(20, 200);
        script.asks(200, process, Part { dropped: undoes, ..claims(hold) });
    }
    for process in 0..5 {
        let at = script.about(1_500, 500);
        script.asks(at, process, claims(50));
    }
}

/// A claims the period but reaches only one node, so A gets nothing. B needs this node, and must
/// get the period later.
pub fn failed_claim_of_a_period_leaves_its_node_to_the_next(script: &mut Script) {
    script.world(3, 2, 2_000, 3_000);
    script.hold_back(0, &[1, 2], 0..3_000, NEVER);
    script.hold_back(1, &[1], 0..6_000, NEVER);
    script.asks(100, 0, claims(50));
    script.asks(3_500, 1, Part { must: true, ..claims(50) });
}

/// n0 grants the period to B, which reaches no other node and gives up later. A cannot reach n2. So
/// A has one vote of the two that it needs, and nobody has the period. A must try again, and get
/// the period once B has given up its vote.
pub fn split_claim_of_a_period_is_tried_again(script: &mut Script) {
    script.world(3, 2, 2_000, 3_000);
    script.hold_back(1, &[1, 2], 0..3_000, NEVER);
    script.hold_back(0, &[2], 0..3_000, NEVER);
    let gives_up = script.about(200, 200);
    script.asks(100, 1, Part { round_timeout: Some(millis(gives_up)), ..claims(50) });
    let next = script.about(150, 30);
    script.asks(next, 0, Part { must: true, ..claims(50) });
}
