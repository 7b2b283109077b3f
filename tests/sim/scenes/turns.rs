//! Releases and hand-overs while messages are late or overtake each other.

use super::part::Part;
use super::script::{NEVER, Script, forgets, millis, pause};
use crate::cue::Cue;
use crate::judge::history::{Answer, Verb};

/// A claim is held back, and its round fails. Its release takes another connection and arrives
/// first. Then the claim arrives.
pub fn release_overtakes_its_claim(script: &mut Script) {
    script.world(3, 2, 2_000, 3_000);
    let late = script.about(250, 180);
    script.hold_one_way(0, &[0, 1], 0, 0..60, late);
    script.asks(0, 0, Part { round_timeout: Some(millis(200)), timeout: millis(0), ..Part::default() });
    for node in 0..2 {
        script.at(100, Cue::Replace { process: 0, node });
    }
    script.asks(480, 1, Part { timeout: millis(800), must: true, hold: millis(300), ..Part::default() });
}

/// The clock of a node jumps by more than the ttl right after the node has granted.
pub fn stepped_right_after_a_grant(script: &mut Script) {
    script.world(3, 2, 2_000, 3_000);
    let node = script.dice.index(3);
    let by_ms = if script.dice.chance(0.7) { 7_000 } else { -7_000 };
    script.hold_back(0, &[(node + 1) % 3], 0..NEVER, NEVER);
    script.once_done(Verb::Claim, 0, node, Answer::Granted, Cue::StepClock { node, by_ms });
    script.asks(0, 0, Part::default());
    script.asks(30, 1, Part { hold: millis(500), ..Part::default() });
}

/// The last vote has arrived. Before the client sees that it has won, its process stands still
/// until the grants have ended, or almost.
pub fn paused_between_the_last_vote_and_the_decision(script: &mut Script) {
    script.world(3, 2, 1_000, 1_500);
    let length = script.about(900, 300);
    script.once_answered(Verb::Claim, 0, Answer::Granted, 1, pause(0, length));
    script.asks(0, 0, Part { round_timeout: Some(millis(900)), ..Part::default() });
    script.asks(200, 1, Part { hold: millis(600), ..Part::default() });
}

/// A gets no reply before it gives up its round. When the replies arrive, A's withdrawal has been
/// carried out, and B holds the name. These replies must not count as votes.
pub fn votes_come_after_their_withdrawal(script: &mut Script) {
    script.world(3, 2, 3_000, 4_000);
    script.node_timeout(2_500);
    let late = script.about(950, 150);
    script.hold_one_way(0, &[0, 1, 2], 1, 0..900, late);
    script.asks(0, 0, Part { round_timeout: Some(millis(200)), ..Part::default() });
    script.asks(300, 1, Part::default());
}

/// The holder stands still beyond its deadline, with replies of a renewal on their way.
pub fn paused_holder_with_a_renewal_under_way(script: &mut Script) {
    script.world(3, 2, 1_000, 1_500);
    let length = script.about(500, 900);
    script.once_answered(Verb::Renew, 0, Answer::Extended, 1, pause(0, length));
    script.asks(0, 0, Part::default());
    script.asks(100, 1, Part { hold: millis(600), ..Part::default() });
}

/// Processes shut down one after the other, each with a claim on its way. No hold must be left. The
/// last process reaches two nodes and needs both: it must get the name long before a ttl has
/// passed.
pub fn shutdown_with_a_claim_under_way(script: &mut Script) {
    const LAST: usize = 12;
    script.world(3, LAST + 1, 2_000, 3_000);
    script.hold_back(LAST, &[2], 0..NEVER, NEVER);
    for process in 0..LAST {
        let at = 50 + 700 * process as u64;
        let node = script.dice.index(3);
        script.once_done(Verb::Claim, process, node, Answer::Granted, Cue::Shutdown(process));
        script.asks(at, process, Part { timeout: millis(500), ..Part::default() });
        let timeout = millis(300);
        script.asks(at + 300, LAST, Part { timeout, must: true, hold: millis(20), ..Part::default() });
    }
}

