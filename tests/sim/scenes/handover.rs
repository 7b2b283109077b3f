//! Hand-overs: what nodes push to waiters, and what waiters conclude from a push.

use std::time::Duration;

use super::part::Part;
use super::script::{NEVER, Script, forgets, millis, suspend};
use crate::cue::Cue;
use crate::judge::history::{Answer, Memory, Verb};

/// A try with a single round of this length.
fn once(round: u64) -> Part {
    Part { timeout: millis(0), round_timeout: Some(millis(round)), ..Part::default() }
}

/// A waiter is handed the lock some time after its last ask. The lock's time counts from this ask.
pub fn handed_over_a_while_after_it_asked(script: &mut Script) {
    script.world(3, 2, 2_000, 3_000);
    let hold = script.about(100, 900);
    script.asks(0, 0, Part { hold: millis(hold), ..Part::default() });
    script.asks(50, 1, Part { hold: millis(300), ..Part::default() });
}

/// Two processes hold one node each, and give it up. Both nodes hand the name over to a third
/// process, with two ballots, so no ballot has a quorum.
pub fn handed_over_with_ballots_that_differ(script: &mut Script) {
    script.world(3, 3, 3_000, 4_000);
    script.node_timeout(2_000);
    script.hold_one_way(0, &[1, 2], 0, 0..100, NEVER);
    script.hold_one_way(2, &[0, 2], 0, 0..100, NEVER);
    script.hold_one_way(1, &[2], 0, 0..1_000, NEVER);
    script.asks(0, 0, once(400));
    script.asks(0, 2, once(400));
    script.asks(100, 1, Part { hold: millis(300), ..Part::default() });
}

/// A's wall clock is far ahead. B is handed the lock, and dies before it has renewed the lock. C
/// asks with the lowest ballot that it may use. The nodes must grant only a ballot above B's.
pub fn waiter_dies_after_it_was_handed_the_lock(script: &mut Script) {
    script.world(3, 3, 1_500, 2_000);
    script.at(0, Cue::StepWall { process: 0, by_ms: 60_000 });
    script.asks(30, 0, Part { hold: millis(400), ..Part::default() });
    script.asks(80, 1, Part::default());
    for node in 0..3 {
        script.strays(1, node, Verb::Renew, 400..NEVER, NEVER);
    }
    let dies = script.about(560, 100);
    script.at(dies, Cue::Kill(1));
    // C asks late: if C already waited, the replies to its asks would show C the ballot of B.
    script.asks(800, 2, Part { hold: millis(200), ..Part::default() });
}

/// C holds n0 for a moment and hands it over to B, and B stands still. n0 forgets this hand-over. A
/// heals n0, and counts n0's votes once no round can still rest on the forgotten grant. A's hold on
/// n1 ends, and n1 grants B, with the ballot of n0's push. But this push is older than MAX_ROUND.
pub fn handed_over_longer_ago_than_a_round_may_last(script: &mut Script) {
    script.world(3, 3, 8_000, 12_000);
    script.node_timeout(20_000);
    script.jitter = 2;
    // A's connection to n0 ends before n0 restarts, so A notices the new process when it connects.
    script.hold_back(0, &[0], 0..300, NEVER);
    script.at(305, Cue::Replace { process: 0, node: 0 });
    script.hold_one_way(0, &[0], 0, 300..800, 800);
    script.hold_back(0, &[1], 300..NEVER, NEVER);
    script.asks(0, 0, Part { round_timeout: Some(millis(200)), ..Part::default() });
    // The replies of n1 and n2, which refuse C, arrive only when B already waits.
    script.hold_one_way(2, &[1, 2], 1, 0..500, 600);
    script.asks(40, 2, once(5_000));
    let (ttl, round_timeout) = (Some(millis(12_000)), Some(millis(5_000)));
    script.asks(100, 1, Part { ttl, round_timeout, ..Part::default() });
    // B reads n0's push before its timers run, and asks with the pushed ballot.
    script.at(560, suspend(1, 4_700));
    script.once_done(Verb::Withdraw, 2, 0, Answer::Released(true), forgets(0));
    // B must receive nothing more from n0, or B would doubt n0.
    script.hold_back(1, &[0], 5_000..NEVER, NEVER);
    script.hold_one_way(1, &[1], 0, 5_000..6_000, 8_050);
    let paused = script.about(2_650, 120);
    script.at(5_400, suspend(1, paused));
}

