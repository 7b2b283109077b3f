//! Clients of different lists that share one node: one of the lists has the name, and the other
//! never.

use super::part::Part;
use super::script::{NEVER, Script, forgets, millis, pause, suspend};
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

/// Both start when what is held back is held back.
fn both_later(script: &mut Script) {
    script.at(10, Cue::Starts);
    script.at(200, Cue::Starts);
}

/// Both start at the same moment and ask again and again. In the end one of them goes, and the
/// other has it in bounded time.
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

/// The first has its list, and stands still for so long that the second may have its own. When it
/// goes on it asks at once, with its connections alive.
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

/// The second starts later, and asks before it has heard of the node that they share. (Its nodes
/// were taught by one of the same list that has gone: else its votes would wait for that.)
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

/// The second was refused. The node that they share restarts, and forgets its roster; the first
/// comes back to it a little later than the second.
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

/// It stands still for longer than its enrolment lasts, and one of its nodes has restarted when it
/// goes on: it is enrolled at once.
pub fn an_established_client_beside_a_restart(script: &mut Script) {
    script.world(3, 1, 3_000, 20_000);
    script.at(1_000, pause(0, 11_000));
    let (at, node) = (script.about(10_500, 1_400), script.dice.index(3));
    script.at(at, forgets(node));
    script.asks(12_300, 0, Part { must: true, ..asks_for(5_000, 500) });
}

/// It stands still for longer than its enrolment lasts, and tries once as soon as it goes on.
pub fn an_established_client_tries_once(script: &mut Script) {
    script.world(3, 1, 3_000, 20_000);
    script.jitter = 0;
    let length = script.about(10_500, 4_000);
    script.at(1_000, pause(0, length));
    script.asks(1_000 + length, 0, Part { must: true, once: true, ..asks_for(5_000, 500) });
}

/// All nodes restart at once with what they have stored, and are down for eight seconds: a lock
/// outlives that.
pub fn all_restart_with_their_memory(script: &mut Script) {
    let nodes = [1, 3][script.dice.index(2)];
    script.world(nodes, 1, 20_000, 20_000);
    script.asks(100, 0, Part { must_keep: true, ..asks_for(5_000, 25_000) });
    // A node that is met again extends after 5 s, and the connection takes up to a second: before
    // the ttl is over.
    let (at, down) = (script.about(3_000, 1_000), script.about(6_000, 1_500));
    for node in 0..nodes {
        script.at(at, Cue::Crash { node, memory: Memory::Kept, down: millis(down) });
    }
    script.at(30_000, Cue::Starts);
}

/// A process starts beside one that runs, while one of the nodes has just restarted: it is enrolled
/// as soon as that one has enrolled the new server.
pub fn a_newcomer_beside_a_restart(script: &mut Script) {
    script.world(3, 1, 3_000, 20_000);
    let node = script.dice.index(3);
    script.at(2_000, forgets(node));
    let starts = script.about(2_050, 900);
    script.at(starts, Cue::Starts);
    script.asks(starts + 100, 1, Part { must: true, ..asks_for(4_500, 500) });
}

/// A process starts beside one that runs, while a machine is dead.
pub fn a_newcomer_while_a_machine_is_dead(script: &mut Script) {
    script.world(3, 1, 3_000, 20_000);
    let node = script.dice.index(3);
    script.at(2_000, Cue::Crash { node, memory: Memory::Empty, down: millis(20_000) });
    let starts = script.about(2_100, 4_000);
    script.at(starts, Cue::Starts);
    script.asks(starts + 100, 1, Part { must: true, ..asks_for(2_500, 500) });
}

