//! The command's own connections, beside those of the library. Nothing that is sent over them
//! changes data.

pub(crate) mod certificate_expiry;
pub(crate) mod connection;
pub(crate) mod login;
pub(crate) mod remedies;
pub(crate) mod rights;
pub(crate) mod target;
mod tls;