/// The waiter that is handed the lock dies, or stands still, at that moment.
pub fn waiter_dies_as_it_is_handed_the_lock(script: &mut Script) {
    script.world(3, 3, 1_500, 2_000);
    script.asks(0, 0, Part { hold: millis(400), ..Part::default() });
    script.asks(50, 1, Part { timeout: millis(5_000), ..Part::default() });
    script.asks(150, 2, Part { hold: millis(100), ..Part::default() });
    let dies = if script.dice.chance(0.5) { Cue::Kill(1) } else { pause(1, 2_500) };
    script.once_done(Verb::Release, 0, 1, Answer::Released(true), dies);
}

/// B is first in the queue, and its process is killed while A holds. B's connections end, so nodes
/// must not hand over to B. C must get the lock at once.
pub fn the_first_in_line_is_killed(script: &mut Script) {
    script.world(3, 3, 10_000, 12_000);
    script.jitter = 2;
    script.asks(0, 0, Part { hold: millis(800), ..Part::default() });
    script.asks(50, 1, Part::default());
    let dies = script.about(110, 670);
    script.at(dies, Cue::Kill(1));
    waits_behind(script, 800);
}

/// A dozen waiters are killed while A holds. The waiter behind them must get the lock at once.
pub fn last_waiter_gets_the_lock_after_all_others_are_killed(script: &mut Script) {
    const LAST: usize = 13;
    script.world(3, LAST + 1, 10_000, 12_000);
    script.jitter = 1;
    script.asks(0, 0, Part { hold: millis(800), ..Part::default() });
    for waiter in 1..LAST {
        script.asks(20 + waiter as u64 * 10, waiter, Part::default());
        let dies = script.about(300, 400);
        script.at(dies, Cue::Kill(waiter));
    }
    let timeout = millis(800 - 200 + 30);
    script.asks(200, LAST, Part { timeout, must: true, hold: millis(100), ..Part::default() });
}

/// A dies, and its hold ends while B, which waits, cannot ask. C finds the name free, and its claim
/// must hand the name over to B.
pub fn a_newcomer_finds_a_free_name_that_is_waited_for(script: &mut Script) {
    script.world(3, 3, 1_500, 2_000);
    script.jitter = 2;
    script.asks(0, 0, Part { renewed: false, ..Part::default() });
    script.at(300, Cue::Kill(0));
    script.asks(100, 1, Part { timeout: millis(1_600), must: true, hold: millis(300), ..Part::default() });
    script.hold_one_way(1, &[0, 1, 2], 0, 1_400..1_800, 1_900);
    let once = Part { timeout: millis(0), hold: millis(1_200), ..Part::default() };
    script.asks(1_520, 2, once);
}

/// A dies. Then the clocks of two nodes are set back by a minute. A's hold must not become longer.
pub fn clocks_are_set_back_under_a_hold(script: &mut Script) {
    script.world(3, 2, 2_000, 3_000);
    script.asks(0, 0, Part { renewed: false, ..Part::default() });
    script.at(200, Cue::Kill(0));
    for node in 0..2 {
        let at = script.about(300, 100);
        script.at(at, Cue::StepClock { node, by_ms: -60_000 });
    }
    script.asks(500, 1, Part { timeout: millis(8_000), must: true, hold: millis(100), ..Part::default() });
}

/// B is first in the queue, and its machine is cut off, which no node notices. Nodes hand over to
/// B. C must get the lock 5 s after A's release at the latest.
pub fn the_first_in_line_is_cut_off(script: &mut Script) {
    script.world(3, 3, 10_000, 12_000);
    script.jitter = 2;
    script.asks(0, 0, Part { hold: millis(4_500), ..Part::default() });
    script.asks(50, 1, Part::default());
    let cut = script.about(110, 4_370);
    script.hold_back(1, &[0, 1, 2], cut..NEVER, NEVER);
    waits_behind(script, 4_500 + 5_000);
}

/// C asks behind B, and must get the lock at `by`, plus some round trips.
fn waits_behind(script: &mut Script, by: u64) {
    let timeout = millis(by - 100 + 25);
    script.asks(100, 2, Part { timeout, must: true, hold: millis(100), ..Part::default() });
}

