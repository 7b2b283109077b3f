//! Late messages of one owner, which arrive when this owner already holds the lock, or has released
//! it.

use super::part::Part;
use super::script::{NEVER, Script, millis, pause};
use crate::cue::Cue;
use crate::judge::history::Verb;

const HOUR: u64 = 3_600_000;

/// A holds n0 and n1. B waits on n0 and n1, is granted n2 and withdraws from n2. Before this late
/// withdrawal arrives, n0 and n1 hand the name over to B. B then loses n1, and depends on n0 and
/// n2.
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

/// B's claims with the pushed ballot are lost, so only its renewal raises the ballot of its hold on
/// n2. The late withdrawal must not end this hold.
pub fn a_withdrawal_comes_when_its_owner_holds(script: &mut Script) {
    withdrawn_late(script);
    script.strays(1, 2, Verb::Claim, 590..1_000, NEVER);
}

/// As `withdrawn_late`, but B's wall clock is ahead. So B withdraws ballots above the pushed
/// ballot, and must ask with a higher ballot.
pub fn pushed_ballot_is_below_ballots_withdrawn_elsewhere(script: &mut Script) {
    script.at(0, Cue::StepWall { process: 1, by_ms: 60_000 });
    withdrawn_late(script);
}

/// All nodes hand the name over to B. B reads one push, and asks with the pushed ballot. Before B's
/// claims arrive, C revokes the name with a token above this ballot.
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

/// B's wall clock is ahead, and its claim to n2 is late. The other nodes hand the name over to B
/// with a lower ballot. When the claim arrives, B has already released the name.
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

/// B's wall clock is ahead, so B has asked with a higher ballot than its token. B stands still
/// until its lock has ended. C gets a token between B's token and this ballot. Then B releases.
pub fn late_release_meets_a_token_between_its_token_and_ballot(script: &mut Script) {
    script.world(3, 3, 2_000, 2_500);
    script.jitter = 2;
    script.at(0, Cue::StepWall { process: 1, by_ms: 60_000 });
    script.asks(20, 0, Part { hold: millis(280), ..Part::default() });
    script.asks(100, 1, Part::default());
    let still = script.about(2_600, 300);
    script.at(450, pause(1, still));
    script.asks(600, 2, Part { hold: millis(3_000), must: true, must_keep: true, ..Part::default() });
}

/// A holds n0 and n1. B revokes the name on n1 and n2. After this revocation, A reaches n0 and n2.
/// n2 must remember the revocation for longer than a fence.
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
