//! The operations of one script call as one argument, in the form that the script's `struct.unpack` reads: unlike MessagePack or JSON
//! it becomes no table in Lua, and numbers do not become texts and back, which were more than a third of what a pair costs a node.

use std::time::Duration;

use bytes::Bytes;

use crate::node::operation::{Operation, Stance, Verb};

/// How many bytes an operation takes, but for its owner.
const FIELDS: usize = 60;
/// About how many bytes an operation takes.
const BYTES: usize = 160;

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
    // No owner of ours has a zero byte within, which ends it.
    let owner = operation.owner.split('\0').next().unwrap_or_default();
    let next = if operation.verb == Verb::Release { number(operation.next) } else { millis(operation.handover) };
    packed.push(code(operation));
    packed.extend(u32::try_from(FIELDS + owner.len()).unwrap_or(u32::MAX).to_le_bytes());
    packed.extend(millis(operation.ttl).to_le_bytes());
    packed.extend(operation.count.to_le_bytes());
    packed.extend(number(operation.ballot).to_le_bytes());
    packed.extend(owner.as_bytes());
    packed.push(0);
    packed.extend(u16::try_from(operation.names.len()).unwrap_or(u16::MAX).to_le_bytes());
    for number in [wait, millis(operation.grace), number(ticket), next] {
        packed.extend(number.to_le_bytes());
    }
}

/// What the script calls the operation, and whether it is of the kinds that it carries out fastest.
fn code(operation: &Operation) -> u8 {
    const LEFT_OUT: u8 = 64;
    let requeues = operation.verb == Verb::Release && matches!(operation.stance, Stance::Wait { .. });
    if operation.names.len() == 1 && !requeues { verb(operation.verb) } else { LEFT_OUT + verb(operation.verb) }
}

/// What the script calls a verb.
const fn verb(verb: Verb) -> u8 {
    match verb {
        Verb::Claim => 1,
        Verb::Renew => 2,
        Verb::Count => 3,
        Verb::Release => 4,
        Verb::Inspect => 5,
        Verb::Teach => 6,
        Verb::Record => 7,
        Verb::Revoke => 8,
        Verb::Enrol => 9,
    }
}

/// Whole milliseconds, at most what Redis takes as an expiry by a wide margin (285 years).
fn millis(duration: Duration) -> f64 {
    const MOST: u64 = 1 << 43;
    number(u64::try_from(duration.as_millis()).unwrap_or(MOST).min(MOST))
}

#[allow(clippy::cast_precision_loss, reason = "ballots, tickets and times are below 2^53")]
const fn number(number: u64) -> f64 {
    number as f64
}