/// The first enrols n0 and n1, since it cannot reach n2, and n1 grants. Then it reaches n2, which
/// takes n0 and not n1: with n0's vote, which comes after that, n1's must not decide. The second
/// has the name on n2 and n3.
pub fn votes_of_two_listings(script: &mut Script) {
    script.world(5, 0, 20_000, 20_000);
    both_later(script);
    script.plan.lists = vec![vec![0, 1, 2], vec![2, 3, 1]];
    script.node_timeout(20_000);
    script.jitter = 5;
    let meets = script.about(11_050, 200);
    script.hold_back(0, &[2], 0..meets, meets);
    script.hold_back(1, &[1], 0..NEVER, NEVER);
    script.asks(7_000, 1, asks_for(3_000, 30_000));
    script.asks(11_000, 0, Part { round_timeout: Some(millis(5_000)), ..asks_for(5_500, 5_000) });
    let late = script.about(14_000, 1_000);
    script.hold_one_way(0, &[0], 1, 10_990..late, late);
    script.at(40_000, Cue::Kill(1));
}

/// The first enrols n0 and n2, and knows that clients of another list have n3 beside them there. It
/// cannot reach n2 any more when it reaches n1 for the first time: n0 and n1 are no listing beside
/// that one's n2 and n3.
pub fn a_node_that_took_it_cannot_be_reached(script: &mut Script) {
    script.world(5, 0, 20_000, 20_000);
    both_later(script);
    script.plan.lists = vec![vec![0, 1, 2], vec![2, 3, 4]];
    let heals = script.about(18_000, 1_000);
    script.hold_back(0, &[1], 0..heals, heals);
    script.hold_back(1, &[4], 0..NEVER, NEVER);
    script.asks(8_000, 1, asks_for(3_000, 40_000));
    script.at(heals - 10, Cue::Cut { process: 0, node: 2, ways: [true; 2], last: millis(40_000) });
    for at in [heals + 2_000, heals + 5_000, heals + 8_000] {
        script.asks(at, 0, asks_for(2_500, 1_000));
    }
    script.at(45_000, Cue::Kill(1));
}

/// Two lists of three or of five that share one node: the second has the name when another of the
/// first one's list starts. (Its nodes were taught by one that has gone.) When that is, its nodes,
/// and the one that they share.
fn a_newcomer_of_another_list(script: &mut Script) -> (u64, Vec<usize>, usize) {
    let shared = [2, 4][script.dice.index(2)];
    script.world(2 * shared + 1, 1, 3_000, 5_000);
    let (ours, theirs): (Vec<_>, Vec<_>) = ((0..=shared).collect(), (shared..=2 * shared).collect());
    script.plan.lists = vec![ours.clone(), theirs, ours.clone()];
    script.node_timeout(20_000);
    script.at(3_000, Cue::Kill(0));
    script.at(28_500, Cue::Starts);
    script.asks(29_500, 1, asks_for(3_000, 60_000));
    script.at(33_000, Cue::Starts);
    script.at(53_000, Cue::Kill(1));
    (33_000, ours, shared)
}

/// The node that two lists share refuses the newcomer, which waits for another one that is silent,
/// and goes. Then a third one comes, with which the newcomer begins anew: it may not forget what it
/// was told.
pub fn who_refused_goes_and_another_comes(script: &mut Script) {
    let (starts, ours, shared) = a_newcomer_of_another_list(script);
    script.hold_back(2, &ours[2..], starts..starts + 100, starts + 100);
    let (goes, comes) = (script.about(starts + 300, 900), script.about(starts + 1_400, 600));
    script.at(goes, Cue::Crash { node: shared, memory: Memory::Empty, down: millis(40_000) });
    script.hold_back(2, &[1], starts..comes, comes);
    let late = script.about(starts + 2_100, 1_500);
    script.hold_one_way(2, &[0], 0, starts + 60..late, late);
    for at in [4_000, 7_000, 10_000, 15_000] {
        script.asks(starts + at, 2, asks_for(2_500, 1_000));
    }
}

/// The same, but nobody comes: who is silent does not answer before the newcomer asks for the
/// second time.
pub fn who_refused_goes_while_another_is_silent(script: &mut Script) {
    let (starts, ours, shared) = a_newcomer_of_another_list(script);
    let others: Vec<_> = ours[1..].iter().copied().filter(|&node| node != shared).collect();
    script.hold_back(2, &others, starts..starts + 100, starts + 100);
    script.hold_back(2, &[shared], starts..starts + 130, starts + 130);
    let goes = script.about(starts + 300, 3_000);
    script.at(goes, Cue::Crash { node: shared, memory: Memory::Empty, down: millis(40_000) });
    let late = script.about(starts + 4_300, 2_500);
    script.hold_one_way(2, &[0], 0, starts + 60..late, late);
    for at in [7_500, 10_500, 14_000, 17_000] {
        script.asks(starts + at, 2, asks_for(2_500, 1_000));
    }
}

