//! A PostgreSQL transaction, over `sqlx` 0.8, that writes only if its token is not stale.
//!
//! A table has one row for each lock, with the lock's highest token. In the transaction, [`guard`]
//! checks and raises the token in this row. The row stays locked until the transaction ends. So a
//! second transaction of the same lock waits for the first, and sees its result.
//!
//! ```no_run
//! # async fn ship(pool: sqlx::PgPool, lock: quorumlock::QuorumLock) -> Result<(), Box<dyn std::error::Error>> {
//! use quorumlock::fence::sqlx_0_8 as fence;
//! use std::time::Duration;
//!
//! sqlx::raw_sql(fence::TABLE).execute(&pool).await?; // once, with your migrations
//!
//! let guard = lock.acquire_default().await?;
//! let mut transaction = pool.begin().await?;
//! fence::guard(&mut transaction, "orders/42", guard.token()).await?;
//! sqlx::query("UPDATE orders SET state = 'shipped' WHERE id = 42").execute(&mut *transaction).await?;
//! // Commits if the lock is held for another second at least. Releases the lock in any case.
//! fence::commit_and_release(transaction, guard, Duration::from_secs(1)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What makes it safe
//!
//! The fence alone makes the transaction safe. Before the `COMMIT`, [`commit`] checks that the lock
//! is still held. This check only saves work, because the lock may end during the `COMMIT`. In that
//! case, the next holder's [`guard`] waits until the `COMMIT` is decided. Set `lock_timeout` to
//! limit that wait.
//!
//! Call [`guard`] first in the transaction, before the transaction reads anything. `guard` works at
//! each isolation level. At REPEATABLE READ and SERIALIZABLE, `guard` fails with SQLSTATE 40001 if
//! it waited for another transaction of the lock, and that transaction was committed. In this case,
//! begin the transaction again, as always at these levels. If a transaction has several fences, all
//! transactions must guard them in one order, such as the order of their names. Otherwise two
//! transactions may wait for each other.
//!
//! Keep the row of a lock for as long as the lock is used: without the row, stale tokens are
//! accepted. Delete the row only when nothing can still hold the lock, not even a paused process.
//!
//! # A single row
//!
//! A statement that changes one row needs no table, only a column for the token:
//!
//! ```sql
//! UPDATE orders SET state = $1, fence = $2 WHERE id = $3 AND fence <= $2
//! ```
//!
//! [`bigint`] makes the parameter `$2` from the token. If the statement changed no row, the row is
//! missing or the token is stale. A transaction must raise the fence (`SET fence = $2`) before it
//! reads the data that its write depends on. `SELECT ... FOR UPDATE` does not raise the fence:
//! after the transaction, an earlier holder may still write.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use sqlx::postgres::{PgDatabaseError, PgSeverity};
use sqlx::{Postgres, Transaction};

use super::{Stale, check};
use crate::error::Error as LockError;
use crate::lease::{Lease, LockGuard};

/// Creates the table of the fences if there is none. All statements of this module name the table
/// without a schema, so `search_path` selects the schema.
pub const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS quorumlock_fences (resource TEXT PRIMARY KEY, fence BIGINT NOT NULL)";

/// Locks the row, and stores and returns the higher of the old and the new token. If this statement
/// waits for another transaction, it sees the token that the other transaction committed.
const RAISE: &str = "INSERT INTO quorumlock_fences AS known (resource, fence) VALUES ($1, $2)
    ON CONFLICT (resource) DO UPDATE SET fence = GREATEST(known.fence, EXCLUDED.fence) RETURNING fence";

/// Returns the transaction's id for `txid_status`. In a failed transaction, this statement fails
/// too. Without this statement, `COMMIT` would roll back a failed transaction and report no error.
const ID: &str = "SELECT txid_current_if_assigned()";

/// Checks that no higher token than `token` was seen for `resource`. When the transaction commits,
/// `token` becomes the highest. Other transactions that guard this resource wait until this
/// transaction ends.
///
/// # Errors
/// `Stale` if a higher token was seen: roll back or drop the transaction. `TooLarge` and
/// `Database`: see [`Error`].
///
/// # Cancel safety
/// If you drop the future, drop the transaction too, because the row may be locked.
pub async fn guard(transaction: &mut Transaction<'_, Postgres>, resource: &str, token: u64) -> Result<(), Error> {
    let raise = sqlx::query_scalar::<_, i64>(RAISE).bind(resource).bind(bigint(token)?);
    let seen = raise.fetch_one(&mut **transaction).await.map_err(Error::Database)?;
    check(token, seen.unsigned_abs()).map_err(Error::Stale)
}

/// A token as PostgreSQL's BIGINT. Tokens of a lock fit: they are below 2^53.
///
/// # Errors
/// `TooLarge` above 2^63 - 1. No lock has such a token.
pub fn bigint(token: u64) -> Result<i64, Error> {
    i64::try_from(token).map_err(|_| Error::TooLarge(token))
}

