//! What a node can be asked.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};

/// The verbs of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Take the names, or set the hold count of names already held.
    Claim,
    /// Hold the names for another ttl.
    Renew,
    /// Give the names up, and raise their fence so that late claims of the same round are refused.
    Release,
    /// Look, and write nothing.
    Inspect,
}

impl Verb {
    /// All verbs.
    pub const ALL: [Self; 4] = [Self::Claim, Self::Renew, Self::Release, Self::Inspect];

    /// The verb's name in the script and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::Inspect => "inspect",
        }
    }
}

/// A lock's name and its keys on a node.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    text: Arc<str>,
    lock: Box<str>,
    gate: Box<str>,
}

/// The longest name, in bytes.
pub const MAX_NAME: usize = 1_024;

impl Name {
    /// The name `text` under the key prefix `prefix`: the keys `prefix{text}` and `prefix{text}:gate`.
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
        let lock = format!("{prefix}{{{text}}}").into_boxed_str();
        let gate = format!("{lock}:gate").into_boxed_str();
        Ok(Self { text: text.into(), lock, gate })
    }

    /// The name as the user gave it.
    #[must_use]
    pub const fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The key of the hash that says who holds the name.
    #[must_use]
    pub fn lock_key(&self) -> &str {
        &self.lock
    }

    /// The key of the hash that keeps the fence.
    #[must_use]
    pub fn gate_key(&self) -> &str {
        &self.gate
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.text, f)
    }
}

/// One operation of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What to do.
    pub verb: Verb,
    /// With which names: all or nothing.
    pub names: Arc<[Name]>,
    /// Who asks: an acquisition and the number of its round.
    pub owner: Arc<str>,
    /// For how long to hold the names; nodes count whole milliseconds.
    pub ttl: Duration,
    /// The ballot, below 2^53.
    pub ballot: u64,
    /// The hold count to set.
    pub count: u32,
}

impl Operation {
    /// A question that changes nothing.
    #[must_use]
    pub fn inspect(names: Arc<[Name]>) -> Self {
        Self { verb: Verb::Inspect, names, owner: "-".into(), ttl: Duration::ZERO, ballot: 0, count: 0 }
    }

    /// The same claim with another verb.
    #[must_use]
    pub fn with_verb(&self, verb: Verb) -> Self {
        Self { verb, ..self.clone() }
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
        let names = ["a", "{a}", "a}:gate", "}", "{}", "🔒"].map(|text| Name::new("p:", text).unwrap());
        let mut keys: Vec<_> = names.iter().flat_map(|name| [name.lock_key(), name.gate_key()]).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 12);
        assert_eq!(names[0].gate_key(), "p:{a}:gate");
    }
}
