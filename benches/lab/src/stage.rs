//! Servers, and a comparison of contenders that are connected to them.

use std::sync::Arc;
use std::time::Duration;

use crate::contender::{Kind, Lock, Result, Scripts, init};
use crate::peers::Relay;
use crate::servers::Server;
use crate::turn::{Figures, Work, measured};

/// How long to wait for a connection to healthy servers.
pub const PATIENCE: Duration = Duration::from_secs(15);

pub struct Stage {
    pub servers: Vec<Server>,
    pub scripts: Scripts,
    /// Relays to the servers; empty if contenders connect to the servers themselves.
    relays: Vec<Relay>,
}

/// The figures of a contender's turns, in order.
pub struct Turns {
    pub kind: Kind,
    pub rounds: Vec<Figures>,
    /// Why a turn failed. No turn follows it.
    pub failed: Option<String>,
}

impl Stage {
    /// Servers for contenders. These servers vote at once.
    pub async fn set(nodes: usize) -> Result<Self> {
        let stage = Self::empty(nodes)?;
        init(&stage.ports()).await?;
        Ok(stage)
    }

    /// As [`set`](Self::set), with servers that are `round_trip` away.
    pub async fn away(nodes: usize, round_trip: Duration) -> Result<Self> {
        let mut stage = Self::set(nodes).await?;
        let relays = stage.ports().into_iter().map(|port| Relay::start(port, round_trip));
        stage.relays = relays.collect::<std::io::Result<_>>()?;
        Ok(stage)
    }

    /// Servers that no client of this library has used.
    pub fn empty(nodes: usize) -> Result<Self> {
        let mut servers = (0..nodes).map(|_| Server::start()).collect::<std::io::Result<Vec<_>>>()?;
        let scripts = Scripts::load(&mut servers)?;
        Ok(Self { servers, scripts, relays: Vec::new() })
    }

    pub fn ports(&self) -> Vec<u16> {
        match self.relays.is_empty() {
            true => self.servers.iter().map(Server::port).collect(),
            false => self.relays.iter().map(Relay::port).collect(),
        }
    }

    /// Measures all contenders in turn, `rounds` times. Each round begins with another contender,
    /// so that no contender always follows the same contender.
    pub async fn compare(&mut self, kinds: &[Kind], rounds: usize, work: impl Fn(Kind) -> Work) -> Result<Vec<Turns>> {
        let ports = self.ports();
        let (mut locks, mut turns) = (Vec::new(), Vec::new());
        for &kind in kinds {
            locks.push(Arc::new(kind.connect(&ports, &self.scripts, PATIENCE).await?));
            turns.push(Turns { kind, rounds: Vec::new(), failed: None });
        }
        for round in 0..rounds {
            for place in 0..kinds.len() {
                let at = (place + round) % kinds.len();
                self.turn(&locks[at], work(kinds[at]), &mut turns[at]).await;
            }
        }
        for lock in locks.into_iter().filter_map(Arc::into_inner) {
            lock.close().await;
        }
        Ok(turns)
    }

    async fn turn(&mut self, lock: &Arc<Lock>, work: Work, turns: &mut Turns) {
        if turns.failed.is_some() {
            return;
        }
        match measured(lock, work, &mut self.servers).await {
            Ok(figures) => turns.rounds.push(figures),
            Err(error) => turns.failed = Some(error.to_string()),
        }
    }
}