/// The first is granted the name and stands still. Another of its list, without a restart guard and
/// with shorter locks, does not cut short what it enrolled.
pub fn no_guard_beside_others(script: &mut Script) {
    script.two_lists(20_000, 20_000);
    script.plan.lists = vec![vec![0, 1, 2], vec![0, 1, 2], vec![2, 3, 4]];
    script.plan.unlike = vec![(1, millis(1_000), millis(0))];
    script.once_answered(Verb::Claim, 0, Answer::Granted, 2, pause(0, 40_000));
    let at = script.about(500, 4_000);
    script.asks(at, 0, Part { renewed: false, ..asks_for(3_000, 60_000) });
    script.at(at + 6_000, Cue::Kill(1));
    script.at(at + 7_000, Cue::Starts);
    script.asks(at + 7_500, 2, asks_for(60_000, 5_000));
    script.at(at + 70_000, Cue::Kill(0));
}

/// The first reaches two of its five nodes when it starts, one of them with the other list's. It
/// keeps nobody out, and has nothing when it reaches the others.
pub fn isolated_with_a_minority_at_its_first_start(script: &mut Script) {
    script.world(8, 0, 1_000, 2_000);
    both_later(script);
    script.plan.lists = vec![vec![0, 1, 2, 3, 4], vec![3, 4, 5, 6, 7]];
    let heals = script.about(16_000, 4_000);
    script.hold_back(0, &[0, 1, 4], 0..heals, heals);
    script.asks(8_000, 1, Part { must: true, ..asks_for(4_000, 20_000) });
    for at in [9_000, heals + 100, heals + 3_000] {
        script.asks(at, 0, asks_for(2_500, 1_000));
    }
    script.at(40_000, Cue::Kill(1));
}

/// A client with longer locks starts while a node forgets its roster. It holds the name when
/// another node forgets that: the first client, whose locks are short, waits for as long as the
/// long ones last.
pub fn a_longer_ttl_is_told_while_a_node_forgets(script: &mut Script) {
    script.world(3, 0, 3_000, 20_000);
    script.plan.unlike = vec![(0, millis(3_000), millis(5_000))];
    script.at(10, Cue::Starts);
    script.at(5_000, Cue::Starts);
    let forgot = script.about(4_700, 700);
    script.at(forgot, forgets(0));
    script.asks(12_000, 1, Part { ttl: Some(millis(20_000)), renewed: false, ..asks_for(8_000, 60_000) });
    let again = script.about(21_000, 1_000);
    script.at(again, forgets(1));
    script.asks(13_000, 0, asks_for(60_000, 3_000));
}

/// Clients of this protocol go one by one, under a holder, while clients of the next one come.
/// Those have the name T and 5 s after the last of the old ones has gone, and an old one that comes
/// back then has it no more.
pub fn a_rolling_upgrade(script: &mut Script) {
    script.world(3, 2, 3_000, 5_000);
    script.plan.upgraded = Some(2);
    script.asks(0, 0, Part { must_keep: true, ..asks_for(5_000, 7_000) });
    script.at(2_000, Cue::Starts);
    script.at(5_000, Cue::Starts);
    for at in [3_000, 6_000, 9_000, 12_000] {
        script.asks(at, 2, asks_for(2_500, 1_000));
    }
    script.asks(8_000, 1, Part { must: true, ..asks_for(5_000, 2_000) });
    script.at(9_000, Cue::Kill(0));
    let gone = script.about(13_000, 2_000);
    script.asks(gone - 500, 1, asks_for(2_000, 20_000));
    script.at(gone, Cue::Kill(1));
    for process in [2, 3] {
        script.asks(gone + 1_000, process, Part { must: true, ..asks_for(45_000, 1_000) });
    }
}

