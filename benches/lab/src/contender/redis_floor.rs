//! The floor over redis-rs: the least that a lock over redis-rs must send.

use std::time::Instant;

use futures::future::try_join_all;
use futures::stream::{FuturesUnordered, StreamExt};
use redis::aio::MultiplexedConnection;
use redis::{Client, Cmd, Value, cmd};

use super::{Result, Scripts, TTL, Took, owner, quorum};

pub struct RedisFloor {
    connections: Vec<MultiplexedConnection>,
    scripts: Scripts,
}

impl RedisFloor {
    pub async fn connect(ports: &[u16], scripts: &Scripts) -> Result<Self> {
        let connect = async |&port: &u16| {
            Client::open(format!("redis://127.0.0.1:{port}"))?.get_multiplexed_async_connection().await
        };
        let connections = try_join_all(ports.iter().map(connect)).await?;
        Ok(Self { connections, scripts: scripts.clone() })
    }

    pub async fn pair(&self, name: &str, number: u64) -> Result<Took> {
        let owner = owner(number);
        let ttl = u64::try_from(TTL.as_millis())?;
        let begun = Instant::now();
        let mut acquire = cmd("EVALSHA");
        acquire.arg(&self.scripts.acquire).arg(1).arg(name).arg(&owner).arg(ttl);
        self.ask(&acquire).await?;
        let acquired = Instant::now();
        let mut release = cmd("EVALSHA");
        release.arg(&self.scripts.release).arg(1).arg(name).arg(&owner);
        self.ask(&release).await?;
        Ok(Took { acquire: acquired - begun, release: acquired.elapsed() })
    }

    /// Asks all nodes, and returns when a quorum has agreed.
    async fn ask(&self, command: &Cmd) -> Result<()> {
        let ask = async |connection: &MultiplexedConnection| {
            connection.clone().send_packed_command(command).await.and_then(Value::extract_error)
        };
        let mut replies: FuturesUnordered<_> = self.connections.iter().map(ask).collect();
        let mut agreed = 0;
        while let Some(reply) = replies.next().await {
            agreed += usize::from(matches!(reply, Ok(Value::Okay | Value::Int(1))));
            if agreed == quorum(self.connections.len()) {
                return Ok(());
            }
        }
        Err("redis-rs' floor: no quorum agreed".into())
    }
}
