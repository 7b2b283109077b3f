//! Nodes that are retired: nobody counts their votes any more, and whoever has a quorum without
//! them goes on.

use super::part::Part;
use super::script::{Script, forgets, millis};
use crate::cue::Cue;

fn asks_for(timeout: u64, hold: u64) -> Part {
    Part { timeout: millis(timeout), hold: millis(hold), ..Part::default() }
}

/// All nodes of a list are retired, and clients of another one come when nothing rests on them any
/// more. One of the old list, which nobody has stopped, asks again and again.
pub fn an_old_client_finds_only_retired_nodes(script: &mut Script) {
    script.world(6, 1, 3_000, 5_000);
    script.plan.lists = vec![vec![0, 1, 2], vec![3, 4, 5]];
    script.asks(0, 0, Part { must: true, ..asks_for(5_000, 1_000) });
    for node in 0..3 {
        let at = script.about(2_000, 500);
        script.at(at, Cue::Retire(node));
    }
    for at in [2_500, 6_000, 9_000, 12_000, 20_000, 24_500, 26_000, 28_000, 31_000] {
        script.asks(at, 0, asks_for(1_500, 1_000));
    }
    // What was enrolled before counts for 10 s, and lets a lock be held for a ttl.
    script.at(17_000, Cue::Starts);
    script.asks(23_000, 1, Part { must: true, ..asks_for(10_000, 12_000) });
    script.at(40_000, Cue::Kill(0));
}

/// One of three nodes is retired under a holder. Nobody notices, but that another must not fail;
/// until that is taken back.
pub fn a_retired_node_is_missed_by_nobody(script: &mut Script) {
    script.world(3, 2, 3_000, 5_000);
    let (node, next) = [(0, 1), (1, 2), (2, 0)][script.dice.index(3)];
    script.asks(0, 0, Part { must_keep: true, ..asks_for(5_000, 25_000) });
    let at = script.about(1_000, 3_000);
    script.at(at, Cue::Retire(node));
    script.asks(26_000, 1, Part { must: true, ..asks_for(8_000, 500) });
    script.at(32_000, Cue::Reset(node));
    // It counts again, since another one is quarantined now.
    let fails = script.about(44_000, 500);
    script.at(fails, forgets(next));
    script.asks(fails + 100, 0, Part { must: true, ..asks_for(2_500, 500) });
}
