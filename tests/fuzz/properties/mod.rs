//! What holds for whatever comes from outside: addresses, configuration files, and what servers
//! reply and push. Each takes bytes that mean nothing: `tests/fuzzed.rs` throws them by proptest, and
//! the targets beside this by libFuzzer, which learns which bytes lead further.

pub(crate) mod config;
pub(crate) mod hints;
pub(crate) mod nodes;
mod server;
pub(crate) mod url;
