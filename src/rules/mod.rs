//! The rules of the protocol: no async, no clock, no randomness, no I/O.
//!
//! Each rule takes the time, the votes and random numbers as arguments, and returns a decision. So
//! tests need only tables of inputs and results. The asynchronous code that calls the rules is in
//! the private modules `protocol` and `lease`.
//!
//! `docs/protocol.md` in the repository explains how the rules work together and why they are safe.
//! `docs/rules.toml` names the checks of each rule.
//!
//! This module is public only with the feature `unstable`, because any release may change it.

pub mod acquisition;
pub mod backoff;
pub mod ballot;
pub mod combination;
pub mod doubt;
pub mod handover;
pub mod known_nodes;
pub mod lease;
pub mod list;
pub mod lost_reason;
pub mod node_set;
pub mod pace;
pub mod renewal;
pub mod session_state;
pub mod tally;
pub mod tick;
pub mod validity;
pub mod waiting;

pub use acquisition::{Acquisition, Ask, Decision, Votes};
pub use backoff::Backoff;
pub use ballot::Ballots;
pub use combination::{Terms, Won};
pub use doubt::RestartGuard;
pub use handover::Handovers;
pub use known_nodes::KnownNodes;
pub use lease::{Expiry, Heard, LeaseState, Phase, Renewed};
pub use lost_reason::LostReason;
pub use node_set::NodeSet;
pub use pace::{Due, Pace};
pub use renewal::{RenewVote, Renewal, RenewalTally, Spread};
pub use session_state::SessionState;
pub use tally::{ClaimTally, ReleaseTally, Size, Verdict, Vote};
pub use tick::Tick;
pub use validity::{Drift, Validity};
