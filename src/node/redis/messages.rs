//! The wake-ups that a server pushes, bounded: a flood of them must keep nobody from an answer, and
//! must not make all who wait ask all the time.

use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use crate::host::sleep_until;
use crate::node::hint::Hint;
use crate::rules::Tick;

/// How many are taken in a row while replies and callers wait.
const IN_A_ROW: u32 = 64;
/// How far apart it is told at least that some were missed, since all who wait then ask every node.
const MISSED: Duration = Duration::from_secs(1);

/// The messages of one generation.
pub(super) struct Messages {
    shared: Arc<Shared>,
    /// How many came in a row.
    taken: u32,
    /// When to tell that some were missed.
    missed: Option<Tick>,
}

impl Messages {
    /// What was published while there was no connection was missed.
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let missed = Some(shared.host.now());
        Self { shared, taken: 0, missed }
    }

    /// Whether it is somebody else's turn.
    pub(super) const fn are_enough(&self) -> bool {
        self.taken >= IN_A_ROW
    }

    /// Others had their turn.
    pub(super) const fn start_again(&mut self) {
        self.taken = 0;
    }

    /// Takes a message, if it is a hint.
    pub(super) fn take(&mut self, text: &str) -> Option<Hint> {
        self.taken += 1;
        let hint = Hint::parse(self.shared.settings.listener.client(), text);
        if hint.is_none() {
            tracing::debug!(node = %self.shared.label, "a message on the wake-up channel is not a hint");
        }
        hint
    }

    /// Some were missed.
    pub(super) fn miss(&mut self) {
        self.taken += 1;
        self.missed.get_or_insert(self.shared.host.now());
    }

    pub(super) const fn were_missed(&self) -> bool {
        self.missed.is_some()
    }

    /// Waits until it is time to tell that some were missed.
    ///
    /// # Cancel safety
    /// Safe.
    pub(super) async fn due(&self) {
        sleep_until(&self.shared.host, self.missed.unwrap_or(Tick::NEVER)).await;
    }

    /// Tells that some were missed, unless that was told a moment ago: then later.
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
