//! Answers that nodes may give.

use std::time::Duration;

use quorumlock::node::{Fault, FaultKind, Kind, Operation, Outcome, Queued, Reply};
use quorumlock::rules::handover::Stamp;

/// A node's answer; `None` if it does not answer yet.
pub type Answer = Option<Reply>;

pub const SILENCE: Answer = None;

/// The claim is granted with its own ballot.
pub const fn granted() -> Answer {
    Some(Ok(Outcome::Granted { fence: OWN }))
}

/// Stands for the ballot of the operation that is answered.
const OWN: u64 = 0;

/// An answer to this operation.
pub fn to(operation: &Operation, reply: Reply) -> Reply {
    match reply {
        Ok(Outcome::Granted { fence: OWN }) => Ok(Outcome::Granted { fence: operation.ballot().unwrap_or_default() }),
        other => other,
    }
}

/// Another owner holds the name for this many seconds more. A claim that waits has the third place.
pub fn held(seconds: u64) -> Answer {
    let remaining = Some(Duration::from_secs(seconds));
    let queued = Some(Queued { rank: 3, stamp: Stamp { generation: 1, time: Duration::from_secs(100) } });
    Some(Ok(Outcome::Held { holder: "somebody".to_owned(), kind: Kind::Lock, remaining, fence: 1, queued }))
}

pub const fn stale(fence: u64) -> Answer {
    Some(Ok(Outcome::Stale { fence }))
}

pub const fn released() -> Answer {
    Some(Ok(Outcome::Released { held: 1 }))
}

/// The owner held nothing on this node.
pub const fn nothing_held() -> Answer {
    Some(Ok(Outcome::Released { held: 0 }))
}

pub fn fault(kind: FaultKind) -> Answer {
    Some(Err(Fault::new(kind, kind.as_str())))
}
