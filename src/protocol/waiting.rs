//! Between two rounds: until when it is not worth asking.
//!
//! A node hands the name over to the first in its queue that lives, and says so: a quorum that did
//! has granted it. Pushes can be lost, and a hold can expire that nobody releases. So a waiter asks by
//! itself too: when the holder's time ends, when a node may vote again, and as often as it said, which
//! also keeps its places.

use std::sync::Arc;
use std::time::Duration;

use super::attempt::Attempt;
use super::ear::Heard;
use super::voters::Voters;
use crate::host::sleep_until;
use crate::rules::waiting::{gathering, pause};
use crate::rules::{Decision, Tick, Won};

/// What is known of the round that failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failed {
    /// How many have in a row that left more than places in queues.
    pub(super) failures: u32,
    /// Whether there are nodes where it has no place: it asks again after a pause.
    pub(super) soon: bool,
    /// In which time a node said that a hold ends.
    pub(super) told: Option<Duration>,
}

/// Waits until it is worth asking again, at `end` at the latest. Or until a quorum has handed the
/// name over.
///
/// # Cancel safety
/// Safe.
pub(super) async fn until_worth_asking(
    voters: &Arc<Voters>,
    attempt: &mut Attempt<'_>,
    failed: Failed,
    end: Tick,
) -> Option<Won> {
    let began = voters.host.now();
    let gathering = gathering(voters.round_trip(), failed.failures);
    let pause = failed.soon.then(|| pause(voters.round_trip(), failed.failures, voters.host.random()));
    let changes = [failed.told, voters.next_to_vote()].into_iter().flatten().chain(pause).min();
    let changes = changes.map_or(Tick::NEVER, |after| began + after);
    attempt.listen();
    loop {
        match attempt.decide(voters.host.now()) {
            Some(Decision::Won(won)) => return Some(won),
            // All that is missing is one ballot.
            Some(Decision::Lift) if attempt.heard().is_some_and(|heard| heard.pushed.is_some()) => return None,
            _ => {}
        }
        let by_itself = attempt.asks_again().unwrap_or(Tick::NEVER);
        let worth = attempt.heard().map_or(Tick::NEVER, |heard| worth(&heard, voters, began, gathering));
        let next = by_itself.min(changes).min(worth).min(end);
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
    let quorum = voters.size.quorum();
    match heard.pushed.into_iter().chain(late).min() {
        // They hold it for this caller, and what they pushed does not count, or too little is left.
        Some(some) if heard.pushes.len() >= quorum => some,
        Some(some) => heard.ask_at.min(some + gathering),
        None => heard.ask_at,
    }
}
