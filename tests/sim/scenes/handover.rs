//! Hand-overs: what nodes push to who waits, and what it may make of that.

use std::time::Duration;

use super::part::Part;
use super::script::{NEVER, Script, forgets, millis, suspend};
use crate::cue::Cue;
use crate::judge::history::{Answer, Memory, Verb};

/// One round, of one process that does not wait for anybody.
fn once(round: u64) -> Part {
    Part { timeout: millis(0), round_timeout: Some(millis(round)), ..Part::default() }
}

/// A waiter is handed the lock some time after it has asked for it last: its time has begun then.
pub fn handed_over_a_while_after_it_asked(script: &mut Script) {
    script.world(3, 2, 2_000, 3_000);
    let hold = script.about(100, 900);
    script.asks(0, 0, Part { hold: millis(hold), ..Part::default() });
    script.asks(50, 1, Part { hold: millis(300), ..Part::default() });
}

/// Two processes have one node each, and give it back: a third is handed both, with two ballots, of
/// which none has a quorum.
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

/// The first holder's wall clock is far ahead. The one that it hands over to dies before it has renewed
/// that, and the next one asks with the lowest ballot that it may: that must be above what was handed
/// over.
pub fn whoever_was_handed_the_lock_dies(script: &mut Script) {
    script.world(3, 3, 1_500, 2_000);
    script.at(0, Cue::StepWall { process: 0, by_ms: 60_000 });
    script.asks(30, 0, Part { hold: millis(400), ..Part::default() });
    script.asks(80, 1, Part::default());
    for node in 0..3 {
        script.strays(1, node, Verb::Renew, 400..NEVER, NEVER);
    }
    let dies = script.about(560, 100);
    script.at(dies, Cue::Kill(1));
    // Later: who waits already would be told of the ballot.
    script.asks(800, 2, Part { hold: millis(200), ..Part::default() });
}

/// B is handed n0 by C, which had it for a moment, and stands still. n0 forgets that; A heals it
/// there, and counts it when no round rests on what was forgotten any more. A's key on n1 ends, and
/// B is granted it with the ballot that n0 had handed over: what B was pushed is older than a round
/// may last.
pub fn handed_over_longer_ago_than_a_round_may_last(script: &mut Script) {
    script.world(3, 3, 8_000, 12_000);
    script.node_timeout(20_000);
    script.jitter = 2;
    // What A has of n0 ends before that restarts: so A knows whose room the new process has.
    script.hold_back(0, &[0], 0..300, NEVER);
    script.at(305, Cue::Replace { process: 0, node: 0 });
    script.hold_one_way(0, &[0], 0, 300..800, 800);
    script.hold_back(0, &[1], 300..NEVER, NEVER);
    script.asks(0, 0, Part { round_timeout: Some(millis(200)), ..Part::default() });
    // C hears that others have it when B waits.
    script.hold_one_way(2, &[1, 2], 1, 0..500, 600);
    script.asks(40, 2, once(5_000));
    let (ttl, round_timeout) = (Some(millis(12_000)), Some(millis(5_000)));
    script.asks(100, 1, Part { ttl, round_timeout, ..Part::default() });
    // It reads that before its timers run, and asks with the ballot that n0 had handed over.
    script.at(560, suspend(1, 4_700));
    script.once_done(Verb::Withdraw, 2, 0, Answer::Released(true), forgets(0));
    // B does not hear of n0 again: else it would doubt it.
    script.hold_back(1, &[0], 5_000..NEVER, NEVER);
    script.hold_one_way(1, &[1], 0, 5_000..6_000, 8_050);
    let paused = script.about(2_650, 120);
    script.at(5_400, suspend(1, paused));
}

