//! Nodes that forget in different ways, and the records by which clients notice this. In comments,
//! A holds the name on n0 and n1, B reaches n0 and n2, and M only says hello.

use super::part::Part;
use super::script::{NEVER, Script, forgets, millis};
use crate::cue::Cue;
use crate::judge::history::Memory;

/// Later than all events of a scene.
pub const END: u64 = 99_000;

/// A world whose locks last for as long as `max_ttl` allows.
pub fn world(script: &mut Script, nodes: usize, processes: usize) {
    script.world(nodes, processes, 20_000, 20_000);
    script.jitter = 50;
}

/// Holds the lock until it is lost or the run is over.
pub fn holds() -> Part {
    Part { timeout: millis(5_000), hold: millis(200_000), ..Part::default() }
}

/// Waits for longer than a quarantine lasts.
pub fn waits() -> Part {
    Part { timeout: millis(60_000), hold: millis(20_000), ..Part::default() }
}

/// Holds the lock for a moment.
pub fn brief() -> Part {
    Part { hold: millis(500), ..holds() }
}

/// Must get the lock at once.
pub fn must() -> Part {
    Part { must: true, timeout: millis(2_000), hold: millis(200), ..Part::default() }
}

/// No message passes between the process and these nodes.
pub fn cut(script: &mut Script, process: usize, sent: std::ops::Range<u64>, nodes: &[usize]) {
    script.hold_back(process, nodes, sent, NEVER);
}

/// A holds the name, and M only says hello. B starts at `comes`. Returns B's process number.
fn beside_m(script: &mut Script, comes: u64) -> usize {
    world(script, 3, 2);
    script.asks(2_000, 0, holds());
    cut(script, 0, 1_900..END, &[2]);
    script.at(comes, Cue::Starts);
    cut(script, 2, 0..END, &[1]);
    2
}

/// n0 restarts empty, and then B starts.
pub fn a_young_record(script: &mut Script) {
    let b = beside_m(script, 11_000);
    cut(script, 0, 9_900..40_000, &[0]);
    script.at(10_000, forgets(0));
    script.asks(12_500, b, waits());
}

/// n0 restarts with an old copy of its data, and then B starts.
pub fn restarted_with_an_old_copy(script: &mut Script) {
    let b = beside_m(script, 11_000);
    script.at(1_750, Cue::Save(0));
    cut(script, 0, 9_900..40_000, &[0]);
    script.at(10_000, Cue::Crash { node: 0, memory: Memory::Old, down: millis(1) });
    script.asks(12_500, b, waits());
}

/// All keys of n0 are deleted by hand. M makes a record that counts as old, since no node shows M
/// the former id of n0. B knows this id.
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

/// B has released the name, and A holds it. The running process of n0 loads an old copy of its
/// data, which lacks A's hold.
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

/// The clock of n0 is set forward just before B asks.
pub fn stepped_between_two_hellos(script: &mut Script) {
    world(script, 3, 2);
    script.asks(2_000, 0, holds());
    cut(script, 0, 1_900..END, &[2]);
    cut(script, 1, 3_000..END, &[1]);
    script.at(9_500, Cue::StepClock { node: 0, by_ms: 30_000 });
    script.asks(9_700, 1, waits());
}

/// n2 is down, and n0 restarts empty. A must renew its lock on n0 in time. For a while, clients see
/// two ids behind the name of n0.
pub fn a_holder_renews_where_it_was_forgotten(script: &mut Script) {
    script.world(3, 1, 60_000, 60_000);
    script.jitter = 50;
    script.at(1_000, Cue::Crash { node: 2, memory: Memory::Kept, down: millis(END) });
    script.asks(2_000, 0, Part { must_keep: true, ..holds() });
    let at = script.about(4_100, 1_000);
    script.at(at, forgets(0));
    script.at(95_000, Cue::Kill(0));
}

/// n2 is down, and n0 restarts empty. n1 restarts empty before A's next regular renewal. Before n1
/// restarts, A must have renewed its lock on n0.
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

/// FLUSHALL on n0. M, which has not seen n0 before, makes the record. Then B starts.
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

/// The keys of n0 are deleted by hand. M, which has not seen n0 before, makes the record. A still
/// holds the name on n1. C has seen n0's former id, and is cut off from n0, for a while or for
/// good.
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

/// n2 shows M that clients have seen another id of n0.
pub fn deleted_by_hand_and_others_know_its_id(script: &mut Script) {
    deleted_by_hand(script, false);
}

/// M reaches only n0, and C reaches n0 again later.
pub fn record_is_deleted_by_hand_and_a_client_with_its_id_returns(script: &mut Script) {
    deleted_by_hand(script, true);
}

/// n0 forgot, a client made a new record and ended. Then the operator runs `init`.
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

/// n0 and n2 forgot. n1 did not forget, but does not answer.
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

/// All nodes forgot while no client reached them, and the operator runs `init`. Then the old
/// clients reach the nodes again: A, which holds the lock, and another one.
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

/// A's clock is ahead. n0 forgets A's high token. n1 knows this token, but is down when n0 votes
/// again.
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

/// As `a_node_that_forgot_is_synced`, with five nodes. Two nodes forget the token. A third node,
/// which alone still knows the token, is down for a while. The two nodes must not sync each other.
pub fn forgetful_nodes_do_not_sync_each_other(script: &mut Script) {
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

/// The clocks of two nodes are set back by an hour. By these clocks, the records are from the
/// future. The nodes must vote again within a minute.
pub fn clocks_of_a_quorum_are_set_back(script: &mut Script) {
    world(script, 3, 1);
    [0, 1].into_iter().for_each(|node| script.at(20_000, Cue::StepClock { node, by_ms: -3_600_000 }));
    script.asks(60_000, 0, must());
}

/// FLUSHALL on n0, and another client makes the record. B is still connected, and asks n0 before
/// B's next hello.
pub fn a_reply_shows_another_id(script: &mut Script) {
    world(script, 3, 3);
    script.asks(2_000, 0, holds());
    cut(script, 0, 1_900..END, &[2]);
    cut(script, 1, 3_000..END, &[1]);
    script.jitter = 5;
    let at = script.about(10_000, 5_000);
    cut(script, 0, at..END, &[0]);
    script.at(at, Cue::Flush(0));
    // This client asks n0 for a lock, and finds no record.
    script.asks(at + 10, 2, Part { timeout: millis(50), ..brief() });
    script.asks(at + 1_500, 1, waits());
}

/// A replica takes over for n0. The replica has run for a long time, and never got the record.
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

/// n0 restarts empty. A notices half a minute later, but n0 must vote for A as early as for others.
pub fn a_restart_that_is_seen_late(script: &mut Script) {
    world(script, 3, 2);
    cut(script, 0, 9_000..40_000, &[0]);
    script.at(10_000, forgets(0));
    script.at(38_000, Cue::Crash { node: 2, memory: Memory::Kept, down: millis(END) });
    script.asks(52_000, 0, must());
}
