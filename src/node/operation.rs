//! What a node can be asked.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::rules::roster::Enrolment;

/// The verbs of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Take the names.
    Claim,
    /// Hold the names for another ttl.
    Renew,
    /// Set the hold count of names that the owner holds. Not a vote.
    Count,
    /// Give the names up, and raise their fence so that late claims of the same round are refused.
    Release,
    /// Look, and write nothing.
    Inspect,
    /// Raise the node's floor to the highest ballot that other nodes know of: it may have
    /// forgotten.
    Teach,
    /// Tell the node's record.
    Record,
    /// Let the owner's hold of the names end: it is not renewed any more. Frees nothing.
    Revoke,
    /// Write the servers of a client's list into the node's roster, if they fit.
    Enrol,
    /// Let no client count the node's votes any more.
    Retire,
    /// Take its retirement back.
    Reset,
}

impl Verb {
    /// All verbs.
    pub const ALL: [Self; 11] = [
        Self::Claim,
        Self::Renew,
        Self::Count,
        Self::Release,
        Self::Inspect,
        Self::Teach,
        Self::Record,
        Self::Revoke,
        Self::Enrol,
        Self::Retire,
        Self::Reset,
    ];

    /// The verb's name in the script and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Renew => "renew",
            Self::Count => "count",
            Self::Release => "release",
            Self::Inspect => "inspect",
            Self::Teach => "teach",
            Self::Record => "record",
            Self::Revoke => "revoke",
            Self::Enrol => "enrol",
            Self::Retire => "retire",
            Self::Reset => "reset",
        }
    }
}

/// A lock's name and its key on a node.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    text: Arc<str>,
    key: Arc<str>,
}

/// The key of a node's record, under a key prefix.
pub(crate) fn record_key(prefix: &str) -> String {
    format!("{prefix}node")
}

/// The longest name, in bytes.
pub const MAX_NAME: usize = 1_024;

impl Name {
    /// The name `text` under the key prefix `prefix`: the keys `prefix{text}` and
    /// `prefix{text}:queue`.
    ///
    /// # Errors
    /// `Config` for an empty name, one of more than [`MAX_NAME`] bytes, and one with a NUL.
    pub fn new(prefix: &str, text: &str) -> Result<Self> {
        if text.is_empty() {
            return Err(Error::config("a lock's name is empty; name what it protects, as in \"orders/42\""));
        }
        if text.len() > MAX_NAME {
            let length = text.len();
            return Err(Error::config(format!(
                "a lock's name has {length} bytes; use at most {MAX_NAME}, or a hash of it"
            )));
        }
        if text.contains('\0') {
            return Err(Error::config("a lock's name contains a NUL character; remove it"));
        }
        let key = format!("{prefix}{{{text}}}").into();
        Ok(Self { text: text.into(), key })
    }

    /// The name that has this key. No prefix has a brace.
    pub(crate) fn of_key(key: &str) -> Option<Self> {
        let text = key.split_once('{')?.1.strip_suffix('}')?;
        Some(Self { text: text.into(), key: key.into() })
    }

    /// The name as the user gave it.
    #[must_use]
    pub const fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The key of all that a node stores of the name, but for its queue.
    #[must_use]
    pub const fn key(&self) -> &Arc<str> {
        &self.key
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.text, f)
    }
}

/// How an operation stands to those who wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stance {
    /// Overtakes nobody, and does not wait.
    #[default]
    Once,
    /// Joins the line, or with a release stays in it.
    Wait {
        /// Who came first: the microsecond at which the acquisition began.
        ticket: u64,
        /// For how long a node keeps the place, unless it is asked again.
        patience: Duration,
    },
    /// Ignores the line; with a release, keeps what place there is in it.
    Barge,
}

/// One operation of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What to do.
    pub verb: Verb,
    /// With which names: all or nothing.
    pub names: Arc<[Name]>,
    /// Who asks: an acquisition and the number of its round. Of an enrolment: the servers.
    pub owner: Arc<str>,
    /// For how long to hold the names; nodes count whole milliseconds.
    pub ttl: Duration,
    /// The ballot, below 2^53; of an enrolment the protocol.
    pub ballot: u64,
    /// The hold count to set; of a lesson its number; of an enrolment how many nodes the list has.
    pub count: u32,
    /// How it stands to those who wait.
    pub stance: Stance,
    /// How long a turn lasts that this operation gives; of an enrolment how long an entry lasts at
    /// least, and zero where nothing is to be written; of a lesson zero, or more where it is given
    /// by hand.
    pub grace: Duration,
    /// Of a claim of one name that waits: how long a hand-over to it lasts; zero if it wants none.
    pub handover: Duration,
    /// Of a release: the ballot of whom it hands the names over to; 0 if to nobody.
    pub next: u64,
}

impl Operation {
    /// Asks for the node's record.
    #[must_use]
    pub fn record() -> Self {
        Self { verb: Verb::Record, ..Self::inspect([].into()) }
    }