/// A client whose list is a part of the others' revokes their lock, though its one node is unlisted.
/// What it is told must be so.
pub fn revoked_by_who_is_kept_out(script: &mut Script) {
    script.world(3, 1, 3_000, 5_000);
    script.plan.lists = vec![vec![0, 1, 2], vec![0]];
    script.asks(0, 0, asks_for(5_000, 30_000));
    script.at(5_000, Cue::Starts);
    let at = script.about(10_000, 3_000);
    script.at(at, Cue::Revokes { process: 1, name: 0 });
    script.at(35_000, Cue::Kill(1));
}

/// The node that two lists share restarts when another client of the first one's list starts, while
/// the second has the name: it finds nobody there to tell it of the second.
pub fn a_newcomer_while_the_common_node_restarts(script: &mut Script) {
    let (starts, _, shared) = a_newcomer_of_another_list(script);
    let memory = [Memory::Empty, Memory::Kept][script.dice.index(2)];
    let (goes, down) = (script.about(starts - 400, 500), script.about(50, 1_500));
    script.at(goes, Cue::Crash { node: shared, memory, down: millis(down) });
    for at in [100, 1_200, 2_500, 4_000, 7_000] {
        script.asks(starts + at, 2, asks_for(2_500, 1_000));
    }
}

/// A newcomer is answered by three of its five nodes, of which one was retired; a fourth is silent
/// until it looks for the second time, and the one that two lists share is down. It has not waited
/// for that one before a quorum of those that vote answers.
pub fn a_retired_node_answers_a_newcomer(script: &mut Script) {
    script.world(9, 1, 3_000, 5_000);
    script.plan.lists = vec![(0..=4).collect(), (4..=8).collect(), (0..=4).collect()];
    script.node_timeout(20_000);
    script.jitter = 0;
    script.at(1_000, Cue::Retire(0));
    script.at(3_000, Cue::Kill(0));
    script.at(28_500, Cue::Starts);
    script.asks(29_500, 1, asks_for(3_000, 60_000));
    script.at(33_000, Cue::Starts);
    let down = script.about(5_600, 1_500);
    script.at(32_900, Cue::Crash { node: 4, memory: Memory::Empty, down: millis(down) });
    // It is connected to.
    let late = script.about(37_050, 500);
    script.hold_one_way(2, &[1], 1, 33_004..late, late);
    for at in [4_300, 5_000, 5_200, 5_500, 7_000, 10_000] {
        script.asks(33_000 + at, 2, asks_for(2_500, 1_000));
    }
    script.at(53_000, Cue::Kill(1));
}

/// One of three nodes is far from a client and the others near, of which one restarts: the far one
/// votes while that is in quarantine.
pub fn a_far_node_beside_one_that_restarts(script: &mut Script) {
    script.world(3, 1, 5_000, 12_000);
    (script.plan.regions, script.plan.far) = (2, millis(200));
    let at = script.about(5_000, 4_000);
    let near = [0, 2][script.dice.index(2)];
    script.at(at, forgets(near));
    for after in [1_000, 5_000, 9_000] {
        script.asks(at + after, 0, Part { must: true, ..asks_for(3_000, 200) });
    }
}

/// One of the near ones was retired: who comes counts the far one.
pub fn a_far_node_beside_one_that_was_retired(script: &mut Script) {
    script.world(3, 1, 5_000, 12_000);
    (script.plan.regions, script.plan.far) = (2, millis(200));
    let near = [0, 2][script.dice.index(2)];
    script.at(3_000, Cue::Retire(near));
    let comes = script.about(16_000, 4_000);
    for _ in 0..2 {
        script.at(comes, Cue::Starts);
    }
    script.asks(comes + 3_000, 1, Part { must: true, ..asks_for(3_000, 200) });
    script.asks(comes + 4_000, 2, Part { must: true, ..asks_for(3_000, 200) });
}