/// Commits if the lock is held for at least `margin` from now; otherwise rolls back. A good
/// `margin` is the longest time that a `COMMIT` normally takes.
///
/// The transaction must begin with [`guard`], which this function does not call.
///
/// # Errors
/// `Lost` if the lock is not held for that long, and `Database` if the transaction failed: in both
/// cases, nothing was written. `Unknown` if the `COMMIT` got no answer, a FATAL error, or an error
/// with SQLSTATE 40003 or class 08.
///
/// # Cancel safety
/// If the future is dropped before the `COMMIT` is sent, the transaction is rolled back. If the
/// future is dropped later, the result is unknown.
pub async fn commit(mut transaction: Transaction<'_, Postgres>, lease: &Lease, margin: Duration) -> Result<(), Error> {
    let id = sqlx::query_scalar(ID).fetch_one(&mut *transaction).await.map_err(Error::Database)?;
    if let Err(lost) = lease.ensure(margin) {
        // If the rollback fails, the connection has failed, and the server rolls back by itself.
        drop(transaction.rollback().await);
        return Err(Error::Lost(lost));
    }
    transaction.commit().await.map_err(|error| undecided(error, id))
}

/// Like [`commit`], and then releases the lock, even if the commit failed. The release is safe even
/// if the result is unknown: the next holder's [`guard`] waits until the `COMMIT` is decided.
///
/// An unconfirmed release is no error: the release goes on in the background, or the lock expires.
///
/// # Errors
/// As for [`commit`].
///
/// # Cancel safety
/// As with [`commit`]. Even if the future is dropped, the lock is released.
pub async fn commit_and_release(
    transaction: Transaction<'_, Postgres>,
    guard: LockGuard,
    margin: Duration,
) -> Result<(), Error> {
    let committed = commit(transaction, &guard, margin).await;
    drop(guard.release().await);
    committed
}

/// The error of a failed `COMMIT`. If the server sent an ERROR with a code for which [`decided`] is
/// true, nothing was committed. In all other cases, such as a FATAL error or no answer, the server
/// may have committed.
fn undecided(error: sqlx::Error, transaction: Option<i64>) -> Error {
    let said = error.as_database_error().and_then(|error| error.try_downcast_ref::<PgDatabaseError>());
    match said.map(|said| (said.severity(), said.code())) {
        Some((PgSeverity::Error, code)) if decided(code) => Error::Database(error),
        _ => Error::Unknown { transaction, source: error },
    }
}

/// Whether an ERROR with this code shows a rollback. 40003 is "statement completion unknown". Class
/// 08 is a failed connection: a pooler or a proxy may report this code instead of the server.
fn decided(code: &str) -> bool {
    code != "40003" && !code.starts_with("08")
}

/// Why a transaction was not committed, or why this is unknown.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The token is stale. **Stop** the work that the lock protected, and roll back.
    Stale(Stale),
    /// The lock was lost, or is held for less than the margin. The transaction was rolled back.
    /// **Stop**, or acquire the lock again and begin a new transaction.
    Lost(LockError),
    /// The server or the connection failed before anything was committed. **Retry** the whole
    /// transaction under the same lock if the SQLSTATE is 40001 or 40P01.
    Database(sqlx::Error),
    /// It is unknown whether the transaction was committed. **Look** before you repeat the
    /// transaction: on a new connection, `SELECT txid_status($1)` with `transaction` returns
    /// `committed`, `aborted`, or `in progress`. After `in progress`, look again.
    #[non_exhaustive]
    Unknown {
        /// The id of the transaction. `None` if the transaction has written nothing, so that its
        /// result does not matter.
        transaction: Option<i64>,
        /// The error of the connection.
        source: sqlx::Error,
    },
    /// The token does not fit a BIGINT, so it comes from no lock. **Fix** the code that passed this
    /// token.
    TooLarge(u64),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale(stale) => stale.fmt(f),
            Self::Lost(lost) => write!(f, "nothing was written: {lost}"),
            Self::Database(error) => write!(f, "nothing was written: {error}"),
            Self::Unknown { transaction: Some(id), source } => {
                write!(f, "it is unknown whether the transaction was committed: {source}; run SELECT txid_status({id})")
            }
            Self::Unknown { transaction: None, source } => {
                write!(f, "the transaction had nothing to write, and its end was not confirmed: {source}")
            }
            Self::TooLarge(token) => write!(f, "{token} does not fit a BIGINT, so no lock has this fencing token"),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Stale(stale) => Some(stale),
            Self::Lost(lost) => Some(lost),
            Self::Database(source) | Self::Unknown { source, .. } => Some(source),
            Self::TooLarge(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_fits_a_bigint_or_is_refused() {
        assert_eq!(bigint((1 << 53) - 1).unwrap(), (1 << 53) - 1);
        assert_eq!(bigint(i64::MAX.unsigned_abs()).unwrap(), i64::MAX);
        assert!(matches!(bigint(1 << 63), Err(Error::TooLarge(token)) if token == 1 << 63));
    }

    #[test]
    fn server_errors_of_unknown_completion_decide_nothing() {
        assert!(["40001", "40P01", "23505", "25P02"].into_iter().all(decided));
        assert!(!["40003", "08000", "08006", "08P01"].into_iter().any(decided));
    }

    #[test]
    fn commit_without_a_reply_is_unknown() {
        let unknown = undecided(sqlx::Error::WorkerCrashed, Some(77));
        assert!(matches!(unknown, Error::Unknown { transaction: Some(77), .. }), "{unknown:?}");
        assert!(unknown.to_string().contains("SELECT txid_status(77)"), "{unknown}");
    }
}
