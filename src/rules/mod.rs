//! The rules, and nothing else: no async, no clock, no randomness, no I/O.
//!
//! Everything here takes `now`, votes or a random number and returns a decision, so every rule can
//! be tested with a table. The thin async code around it is in the private `protocol` and `lease`
//! modules.
//!
//! The repository's `docs/protocol.md` says what the rules do together, why that is safe, and which
//! check fails without each.
//!
//! Public with the feature `unstable` only: any release may change it.

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
