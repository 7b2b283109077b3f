//! Those who wait, and those who do not.

use std::time::Duration;

/// How a claim stands to those who wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stance {
    /// Overtakes nobody, and does not wait.
    #[default]
    Once,
    /// Joins the line.
    Wait {
        /// Who came first: the microsecond at which the acquisition began.
        ticket: u64,
        /// For how long a node keeps the place, unless it is asked again.
        patience: Duration,
    },
    /// Ignores the line.
    Barge,
}