/// A holds n0 and n1. The clock of n1 goes ahead, so n1 ends A's hold early. C is granted n1 and
/// n2, sees the clock step, and gives both up. n1 then hands over to B. This push must not count.
pub fn handed_over_by_a_node_whose_clock_was_stepped(script: &mut Script) {
    script.world(3, 3, 4_000, 5_000);
    script.node_timeout(3_000);
    script.jitter = 2;
    script.hold_back(0, &[2], 0..NEVER, NEVER);
    script.asks(0, 0, Part { ttl: Some(millis(1_000)), renewed: false, ..Part::default() });
    let stepped = script.about(150, 50);
    script.at(stepped, Cue::StepClock { node: 1, by_ms: 1_000 });
    // C is granted both nodes before it reads a reply of n1, which shows the step.
    script.hold_one_way(2, &[0, 1], 1, 200..400, 500);
    script.asks(250, 2, once(2_000));
    // B queues behind A and C, and receives nothing more from n1 until n1 hands over.
    script.asks(300, 1, Part { hold: millis(200), ..Part::default() });
}

/// A node hands a name over to B, with a ballot of A, whose wall clock is ahead. B's next ask
/// reaches this node after the hand-over. The node's reply shows the hand-over's ballot, and
/// another node grants B's own ballot.
pub fn claimed_where_it_was_handed_over_with_another_ballot(script: &mut Script) {
    script.world(3, 3, 2_000, 3_000);
    script.node_timeout(2_500);
    script.jitter = 2;
    script.at(0, Cue::StepWall { process: 0, by_ms: 5_000 });
    // C holds n1 for a second, and dies.
    script.hold_one_way(2, &[0, 2], 0, 0..NEVER, NEVER);
    script.once_done(Verb::Claim, 2, 1, Answer::Granted, Cue::Kill(2));
    script.asks(20, 2, Part { ttl: Some(millis(1_000)), ..once(500) });
    // A holds the other nodes. A's requests to n1 arrive late.
    script.hold_one_way(0, &[1], 0, 0..1_600, 1_700);
    script.asks(60, 0, Part { hold: millis(900), ..Part::default() });
    // B has a place on n0. B does not receive n0's reply, so it does not know n0's fence.
    script.hold_one_way(1, &[0], 1, 150..1_500, 1_550);
    script.hold_one_way(1, &[2], 0, 150..NEVER, NEVER);
    script.asks(200, 1, Part { round_timeout: Some(millis(660)), hold: millis(300), ..Part::default() });
}

/// A releases when B has a place on n0 and n1 only, and C on n2 and n3 only. So two nodes hand the
/// name over to B, and two to C, but a quorum is three. D waits behind them. B, C and D must not
/// pass the two halves among themselves for ever: each must soon get the lock.
pub fn handed_over_half_and_half(script: &mut Script) {
    script.world(4, 4, 10_000, 12_000);
    script.jitter = 2;
    script.asks(0, 0, Part { hold: millis(400), ..Part::default() });
    let late = script.about(410, 10);
    script.hold_one_way(1, &[2, 3], 0, 40..late, late);
    script.hold_one_way(2, &[0, 1], 0, 40..late, late);
    for waiter in 1..4 {
        let timeout = millis(2_000);
        script.asks(50 * waiter, waiter as usize, Part { timeout, must: true, hold: millis(20), ..Part::default() });
    }
}

/// One of four nodes is down. A releases when B, C and D have one place each, on three nodes. Each
/// gets the name from one node, and needs all three nodes.
pub fn handed_over_in_three_parts(script: &mut Script) {
    script.world(4, 4, 10_000, 12_000);
    script.jitter = 2;
    script.at(0, Cue::Crash { node: 3, memory: Memory::Kept, down: Duration::from_secs(60) });
    script.asks(20, 0, Part { hold: millis(400), ..Part::default() });
    let late = script.about(430, 10);
    for waiter in 1..4 {
        let others = (0..3).filter(|node| node + 1 != waiter).collect::<Vec<_>>();
        script.hold_one_way(waiter, &others, 0, 40..late, late);
        let part = Part { timeout: millis(2_500), must: true, hold: millis(20), ..Part::default() };
        script.asks(50 * waiter as u64, waiter, part);
    }
}

