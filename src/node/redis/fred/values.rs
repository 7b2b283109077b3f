//! Arguments and replies as fred has them.

use bytes::{Bytes, BytesMut};
use fred::types::Value as FredValue;

use crate::node::redis::transport::{Argument, Arguments, Value};

/// The arguments of a command. fred counts references to each of them: they are parts of one buffer,
/// so that there is one count, and one allocation, a call and not two a key.
pub(super) fn sent(arguments: &dyn Arguments) -> Vec<FredValue> {
    let mut values = Vec::with_capacity(arguments.count());
    let mut buffer = BytesMut::with_capacity(arguments.bytes());
    arguments.each(&mut |argument| {
        values.push(match argument {
            Argument::Word(word) => FredValue::from_static_str(word),
            Argument::Text(text) => FredValue::Bytes(part(&mut buffer, text.as_bytes())),
            Argument::Integer(number) => FredValue::Integer(number),
            Argument::Packed(packed) => FredValue::Bytes(part(&mut buffer, packed)),
        });
    });
    values
}

/// Appends to the buffer, of which this is the next part then.
fn part(buffer: &mut BytesMut, bytes: &[u8]) -> Bytes {
    buffer.extend_from_slice(bytes);
    buffer.split().freeze()
}

/// A reply.
pub(super) fn received(value: FredValue) -> Value {
    match value {
        FredValue::Integer(number) => Value::Integer(number),
        FredValue::String(text) => Value::Text(text.into_inner()),
        FredValue::Bytes(text) => Value::Text(text),
        FredValue::Array(items) => Value::Array(items.into_iter().map(received).collect()),
        _ => Value::Null,
    }
}
