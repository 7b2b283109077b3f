//! Transports in configuration files.

use std::fmt;

use serde::Deserializer;
use serde::de::{Error, Visitor};

use crate::node::redis::Transport;

/// Reads a transport's name.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Transport>, D::Error> {
    deserializer.deserialize_str(Name).map(Some)
}

struct Name;

impl Visitor<'_> for Name {
    type Value = Transport;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the transport's name in quotes: \"fred\" or \"redis-rs\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Transport, E> {
        text.parse().map_err(E::custom)
    }
}
