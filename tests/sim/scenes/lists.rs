//! Clients of different lists that share nodes, and names that lead to two servers. In most
//! comments, A has n0, n1 and n2, and B has n2 and two other nodes.

use super::part::Part;
use super::records::{END, cut, holds, must, world};
use super::script::{NEVER, Script, forgets, millis, pause, suspend};
use crate::cue::Cue;
use crate::judge::history::{Answer, Memory, Verb};

fn asks_for(timeout: u64, hold: u64) -> Part {
    Part { timeout: millis(timeout), hold: millis(hold), ..Part::default() }
}

/// The lists of A and B, which share n2.
fn a_and_b(script: &mut Script, processes: usize) {
    world(script, 5, processes);
    script.plan.lists = vec![vec![0, 1, 2], vec![2, 3, 4]];
}

/// A holds the name, and then B starts.
pub fn second_list_starts_while_a_client_of_the_first_holds(script: &mut Script) {
    a_and_b(script, 1);
    script.asks(2_500, 0, holds());
    script.at(5_000, Cue::Starts);
    script.asks(6_500, 1, asks_for(20_000, 20_000));
    script.at(40_000, Cue::Kill(1));
}

/// A and B start at the same moment, and ask again and again. In the end one of them stops, and the
/// other gets the name in bounded time.
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

/// n2 refused B. Then n2 restarts empty while A cannot reach it. n2's refusal still counts for B.
pub fn the_common_node_forgets(script: &mut Script) {
    a_and_b(script, 1);
    script.asks(2_500, 0, holds());
    cut(script, 0, 9_500..16_000, &[2]);
    script.at(5_000, Cue::Starts);
    script.at(10_000, forgets(2));
    script.asks(11_500, 1, asks_for(20_000, 20_000));
    script.at(45_000, Cue::Kill(1));
}

/// B holds the name. A could not reach n2, so A's list is in force on n0 and n1, and A holds the
/// name there. A must lose the name when it reaches n2.
pub fn holder_that_meets_another_list_loses_all(script: &mut Script) {
    world(script, 5, 1);
    script.plan.lists = vec![vec![2, 3, 4], vec![0, 1, 2]];
    script.asks(2_000, 0, holds());
    script.at(5_000, Cue::Starts);
    cut(script, 1, 0..9_000, &[2]);
    script.asks(7_000, 1, holds());
    script.at(60_000, Cue::Kill(1));
}

/// B stands still until its list has lapsed and A's list is in force. It continues with old
/// knowledge.
fn stood_still(script: &mut Script, late: bool) {
    world(script, 5, 1);
    script.jitter = 0;
    script.plan.lists = vec![vec![2, 3, 4], vec![0, 1, 2]];
    const ON: u64 = 60_000;
    script.at(10_000, pause(0, ON - 10_000));
    script.at(50_000, Cue::Starts);
    script.asks(53_000, 1, holds());
    cut(script, 1, 52_900..53_900, &[2]);
    if late {
        script.hold_one_way(0, &[2], 0, ON - 10..ON + 1_200, ON + 1_300);
        let asks = script.about(ON + 50, 100);
        script.asks(asks, 0, asks_for(15_000, 20_000));
    } else {
        script.asks(ON - 5, 0, asks_for(15_000, 20_000));
    }
    script.at(80_000, Cue::Kill(0));
}

pub fn stood_still_while_another_list_came(script: &mut Script) {
    stood_still(script, false);
}

/// n2's reply reaches B late. Until then, B must put no list in force.
pub fn stood_still_and_hears_late_of_another_list(script: &mut Script) {
    stood_still(script, true);
}

