//! Converts errors of redis-rs to faults.

use std::error::Error;
use std::io;

use redis::{ErrorKind, RedisError, ServerError};

use super::socket::{Log, told};
use crate::node::redis::advice::advice;
use crate::node::redis::decode::refusal;
use crate::node::redis::endpoint::Endpoint;
use crate::node::redis::wording::{STRANGER, TO_TLS};
use crate::node::reply::{Fault, FaultKind};

/// The fault if the server did not accept HELLO or SELECT.
pub(super) fn unusable(endpoint: &Endpoint, error: &RedisError, log: &Log) -> Fault {
    let plain = endpoint.speaks_plain_tcp();
    let message = match error.kind() {
        ErrorKind::Io => ended(endpoint, error, log),
        ErrorKind::Parse if plain => format!("{STRANGER} If it expects TLS, write rediss://"),
        ErrorKind::Parse => STRANGER.to_owned(),
        _ => advice(&said(error)).trim_end_matches('.').to_owned(),
    };
    Fault::new(FaultKind::Down, message)
}

fn ended(endpoint: &Endpoint, error: &RedisError, log: &Log) -> String {
    let why = reason(error, endpoint.speaks_tls()).unwrap_or_else(|| log.why());
    match endpoint.speaks_plain_tcp() {
        true => format!("{why}{TO_TLS}"),
        false => why,
    }
}

/// The text of the I/O error that caused `error`; `None` if there is none, or if redis-rs itself
/// made the I/O error.
fn reason(error: &RedisError, speaks_tls: bool) -> Option<String> {
    let error = error.source()?.downcast_ref::<io::Error>()?;
    let real = error.raw_os_error().is_some() || error.get_ref().is_some();
    real.then(|| told(error, speaks_tls))
}

/// The fault of a failed command.
pub(super) fn fault(error: &RedisError) -> Fault {
    match error.kind() {
        ErrorKind::Io => Fault::new(FaultKind::Closed, "the connection ended before the answer"),
        ErrorKind::Parse => Fault::new(FaultKind::Garbled, STRANGER),
        _ => refused(&said(error)),
    }
}

/// The fault of a command that the server refused.
pub(super) fn refused_by(error: &ServerError) -> Fault {
    refused(&sentence(error))
}

fn refused(said: &str) -> Fault {
    Fault::new(refusal(said), advice(said).trim_end_matches('.'))
}

/// The error text that the server sent.
fn said(error: &RedisError) -> String {
    if error.kind() == ErrorKind::RESP3NotSupported {
        return "ERR unknown command `HELLO`".to_owned();
    }
    match error.clone().into_server_errors().as_deref() {
        Some([(_, error), ..]) => sentence(error),
        // Leave out the text with which redis-rs begins its message.
        _ => match (error.code(), error.detail()) {
            (Some(code), Some(detail)) => format!("{code} {detail}"),
            _ => error.to_string(),
        },
    }
}

fn sentence(error: &ServerError) -> String {
    match error.details() {
        Some(detail) => format!("{} {detail}", error.code()),
        None => error.code().to_owned(),
    }
}
