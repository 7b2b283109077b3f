//! Converts arguments and replies for fred.

use bytes::Bytes;
use fred::error::{Error as FredError, ErrorKind as FredKind};
use fred::types::{Resp3Frame, Value as FredValue};

use crate::node::redis::transport::{Argument, Arguments, Value};

/// Converts the arguments of a command. All texts are parts of one buffer. So their memory needs
/// two allocations (the buffer and its reference count), instead of two for each text.
pub(super) fn sent(arguments: &dyn Arguments) -> Vec<FredValue> {
    let mut buffer = Vec::with_capacity(arguments.bytes());
    arguments.each(&mut |argument| match argument {
        Argument::Text(text) => buffer.extend_from_slice(text.as_bytes()),
        Argument::Word(_) | Argument::Integer(_) => {}
    });
    let mut rest = Bytes::from(buffer);
    let mut values = Vec::with_capacity(arguments.count());
    arguments.each(&mut |argument| {
        values.push(match argument {
            Argument::Word(word) => FredValue::from_static_str(word),
            Argument::Text(text) => FredValue::Bytes(rest.split_to(text.len())),
            Argument::Integer(number) => FredValue::Integer(number),
        });
    });
    values
}

/// Converts a reply. Returns an error if the server replied with an error.
pub(super) fn received(frame: Resp3Frame) -> Result<Value, FredError> {
    Ok(match frame {
        Resp3Frame::Number { data, .. } => Value::Integer(data),
        Resp3Frame::BlobString { data, .. }
        | Resp3Frame::SimpleString { data, .. }
        | Resp3Frame::VerbatimString { data, .. } => Value::Text(data),
        Resp3Frame::Array { data, .. } => Value::Array(data.into_iter().map(received).collect::<Result<_, _>>()?),
        Resp3Frame::SimpleError { data, .. } => return Err(refused(data.to_string())),
        Resp3Frame::BlobError { data, .. } => return Err(refused(String::from_utf8_lossy(&data).into_owned())),
        _ => Value::Null,
    })
}

fn refused(message: String) -> FredError {
    FredError::new(FredKind::Unknown, message)
}
