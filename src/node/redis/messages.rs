//! Receives the hints that a server pushes, and limits their effect. A flood of messages must not
//! delay replies, and must not make all waiters ask again and again.

use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use crate::host::sleep_until;
use crate::node::hint::Hint;
use crate::rules::Tick;

/// How many messages are handled in a row before replies and callers get their turn.
const IN_A_ROW: u32 = 64;
/// The shortest time between two reports of lost messages, because a report makes all waiters ask
/// all nodes.
const MISSED: Duration = Duration::from_secs(1);

/// The messages of one connection.
pub(super) struct Messages {
    shared: Arc<Shared>,
    /// How many messages were handled in a row.
    taken: u32,
    /// When to report lost messages, if any were lost.
    missed: Option<Tick>,
}

impl Messages {
    /// Begins with a report that is due now, because messages that were published before this
    /// connection are lost.
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let missed = Some(shared.host.now());
        Self { shared, taken: 0, missed }
    }

    /// Whether replies and callers must be handled before the next message.
    pub(super) const fn are_enough(&self) -> bool {
        self.taken >= IN_A_ROW
    }

    /// Counts messages from zero again. Call this after replies and callers had their turn.
    pub(super) const fn start_again(&mut self) {
        self.taken = 0;
    }

    /// Parses a message; `None` if it is no hint.
    pub(super) fn take(&mut self, text: &str) -> Option<Hint> {
        self.taken += 1;
        let hint = Hint::parse(self.shared.settings.listener.client(), text);
        if hint.is_none() {
            tracing::debug!(node = %self.shared.label, "a message on the wake-up channel cannot be parsed");
        }
        hint
    }

    /// Notes that messages were lost.
    pub(super) fn miss(&mut self) {
        self.taken += 1;
        self.missed.get_or_insert(self.shared.host.now());
    }

    pub(super) const fn were_missed(&self) -> bool {
        self.missed.is_some()
    }

    /// Waits until lost messages must be reported. Cancel safe.
    pub(super) async fn due(&self) {
        sleep_until(&self.shared.host, self.missed.unwrap_or(Tick::NEVER)).await;
    }

    /// Reports lost messages. Postpones the report if the last report was less than `MISSED` ago.
    pub(super) fn tell_missed(&mut self) {
        let now = self.shared.host.now();
        let next = self.shared.state().missed_next;
        self.missed = Some(next).filter(|&next| now < next);
        if self.missed.is_none() {
            self.shared.state().missed_next = now + MISSED;
            self.shared.settings.listener.missed(self.shared.index);
        }
    }
}
