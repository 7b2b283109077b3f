//! Connections that the command opens itself, besides the library's connections. The commands that
//! are sent over them change no data.

pub(crate) mod certificate_expiry;
pub(crate) mod connection;
pub(crate) mod login;
pub(crate) mod remedies;
pub(crate) mod rights;
pub(crate) mod target;
mod tls;
