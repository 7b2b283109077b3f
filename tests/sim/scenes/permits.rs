//! Semaphores: at most a fixed number of permits is held at a time.

use super::part::Part;
use super::script::{Script, forgets, millis};
use crate::cue::Cue;

fn semaphore(script: &mut Script, nodes: usize, permits: u32) {
    script.world(nodes, 3, 2_000, 3_000);
    script.plan = script.plan.clone().with_permits(permits);
}

fn takes(many: u32, of: u32, timeout: u64, hold: u64) -> Part {
    Part { permits: Some((many, of)), timeout: millis(timeout), hold: millis(hold), ..Part::default() }
}

/// Several processes ask for more permits than there are, one or several at a time.
pub fn permits_are_asked_for_by_many(script: &mut Script) {
    semaphore(script, 3, 3);
    for nth in 0..30u64 {
        let (at, hold) = (script.about(nth * 20, 60), script.about(20, 60));
        let many = 1 + script.dice.index(3) as u32;
        script.asks(at, nth as usize % 3, Part { must: true, ..takes(many, 3, 20_000, hold) });
    }
}

/// Several processes ask for permits while nodes forget one after the other, and a process stands
/// still.
pub fn permits_while_nodes_forget(script: &mut Script) {
    semaphore(script, 5, 2);
    for nth in 0..40u64 {
        let (at, hold) = (script.about(nth * 150, 150), script.about(50, 400));
        let many = 1 + u32::from(nth % 4 == 3);
        script.asks(at, nth as usize % 3, takes(many, 2, 4_000, hold));
    }
    for (nth, node) in (0..5).enumerate() {
        let at = script.about(200 + nth as u64 * 1_200, 900);
        script.at(at, forgets(node));
    }
    let (at, last) = (script.about(500, 4_000), script.about(500, 3_000));
    script.at(at, super::script::pause(1, last));
}

/// Each of three processes reaches a different pair of the three nodes. Each node knows of two
/// holders at most. So if nodes only counted permits, there could be three holders.
pub fn three_clients_reach_two_of_three_nodes_each(script: &mut Script) {
    semaphore(script, 3, 2);
    for process in 0..3 {
        script.hold_back(process, &[process], 0..6_000, super::script::NEVER);
        let at = script.about(1_500 + 100 * process as u64, 200);
        script.asks(at, process, takes(1, 2, 2_000, 3_000));
    }
}

/// A process that waits for permits and holds the gate dies. Processes that wait behind it must get
/// permits once the dead process's hold of the gate has ended.
pub fn owner_of_the_gate_dies_while_it_waits_for_permits(script: &mut Script) {
    semaphore(script, 3, 2);
    script.asks(0, 0, Part { must_keep: true, ..takes(1, 2, 5_000, 6_000) });
    script.asks(100, 1, takes(2, 2, 60_000, 20));
    let behind = script.about(200, 100);
    script.asks(behind, 2, Part { must: true, ..takes(1, 2, 6_000, 20) });
    let dies = script.about(250, 1_500);
    script.at(dies, Cue::Kill(1));
}

/// A waits for both permits for longer than a ttl. While it waits, later callers must not get the
/// first permit.
pub fn the_gate_is_renewed_while_its_holder_waits(script: &mut Script) {
    semaphore(script, 3, 2);
    let (one, other) = (script.about(900, 200), script.about(5_000, 400));
    script.asks(0, 2, takes(1, 2, 5_000, one));
    script.asks(50, 2, takes(1, 2, 5_000, other));
    script.asks(200, 0, Part { must: true, ..takes(2, 2, 6_000, 50) });
    script.asks(400, 1, takes(1, 2, 20_000, 8_000));
    script.asks(7_000, 2, takes(1, 2, 20_000, 10));
}

/// The gate is revoked from A, which waits for both permits. B then queues before A. One permit
/// becomes free when A has been cut off for a while, and the other when A is back.
pub fn the_gate_is_taken_away(script: &mut Script) {
    semaphore(script, 3, 2);
    let (one, other) = (script.about(3_600, 200), script.about(4_900, 300));
    script.asks(0, 2, takes(1, 2, 5_000, one));
    script.asks(50, 2, takes(1, 2, 5_000, other));
    script.asks(200, 0, Part { must: true, ..takes(2, 2, 12_000, 50) });
    script.at(400, Cue::Revokes { process: 2, name: 0 });
    script.asks(500, 1, Part { must: true, ..takes(2, 2, 12_000, 50) });
    script.hold_back(0, &[0, 1, 2], 2_400..4_300, 4_300);
}
