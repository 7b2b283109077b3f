//! The command.
mod common;