/// A node restarts empty between a release and the next claim on the same connection.
pub fn restarted_between_a_release_and_the_claim_behind_it(script: &mut Script) {
    script.world(3, 2, 1_000, 1_500);
    script.asks(0, 0, Part { hold: millis(200), ..Part::default() });
    script.asks(50, 1, Part { hold: millis(300), ..Part::default() });
    script.asks(250, 0, Part { hold: millis(300), ..Part::default() });
    let node = script.dice.index(3);
    script.once_done(Verb::Release, 0, node, Answer::Released(true), forgets(node));
}

/// Two holders in turn, on quorums that share only one node. The first holder's wall clock is far
/// ahead.
pub fn tokens_grow_though_wall_clocks_do_not(script: &mut Script) {
    script.world(3, 2, 1_000, 1_500);
    let ahead = script.about(1_000, 60_000) as i64;
    script.at(0, Cue::StepWall { process: 0, by_ms: ahead });
    script.hold_back(0, &[0], 0..NEVER, NEVER);
    script.hold_back(1, &[2], 0..NEVER, NEVER);
    script.asks(30, 0, Part { hold: millis(100), ..Part::default() });
    // The second process asks after the release: the refusal of a claim would show the fence.
    script.asks(300, 1, Part { hold: millis(100), ..Part::default() });
}

/// The replies of two grants are lost, so these holds must be withdrawn. Another process must get
/// the name as soon as the round has failed.
pub fn answers_of_grants_are_lost(script: &mut Script) {
    script.world(3, 2, 3_000, 4_000);
    script.hold_one_way(0, &[0, 1], 1, 0..150, NEVER);
    script.asks(20, 0, Part { round_timeout: Some(millis(200)), timeout: millis(100), ..Part::default() });
    script.asks(300, 1, Part { timeout: millis(600), must: true, hold: millis(100), ..Part::default() });
}

/// A renewal arrives after the release of its lock, when another owner holds the name, or nobody.
pub fn renewal_after_its_release(script: &mut Script) {
    script.world(3, 2, 900, 1_500);
    let node = script.dice.index(3);
    let late = script.about(450, 700);
    script.hold_one_way(0, &[node], 0, 280..400, late);
    script.asks(0, 0, Part { hold: millis(420), ..Part::default() });
    script.at(405, Cue::Replace { process: 0, node });
    script.asks(300, 1, Part { hold: millis(600), ..Part::default() });
}

/// C revokes a name, and cannot reach one of the nodes that A holds. Meanwhile A's first renewal is
/// on its way to the node that A does not hold yet.
pub fn revoked_on_a_quorum_where_a_renewal_comes_late(script: &mut Script) {
    script.world(3, 3, 2_000, 2_500);
    // The revoker waits this long for the node that it cannot reach.
    script.node_timeout(200);
    script.jitter = 5;
    script.hold_one_way(0, &[2], 0, 0..300, NEVER);
    script.hold_back(2, &[0], 0..NEVER, NEVER);
    script.asks(0, 0, Part::default());
    let late = script.about(950, 150);
    script.hold_one_way(0, &[2], 0, 300..800, late);
    script.at(700, Cue::Revokes { process: 2, name: 0 });
}

/// C revokes a name while A hands it over to B, and one node has not received A's release yet. When
/// C asks who holds the name, all nodes still name A.
pub fn revoked_while_it_is_handed_over(script: &mut Script) {
    script.world(3, 3, 2_000, 2_500);
    script.jitter = 5;
    let late = script.about(1_200, 200);
    script.hold_one_way(0, &[0], 0, 300..500, late);
    script.asks(0, 0, Part { hold: millis(400), ..Part::default() });
    script.asks(50, 1, Part::default());
    script.at(385, Cue::Revokes { process: 2, name: 0 });
    let told = script.about(430, 60);
    script.hold_one_way(2, &[0, 1, 2], 1, 380..425, told);
    // The node without A's release is among the first nodes that answer the next request.
    script.hold_one_way(2, &[2], 1, 425..550, 560);
}

