//! The nodes that a benchmark measures: the user's nodes, or new servers.

use std::time::Duration;

use quorumlock::{NodeState, Quorum};

use super::{SETTLE, unguarded};
use crate::cli::bench::Place;
use crate::demo::all_vote;
use crate::failure::{Failure, UNAVAILABLE};
use crate::latency;
use crate::output;
use crate::servers::Servers;
use crate::settings::Settings;

pub(super) struct Target {
    pub(super) settings: Settings,
    /// Servers that the benchmark started. They end when this value is dropped. `None` if the user
    /// gave nodes.
    _servers: Option<Servers>,
}

impl Target {
    /// The user's nodes, or new servers on loopback.
    pub(super) fn set(place: &Place) -> Result<Self, Failure> {
        Self::at(place, &[])
    }

    /// The user's nodes, or new servers with these round trips.
    pub(super) fn at(place: &Place, distances: &[Duration]) -> Result<Self, Failure> {
        if cfg!(debug_assertions) {
            output::note("this is a debug build, so its times mean nothing");
        }
        let settings = Settings::collect(&place.nodes)?;
        if !settings.nodes.is_empty() {
            return Ok(Self { settings, _servers: None });
        }
        let servers = Servers::start(usize::from(place.masters))?;
        let ports = latency::apart(&servers.ports(), distances)?;
        Ok(Self { settings: unguarded(&ports, settings.transport), _servers: Some(servers) })
    }

    /// Connects to the nodes. Fails if no quorum of nodes votes.
    pub(super) async fn connected(&self) -> Result<Quorum, Failure> {
        let quorum = self.settings.builder()?.connect().await?;
        all_vote(&quorum, SETTLE).await;
        let nodes = quorum.nodes();
        let votes = nodes.iter().filter(|node| node.state == NodeState::Up).count();
        if votes > nodes.len() / 2 {
            return Ok(quorum);
        }
        let said = output::explained_once(nodes.iter().map(|node| format!("{}: {}", node.node, node.state)));
        Err(Failure::new(UNAVAILABLE, format!("no quorum of nodes votes:\n  {}", said.join("\n  "))))
    }
}

/// A lock name that neither the user nor another benchmark on this host uses.
pub(super) fn name(of: impl std::fmt::Display) -> String {
    format!("quorumlock-bench/{}/{of}", std::process::id())
}