/// C's vote is left on n2, and C is dead. A waits first, and has no connection to n0, so it cannot
/// win before C's hold ends. B reaches all nodes, and must get the lock from n0 and n1.
pub fn the_first_in_line_cannot_win(script: &mut Script) {
    script.world(3, 3, 10_000, 12_000);
    script.jitter = 2;
    script.hold_one_way(2, &[0, 1], 0, 0..NEVER, NEVER);
    script.once_done(Verb::Claim, 2, 2, Answer::Granted, Cue::Kill(2));
    script.asks(10, 2, Part::default());
    script.hold_back(0, &[0], 0..NEVER, NEVER);
    script.at(10, Cue::Replace { process: 0, node: 0 });
    script.asks(50, 0, Part::default());
    let at = script.about(60, 400);
    script.asks(at, 1, Part { timeout: millis(6_000), must: true, hold: millis(50), ..Part::default() });
}

/// Nodes grant A's claims, and A gets no answer. B must get the lock once A's first round is over.
pub fn the_first_in_line_hears_no_answers(script: &mut Script) {
    script.world(3, 2, 10_000, 12_000);
    script.node_timeout(20_000);
    script.hold_one_way(0, &[0, 1, 2], 1, 0..NEVER, NEVER);
    script.asks(10, 0, Part::default());
    let at = script.about(60, 400);
    script.asks(at, 1, Part { timeout: millis(2_500), must: true, hold: millis(50), ..Part::default() });
}

/// A holds and B waits. C, behind B, gives up: C's release must not hand over A's lock.
pub fn timed_out_waiter_hands_over_no_lock_of_others(script: &mut Script) {
    script.world(3, 3, 3_000, 4_000);
    script.asks(0, 0, Part::default());
    script.asks(50, 1, Part::default());
    let timeout = millis(script.about(100, 800));
    script.asks(100, 2, Part { timeout, ..Part::default() });
}

/// B has measured slow round trips, and then quick ones, so its later claims could ask for a
/// shorter hand-over. B's second claim is carried out, but the reply is lost. The hand-over must
/// last as long as the first claim said. With a shorter hand-over, C would enter before B has left.
pub fn handed_over_for_less_than_the_claim_before_said(script: &mut Script) {
    script.world(3, 3, 10_000, 12_000);
    script.node_timeout(6_000);
    script.jitter = 1;
    script.hold_one_way(1, &[0, 1, 2], 1, 0..100, 450);
    script.asks(0, 1, Part { hold: millis(50), ..Part::default() });
    script.asks(700, 0, Part { hold: millis(258), ..Part::default() });
    script.asks(900, 1, Part::default());
    // B asks again on its new connection, since it may have missed a push.
    script.at(902, Cue::Replace { process: 1, node: 2 });
    script.hold_one_way(1, &[0, 1], 1, 915..958, NEVER);
    script.hold_one_way(1, &[2], 1, 950..NEVER, NEVER);
    script.hold_one_way(1, &[0, 1, 2], 0, 957..NEVER, NEVER);
    script.asks(1_200, 2, Part { hold: millis(300), ..Part::default() });
}

/// C hands n0 and n1 over to A, and n2 to B, which asked later than A. Behind a proxy, B greets n0
/// on a new connection. Before B subscribes, another process with an old copy takes over at n0. C's
/// release arrives there again, and hands n0 over to B. B does not know yet which server process
/// sent this push.
pub fn handed_over_by_another_server_than_was_greeted(script: &mut Script) {
    // From this time on, a client connects again at once when its connection ends.
    const FROM: u64 = 6_000;
    script.world(3, 3, 4_000, 5_000);
    script.node_timeout(3_000);
    script.plan.proxied = true;
    script.jitter = 1;
    script.asks(FROM, 2, Part { hold: millis(880), ..Part::default() });
    script.hold_one_way(0, &[0], 0, FROM..FROM + 100, FROM + 300);
    script.hold_one_way(0, &[2], 0, FROM..NEVER, NEVER);
    script.asks(FROM + 20, 0, Part::default());
    script.asks(FROM + 50, 1, Part { round_timeout: Some(millis(3_500)), ..Part::default() });
    script.at(FROM + 250, Cue::Save(0));
    script.once_done(Verb::Release, 2, 0, Answer::Released(true), Cue::Replace { process: 2, node: 0 });
    script.hold_one_way(1, &[1], 0, FROM + 870..NEVER, NEVER);
    script.hold_one_way(1, &[0], 0, FROM + 870..FROM + 895, NEVER);
    script.at(FROM + 896, Cue::Replace { process: 1, node: 0 });
    let another = Cue::Crash { node: 0, memory: Memory::Old, down: Duration::ZERO };
    script.once_done_after(FROM + 896, Verb::Other, 1, 0, Answer::Other, another);
    script.hold_one_way(1, &[0], 0, FROM + 900..FROM + 1_500, FROM + 1_500);
}
