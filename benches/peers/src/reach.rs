//! What the project wants to reach, line by line, with what a run came to.

use crate::table::Report;

pub fn tell(_: &Report) {}
