//! Nodes that forgot, by whatever means, and what their records tell of that. (The moments of
//! model_lists.py: A holds by n0 and n1, B reaches n0 and n2, M only says hello.)

use super::part::Part;
use super::script::{NEVER, Script, forgets, millis};
use crate::cue::Cue;
use crate::judge::history::Memory;

/// Later than anything happens.
pub const END: u64 = 99_000;

/// A world whose locks are as long as they may be.
pub fn world(script: &mut Script, nodes: usize, processes: usize) {
    script.world(nodes, processes, 20_000, 20_000);
    script.jitter = 50;
}

/// Holds until it loses the lock, or all is over.
pub fn holds() -> Part {
    Part { timeout: millis(5_000), hold: millis(200_000), ..Part::default() }
}

/// Waits for as long as a quarantine lasts.
pub fn waits() -> Part {
    Part { timeout: millis(60_000), hold: millis(20_000), ..Part::default() }
}

/// Has it for a moment.
pub fn brief() -> Part {
    Part { hold: millis(500), ..holds() }
}

/// It must get the lock at once.
pub fn must() -> Part {
    Part { must: true, timeout: millis(2_000), hold: millis(200), ..Part::default() }
}

/// Nothing goes between the process and these nodes.
pub fn cut(script: &mut Script, process: usize, sent: std::ops::Range<u64>, nodes: &[usize]) {
    script.hold_back(process, nodes, sent, NEVER);
}

/// A holds by n0 and n1 from the beginning on, M only says hello; B comes at `comes`, and is the
/// process of that number. It reaches n0 and n2.
fn beside_m(script: &mut Script, comes: u64) -> usize {
    world(script, 3, 2);
    script.asks(2_000, 0, holds());
    cut(script, 0, 1_900..END, &[2]);
    script.at(comes, Cue::Starts);
    cut(script, 2, 0..END, &[1]);
    2
}

/// n0 restarts empty, and B comes.
pub fn a_young_record(script: &mut Script) {
    let b = beside_m(script, 11_000);
    cut(script, 0, 9_900..40_000, &[0]);
    script.at(10_000, forgets(0));
    script.asks(12_500, b, waits());
}

/// The same, with an old copy of what it stored.
pub fn restarted_with_an_old_copy(script: &mut Script) {
    let b = beside_m(script, 11_000);
    script.at(1_750, Cue::Save(0));
    cut(script, 0, 9_900..40_000, &[0]);
    script.at(10_000, Cue::Crash { node: 0, memory: Memory::Old, down: millis(1) });
    script.asks(12_500, b, waits());
}

/// All keys of n0 are deleted by hand, and M makes a record that is old: nothing tells it better. B
/// knew the one before.
pub fn keys_are_deleted_and_another_id_is_seen(script: &mut Script) {
    world(script, 3, 2);
    script.asks(2_000, 0, holds());
    cut(script, 0, 1_900..END, &[2]);
    cut(script, 0, 9_900..END, &[0]);
    cut(script, 1, 3_000..END, &[1]);
    script.at(10_000, Cue::Wipe(0));
    script.at(10_200, Cue::Starts);
    cut(script, 2, 0..END, &[1, 2]);
    script.asks(17_000, 1, waits());
}

/// The running process of n0 loads an old state. B was granted something there since.
pub fn an_old_copy_is_loaded(script: &mut Script) {
    world(script, 3, 2);
    script.at(1_500, Cue::Save(0));
    script.asks(2_000, 1, brief());
    cut(script, 1, 3_000..END, &[1]);
    script.asks(4_000, 0, holds());
    cut(script, 0, 3_900..END, &[2]);
    cut(script, 0, 9_000..40_000, &[0]);
    script.at(10_000, Cue::Load(0));
    script.asks(16_000, 1, waits());
}

/// The clock of n0 is set forward right before B asks.
pub fn stepped_between_two_hellos(script: &mut Script) {
    world(script, 3, 2);
    script.asks(2_000, 0, holds());
    cut(script, 0, 1_900..END, &[2]);
    cut(script, 1, 3_000..END, &[1]);
    script.at(9_500, Cue::StepClock { node: 0, by_ms: 30_000 });
    script.asks(9_700, 1, waits());
}

