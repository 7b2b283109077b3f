//! Messages that nodes push to clients: hand-overs, requests to ask again, and news of names.

use std::sync::Arc;
use std::time::Duration;

use super::operation::Name;
use crate::rules::ballot::LIMIT;
use crate::rules::handover::Stamp;

/// A message that a node publishes for one waiter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hint {
    /// The waiter's acquisition, `{client}/{number}`. (A memory node writes a reader's number as
    /// `s{number}`.)
    pub acquisition: Arc<str>,
    /// The time until the waiter should ask again. The waiter should ask H / 2 after its last ask,
    /// where H is the time for which a hand-over to this waiter lasts. The time is zero if this
    /// moment has passed, if the hint is a hand-over, or if the name could not be handed over.
    pub after: Duration,
    /// The hand-over, if the node granted the name to this waiter.
    pub granted: Option<HandedOver>,
}

/// A name that a node has handed over to a waiter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HandedOver {
    /// The new owner.
    pub owner: Arc<str>,
    /// The ballot of the grant.
    pub ballot: u64,
    /// How long the hold lasts, counted from the hand-over.
    pub lasts: Duration,
    /// The name.
    pub name: Name,
    /// The id of the node's record.
    pub record: Arc<str>,
    /// When the node handed the name over, and on which connection the push came.
    pub stamp: Stamp,
    /// Whether the push may count as a vote: the node may vote, and the client has handled no later
    /// reply of the node before this push.
    pub counts: bool,
}

impl Hint {
    /// A hint that makes a waiter ask again after this time.
    #[must_use]
    pub const fn ask_again(acquisition: Arc<str>, after: Duration) -> Self {
        Self { acquisition, after, granted: None }
    }

    /// A hint that hands a name over.
    #[must_use]
    pub fn granted(granted: HandedOver) -> Self {
        Self { granted: Some(granted.clone()), ..Self::ask_again(granted.owner, Duration::ZERO) }
    }

    /// The waiter's client, and the number of its acquisition.
    #[must_use]
    pub fn address(&self) -> Option<(&str, u64)> {
        let (client, number) = self.acquisition.rsplit_once('/')?;
        // A reader's number has the prefix `s`.
        Some((client, number.strip_prefix('s').unwrap_or(number).parse().ok()?))
    }

    /// Parses a message on the client's channel: the acquisition's number, then either a hand-over
    /// or the time until the next ask, in ms. The caller must set the connection of a hand-over,
    /// and whether the hand-over counts.
    #[must_use]
    pub fn parse(client: &str, text: &str) -> Option<Self> {
        let (number, rest) = text.split_once(' ')?;
        let number: u64 = number.parse().ok()?;
        let hint = Self::ask_again(format!("{client}/{number}").into(), Duration::ZERO);
        match rest.parse() {
            Ok(millis) => Some(Self { after: Duration::from_millis(millis), ..hint }),
            Err(_) => Some(Self { granted: Some(HandedOver::parse(rest)?), ..hint }),
        }
    }
}

impl HandedOver {
    /// Parses `OWNER BALLOT TIME H ID KEY`: TIME in microseconds, H in milliseconds, the record's ID.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(6, ' ');
        let owner = words.next()?.into();
        let ballot = words.next()?.parse().ok().filter(|&ballot| ballot < LIMIT)?;
        let time = Duration::from_micros(words.next()?.parse().ok()?);
        let lasts = Duration::from_millis(words.next()?.parse().ok()?);
        let record = words.next()?.into();
        let name = Name::of_key(words.next()?)?;
        Some(Self { owner, ballot, lasts, name, record, stamp: Stamp { generation: 0, time }, counts: false })
    }
}

/// Receives what the nodes of one client report without a request.
pub trait Listener: std::fmt::Debug + Send + Sync + 'static {
    /// The client's id, `host/pid/uuid`. The client's channel is `{key prefix}wake:{client's id}`.
    fn client(&self) -> &str;

    /// Receives a hint from node number `node`. Ignores hints for other clients. Must not block.
    fn hint(&self, node: usize, hint: &Hint);

    /// Node number `node` has sent news of a name that this client observes: the name's holder or
    /// note may have changed. Must not block.
    fn news(&self, _node: usize, _name: &Name) {}

    /// Whether the client receives the messages that are published on its channel.
    fn hears(&self) -> bool {
        true
    }

    /// Hints of node number `node` may have been lost: all waiters should ask again.
    fn missed(&self, node: usize);

    /// The client has begun to doubt node number `node`: the node restarted or forgot, or its clock
    /// was stepped. Leases that rely on this node should be renewed.
    fn doubted(&self, _node: usize) {}

    /// Node number `node` has a new connection, lost its connection, or cannot be connected for
    /// another reason than before.
    fn connected(&self, _node: usize) {}

    /// Node number `node` replied to a hello, or needs another hello. Must not block.
    fn heard(&self, _node: usize) {}
}

/// The common prefix of all clients' channels.
pub(crate) fn channel(prefix: &str) -> String {
    format!("{prefix}wake:")
}

/// The channel with news of one name.
pub(crate) fn news(key: &str) -> String {
    format!("{key}:news")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_addressed_to_a_client_and_an_acquisition() {
        let hint = Hint::parse("host/1/uuid", "7 500").unwrap();
        assert_eq!((hint.address(), hint.after), (Some(("host/1/uuid", 7)), Duration::from_millis(500)));
        assert_eq!(hint.granted, None);
        let granted =
            Hint::parse("host/1/uuid", "7 host/1/uuid/7 99 5000001 3040 id p:{a b}").unwrap().granted.unwrap();
        assert_eq!((&*granted.owner, granted.ballot, &**granted.name.text()), ("host/1/uuid/7", 99, "a b"));
        assert_eq!((granted.stamp.time, granted.counts), (Duration::from_micros(5_000_001), false));
        assert_eq!((granted.lasts, &*granted.record), (Duration::from_millis(3_040), "id"));
        for garbage in [
            "",
            "7",
            "x 5",
            "7 -1",
            "7 o",
            "7 o 1 2",
            "7 o 1 2 p:{a}",
            "7 o 1 2 3 p:{a}",
            "7 o 1 2 3 id p:a",
            "7 o x 2 3 id p:{a}",
            "7 o 1 2 -3 id p:{a}",
        ] {
            assert_eq!(Hint::parse("c", garbage), None, "{garbage}");
        }
    }
}