/// One node of five hangs, and another is left out, since it restarted while nobody was there who
/// could tell the others; nodes may take long for an answer. The three that are left vote all the
/// time.
pub fn one_hangs_beside_one_that_is_left_out(script: &mut Script) {
    script.world(5, 1, 3_000, 20_000);
    script.node_timeout(20_000);
    script.at(5_000, Cue::Kill(0));
    script.at(5_500, forgets(4));
    script.at(7_000, Cue::Starts);
    let hangs = script.about(10_000, 2_000);
    script.hold_back(1, &[3], hangs..NEVER, NEVER);
    for after in (0..22).map(|nth| nth * 1_000) {
        script.asks(16_000 + after, 1, Part { must: true, ..asks_for(900, 10) });
    }
}

/// Two clients of lists that share one node start at the same moment. One is told by that node that
/// nobody is there, and cannot reach it any more when it writes.
fn it_goes_when_a_newcomer_has_looked(script: &mut Script, at: u64, last: u64) {
    script.world(5, 1, 3_000, 5_000);
    script.plan.lists = vec![vec![0, 1, 2], vec![2, 3, 4], vec![0, 1, 2]];
    script.at(3_000, Cue::Kill(0));
    script.jitter = 0;
    // Both look within some milliseconds.
    let first = script.about(at - 4, 6);
    script.at(first, Cue::Starts);
    script.at(at, Cue::Starts);
    let cut = Cue::Cut { process: 2, node: 2, ways: [true, false], last: millis(last) };
    let nth = script.dice.index(4) as u32;
    script.once_done_again(Verb::Other, 2, 2, Answer::Other, nth, cut);
}

pub fn the_common_node_goes_when_a_newcomer_has_looked(script: &mut Script) {
    it_goes_when_a_newcomer_has_looked(script, 28_650, 1_500);
    for process in [1, 2] {
        for at in [50, 1_200, 2_500, 4_000, 7_000] {
            script.asks(28_700 + at, process, asks_for(2_500, 4_000));
        }
    }
    script.at(45_000, Cue::Kill(1));
}

/// The same when the nodes have restarted since the last client of the one's list has gone, and know
/// for how long its locks last: with that, what the one reserves looks as if it was enrolled.
pub fn what_was_reserved_where_a_ttl_is_known(script: &mut Script) {
    it_goes_when_a_newcomer_has_looked(script, 16_650, 3_000);
    for node in 0..3 {
        script.at(5_000, Cue::Crash { node, memory: Memory::Kept, down: millis(100) });
    }
    for process in [1, 2] {
        for at in [50, 1_200, 2_500, 3_300, 4_000, 7_000] {
            script.asks(16_700 + at, process, asks_for(2_500, 4_000));
        }
    }
    script.at(33_000, Cue::Kill(1));
}

/// The same, and another client of the one's list starts then, which cannot reach that node either:
/// what the one wrote to the others is no reason to go on without it.
pub fn a_newcomer_beside_one_that_is_not_enrolled_yet(script: &mut Script) {
    it_goes_when_a_newcomer_has_looked(script, 28_650, 1_500);
    script.plan.lists.push(vec![0, 1, 2]);
    script.asks(28_750, 1, asks_for(2_500, 10_000));
    let starts = script.about(28_700, 1_500);
    script.at(starts, Cue::Starts);
    script.hold_back(3, &[2], starts..starts + 2_000, starts + 2_000);
    for at in [100, 700, 1_500, 2_500, 4_000, 7_000] {
        script.asks(starts + at, 3, asks_for(2_500, 1_000));
    }
    script.at(45_000, Cue::Kill(1));
}

/// The first has long locks on two of its nodes, cannot reach the third, and stands still. Another
/// of its list has short ones: where it tells that one node is another server now, that one has the
/// room for as long as the one before had it. The third one's list has the other two nodes else.
pub fn a_successor_is_told_by_who_has_short_locks(script: &mut Script) {
    script.world(4, 0, 1_000, 2_000);
    script.plan.lists = vec![vec![0, 1, 2], vec![0, 1, 2], vec![0, 1, 3]];
    script.at(10, Cue::Starts);
    script.plan.unlike = vec![(0, millis(40_000), millis(40_000))];
    (0..2).for_each(|process| script.hold_back(process, &[1], 0..NEVER, NEVER));
    let long = Some(millis(40_000));
    script.at(7_300, pause(0, 60_000));
    script.asks(7_000, 0, Part { ttl: long, renewed: false, ..asks_for(10_000, 60_000) });
    script.at(7_500, Cue::Starts);
    let forgot = script.about(9_500, 500);
    script.at(forgot, forgets(2));
    let goes = script.about(12_500, 500);
    script.at(goes, Cue::Kill(1));
    script.at(goes + 18_000, Cue::Starts);
    script.asks(goes + 18_100, 2, asks_for(60_000, 5_000));
    script.at(80_000, Cue::Kill(0));
}

