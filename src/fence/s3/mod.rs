//! An S3 object that refuses stale writes, by conditional writes (`If-Match`, `If-None-Match`).
//!
//! **No test has used S3 itself.** The tests use the memory store of the crate `object_store`, and
//! its S3 client with a small HTTP server on loopback. The store must support conditional writes,
//! as S3 and most stores with its protocol do.
//!
//! ```
//! # use object_store::memory::InMemory;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (store, token) = (InMemory::new(), 7);
//! use quorumlock::fence::s3;
//!
//! // Use the token also to read all data that the write depends on.
//! let before = s3::read(&store, "orders/42", token).await?;
//! if before.is_none() {
//!     s3::put(&store, "orders/42", token, b"shipped").await?;
//! }
//! // Code without a lock reads without a token.
//! assert_eq!(s3::get(&store, "orders/42").await?.as_deref(), Some(&b"shipped"[..]));
//! # Ok(())
//! # }
//! ```
//!
//! # What is stored
//!
//! The object is one line of text, `quorumlock fence 7 write 2`, and then your data. The token is
//! not in the metadata, because an ETag covers the content only. With the token in the metadata,
//! two objects with equal data and different tokens would have the same ETag, so the store would
//! accept a stale write. The number of the write makes the content of each write unique.
//!
//! * Readers without a lock read the object with [`get`], or skip its first line. An object without
//!   that line is [`Unfenced`](Error::Unfenced), and is not overwritten.
//! * Each write reads the whole object first. If the data is large, or other programs read it,
//!   write the data to a new key each time, and store this key in the fenced object.
//! * [`remove`] leaves the line with the token. If the object is deleted in another way, such as by
//!   a lifecycle rule, stale tokens are accepted.
//! * A key is a path of `object_store`: it has no slash at either end.

mod envelope;
mod store;

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;

use bytes::Bytes;

use super::{Stale, check};
use envelope::{Envelope, MAX_LINE};

/// How often a write is tried if other callers write at the same time. The holder of a lock does
/// not reach this limit, because a lock has only one holder at a time.
const ATTEMPTS: usize = 64;

/// A store with conditional writes: any `object_store::ObjectStore`, or your own client.
pub trait Bucket: Sync {
    /// The store's error.
    type Error: StdError + Send + Sync + 'static;

    /// Reads an object and its ETag, both in the same moment and not from a cache; `None` if there
    /// is no object.
    fn get(&self, key: &str) -> impl Future<Output = Result<Option<Found>, Self::Error>> + Send;

    /// Writes an object if the condition holds, in one atomic step. Return [`Put::Refused`] if the
    /// store says that the condition does not hold: status 412 or 409, or 404 if an ETag must
    /// match. An error means that the object may have been written or not.
    fn put(
        &self,
        key: &str,
        object: Bytes,
        condition: Condition,
    ) -> impl Future<Output = Result<Put, Self::Error>> + Send;
}

/// An object as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The whole content of the object.
    pub object: Bytes,
    /// Its ETag as the store returned it, including the quotes.
    pub e_tag: String,
}

/// The condition of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// There is no object: `If-None-Match: *`.
    Absent,
    /// The object has this ETag: `If-Match`.
    Matches(String),
}

/// The result of a conditional write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The object is written.
    Done,
    /// The condition does not hold.
    Refused,
}

/// Replaces the data of the object, unless `token` is stale.
///
/// # Errors
/// See [`Error`]: each kind says what to do.
///
/// # Cancel safety
/// If the future is dropped, the data may still be written: see [`Error::Store`].
pub async fn put<B: Bucket + ?Sized>(bucket: &B, key: &str, token: u64, body: &[u8]) -> Result<(), Error<B::Error>> {
    replace(bucket, key, token, Change::To(Some(body))).await.map(drop)
}

/// Raises the fence to `token`, so that no earlier holder can write any more, and returns the data.
/// `None` if no data was written, or the data was removed. The first read with a token writes the
/// object; further reads with this token do not. So a further read does not stop an earlier [`put`]
/// of this token whose result is unknown: the store may carry out that `put` after the read.
///
/// # Errors
/// See [`Error`]: each kind says what to do.
///
/// # Cancel safety
/// Safe, but the fence may be raised.
pub async fn read<B: Bucket + ?Sized>(bucket: &B, key: &str, token: u64) -> Result<Option<Bytes>, Error<B::Error>> {
    replace(bucket, key, token, Change::Nothing).await
}

