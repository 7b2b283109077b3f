//! Durations as people write and read them.

pub(crate) use crate::words::{about as show, exact, left, parse};
