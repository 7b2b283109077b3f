//! The wake-ups that a server pushes, with bounds: a flood must neither delay replies nor make all
//! waiters ask all the time.

use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use crate::host::sleep_until;
use crate::node::hint::Hint;
use crate::rules::Tick;

/// How many messages are taken in a row while replies and callers wait.
const IN_A_ROW: u32 = 64;
/// The shortest time between two reports of lost messages: after each report, all waiters ask every
/// node.
const MISSED: Duration = Duration::from_secs(1);

/// The messages of one generation.
pub(super) struct Messages {
    shared: Arc<Shared>,
    /// How many messages were taken in a row.
    taken: u32,
    /// When to report lost messages, if any were lost.
    missed: Option<Tick>,
}

impl Messages {
    /// No messages yet. Messages may have been published while there was no connection: they are
    /// lost.
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let missed = Some(shared.host.now());
        Self { shared, taken: 0, missed }
    }

    /// Whether replies and callers must have their turn now.
    pub(super) const fn are_enough(&self) -> bool {
        self.taken >= IN_A_ROW
    }

    /// Starts a new row, after replies and callers have had their turn.
    pub(super) const fn start_again(&mut self) {
        self.taken = 0;
    }

    /// Reads a message; `None` if it is no hint.
    pub(super) fn take(&mut self, text: &str) -> Option<Hint> {
        self.taken += 1;
        let hint = Hint::parse(self.shared.settings.listener.client(), text);
        if hint.is_none() {
            tracing::debug!(node = %self.shared.label, "a message on the wake-up channel is not a hint");
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

    /// Reports lost messages, or postpones the report if the last one was a moment ago.
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
