//! Acquires permits of a semaphore. If enough permits are free, and the gate (a lock on the
//! semaphore's own name) is free and not awaited, one claim takes the permits. Otherwise callers
//! wait for the gate, and only the holder of the gate waits for permits.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};

use super::inner::Inner;
use super::permit_names::Pool;
use super::permits::Holding;
use crate::config::Rules;
use crate::error::{Error, ErrorKind, Result};
use crate::host::{before, sleep_until};
use crate::lease::{LockGuard, Locks};
use crate::node::{Mode, Name};
use crate::protocol::{ClaimKind, Claimant, Grant, Occupied, Open, Patience, SPLIT, occupied};
use crate::rules::Tick;

/// The most permits in whose queues the gate's holder waits at once. If the semaphore has more
/// permits, the holder checks every [`GLANCE`] whether one of the other permits is free.
const WATCHED: usize = 16;
const GLANCE: Duration = Duration::from_millis(500);

pub(super) const TOO_LATE: &str = "their validity ended before this process could use the grant";

/// One acquisition of permits.
pub(super) struct Taking<'a> {
    pub(super) inner: &'a Arc<Inner>,
    pub(super) pool: &'a Pool,
    pub(super) rules: &'a Arc<Rules>,
    pub(super) many: usize,
    pub(super) began: Tick,
    /// The acquisition's arrival in all queues. Not set before the acquisition waits.
    pub(super) arrival: OnceLock<u64>,
}

