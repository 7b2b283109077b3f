//! How permits are acquired: with the gate in one claim where nobody is in the way, else behind the
//! gate, one acquisition at a time.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};

use super::acquiring::Wanted;
use super::inner::Inner;
use super::permits::Holding;
use super::pool::Pool;
use crate::config::Rules;
use crate::error::{Error, ErrorKind, Result};
use crate::host::sleep_until;
use crate::lease::{LockGuard, Locks};
use crate::node::{Name, Seat};
use crate::protocol::{Grant, Occupied, Open, Patience, Who, occupied};
use crate::rules::Tick;

/// In the queues of how many permits the gate's holder stands at most. Where there are more, it
/// looks every [`GLANCE`] which of the others are free.
const WATCHED: usize = 16;
const GLANCE: Duration = Duration::from_millis(500);

/// Why permits are of no use that were granted.
pub(super) const TOO_LATE: &str = "their validity ended before this process took note of the grant";

/// One acquisition of permits.
pub(super) struct Taking<'a> {
    pub(super) inner: &'a Arc<Inner>,
    pub(super) pool: &'a Pool,
    pub(super) rules: &'a Arc<Rules>,
    /// Of the gate, which is held for as long as its holder waits.
    pub(super) gate_rules: &'a Arc<Rules>,
    /// How many are wanted.
    pub(super) many: usize,
}