/// B meets A's list on n1. n2 starts while A and C cannot reach n2. B must not put its list in
/// force on n2.
pub fn a_list_that_is_shut_out_takes_no_free_node(script: &mut Script) {
    world(script, 4, 0);
    script.plan.lists = vec![vec![0, 1, 2], vec![0, 1, 2], vec![1, 2, 3], vec![1, 2, 3]];
    script.at(0, Cue::Crash { node: 2, memory: Memory::Kept, down: millis(19_900) });
    [200, 200, 5_000, 7_000].into_iter().for_each(|at| script.at(at, Cue::Starts));
    [0, 1].into_iter().for_each(|process| cut(script, process, 19_000..25_500, &[2]));
    script.asks(70_000, 0, must());
    script.asks(75_000, 1, must());
    [2, 3].into_iter().for_each(|process| script.at(80_000, Cue::Kill(process)));
}

/// Each client has its list in force on one of the two shared nodes, and meets the other client's
/// list on the other node. In the end one of the clients must get the name.
fn two_lists_hold_each_other_up(script: &mut Script, behind: i64) {
    world(script, 4, 0);
    script.plan.lists = vec![vec![0, 1, 2], vec![0, 1, 3]];
    if behind > 0 {
        [2, 3].into_iter().for_each(|node| script.at(0, Cue::StepClock { node, by_ms: -behind }));
    }
    [200, 300].into_iter().for_each(|at| script.at(at, Cue::Starts));
    cut(script, 0, 0..6_000, &[1]);
    cut(script, 1, 0..6_000, &[0]);
    (0..2).for_each(|process| script.asks(75_000, process, Part { timeout: millis(5_000), ..must() }));
    script.at(85_000, Cue::Kill(1));
}

pub fn lists_that_hold_each_other_up_lapse(script: &mut Script) {
    two_lists_hold_each_other_up(script, 0);
}

/// As `lists_that_hold_each_other_up_lapse`, but the clocks of the two nodes that are not shared
/// are behind.
pub fn lists_that_hold_each_other_up_lapse_whatever_clocks_show(script: &mut Script) {
    two_lists_hold_each_other_up(script, 3_000);
}

/// Each of the two shared nodes is near to one client, and far from the other. Whenever both lists
/// have lapsed, each client could get the node that is near to it. One of them must get the name,
/// although both go on.
pub fn lists_that_lapse_together_do_not_keep_each_other_out_again(script: &mut Script) {
    script.world(4, 0, 3_000, 3_000);
    script.jitter = 5;
    script.plan.lists = vec![vec![0, 1, 2], vec![0, 1, 3]];
    for (process, node) in [(0, 1), (1, 0)] {
        for sent in (0..30_000).step_by(20) {
            script.hold_back(process, &[node], sent..sent + 20, sent + 60);
        }
    }
    for process in 0..2 {
        script.at(100, Cue::Starts);
        script.asks(20_000, process, Part { timeout: millis(5_000), ..must() });
        script.at(30_000, Cue::Kill(process));
    }
}

/// A holds the name for longer than a list stays in force without renewal. B's list has to wait.
pub fn a_list_is_kept_in_force(script: &mut Script) {
    a_and_b(script, 1);
    script.asks(2_500, 0, Part { must_keep: true, hold: millis(80_000), ..holds() });
    script.at(5_000, Cue::Starts);
    script.asks(6_500, 1, asks_for(60_000, 1_000));
    script.at(90_000, Cue::Kill(1));
}

/// The clock of n2 is set back by an hour. A stops, and its list must lapse on n2 in time.
pub fn a_list_lapses_though_a_clock_is_set_back(script: &mut Script) {
    world(script, 4, 1);
    script.plan.lists = vec![vec![0, 1, 2], vec![1, 2, 3]];
    script.at(20_000, Cue::StepClock { node: 2, by_ms: -3_600_000 });
    script.at(40_000, Cue::Kill(0));
    script.at(45_000, Cue::Starts);
    script.asks(120_000, 1, must());
}

