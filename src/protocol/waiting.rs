//! Between two rounds: until when it is not worth asking.
//!
//! A node gives a turn to the first in its line, and says so. Once a quorum of nodes has, asking is likely to succeed. Hints can be lost, so a waiter asks by
//! itself too: when the holder's time ends, when somebody's turn runs out, and every third of its ttl, which also keeps its places.

use std::sync::Arc;
use std::time::Duration;

use super::hints::{Heard, Listening};
use super::voters::Voters;
use crate::config::Rules;
use crate::host::sleep_until;
use crate::quorum::Tick;
use crate::quorum::waiting::{gathering, poll};

/// A caller that stands in the nodes' lines. Its places are kept as long as this lives.
#[derive(Debug)]
pub(super) struct InLine(Arc<Voters>);

impl InLine {
    pub(super) fn new(voters: &Arc<Voters>) -> Arc<Self> {
        voters.meters.in_line(true);
        Arc::new(Self(voters.clone()))
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        self.0.meters.in_line(false);
    }
}

/// Waits until it is worth asking again: by the hints, or at `told`, when a node said that things will change; at `end` at the latest.
///
/// # Cancel safety
/// Safe.
pub(super) async fn until_worth_asking(
    voters: &Arc<Voters>,
    listening: &Listening,
    rules: &Rules,
    failures: u32,
    told: Option<Duration>,
    end: Tick,
) {
    let began = voters.host.now();
    let by_itself = began + poll(rules.validity.ttl()).min(told.unwrap_or(Duration::MAX));
    let gathering = gathering(voters.round_trip(), failures);
    loop {
        let heard = listening.heard();
        let next = by_itself.min(end).min(worth(&heard, voters, gathering));
        if voters.host.now() >= next {
            return;
        }
        tokio::select! {
            biased;
            () = listening.news() => {}
            () = sleep_until(&voters.host, next) => {}
        }
    }
}

/// When it is worth asking, by what was heard.
fn worth(heard: &Heard, voters: &Voters, gathering: Duration) -> Tick {
    match heard.first {
        Some(first) if heard.turns.len() >= voters.size.quorum() => first,
        Some(first) => heard.ask_at.min(first + gathering),
        None => heard.ask_at,
    }
}
