//! Between two rounds: until when it is not worth asking.
//!
//! A node hands the name over to the first in its line, or gives it a turn, and says so. A quorum
//! that handed it over has granted it; once one has given a turn, asking is likely to succeed. Both
//! can be lost, and whoever got them may have died. So a waiter asks by itself too: when the
//! holder's time ends, when the turns before it have run out, and every third of its ttl or as
//! often as a hand-over lasts, which also keeps its places. The next two ask more often, so that
//! what they registered is fresh.

use std::sync::Arc;
use std::time::Duration;

use super::attempt::Attempt;
use super::ear::Heard;
use super::voters::Voters;
use crate::config::Rules;
use crate::host::sleep_until;
use crate::rules::waiting::{gathering, poll, within_a_turn};
use crate::rules::{Decision, Tick, Won};

/// What is known of the round that failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failed {
    /// How many have in a row that were granted something, or called stale.
    pub(super) failures: u32,
    /// Whether the next one has reason not to wait for hints: none may come of nodes where it is
    /// not registered.
    pub(super) soon: bool,
    /// In which time a node said that things will change.
    pub(super) told: Option<Duration>,
}

/// Waits until it is worth asking again: by the hints, or when a node said that things will change;
/// at `end` at the latest. Or until a quorum has handed the name over.
///
/// # Cancel safety
/// Safe.
pub(super) async fn until_worth_asking(
    voters: &Arc<Voters>,
    attempt: &mut Attempt<'_>,
    rules: &Rules,
    failed: Failed,
    end: Tick,
) -> Option<Won> {
    let began = voters.host.now();
    let random = voters.host.random();
    let gathering = match attempt.pause() {
        pause if pause.is_zero() => gathering(voters.round_trip(), failed.failures, random),
        pause => within_a_turn(pause, random),
    };
    attempt.listen();
    loop {
        match attempt.decide(voters.host.now()) {
            Some(Decision::Won(won)) => return Some(won),
            // All that is missing is one ballot.
            Some(Decision::Lift) if attempt.heard().is_some_and(|heard| heard.pushed.is_some()) => return None,
            _ => {}
        }
        let often = poll(rules.validity.ttl()).min(attempt.refresh().unwrap_or(Duration::MAX));
        let by_itself = if failed.soon { often.min(gathering) } else { often };
        let by_itself = began + by_itself.min(failed.told.unwrap_or(Duration::MAX));
        let heard = attempt.heard();
        let worth = heard.map_or(Tick::NEVER, |heard| worth(&heard, voters, began, gathering));
        let next = by_itself.min(worth).max(began + attempt.pause()).min(end);
        if voters.host.now() >= next {
            return None;
        }
        tokio::select! {
            biased;
            () = attempt.news() => {}
            () = sleep_until(&voters.host, next) => {}
        }
    }
}

/// When it is worth asking, by what was heard by one who waits since `began`.
fn worth(heard: &Heard, voters: &Voters, began: Tick, gathering: Duration) -> Tick {
    let late = heard.late.then_some(began);
    let some = heard.pushed.into_iter().chain(late).chain(heard.first).min();
    let quorum = voters.size.quorum();
    match (heard.first, some) {
        (Some(first), _) if heard.turns.len() >= quorum => first,
        // They hold it for this caller, and what they pushed does not count: it came before it
        // could.
        (_, Some(some)) if heard.pushes.len() >= quorum => some,
        (_, Some(some)) => heard.ask_at.min(some + gathering),
        (_, None) => heard.ask_at,
    }
}
