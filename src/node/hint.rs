//! What nodes push to clients: that a name was handed over, that a waiter had better ask again, and
//! that there is news of a name.

use std::sync::Arc;
use std::time::Duration;

use super::operation::Name;
use crate::rules::ballot::LIMIT;
use crate::rules::handover::Stamp;

/// What a node publishes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hint {
    /// Whom it is for: an owner, `{client}/{number}`.
    pub acquisition: Arc<str>,
    /// When the waiter is to ask again, unless something was handed over: at once if its place is
    /// getting old, or when the hold ends of the waiter before it.
    pub after: Duration,
    /// What it was granted, if the node has handed a name over.
    pub granted: Option<HandedOver>,
}

/// A name that a node has handed over to a waiter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HandedOver {
    /// To whom.
    pub owner: Arc<str>,
    /// With which ballot.
    pub ballot: u64,
    /// For how long, from when it was.
    pub lasts: Duration,
    /// Which name.
    pub name: Name,
    /// When.
    pub stamp: Stamp,
    /// Whether it may count as a vote: the node is not in doubt, and what it pushed came in order.
    pub counts: bool,
}

impl Hint {
    /// Asks a waiter to ask again after so long.
    #[must_use]
    pub const fn ask_again(acquisition: Arc<str>, after: Duration) -> Self {
        Self { acquisition, after, granted: None }
    }

    /// Tells a waiter what it was handed.
    #[must_use]
    pub fn granted(granted: HandedOver) -> Self {
        Self { granted: Some(granted.clone()), ..Self::ask_again(granted.owner, Duration::ZERO) }
    }

    /// The client whom it is for, and the number of its acquisition.
    #[must_use]
    pub fn address(&self) -> Option<(&str, u64)> {
        let (client, number) = self.acquisition.rsplit_once('/')?;
        // A reader's number is behind an `s`.
        Some((client, number.strip_prefix('s').unwrap_or(number).parse().ok()?))
    }

    /// What a node sends over the channel of the client: the acquisition's number, and behind that
    /// in how many milliseconds to ask again, or to whom it handed over what. A hand-over does not
    /// count before it is known how it came.
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
    /// The owner, the ballot, the time in microseconds, for how many milliseconds, and the key.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(5, ' ');
        let owner = words.next()?.into();
        let ballot = words.next()?.parse().ok().filter(|&ballot| ballot < LIMIT)?;
        let time = Duration::from_micros(words.next()?.parse().ok()?);
        let lasts = Duration::from_millis(words.next()?.parse().ok()?);
        let name = Name::of_key(words.next()?)?;
        Some(Self { owner, ballot, lasts, name, stamp: Stamp { generation: 0, time }, counts: false })
    }
}

/// Takes a client's hints.
pub trait Listener: std::fmt::Debug + Send + Sync + 'static {
    /// The client's name, `host/pid/uuid`: its channel is that behind the key prefix and `wake:`.
    fn client(&self) -> &str;

    /// Node number `node` gave a hint. Hints for other clients are ignored. Must not block.
    fn hint(&self, node: usize, hint: &Hint);

    /// Node number `node` has news of a name that this client follows: what observers see of it may
    /// have changed. Must not block.
    fn news(&self, node: usize, name: &Name) {
        let _ = (node, name);
    }

    /// Whether what is published for it reaches it.
    fn hears(&self) -> bool {
        true
    }

    /// Hints of node number `node` may have been missed: everyone had better ask.
    fn missed(&self, node: usize);

    /// Node number `node` may have forgotten what it granted: it restarted, or its clock was
    /// stepped. Whoever relies on it had better renew.
    fn doubted(&self, node: usize) {
        let _ = node;
    }

    /// Node number `node` was connected to, or its connection has ended.
    fn connected(&self, node: usize) {
        let _ = node;
    }

    /// Node number `node` has answered a hello, or showed that it should be sent another one. Must not
    /// block.
    fn heard(&self, node: usize) {
        let _ = node;
    }
}

/// What all clients' channels begin with.
pub(crate) fn channel(prefix: &str) -> String {
    format!("{prefix}wake:")
}

/// Where a node publishes the key of a name of which there is news.
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
        let granted = Hint::parse("host/1/uuid", "7 host/1/uuid/7 99 5000001 3040 p:{a b}").unwrap().granted.unwrap();
        assert_eq!((&*granted.owner, granted.ballot, &**granted.name.text()), ("host/1/uuid/7", 99, "a b"));
        assert_eq!((granted.stamp.time, granted.counts), (Duration::from_micros(5_000_001), false));
        assert_eq!(granted.lasts, Duration::from_millis(3_040));
        for garbage in [
            "",
            "7",
            "x 5",
            "7 -1",
            "7 o",
            "7 o 1 2",
            "7 o 1 2 p:{a}",
            "7 o 1 2 3 p:a",
            "7 o x 2 3 p:{a}",
            "7 o 1 2 -3 p:{a}",
        ] {
            assert_eq!(Hint::parse("c", garbage), None, "{garbage}");
        }
    }
}
