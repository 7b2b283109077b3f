//! What a node can be asked.

mod bodies;
mod mark;
mod mode;
mod name;
#[cfg(test)]
mod sample;
mod seat;
mod stance;
mod verb;

use std::sync::Arc;

pub use bodies::{Claim, Note, Release, Renew, Revoke, Scan, Teach};
pub use mark::Mark;
pub use mode::Mode;
pub(crate) use name::record_key;
pub use name::{MAX_NAME, Name};
pub use seat::Seat;
pub use stance::Stance;
pub use verb::Verb;

use crate::rules::roster::Enrolment;

/// One operation of the protocol: a verb, and what it is asked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Take the names.
    Claim(Claim),
    /// Hold the names for another ttl.
    Renew(Renew),
    /// Give the names up.
    Release(Release),
    /// Look at the names, and write nothing.
    Inspect(Arc<[Name]>),
    /// Raise the node's floor.
    Teach(Teach),
    /// Tell the node's record.
    Record,
    /// Let the owner's hold of the names end.
    Revoke(Revoke),
    /// Write the servers of a client's list into the node's roster, if they fit.
    Enrol(Enrolment),
    /// Let no client count the node's votes any more.
    Retire,
    /// Take its retirement back.
    Reset,
    /// Tell a page of the names that the node knows.
    Scan(Scan),
}

impl Operation {
    /// Tells a node the highest ballot that others know of: its lesson of that number.
    #[must_use]
    pub const fn teach(high: u64, lesson: u32) -> Self {
        Self::Teach(Teach { high, lesson, by_hand: false })
    }

    /// Tells a node by hand which ballots were dealt by another list, or what too few nodes know of
    /// its own: it does not become one that was taught.
    #[must_use]
    pub const fn teach_by_hand(high: u64, lesson: u32) -> Self {
        Self::Teach(Teach { high, lesson, by_hand: true })
    }

    /// What is to be done.
    #[must_use]
    pub const fn verb(&self) -> Verb {
        match self {
            Self::Claim(_) => Verb::Claim,
            Self::Renew(_) => Verb::Renew,
            Self::Release(_) => Verb::Release,
            Self::Inspect(_) => Verb::Inspect,
            Self::Teach(_) => Verb::Teach,
            Self::Record => Verb::Record,
            Self::Revoke(_) => Verb::Revoke,
            Self::Enrol(_) => Verb::Enrol,
            Self::Retire => Verb::Retire,
            Self::Reset => Verb::Reset,
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
            | Self::Inspect(names)
            | Self::Revoke(Revoke { names, .. }) => names,
            Self::Teach(_) | Self::Record | Self::Enrol(_) | Self::Retire | Self::Reset | Self::Scan(_) => &[],
        }
    }

    /// Whose hold it is about, if anybody's: an acquisition and the number of its round.
    #[must_use]
    pub const fn owner(&self) -> Option<&Arc<str>> {
        match self {
            Self::Claim(Claim { owner, .. })
            | Self::Renew(Renew { owner, .. })
            | Self::Release(Release { owner, .. })
            | Self::Revoke(Revoke { owner, .. }) => Some(owner),
            Self::Inspect(_)
            | Self::Teach(_)
            | Self::Record
            | Self::Enrol(_)
            | Self::Retire
            | Self::Reset
            | Self::Scan(_) => None,
        }
    }

    /// The ballot that it has, below 2^53.
    #[must_use]
    pub const fn ballot(&self) -> Option<u64> {
        match self {
            Self::Claim(Claim { ballot, .. })
            | Self::Renew(Renew { ballot, .. })
            | Self::Release(Release { ballot, .. })
            | Self::Revoke(Revoke { ballot, .. }) => Some(*ballot),
            Self::Inspect(_)
            | Self::Teach(_)
            | Self::Record
            | Self::Enrol(_)
            | Self::Retire
            | Self::Reset
            | Self::Scan(_) => None,
        }
    }

    /// The owner of an acquisition's round: `{acquisition}.{round}`, with the zeros of its mark in
    /// front of the round.
    #[must_use]
    pub fn round_owner(acquisition: &str, round: u32, mark: Mark) -> Arc<str> {
        let zeros = mark.zeros();
        let mut owner = String::with_capacity(acquisition.len() + 1 + zeros.len() + DIGITS);
        owner.push_str(acquisition);
        owner.push('.');
        owner.push_str(zeros);
        push_number(&mut owner, round.into());
        owner.into()
    }

    /// Whether the owner of a round may have a note: of others nodes look for none.
    #[must_use]
    pub fn may_have_note(owner: &str) -> bool {
        Mark::of(owner) != Mark::Plain
    }

    /// Whether an owner, or its acquisition, is a reader: the number of the acquisition is behind an
    /// `s` then.
    #[must_use]
    pub fn is_shared(owner: &str) -> bool {
        let (client, number) = split_number(Self::acquisition(owner));
        !number.is_empty() && client.ends_with("/s")
    }

    /// Whether the second acquisition is the first as a reader: both have one number.
    #[must_use]
    pub fn shares(acquisition: &str, reader: &str) -> bool {
        let (writer, reader) = (acquisition.rsplit_once('/'), reader.rsplit_once('/'));
        writer.zip(reader).is_some_and(|((client, number), (other, shared))| {
            client == other && shared.strip_prefix('s') == Some(number)
        })
    }

    /// The acquisition that a round's owner belongs to: `{client}/{acquisition}.{round}` without
    /// its round.
    #[must_use]
    pub fn acquisition(owner: &str) -> &str {
        let (acquisition, round) = split_number(owner);
        acquisition.strip_suffix('.').filter(|_| !round.is_empty()).unwrap_or(owner)
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

from_bodies!(Claim(Claim), Renew(Renew), Release(Release), Teach(Teach), Revoke(Revoke), Enrol(Enrolment), Scan(Scan),);

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

    #[test]
    fn an_owner_without_the_number_of_a_round_is_an_acquisition_itself() {
        for (owner, acquisition) in [
            ("host/1/uuid/7.12", "host/1/uuid/7"),
            ("host.eu/1/uuid/7.0", "host.eu/1/uuid/7"),
            ("host.eu/1/uuid/7", "host.eu/1/uuid/7"),
            ("owner.", "owner."),
            ("owner.1x", "owner.1x"),
            ("owner", "owner"),
        ] {
            assert_eq!(Operation::acquisition(owner), acquisition);
        }
    }
}