/// A holds by n0 and n1, and n2 is down. n0 restarts empty: A has it renewed there in time. For a
/// while clients see two ids behind its name.
pub fn a_holder_renews_where_it_was_forgotten(script: &mut Script) {
    script.world(3, 1, 60_000, 60_000);
    script.jitter = 50;
    script.at(1_000, Cue::Crash { node: 2, memory: Memory::Kept, down: millis(END) });
    script.asks(2_000, 0, Part { must_keep: true, ..holds() });
    let at = script.about(4_100, 1_000);
    script.at(at, forgets(0));
    script.at(95_000, Cue::Kill(0));
}

/// A holds by n0 and n1, and n2 is down. n0 restarts empty, and n1 does so before A's next renewal is
/// due: A has had it renewed on n0 before that.
pub fn a_holder_outlives_that_one_node_after_the_other_forgets(script: &mut Script) {
    script.world(3, 1, 60_000, 60_000);
    script.jitter = 50;
    script.at(1_000, Cue::Crash { node: 2, memory: Memory::Kept, down: millis(END) });
    script.asks(2_000, 0, Part { must_keep: true, ..holds() });
    let at = script.about(3_500, 1_000);
    script.at(at, forgets(0));
    let at = script.about(13_000, 2_000);
    script.at(at, forgets(1));
    script.at(95_000, Cue::Kill(0));
}

/// FLUSHALL on n0. M, which knew it not before, makes the record, and B comes.
pub fn flushed_before_newcomers_come(script: &mut Script) {
    world(script, 3, 1);
    script.asks(2_000, 0, holds());
    cut(script, 0, 1_900..END, &[2]);
    cut(script, 0, 9_500..40_000, &[0]);
    script.at(10_000, Cue::Flush(0));
    script.at(10_100, Cue::Starts);
    cut(script, 1, 0..END, &[1, 2]);
    script.at(14_000, Cue::Starts);
    cut(script, 2, 0..END, &[1]);
    script.asks(15_500, 2, waits());
}

/// The keys of n0 are deleted by hand. M, which knew it not before, makes the record while A holds by
/// n1; C knows n0, and reaches it until then or later.
fn deleted_by_hand(script: &mut Script, alone: bool) {
    script.world(3, 2, 60_000, 60_000);
    script.jitter = 50;
    script.asks(2_000, 0, holds());
    cut(script, 0, 1_900..END, &[2]);
    cut(script, 0, 9_500..END, &[0]);
    cut(script, 1, 9_500..if alone { 14_000 } else { END }, &[0]);
    script.at(10_000, Cue::Wipe(0));
    script.at(10_100, Cue::Starts);
    cut(script, 2, 0..END, if alone { &[1, 2] } else { &[1] });
    script.at(40_000, Cue::Starts);
    cut(script, 3, 0..END, &[1]);
    script.asks(41_500, 3, waits());
}

/// n2 tells M that clients have seen a record of n0.
pub fn deleted_by_hand_and_others_know_its_id(script: &mut Script) {
    deleted_by_hand(script, false);
}

/// M reaches n0 alone, and C comes back.
pub fn deleted_by_hand_and_who_knew_it_comes_back(script: &mut Script) {
    deleted_by_hand(script, true);
}

/// n0 forgot, M made its record and has gone. The operator says that all are new.
pub fn init_of_servers_that_have_served(script: &mut Script) {
    world(script, 3, 2);
    script.asks(2_000, 0, holds());
    cut(script, 0, 1_900..END, &[2]);
    cut(script, 0, 9_900..40_000, &[0]);
    script.at(10_000, forgets(0));
    script.plan.onlookers = vec![2];
    script.at(10_400, Cue::Kill(1));
    script.at(10_500, Cue::Starts);
    script.at(10_600, Cue::Inits(2));
    script.at(11_000, Cue::Starts);
    cut(script, 3, 0..END, &[1]);
    script.asks(12_500, 3, waits());
}

/// n0 and n2 forgot, and n1, which did not, does not answer.
pub fn init_while_one_does_not_answer(script: &mut Script) {
    world(script, 3, 1);
    script.plan.onlookers = vec![1];
    script.asks(2_000, 0, holds());
    cut(script, 0, 1_900..END, &[2]);
    cut(script, 0, 9_800..18_000, &[0, 1]);
    script.at(9_900, Cue::Crash { node: 1, memory: Memory::Kept, down: millis(END) });
    [0, 2].into_iter().for_each(|node| script.at(9_900, forgets(node)));
    script.at(10_000, Cue::Starts);
    script.at(10_200, Cue::Inits(1));
    script.at(10_500, Cue::Starts);
    script.asks(12_000, 2, waits());
}

