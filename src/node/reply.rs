//! A node's replies, and their receivers.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::inspection::Inspection;
use crate::node::operation::{Kind, Name};
use crate::rules::ballot::LIMIT;
use crate::rules::handover::Stamp;
use crate::rules::list::Record;
use crate::words;

/// A place in a node's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Queued {
    /// The position in the queue: 1 for the first waiter.
    pub rank: u32,
    /// When the node returned this place, and over which connection.
    pub stamp: Stamp,
}

impl Queued {
    /// The place with this rank, without a stamp yet; `None` for rank 0.
    pub(crate) fn of(rank: u32) -> Option<Self> {
        (rank > 0).then_some(Self { rank, stamp: Stamp::default() })
    }
}

/// A reply that this client could decode.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Claim: the owner holds the names, with the ballot of the claim.
    Granted {
        /// The ballot of the claim.
        fence: u64,
    },
    /// Claim: another owner holds one of the names, or a waiter comes before this claim.
    Held {
        /// The other owner, or the waiter; may be empty if the name is free.
        holder: String,
        /// The kind of the other owner's hold.
        kind: Kind,
        /// How much longer the hold lasts, by the node's clock; `None` if the hold never ends.
        remaining: Option<Duration>,
        /// The highest of the name's fence, the readers' fence and the node's floor. A ballot
        /// above this number is high enough.
        fence: u64,
        /// The claim's place in the queue, if the claim waits.
        queued: Option<Queued>,
    },
    /// Claim: the ballot is too low for the name's fence, the node's floor, or this owner's hold.
    Stale {
        /// The owner's next ballot must be above this number.
        fence: u64,
    },
    /// Claim: a name is held as the gate of a semaphore and claimed as something else, or the
    /// reverse.
    Misused {
        /// The index of the name in the claim. In a claim of permits, the gate comes after all
        /// names.
        name: usize,
    },
    /// Renew: the owner held all names, and holds them for another ttl.
    Extended,
    /// Renew: at least one name was free, and the owner holds it again. This is not a vote.
    Healed,
    /// Renew: another owner holds one of the names, or locks with this token are over (released or
    /// revoked). Claim of a writer that becomes a reader: the writer's lock is over.
    Lost {
        /// The other owner; empty if there is none.
        holder: String,
    },
    /// Scan: a page of the names that the node knows, held or not.
    Scanned {
        /// The cursor of the next page; `Scan::FIRST` after the last page.
        next: String,
        /// The names.
        names: Vec<Name>,
    },
    /// Release or withdraw: the node carried it out.
    Released {
        /// On how many of the names the operation ended a hold of the owner.
        held: u32,
    },
    /// Revoke: the node carried it out.
    Revoked {
        /// The owner of the hold that ends last, among all holds of the names; `None` if all names
        /// are free.
        holder: Option<String>,
        /// The ballot of this hold.
        ballot: u64,
        /// How much longer this hold lasts.
        left: Duration,
    },
    /// Inspect: one report for each name.
    Inspected(Vec<Inspection>),
    /// Hello: the node's record, if it has one.
    Hello(Option<Record>),
    /// Any operation except hello and scan: the node has no record, and carried nothing out. If the
    /// node has another record than the one that this client knows, `Extended` and `Healed` also
    /// count as `Forgot`.
    Forgot,
    /// Claim: no list is in force. Nothing was carried out.
    NoList,
    /// Claim: another list is in force. Nothing was carried out.
    OtherList {
        /// The text of the other list.
        says: String,
        /// How much longer the other list is in force.
        left: Duration,
    },
}

impl Outcome {
    /// The outcome's name in metrics.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Granted { .. } => "granted",
            Self::Held { .. } => "held",
            Self::Stale { .. } => "stale",
            Self::Misused { .. } => "misused",
            Self::Extended => "extended",
            Self::Healed => "healed",
            Self::Lost { .. } => "lost",
            Self::Released { .. } => "released",
            Self::Revoked { .. } => "revoked",
            Self::Scanned { .. } => "scanned",
            Self::Inspected(_) => "inspected",
            Self::Hello(_) => "hello",
            Self::Forgot => "forgot",
            Self::NoList => "no_list",
            Self::OtherList { .. } => "other_list",
        }
    }

    /// Notes when a place in the queue was returned, and over which connection.
    pub(crate) const fn stamped(&mut self, stamp: Stamp) {
        if let Self::Held { queued: Some(queued), .. } = self {
            queued.stamp = stamp;
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { holder, remaining: Some(left), .. } => {
                write!(f, "held by {holder} for {} more", words::left(*left))
            }
            Self::Held { holder, .. } => write!(f, "held by {holder} for ever; delete the name's key or set an expiry"),
            Self::Stale { fence } if *fence >= LIMIT - 1 => {
                write!(f, "refused: the fence is {fence}, and no ballot can be higher; delete the name's key")
            }
            Self::Stale { fence } => write!(f, "refused: the ballot was not above {fence}"),
            Self::Misused { .. } => f.write_str("this name is used both as a lock and as a semaphore"),
            Self::Lost { holder } if holder.is_empty() => f.write_str("not held any more"),
            Self::Lost { holder } => write!(f, "held by {holder}"),
            Self::Granted { .. } => f.write_str("voted for this client"),
            Self::Extended => f.write_str("renewed the lock"),
            Self::Healed => f.write_str("the lock was missing and was re-created; this does not count as a renewal"),
            Self::Forgot => f.write_str("forgot what it had granted"),
            Self::NoList => f.write_str("no list of nodes is in force there yet"),
            Self::OtherList { says, left } => {
                let (left, says) = (words::left(*left), words::harmless(says));
                write!(f, "another list of nodes is in force there for {left} more: {says}")
            }
            other => f.write_str(other.as_str()),
        }
    }
}

