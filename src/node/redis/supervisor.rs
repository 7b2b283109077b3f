//! Makes a node's connections, one after another: connects, checks the server, and after that lets
//! callers use the connection.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::admission::{Greeting, Guest, Server, greet};
use super::batcher::Batcher;
use super::transport::Connection;
use super::wording::{PANICKED, TO_TLS};
use super::{Job, Link, Shared};
use crate::host::{before, sleep_until};
use crate::node::operation::Intent;
use crate::node::reply::Fault;
use crate::node::status::NodeState;
use crate::rules::Backoff;
use crate::rules::list::Record;

/// Pauses between attempts to connect.
const PAUSES: Backoff = Backoff { min: Duration::from_millis(50), max: Duration::from_secs(2) };
/// If connecting and the connection together lasted this long, the client connects again without a
/// pause.
const STEADY: Duration = Duration::from_secs(5);
/// If the server passed the checks and its connection lasted this long, the pauses begin at their
/// minimum again. A server at its limit of clients may end each connection soon after the checks,
/// so passed checks alone are not enough.
const USEFUL: Duration = Duration::from_millis(250);
/// Connecting may take at most this many command timeouts. Usually the limit of a single step ends
/// a slow attempt, and the error names this step. This total limit is for transports whose steps
/// have no limits.
const PATIENCE: u32 = 12;

/// Keeps the node connected until `closing` is cancelled.
pub(super) async fn run(shared: Arc<Shared>, closing: CancellationToken) {
    let mut failures = 0;
    while !closing.is_cancelled() {
        let began = shared.host.now();
        let (ended, answered) = unwound(generation(&shared, &closing)).await;
        lower(&shared, ended, closing.is_cancelled());
        let now = shared.host.now();
        let lasted = now.since(began);
        if lasted >= STEADY || (answered && lasted >= USEFUL) {
            failures = 0;
        }
        if lasted >= STEADY {
            continue;
        }
        let pause = PAUSES.pause(failures, Duration::ZERO, shared.host.random());
        let pause = pause.min(shared.state().renewals.longest_pause(now)).max(PAUSES.min / 2);
        failures = failures.saturating_add(1);
        let wake = now + pause;
        closing.run_until_cancelled(sleep_until(&shared.host, wake)).await;
    }
}

/// Turns a panic of a connection into the state `Down`. Otherwise the node would keep its last
/// state for ever.
async fn unwound(generation: impl Future<Output = (NodeState, bool)>) -> (NodeState, bool) {
    let panicked = |_| (NodeState::Down { why: PANICKED.to_owned() }, false);
    AssertUnwindSafe(generation).catch_unwind().await.unwrap_or_else(panicked)
}

/// One connection from beginning to end. Returns the node's state after the connection, and whether
/// the server passed the checks.
async fn generation(shared: &Arc<Shared>, closing: &CancellationToken) -> (NodeState, bool) {
    let batcher = match closing.run_until_cancelled(admitted(shared)).await {
        Some(Ok(batcher)) => batcher,
        Some(Err(refused)) => return (refused, false),
        None => return (NodeState::Down { why: "the quorum was closed".to_owned() }, false),
    };
    let why = batcher.run(closing).await;
    (NodeState::Down { why }, true)
}

/// Connects, checks the server, and lets callers use the connection.
async fn admitted(shared: &Arc<Shared>) -> Result<Batcher, NodeState> {
    let channel = format!("{}{}", shared.settings.channel, shared.settings.listener.client());
    let (mut connection, mut greeting) = met(shared, Some(&channel)).await?;
    if let Err(fault) = &greeting.hinting {
        shared.without_hints(&fault.to_string());
        drop(connection);
        (connection, greeting) = met(shared, None).await?;
    }
    admissible(shared, &greeting.server)?;
    let (batcher, queue) = Batcher::new(shared.clone(), connection, greeting.server.run_id.clone());
    publish(shared, greeting, queue);
    Ok(batcher)
}

async fn met(shared: &Shared, channel: Option<&str>) -> Result<(Box<dyn Connection>, Greeting), NodeState> {
    let Shared { host, settings, dialer, .. } = shared;
    let met = async {
        let connection = dialer.dial(settings.timeout).await?;
        let hello = shared.first_hello();
        let guest = Guest {
            name: &settings.client_name,
            record: &settings.record,
            channel,
            hello: &hello,
            timeout: settings.timeout,
        };
        let greeting = greet(&*connection, host, guest).await?;
        Ok((connection, greeting))
    };
    let limit = host.now() + settings.timeout.saturating_mul(PATIENCE);
    let late = || NodeState::Down { why: "no answer while connecting".to_owned() };
    before(host, limit, met).await.ok_or_else(late)?.map_err(|fault| down(shared, &fault))
}

