//! The floor over fred: the least that a lock over fred must send.

use std::time::Instant;

use fred::prelude::*;
use fred::types::config::Config;
use futures::future::{join_all, try_join_all};
use futures::stream::{FuturesUnordered, StreamExt};

use super::{Result, Scripts, TTL, Took, owner, quorum};

pub struct FredFloor {
    clients: Vec<Client>,
    scripts: Scripts,
}

impl FredFloor {
    pub async fn connect(ports: &[u16], scripts: &Scripts) -> Result<Self> {
        let clients = try_join_all(ports.iter().map(|&port| connected(port))).await?;
        Ok(Self { clients, scripts: scripts.clone() })
    }

    pub async fn pair(&self, name: &str, number: u64) -> Result<Took> {
        let owner = owner(number);
        let ttl = i64::try_from(TTL.as_millis())?;
        let begun = Instant::now();
        self.ask(|client| client.evalsha::<Value, _, _, _>(&*self.scripts.acquire, name, (&*owner, ttl))).await?;
        let acquired = Instant::now();
        self.ask(|client| client.evalsha::<Value, _, _, _>(&*self.scripts.release, name, &*owner)).await?;
        Ok(Took { acquire: acquired - begun, release: acquired.elapsed() })
    }

    /// Asks all nodes, and returns when a quorum has agreed.
    async fn ask<'a, F>(&'a self, ask: impl Fn(&'a Client) -> F) -> Result<()>
    where
        F: Future<Output = FredResult<Value>>,
    {
        let mut replies: FuturesUnordered<_> = self.clients.iter().map(ask).collect();
        let mut agreed = 0;
        while let Some(reply) = replies.next().await {
            agreed += usize::from(reply.is_ok_and(|reply| !reply.is_null() && reply.as_i64() != Some(0)));
            if agreed == quorum(self.clients.len()) {
                return Ok(());
            }
        }
        Err("fred's floor: no quorum agreed".into())
    }

    pub async fn close(self) {
        join_all(self.clients.iter().map(Client::quit)).await;
    }
}

async fn connected(port: u16) -> Result<Client> {
    let client = Builder::from_config(Config::from_url(&format!("redis://127.0.0.1:{port}"))?).build()?;
    client.init().await?;
    Ok(client)
}
