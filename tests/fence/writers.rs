//! Many writers at once, each with a token of its own.

use std::fmt::Debug;

use futures::future::join_all;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// The result of a write.
pub(crate) enum Wrote {
    Done,
    Stale { seen: u64 },
}

/// Tokens in random order. Some tokens appear twice, as if a holder wrote twice.
pub(crate) fn tokens() -> Vec<u64> {
    let tokens = proptest::collection::vec(1_u64..40, 24).new_tree(&mut TestRunner::default()).unwrap().current();
    println!("tokens: {tokens:?}");
    tokens
}

/// Writes with all tokens at the same time, and returns the highest token. Writes with the highest
/// token must succeed. Other writes may be refused only because of a higher token.
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

/// Checks that the values never go back.
pub(crate) fn never_goes_back<T: PartialOrd + Debug>(seen: &[T]) {
    assert!(seen.is_sorted(), "{seen:?}");
}
