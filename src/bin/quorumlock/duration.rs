//! Parses and prints durations in the form that people use, such as `30s`.

pub(crate) use crate::words::{about as show, exact, left, parse};
