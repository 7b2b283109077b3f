//! Clients of different lists that share one node: one of the lists has the name, and the other never.

use super::part::Part;
use super::script::{Script, forgets, millis, pause};
use crate::cue::Cue;
use crate::judge::history::{Answer, Memory, Verb};

fn asks_for(timeout: u64, hold: u64) -> Part {
    Part { timeout: millis(timeout), hold: millis(hold), ..Part::default() }
}

/// The second comes when the first has its list.
fn first_alone(script: &mut Script) {
    script.processes = 1;
    script.at(10, Cue::Starts);
}

/// Both start at the same moment and ask again and again. In the end one of them goes, and the other has
/// it in bounded time.
pub fn two_lists_share_a_node(script: &mut Script) {
    script.two_lists(3_000, 5_000);
    for process in 0..2 {
        for at in [0, 1_500, 4_000, 9_000] {
            script.asks(at, process, asks_for(2_000, 1_500));
        }
    }
    let goes = script.dice.index(2);
    script.at(14_000, Cue::Kill(goes));
}

/// The first has its list, and stands still for so long that the second may have its own. When it goes
/// on it asks at once, with its connections alive.
pub fn stalled_over_a_cold_change(script: &mut Script) {
    script.two_lists(3_000, 5_000);
    first_alone(script);
    let length = script.about(30_000, 4_000);
    script.at(1_000, pause(0, length));
    script.asks(1_500, 1, asks_for(60_000, 60_000));
    script.asks(2_000, 0, asks_for(5_000, 2_000));
    // What it is told by the node that they share comes late.
    script.hold_one_way(0, &[2], 1, 20_000..length + 1_500, length + 2_000);
    script.at(length + 8_000, Cue::Kill(0));
}

/// The first is granted the name late in the life of its enrolment, and stands still.
pub fn who_stands_still_holds(script: &mut Script) {
    script.two_lists(20_000, 20_000);
    first_alone(script);
    script.once_answered(Verb::Claim, 0, Answer::Granted, 2, pause(0, 40_000));
    let at = script.about(0, 9_000);
    script.asks(at, 0, Part { renewed: false, ..asks_for(3_000, 60_000) });
    script.asks(at + 500, 1, asks_for(60_000, 5_000));
    script.at(at + 70_000, Cue::Kill(0));
}

/// The second starts later, and asks before it has heard of the node that they share. (Its nodes were taught by one of
/// the same list that has gone: else its votes would wait for that.)
pub fn the_common_node_is_slow(script: &mut Script) {
    script.two_lists(3_000, 5_000);
    script.plan.lists.swap(0, 1);
    script.processes = 1;
    script.at(3_000, Cue::Kill(0));
    script.at(24_000, Cue::Starts);
    script.asks(25_000, 1, asks_for(5_000, 20_000));
    script.at(30_000, Cue::Starts);
    let late = script.about(200, 600);
    script.hold_one_way(2, &[2], 0, 29_900..30_700, 30_000 + late);
    for at in [30_050, 30_200, 30_500] {
        script.asks(at, 2, asks_for(1_500, 1_000));
    }
    script.at(38_000, Cue::Kill(2));
}

/// The second was refused. The node that they share restarts, and forgets its roster; the first comes
/// back to it a little later than the second.
pub fn the_common_node_restarts(script: &mut Script) {
    script.two_lists(3_000, 5_000);
    script.asks(0, 0, asks_for(5_000, 30_000));
    script.processes = 1;
    script.at(2_000, Cue::Starts);
    let down = script.about(1, 1_500);
    script.at(5_000, Cue::Crash { node: 2, memory: Memory::Empty, down: millis(down) });
    script.hold_back(0, &[2], 5_000..5_000 + down + 1_000, 5_000 + down + 1_000);
    for at in [3_000, 5_100, 6_000, 8_000] {
        script.asks(at, 1, asks_for(1_500, 1_000));
    }
    let again = script.about(12_000, 1_000);
    script.at(again, forgets(2));
    script.asks(again + 50, 1, asks_for(1_500, 1_000));
    script.at(20_000, Cue::Kill(1));
}
