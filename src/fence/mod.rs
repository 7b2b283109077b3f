//! Helpers that make storage refuse writes whose fencing token is stale.
//!
//! A lock alone cannot stop a process that was paused between its last check and its write. The
//! storage can: it keeps the highest [token](crate::Lease::token) that it has seen, and refuses a
//! write with a lower token, in one atomic step. Each helper makes one kind of storage do this:
//!
//! | feature | storage | in one atomic step |
//! |---|---|---|
//! | `fence-sqlx-0_8` | PostgreSQL, over `sqlx` 0.8 | everything that a transaction does |
//! | `fence-redis` | Redis, over any client | one command; ready-made for the crate `redis` with the feature `redis-rs` |
//! | `fence-s3` | S3 and the like, over `object_store` or a client of your own | one object |
//!
//! All helpers have the same rules:
//!
//! * A token **equal** to the highest comes from the same holder, which may write again.
//! * A **lower** token is refused with [`Stale`], which has both tokens. Nothing is written.
//! * A **higher** token, or the first one, may write and becomes the highest.
//! * **Read through the same helper** all data that a write depends on. The helper raises the fence
//!   before it reads, so that no earlier holder can write between your read and your write.
//! * Every writer of the data must use the fence. The fence cannot stop other writers.
//! * **Use one fence for data that only one holder may write at a time.** An exclusive lock needs
//!   one fence. A semaphore needs one fence for each permit, with its own name. Several permits, or
//!   several readers, are held at the same time. A single fence would refuse all of their tokens
//!   except the highest.
//!
//! Keep the highest token for as long as a paused holder may come back. Storage that loses
//! confirmed writes, such as a promoted Redis replica, may also lose the highest token.
//!
//! For other storage, apply the rule of [`check`] and write in one atomic step.

#[cfg(feature = "fence-redis")]
pub mod redis;
#[cfg(feature = "fence-s3")]
pub mod s3;
#[cfg(feature = "fence-sqlx-0_8")]
pub mod sqlx_0_8;

use std::error::Error as StdError;
use std::fmt;

/// The storage has seen a higher token, so another holder has got the lock. **Stop** the work that
/// the lock protected. Nothing was written, and further tries with this token will fail too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stale {
    token: u64,
    seen: u64,
}

impl Stale {
    /// The token that was refused.
    #[must_use]
    pub const fn token(&self) -> u64 {
        self.token
    }

    /// The highest token that the storage had seen when it refused [`token`](Self::token).
    #[must_use]
    pub const fn seen(&self) -> u64 {
        self.seen
    }
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { token, seen } = self;
        write!(f, "nothing was written: the fencing token {token} is stale, since the storage has seen {seen}; ")?;
        f.write_str("the lock has passed on to another holder, so stop the work that it protected")
    }
}

impl StdError for Stale {}

/// Checks whether a write with `token` may take place. `seen` is the highest token that the storage
/// has seen, or 0 if it has seen none. The check and the write must be one atomic step of the
/// storage.
///
/// # Errors
/// [`Stale`] if `token` is below `seen`. An equal token comes from the same holder.
pub const fn check(token: u64, seen: u64) -> Result<(), Stale> {
    if token < seen { Err(Stale { token, seen }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_stale_only_below_the_seen_one() {
        for (token, seen, stale) in [(1, 0, false), (7, 7, false), (8, 7, false), (6, 7, true), (0, u64::MAX, true)] {
            assert_eq!(check(token, seen).is_err(), stale, "{token} after {seen}");
        }
    }

    #[test]
    fn a_stale_token_is_named_beside_the_one_that_was_seen() {
        let stale = check(41, 42).unwrap_err();
        assert_eq!((stale.token(), stale.seen()), (41, 42));
        let said = stale.to_string();
        assert!(said.contains("token 41 is stale") && said.contains("has seen 42"), "{said}");
    }
}