/// All forgot while nobody reached them, and the operator says that they are new. C, which holds the
/// lock, and A, which knew them, come back.
pub fn init_is_taken_back(script: &mut Script) {
    world(script, 3, 2);
    script.plan.onlookers = vec![2];
    script.asks(2_000, 0, holds());
    cut(script, 0, 9_500..24_000, &[0, 1, 2]);
    cut(script, 1, 9_500..12_000, &[0, 1, 2]);
    (0..3).for_each(|node| script.at(9_900, forgets(node)));
    script.at(10_000, Cue::Starts);
    script.at(10_200, Cue::Inits(2));
    script.at(17_500, Cue::Starts);
    script.asks(19_000, 3, waits());
}

/// A token of a clock that is ahead: n0 forgets it, and n1, which has it, goes when n0 votes again.
pub fn a_node_that_forgot_is_synced(script: &mut Script) {
    world(script, 3, 2);
    script.at(1_500, Cue::StepWall { process: 0, by_ms: 100_000 });
    script.asks(2_000, 0, brief());
    cut(script, 0, 1_900..9_000, &[2]);
    script.at(5_000, Cue::Kill(0));
    script.at(5_000, forgets(0));
    script.at(30_000, Cue::Starts);
    script.at(38_000, Cue::Crash { node: 1, memory: Memory::Kept, down: millis(END) });
    script.asks(41_000, 2, brief());
}

/// The same among five, of which two forgot, and the one that knows is away for a while: they do not
/// sync each other.
pub fn who_forgot_syncs_nobody(script: &mut Script) {
    world(script, 5, 2);
    script.at(1_500, Cue::StepWall { process: 0, by_ms: 100_000 });
    script.asks(2_000, 0, brief());
    cut(script, 0, 1_900..9_000, &[3, 4]);
    script.at(5_000, Cue::Kill(0));
    [0, 1].into_iter().for_each(|node| script.at(5_000, forgets(node)));
    script.at(5_000, Cue::Crash { node: 2, memory: Memory::Kept, down: millis(15_000) });
    script.at(36_000, Cue::Starts);
    cut(script, 2, 0..END, &[2, 4]);
    script.asks(46_000, 2, brief());
}

/// n0 holds more of what the clock of its record showed than has passed since: the clocks of two
/// nodes are set back by an hour, and they vote again in a minute.
pub fn clocks_of_a_quorum_are_set_back(script: &mut Script) {
    world(script, 3, 1);
    [0, 1].into_iter().for_each(|node| script.at(20_000, Cue::StepClock { node, by_ms: -3_600_000 }));
    script.asks(60_000, 0, must());
}

/// FLUSHALL on n0, and M makes its record anew. B, which is connected, asks before its next hello.
pub fn a_reply_shows_another_id(script: &mut Script) {
    world(script, 3, 3);
    script.asks(2_000, 0, holds());
    cut(script, 0, 1_900..END, &[2]);
    cut(script, 1, 3_000..END, &[1]);
    script.jitter = 5;
    let at = script.about(10_000, 5_000);
    cut(script, 0, at..END, &[0]);
    script.at(at, Cue::Flush(0));
    // It asks n0 something, and finds no record.
    script.asks(at + 10, 2, Part { timeout: millis(50), ..brief() });
    script.asks(at + 1_500, 1, waits());
}

/// A replica that never got the record takes over for n0, and has run for long.
pub fn a_replica_without_data_takes_over(script: &mut Script) {
    world(script, 3, 1);
    script.asks(2_000, 0, holds());
    cut(script, 0, 1_900..END, &[2]);
    cut(script, 0, 24_000..40_000, &[0]);
    script.at(25_000, Cue::Promote { node: 0, memory: Memory::Empty });
    script.at(26_000, Cue::Starts);
    cut(script, 1, 0..END, &[1]);
    script.asks(27_500, 1, waits());
}

/// n0 restarts empty, which A sees half a minute later: its votes count for A when they do for others.
pub fn a_restart_that_is_seen_late(script: &mut Script) {
    world(script, 3, 2);
    cut(script, 0, 9_000..40_000, &[0]);
    script.at(10_000, forgets(0));
    script.at(38_000, Cue::Crash { node: 2, memory: Memory::Kept, down: millis(END) });
    script.asks(52_000, 0, must());
}