fn admissible(shared: &Shared, server: &Server) -> Result<(), NodeState> {
    if !server.master {
        shared.state().guard.demoted();
        return Err(NodeState::Replica);
    }
    if server.cluster {
        return Err(NodeState::Cluster);
    }
    if let Err(of) = shared.registry.enter(shared.index, &server.run_id, &shared.label) {
        return Err(NodeState::Duplicate { of });
    }
    if let Some(policy) = &server.evicts {
        tracing::warn!(node = %shared.label, policy, "this node may evict locks; set maxmemory-policy to noeviction");
    }
    Ok(())
}

fn publish(shared: &Shared, greeting: Greeting, queue: mpsc::Sender<Job>) {
    let Greeting { server, asked, informed, greeted, record, time, hinting } = greeting;
    let now = shared.host.now();
    let mut state = shared.state();
    for (time, received) in [(server.time, informed), (time, greeted)] {
        time.into_iter().for_each(|time| _ = state.guard.observe(time, asked, received));
    }
    if shared.settings.greets != Intent::Put {
        state.guard.meets_process(&server.process);
    }
    state.unreadable = record.as_ref().err().map(ToString::to_string);
    let is_told = record.as_ref().is_ok_and(|record| state.heard(record.as_ref(), asked, greeted));
    let quarantined = state.guard.quarantined(now);
    let doubted = state.guard.take_news();
    let restarted = state.server.as_ref().is_some_and(|known| known.run_id != server.run_id);
    // The next hello gives the record of an earlier process a new id. The log must not report this
    // new id as a second loss.
    let is_of_another = |record: &Option<Record>| record.as_ref().is_some_and(|record| !record.is_of(&server.process));
    if (restarted || doubted) && record.as_ref().map_or(restarted, is_of_another) {
        state.tell_loss();
    }
    state.server = Some(server);
    state.hinting = hinting.unwrap_or(false);
    let lost = !matches!(&state.link, Link::Out(NodeState::Connecting));
    state.link = Link::Up(queue);
    state.warned = lost && quarantined.is_some();
    let told = state.memory(now);
    drop(state);
    // If the loss of the last connection was logged as a warning, log the new connection as a
    // warning too.
    match lost {
        true => tracing::warn!(node = %shared.label, "connected again: {told}"),
        false => tracing::info!(node = %shared.label, "{told}"),
    }
    shared.meters.quarantined(quarantined.is_some());
    if let Some((_, reason)) = quarantined.filter(|_| restarted || (doubted && !is_told)) {
        shared.meters.doubted(reason);
    }
    shared.registry.changed();
    if doubted {
        shared.settings.listener.doubted(shared.index);
    }
    shared.followed.send_modify(|followed| followed.generation += 1);
    shared.settings.listener.connected(shared.index);
}

/// The state of a node after a failed attempt to connect. If an earlier attempt succeeded, the port
/// does not expect TLS, so the advice about TLS is left out.
fn down(shared: &Shared, fault: &Fault) -> NodeState {
    let (why, known) = (fault.to_string(), shared.state().server.is_some());
    NodeState::Down { why: if known { without_tls(&why).to_owned() } else { why } }
}

fn without_tls(why: &str) -> &str {
    why.strip_suffix(TO_TLS).unwrap_or(why)
}

pub(super) fn lower(shared: &Shared, told: NodeState, expected: bool) {
    shared.registry.leave(shared.index);
    let mut state = shared.state();
    let news = !matches!(&state.link, Link::Out(known) if *known == told);
    let before = std::mem::replace(&mut state.link, Link::Out(told.clone()));
    drop(state);
    // Drop the queue outside of the lock. This drop fails jobs that were queued at the last moment,
    // and the callers of these jobs may take the lock to submit again.
    drop(before);
    // Log only the first of several equal failures, and none if the client itself has closed the
    // node.
    if news && !expected {
        tracing::warn!(node = %shared.label, "{told}");
    }
    shared.meters.down();
    shared.registry.changed();
    if news {
        shared.settings.listener.connected(shared.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_about_tls_is_all_that_is_left_out() {
        let reset = "Connection reset by peer";
        assert_eq!([without_tls(&format!("{reset}{TO_TLS}")), without_tls(reset)], [reset; 2]);
    }
}
