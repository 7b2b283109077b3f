//! Sets whose names had very different tokens before all names got one token.

use super::part::Part;
use super::script::{Script, millis};
use crate::cue::Cue;

/// A holds the first name of its set and waits for the second, which B holds.
fn waits(script: &mut Script, ttl: u64, until: u64) {
    script.world(3, 3, ttl, ttl + 500);
    script.jitter = 2;
    (script.plan.names, script.plan.checking) = (2, vec![true; 2]);
    script.asks(20, 1, Part { names: &[1], hold: millis(until - 20), ..Part::default() });
    script.asks(100, 0, Part { names: &[0, 1], timeout: millis(20_000), hold: millis(200), ..Part::default() });
}

/// B, whose clock is an hour ahead, hands the second name over to A. After this hand-over, A's
/// messages are held back. Meanwhile C gets the first name, with a token between the tokens of A's
/// two names.
pub fn cut_off_set_ends_when_another_owner_has_one_of_its_names(script: &mut Script) {
    waits(script, 2_000, 400);
    script.at(300, Cue::StepWall { process: 1, by_ms: 3_600_000 });
    let late = script.about(3_000, 500);
    script.hold_one_way(0, &[0, 1, 2], 0, 380..late, late);
    script.asks(500, 2, Part { hold: millis(4_000), must: true, must_keep: true, ..Part::default() });
}

/// C revokes the first name from A just before A gets the second name and renews the set.
pub fn name_of_a_set_is_revoked_right_before_the_last_one_comes(script: &mut Script) {
    waits(script, 9_000, 500);
    let at = script.about(300, 180);
    script.at(at, Cue::Revokes { process: 2, name: 0 });
}
