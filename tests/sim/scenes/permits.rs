//! Semaphores: at most so many at a time.

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

/// More is asked for than there is, one and several at a time, from several processes.
pub fn permits_are_asked_for_by_many(script: &mut Script) {
    semaphore(script, 3, 3);
    for nth in 0..30u64 {
        let (at, hold) = (script.about(nth * 20, 60), script.about(20, 60));
        let many = 1 + script.dice.index(3) as u32;
        script.asks(at, nth as usize % 3, Part { must: true, ..takes(many, 3, 20_000, hold) });
    }
}

/// The same while nodes forget, one after the other, and a holder stands still.
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

/// Each of three reaches two of three nodes, and no two the same two. Each node knows of two holders
/// at most, and yet there may be three where nodes only count.
pub fn each_of_three_reaches_two_of_three_nodes(script: &mut Script) {
    semaphore(script, 3, 2);
    for process in 0..3 {
        script.hold_back(process, &[process], 0..6_000, super::script::NEVER);
        let at = script.about(1_500 + 100 * process as u64, 200);
        script.asks(at, process, takes(1, 2, 2_000, 3_000));
    }
}

/// Who waits for permits, and has the gate, dies. Those behind it are served when its time is over.
pub fn whoever_has_the_gate_dies(script: &mut Script) {
    semaphore(script, 3, 2);
    script.asks(0, 0, Part { must_keep: true, ..takes(1, 2, 5_000, 6_000) });
    script.asks(100, 1, takes(2, 2, 60_000, 20));
    let behind = script.about(200, 100);
    script.asks(behind, 2, Part { must: true, ..takes(1, 2, 6_000, 20) });
    let dies = script.about(250, 1_500);
    script.at(dies, Cue::Kill(1));
}

/// There are three permits where there were two. Whoever knows of two only is refused from then on,
/// or holds what it got before.
pub fn there_are_more_permits_than_before(script: &mut Script) {
    semaphore(script, 3, 3);
    for nth in 0..40u64 {
        let (at, hold) = (script.about(nth * 25, 50), script.about(100, 400));
        script.asks(at, nth as usize % 2, takes(1, 2, 500, hold));
    }
    for nth in 0..20u64 {
        let (at, hold) = (script.about(300 + nth * 40, 50), script.about(100, 600));
        script.asks(at, 2, takes(1, 3, 2_000, hold));
    }
    let forgotten = script.about(300, 1_000);
    script.at(forgotten, forgets(0));
}

/// Who knows of two permits waits at the gate, in the nodes' queues, when who knows of three comes to
/// stand before it. It is handed nothing by whoever took the third.
pub fn waits_with_fewer_permits_than_there_are(script: &mut Script) {
    semaphore(script, 3, 3);
    script.jitter = 0;
    script.asks(0, 0, takes(1, 2, 5_000, 4_000));
    // It has the gate and one permit until it gives up.
    let gives_up = script.about(1_220, 60);
    script.asks(300, 0, takes(2, 2, gives_up, 20));
    // The claim that waits comes late, and has its ticket.
    script.hold_one_way(2, &[0, 1, 2], 0, 1_001..1_500, 1_500);
    script.asks(1_000, 2, takes(1, 3, 5_000, 1_000));
    script.asks(1_100, 1, takes(1, 2, 5_000, 1_000));
}
