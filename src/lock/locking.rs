//! How a session acquires names.

use std::pin::{Pin, pin};
use std::sync::Arc;

use super::asking::Turn;
use super::session::Session;
use super::sessions::Core;
use crate::error::{Error, ErrorKind, Result};
use crate::host::before;
use crate::node::{Mode, Name};
use crate::protocol::{ClaimKind, Grant, Open, Patience};
use crate::words::listed;

impl Session {
    /// Acquires those of `names` that the session does not hold.
    pub(super) async fn acquire(&self, names: &Arc<[Name]>, patience: Patience) -> Result<()> {
        self.inner.usable()?;
        tokio::select! {
            biased;
            () = self.core.locks.ending().cancelled() => Err(self.ended()),
            acquired = self.acquire_in_turn(names, patience) => acquired,
        }
    }

    /// Waits until no other caller of the session is acquiring one of these names. Then acquires
    /// those that the session does not hold.
    async fn acquire_in_turn(&self, names: &Arc<[Name]>, patience: Patience) -> Result<()> {
        let Core { asking, locks, .. } = &*self.core;
        loop {
            // Subscribe before the check. Otherwise this caller could miss the end of another
            // acquisition.
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
        let (rules, who) = (&self.core.rules, ClaimKind::Next(Mode::Exclusive));
        let all = Ok(self.inner.claimant(names, rules, who));
        let acquired = self.inner.acquire(all, rules, patience, |grant, open| self.hold(grant, open));
        match self.warned(names, patience, pin!(acquired)).await {
            Err(error) if error.is_contended() || error.is_timeout() => {
                Err(self.inner.explained(names, error, self.core.rules.round_timeout).await)
            }
            acquired => acquired,
        }
    }

    /// Logs a warning if the session has waited for a round timeout, and holds a name that sorts
    /// after the first of `names`. Another session may hold one of `names` and wait for that later
    /// name. In this case, both sessions would wait until a timeout.
    async fn warned(
        &self,
        names: &[Name],
        patience: Patience,
        mut acquired: Pin<&mut impl Future<Output = Result<()>>>,
    ) -> Result<()> {
        let above = self.core.locks.last().filter(|last| names.first() < Some(last));
        if let (Patience::Until(_), Some(above)) = (patience, above) {
            let (host, rules) = (&self.inner.host, &self.core.rules);
            if let Some(acquired) = before(host, host.now() + rules.round_timeout, acquired.as_mut()).await {
                return acquired;
            }
            tracing::warn!(
                names = listed(names),
                "a session that holds {above:?} waits for names that sort before it, so two sessions may wait for each \
                 other until a timeout; take all names in one call, or in sorted order"
            );
        }
        acquired.await
    }

    fn hold(&self, grant: Grant, open: Open) -> Result<()> {
        self.core.locks.add(grant)?;
        self.inner.unless_shut((), open, |()| self.core.locks.close())
    }

    fn ended(&self) -> Error {
        if self.inner.shut.is_cancelled() { self.inner.closed() } else { self.core.locks.lost_error() }
    }
}

fn outwaited(names: &[Name], kind: ErrorKind) -> Error {
    Error::new(kind, format!("another caller of this session is acquiring {}", listed(names)))
}
