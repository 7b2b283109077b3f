//! Connections of the command's own, beside the library's. What is asked over them only reads.

pub(crate) mod login;
pub(crate) mod mends;
pub(crate) mod rights;
pub(crate) mod target;
mod tls;
pub(crate) mod validity;
pub(crate) mod wire;
