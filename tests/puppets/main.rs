//! Tests of the messages that a client sends to its nodes. The test gives every answer by hand, on
//! a clock that moves only when all tasks wait.
#![allow(unreachable_pub, missing_debug_implementations, reason = "each file is a part of one program")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

mod answers;
mod arrivals;
#[path = "../common/asked.rs"]
mod asked;
#[path = "../common/beside.rs"]
mod beside;
mod callers;
mod closing;
mod doubts;
mod fences;
mod handovers;
mod held_names;
mod hellos;
mod holders;
mod meters;
mod observers;
mod releases;
mod revoking;
mod rounds;
mod sessions;
mod spans;
mod stage;
mod telling;
mod waiters;
