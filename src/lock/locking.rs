//! How a session acquires names, and what it says where others have them.

use std::error::Error as StdError;
use std::sync::Arc;

use super::acquiring::Wanted;
use super::asking::Turn;
use super::session::Session;
use super::sessions::Core;
use crate::error::{Conflict, Error, ErrorKind, Result};
use crate::host::before;
use crate::node::{Mode, Name};
use crate::protocol::{Grant, Open, Patience, Who, holders};
use crate::words::{left, listed};

impl Session {
    /// Acquires those of `names` that it does not hold.
    pub(super) async fn acquire(&self, names: &Arc<[Name]>, patience: Patience) -> Result<()> {
        self.inner.usable()?;
        tokio::select! {
            biased;
            () = self.core.locks.ending().cancelled() => Err(self.ended()),
            acquired = self.acquire_in_turn(names, patience) => acquired,
        }
    }

    /// Waits until no other caller of the session asks for one of these names.
    async fn acquire_in_turn(&self, names: &Arc<[Name]>, patience: Patience) -> Result<()> {
        let Core { asking, locks, .. } = &*self.core;
        loop {
            // Before it is looked: from here on it is notified.
            let changed = asking.changed();
            let others = match asking.begin(locks, names)? {
                Turn::Held => return Ok(()),
                Turn::Ask(asked) => return self.ask(&asked.names, patience).await,
                Turn::Wait(others) => others,
            };
            let Patience::Until(end) = patience else { return Err(outwaited(&others, ErrorKind::Contended)) };
            if before(&self.inner.host, end, changed).await.is_none() {
                return Err(outwaited(&others, ErrorKind::Timeout));
            }
        }
    }

    async fn ask(&self, names: &Arc<[Name]>, patience: Patience) -> Result<()> {
        let who = Who::Next(Mode::Exclusive);
        let wanted = Wanted { names: Ok(names), rules: &self.core.rules, who, may_have_note: false };
        let acquired = self.inner.acquire(wanted, patience, |grant, open| self.hold(grant, open));
        match acquired.await {
            Err(error) if error.is_contended() || error.is_timeout() => Err(self.explained(names, error).await),
            acquired => acquired,
        }
    }

    /// Holds what was won. What was won while the quorum shut down may have come too late to be lost
    /// with the others: the shutdown waits until its release was sent.
    fn hold(&self, grant: Grant, open: Open) -> Result<()> {
        self.core.locks.add(grant)?;
        if self.inner.shut.is_cancelled() {
            self.core.locks.close();
            drop(open);
            return Err(Error::closed());
        }
        Ok(())
    }

    /// The same error with what is held, and by whom.
    async fn explained(&self, names: &Arc<[Name]>, error: Error) -> Error {
        let voters = &self.inner.leases.voters;
        let conflicts = holders(voters, names, self.core.rules.round_timeout).await;
        if conflicts.is_empty() {
            return error;
        }
        let error = with_more(error, &told(&conflicts));
        let given = conflicts.into_iter().filter_map(|conflict| self.as_given(conflict));
        error.with_conflicts(given.collect())
    }

    /// The same with the name as callers give it.
    fn as_given(&self, conflict: Conflict) -> Option<Conflict> {
        Some(Conflict { name: self.inner.settings.told(&conflict.name)?, ..conflict })
    }

    fn ended(&self) -> Error {
        if self.inner.shut.is_cancelled() { Error::closed() } else { self.core.locks.lost_error() }
    }
}

/// Another caller of the session was first.
fn outwaited(names: &[Name], kind: ErrorKind) -> Error {
    Error::new(kind, format!("another caller of this session is acquiring {}", listed(names)))
}

/// The same error, of which the message says more.
fn with_more(error: Error, more: &str) -> Error {
    let (kind, nodes, holder) = (error.kind(), error.nodes().to_vec(), error.holder().map(Arc::from));
    // Nodes are told behind the message, and once.
    let message = format!("{}; {more}", error.clone().with_nodes(Vec::new()));
    // What is below it is found by it.
    let below = error.source().is_some().then(|| Arc::new(error) as Arc<dyn StdError + Send + Sync>);
    Error::new(kind, message).with_nodes(nodes).with_holder(holder).with_source(below)
}

/// How many conflicts a message names.
const TOLD: usize = 3;

fn told(conflicts: &[Conflict]) -> String {
    let one = |conflict: &Conflict| {
        let Conflict { name, holder, left: lasts, .. } = conflict;
        let lasts = lasts.map_or_else(String::new, |lasts| format!(" for {} still", left(lasts)));
        format!("{name:?} is held by {holder}{lasts}")
    };
    let first = conflicts.iter().take(TOLD).map(one).collect::<Vec<_>>().join(", ");
    match conflicts.len().saturating_sub(TOLD) {
        0 => first,
        more => format!("{first}, and {more} more are held"),
    }
}
