//! The contenders: locks, and floors. A floor sends the least that a lock must send, over one
//! client library or none: one script call to each node for an acquisition, and one for a release.
//! Each call ends when a quorum has replied.

mod distributed_lock;
mod fred_floor;
mod hand;
mod ours;
mod redis_floor;
mod rslock;

use std::io;
use std::time::Duration;

use tokio::time::timeout;

use distributed_lock::DistributedLock;
use fred_floor::FredFloor;
use hand::Hand;
pub use ours::{Ours, Quorums, TTL, all_vote, init};
use quorumlock::Transport;
use redis_floor::RedisFloor;
use rslock::Rslock;

use crate::servers::Server;

/// Any error: the program only prints it.
pub type Failed = Box<dyn std::error::Error + Send + Sync>;
pub type Result<T> = std::result::Result<T, Failed>;

/// Sets the key if it is not set. Locks that store more than an owner need a script, so the floors
/// use a script too.
const ACQUIRE: &str = "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])";
/// <https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/>
const RELEASE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

/// The hashes of both scripts, which are the same on all servers.
#[derive(Clone, Debug)]
pub struct Scripts {
    pub acquire: String,
    pub release: String,
}

impl Scripts {
    /// Loads both scripts into all servers.
    ///
    /// # Errors
    /// If a server refuses a script, or does not answer.
    pub fn load(servers: &mut [Server]) -> io::Result<Self> {
        let mut scripts = Self { acquire: String::new(), release: String::new() };
        for server in servers {
            scripts = Self { acquire: server.load(ACQUIRE)?, release: server.load(RELEASE)? };
        }
        Ok(scripts)
    }
}

/// How long a contender may take to close.
const CLOSING: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Hand,
    Redis,
    Fred,
    Ours,
    OursRedis,
    Rslock,
    DistributedLock,
    /// Not in [`Kind::ALL`]: only `cost` compares with it.
    Plain,
}

impl Kind {
    pub const ALL: [Self; 7] =
        [Self::Hand, Self::Redis, Self::Fred, Self::Ours, Self::OursRedis, Self::Rslock, Self::DistributedLock];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Hand => "floor, by hand",
            Self::Redis => "floor, redis-rs",
            Self::Fred => "floor, fred",
            Self::Ours => "quorumlock",
            Self::OursRedis => "quorumlock, redis-rs",
            Self::Rslock => "rslock",
            Self::DistributedLock => "distributed-lock-redis",
            Self::Plain => "SET, by hand",
        }
    }

    /// Connects to these servers, all of which know the scripts of the floors.
    ///
    /// # Errors
    /// If connecting fails, or takes longer than `patience`.
    pub async fn connect(self, ports: &[u16], scripts: &Scripts, patience: Duration) -> Result<Lock> {
        timeout(patience, self.connected(ports, scripts)).await.map_err(|_| "it does not connect")?
    }

    async fn connected(self, ports: &[u16], scripts: &Scripts) -> Result<Lock> {
        Ok(match self {
            Self::Hand => Lock::Hand(Hand::connect(ports, scripts).await?),
            Self::Redis => Lock::Redis(RedisFloor::connect(ports, scripts).await?),
            Self::Fred => Lock::Fred(FredFloor::connect(ports, scripts).await?),
            Self::Ours => Lock::Ours(Ours::connect(ports, Transport::Fred).await?),
            Self::OursRedis => Lock::OursRedis(Ours::connect(ports, Transport::RedisRs).await?),
            Self::Rslock => Lock::Rslock(Rslock::open(ports)),
            Self::DistributedLock => Lock::DistributedLock(DistributedLock::connect(ports).await?),
            Self::Plain => Lock::Plain(Hand::connect(ports, scripts).await?),
        })
    }
}

pub enum Lock {
    Hand(Hand),
    Redis(RedisFloor),
    Fred(FredFloor),
    Ours(Ours),
    OursRedis(Ours),
    Rslock(Rslock),
    DistributedLock(DistributedLock),
    Plain(Hand),
}

/// How long an acquisition and its release took.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    pub acquire: Duration,
    pub release: Duration,
}

impl Took {
    pub fn pair(self) -> Duration {
        self.acquire + self.release
    }
}

impl Lock {
    /// Acquires and releases a name that nobody else wants. Use each `number` once: the contenders
    /// without a lock library make their owner from it.
    pub async fn pair(&self, name: &str, number: u64) -> Result<Took> {
        match self {
            Self::Hand(hand) => hand.pair(name, number).await,
            Self::Redis(floor) => floor.pair(name, number).await,
            Self::Fred(floor) => floor.pair(name, number).await,
            Self::Ours(ours) | Self::OursRedis(ours) => ours.pair(name).await,
            Self::Rslock(lock) => lock.pair(name).await,
            Self::DistributedLock(lock) => lock.pair(name).await,
            Self::Plain(hand) => hand.plain_pair(name, number).await,
        }
    }

    /// Acquires a name that others want, too. Fails for a floor, which cannot wait.
    pub async fn wanted(&self, name: &str) -> Result<Held> {
        match self {
            Self::Ours(ours) | Self::OursRedis(ours) => Ok(Held::Ours(ours.wanted(name).await?)),
            Self::Rslock(lock) => Ok(Held::Rslock(lock.wanted(name).await?)),
            Self::DistributedLock(lock) => Ok(Held::DistributedLock(lock.wanted(name).await?)),
            _ => Err("a floor does not wait for a lock".into()),
        }
    }

    /// Runs `work`. The floor by hand reads and writes within this call; the others have background
    /// tasks for that.
    pub async fn drive<T>(&self, work: impl Future<Output = T>) -> T {
        match self {
            Self::Hand(hand) | Self::Plain(hand) => hand.drive(work).await,
            _ => work.await,
        }
    }

    /// The prefix of names. With one prefix for all, keys that a contender leaves behind would
    /// disturb the next contender.
    const fn prefix(&self) -> &'static str {
        match self {
            Self::Hand(_) => "hand",
            Self::Redis(_) => "redis",
            Self::Fred(_) => "fred",
            Self::Ours(_) => "ours",
            Self::OursRedis(_) => "ours-redis",
            Self::Rslock(_) => "rslock",
            Self::DistributedLock(_) => "distributed",
            Self::Plain(_) => "plain",
        }
    }

    /// A name that no other contender has.
    pub fn name(&self, of: impl std::fmt::Display) -> String {
        format!("{}/{of}", self.prefix())
    }

    /// Closes the contender, so that no task or connection of it disturbs the next measurement.
    pub async fn close(self) {
        let closed = async {
            match self {
                Self::Ours(ours) | Self::OursRedis(ours) => ours.close().await,
                Self::Fred(floor) => floor.close().await,
                _ => {}
            }
        };
        // Closing would wait for a node that does not answer.
        let _ = timeout(CLOSING, closed).await;
    }
}

pub enum Held {
    Ours(quorumlock::LockGuard),
    Rslock(::rslock::LockGuard),
    DistributedLock(distributed_lock_redis::RedisLockHandle),
}

impl Held {
    pub async fn release(self) -> Result<()> {
        match self {
            Self::Ours(guard) => drop(guard.release().await?),
            Self::Rslock(guard) => guard.release().await,
            Self::DistributedLock(handle) => distributed_lock_core::traits::LockHandle::release(handle).await?,
        }
        Ok(())
    }
}

pub const fn quorum(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// An owner for the floors. It is as long as a UUID, because every lock stores a unique owner.
pub fn owner(number: u64) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}