/// The second is refused for a while, and then cut off from all nodes for so long that it forgets by
/// whom. It comes back to those that only its own list has first.
pub fn who_was_refused_comes_back_from_elsewhere(script: &mut Script) {
    script.two_lists(3_000, 5_000);
    first_alone(script);
    script.plan.lists = vec![vec![2, 3, 4], vec![0, 1, 2], vec![0, 1, 2]];
    script.asks(1_000, 0, Part { hold: millis(90_000), ..asks_for(5_000, 90_000) });
    script.at(2_000, Cue::Starts);
    let away = script.about(22_000, 2_000);
    let late = script.about(away + 30_500, 1_500);
    script.hold_back(1, &[0, 1], away..away + 30_000, NEVER);
    script.hold_back(1, &[2], away..late, NEVER);
    for at in [30_500, 32_000, 34_000, 37_000] {
        script.asks(away + at, 1, asks_for(2_500, 1_000));
    }
    script.at(95_000, Cue::Kill(0));
}

/// A client of the first list reserves, and stands still before it enrols. One of the second list
/// has the name when it goes on, and the node that they share does not answer it for a while: what
/// it has written to the others does not vouch for it.
pub fn stalled_between_two_writes(script: &mut Script) {
    script.world(5, 1, 3_000, 5_000);
    script.plan.lists = vec![vec![2, 3, 4], vec![0, 1, 2], vec![2, 3, 4]];
    script.at(3_000, Cue::Kill(0));
    script.jitter = 0;
    script.at(28_500, Cue::Starts);
    let nth = script.dice.between(3, 25) as u32;
    script.once_answered(Verb::Other, 1, Answer::Other, nth, pause(1, 14_000));
    script.at(40_500, Cue::Starts);
    script.asks(41_500, 2, asks_for(3_000, 20_000));
    let goes = script.about(42_300, 150);
    script.at(goes, Cue::Cut { process: 1, node: 2, ways: [true; 2], last: millis(3_000) });
    for at in [28_600, 42_600, 43_500, 45_000, 47_500] {
        script.asks(at, 1, asks_for(2_500, 1_000));
    }
    script.at(65_000, Cue::Kill(2));
    script.plan.lists.push(vec![0, 1, 2]);
}

/// A client of the first list looks while entries of another vouch for its list, and stands still
/// before it writes. When it goes on those have ended, one of the second list has the name, and the
/// node that they share does not answer it for a while.
pub fn stalled_between_a_look_and_its_write(script: &mut Script) {
    script.world(5, 1, 3_000, 5_000);
    script.plan.lists = vec![vec![2, 3, 4], vec![2, 3, 4], vec![0, 1, 2]];
    script.at(3_000, Cue::Kill(0));
    script.jitter = 0;
    script.at(22_000, Cue::Starts);
    let nth = script.dice.between(3, 25) as u32;
    script.once_answered(Verb::Other, 1, Answer::Other, nth, pause(1, 20_000));
    script.at(40_000, Cue::Starts);
    script.asks(40_500, 2, asks_for(1_400, 20_000));
    script.at(41_700, Cue::Cut { process: 1, node: 2, ways: [true; 2], last: millis(4_000) });
    for at in [22_100, 42_200, 43_500, 44_300, 45_000, 47_500] {
        script.asks(at, 1, asks_for(2_500, 1_000));
    }
    script.at(65_000, Cue::Kill(2));
    script.plan.lists.push(vec![0, 1, 2]);
}

