//! A call of the script: its arguments.

use super::pack;
use super::transport::{Argument, Arguments};
use crate::node::operation::Operation;

/// One EVALSHA (or EVAL) that carries out all `operations`, in order.
pub(super) struct Call<'a, O> {
    /// The script, or its digest.
    script: &'a str,
    /// The key of the node's record.
    record: &'a str,
    operations: O,
    packed: Vec<u8>,
    /// How many keys there are.
    keys: usize,
    bytes: usize,
}

impl<'a, O: ExactSizeIterator<Item = &'a Operation> + Clone> Call<'a, O> {
    pub(super) fn new(script: &'a str, record: &'a str, operations: O) -> Self {
        let packed = pack::operations(operations.clone());
        let (mut keys, mut bytes) = (1, script.len() + record.len() + packed.len());
        for name in operations.clone().flat_map(Operation::names) {
            keys += 1;
            bytes += name.key().len();
        }
        Self { script, record, operations, packed, keys, bytes }
    }
}

impl<'a, O: Iterator<Item = &'a Operation> + Clone> Arguments for Call<'a, O> {
    fn count(&self) -> usize {
        3 + self.keys
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn each(&self, take: &mut dyn FnMut(Argument<'_>)) {
        take(Argument::Text(self.script));
        take(integer(self.keys));
        take(Argument::Text(self.record));
        self.operations.clone().flat_map(Operation::names).for_each(|name| take(Argument::Text(name.key())));
        take(Argument::Packed(&self.packed));
    }
}

fn integer(number: impl TryInto<i64>) -> Argument<'static> {
    Argument::Integer(number.try_into().unwrap_or(i64::MAX))
}
