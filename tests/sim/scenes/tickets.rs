//! Locks that become tickets, and are resumed by other processes.

use super::part::Part;
use super::script::{NEVER, Script, millis};
use crate::cue::Cue;
use crate::judge::history::Verb;

fn makes(hold: u64) -> Part {
    Part { ticket: Some(false), hold: millis(hold), ..Part::default() }
}

fn resumes(hold: u64) -> Part {
    Part { ticket: Some(true), hold: millis(hold), ..Part::default() }
}

/// A makes a ticket, and B and C resume it at the same moment. D waits for the lock.
pub fn two_clients_resume_one_ticket(script: &mut Script) {
    script.world(3, 4, 2_000, 3_000);
    script.jitter = 2;
    script.asks(0, 0, makes(300));
    script.asks(100, 3, Part { hold: millis(200), ..Part::default() });
    let at = script.about(400, 300);
    script.asks(at, 1, resumes(500));
    script.asks(at, 2, resumes(500));
}

/// A's ticket expires. B holds the lock after that, and dies. Once B's holds have expired too, C
/// resumes the ticket: it is too late.
pub fn a_ticket_is_resumed_when_another_has_held_the_lock(script: &mut Script) {
    script.world(3, 3, 1_000, 2_000);
    script.asks(0, 0, makes(100));
    script.asks(200, 1, Part::default());
    let dies = script.about(1_600, 300);
    script.at(dies, Cue::Kill(1));
    script.asks(dies + 1_100, 2, resumes(300));
}

/// A renewal of A is still on its way when A makes a ticket. It arrives when B has resumed the lock,
/// or has released it.
pub fn a_renewal_comes_when_its_lock_was_resumed(script: &mut Script) {
    script.world(3, 2, 2_000, 3_000);
    let (late, hold) = (script.about(900, 800), script.about(100, 700));
    script.strays(0, 2, Verb::Renew, 600..760, late);
    script.asks(0, 0, makes(720));
    script.asks(820, 1, resumes(hold));
    script.hold_back(0, &[1], 1_000..NEVER, NEVER);
}
