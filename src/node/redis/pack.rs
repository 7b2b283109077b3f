//! The operations of one script call as one MessagePack array: on both sides one argument costs less
//! than ten for every operation.

use std::time::Duration;

use bytes::Bytes;
use rmp::encode::{write_array_len, write_sint, write_str};

use crate::node::operation::{Operation, Stance};

/// How many fields an operation has.
const FIELDS: usize = 10;
/// About how many bytes they take.
const BYTES: usize = 160;

/// The fields of all operations, in the order of the script's header.
pub(super) fn operations<'a>(operations: impl ExactSizeIterator<Item = &'a Operation>) -> Bytes {
    let mut packed = Packed(Vec::with_capacity(8 + operations.len() * BYTES));
    packed.array(operations.len() * FIELDS);
    operations.for_each(|operation| packed.operation(operation));
    packed.0.into()
}

/// Writing to a vector does not fail.
struct Packed(Vec<u8>);

impl Packed {
    fn operation(&mut self, operation: &Operation) {
        self.text(operation.verb.as_str());
        self.integer(operation.names.len());
        self.text(&operation.owner);
        self.integer(millis(operation.ttl));
        self.digits(operation.ballot);
        self.integer(operation.count);
        let (wait, ticket) = match operation.stance {
            Stance::Once => (0, 0),
            // A wait of less than a millisecond is one all the same.
            Stance::Wait { ticket, patience } => (millis(patience).max(1), ticket),
            Stance::Barge => (-1, 0),
        };
        self.integer(wait);
        self.digits(ticket);
        self.integer(millis(operation.grace));
        self.text(operation.next.as_deref().unwrap_or_default());
    }

    fn array(&mut self, length: usize) {
        let _ = write_array_len(&mut self.0, u32::try_from(length).unwrap_or(u32::MAX));
    }

    fn text(&mut self, text: &str) {
        let _ = write_str(&mut self.0, text);
    }

    fn integer(&mut self, number: impl TryInto<i64>) {
        let _ = write_sint(&mut self.0, number.try_into().unwrap_or(i64::MAX));
    }

    /// As text: Redis stores it as it is, while it may write a large number with an exponent.
    fn digits(&mut self, number: u64) {
        let mut digits = itoa::Buffer::new();
        self.text(digits.format(number));
    }
}

/// Whole milliseconds, at most what Redis takes as an expiry by a wide margin (285 years).
fn millis(duration: Duration) -> i64 {
    const MOST: i64 = 1 << 43;
    i64::try_from(duration.as_millis()).unwrap_or(MOST).min(MOST)
}