/// As `revoked_while_it_is_handed_over`. Also, another waiter, whose clock is ahead, gives up
/// before the revocation arrives. This waiter's release raises the fence of the name that B holds.
pub fn revoked_while_another_raises_the_fence(script: &mut Script) {
    script.world(3, 4, 2_000, 2_500);
    script.jitter = 2;
    script.at(0, Cue::StepWall { process: 3, by_ms: 60_000 });
    script.hold_one_way(0, &[0, 1], 0, 380..430, 460);
    let late = script.about(1_200, 200);
    script.hold_one_way(0, &[2], 0, 380..500, late);
    script.asks(20, 0, Part { hold: millis(390), ..Part::default() });
    script.asks(60, 1, Part::default());
    script.asks(110, 3, Part { timeout: millis(390), ..Part::default() });
    // C asks who holds the name, and the nodes name A. When C reads these replies, n0 and n1 have
    // already handed the name over to B. C's next reply from n1 is late.
    let at = script.about(435, 10);
    script.at(at, Cue::Revokes { process: 2, name: 0 });
    script.hold_one_way(2, &[0, 1, 2], 1, 430..455, 600);
    script.hold_one_way(2, &[1], 1, 595..650, 700);
}

/// C revokes a name when one node has handed it over to B, and the other nodes have not received
/// A's release yet. So B's hold is revoked, and B must ask with a higher ballot.
pub fn revoked_while_one_node_hands_it_over(script: &mut Script) {
    script.world(3, 3, 2_000, 2_500);
    script.jitter = 2;
    let late = script.about(800, 400);
    script.hold_one_way(0, &[1, 2], 0, 380..500, late);
    script.asks(20, 0, Part { hold: millis(390), ..Part::default() });
    script.asks(60, 1, Part { hold: millis(300), timeout: millis(3_000), must: true, ..Part::default() });
    // B claims the name on the other nodes after the nodes have carried out the revocation.
    script.hold_one_way(1, &[0, 1, 2], 0, 405..480, 480);
    let at = script.about(430, 20);
    script.at(at, Cue::Revokes { process: 2, name: 0 });
}

/// C, whose clock is ahead, revokes the name. No other client knows C's high ballot. When A
/// releases, its hand-over must have a higher ballot than C's.
pub fn revoked_by_a_clock_that_is_ahead(script: &mut Script) {
    script.world(3, 3, 2_000, 2_500);
    script.at(0, Cue::StepWall { process: 2, by_ms: 60_000 });
    script.asks(20, 0, Part::default());
    script.asks(60, 1, Part { hold: millis(300), timeout: millis(4_000), must: true, ..Part::default() });
    let at = script.about(200, 400);
    script.at(at, Cue::Revokes { process: 2, name: 0 });
}

/// A's round fails, and its withdrawal is late, on a connection that has been replaced. The late
/// withdrawal must not free the name, which A's next round has got with a higher ballot.
pub fn a_withdrawal_comes_behind_the_next_round(script: &mut Script) {
    script.world(3, 2, 3_000, 4_000);
    script.jitter = 2;
    script.hold_one_way(0, &[0, 1, 2], 1, 0..100, NEVER);
    script.asks(0, 0, Part { round_timeout: Some(millis(200)), ..Part::default() });
    let late = script.about(500, 600);
    script.hold_one_way(0, &[0, 1, 2], 0, 190..210, late);
    for node in 0..3 {
        script.at(220, Cue::Replace { process: 0, node });
    }
    script.asks(300, 1, Part { hold: millis(400), ..Part::default() });
}

/// A name is revoked while its holder still uses it. Another caller asks at once, and must get the
/// name, but only after the holder has dropped its guard.
pub fn revoked_and_asked_for(script: &mut Script) {
    script.world(3, 3, 2_000, 2_500);
    script.asks(0, 0, Part::default());
    let at = script.about(300, 2_500);
    script.at(at, Cue::Revokes { process: 2, name: 0 });
    script.asks(at + 30, 1, Part { hold: millis(300), timeout: millis(2_000), must: true, ..Part::default() });
}

/// A name is revoked, and its holder goes on working for a while. The next caller, in any process,
/// must get the name when the holder drops its guard, or at the holder's deadline.
pub fn revoked_holder_lingers_and_the_next_gets_the_name(script: &mut Script) {
    script.world(3, 3, 2_000, 2_500);
    let lingers = script.about(0, 3_000);
    script.asks(0, 0, Part { lingers: millis(lingers), ..Part::default() });
    let (at, next) = (script.about(300, 1_500), script.dice.index(2));
    script.at(at, Cue::Revokes { process: 2, name: 0 });
    script.asks(at + 30, next, Part { hold: millis(300), timeout: millis(4_000), must: true, ..Part::default() });
}
