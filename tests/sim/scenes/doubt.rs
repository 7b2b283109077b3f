//! Nodes that forgot, or whose clock was stepped, while holders and rounds depend on their votes.

use super::part::Part;
use super::script::{NEVER, Script, forgets, millis, suspend};
use crate::cue::Cue;
use crate::judge::history::{Answer, Verb};

/// A cannot reach n0 and holds the name on n1 and n2. Then A cannot reach n1 any more. B gets a
/// grant from n0, and B's request to n1 is on its way.
fn cut_off_holder(script: &mut Script, n0_until: u64) {
    script.hold_back(0, &[0], 0..n0_until, NEVER);
    script.hold_back(0, &[1], 300..NEVER, NEVER);
    script.asks(0, 0, Part { round_timeout: Some(millis(200)), ..Part::default() });
}

/// n0 grants B, and forgets this grant. A's renewal heals n0. If A now counted `extended` from n0
/// and n2, A's deadline would move by a ttl. When A's hold on n1 has ended, B's request arrives at
/// n1, and B counts n1 and the forgotten grant. (docs/protocol.md, "Why `extended` must wait".)
pub fn healed_while_a_vote_is_counted(script: &mut Script) {
    script.world(3, 2, 9_000, 20_000);
    script.node_timeout(5_000);
    cut_off_holder(script, 4_400);
    script.hold_one_way(1, &[1], 0, 4_200..4_900, 9_030);
    script.asks(4_300, 1, Part { round_timeout: Some(millis(4_950)), timeout: millis(5_500), ..Part::default() });
    // B must receive nothing more from n0, or B would doubt n0.
    script.hold_back(1, &[0], 4_340..NEVER, NEVER);
    script.once_done(Verb::Claim, 1, 0, Answer::Granted, forgets(0));
}

/// As `healed_while_a_vote_is_counted`, but A waits until n0 has been in doubt for longer than
/// MAX_ROUND. B's machine is suspended in the middle of B's round. When the machine continues, n1's
/// vote has arrived, and B's timer has not run yet.
pub fn a_vote_older_than_a_round_may_last(script: &mut Script) {
    script.world(3, 2, 9_000, 12_000);
    script.node_timeout(20_000);
    script.jitter = 2;
    cut_off_holder(script, 2_000);
    script.hold_one_way(0, &[0], 0, 2_000..3_200, 3_200);
    script.hold_one_way(1, &[1], 0, 2_900..3_500, 9_050);
    script.asks(3_000, 1, Part { round_timeout: Some(millis(5_000)), timeout: millis(8_000), ..Part::default() });
    script.once_done(Verb::Claim, 1, 0, Answer::Granted, forgets(0));
    // B must receive nothing more from n0, or B would doubt n0.
    script.hold_back(1, &[0], 3_020..NEVER, NEVER);
    let paused = script.about(5_950, 300);
    script.at(3_100, suspend(1, paused));
}

/// A holder depends on a node whose clock is stepped ahead, and back later. The holder's hold on
/// this node has ended, even if the clock is right again.
pub fn stepped_there_and_back(script: &mut Script) {
    script.world(3, 2, 2_000, 3_000);
    script.hold_back(0, &[0], 0..NEVER, NEVER);
    script.asks(0, 0, Part::default());
    let node = 1 + script.dice.index(2);
    let (there, back) = (script.about(300, 400), script.about(900, 400));
    script.at(there, Cue::StepClock { node, by_ms: 8_000 });
    script.at(back, Cue::StepClock { node, by_ms: -8_000 });
    script.asks(100, 1, Part::default());
}

/// All three nodes restart empty, one after the other. One process holds the name, and others wait.
pub fn rolling_restart_under_a_holder(script: &mut Script) {
    script.world(3, 3, 1_500, 2_000);
    script.asks(0, 0, Part::default());
    script.asks(100, 1, Part { hold: millis(300), ..Part::default() });
    let pause = script.about(100, 800);
    for node in 0..3 {
        script.at(400 + node as u64 * pause, forgets(node));
    }
    script.asks(500, 2, Part::default());
}

/// The node that granted first in a round restarts before the second grant arrives. So the first
/// vote is of a node that has forgotten its grant.
pub fn restarted_between_two_grants_of_one_round(script: &mut Script) {
    script.world(3, 2, 1_000, 1_500);
    script.node_timeout(1_000);
    script.hold_back(0, &[2], 0..NEVER, NEVER);
    let late = script.about(150, 400);
    script.hold_one_way(0, &[1], 0, 0..100, late);
    script.asks(0, 0, Part { round_timeout: Some(millis(900)), ..Part::default() });
    script.once_done(Verb::Claim, 0, 0, Answer::Granted, forgets(0));
    script.hold_back(1, &[1], 0..late + 20, NEVER);
    script.asks(20, 1, Part { round_timeout: Some(millis(300)), ..Part::default() });
}

/// A holds n0, and n0 is emptied. B's next ask gets a place beside the new record, but the reply,
/// which shows this record, is lost. C's ask makes n0 hand over to B. This push must not count: A
/// still relies on its hold.
pub fn handed_over_beside_a_record_that_the_waiter_does_not_know(script: &mut Script) {
    script.world(1, 4, 4_000, 24_000);
    script.node_timeout(3_000);
    script.jitter = 2;
    script.asks(0, 0, Part::default());
    script.hold_back(0, &[0], 100..NEVER, NEVER);
    script.asks(100, 1, Part::default());
    script.hold_one_way(1, &[0], 1, 400..1_000, NEVER);
    let emptied = script.about(400, 300);
    script.at(emptied, Cue::Flush(0));
    // This client finds no record, and makes one.
    script.asks(emptied + 20, 3, Part { timeout: millis(50), ..Part::default() });
    let asks = script.about(1_050, 200);
    script.asks(asks, 2, Part::default());
}
