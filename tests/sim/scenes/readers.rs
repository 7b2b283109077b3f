//! Many readers, or one writer.

use super::part::Part;
use super::script::{Script, millis};
use crate::cue::Cue;
use crate::plan::LOST;

fn reads(timeout: u64, hold: u64) -> Part {
    Part { shared: true, ..writes(timeout, hold) }
}

fn writes(timeout: u64, hold: u64) -> Part {
    Part { timeout: millis(timeout), hold: millis(hold), ..Part::default() }
}

/// Readers and writers from several processes ask at any time.
pub fn readers_among_writers(script: &mut Script) {
    script.world(3, 3, 2_000, 3_000);
    for nth in 0..60u64 {
        let (at, hold) = (script.about(nth * 20, 60), script.about(30, 60));
        let part = if nth % 4 == 0 { writes(8_000, hold) } else { reads(8_000, hold) };
        script.asks(at, nth as usize % 3, Part { must: true, ..part });
    }
}

/// Some reader always holds the name. A writer must get the name before readers that asked later.
pub fn a_writer_among_readers(script: &mut Script) {
    script.world(5, 3, 2_000, 4_000);
    for nth in 0..200u64 {
        let hold = script.about(60, 40);
        script.asks(nth * 15, 1 + nth as usize % 2, reads(60_000, hold));
    }
    let at = script.about(500, 500);
    script.asks(at, 0, Part { must: true, ..writes(800, 20) });
}

/// A reads, B waits to write, and C waits behind B to read. B gives up, and C must read at once.
pub fn a_writer_gives_up_between_two_readers(script: &mut Script) {
    script.world(3, 3, 2_000, 3_000);
    script.jitter = 2;
    script.asks(0, 0, reads(5_000, 3_000));
    script.asks(50, 1, writes(300, 20));
    script.asks(100, 2, Part { must: true, ..reads(300, 100) });
}

/// A reader waits, and its pushes are lost. In reply to its asks, nodes must show the ballot with
/// which they handed the name over to this reader.
pub fn handed_over_with_a_ballot_that_it_does_not_know(script: &mut Script) {
    script.world(3, 2, 4_000, 5_000);
    script.plan.hints = LOST;
    let hold = script.about(300, 500);
    script.asks(0, 0, writes(1_000, hold));
    script.asks(50, 1, Part { must: true, ..reads(hold + 1_200, 100) });
}

/// A writer releases. The waiting reader gives up before it learns that it was handed the name. The
/// next writer must get the name at once.
pub fn a_reader_gives_up_before_it_hears_of_a_hand_over(script: &mut Script) {
    script.world(3, 3, 8_000, 9_000);
    script.jitter = 2;
    let hold = script.about(300, 200);
    script.asks(0, 0, writes(1_000, hold));
    script.asks(20, 1, reads(hold + 80, 100));
    script.hold_one_way(1, &[0, 1, 2], 1, hold - 10..hold + 300, hold + 300);
    script.asks(hold + 200, 2, Part { must: true, ..writes(1_500, 20) });
}

/// One of two readers dies, and the other goes on. A writer must get the name when the live reader
/// has released it and the hold of the dead reader has ended.
pub fn a_reader_that_died_among_others(script: &mut Script) {
    script.world(5, 3, 1_000, 4_000);
    script.asks(0, 0, Part { must_keep: true, ..reads(5_000, 3_500) });
    script.asks(100, 1, reads(5_000, 30_000));
    let dies = script.about(300, 1_500);
    script.at(dies, Cue::Kill(1));
    // At this time, the hold of the dead reader has ended. The live reader releases at 3.5 s.
    script.asks(2_900, 2, Part { must: true, ..writes(1_000, 20) });
}

/// A writer becomes a reader just before its lock ends, and its claims as a reader are late.
/// Meanwhile another writer got the name and died, so the nodes still know this second writer.
pub fn a_writer_whose_time_ends_while_it_becomes_a_reader(script: &mut Script) {
    script.world(3, 2, 2_000, 3_000);
    script.jitter = 0;
    let yields = script.about(1_780, 100);
    let (renewed, patient) = (false, Some(millis(900)));
    script.asks(0, 0, Part { downgrades: true, renewed, round_timeout: patient, ..writes(1_000, yields) });
    let late = script.about(2_400, 100);
    script.hold_one_way(0, &[0, 1, 2], 0, 1_700..2_100, late);
    script.asks(500, 1, Part { must: true, renewed, ttl: Some(millis(250)), ..writes(5_000, 10_000) });
    script.at(2_150, Cue::Kill(1));
}
