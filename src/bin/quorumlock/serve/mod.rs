//! `quorumlock serve`: an agent that holds locks for local programs, over HTTP on a Unix socket.
//!
//! A connection (connection.rs) reads requests (http.rs), which acquire locks (locks.rs) and put
//! them into the table (table.rs). The rules of the table are pure, and so are those of one lock
//! (terms.rs). The contract with clients is docs/agent.md.
//!
//! **A lock is released only if its client has let go of it, or after the last deadline in an
//! answer to its client.** Otherwise two clients could work at the same time. So the agent does not
//! release locks when it closes a connection by itself, or when it ends.

mod agent;
mod browsers;
mod busy;
mod connection;
mod elections;
mod errors;
mod http;
mod listener;
mod locks;
mod requests;
mod stream;
mod table;
mod terms;

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::time::{sleep, timeout};

use crate::cli::Serve;
use crate::exporter;
use crate::failure::Outcome;
use crate::output;
use crate::process::Signals;
use crate::settings::Settings;
use crate::times;
use crate::words::counted;
use agent::Agent;
use listener::{Listener, Listeners};
use table::{Limits, Sizes, three_quarters};

/// How long to wait for clients after the agent has told them that it stops.
const FAREWELL: Duration = Duration::from_secs(1);
/// How long to wait for the last writes to the nodes: a release of a lost lock returns before its
/// writes.
const LAST_WRITES: Duration = Duration::from_millis(100);
/// How many file descriptors are kept for other uses: nodes, sockets, refusals and logs.
const OTHER_FILES: u64 = 256;

pub(crate) async fn serve(args: Serve) -> Outcome {
    let mut signals = Signals::ending()?;
    let settings = Settings::with_nodes(&args.nodes)?;
    let ttl = times::ttl(args.ttl, &settings)?;
    let clients = clients_for_files(args.max_clients);
    let user_clients = if clients < args.max_clients { three_quarters(clients) } else { clients };
    let listeners = Listeners::open(&args).await?;
    let metrics = exporter::start_rendered(args.metrics.as_deref())?;
    let quorum = settings.builder()?.ttl(ttl).open()?;
    let limits = Limits {
        clients,
        user_clients: args.max_user_clients.min(user_clients),
        locks: args.max_locks,
        user_locks: args.max_user_locks,
        client_locks: args.max_client_locks,
        streams: args.max_streams,
    };
    let agent = Arc::new(Agent::new(quorum, settings, metrics, ttl, limits));
    output::note(&format!("listening on {}", listeners.shown.join(" and ")));
    let accepting = futures::future::join_all(listeners.all.iter().map(|listener| accept(listener, &agent)));
    let serving = AssertUnwindSafe(async {
        tokio::select! {
            biased;
            () = end(&agent, &mut signals, args.grace) => {}
            // Connections that come in quick succession must not delay the ends of locks.
            () = agent.end_lapsed() => {}
            _ = accepting => {}
        }
    });
    // Even after a panic, do not release locks whose clients may still work.
    let served = serving.catch_unwind().await;
    listeners.close();
    leave(&agent).await;
    Ok(if served.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn accept(listener: &Listener, agent: &Arc<Agent>) {
    loop {
        let socket = listener.accept().await;
        tokio::spawn(connection::serve(agent.clone(), socket));
    }
}

/// Waits for a signal. Then waits until the clients have let go of their locks, for `grace` at most
/// or until another signal comes. Then tells all clients that they must end.
async fn end(agent: &Agent, signals: &mut Signals, grace: Duration) {
    signals.next().await;
    agent.stopping.cancel();
    let locks = agent.sizes().locks;
    if locks > 0 {
        let what = counted(locks, "lock");
        output::note(&format!(
            "stopping; waiting for the clients of {what}, for {} at most",
            crate::duration::exact(grace)
        ));
    }
    tokio::select! {
        () = agent.until(|agent| agent.sizes().locks == 0) => {}
        () = sleep(grace) => {}
        _ = signals.next() => {}
    }
    agent.stop();
    let have_left = agent.until(|agent| agent.sizes() == Sizes { clients: 0, locks: 0 });
    let _ = timeout(FAREWELL, have_left).await;
}

/// Ends the quorum. Locks whose clients did not let go are not released: they end by their ttl.
async fn leave(agent: &Agent) {
    // After a panic, `end` has not stopped the agent. A drained table must get no new locks.
    agent.stop();
    let left = agent.table().drain();
    // Wait for the releases that are under way: they would end with the process.
    let _ = timeout(FAREWELL, agent.released()).await;
    if left.is_empty() {
        agent.quorum.shutdown(FAREWELL).await;
        return;
    }
    let what = counted(left.len(), "lock");
    output::note(&format!("the clients of {what} have not let go; nodes hold {what} until the ttl ends"));
    sleep(LAST_WRITES).await;
    // Forget the locks: a drop would release them, and so would a shutdown of the quorum.
    left.into_iter().for_each(std::mem::forget);
}

/// Raises the limit of file descriptors, which usually is 1,024. Each connection needs a
/// descriptor. Returns how many connections are possible, up to `wanted`.
fn clients_for_files(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let Some(files) = getrlimit(Resource::Nofile).current else { return wanted };
    let fit = usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX).max(1);
    if fit < wanted {
        output::note(&format!("--max-clients is {fit}, since this process may open {files} files (ulimit -n)"));
    }
    fit.min(wanted)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use serde_json::json;
    use uuid::Uuid;

    use super::errors::Refusal;
    use super::locks::Call;
    use super::terms::Peer;
    use super::*;

    /// As after a panic, nothing has stopped the agent before `leave`.
    #[tokio::test]
    async fn agent_that_leaves_grants_no_lock_and_releases_none() {
        let agent = Agent::of_memory();
        let client = agent.enter(Peer::default(), None).unwrap();
        let call = Call { client: &client, arrival: Instant::now(), stays_open: true };
        let wanted = |name| serde_json::from_value(json!({ "names": [name] })).unwrap();
        let lock = call.lock(wanted("a")).await.unwrap();
        leave(&agent).await;
        assert_eq!(call.lock(wanted("b")).await, Err(Refusal::stopping()));
        let id = Uuid::parse_str(lock["id"].as_str().unwrap()).unwrap();
        let refusal = call.release(id, false).await.unwrap_err();
        assert_eq!(refusal.body["reason"], json!("stopping"), "the nodes still hold it");
        assert!(agent.quorum.lock("a").try_acquire().await.unwrap().is_none());
    }
}
