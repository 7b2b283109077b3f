//! Tokens grow though clocks are hours apart and nodes have forgotten their fences.

use super::part::Part;
use super::script::{NEVER, Script, forgets, millis};
use crate::cue::Cue;

/// The wall clock of a process is hours ahead of all others.
fn ahead(script: &mut Script, process: usize) {
    let by_ms = script.about(600_000, 10_000_000) as i64;
    script.at(0, Cue::StepWall { process, by_ms });
}

fn brief() -> Part {
    Part { hold: millis(100), ..Part::default() }
}

/// Minutes after one holder, nodes have forgotten the fence of the name. The next one's clock is
/// hours behind.
pub fn fences_are_forgotten_and_tokens_grow(script: &mut Script) {
    script.world(3, 2, 1_000, 1_500);
    ahead(script, 0);
    script.hold_back(0, &[0], 0..NEVER, NEVER);
    script.hold_back(1, &[2], 0..NEVER, NEVER);
    script.asks(30, 0, brief());
    let later = script.about(140_000, 120_000);
    script.asks(later, 1, brief());
}

/// The node that two quorums share forgets the first one's token. A third process teaches it what
/// the others know.
pub fn a_node_that_forgot_is_taught(script: &mut Script) {
    script.world(3, 3, 1_000, 8_000);
    ahead(script, 0);
    script.hold_back(0, &[0], 0..NEVER, NEVER);
    script.hold_back(1, &[2], 0..NEVER, NEVER);
    script.asks(30, 0, brief());
    script.at(400, forgets(1));
    // By then everybody has probed the node, and a round's time has passed since.
    let votes = script.about(11_500, 3_000);
    script.asks(votes, 1, brief());
}

/// The same among five, where one of those that had granted the token has forgotten it as well, and
/// the only one left that knows it answers late.
pub fn who_forgot_does_not_teach(script: &mut Script) {
    script.world(5, 3, 1_000, 9_000);
    ahead(script, 0);
    script.hold_back(0, &[3, 4], 0..NEVER, NEVER);
    script.hold_back(1, &[0, 1], 0..NEVER, NEVER);
    script.asks(30, 0, brief());
    script.at(400, forgets(2));
    script.at(700, forgets(0));
    // The third process has its probe of 5 s from the two, and its lesson a round later.
    script.hold_one_way(2, &[1], 1, 9_300..10_300, 10_350);
    let votes = script.about(11_500, 3_000);
    script.asks(votes, 1, brief());
}
