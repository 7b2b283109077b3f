//! Tokens must grow even if clocks are hours apart and nodes have forgotten their fences.

use super::part::Part;
use super::script::{NEVER, Script, forgets, millis};
use crate::cue::Cue;

/// Sets the wall clock of a process ahead of all others, by minutes or hours.
fn ahead(script: &mut Script, process: usize) {
    let by_ms = script.about(600_000, 80_000_000) as i64;
    script.at(0, Cue::StepWall { process, by_ms });
}

fn brief() -> Part {
    Part { hold: millis(100), ..Part::default() }
}

/// A process holds the lock. Minutes later, nodes have forgotten the fence of the name. The next
/// holder's clock is hours behind.
pub fn fences_are_forgotten_and_tokens_grow(script: &mut Script) {
    script.world(3, 2, 1_000, 1_500);
    ahead(script, 0);
    script.hold_back(0, &[0], 0..NEVER, NEVER);
    script.hold_back(1, &[2], 0..NEVER, NEVER);
    script.asks(30, 0, brief());
    let later = script.about(95_000, 120_000);
    script.asks(later, 1, brief());
}

/// n1 and n2 grant the first process a token. The second process shares only n1 with the first, and
/// n1 forgets the token.
fn the_common_node_forgets(script: &mut Script, processes: usize) {
    script.world(3, processes, 1_000, 8_000);
    ahead(script, 0);
    script.hold_back(0, &[0], 0..NEVER, NEVER);
    script.hold_back(1, &[2], 0..NEVER, NEVER);
    script.asks(30, 0, brief());
    script.at(400, forgets(1));
}

/// The node that two quorums share forgets the first token. A third process syncs this node.
pub fn the_common_node_is_synced(script: &mut Script) {
    the_common_node_forgets(script, 3);
    // At this time, MAX_ROUND and the quarantine have passed.
    let votes = script.about(11_500, 3_000);
    script.asks(votes, 1, brief());
}

/// As `the_common_node_is_synced`, but a floor period (35 s) ends after the sync. The floor must
/// keep the synced ballot.
pub fn a_period_is_over_after_a_sync(script: &mut Script) {
    the_common_node_forgets(script, 3);
    // At this time, one floor period has passed, but not two.
    let votes = script.about(37_000, 30_000);
    script.asks(votes, 1, brief());
}

/// As `the_common_node_is_synced`, but the node stores a low fence for the name: a fourth process
/// gave up its wait while the node was quarantined.
pub fn a_sync_is_about_names_that_are_stored_too(script: &mut Script) {
    the_common_node_forgets(script, 4);
    script.hold_back(3, &[2], 0..NEVER, NEVER);
    let gives_up = script.about(500, 1_500);
    script.asks(900, 3, Part { timeout: millis(gives_up), ..Part::default() });
    let votes = script.about(11_500, 3_000);
    script.asks(votes, 1, brief());
}

/// The clock of the node that two quorums share is set forward, and later back. While the clock is
/// wrong, the fence expires, long before its time.
pub fn fences_expire_while_a_clock_is_wrong(script: &mut Script) {
    script.world(3, 2, 1_000, 1_500);
    ahead(script, 0);
    script.hold_back(0, &[0], 0..NEVER, NEVER);
    script.hold_back(1, &[2], 0..NEVER, NEVER);
    script.asks(30, 0, brief());
    script.at(2_000, Cue::StepClock { node: 1, by_ms: 3_600_000 });
    // At this time, every process has read the node's clock.
    let right = script.about(6_000, 1_000);
    script.at(right, Cue::StepClock { node: 1, by_ms: -3_600_000 });
    let later = script.about(14_000, 4_000);
    script.asks(later, 1, brief());
}

/// The clock of the node that two quorums share is set back before the first process acquires.
/// Minutes later the node has forgotten the fence, and its clock still shows an earlier time than
/// right before the step.
pub fn a_clock_is_set_back_before_fences_are_forgotten(script: &mut Script) {
    script.world(3, 2, 1_000, 1_500);
    ahead(script, 0);
    script.hold_back(0, &[0], 0..NEVER, NEVER);
    script.hold_back(1, &[2], 0..NEVER, NEVER);
    let by_ms = -(script.about(600_000, 3_000_000) as i64);
    script.at(500, Cue::StepClock { node: 1, by_ms });
    script.asks(3_000, 0, brief());
    let later = script.about(135_000, 100_000);
    script.asks(later, 1, brief());
}
