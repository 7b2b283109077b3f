//! The wait between two rounds, until it makes sense to ask again.
//!
//! A node hands a free name over to its first live waiter, and sends the waiter a push. Pushes of a
//! quorum grant the lock. But a push can be lost, and a hold can expire without a release. So a
//! waiter also asks without a push: when a hold ends, when the quarantine of a node ends, after a
//! hint, and at the latest after the time that its last ask announced. Each ask renews the waiter's
//! places in the queues.

use std::sync::Arc;
use std::time::Duration;

use super::attempt::Attempt;
use super::push_receiver::Heard;
use super::voters::Voters;
use crate::host::sleep_until;
use crate::rules::waiting::{gathering, pause};
use crate::rules::{Decision, Tick, Won};

/// The state after a failed round, which decides how long the next wait is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failed {
    /// How many rounds failed in a row. Rounds that left only places in queues do not count.
    pub(super) failures: u32,
    /// Whether some nodes may keep no place for the owner. If so, the owner asks again after a
    /// short pause.
    pub(super) soon: bool,
    /// The time that is left of another owner's hold, by the nodes' replies, plus
    /// `Attempt::defers`.
    pub(super) told: Option<Duration>,
}

/// Waits until it makes sense to ask again, or until `end`. Returns `Won` if a quorum hands over.
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
            // A quorum granted or pushed, but with different ballots: ask again with one ballot.
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

/// When it makes sense to ask again, by the messages so far. The wait began at `began`.
fn worth(heard: &Heard, voters: &Voters, began: Tick, gathering: Duration) -> Tick {
    let late = heard.late.then_some(began);
    let quorum = voters.size.quorum();
    match heard.pushed.into_iter().chain(late).min() {
        // A quorum has pushed, but the caller has not won: the pushes came too late, or do not
        // count. So ask at once.
        Some(some) if heard.pushes.len() >= quorum => some,
        Some(some) => heard.ask_at.min(some + gathering),
        None => heard.ask_at,
    }
}
