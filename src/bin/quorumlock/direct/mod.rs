//! The command's own connections, beside those of the library. Nothing that is sent over them
//! changes data.

pub(crate) mod login;
pub(crate) mod mends;
pub(crate) mod rights;
pub(crate) mod target;
mod tls;
pub(crate) mod validity;
pub(crate) mod wire;
