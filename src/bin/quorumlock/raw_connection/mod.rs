//! Connections that `quorumlock` opens itself, besides the library's connections. The Redis
//! commands on these connections change no data.

pub(crate) mod certificate_expiry;
pub(crate) mod connection;
pub(crate) mod login;
pub(crate) mod remedies;
pub(crate) mod rights;
pub(crate) mod target;
mod tls;
