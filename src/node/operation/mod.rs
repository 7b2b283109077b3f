//! The operations of a node.

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

pub use bodies::{Claim, Note, Predecessor, Release, Renew, Revoke, Scan};
pub use hello::{Hello, Intent, OldAtOnce};
pub use kind::Kind;
pub use mode::Mode;
pub(crate) use name::record_key;
pub use name::{MAX_NAME, Name};
pub use verb::Verb;
pub use waiter::Waiter;

/// One operation of the protocol: a verb with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Take the names.
    Claim(Claim),
    /// Hold the names for another ttl.
    Renew(Renew),
    /// Give the names up: the owner has ended.
    Release(Release),
    /// Take back the grants of an owner that continues.
    Withdraw(Release),
    /// Return the state of the names, and write nothing.
    Inspect(Arc<[Name]>),
    /// From now on, renew no lock whose token is at most the operation's ballot.
    Revoke(Revoke),
    /// Make, read and write the node's record.
    Hello(Hello),
    /// Read a page of the names that the node knows.
    Scan(Scan),
}

impl Operation {
    /// The operation's verb.
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

    /// The operation's names; empty for hello and scan, which have none.
    #[must_use]
    pub fn names(&self) -> &[Name] {
        match self {
            Self::Claim(Claim { names, .. })
            | Self::Renew(Renew { names, .. })
            | Self::Release(Release { names, .. })
            | Self::Withdraw(Release { names, .. })
            | Self::Inspect(names)
            | Self::Revoke(Revoke { names, .. }) => names,
            Self::Hello(_) | Self::Scan(_) => &[],
        }
    }

    /// The names whose keys a node reads or writes: the operation's names, then the gate, if any.
    pub fn keyed(&self) -> impl Iterator<Item = &Name> {
        let gate = if let Self::Claim(claim) = self { claim.gate.as_ref() } else { None };
        self.names().iter().chain(gate)
    }

    /// The owner, `{client}/{number}`, if the operation is for one owner.
    #[must_use]
    pub const fn owner(&self) -> Option<&Arc<str>> {
        match self {
            Self::Claim(Claim { owner, .. })
            | Self::Renew(Renew { owner, .. })
            | Self::Release(Release { owner, .. })
            | Self::Withdraw(Release { owner, .. }) => Some(owner),
            Self::Inspect(_) | Self::Revoke(_) | Self::Hello(_) | Self::Scan(_) => None,
        }
    }

    /// The operation's ballot, below 2^53, if it has one.
    #[must_use]
    pub const fn ballot(&self) -> Option<u64> {
        match self {
            Self::Claim(Claim { ballot, .. })
            | Self::Renew(Renew { ballot, .. })
            | Self::Release(Release { ballot, .. })
            | Self::Withdraw(Release { ballot, .. })
            | Self::Revoke(Revoke { ballot, .. }) => Some(*ballot),
            Self::Inspect(_) | Self::Hello(_) | Self::Scan(_) => None,
        }
    }

    /// Whether an owner is a reader: its number follows an `s`.
    #[must_use]
    pub fn is_shared(owner: &str) -> bool {
        let (client, number) = split_number(owner);
        !number.is_empty() && client.ends_with("/s")
    }
}

/// How many decimal digits `u64::MAX` has.
const DIGITS: usize = 20;

/// Appends the number in decimal. `format!` takes ten times as long.
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

/// Splits a text before the digits at its end.
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

from_bodies!(Claim(Claim), Renew(Renew), Release(Release), Revoke(Revoke), Hello(Hello), Scan(Scan));

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
