//! What a node answers, and where the answer goes.

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
    /// The first has 1.
    pub rank: u32,
    /// When the node said so.
    pub stamp: Stamp,
}

impl Queued {
    /// A place, where the node's queue has one, before it is known when that was told.
    pub(crate) fn of(rank: u32) -> Option<Self> {
        (rank > 0).then_some(Self { rank, stamp: Stamp::default() })
    }
}

/// An answer that was understood.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Claim: the names are the asker's, with the ballot that it asked with.
    Granted {
        /// That ballot.
        fence: u64,
    },
    /// Claim: somebody else holds one of the names.
    Held {
        /// Who.
        holder: String,
        /// What its hold is.
        kind: Kind,
        /// For how long still, by the node's clock; `None` if the hold never ends.
        remaining: Option<Duration>,
        /// The highest ballot granted or told.
        fence: u64,
        /// Where the asker stands in the queue, if it does.
        queued: Option<Queued>,
    },
    /// Claim: the ballot was not above the bar, or the owner holds the name with a higher one.
    Stale {
        /// The bar: a ballot above it may be granted.
        fence: u64,
    },
    /// Claim: others hold one of the names as the gate of a semaphore, or a gate as a lock.
    Misused {
        /// Which of the claim's names, from 0; the gate that it looks at comes behind them.
        name: usize,
    },
    /// Renew: held for another ttl.
    Extended,
    /// Renew: had been gone, and is held again. Not a vote.
    Healed,
    /// Renew: the owner does not hold one of the names, or its lock is over. Claim of a reader that was
    /// the writer: that was taken away.
    Lost {
        /// Who does; empty where nobody does.
        holder: String,
    },
    /// Scan: a page of the names that the node knows, held or not.
    Scanned {
        /// Where the next page begins; where the first one did, this was the last.
        next: String,
        /// The names.
        names: Vec<Name>,
    },
    /// Release or withdraw: done.
    Released {
        /// How many of the names had been held until then.
        held: u32,
    },
    /// Revoke: done.
    Revoked {
        /// Who holds the name; of readers, or of several names, who has it for longest.
        holder: Option<String>,
        /// With which ballot.
        ballot: u64,
        /// For how long still.
        left: Duration,
    },
    /// Inspect: one entry for every name.
    Inspected(Vec<Inspection>),
    /// Hello: the node's record, if it has one.
    Hello(Option<Record>),
    /// All but hello: the node has no record, and carried nothing out.
    Forgot,
    /// Claim: no list is in force. Nothing was carried out.
    NoList,
    /// Claim: another list is in force. Nothing was carried out.
    OtherList {
        /// The text of that list.
        says: String,
        /// For how much longer.
        left: Duration,
    },
}

impl Outcome {
    /// The answer's name in metrics.
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
}

impl Outcome {
    /// Notes when a place in the queue was told, and over which connection.
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
            Self::Held { holder, .. } => write!(f, "held by {holder} for ever; delete its key or set it to expire"),
            Self::Stale { fence } if *fence >= LIMIT - 1 => {
                write!(f, "refused: its fence is {fence}, and no token is above that; delete the name's key")
            }
            Self::Stale { fence } => write!(f, "refused: the ballot was not above {fence}"),
            Self::Misused { .. } => f.write_str("held in another way, as a lock or as a semaphore"),
            Self::Lost { holder } if holder.is_empty() => f.write_str("not held any more"),
            Self::Lost { holder } => write!(f, "held by {holder}"),
            Self::Granted { .. } => f.write_str("voted for this client"),
            Self::Extended => f.write_str("renewed it"),
            Self::Healed => f.write_str("had lost it, and has it again, which is no vote for it"),
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

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// No connection. Nothing was sent.
    Down,
    /// The node's vote would not count. Nothing was sent.
    Quarantined,
    /// The server must not take part: it is a replica, a cluster, or another node too. Nothing was
    /// sent.
    Unfit,
    /// Too many operations are queued. Nothing was sent.
    Overloaded,
    /// No answer in time.
    Timeout,
    /// The connection ended before the answer.
    Closed,
    /// The node answered that it cannot now, and may later: it loads its data, a script blocks it,
    /// or it cannot persist.
    Busy,
    /// The node answered with an error, and would again.
    Rejected,
    /// The answer is not one of ours.
    Garbled,
    /// The node carried it out, and its answer does not count: it may have forgotten what it granted.
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

/// A node did not answer, or not so that it can be understood: *unknown*, never counted for or
/// against anyone.
#[derive(Clone, Debug)]
pub struct Fault {
    kind: FaultKind,
    message: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Fault {
    /// A fault with what to tell the user of it; `message` must hold no password.
    #[must_use]
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// The same fault with what caused it.
    #[must_use]
    pub fn caused_by(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// What happened.
    #[must_use]
    pub const fn kind(&self) -> FaultKind {
        self.kind
    }

    /// What caused it.
    #[must_use]
    pub fn cause(&self) -> Option<Arc<dyn StdError + Send + Sync>> {
        self.source.clone()
    }

    /// Whether it is certain that the node carried nothing out, so that nothing needs cleaning up.
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

/// An answer, or why there is none.
pub type Reply = Result<Outcome, Fault>;

/// Takes the answers to one fan-out, as they come.
pub trait Sink: Send + Sync + 'static {
    /// The node number `node` answered. Called once for every node that was asked; must not block.
    fn deliver(self: Arc<Self>, node: usize, reply: Reply);
}

/// Where one node's answer goes. Dropped without an answer, it answers that the connection ended.
pub struct ReplyTo {
    node: usize,
    sink: Option<Arc<dyn Sink>>,
}

impl ReplyTo {
    /// The answer of node number `node` goes to `sink`.
    #[must_use]
    pub fn new(node: usize, sink: Arc<dyn Sink>) -> Self {
        Self { node, sink: Some(sink) }
    }

    /// Answers.
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
    fn a_fault_tells_what_caused_it_and_an_answer_to_come_whose_it_is() {
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
    fn a_stale_ballot_is_told_with_what_to_do_where_none_is_above_the_fence() {
        for (fence, told) in [(LIMIT - 2, "the ballot was not above"), (LIMIT - 1, "delete"), (LIMIT, "delete")] {
            let text = Outcome::Stale { fence }.to_string();
            assert!(text.contains(told) && text.contains(&fence.to_string()), "{text}");
        }
    }
}
