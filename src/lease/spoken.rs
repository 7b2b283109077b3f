//! What the holder of a lock says of itself: told again to nodes that do not know it.

use std::sync::Arc;
use std::time::Duration;

use crate::protocol::{Grant, Renewing, Telling, Voters, Words};
use crate::rules::{NodeSet, Tick};

/// Nodes keep it for 105 s after the end of the hold that they knew of when it was told, which each
/// renewal moves by up to a ttl: it is told again with a renewal that is so much later.
const LASTS: Duration = Duration::from_secs(35);

/// What was said last, and where that was sent.
#[derive(Debug)]
pub(super) struct Spoken {
    words: Words,
    telling: Telling,
    /// The nodes that had stored it before it was told last.
    stored: NodeSet,
    /// When all nodes were told.
    all: Tick,
    /// The last renewal: some of its answers may have come since it was decided.
    renewed: Option<Renewing>,
}

impl Spoken {
    /// Tells all nodes.
    pub(super) fn begin(grant: &Grant, says: Arc<str>, voters: &Voters) -> Self {
        Self::tell(grant, Words { says, number: 0, since: voters.host.now() }, voters)
    }

    fn tell(grant: &Grant, words: Words, voters: &Voters) -> Self {
        let telling = grant.tell(&words, voters.everyone());
        Self { words, all: telling.sent(), telling, stored: NodeSet::default(), renewed: None }
    }

    /// Tells all nodes something else.
    pub(super) fn say(&mut self, grant: &Grant, says: Arc<str>, voters: &Voters) -> Telling {
        let words = Words { says, number: self.words.number.saturating_add(1), since: self.words.since };
        *self = Self::tell(grant, words, voters);
        self.telling.clone()
    }

    /// Tells those nodes again that may not know it, after a renewal.
    pub(super) fn again(&mut self, grant: &Grant, renewing: &Renewing, voters: &Voters) {
        let last = self.renewed.replace(renewing.clone());
        // One that took the names back has forgotten it.
        let forgot = last.iter().chain([renewing]).map(|renewal| renewal.votes().absent());
        self.stored = forgot.fold(self.stored.or(self.telling.stored()), NodeSet::without);
        let now = voters.host.now();
        if now.since(self.all) >= LASTS {
            (self.all, self.stored) = (now, NodeSet::default());
        }
        let missing = voters.everyone().without(self.stored);
        if !missing.is_empty() {
            self.telling = grant.tell(&self.words, missing);
        }
    }
}