/// B's list has another name, so A and B both hold the name.
pub fn lists_of_two_names(script: &mut Script) {
    a_and_b(script, 1);
    script.plan.strangers = vec![1];
    script.asks(2_500, 0, Part { must: true, must_keep: true, hold: millis(28_000), ..holds() });
    script.at(5_000, Cue::Starts);
    script.asks(6_500, 1, Part { must: true, must_keep: true, hold: millis(24_000), ..holds() });
    script.at(40_000, Cue::Kill(1));
}

/// B's list has another name. Its nodes have the same names as A's nodes, but only one name leads
/// both to the same server. Both clients have a quorum.
pub fn list_of_another_name_has_other_servers_behind_its_nodes(script: &mut Script) {
    world(script, 3, 1);
    (script.plan.strangers, script.plan.spares) = (vec![1], 2);
    [(1, 3), (2, 4)].into_iter().for_each(|(node, server)| script.at(500, Cue::Splits { node, process: 1, server }));
    script.at(1_000, Cue::Starts);
    (0..2).for_each(|process| script.asks(30_000, process, must()));
    script.at(35_000, Cue::Kill(1));
}

/// The name n0 leads B to another server. A uses n0, n1 and n2. B uses this other server, n3 and
/// n4.
fn two_servers_behind_one_name(script: &mut Script, copied: bool) {
    world(script, 5, 2);
    script.plan.spares = 1;
    if script.dice.chance(0.5) {
        script.plan.young = vec![5];
    }
    if copied {
        script.at(10_000, Cue::Copies { from: 0, to: 5 });
    }
    script.at(10_100, Cue::Splits { node: 0, process: 1, server: 5 });
    cut(script, 0, 39_500..41_000, &[3, 4]);
    cut(script, 1, 41_000..43_000, &[1, 2]);
    script.asks(40_000, 0, asks_for(900, 20_000));
    script.asks(41_500, 1, asks_for(1_400, 10_000));
    script.at(60_000, Cue::Splits { node: 0, process: 1, server: 0 });
}

pub fn a_name_leads_to_two_servers(script: &mut Script) {
    two_servers_behind_one_name(script, false);
}

/// The server to which n0 leads B was a replica of A's server, and both servers run.
pub fn a_replica_takes_over_beside_its_master(script: &mut Script) {
    two_servers_behind_one_name(script, true);
}

/// The name n0 leads B to another server for long. A and B ask again and again, and C does not. Now
/// and then, A sends its hellos just after those of B have refreshed B's reports, and B sends its
/// hellos just after those of C.
pub fn two_servers_behind_one_name_for_long(script: &mut Script) {
    script.world(3, 3, 1_000, 3_000);
    script.plan.spares = 1;
    script.at(2_000, Cue::Splits { node: 0, process: 1, server: 3 });
    for at in (20_000..320_000).step_by(250) {
        (0..2).for_each(|process| script.asks(at, process, asks_for(100, 100)));
    }
}

/// The name n0 leads B to another server, and A and B know that. Both are suspended at the same
/// time, for longer than nodes keep reports. After that, A's claims reach n0 and n1, and B's claims
/// reach the other server and n2.
pub fn clients_of_two_servers_behind_one_name_stand_still(script: &mut Script) {
    script.world(3, 2, 1_000, 3_000);
    script.plan.spares = 1;
    script.at(2_000, Cue::Splits { node: 0, process: 1, server: 3 });
    let (from, last) = (script.about(20_000, 2_000), script.about(3_000, 2_000));
    (0..2).for_each(|process| script.at(from, suspend(process, last)));
    let wakes = from + last;
    script.strays(0, 2, Verb::Claim, from..wakes + 3_500, NEVER);
    script.strays(1, 1, Verb::Claim, from..wakes + 3_500, NEVER);
    for at in (wakes..wakes + 3_000).step_by(100) {
        (0..2).for_each(|process| script.asks(at, process, asks_for(100, 300)));
    }
}