/// Why there is no reply that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// There is no connection, or the client's list is not in force on the node yet. A hello: the
    /// server has restarted since the hello was planned. Nothing was sent.
    Down,
    /// The operation is a claim, and the node's vote would not count now. Nothing was sent.
    Quarantined,
    /// The server must not take part: it is a replica, runs in cluster mode, or is the same server
    /// as another node. Nothing was sent.
    Unfit,
    /// The queue of operations is full, or the operation was queued too long. Nothing was sent.
    Overloaded,
    /// No reply came in time.
    Timeout,
    /// The connection ended before the reply.
    Closed,
    /// The node cannot carry out the operation now, but may be able to do so later. For example,
    /// the node loads its data, cannot save its data, or is out of memory.
    Busy,
    /// The node replied with an error that another try would get too.
    Rejected,
    /// The reply has a form that none of this library's scripts returns.
    Garbled,
    /// The node carried the operation out. But its reply is no vote: the client doubts the node, or
    /// the node's votes do not count now for another reason.
    Doubted,
}

impl FaultKind {
    /// The fault's name in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Quarantined => "quarantined",
            Self::Unfit => "unfit",
            Self::Overloaded => "overloaded",
            Self::Timeout => "timeout",
            Self::Closed => "closed",
            Self::Busy => "busy",
            Self::Rejected => "rejected",
            Self::Garbled => "garbled",
            Self::Doubted => "doubted",
        }
    }
}

/// Why a node's reply is missing, does not count, or makes no sense. A fault is never a vote.
#[derive(Clone, Debug)]
pub struct Fault {
    kind: FaultKind,
    message: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Fault {
    /// A fault with a message for the user. `message` must not contain a password.
    #[must_use]
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// Sets the cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// The kind of the fault.
    #[must_use]
    pub const fn kind(&self) -> FaultKind {
        self.kind
    }

    /// The error that caused the fault, if there is one.
    #[must_use]
    pub fn cause(&self) -> Option<Arc<dyn StdError + Send + Sync>> {
        self.source.clone()
    }

    /// Whether the node certainly carried nothing out. If this is false, the client must withdraw a
    /// claim.
    #[must_use]
    pub const fn nothing_ran(&self) -> bool {
        matches!(self.kind, FaultKind::Down | FaultKind::Quarantined | FaultKind::Unfit | FaultKind::Overloaded)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Fault {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }
}

/// A reply, or why there is none.
pub type Reply = Result<Outcome, Fault>;

/// Receives the replies to one operation that was sent to several nodes.
pub trait Sink: Send + Sync + 'static {
    /// Takes the reply of node number `node`. Is called once for each node to which the operation
    /// was sent. Must not block.
    fn deliver(self: Arc<Self>, node: usize, reply: Reply);
}

/// The receiver of one node's reply. If the receiver is dropped without a reply, the sink gets the
/// fault `Closed`.
pub struct ReplyTo {
    node: usize,
    sink: Option<Arc<dyn Sink>>,
}

impl ReplyTo {
    /// Delivers the reply of node number `node` to `sink`.
    #[must_use]
    pub fn new(node: usize, sink: Arc<dyn Sink>) -> Self {
        Self { node, sink: Some(sink) }
    }

    /// Delivers the reply.
    pub fn send(mut self, reply: Reply) {
        if let Some(sink) = self.sink.take() {
            sink.deliver(self.node, reply);
        }
    }
}

impl Drop for ReplyTo {
    fn drop(&mut self) {
        if let Some(sink) = self.sink.take() {
            let ended = Fault::new(FaultKind::Closed, "the connection ended before the answer");
            sink.deliver(self.node, Err(ended));
        }
    }
}

impl fmt::Debug for ReplyTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyTo").field("node", &self.node).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;

    impl Sink for Nobody {
        fn deliver(self: Arc<Self>, _: usize, _: Reply) {}
    }

    #[test]
    fn fault_has_its_cause_and_reply_handle_shows_its_number() {
        let fault = Fault::new(FaultKind::Down, "down");
        assert!(fault.source().is_none() && fault.cause().is_none());
        let caused = fault.caused_by(std::io::Error::other("no route"));
        assert_eq!(caused.source().unwrap().to_string(), "no route");
        assert_eq!(caused.cause().unwrap().to_string(), "no route");
        assert!(format!("{:?}", ReplyTo::new(7, Arc::new(Nobody))).contains('7'));
    }

    #[test]
    fn a_lost_name_is_told_with_its_holder_if_there_is_one() {
        let lost = |holder: &str| Outcome::Lost { holder: holder.to_owned() }.to_string();
        assert_eq!([lost(""), lost("other")], ["not held any more", "held by other"]);
    }

    #[test]
    fn stale_ballot_at_the_limit_is_reported_with_a_remedy() {
        for (fence, told) in [(LIMIT - 2, "the ballot was not above"), (LIMIT - 1, "delete"), (LIMIT, "delete")] {
            let text = Outcome::Stale { fence }.to_string();
            assert!(text.contains(told) && text.contains(&fence.to_string()), "{text}");
        }
    }
}
