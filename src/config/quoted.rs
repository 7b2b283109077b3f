//! Reads values that configuration files have in quotes: times, and names of transports.

use std::fmt::{self, Display};
use std::time::Duration;

use serde::Deserializer;
use serde::de::{Error, Visitor};

use crate::node::redis::Transport;
use crate::words;

pub(super) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let what = "the time in quotes and with its unit, such as \"500ms\", \"30s\" or \"2m\"";
    deserializer.deserialize_str(Quoted(what, words::parse)).map(Some)
}

pub(super) fn transport<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Transport>, D::Error> {
    let what = "the transport's name in quotes: \"fred\" or \"redis-rs\"";
    deserializer.deserialize_str(Quoted(what, str::parse::<Transport>)).map(Some)
}

/// A description of the value, for errors, and the function that reads the value.
struct Quoted<T, W>(&'static str, fn(&str) -> Result<T, W>);

impl<T, W: Display> Visitor<'_> for Quoted<T, W> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.1)(text).map_err(E::custom)
    }
}