impl Taking<'_> {
    /// Takes free permits, and waits for no holder. Returns `None` if too few permits are left
    /// beside those for which a quorum names a holder, or if the same holder keeps the gate for a
    /// round timeout.
    pub(super) async fn at_once(&self) -> Result<Option<Holding>> {
        let host = &self.inner.host;
        let tried = before(host, host.now() + self.rules.longest_try(), self.tries()).await;
        tried.unwrap_or_else(|| Err(Error::new(ErrorKind::Unavailable, SPLIT)))
    }

    /// Sends claims until one is granted. Returns `None` in the cases of `at_once`.
    async fn tries(&self) -> Result<Option<Holding>> {
        let host = &self.inner.host;
        let (mut numbers, mut at_gate, mut tries) = (self.first(), None, 0);
        loop {
            if let Some(holding) = uncontended(self.together(&numbers).await)? {
                return Ok(Some(holding));
            }
            let Seen { gate, held, free } = self.seen().await;
            // If this process itself holds the gate's name as a lock, no claim was sent, so no node
            // could reply `misused`. Return the same error here.
            if gate.locked {
                return Err(Error::config(ClaimKind::Gate.misuse(&self.pool.gate)));
            }
            at_gate = since(gate.holder.clone(), at_gate, host.now());
            // If the gate's holder finds enough free permits, it releases the gate within a few
            // round trips. A holder that keeps the gate for longer waits for permits.
            let waits = at_gate.as_ref().is_some_and(|(_, since)| host.now().since(*since) >= self.rules.round_timeout);
            if waits || self.leaves_too_few(held) {
                return Ok(None);
            }
            let open = free.len() >= self.many && gate.held.is_none() && !gate.wanted;
            numbers = if free.len() < self.many { self.first() } else { free[..self.many].to_vec() };
            if tries > 0 || !open {
                let pause = self.rules.backoff.pause(tries, self.inner.leases.voters.round_trip(), host.random());
                sleep_until(host, host.now() + pause).await;
            }
            tries += 1;
        }
    }

    fn leaves_too_few(&self, held: usize) -> bool {
        held + self.many > self.pool.many()
    }

    /// Takes free permits, or waits behind earlier callers until `end`.
    pub(super) async fn until(&self, end: Tick) -> Result<Holding> {
        let is_over = || self.inner.host.now() >= end;
        if !is_over()
            && let Some(holding) = passing(self.together(&self.first()).await)?
        {
            return Ok(holding);
        }
        if is_over() {
            return self.at_once().await?.ok_or_else(few);
        }
        loop {
            let taken = self.in_turn(end).await.and_then(|holding| self.lasting(holding));
            match taken {
                // The gate or a permit was lost before this acquisition had all its permits: begin
                // anew.
                Err(error) if error.is_lost() && self.inner.host.now() < end => {}
                Err(error) if error.is_lost() => return Err(few()),
                taken => return taken,
            }
        }
    }

    /// Returns an error if a permit has expired, or has less than `min_validity` left.
    fn lasting(&self, holding: Holding) -> Result<Holding> {
        let (left, least) = (holding.locks.remaining(), self.rules.min_validity);
        if left.is_zero() || left < least { Err(holding.locks.lost_error()) } else { Ok(holding) }
    }

    /// The permits to claim if no node has reported yet which permits are free.
    fn first(&self) -> Vec<usize> {
        let mut first = self.pool.preferred(self.inner, 0..self.pool.many());
        first.truncate(self.many);
        first
    }

    /// Sends one claim of these permits. Nodes refuse the claim if the gate is held or awaited.
    async fn together(&self, numbers: &[usize]) -> Result<Holding> {
        let (names, who) = (self.pool.names(numbers), ClaimKind::Permits(&self.pool.gate));
        let (grant, open) = self.granted(&names, self.rules, who, Patience::Once).await?;
        let holding = self.begin();
        holding.add(self.inner, grant, open)?;
        Ok(holding)
    }

    /// Waits for the gate, and with the gate for permits. If the gate is lost during the second
    /// wait, granted permits are released: the next holder of the gate may wait for them.
    async fn in_turn(&self, end: Tick) -> Result<Holding> {
        let gate = [self.pool.gate.clone()].into();
        // The gate's options depend on the round trip. An earlier claim may have measured the round
        // trip, so make the options only now.
        let rules = Arc::new(self.rules.of_gate(self.inner.leases.voters.round_trip()));
        let (grant, open) = self.granted(&gate, &rules, ClaimKind::Gate, Patience::Until(end)).await?;
        let gate = LockGuard::new(&self.inner.leases, &rules, grant, None);
        let gate = self.inner.unless_shut(gate, open, drop)?;
        tokio::select! {
            biased;
            _ = gate.lost() => Err(gate.lost_error()),
            taken = self.behind_gate(end) => taken,
        }
    }

    /// Takes permits while this caller holds the gate, so that no other caller waits for permits.
    async fn behind_gate(&self, end: Tick) -> Result<Holding> {
        let holding = self.begin();
        self.try_more(&holding, &self.first()).await?;
        if self.goes_on(&holding, end)? {
            self.try_more(&holding, &self.look().await).await?;
        }
        if self.goes_on(&holding, end)? {
            self.wait_for_more(&holding, end).await?;
        }
        Ok(holding)
    }

    /// Whether permits are missing. Returns an error if permits are missing and the time is over.
    fn goes_on(&self, holding: &Holding, end: Tick) -> Result<bool> {
        match self.missing(holding) {
            0 => Ok(false),
            _ if self.inner.host.now() < end => Ok(true),
            _ => Err(few()),
        }
    }

    /// Claims as many of the `free` permits as are missing, in one claim, which gets all of them or
    /// none.
    async fn try_more(&self, holding: &Holding, free: &[usize]) -> Result<()> {
        let wanted = &free[..free.len().min(self.missing(holding))];
        if wanted.is_empty() {
            return Ok(());
        }
        let names = self.pool.names(wanted);
        match passing(self.granted(&names, self.rules, PERMIT, Patience::Once).await)? {
            Some((grant, open)) => holding.add(self.inner, grant, open),
            None => Ok(()),
        }
    }

    /// Waits in the queues of permits until enough permits are held.
    async fn wait_for_more(&self, holding: &Holding, end: Tick) -> Result<()> {
        let others = self.others(holding);
        // A wait was begun for each of `others` before this index, unless the permit was held.
        let watched = AtomicUsize::new(0);
        let next = || {
            let rest = others.get(watched.load(Ordering::Relaxed)..)?;
            let at = rest.iter().position(|&number| !self.has(holding, number))?;
            watched.fetch_add(at + 1, Ordering::Relaxed);
            Some(self.wait_for(rest[at], end))
        };
        let mut waits: FuturesUnordered<_> = (0..WATCHED).map_while(|_| next()).collect();
        let mut glance = pin!(self.glance(&others, &watched, holding));
        let mut failed = None;
        while self.missing(holding) > 0 {
            let won = tokio::select! {
                biased;
                () = holding.locks.ending().cancelled() => return Err(holding.locks.lost_error()),
                won = waits.next() => won,
                won = &mut glance => {
                    glance.set(self.glance(&others, &watched, holding));
                    Some(Ok(won))
                }
            };
            match won {
                Some(Ok((grant, open))) => {
                    holding.add(self.inner, grant, open)?;
                    // This wait has ended, and there may be fewer waits than missing permits. So
                    // begin another wait.
                    waits.extend(next());
                }
                Some(Err(error)) if error.is_closed() || error.is_config() => return Err(error),
                Some(Err(error)) => failed = Some(error),
                None => return Err(failed.unwrap_or_else(few)),
            }
        }
        Ok(())
    }

    async fn wait_for(&self, number: usize, end: Tick) -> Result<(Grant, Open)> {
        let name = [self.pool.permit(number)].into();
        self.granted(&name, self.rules, PERMIT, Patience::Until(end)).await
    }

    /// Every [`GLANCE`], looks for free permits among those in whose queues this acquisition does
    /// not wait. Claims as many of these permits as are missing, and returns the grant.
    async fn glance(&self, others: &[usize], watched: &AtomicUsize, holding: &Holding) -> (Grant, Open) {
        let unwatched = || others.get(watched.load(Ordering::Relaxed)..).unwrap_or_default();
        loop {
            sleep_until(&self.inner.host, self.inner.host.now() + GLANCE).await;
            if unwatched().is_empty() {
                return std::future::pending().await;
            }
            let mut free = self.look().await;
            free.retain(|number| unwatched().contains(number));
            free.truncate(self.missing(holding));
            if free.is_empty() {
                continue;
            }
            let names = self.pool.names(&free);
            if let Ok(won) = self.granted(&names, self.rules, PERMIT, Patience::Once).await {
                return won;
            }
        }
    }

    /// Asks the nodes which permits are free. The permits most likely to be free come first.
    async fn look(&self) -> Vec<usize> {
        self.seen_where(|_| true).await.free
    }

    /// The state of the semaphore, for a try. Stops waiting for replies as soon as they show
    /// whether enough permits are free.
    async fn seen(&self) -> Seen {
        let enough = |said: &[Occupied]| {
            let permits = || said.iter().skip(1);
            let free = permits().filter(|permit| permit.held.is_none()).count();
            free >= self.many || self.leaves_too_few(permits().filter(|permit| permit.holder.is_some()).count())
        };
        self.seen_where(enough).await
    }

    async fn seen_where(&self, enough: impl Fn(&[Occupied]) -> bool) -> Seen {
        let permits = (0..self.pool.many()).map(|number| self.pool.permit(number));
        let all = std::iter::once(self.pool.gate.clone()).chain(permits).collect();
        let (voters, patience) = (&self.inner.leases.voters, self.rules.round_timeout);
        let said = occupied(voters, &all, patience, enough).await.unwrap_or_default();
        let Some((gate, permits)) = said.split_first() else { return Seen::default() };
        let held = permits.iter().filter(|permit| permit.holder.is_some()).count();
        let free = self.pool.seen(self.inner.host.now(), permits.iter().enumerate());
        Seen { gate: gate.clone(), held, free: self.pool.preferred(self.inner, free) }
    }

    /// The permits that this acquisition does not hold, sorted by `Pool::preferred`.
    fn others(&self, holding: &Holding) -> Vec<usize> {
        let missing = |&number: &usize| !self.has(holding, number);
        self.pool.preferred(self.inner, (0..self.pool.many()).filter(missing))
    }

    fn has(&self, holding: &Holding, number: usize) -> bool {
        holding.locks.token(&self.pool.permit(number)).is_some()
    }

    fn begin(&self) -> Holding {
        Holding { locks: Locks::begin("set of permits", &self.inner.leases, self.rules) }
    }

    fn missing(&self, holding: &Holding) -> usize {
        self.many.saturating_sub(holding.locks.len())
    }

    async fn granted(
        &self,
        names: &Arc<[Name]>,
        rules: &Arc<Rules>,
        who: ClaimKind<'_>,
        patience: Patience,
    ) -> Result<(Grant, Open)> {
        let arrival = patience.end().map(|_| *self.arrival.get_or_init(|| self.inner.arrival(self.began)));
        let all = Claimant { arrival, ..self.inner.claimant(names, rules, who) };
        pin!(self.inner.try_until(all, patience)).await
    }
}

