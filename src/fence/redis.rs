//! One Redis command, which is carried out only if its token is not stale.
//!
//! This is for the Redis server that has **your data**. That server need not be a node of the lock.
//!
//! A script compares the token with the highest token so far, which is stored at a separate key. If
//! the token is not lower, the script carries out the command in the same step. A [`Call`] makes
//! the arguments of `EVAL` for any client, and checks the reply. `Call::query_async` is for the
//! crate `redis` (feature `redis-rs`):
//!
//! ```no_run
//! # #[cfg(feature = "redis-rs")]
//! # async fn ship(guard: quorumlock::LockGuard, connection: &mut redis::aio::MultiplexedConnection)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! use quorumlock::fence::redis::Call;
//!
//! // Use the fence also to read all data that the write depends on.
//! let read = Call::new("{orders/42}:fence", guard.token(), "HGET").key("{orders/42}").arg("state");
//! let state: Option<String> = read.query_async(connection).await?;
//! if state.as_deref() == Some("packed") {
//!     let write = Call::new("{orders/42}:fence", guard.token(), "HSET").key("{orders/42}");
//!     let () = write.arg("state").arg("shipped").query_async(connection).await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # The key of the fence
//!
//! * Use one key per lock, and the same key in all calls. In a cluster, all keys of a call must be
//!   in one slot: give their names the same hash tag, as above.
//! * Never give the key a ttl: without the key, stale tokens are accepted. Do not let Redis evict
//!   the key (`maxmemory-policy noeviction`, or a `volatile-` policy). Persist the key if you
//!   persist the data.
//! * Replication is asynchronous: a promoted replica may lack the last writes, and with them the
//!   highest token.
//!
//! The user needs the rights to run `EVAL`, `GET`, `SET` and your command on these keys.

use std::error::Error as StdError;
use std::fmt;

use super::{Stale, check};

/// Carries out one command, unless the token is stale. The script is short, because each call sends
/// it.
///
/// * keys: the key of the fence, which has the highest token in decimal; then the command's keys;
/// * arguments: the token in decimal, without leading zeros; then the command with its keys;
/// * reply: the highest token so far, as a text; then the command's reply. If the first differs
///   from the token that was sent, nothing was done.
const SCRIPT: &str = include_str!("../../scripts/lua/fenced.lua");

/// A command, the key of its fence, and the token. Scripts in Redis can run commands of about 7,000
/// words at most.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent yet"]
pub struct Call {
    token: u64,
    /// The key of the fence, and then the command's keys.
    keys: Vec<Vec<u8>>,
    words: Vec<Vec<u8>>,
}

impl Call {
    /// `command`, such as `"SET"`, is carried out unless a higher token is stored at `fence`.
    pub fn new(fence: impl AsRef<[u8]>, token: u64, command: &str) -> Self {
        Self { token, keys: vec![fence.as_ref().to_vec()], words: vec![command.into()] }
    }

    /// Appends a key to the command.
    pub fn key(mut self, key: impl AsRef<[u8]>) -> Self {
        self.keys.push(key.as_ref().to_vec());
        self.arg(key)
    }

    /// Appends a word that is not a key.
    pub fn arg(mut self, word: impl AsRef<[u8]>) -> Self {
        self.words.push(word.as_ref().to_vec());
        self
    }

    /// The words that a client sends after `EVAL`: the script, the number of keys, the keys and the
    /// arguments. For `EVALSHA`, replace the script by its SHA-1. Any version of this crate may
    /// change the script.
    #[must_use]
    pub fn arguments(&self) -> Vec<Vec<u8>> {
        let head = [SCRIPT.into(), self.keys.len().to_string().into_bytes()];
        let token = self.token.to_string().into_bytes();
        head.into_iter().chain(self.keys.iter().cloned()).chain([token]).chain(self.words.iter().cloned()).collect()
    }

    /// Checks the reply, which is an array of two elements. The first is `seen`, the highest token
    /// as a text. If this method returns `Ok`, the second is the command's own reply.
    ///
    /// # Errors
    /// `Stale` if the command was not carried out; `Unusable` if `seen` is not a token.
    pub fn verdict(&self, seen: impl AsRef<[u8]>) -> Result<(), Error> {
        let seen = seen.as_ref();
        let number = std::str::from_utf8(seen).ok().and_then(|seen| seen.parse().ok());
        let number = number.ok_or_else(|| Error::Unusable(String::from_utf8_lossy(seen).into_owned()))?;
        check(self.token, number).map_err(Error::Stale)
    }

    /// Sends the command over a connection of the crate `redis`, and returns the command's reply.
    ///
    /// # Errors
    /// See [`Error`]: each kind says what to do.
    ///
    /// # Cancel safety
    /// If the future is dropped, the command may still be carried out, and the fence may be raised.
    #[cfg(feature = "redis-rs")]
    pub async fn query_async<T: ::redis::FromRedisValue>(
        &self,
        connection: &mut impl ::redis::aio::ConnectionLike,
    ) -> Result<T, Error> {
        let mut command = ::redis::cmd("EVAL");
        self.arguments().iter().for_each(|argument| {
            command.arg(argument);
        });
        let (seen, reply): (Vec<u8>, ::redis::Value) = command.query_async(connection).await.map_err(Error::Redis)?;
        self.verdict(seen)?;
        ::redis::from_redis_value(reply).map_err(|error| Error::Redis(error.into()))
    }
}

/// Why a call did not return the reply of its command.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The token is stale. **Stop** the work that the lock protected.
    Stale(Stale),
    /// The reply has no token. **Fix** the code that reads the reply, or the key of the fence.
    Unusable(String),
    /// An error from Redis or the client. If no answer came, the server may have carried out the
    /// command, or may still carry it out. **Acquire** the lock again, and read with the new token:
    /// this read makes late commands stale, which a read with the old token would not do.
    #[cfg(feature = "redis-rs")]
    Redis(::redis::RedisError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale(stale) => stale.fmt(f),
            Self::Unusable(seen) => {
                write!(f, "the reply of the fence's script begins with {seen:?}, which is no token")
            }
            #[cfg(feature = "redis-rs")]
            Self::Redis(error) => write!(f, "a fenced command got no usable reply from Redis: {error}"),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Stale(stale) => Some(stale),
            Self::Unusable(_) => None,
            #[cfg(feature = "redis-rs")]
            Self::Redis(error) => Some(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(call: &Call) -> Vec<String> {
        call.arguments().into_iter().map(|argument| String::from_utf8(argument).unwrap()).collect()
    }

    #[test]
    fn keys_stand_before_the_token_and_again_within_the_command() {
        let call = Call::new("f", 7, "SMOVE").key("a").key("b").arg("member");
        assert_eq!(texts(&call)[1..], ["3", "f", "a", "b", "7", "SMOVE", "a", "b", "member"]);
    }

    #[test]
    fn reply_above_the_token_is_stale_and_garbage_is_unusable() {
        let call = Call::new("f", 7, "GET");
        assert!(call.verdict("7").is_ok());
        assert!(matches!(call.verdict("8"), Err(Error::Stale(stale)) if (stale.token(), stale.seen()) == (7, 8)));
        for reply in ["", "OK", "-1", "18446744073709551616"] {
            assert!(matches!(call.verdict(reply), Err(Error::Unusable(said)) if said == reply));
        }
    }
}
