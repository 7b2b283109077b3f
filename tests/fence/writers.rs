//! Many writers at once, each with a token of its own.

use std::fmt::Debug;

use futures::future::join_all;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// What a write came to, by its token.
pub(crate) enum Wrote {
    Done,
    Stale { seen: u64 },
}

/// Tokens in an order that is another one each time, some of them twice, as of a holder that writes
/// twice.
pub(crate) fn tokens() -> Vec<u64> {
    let tokens = proptest::collection::vec(1_u64..40, 24).new_tree(&mut TestRunner::default()).unwrap().current();
    println!("tokens: {tokens:?}");
    tokens
}

/// All write at once. Returns the highest token, which no other may have kept from writing, and the
/// only ones that were refused had seen a higher one.
pub(crate) async fn all_write<F: Future<Output = Wrote>>(tokens: &[u64], write: impl Fn(u64) -> F) -> u64 {
    let wrote = join_all(tokens.iter().map(|&token| write(token))).await;
    let highest = *tokens.iter().max().unwrap();
    for (&token, wrote) in tokens.iter().zip(wrote) {
        if let Wrote::Stale { seen } = wrote {
            assert!(token < seen && seen <= highest, "{token} was refused after {seen} of {highest}");
        }
    }
    highest
}

/// What was seen, one after the other, never goes back.
pub(crate) fn never_goes_back<T: PartialOrd + Debug>(seen: &[T]) {
    assert!(seen.is_sorted(), "{seen:?}");
}
