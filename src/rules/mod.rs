//! The rules of the protocol: no async, no clock, no randomness, no I/O.
//!
//! Each rule takes `now`, votes or a random number, and returns a decision. So a table can test
//! each rule. The asynchronous code around them is in the private modules `protocol` and `lease`.
//!
//! `docs/protocol.md` in the repository explains how the rules work together and why they are safe.
//! `docs/rules.toml` names the checks of each rule.
//!
//! Public with the feature `unstable` only: any release may change this module.

pub mod acquisition;
pub mod backoff;
pub mod ballot;
pub mod book;
pub mod combination;
pub mod doubt;
pub mod handover;
pub mod lease;
pub mod list;
pub mod lost;
pub mod node_set;
pub mod pace;
pub mod renewal;
pub mod tally;
pub mod tenancy;
pub mod tick;
pub mod validity;
pub mod waiting;

pub use acquisition::{Acquisition, Ask, Decision, Votes, Won};
pub use backoff::Backoff;
pub use ballot::Ballots;
pub use book::Book;
pub use combination::Terms;
pub use doubt::RestartGuard;
pub use handover::Handovers;
pub use lease::{Expiry, Heard, Phase, Renewed, Tenure};
pub use lost::LostReason;
pub use node_set::NodeSet;
pub use pace::{Due, Pace};
pub use renewal::{RenewVote, Renewal, RenewalTally, Spread};
pub use tally::{ClaimTally, ReleaseTally, Size, Verdict, Vote};
pub use tenancy::Tenancy;
pub use tick::Tick;
pub use validity::{Drift, Validity};
