//! Receives *news*: messages about changes of the names that this client observes.
//!
//! News has a connection of its own, which exists while the client observes any name: after a
//! refused SUBSCRIBE, fred assigns replies to the wrong commands, and votes are replies too.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::admission::in_time;
use super::transport::{Connection, Event};
use crate::host::sleep_until;
use crate::node::hint;
use crate::node::operation::Name;
use crate::node::reply::{Fault, FaultKind};
use crate::rules::Backoff;

/// The pauses after a connection for news has failed.
const PAUSES: Backoff = Backoff { min: Duration::from_millis(200), max: Duration::from_secs(60) };
/// How many messages are read in a row before other tasks get their turn.
const IN_A_ROW: u32 = 64;

type Names = BTreeSet<Name>;

/// The names that this client observes, and the number of the connection that carries votes.
#[derive(Clone, Debug, Default)]
pub(super) struct Followed {
    pub(super) names: Names,
    /// The number of connections for votes so far. After a new one, do not trust the connection for
    /// news, which is never probed: it may have died together with the last connection for votes.
    pub(super) generation: u64,
}

/// Listens to news of all observed names, until `closing` is cancelled.
pub(super) async fn run(shared: Arc<Shared>, closing: CancellationToken) {
    closing.run_until_cancelled(keep_listening(&shared)).await;
}

async fn keep_listening(shared: &Shared) {
    let (mut followed, mut failures) = (shared.followed.subscribe(), 0_u32);
    while followed.wait_for(|followed| followed.generation > 0 && !followed.names.is_empty()).await.is_ok() {
        let (generation, mut heard) = (followed.borrow().generation, Names::new());
        let listened = listen(shared, &mut followed, &mut heard).await;
        failures = if heard.is_empty() { failures.saturating_add(1) } else { 0 };
        if let Err(fault) = listened {
            warn(shared, &fault);
            let pause = PAUSES.pause(failures, Duration::ZERO, shared.host.random()).max(PAUSES.min / 2);
            tokio::select! {
                biased;
                _ = followed.wait_for(|followed| followed.generation != generation) => {}
                () = sleep_until(&shared.host, shared.host.now() + pause) => {}
            }
        }
    }
}

/// Listens on one connection, and puts the subscribed names into `heard`. Returns when no name is
/// observed, when there is a new connection for votes, or after an error.
async fn listen(shared: &Shared, followed: &mut watch::Receiver<Followed>, heard: &mut Names) -> Result<(), Fault> {
    let generation = followed.borrow().generation;
    let mut connection = shared.dialer.dial(shared.settings.timeout).await?;
    loop {
        let wanted = followed.borrow_and_update().clone();
        if wanted.names.is_empty() || wanted.generation != generation {
            return Ok(());
        }
        follow(shared, &*connection, wanted.names, heard).await?;
        tokio::select! {
            biased;
            // `changed` cannot fail, because its sender lives as long as `shared`.
            _ = followed.changed() => {}
            fault = happens(shared, &mut *connection, heard) => return Err(fault),
        }
    }
}

/// Subscribes and unsubscribes until `heard` equals `wanted`.
async fn follow(shared: &Shared, connection: &dyn Connection, wanted: Names, heard: &mut Names) -> Result<(), Fault> {
    let channels = |names: &Names| names.iter().map(|name| hint::news(name.key())).collect::<Vec<_>>();
    let (new, old): (Names, Names) = (&wanted - heard, &*heard - &wanted);
    let until = || shared.host.now() + shared.settings.timeout;
    if !old.is_empty() {
        in_time(&shared.host, until(), connection.unsubscribe(&channels(&old))).await?;
    }
    if !new.is_empty() {
        in_time(&shared.host, until(), connection.subscribe(&channels(&new))).await?;
    }
    *heard = wanted;
    // Report each new name once, because news may have been published before the subscription.
    new.iter().for_each(|name| shared.settings.listener.news(shared.index, name));
    Ok(())
}

/// Passes news on to the listener, until the connection ends.
async fn happens(shared: &Shared, connection: &mut dyn Connection, heard: &Names) -> Fault {
    let mut taken = 0;
    loop {
        match poll_fn(|context| connection.poll_event(context)).await {
            Event::Ended(why) => return Fault::new(FaultKind::Closed, why),
            Event::Missed => heard.iter().for_each(|name| shared.settings.listener.news(shared.index, name)),
            Event::Message(key) => {
                let name = Name::of_key(&key).filter(|name| heard.contains(name));
                name.iter().for_each(|name| shared.settings.listener.news(shared.index, name));
            }
        }
        taken += 1;
        if taken % IN_A_ROW == 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// Warns if the server refuses a subscription, but only once for each node.
fn warn(shared: &Shared, fault: &Fault) {
    let refused = fault.kind() == FaultKind::Rejected;
    if refused && !std::mem::replace(&mut shared.state().newsless, true) {
        tracing::warn!(node = %shared.label, why = %fault, "no news of names from this node: observers see changes later");
    }
}
