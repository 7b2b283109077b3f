//! Who leads, as observers see it.

use super::part::Part;
use super::script::{Script, millis};
use crate::cue::Cue;
use crate::plan::LOST;

/// Of the last value one node knows first, and tells of it. Observers see it there, and reach that
/// node no more when another, which is late, tells of the value before: it and the third know that.
pub fn a_node_that_knows_the_last_value_cannot_be_reached(script: &mut Script) {
    script.world(3, 3, 4_000, 5_000);
    script.plan.elections = 1.0;
    script.plan.node_timeout = millis(3_000);
    script.jitter = 0;
    let leads = Part { proclaims: Some((2, millis(1_000))), hold: millis(2_000), ..Part::default() };
    script.asks(100, 0, leads);
    // The first value, and the second.
    let late = script.about(1_500, 400);
    script.hold_one_way(0, &[1], 0, 101..1_000, late);
    script.hold_one_way(0, &[1, 2], 0, 1_050..1_500, 2_500);
    let cut = script.about(1_250, 100);
    for process in [1, 2] {
        script.at(cut, Cue::Cut { process, node: 0, ways: [true; 2], last: millis(5_000) });
    }
}

/// Nothing that nodes publish arrives.
pub fn news_of_leaders_is_lost(script: &mut Script) {
    script.world(3, 3, 4_000, 5_000);
    script.plan.elections = 1.0;
    script.plan.hints = LOST;
    let leads = Part { proclaims: Some((2, millis(1_000))), hold: millis(2_000), ..Part::default() };
    script.asks(100, 0, leads);
}
