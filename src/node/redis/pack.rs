//! The operations of one script call as one argument, in the form that the script's `struct.unpack`
//! reads: unlike MessagePack or JSON it becomes no table in Lua, and numbers do not become texts
//! and back, which were more than a third of what a pair costs a node.

use std::time::Duration;

use bytes::Bytes;

use crate::node::operation::{Operation, Stance, Verb};

/// About how many bytes an operation takes.
const BYTES: usize = 160;

/// The fields of all operations, in the order of the script's header.
pub(super) fn operations<'a>(operations: impl ExactSizeIterator<Item = &'a Operation>) -> Bytes {
    let mut packed = Vec::with_capacity(operations.len() * BYTES);
    let mut named = Named::none();
    for operation in operations {
        let again = operation.names.iter().fold(false, |again, name| named.may_be_again(name.key()) | again);
        pack(&mut packed, operation, again);
    }
    packed.into()
}

/// Which names a call has had so far, by bits of their hashes: some may seem to be named again that
/// are not, which costs the node a command, and none that is named again is missed.
struct Named([u64; 64]);

impl Named {
    const fn none() -> Self {
        Self([0; 64])
    }

    fn may_be_again(&mut self, key: &str) -> bool {
        let hash = hash(key);
        let (word, bit) = (&mut self.0[hash >> 6 & 63], 1 << (hash & 63));
        let again = *word & bit != 0;
        *word |= bit;
        again
    }
}

/// FNV-1a, folded: what it is used for needs no more.
fn hash(key: &str) -> usize {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = key.bytes().fold(0x811c_9dc5, step);
    (hash ^ hash >> 16) as usize
}

fn pack(packed: &mut Vec<u8>, operation: &Operation, again: bool) {
    let (wait, ticket) = match operation.stance {
        Stance::Once => (0.0, 0),
        // A wait of less than a millisecond is one all the same.
        Stance::Wait { ticket, patience } => (millis(patience).max(1.0), ticket),
        Stance::Barge => (-1.0, 0),
    };
    // No owner of ours has a zero byte within, which ends it.
    let owner = operation.owner.split('\0').next().unwrap_or_default();
    let next = if operation.verb == Verb::Release { number(operation.next) } else { millis(operation.handover) };
    packed.push(code(operation) + if again { AGAIN } else { 0 });
    packed.extend(millis(operation.ttl).to_le_bytes());
    packed.extend(number(operation.ballot).to_le_bytes());
    packed.extend(owner.as_bytes());
    packed.push(0);
    packed.extend(operation.count.to_le_bytes());
    packed.extend(u16::try_from(operation.names.len()).unwrap_or(u16::MAX).to_le_bytes());
    for number in [wait, millis(operation.grace), number(ticket), next] {
        packed.extend(number.to_le_bytes());
    }
}

/// Added where an operation before it in the call may be about one of its names.
const AGAIN: u8 = 32;
/// Added where it is not of the kinds that the script carries out fastest.
const LEFT_OUT: u8 = 64;

/// What the script calls the operation.
fn code(operation: &Operation) -> u8 {
    let requeues = operation.verb == Verb::Release && matches!(operation.stance, Stance::Wait { .. });
    let entered_again = operation.verb == Verb::Claim && operation.count != 1;
    let left_out = operation.names.len() != 1 || requeues || entered_again;
    verb(operation.verb) + if left_out { LEFT_OUT } else { 0 }
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
        Verb::Retire => 10,
        Verb::Reset => 11,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::operation::Name;

    fn codes(names: &[&[&str]]) -> Vec<u8> {
        let name = |text: &&str| Name::new("p:", text).unwrap();
        let asked: Vec<_> = names.iter().map(|names| Operation::inspect(names.iter().map(name).collect())).collect();
        let packed = operations(asked.iter());
        // All have the same owner, and so the same length.
        packed.chunks(packed.len() / names.len()).map(|operation| operation[0]).collect()
    }

    /// A second claim that rests on what was read before the first would be granted too.
    #[test]
    fn an_operation_whose_name_the_call_has_had_before_says_so() {
        assert_eq!(codes(&[&["a"], &["b"], &["a"], &["c"], &["a"]]), [5, 5, 5 + AGAIN, 5, 5 + AGAIN]);
        let several = 5 + LEFT_OUT;
        assert_eq!(codes(&[&["a", "b"], &["c", "b"], &["c"]]), [several, several + AGAIN, 5 + AGAIN]);
    }

    #[test]
    fn few_of_many_names_seem_to_be_named_again() {
        let mut named = Named::none();
        let keys: Vec<_> = (0..128).map(|number| format!("quorumlock:{{orders/{number}}}")).collect();
        assert!(keys.iter().filter(|key| named.may_be_again(key)).count() < 8);
        assert!(keys.iter().all(|key| named.may_be_again(key)), "none that was named is missed");
    }
}