/// A client of the first list whose entries have ended has waited for as long as it must for the
/// node that two lists share, which is down, and stands still while it looks for the last time.
/// When it goes on, one of the second list has the name, and that node does not answer it for a
/// while: it has not waited.
pub fn stalled_before_it_reserves(script: &mut Script) {
    // Its connections are in quarantine for a second when it goes on.
    script.two_lists(1_000, 1_000);
    script.jitter = 0;
    script.processes = 1;
    const LOOKS: u64 = 40_000;
    script.at(6_000, pause(0, LOOKS - 6_000));
    script.at(LOOKS - 2_000, Cue::Crash { node: 2, memory: Memory::Kept, down: millis(8_500) });
    // It looks again and again, and for the last time when it has waited for 5 s.
    const LAST: u64 = LOOKS + 5_000;
    script.hold_one_way(0, &[0, 1], 1, LAST - 100..LAST + 300, LAST + 600);
    let stands = script.about(15_000, 2_000);
    script.at(LAST + 400, suspend(0, stands));
    script.at(LAST + 2_000, Cue::Starts);
    script.asks(LAST + 10_000, 1, asks_for(3_000, 20_000));
    let on = LAST + 400 + stands;
    script.at(on - 1_000, Cue::Cut { process: 0, node: 2, ways: [true; 2], last: millis(2_500) });
    for at in [100, 600, 1_500, 4_500] {
        script.asks(on + at, 0, asks_for(2_500, 1_000));
    }
    script.at(on + 20_000, Cue::Kill(1));
}

/// Others vouch for a client, and its write is refused in part, since a client with another list
/// that has a quorum in common with its own was enrolled after it looked. It stands still until all
/// entries have ended. When it goes on to write what fits, one of a list that shares one node only
/// has the name, and that node does not answer it for a while.
pub fn stalled_while_its_write_is_refused(script: &mut Script) {
    script.world(6, 2, 3_000, 5_000);
    script.plan.lists = vec![vec![0, 1, 2], vec![0, 1, 2], vec![0, 1, 5], vec![2, 3, 4]];
    script.jitter = 0;
    // The first never reaches the node that it shares with the last.
    script.hold_back(0, &[2], 2_000..NEVER, NEVER);
    script.at(2_000, Cue::Replace { process: 0, node: 2 });
    const ON: u64 = 36_000;
    script.at(8_000, pause(1, ON - 8_000));
    // It looks, and is answered when the third is enrolled.
    script.hold_one_way(1, &[0, 1], 1, ON..ON + 30, ON + 400);
    script.at(ON + 50, Cue::Starts);
    script.at(ON + 300, Cue::Kill(0));
    // It writes, and is answered while it stands still.
    script.hold_one_way(1, &[0, 1], 1, ON + 390..ON + 600, ON + 700);
    let stands = script.about(28_000, 1_000);
    script.at(ON + 650, suspend(1, stands));
    script.at(ON + 900, Cue::Kill(2));
    script.at(ON + 8_000, Cue::Starts);
    script.asks(ON + 26_500, 3, asks_for(4_000, 20_000));
    let on = ON + 650 + stands;
    script.at(on - 500, Cue::Cut { process: 1, node: 2, ways: [true; 2], last: millis(4_000) });
    for at in [100, 600, 2_500, 4_500] {
        script.asks(on + at, 1, asks_for(2_500, 1_000));
    }
    script.at(on + 25_000, Cue::Kill(3));
}

/// With the shortest locks entries end soonest: whoever holds one for long keeps the other list out
/// all the time, whatever restarts.
pub fn the_shortest_max_ttl(script: &mut Script) {
    script.two_lists(1_000, 2_000);
    first_alone(script);
    script.asks(500, 0, Part { must_keep: true, ..asks_for(3_000, 60_000) });
    script.at(1_000, Cue::Starts);
    for at in [5_000, 20_000, 35_000] {
        let (at, node) = (script.about(at, 8_000), script.dice.index(3));
        script.at(at, forgets(node));
    }
    for at in [4_000, 12_000, 24_000, 31_000, 45_000] {
        script.asks(at, 1, asks_for(5_000, 1_000));
    }
    script.at(65_000, Cue::Kill(0));
}
