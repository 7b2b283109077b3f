//! Properties of the code that reads outside data: addresses, configuration files, and servers'
//! replies and pushes. Each property takes random bytes. `tests/fuzzed.rs` runs them with proptest.
//! The targets in `tests/fuzz/targets` run them with libFuzzer, which learns which bytes reach new
//! code.

pub(crate) mod config;
pub(crate) mod hints;
pub(crate) mod nodes;
mod server;
pub(crate) mod url;
