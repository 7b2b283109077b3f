//! What nodes push to clients: that it is worth asking now, which is never a vote, that a name was
//! handed over, and that there is news of a name.

use std::sync::Arc;
use std::time::Duration;

use super::operation::Name;
use crate::rules::ballot::LIMIT;
use crate::rules::handover::Stamp;

/// What tells whoever is registered to register again. Turns are longer.
const REGISTER: Duration = Duration::from_millis(1);

/// What a node publishes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hint {
    /// Whom it is for: an owner, `{client}/{number}`.
    pub acquisition: Arc<str>,
    /// When to ask: at once where its turn has come, or when the turn of the one before it has run
    /// out.
    pub after: Duration,
    /// What it was granted, where a release has handed the name over.
    pub granted: Option<HandedOver>,
}

/// A name that a node granted with a release, to who was first in its queue.
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
    /// That it is worth asking after so long.
    #[must_use]
    pub const fn new(acquisition: Arc<str>, after: Duration) -> Self {
        Self { acquisition, after, granted: None }
    }

    /// That it is worth registering again: in a moment.
    #[must_use]
    pub const fn register(acquisition: Arc<str>) -> Self {
        Self::new(acquisition, REGISTER)
    }

    /// Whether it says that what was registered is old.
    #[must_use]
    pub fn asks_to_register(&self) -> bool {
        self.granted.is_none() && self.after == REGISTER
    }

    /// The client whom it is for, and the number of its acquisition.
    #[must_use]
    pub fn address(&self) -> Option<(&str, u64)> {
        let (client, number) = self.acquisition.rsplit_once('/')?;
        // A reader's number is behind an `s`.
        Some((client, number.strip_prefix('s').unwrap_or(number).parse().ok()?))
    }

    /// What a node sends over the channel of the client: the acquisition's number and the
    /// milliseconds to wait, and behind that to whom it handed over what: see the script's header. A
    /// hand-over does not count before it is known how it came.
    #[must_use]
    pub fn parse(client: &str, text: &str) -> Option<Self> {
        let mut words = text.splitn(3, ' ');
        let number: u64 = words.next()?.parse().ok()?;
        let after = Duration::from_millis(words.next()?.parse().ok()?);
        let granted = match words.next() {
            Some(rest) => Some(HandedOver::parse(rest)?),
            None => None,
        };
        Some(Self { acquisition: format!("{client}/{number}").into(), after, granted })
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

    /// Node number `node` was met for the first time: it may have to be told what others know.
    fn met(&self, node: usize) {
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
        let granted = Hint::parse("host/1/uuid", "7 0 host/1/uuid/7 99 5000001 3040 p:{a b}").unwrap().granted.unwrap();
        assert_eq!((&*granted.owner, granted.ballot, &**granted.name.text()), ("host/1/uuid/7", 99, "a b"));
        assert_eq!((granted.stamp.time, granted.counts), (Duration::from_micros(5_000_001), false));
        assert_eq!(granted.lasts, Duration::from_millis(3_040));
        for garbage in [
            "",
            "7",
            "x 5",
            "7 x",
            "7 -1",
            "7 0 o",
            "7 0 o 1 2",
            "7 0 o 1 2 p:{a}",
            "7 0 o 1 2 3 p:a",
            "7 0 o x 2 3 p:{a}",
        ] {
            assert_eq!(Hint::parse("c", garbage), None, "{garbage}");
        }
    }
}
