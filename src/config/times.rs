//! Times in configuration files.

use std::fmt;
use std::time::Duration;

use serde::Deserializer;
use serde::de::{Error, Visitor};

use crate::words;

/// Reads a time. Errors show an example of one.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    deserializer.deserialize_str(Time).map(Some)
}

struct Time;

impl Visitor<'_> for Time {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time in quotes and with its unit, such as \"500ms\", \"30s\" or \"2m\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        words::parse(text).map_err(E::custom)
    }
}