impl Taking<'_> {
    /// Takes what is free; waits for nobody. `None` where too few are, or somebody is before it.
    pub(super) async fn at_once(&self) -> Result<Option<Holding>> {
        let first = self.first();
        if let Some(holding) = uncontended(self.together(&first).await)? {
            return Ok(Some(holding));
        }
        let Some((gate, free)) = self.look().await else { return Ok(None) };
        // Where a caller of this process holds it as a lock, no node was asked before.
        if gate.locked {
            return Err(Error::config(Who::Seated(self.gate()).misuse(&self.pool.gate, 0)));
        }
        if gate.held.is_some() || gate.wanted || free.len() < self.many {
            return Ok(None);
        }
        uncontended(self.together(&free[..self.many]).await)
    }

    /// Takes what is free, or waits behind those that came before.
    pub(super) async fn until(&self, end: Tick) -> Result<Holding> {
        if self.inner.host.now() >= end {
            return self.at_once().await?.ok_or_else(few);
        }
        if let Some(holding) = passing(self.together(&self.first()).await)? {
            return Ok(holding);
        }
        loop {
            let taken = self.in_turn(end).await.and_then(|holding| self.lasting(holding));
            match taken {
                // Others may have come before it: it begins anew.
                Err(error) if error.is_lost() && self.inner.host.now() < end => {}
                Err(error) if error.is_lost() => return Err(few()),
                taken => return taken,
            }
        }
    }

    /// What came first may be over by the time that all are there, or as good as over.
    fn lasting(&self, holding: Holding) -> Result<Holding> {
        let (left, least) = (holding.locks.remaining(), self.rules.min_validity);
        if left.is_zero() || left < least { Err(holding.locks.lost_error()) } else { Ok(holding) }
    }

    /// The permits to ask for before anybody has said which are free.
    fn first(&self) -> Vec<usize> {
        let mut first = self.pool.preferred(self.inner, 0..self.pool.permits.len());
        first.truncate(self.many);
        first
    }

    /// One claim of the gate and these permits, in one round trip. The gate is given up as soon as
    /// they are held, and nothing waits for that.
    async fn together(&self, numbers: &[usize]) -> Result<Holding> {
        let names = self.pool.names(true, numbers);
        let (grant, open) = self.granted(&names, self.rules, self.gate(), Patience::Once).await?;
        let holding = self.begin();
        self.add(&holding, grant, open)?;
        holding.locks.free(std::slice::from_ref(&self.pool.gate)).map_err(too_late)?;
        Ok(holding)
    }

    /// Waits at the gate, in its queue, and then for the permits. What is granted is given back
    /// where the gate is lost meanwhile: whoever has it then may wait for the same permits.
    async fn in_turn(&self, end: Tick) -> Result<Holding> {
        let gate = [self.pool.gate.clone()].into();
        let (grant, open) = self.granted(&gate, self.gate_rules, self.gate(), Patience::Until(end)).await?;
        let gate = self.hold_gate(grant, open)?;
        tokio::select! {
            biased;
            _ = gate.lost() => Err(gate.lost_error()),
            taken = self.behind_gate(end) => taken,
        }
    }

    /// A shutdown that did not see it waits until its release was sent.
    fn hold_gate(&self, grant: Grant, open: Open) -> Result<LockGuard> {
        let gate = LockGuard::new(&self.inner.leases, self.gate_rules, grant, None);
        if self.inner.shut.is_cancelled() {
            drop(gate);
            drop(open);
            return Err(Error::closed());
        }
        Ok(gate)
    }

    /// Takes permits as the only one that waits for any.
    async fn behind_gate(&self, end: Tick) -> Result<Holding> {
        let holding = self.begin();
        self.try_more(&holding, &self.first()).await?;
        if self.goes_on(&holding, end)?
            && let Some((_, free)) = self.look().await
        {
            self.try_more(&holding, &free).await?;
        }
        if self.goes_on(&holding, end)? {
            self.wait_for_more(&holding, end).await?;
        }
        Ok(holding)
    }

    /// Whether some are missing still, and there is time for more.
    fn goes_on(&self, holding: &Holding, end: Tick) -> Result<bool> {
        match self.missing(holding) {
            0 => Ok(false),
            _ if self.inner.host.now() < end => Ok(true),
            _ => Err(few()),
        }
    }

    /// Takes as many of these as are missing, if all those are free.
    async fn try_more(&self, holding: &Holding, free: &[usize]) -> Result<()> {
        let wanted = &free[..free.len().min(self.missing(holding))];
        if wanted.is_empty() {
            return Ok(());
        }
        let names = self.pool.names(false, wanted);
        match passing(self.granted(&names, self.rules, self.permit(), Patience::Once).await)? {
            Some((grant, open)) => self.add(holding, grant, open),
            None => Ok(()),
        }
    }

    /// Stands in the queues of permits until enough of them are held.
    async fn wait_for_more(&self, holding: &Holding, end: Tick) -> Result<()> {
        let mut open = self.others(holding);
        let unwatched = open.split_off(open.len().min(WATCHED));
        let mut waits: FuturesUnordered<_> = open.into_iter().map(|number| self.wait_for(number, end)).collect();
        let mut failed = None;
        while self.missing(holding) > 0 {
            let won = tokio::select! {
                biased;
                () = holding.locks.ending().cancelled() => return Err(holding.locks.lost_error()),
                won = waits.next() => won,
                won = self.glance(&unwatched, self.missing(holding)) => Some(Ok(won)),
            };
            match won {
                Some(Ok((grant, open))) => self.add(holding, grant, open)?,
                Some(Err(error)) if error.is_closed() || error.is_config() => return Err(error),
                Some(Err(error)) => failed = Some(error),
                None => return Err(failed.unwrap_or_else(few)),
            }
        }
        Ok(())
    }

    async fn wait_for(&self, number: usize, end: Tick) -> Result<(Grant, Open)> {
        let name = [self.pool.permits[number].clone()].into();
        self.granted(&name, self.rules, self.permit(), Patience::Until(end)).await
    }

    /// Looks now and then whether some of these are free, and takes as many as it can.
    async fn glance(&self, numbers: &[usize], missing: usize) -> (Grant, Open) {
        if numbers.is_empty() {
            return std::future::pending().await;
        }
        loop {
            sleep_until(&self.inner.host, self.inner.host.now() + GLANCE).await;
            let Some((_, mut free)) = self.look().await else { continue };
            free.retain(|number| numbers.contains(number));
            free.truncate(missing);
            if free.is_empty() {
                continue;
            }
            let names = self.pool.names(false, &free);
            if let Ok(won) = self.granted(&names, self.rules, self.permit(), Patience::Once).await {
                return won;
            }
        }
    }

    /// Asks the nodes how the gate is, and which permits are free, those first that are likely to
    /// be got.
    async fn look(&self) -> Option<(Occupied, Vec<usize>)> {
        let all = [&self.pool.gate].into_iter().chain(&self.pool.permits).cloned().collect();
        let said = occupied(&self.inner.leases.voters, &all, self.rules.round_timeout).await?;
        let (gate, permits) = said.split_first()?;
        let free = self.pool.seen(self.inner.host.now(), permits.iter().copied().enumerate());
        Some((*gate, self.pool.preferred(self.inner, free)))
    }

    /// The permits that are not held, those first that are likely to be free soon.
    fn others(&self, holding: &Holding) -> Vec<usize> {
        let missing = |&number: &usize| holding.locks.token(&self.pool.permits[number]).is_none();
        self.pool.preferred(self.inner, (0..self.pool.permits.len()).filter(missing))
    }

    fn begin(&self) -> Holding {
        Holding { locks: Locks::begin("set of permits", &self.inner.leases, self.rules) }
    }

    /// Holds what was won. A shutdown that did not see it waits until its release was sent.
    fn add(&self, holding: &Holding, grant: Grant, open: Open) -> Result<()> {
        let added = holding.locks.add(grant);
        if self.inner.shut.is_cancelled() {
            holding.locks.close();
            drop(open);
            return Err(Error::closed());
        }
        added
    }

    fn missing(&self, holding: &Holding) -> usize {
        self.many.saturating_sub(holding.locks.len())
    }

    /// What is told of a claim of the gate.
    const fn gate(&self) -> Seat {
        Seat::Gate(self.pool.count)
    }

    /// What is told of a claim of permits alone.
    const fn permit(&self) -> Seat {
        self.gate().without_gate()
    }

    async fn granted(
        &self,
        names: &Arc<[Name]>,
        rules: &Arc<Rules>,
        seat: Seat,
        patience: Patience,
    ) -> Result<(Grant, Open)> {
        let wanted = Wanted { names: Ok(names), rules, who: Who::Seated(seat), may_have_note: false };
        pin!(self.inner.try_until(wanted, patience)).await
    }
}

/// What came of a try; `None` where others were in the way.
fn uncontended<T>(tried: Result<T>) -> Result<Option<T>> {
    match tried {
        Err(error) if error.is_contended() => Ok(None),
        tried => tried.map(Some),
    }
}

/// The same where whatever may pass is waited for.
fn passing<T>(tried: Result<T>) -> Result<Option<T>> {
    match tried {
        Err(error) if error.is_unavailable() => Ok(None),
        tried => uncontended(tried),
    }
}

/// What was granted was over before anybody had it: nothing was lost that was begun under it.
fn too_late(error: Error) -> Error {
    match error.is_lost() {
        true => Error::new(ErrorKind::Unavailable, TOO_LATE).with_nodes(error.nodes().to_vec()),
        false => error,
    }
}

fn few() -> Error {
    Error::new(ErrorKind::Timeout, "too few of them are free, or others are before this caller")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_that_were_over_before_anybody_had_them_were_not_lost() {
        let of = |kind| too_late(Error::new(kind, "why"));
        assert!(of(ErrorKind::Lost).is_unavailable() && of(ErrorKind::Lost).to_string().contains(TOO_LATE));
        assert!(of(ErrorKind::Closed).is_closed() && of(ErrorKind::Config).is_config());
    }
}
