//! Makes a node's generations one after the other: connect, check, and only then let callers see it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::admission::{self, Server};
use super::batcher::{Batcher, End};
use super::transport::Connection;
use super::{Job, Link, QUEUE, Shared};
use crate::host::{before, sleep_until};
use crate::node::reply::Fault;
use crate::node::status::NodeState;
use crate::quorum::{Backoff, Tick};

/// Pauses between attempts to connect.
const PAUSES: Backoff = Backoff { min: Duration::from_millis(50), max: Duration::from_secs(2) };

/// Keeps the node connected until `closing`.
pub(super) async fn run(shared: Arc<Shared>, closing: CancellationToken) {
    let mut failures = 0;
    while !closing.is_cancelled() {
        match closing.run_until_cancelled(generation(&shared)).await {
            None => break,
            Some(Ok(generation)) => {
                failures = 0;
                let End(why) = generation.run(&closing).await;
                lower(&shared, NodeState::Down { why }, closing.is_cancelled());
            }
            Some(Err(state)) => {
                lower(&shared, state, false);
                let pause = PAUSES.pause(failures, Duration::ZERO, shared.host.random()).max(PAUSES.min / 2);
                failures = failures.saturating_add(1);
                let wake = shared.host.now() + pause;
                closing.run_until_cancelled(sleep_until(&shared.host, wake)).await;
            }
        }
    }
}

/// Connects, checks the server, and lets callers see it.
async fn generation(shared: &Arc<Shared>) -> Result<Batcher, NodeState> {
    let limit = shared.host.now() + shared.settings.timeout.saturating_mul(2);
    let checked = before(&shared.host, limit, checked(shared)).await;
    let late = || NodeState::Down { why: "no answer while connecting".to_owned() };
    let Checked { connection, digest, server, asked, told } = checked.ok_or_else(late)??;
    let (sender, jobs) = mpsc::channel(QUEUE);
    let lineage = server.lineage.clone();
    publish(shared, server, asked, told, sender);
    Ok(Batcher::new(shared.clone(), connection, digest, lineage, jobs))
}

/// A connection to a server that may take part. It was asked what it is at `asked`, and told at `told`.
struct Checked {
    connection: Box<dyn Connection>,
    digest: String,
    server: Server,
    asked: Tick,
    told: Tick,
}

async fn checked(shared: &Arc<Shared>) -> Result<Checked, NodeState> {
    let connection = shared.dialer.dial(shared.settings.timeout).await.map_err(down)?;
    let server = admission::identify(&*connection).await.map_err(down)?;
    if !server.master {
        shared.state().guard.demoted();
        return Err(NodeState::Replica);
    }
    if let Err(of) = shared.registry.enter(shared.index, &server.run_id, &shared.label) {
        return Err(NodeState::Duplicate { of });
    }
    if let Some(policy) = &server.evicts {
        tracing::warn!(node = %shared.label, policy, "this node may evict locks; set maxmemory-policy to noeviction");
    }
    let digest = admission::load(&*connection, &server.lineage).await.map_err(down)?;
    let channel = format!("{}{}", shared.settings.channel, shared.settings.listener.client());
    match connection.subscribe(&channel).await {
        Ok(()) => shared.state().hinting = true,
        Err(fault) => shared.without_hints(&fault.to_string()),
    }
    if let Err(error) = admission::name(&*connection, &shared.settings.client_name).await {
        tracing::debug!(node = %shared.label, %error, "the connection could not be named");
    }
    // Asked again: whoever has the script now must be whom it was made for.
    let asked = shared.host.now();
    let same = admission::identify(&*connection).await.map_err(down)?;
    let told = shared.host.now();
    if same.lineage != server.lineage {
        return Err(NodeState::Down { why: "another server answers at this address".to_owned() });
    }
    Ok(Checked { connection, digest, server: same, asked, told })
}

fn publish(shared: &Shared, server: Server, asked: Tick, told: Tick, sender: mpsc::Sender<Job>) {
    let now = shared.host.now();
    let mut state = shared.state();
    state.guard.meet(&server.lineage, server.uptime, server.time, asked, told);
    let quarantined = state.guard.quarantined(now);
    let doubted = state.guard.take_news();
    state.server = Some(server);
    state.link = Link::Up(sender);
    let told = state.node_state(now);
    drop(state);
    tracing::info!(node = %shared.label, "{told}");
    shared.meters.up(true);
    shared.meters.quarantined(quarantined.is_some());
    shared.registry.changed();
    shared.tell_doubt(doubted);
    // Hints that were given while there was no connection are lost.
    shared.settings.listener.missed(shared.index);
}

fn down(fault: Fault) -> NodeState {
    NodeState::Down { why: fault.to_string() }
}

fn lower(shared: &Shared, told: NodeState, expected: bool) {
    let mut state = shared.state();
    let news = !matches!(&state.link, Link::Out(known) if *known == told);
    state.link = Link::Out(told.clone());
    drop(state);
    // A node that stays down is told once, and one that we left is no news.
    if news && !expected {
        tracing::warn!(node = %shared.label, "{told}");
    }
    shared.meters.up(false);
    shared.registry.changed();
}
