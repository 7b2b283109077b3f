//! Sessions: several locks that are renewed, lost and released together.

use super::part::Part;
use super::script::{NEVER, Script, millis, suspend};
use crate::cue::Cue;
use crate::sessions::Does;
use Does::{Drops, Holds, Keeps, Locks, Revokes, Together, Tries, Unlocks};

/// A world with three names and a ttl of 3 s.
fn names(script: &mut Script, processes: usize) {
    script.world(3, processes, 3_000, 4_000);
    (script.plan.names, script.plan.checking, script.plan.sessions) = (3, vec![true; 3], 1.0);
}

fn session(does: &'static [Does]) -> Part {
    Part { session: Some(does), ..Part::default() }
}

/// Waits for names, and must get them within `timeout` milliseconds.
fn must(names: &'static [u8], timeout: u64, hold: u64) -> Part {
    Part { names, timeout: millis(timeout), hold: millis(hold), must: true, ..Part::default() }
}

/// A session unlocks one of three names during a renewal of all three. A waiter must get this name
/// long before it would expire, and keep it. The session must keep the other two.
pub fn session_unlocks_one_of_three_names_during_a_renewal(script: &mut Script) {
    names(script, 2);
    script.hold_one_way(0, &[0, 1, 2], 1, 750..1_400, 1_450);
    let does: &[Does] = &[Locks(&[0, 1, 2]), Holds(1_050, 150), Unlocks(&[1]), Holds(5_000, 500), Together, Revokes];
    script.asks(0, 0, Part { must_keep: true, ..session(does) });
    script.asks(300, 1, Part { must_keep: true, ..must(&[1], 1_500, 4_000) });
}

/// A session unlocks one of three names. A renewal of all three reaches some nodes after this
/// release, on a connection that was replaced. When it arrives, another owner holds the unlocked
/// name there, or nobody holds it.
pub fn a_renewal_comes_behind_the_release_of_a_part(script: &mut Script) {
    names(script, 2);
    let late = [&[0][..], &[1, 2], &[0, 1, 2]][script.dice.index(3)];
    script.hold_one_way(0, late, 0, 750..1_030, 1_700);
    late.iter().for_each(|&node| script.at(1_030, Cue::Replace { process: 0, node }));
    let does: &[Does] = &[Locks(&[0, 1, 2]), Holds(1_150, 150), Unlocks(&[1]), Holds(5_000, 500), Revokes];
    script.asks(0, 0, Part { must_keep: true, ..session(does) });
    if script.dice.chance(0.7) {
        script.asks(300, 1, Part { must_keep: true, ..must(&[1], 1_500, 4_000) });
    }
}

/// One caller waits for each name. All must get their names long before the locks would expire.
pub fn revoked_with_a_waiter_under_each_name(script: &mut Script) {
    names(script, 3);
    let revoked: &[Does] = &[Locks(&[0]), Holds(20, 60), Locks(&[2, 1]), Holds(500, 200), Revokes];
    let dropped: &[Does] = &[Locks(&[0]), Holds(20, 60), Locks(&[2, 1]), Holds(500, 200), Drops];
    let does = if script.dice.chance(0.7) { revoked } else { dropped };
    script.asks(0, 0, Part { must_keep: true, ..session(does) });
    for (nth, name) in [&[0], &[1], &[2]].into_iter().enumerate() {
        script.asks(200, 1 + nth % 2, must(name, 1_000, 50));
    }
}

/// Names that were locked one after the other must be renewed at one moment, if nothing fails.
pub fn session_renews_all_its_names_together(script: &mut Script) {
    names(script, 1);
    let does: &[Does] = &[
        Locks(&[0]),
        Holds(50, 400),
        Locks(&[1]),
        Holds(50, 400),
        Locks(&[2]),
        Holds(2_500, 1_000),
        Together,
        Unlocks(&[1]),
        Holds(50, 400),
        Locks(&[1]),
        Holds(3_000, 1_000),
        Together,
        Revokes,
    ];
    script.asks(0, 0, Part { must_keep: true, ..session(does) });
}

/// n0 and n1 hold one name, and n1 and n2 the other. n1 is cut off. From this moment, only one node
/// extends each name, so no quorum extends a name.
pub fn shared_node_of_two_session_names_is_cut_off(script: &mut Script) {
    names(script, 1);
    script.jitter = 2;
    script.hold_one_way(0, &[2], 0, 0..100, NEVER);
    script.at(150, Cue::Replace { process: 0, node: 2 });
    script.hold_one_way(0, &[0], 0, 280..480, NEVER);
    script.at(500, Cue::Replace { process: 0, node: 0 });
    script.hold_back(0, &[1], 750..NEVER, NEVER);
    // n0 has healed one name. n0 is cut off before the second renewal, in which n0 would extend
    // this name.
    script.hold_back(0, &[0], 1_010..NEVER, NEVER);
    script.asks(5, 0, session(&[Locks(&[0]), Holds(300, 0), Locks(&[1]), Holds(5_000, 0), Revokes]));
}

/// A session asks for one more name, and its machine is suspended until the first lock's time is
/// over. The process reads the grant of the second name before any timer reports the loss.
pub fn granted_when_the_time_of_the_session_is_over(script: &mut Script) {
    names(script, 1);
    script.hold_one_way(0, &[0, 1, 2], 1, 2_600..2_900, 3_000);
    script.at(2_760, suspend(0, 400));
    script.asks(0, 0, Part { renewed: false, ..session(&[Locks(&[0]), Holds(2_690, 30), Tries(&[1])]) });
}

/// One name of a session is revoked, so the session is lost. All waiters must get the names long
/// before the locks would expire.
pub fn session_is_lost_when_one_of_its_names_is_revoked(script: &mut Script) {
    names(script, 3);
    let apart: &[Does] = &[Locks(&[0]), Holds(10, 20), Locks(&[1]), Holds(10, 20), Locks(&[2]), Holds(8_000, 0)];
    let whole: &[Does] = &[Locks(&[0, 1, 2]), Holds(8_000, 0)];
    let does = if script.dice.chance(0.5) { apart } else { whole };
    script.asks(0, 0, session(does));
    let at = script.about(300, 200);
    script.at(at, Cue::Revokes { process: 1, name: 1 });
    for (nth, name) in [&[0], &[1], &[2]].into_iter().enumerate() {
        script.asks(200, 1 + nth % 2, must(name, 1_200, 50));
    }
}

/// A machine is suspended until a session's time is over. Before any timer reports this, the
/// session unlocks a name, and reports it as free. So all names of the session must be free.
pub fn unlocked_when_the_time_of_the_session_is_over(script: &mut Script) {
    names(script, 1);
    script.at(2_760, suspend(0, 400));
    let does: &[Does] = &[Locks(&[0, 1]), Holds(2_790, 150), Unlocks(&[1]), Keeps(200)];
    script.asks(0, 0, Part { renewed: false, ..session(does) });
}
