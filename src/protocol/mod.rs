//! Thin async code around the rules: fan-out, acquire, renew, release, waiting.

mod acquire;
mod attempt;
mod census;
mod doubts;
mod ear;
pub(crate) mod enrol;
mod given_back;
mod hints;
mod holding;
mod inspect;
mod listening;
mod members;
mod queue;
mod release;
mod renew;
mod revoke;
mod round;
pub(crate) mod teach;
mod voters;
mod waiting;

pub(crate) use acquire::{Claimant, Patience, Won};
pub(crate) use census::{Known, Said, census, met, roster, tell};
pub(crate) use doubts::Doubts;
pub(crate) use given_back::GivenBack;
pub(crate) use hints::Hints;
pub(crate) use holding::Holding;
pub(crate) use inspect::Survey;
pub(crate) use listening::Listening;
pub(crate) use members::Members;
pub(crate) use queue::{Place, Queue};
pub(crate) use release::{Cleanup, LEFTOVERS, Whom};
pub(crate) use renew::Renewing;
pub(crate) use revoke::{Revocation, revoke};
pub(crate) use voters::{Cleanups, Open, Voters};