/// A holds n0 and n1, by which it believes. The clock of n1 goes ahead, and C is granted n1 and n2;
/// it sees the step, and gives both back. What n1 hands over to B was ended early, and does not
/// count.
pub fn handed_over_by_a_node_whose_clock_was_stepped(script: &mut Script) {
    script.world(3, 3, 4_000, 5_000);
    script.node_timeout(3_000);
    script.jitter = 2;
    script.hold_back(0, &[2], 0..NEVER, NEVER);
    script.asks(0, 0, Part { ttl: Some(millis(1_000)), renewed: false, ..Part::default() });
    let stepped = script.about(150, 50);
    script.at(stepped, Cue::StepClock { node: 1, by_ms: 1_000 });
    // C is granted both before it hears from n1, whose answer shows the step.
    script.hold_one_way(2, &[0, 1], 1, 200..400, 500);
    script.asks(250, 2, once(2_000));
    // B joins behind A and C, and hears nothing more from n1 until that hands over.
    script.asks(300, 1, Part { hold: millis(200), ..Part::default() });
}

/// A node hands a name over to who has asked it again by then, with the ballot of a holder whose
/// wall clock is ahead. The answer tells that ballot, and not the one it was asked with: another
/// node grants that.
pub fn claimed_where_it_was_handed_over_with_another_ballot(script: &mut Script) {
    script.world(3, 3, 2_000, 3_000);
    script.node_timeout(2_500);
    script.jitter = 2;
    script.at(0, Cue::StepWall { process: 0, by_ms: 5_000 });
    // C has n1 for a second, and dies.
    script.hold_one_way(2, &[0, 2], 0, 0..NEVER, NEVER);
    script.once_done(Verb::Claim, 2, 1, Answer::Granted, Cue::Kill(2));
    script.asks(20, 2, Part { ttl: Some(millis(1_000)), ..once(500) });
    // A has the others, and is never heard of there.
    script.hold_one_way(0, &[1], 0, 0..1_600, 1_700);
    script.asks(60, 0, Part { hold: millis(900), ..Part::default() });
    // B is registered on n0 and does not hear of that, nor of the fence there.
    script.hold_one_way(1, &[0], 1, 150..1_500, 1_550);
    script.hold_one_way(1, &[2], 0, 150..NEVER, NEVER);
    script.asks(200, 1, Part { round_timeout: Some(millis(660)), hold: millis(300), ..Part::default() });
}

/// A holds and B waits when C, behind it, gives up: its release hands nothing over that is A's.
pub fn who_gives_up_hands_over_nothing_of_others(script: &mut Script) {
    script.world(3, 3, 3_000, 4_000);
    script.asks(0, 0, Part::default());
    script.asks(50, 1, Part::default());
    let timeout = millis(script.about(100, 800));
    script.asks(100, 2, Part { timeout, ..Part::default() });
}

/// B has measured slow round trips, and quick ones since: it would want a shorter hand-over with
/// each claim. Its second claim is carried out, and not answered; what is handed over then must
/// last as long as the first claim said, or C enters before B has left.
pub fn handed_over_for_less_than_the_claim_before_said(script: &mut Script) {
    script.world(3, 3, 10_000, 12_000);
    script.node_timeout(6_000);
    script.jitter = 1;
    script.hold_one_way(1, &[0, 1, 2], 1, 0..100, 450);
    script.asks(0, 1, Part { hold: millis(50), ..Part::default() });
    script.asks(700, 0, Part { hold: millis(258), ..Part::default() });
    script.asks(900, 1, Part::default());
    // It asks again since it may have missed something.
    script.at(902, Cue::Replace { process: 1, node: 2 });
    script.hold_one_way(1, &[0, 1], 1, 915..958, NEVER);
    script.hold_one_way(1, &[2], 1, 950..NEVER, NEVER);
    script.hold_one_way(1, &[0, 1, 2], 0, 957..NEVER, NEVER);
    script.asks(1_200, 2, Part { hold: millis(300), ..Part::default() });
}

/// C hands n0 and n1 over to A, and n2 to B, who came later. Another process with an old copy
/// answers at n0 behind a proxy, when B has greeted the first one there anew, and before it
/// subscribes and looks again. C's release comes there once more: it hands n0 over to B, of whose
/// connection it is not known yet whose it is.
pub fn handed_over_by_another_server_than_was_greeted(script: &mut Script) {
    // By then a connection that ends is made again at once.
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
