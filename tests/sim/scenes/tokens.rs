//! Tokens grow though clocks are hours apart and nodes have forgotten their fences.

use super::part::Part;
use super::script::{NEVER, Script, forgets, millis, restarts};
use crate::cue::Cue;

/// The wall clock of a process is hours ahead of all others.
fn ahead(script: &mut Script, process: usize) {
    let by_ms = script.about(600_000, 80_000_000) as i64;
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
    let later = script.about(95_000, 120_000);
    script.asks(later, 1, brief());
}

/// The first process is granted a token by n1 and n2, and n1, which is all that it shares with the
/// second, forgets that.
fn the_common_node_forgets(script: &mut Script, processes: usize) {
    script.world(3, processes, 1_000, 8_000);
    ahead(script, 0);
    script.hold_back(0, &[0], 0..NEVER, NEVER);
    script.hold_back(1, &[2], 0..NEVER, NEVER);
    script.asks(30, 0, brief());
    script.at(400, forgets(1));
}

/// The node that two quorums share forgets the first one's token. A third process teaches it what
/// the others know.
pub fn a_node_that_forgot_is_taught(script: &mut Script) {
    the_common_node_forgets(script, 3);
    // By then everybody has probed the node, and a round's time has passed since.
    let votes = script.about(11_500, 3_000);
    script.asks(votes, 1, brief());
}

/// The same where a period is over soon after that: what was taught stays.
pub fn a_period_is_over_after_a_lesson(script: &mut Script) {
    the_common_node_forgets(script, 3);
    // One period, and not two.
    let votes = script.about(37_000, 30_000);
    script.asks(votes, 1, brief());
}

/// The same where the node has a low fence for the name by then, of a fourth process that gave up
/// while it was quarantined.
pub fn a_lesson_is_about_names_that_are_stored_too(script: &mut Script) {
    the_common_node_forgets(script, 4);
    script.hold_back(3, &[2], 0..NEVER, NEVER);
    let gives_up = script.about(500, 1_500);
    script.asks(900, 3, Part { timeout: millis(gives_up), ..Part::default() });
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

/// All nodes restart with their data, and then all once more, faster than any is taught. That which
/// two quorums share has forgotten the first one's token by then. Too few know to teach it, but one
/// of the others has that token, and tells it while it is in quarantine itself.
pub fn what_too_few_know_is_told(script: &mut Script) {
    script.world(3, 3, 1_000, 8_000);
    ahead(script, 0);
    script.hold_back(0, &[0], 0..NEVER, NEVER);
    script.hold_back(1, &[2], 0..NEVER, NEVER);
    script.asks(30, 0, brief());
    for node in 0..3 {
        script.at(300 + 40 * node as u64, restarts(node));
    }
    script.at(1_000, forgets(1));
    script.at(1_100, restarts(0));
    let third = script.about(4_500, 500);
    script.at(third, restarts(2));
    // The second process counts the two by then, and nobody counts the third.
    let votes = script.about(11_200, 900);
    script.asks(votes, 1, brief());
}

/// The node that two quorums share forgets the first one's token, and the other that has it
/// restarts with its data. Nothing that this one says is heard from shortly before the quarantine
/// of the first ends until shortly after that.
pub fn asked_before_a_quarantine_ends_and_answered_behind_it(script: &mut Script) {
    script.world(3, 2, 1_000, 5_700);
    ahead(script, 0);
    script.hold_back(0, &[0], 0..NEVER, NEVER);
    script.asks(30, 0, brief());
    script.at(350, Cue::Kill(0));
    // By then a connection that ends is made again at once.
    script.at(6_000, forgets(1));
    script.at(6_300, restarts(2));
    // It is asked at 11,100, and waited for until 12,100; the quarantine ends at 11,700.
    let heard = script.about(12_200, 100);
    script.hold_one_way(1, &[2], 1, 10_900..11_900, heard);
    script.asks(12_130, 1, brief());
}

/// The same node restarts when nobody is there. Who comes later, when it is no longer young, asks
/// at once.
pub fn a_node_that_forgot_unseen_is_taught(script: &mut Script) {
    script.world(3, 1, 1_000, 1_500);
    ahead(script, 0);
    script.hold_back(0, &[0], 0..NEVER, NEVER);
    script.asks(30, 0, brief());
    script.at(350, Cue::Kill(0));
    script.at(400, forgets(1));
    // Rosters have forgotten the process before by then.
    let comes = script.about(18_000, 2_000);
    script.jitter = 6;
    script.at(comes, Cue::Starts);
    // While it is being connected.
    script.asks(comes + 6, 1, brief());
}

/// The clock of the node that two quorums share is set forward and right again. Meanwhile the fence
/// expires, long before its time.
pub fn fences_expire_while_a_clock_is_wrong(script: &mut Script) {
    script.world(3, 2, 1_000, 1_500);
    ahead(script, 0);
    script.hold_back(0, &[0], 0..NEVER, NEVER);
    script.hold_back(1, &[2], 0..NEVER, NEVER);
    script.asks(30, 0, brief());
    script.at(2_000, Cue::StepClock { node: 1, by_ms: 3_600_000 });
    // By then everybody has probed the node.
    let right = script.about(6_000, 1_000);
    script.at(right, Cue::StepClock { node: 1, by_ms: -3_600_000 });
    let later = script.about(14_000, 4_000);
    script.asks(later, 1, brief());
}

/// The clock of the node that two quorums share is set back before the first of them. Minutes later
/// the node has forgotten that fence, and its clock shows a time that is not as late as it was.
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
