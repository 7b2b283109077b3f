//! The operations of one script call as one argument, in the form that the script's `struct.unpack` reads: unlike MessagePack or JSON
//! it becomes no table in Lua, which was a sixth of what a pair costs a node.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;

use crate::node::operation::{Operation, Stance, Verb};

/// About how many bytes an operation takes.
const BYTES: usize = 192;

/// The fields of all operations, in the order of the script's header.
pub(super) fn operations<'a>(operations: impl ExactSizeIterator<Item = &'a Operation>) -> Bytes {
    let mut packed = Vec::with_capacity(operations.len() * BYTES);
    operations.for_each(|operation| pack(&mut packed, operation));
    packed.into()
}

fn pack(packed: &mut Vec<u8>, operation: &Operation) {
    let (wait, ticket) = match operation.stance {
        Stance::Once => (0.0, 0),
        // A wait of less than a millisecond is one all the same.
        Stance::Wait { ticket, patience } => (millis(patience).max(1.0), ticket),
        Stance::Barge => (-1.0, 0),
    };
    text(packed, operation.verb.as_str());
    packed.extend(u16::try_from(operation.names.len()).unwrap_or(u16::MAX).to_le_bytes());
    packed.extend(millis(operation.ttl).to_le_bytes());
    packed.extend(f64::to_le_bytes(wait));
    packed.extend(millis(operation.grace).to_le_bytes());
    packed.extend(operation.count.to_le_bytes());
    text(packed, &operation.owner);
    digits(packed, operation.ballot);
    digits(packed, ticket);
    digits(packed, if operation.verb == Verb::Release { operation.next } else { whole(operation.handover) });
}

/// Ends with a zero byte. No text of ours has one within.
fn text(packed: &mut Vec<u8>, text: &str) {
    packed.extend(text.bytes().filter(|byte| *byte != 0));
    packed.push(0);
}

/// As text: Redis stores it as it is, while it may write a large number with an exponent.
fn digits(packed: &mut Vec<u8>, number: u64) {
    // Writing to a vector does not fail.
    let _ = write!(packed, "{number}\0");
}

/// Whole milliseconds, at most what Redis takes as an expiry by a wide margin (285 years).
#[allow(clippy::cast_precision_loss, reason = "below 2^53")]
fn millis(duration: Duration) -> f64 {
    whole(duration) as f64
}

fn whole(duration: Duration) -> u64 {
    const MOST: u64 = 1 << 43;
    u64::try_from(duration.as_millis()).unwrap_or(MOST).min(MOST)
}
