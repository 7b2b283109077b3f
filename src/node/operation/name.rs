//! The names of locks, and their keys on a node.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};

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
    /// The name `text` under the key prefix `prefix`. Its keys are `prefix{text}` and keys with an
    /// ending, such as `prefix{text}:queue`.
    ///
    /// # Errors
    /// `Config` for an empty name, for more than [`MAX_NAME`] bytes, and for a NUL character.
    pub fn new(prefix: &str, text: &str) -> Result<Self> {
        if text.is_empty() {
            return Err(Error::config("a lock's name is empty; name the thing that it protects, as in \"orders/42\""));
        }
        if text.len() > MAX_NAME {
            let length = text.len();
            return Err(Error::config(format!(
                "a lock's name has {length} bytes; use at most {MAX_NAME}, or a hash of the name"
            )));
        }
        if text.contains('\0') {
            return Err(Error::config("a lock's name contains a NUL character; remove it"));
        }
        let key = format!("{prefix}{{{text}}}").into();
        Ok(Self { text: text.into(), key })
    }

    /// The name with this key; `None` if this is no key of a name. The first brace ends the prefix,
    /// because no prefix contains a brace.
    pub(crate) fn of_key(key: &str) -> Option<Self> {
        let text = key.split_once('{')?.1.strip_suffix('}')?;
        Some(Self { text: text.into(), key: key.into() })
    }

    /// The name with `/number` after this name's text. Does not check the length.
    pub(crate) fn numbered(&self, number: usize) -> Self {
        let text = format!("{}/{number}", self.text);
        let prefix = self.key.strip_suffix(&*format!("{{{}}}", self.text)).unwrap_or_default();
        Self { key: format!("{prefix}{{{text}}}").into(), text: text.into() }
    }

    /// The name's text: with a `key_format`, the formatted name.
    #[must_use]
    pub const fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The key of the Redis hash that stores this name. The other keys of the name, such as the
    /// queue's, begin with this key.
    #[must_use]
    pub const fn key(&self) -> &Arc<str> {
        &self.key
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.text, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_name_is_refused_with_the_reason() {
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
    fn numbered_name_is_the_name_of_its_text() {
        for (prefix, text) in [("p:", "jobs"), ("", "a}b{"), ("p:", "{")] {
            let name = Name::new(prefix, text).unwrap();
            assert_eq!(name.numbered(17), Name::new(prefix, &format!("{text}/17")).unwrap());
        }
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
    fn names_are_shown_as_text() {
        assert_eq!(format!("{:?}", Name::new("p:", "a\"b").unwrap()), "\"a\\\"b\"");
    }
}
