//! Wake-ups: a node tells a client that it is worth asking now. Never a vote.

use std::sync::Arc;
use std::time::Duration;

/// What a node publishes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hint {
    /// Whom it is for: `{client}/{acquisition}`.
    pub acquisition: Arc<str>,
    /// When to ask: at once where its turn has come, or when the turn of the one before it has run out.
    pub after: Duration,
}

impl Hint {
    /// The client whom it is for, and the number of its acquisition.
    #[must_use]
    pub fn address(&self) -> Option<(&str, u64)> {
        let (client, number) = self.acquisition.rsplit_once('/')?;
        Some((client, number.parse().ok()?))
    }

    /// What a node sends over the channel of the client: the acquisition's number and the milliseconds to wait.
    pub(crate) fn parse(client: &str, text: &str) -> Option<Self> {
        let (number, after) = text.split_once(' ')?;
        let number: u64 = number.parse().ok()?;
        let after = Duration::from_millis(after.parse().ok()?);
        Some(Self { acquisition: format!("{client}/{number}").into(), after })
    }
}

/// Takes a client's hints.
pub trait Listener: std::fmt::Debug + Send + Sync + 'static {
    /// The client's name, `host/pid/uuid`: its channel is that behind the key prefix and `wake:`.
    fn client(&self) -> &str;

    /// Node number `node` gave a hint. Hints for other clients are ignored. Must not block.
    fn hint(&self, node: usize, hint: &Hint);

    /// Hints of node number `node` may have been missed: everyone had better ask.
    fn missed(&self, node: usize);

    /// Node number `node` may have forgotten what it granted: it restarted, or its clock was stepped.
    /// Whoever relies on it had better renew.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_addressed_to_a_client_and_an_acquisition() {
        let hint = Hint::parse("host/1/uuid", "7 500").unwrap();
        assert_eq!((hint.address(), hint.after), (Some(("host/1/uuid", 7)), Duration::from_millis(500)));
        for garbage in ["", "7", "x 5", "7 x", "7 -1"] {
            assert_eq!(Hint::parse("c", garbage), None, "{garbage}");
        }
    }
}
