//! `quorumlock serve`: an agent that holds locks for local programs, over HTTP on a Unix socket.
//!
//! A connection (connection.rs) reads requests (http.rs), which acquire locks (locks.rs) and put
//! them into the table (table.rs). The rules of the table are pure, and so are those of one lock
//! (terms.rs). The contract with clients is docs/agent.md.
//!
//! **A lock is released only if its client has let go of it, or if the client was told an earlier
//! deadline.** Else a second client could work at the same time. So the agent does not release locks
//! when it closes a connection by itself, or when it ends.

mod agent;
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

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

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
use table::Limits;

/// How long to wait for clients after the agent has told them that it stops.
const FAREWELL: Duration = Duration::from_secs(1);

pub(crate) async fn serve(args: Serve) -> Outcome {
    let mut signals = Signals::ending()?;
    let settings = Settings::with_nodes(&args.nodes)?;
    let ttl = times::ttl(args.ttl, &settings)?;
    allow_many_files();
    let listeners = Listeners::open(&args)?;
    let metrics = exporter::start_rendered(args.metrics.as_deref())?;
    let quorum = settings.builder()?.ttl(ttl).open()?;
    let limits = Limits { clients: args.max_clients, locks: args.max_locks, client_locks: args.max_client_locks };
    let agent = Arc::new(Agent::new(quorum, settings, metrics, limits));
    output::note(&format!("listening on {}", listeners.shown.join(" and ")));
    let accepting = futures::future::join_all(listeners.all.iter().map(|listener| accept(listener, &agent)));
    tokio::select! {
        biased;
        () = end(&agent, &mut signals, args.grace) => {}
        _ = accepting => {}
        () = agent.end_lapsed() => {}
    }
    listeners.close();
    leave(&agent).await;
    Ok(ExitCode::SUCCESS)
}

/// Serves each connection in a task of its own, so that a panic ends only this connection.
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
        () = agent.until(|sizes| sizes.locks == 0) => {}
        () = sleep(grace) => {}
        _ = signals.next() => {}
    }
    agent.table().stop();
    agent.stopped.cancel();
    let _ = timeout(FAREWELL, agent.until(|sizes| sizes.locks == 0 && sizes.clients == 0)).await;
}

/// Ends the quorum. Locks whose clients did not let go are not released: they end by their ttl.
async fn leave(agent: &Agent) {
    let left = agent.table().drain();
    if left.is_empty() {
        agent.quorum.shutdown(FAREWELL).await;
        return;
    }
    let what = counted(left.len(), "lock");
    output::note(&format!("the clients of {what} have not let go; nodes hold {what} until the ttl ends"));
    // A drop would release them, and so would a shutdown of the quorum.
    left.into_iter().for_each(std::mem::forget);
}

/// Each connection needs a file descriptor. The usual limit is 1,024, and may be raised.
fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