/// Removes the data of the object, unless `token` is stale. The line with the token stays.
///
/// # Errors
/// See [`Error`]: each kind says what to do.
///
/// # Cancel safety
/// As with [`put`].
pub async fn remove<B: Bucket + ?Sized>(bucket: &B, key: &str, token: u64) -> Result<(), Error<B::Error>> {
    replace(bucket, key, token, Change::To(None)).await.map(drop)
}

/// Returns the data for readers without a lock; `None` if no data was written, or the data was
/// removed. The data may be outdated at once, so no write to this object may depend on it.
///
/// # Errors
/// `Unfenced` or `Store`: see [`Error`].
///
/// # Cancel safety
/// Safe.
pub async fn get<B: Bucket + ?Sized>(bucket: &B, key: &str) -> Result<Option<Bytes>, Error<B::Error>> {
    let found = bucket.get(key).await.map_err(Error::Store)?;
    Ok(found.map(opened).transpose()?.and_then(|(envelope, _)| envelope.body))
}

/// What to do with the data.
#[derive(Clone, Copy)]
enum Change<'a> {
    Nothing,
    To(Option<&'a [u8]>),
}

/// Changes the data, and returns the new data.
///
/// `Change::To` always writes the object, even if the data is the same. The write changes the ETag.
/// So if an earlier write with the same token arrives after this write, the store refuses the
/// earlier one.
async fn replace<B: Bucket + ?Sized>(
    bucket: &B,
    key: &str,
    token: u64,
    change: Change<'_>,
) -> Result<Option<Bytes>, Error<B::Error>> {
    let mut sent = None;
    for _ in 0..ATTEMPTS {
        let found = bucket.get(key).await.map_err(Error::Store)?;
        let (before, condition) = found.map(opened).transpose()?.unwrap_or((Envelope::default(), Condition::Absent));
        check(token, before.token).map_err(Error::Stale)?;
        let body = match change {
            Change::Nothing if before.token == token => return Ok(before.body),
            // The object is the one that this call wrote in the previous attempt. So the store's
            // answer was lost, and the HTTP client sent the write a second time. The store refused
            // this second write.
            _ if sent.as_ref() == Some(&before) => return Ok(before.body),
            Change::Nothing => before.body,
            Change::To(body) => body.map(Bytes::copy_from_slice),
        };
        let after = Envelope { token, writes: before.writes.saturating_add(1), body };
        let put = bucket.put(key, after.sealed(), condition).await.map_err(Error::Store)?;
        if put == Put::Done {
            return Ok(after.body);
        }
        sent = Some(after);
    }
    Err(Error::Busy)
}

/// The envelope of an object, and the condition that the object has not changed.
fn opened<E>(found: Found) -> Result<(Envelope, Condition), Error<E>> {
    let envelope = Envelope::open(&found.object).ok_or_else(|| {
        let begin = &found.object[..found.object.len().min(MAX_LINE)];
        Error::Unfenced(String::from_utf8_lossy(begin).into_owned())
    })?;
    Ok((envelope, Condition::Matches(found.e_tag)))
}

/// Why an object was not written or read, or why this is unknown.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error<E> {
    /// The token is stale. **Stop** the work that the lock protected.
    Stale(Stale),
    /// The object begins with this text, and not with the line that has the token. **Move** the
    /// object to another key: without a token, stale writes look like all other writes.
    Unfenced(String),
    /// At each attempt of this call, another caller wrote the object first. The lock excludes other
    /// writers, so some callers write without the lock. **Find** these callers.
    Busy,
    /// The store failed. The data may have been written or not, and may still be written. **Write**
    /// the wanted data again, with the same token: once this second write is done, the store
    /// refuses the first. A read with the same token is not enough: the store may carry out the
    /// first write after the read.
    Store(E),
}

impl<E: fmt::Display> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale(stale) => stale.fmt(f),
            Self::Unfenced(begin) => {
                write!(f, "nothing was written: the object has no fence, it begins with {begin:?}")
            }
            Self::Busy => write!(f, "nothing was written: others wrote the object during each of {ATTEMPTS} attempts"),
            Self::Store(error) => write!(f, "the object may have been written or not: {error}"),
        }
    }
}

impl<E: StdError + 'static> StdError for Error<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Stale(stale) => Some(stale),
            Self::Store(error) => Some(error),
            Self::Unfenced(_) | Self::Busy => None,
        }
    }
}
