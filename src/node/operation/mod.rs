//! What a node can be asked.

mod bodies;
mod hello;
mod kind;
mod mode;
mod name;
#[cfg(test)]
mod sample;
mod verb;
mod waiter;

use std::sync::Arc;

pub use bodies::{Claim, Note, Release, Renew, Revoke, Scan, Withdraw};
pub use hello::{Hello, Intent, OldAtOnce};
pub use kind::Kind;
pub use mode::Mode;
pub(crate) use name::record_key;
pub use name::{MAX_NAME, Name};
pub use verb::Verb;
pub use waiter::Waiter;

/// One operation of the protocol: a verb, and what it is asked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Take the names.
    Claim(Claim),
    /// Hold the names for another ttl.
    Renew(Renew),
    /// Give the names up: the owner has ended.
    Release(Release),
    /// Take back what asks of an owner were granted: the owner goes on.
    Withdraw(Withdraw),
    /// Look at the names, and write nothing.
    Inspect(Arc<[Name]>),
    /// Let all holds with tokens up to a number end: they are not renewed any more.
    Revoke(Revoke),
    /// Make, read and write the node's record.
    Hello(Hello),
    /// Tell a page of the names that the node knows.
    Scan(Scan),
}

impl Operation {
    /// What is to be done.
    #[must_use]
    pub const fn verb(&self) -> Verb {
        match self {
            Self::Claim(_) => Verb::Claim,
            Self::Renew(_) => Verb::Renew,
            Self::Release(_) => Verb::Release,
            Self::Withdraw(_) => Verb::Withdraw,
            Self::Inspect(_) => Verb::Inspect,
            Self::Revoke(_) => Verb::Revoke,
            Self::Hello(_) => Verb::Hello,
            Self::Scan(_) => Verb::Scan,
        }
    }

    /// With which names; with none where it is about the node.
    #[must_use]
    pub fn names(&self) -> &[Name] {
        match self {
            Self::Claim(Claim { names, .. })
            | Self::Renew(Renew { names, .. })
            | Self::Release(Release { names, .. })
            | Self::Withdraw(Withdraw { names, .. })
            | Self::Inspect(names)
            | Self::Revoke(Revoke { names, .. }) => names,
            Self::Hello(_) | Self::Scan(_) => &[],
        }
    }

    /// The names of which a node reads or writes keys: those that it is about, and behind them a gate
    /// that a claim of permits looks at.
    pub fn keyed(&self) -> impl Iterator<Item = &Name> {
        let gate = if let Self::Claim(claim) = self { claim.gate.as_ref() } else { None };
        self.names().iter().chain(gate)
    }

    /// Whose hold it is about, if it is about one owner's: `{client}/{number}`.
    #[must_use]
    pub const fn owner(&self) -> Option<&Arc<str>> {
        match self {
            Self::Claim(Claim { owner, .. })
            | Self::Renew(Renew { owner, .. })
            | Self::Release(Release { owner, .. })
            | Self::Withdraw(Withdraw { owner, .. }) => Some(owner),
            Self::Inspect(_) | Self::Revoke(_) | Self::Hello(_) | Self::Scan(_) => None,
        }
    }

    /// The ballot that it has, below 2^53.
    #[must_use]
    pub const fn ballot(&self) -> Option<u64> {
        match self {
            Self::Claim(Claim { ballot, .. })
            | Self::Renew(Renew { ballot, .. })
            | Self::Release(Release { ballot, .. })
            | Self::Withdraw(Withdraw { ballot, .. })
            | Self::Revoke(Revoke { ballot, .. }) => Some(*ballot),
            Self::Inspect(_) | Self::Hello(_) | Self::Scan(_) => None,
        }
    }

    /// Whether an owner is a reader: its number is behind an `s` then.
    #[must_use]
    pub fn is_shared(owner: &str) -> bool {
        let (client, number) = split_number(owner);
        !number.is_empty() && client.ends_with("/s")
    }

    /// Whether the second owner is the first as a reader: both have one number.
    #[must_use]
    pub fn shares(writer: &str, reader: &str) -> bool {
        let (writer, reader) = (writer.rsplit_once('/'), reader.rsplit_once('/'));
        writer.zip(reader).is_some_and(|((client, number), (other, shared))| {
            client == other && shared.strip_prefix('s') == Some(number)
        })
    }
}

/// The most digits that a number has.
const DIGITS: usize = 20;

/// Appends the number's decimal digits. Formatting each of them costs ten times as much.
fn push_number(text: &mut String, mut number: u64) {
    let mut digits = [b'0'; DIGITS];
    let mut first = DIGITS;
    while number > 0 || first == DIGITS {
        first -= 1;
        digits[first] += (number % 10) as u8;
        number /= 10;
    }
    text.extend(digits[first..].iter().map(|digit| char::from(*digit)));
}

/// A text, and the digits that it ends with.
fn split_number(text: &str) -> (&str, &str) {
    let digits = text.bytes().rev().take_while(u8::is_ascii_digit).count();
    text.split_at(text.len() - digits)
}

macro_rules! from_bodies {
    ($($verb:ident($body:ty)),+ $(,)?) => {$(
        impl From<$body> for Operation {
            fn from(body: $body) -> Self {
                Self::$verb(body)
            }
        }
    )+};
}

from_bodies!(
    Claim(Claim),
    Renew(Renew),
    Release(Release),
    Withdraw(Withdraw),
    Revoke(Revoke),
    Hello(Hello),
    Scan(Scan),
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_written_as_it_is_formatted() {
        for number in [0, 7, 10, 109, u64::from(u32::MAX), u64::MAX] {
            let mut text = "n".to_owned();
            push_number(&mut text, number);
            assert_eq!(text, format!("n{number}"));
        }
    }
}
