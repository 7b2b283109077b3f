//! One owner an acquire: what it asked for with lower ballots, and withdrew, comes late.

use super::part::Part;
use super::script::{NEVER, Script, millis, pause};
use crate::cue::Cue;
use crate::judge::history::Verb;

const HOUR: u64 = 3_600_000;

/// A has n0 and n1. B, which waits for these, is granted n2 and withdraws that, and its withdrawals
/// come late: when it was handed n0 and n1, cannot reach n1 any more, and rests on n0 and n2.
fn withdrawn_late(script: &mut Script) {
    script.world(3, 3, 2_000, 2_500);
    script.jitter = 2;
    script.hold_back(0, &[2], 0..NEVER, NEVER);
    script.asks(0, 0, Part { hold: millis(600), ..Part::default() });
    let late = script.about(1_450, 400);
    script.strays(1, 2, Verb::Withdraw, 0..1_400, late);
    script.asks(100, 1, Part::default());
    script.hold_back(1, &[1], 720..NEVER, NEVER);
    script.asks(750, 2, Part { hold: millis(300), ..Part::default() });
}

/// A renewal raises the ballot of a hold: what was withdrawn before does not end it. No claim does: B's
/// claims with the ballot that it is handed never come.
pub fn a_withdrawal_comes_when_its_owner_holds(script: &mut Script) {
    withdrawn_late(script);
    script.strays(1, 2, Verb::Claim, 590..1_000, NEVER);
}

/// The same where B's wall clock is ahead: it withdraws ballots above the one that it is handed, so it
/// must ask above them.
pub fn a_push_is_below_what_was_withdrawn_elsewhere(script: &mut Script) {
    script.at(0, Cue::StepWall { process: 1, by_ms: 60_000 });
    withdrawn_late(script);
}

/// All nodes hand the name over to B, which hears of one, and asks with that ballot. Before its claims
/// come, the name is taken away from whoever has it by a token up to a higher one.
pub fn revoked_while_its_pushed_ballot_is_asked_with(script: &mut Script) {
    script.world(3, 3, 2_000, 2_500);
    script.jitter = 2;
    script.asks(20, 0, Part { hold: millis(390), ..Part::default() });
    script.asks(60, 1, Part { hold: millis(300), timeout: millis(5_000), must: true, ..Part::default() });
    script.hold_one_way(1, &[1, 2], 1, 405..425, NEVER);
    script.hold_one_way(1, &[0, 1, 2], 0, 405..470, 480);
    let at = script.about(430, 20);
    script.at(at, Cue::Revokes { process: 2, name: 0 });
}

/// B's wall clock is ahead, and its claim to n2 comes late: it is handed the name by the others, with
/// a lower ballot, and has let go of it by then.
pub fn a_claim_comes_behind_the_release_of_a_lower_token(script: &mut Script) {
    script.world(3, 2, 2_000, 2_500);
    script.jitter = 2;
    script.at(0, Cue::StepWall { process: 1, by_ms: 60_000 });
    script.hold_back(0, &[2], 0..NEVER, NEVER);
    script.asks(20, 0, Part { hold: millis(280), ..Part::default() });
    let late = script.about(800, 400);
    script.strays(1, 2, Verb::Claim, 0..290, late);
    script.asks(100, 1, Part { hold: millis(100), ..Part::default() });
}

/// B's wall clock is ahead: it asked with a higher ballot than it has the name by. It stands still
/// until its time is over, and C has the name by a token between the two when B lets go.
pub fn released_when_another_has_a_token_below_what_was_asked_with(script: &mut Script) {
    script.world(3, 3, 2_000, 2_500);
    script.jitter = 2;
    script.at(0, Cue::StepWall { process: 1, by_ms: 60_000 });
    script.asks(20, 0, Part { hold: millis(280), ..Part::default() });
    script.asks(100, 1, Part::default());
    let still = script.about(2_600, 300);
    script.at(450, pause(1, still));
    script.asks(600, 2, Part { hold: millis(3_000), must: true, must_keep: true, ..Part::default() });
}

/// A has n0 and n1, and it is taken away on n1 and n2. From then on it reaches n0 and n2, where what
/// was revoked must be known for longer than a fence.
pub fn revoked_longer_ago_than_fences_are_kept(script: &mut Script) {
    script.world(3, 2, 4 * HOUR, 4 * HOUR);
    script.node_timeout(1_000);
    script.hold_back(0, &[2], 0..500, NEVER);
    script.asks(20, 0, Part { hold: millis(5 * HOUR), ..Part::default() });
    script.hold_back(0, &[1], 500..NEVER, NEVER);
    script.hold_back(1, &[0], 0..NEVER, NEVER);
    let at = script.about(600, 2_000);
    script.at(at, Cue::Revokes { process: 1, name: 0 });
}