    /// Tells a node by hand which ballots were dealt by another list: it does not become one that
    /// was taught.
    #[must_use]
    pub fn teach_by_hand(high: u64, lesson: u32) -> Self {
        Self { grace: Duration::from_millis(1), ..Self::teach(high, lesson) }
    }

    /// Lets no client count the node's votes any more.
    #[must_use]
    pub fn retire() -> Self {
        Self { verb: Verb::Retire, ..Self::inspect([].into()) }
    }

    /// Takes its retirement back.
    #[must_use]
    pub fn reset() -> Self {
        Self { verb: Verb::Reset, ..Self::inspect([].into()) }
    }

    /// Tells a node the highest ballot that others know of: its lesson of that number.
    #[must_use]
    pub fn teach(high: u64, lesson: u32) -> Self {
        Self { verb: Verb::Teach, ballot: high, count: lesson, ..Self::inspect([].into()) }
    }

    /// Asks the node to write servers into its roster.
    #[must_use]
    pub fn enrol(enrolment: &Enrolment) -> Self {
        let Enrolment { nodes, protocol, max_ttl, lasts, servers } = enrolment;
        let servers: Vec<_> = servers.iter().map(ToString::to_string).collect();
        Self {
            verb: Verb::Enrol,
            owner: servers.join(" ").into(),
            ttl: *max_ttl,
            ballot: u64::from(*protocol),
            count: *nodes,
            grace: *lasts,
            ..Self::inspect([].into())
        }
    }

    /// A question that changes nothing.
    #[must_use]
    pub fn inspect(names: Arc<[Name]>) -> Self {
        Self {
            verb: Verb::Inspect,
            names,
            owner: "-".into(),
            ttl: Duration::ZERO,
            ballot: 0,
            count: 0,
            stance: Stance::Once,
            grace: Duration::ZERO,
            handover: Duration::ZERO,
            next: 0,
        }
    }

    /// The same with another verb, and without a place in line.
    #[must_use]
    pub fn with_verb(&self, verb: Verb) -> Self {
        Self { verb, stance: Stance::Once, handover: Duration::ZERO, next: 0, ..self.clone() }
    }

    /// Whether a node that refuses it may hand the name over to it later.
    #[must_use]
    pub fn registers(&self) -> bool {
        let waits = matches!(self.stance, Stance::Wait { .. });
        waits && self.verb == Verb::Claim && self.names.len() == 1 && self.handover >= Duration::from_millis(1)
    }

    /// The acquisition that a round's owner belongs to: `{client}/{acquisition}.{round}` without
    /// its round.
    #[must_use]
    pub fn acquisition(owner: &str) -> &str {
        match owner.rsplit_once('.') {
            Some((acquisition, round)) if !round.is_empty() && round.bytes().all(|byte| byte.is_ascii_digit()) => {
                acquisition
            }
            _ => owner,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_names_are_refused_with_what_would_be_right() {
        let said = |text: &str| Name::new("p:", text).unwrap_err().to_string();
        assert!(said("").contains("empty"));
        assert!(said(&"x".repeat(1 << 20)).contains("1048576 bytes; use at most 1024"));
        assert!(said("a\0b").contains("NUL"));
    }

    #[test]
    fn names_with_braces_and_emoji_have_keys_of_their_own() {
        let names = ["a", "{a}", "a}:queue", "}:queue", "{}", "🔒"].map(|text| Name::new("p:", text).unwrap());
        let mut keys: Vec<_> =
            names.iter().flat_map(|name| [name.key().to_string(), format!("{}:queue", name.key())]).collect();
        keys.push("p:node".to_owned());
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 13);
    }

    #[test]
    fn verbs_are_words_of_the_script_and_of_metrics() {
        let words =
            ["claim", "renew", "count", "release", "inspect", "teach", "record", "revoke", "enrol", "retire", "reset"];
        assert_eq!(Verb::ALL.map(Verb::as_str), words);
    }

    #[test]
    fn what_follows_a_claim_waits_for_nothing() {
        let names = [Name::new("p:", "a").unwrap()].into();
        let stance = Stance::Wait { ticket: 1, patience: Duration::from_secs(1) };
        let handover = Duration::from_secs(3);
        let claim = Operation { verb: Verb::Claim, stance, handover, next: 5, ..Operation::inspect(names) };
        assert!(claim.registers());
        let release = claim.with_verb(Verb::Release);
        assert_eq!((release.verb, release.stance, release.next), (Verb::Release, Stance::Once, 0));
        assert!(!release.registers());
    }

    #[test]
    fn a_name_is_known_by_its_key() {
        for text in ["a", "a}b", "{", "}", "a{b}", "🔒"] {
            let name = Name::new("p:", text).unwrap();
            assert_eq!(Name::of_key(name.key()), Some(name));
        }
        for key in ["", "p:a", "p:}a{", "p:{a"] {
            assert_eq!(Name::of_key(key), None, "{key}");
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

    #[test]
    fn names_are_shown_as_text() {
        assert_eq!(format!("{:?}", Name::new("p:", "a\"b").unwrap()), "\"a\\\"b\"");
    }
}
