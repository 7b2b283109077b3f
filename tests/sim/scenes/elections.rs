//! What observers see of leaders.

use super::part::Part;
use super::script::{Script, millis};
use crate::cue::Cue;
use crate::plan::LOST;

/// n0 is the first node that stores and publishes the last value. Observers see this value, and
/// then cannot reach n0 any more. n1 and n2 still have the former value, which n1 publishes late.
pub fn a_node_that_knows_the_last_value_cannot_be_reached(script: &mut Script) {
    script.world(3, 3, 4_000, 5_000);
    script.plan.elections = 1.0;
    script.plan.node_timeout = millis(3_000);
    script.jitter = 0;
    let leads = Part { proclaims: Some((2, millis(1_000))), hold: millis(2_000), ..Part::default() };
    script.asks(100, 0, leads);
    // These lines delay the first value at n1, and the second value at n1 and n2.
    let late = script.about(1_500, 400);
    script.hold_one_way(0, &[1], 0, 101..1_000, late);
    script.hold_one_way(0, &[1, 2], 0, 1_050..1_500, 2_500);
    let cut = script.about(1_250, 100);
    for process in [1, 2] {
        script.at(cut, Cue::Cut { process, node: 0, ways: [true; 2], last: millis(5_000) });
    }
}

/// Nothing that nodes publish is delivered, so observers must find changes by themselves.
pub fn news_of_leaders_is_lost(script: &mut Script) {
    script.world(3, 3, 4_000, 5_000);
    script.plan.elections = 1.0;
    script.plan.hints = LOST;
    let leads = Part { proclaims: Some((2, millis(1_000))), hold: millis(2_000), ..Part::default() };
    script.asks(100, 0, leads);
}