/// Behind the gate, permits are claimed as plain locks.
const PERMIT: ClaimKind<'_> = ClaimKind::Next(Mode::Exclusive);

/// The state of a semaphore, by the reports of a quorum. The default values if fewer nodes have
/// answered.
#[derive(Default)]
struct Seen {
    gate: Occupied,
    /// How many permits have a holder that a quorum names.
    held: usize,
    /// The free permits, sorted by `Pool::preferred`.
    free: Vec<usize>,
}

/// The gate's holder, and when this caller first saw this holder: the time in `before` if the
/// holder is the same, else `now`.
fn since(holder: Option<Arc<str>>, before: Option<(Arc<str>, Tick)>, now: Tick) -> Option<(Arc<str>, Tick)> {
    let holder = holder?;
    let since = before.filter(|(before, _)| *before == holder).map_or(now, |(_, since)| since);
    Some((holder, since))
}

/// The result of a try; `None` if it was `Contended`.
fn uncontended<T>(tried: Result<T>) -> Result<Option<T>> {
    match tried {
        Err(error) if error.is_contended() => Ok(None),
        tried => tried.map(Some),
    }
}

/// As `uncontended`, for a caller that goes on to wait: also returns `None` for `Unavailable`.
fn passing<T>(tried: Result<T>) -> Result<Option<T>> {
    match tried {
        Err(error) if error.is_unavailable() => Ok(None),
        tried => uncontended(tried),
    }
}

fn few() -> Error {
    Error::new(ErrorKind::Timeout, "too few permits are free, or earlier callers wait for them")
}
