//! Tries: calls that do not wait for other owners.

use super::part::Part;
use super::script::{Script, millis};

/// Three processes try at one moment. Each process reaches a different node first, and only this
/// node grants it. So nobody gets the name, and all three must try again.
pub fn tries_at_one_moment_split_the_votes(script: &mut Script) {
    script.world(3, 3, 2_000, 2_500);
    script.jitter = 3;
    for process in 0..3 {
        let far: Vec<_> = (0..3).filter(|&node| node != process).collect();
        let arrives = script.about(130, 20);
        script.hold_one_way(process, &far, 0, 90..120, arrives);
        script.asks(100, process, Part { once: true, hold: millis(500), ..Part::default() });
    }
}