/// A process cannot reach n0, which restarts. Other clients must soon ignore the old id of n0 that
/// this process still knows.
pub fn client_cut_off_from_a_node_does_not_show_its_old_record(script: &mut Script) {
    world(script, 3, 2);
    cut(script, 1, 5_000..NEVER, &[0]);
    script.at(10_000, forgets(0));
    script.at(20_000, Cue::Crash { node: 2, memory: Memory::Kept, down: millis(END) });
    script.asks(70_000, 0, must());
}

/// A client stands still for a while. Meanwhile one of its nodes restarts. When the client
/// continues, it must have a quorum at once.
pub fn an_established_client_beside_a_restart(script: &mut Script) {
    script.world(3, 1, 3_000, 20_000);
    script.at(1_000, pause(0, 11_000));
    let (at, node) = (script.about(10_500, 1_400), script.dice.index(3));
    script.at(at, forgets(node));
    script.asks(12_300, 0, Part { must: true, ..asks_for(5_000, 500) });
}

/// All nodes restart at once with their data, and are down for some seconds. A lock with enough
/// time left must survive: its nodes must extend it in time.
pub fn all_nodes_restart_with_their_memory(script: &mut Script) {
    let nodes = [1, 3][script.dice.index(2)];
    script.world(nodes, 1, 24_000, 60_000);
    script.asks(100, 0, Part { must_keep: true, ..asks_for(5_000, 80_000) });
    let (at, down) = (script.about(3_000, 1_000), script.about(6_000, 1_500));
    for node in 0..nodes {
        script.at(at, Cue::Crash { node, memory: Memory::Kept, down: millis(down) });
    }
    script.at(90_000, Cue::Starts);
}

/// A process starts beside a running one, just after a node has restarted.
pub fn a_newcomer_beside_a_restart(script: &mut Script) {
    script.world(3, 1, 3_000, 20_000);
    let node = script.dice.index(3);
    script.at(2_000, forgets(node));
    let starts = script.about(2_050, 900);
    script.at(starts, Cue::Starts);
    script.asks(starts + 100, 1, Part { must: true, ..asks_for(4_500, 500) });
}

/// A process starts beside a running one while a node's machine is dead. The new process must not
/// wait for this node.
pub fn a_newcomer_while_a_machine_is_dead(script: &mut Script) {
    script.world(3, 1, 3_000, 20_000);
    let node = script.dice.index(3);
    script.at(2_000, Cue::Crash { node, memory: Memory::Empty, down: millis(20_000) });
    let starts = script.about(2_100, 4_000);
    script.at(starts, Cue::Starts);
    script.asks(starts + 100, 1, Part { must: true, ..asks_for(2_500, 500) });
}

/// One of three nodes is far from a client. A near node restarts. The far node must vote while the
/// near one is in quarantine.
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

/// B's list has only n0, and no list of B is in force there. B revokes A's lock. What the call
/// reports to B must be true.
pub fn client_of_a_list_kept_out_revokes_a_lock(script: &mut Script) {
    script.world(3, 1, 3_000, 5_000);
    script.plan.lists = vec![vec![0, 1, 2], vec![0]];
    script.asks(0, 0, asks_for(5_000, 30_000));
    script.at(5_000, Cue::Starts);
    let at = script.about(10_000, 3_000);
    script.at(at, Cue::Revokes { process: 1, name: 0 });
    script.at(35_000, Cue::Kill(1));
}

/// A holder stands still until its list has lapsed and another list is in force. When the holder
/// continues, it must not hold the name any more.
pub fn holder_stands_still_until_another_list_is_in_force(script: &mut Script) {
    world(script, 5, 1);
    script.plan.lists = vec![vec![0, 1, 2], vec![2, 3, 4]];
    script.once_answered(Verb::Claim, 0, Answer::Granted, 2, pause(0, 50_000));
    let at = script.about(2_000, 5_000);
    script.asks(at, 0, Part { renewed: false, ..asks_for(3_000, 60_000) });
    script.at(at + 200, Cue::Starts);
    script.asks(at + 500, 1, asks_for(60_000, 5_000));
    script.at(at + 70_000, Cue::Kill(0));
}
