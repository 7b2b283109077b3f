//! What clients do with a semaphore: they take permits, hold them for a while, and give them back.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::{Either, select};
use quorumlock::{Error, LockOptions, PermitsGuard, QuorumSemaphore};

use crate::clients::{Client, Ending, Manner, Watch, is_kept_out, watched};
use crate::judge::history::What;
use crate::scenes::part::Part;
use crate::world::micros;

const MS: Duration = Duration::from_millis(1);
/// The semaphore's name, and the number by which the judge knows the semaphore.
const NAME: &str = "lock-a";
const GATE: u8 = 0;

/// One call that takes permits.
struct Ask {
    semaphore: QuorumSemaphore,
    /// How many permits the call takes, and how many the semaphore has.
    many: u32,
    of: u32,
    /// One ask number for each permit: to the judge, each permit is an ask of its own.
    numbers: Vec<u32>,
    round: Duration,
}

impl Client {
    pub fn has_permits(&self) -> bool {
        self.world.core.lock().unwrap().plan.permits > 0
    }

    fn of(&self) -> u32 {
        self.world.core.lock().unwrap().plan.permits
    }

    /// Takes some permits. This may fail.
    pub async fn some_permits(&mut self) {
        let (manner, of) = (self.manner(), self.of());
        let timeout = self.timeout(manner);
        let many = 1 + self.dice.index(of as usize) as u32;
        let (options, round) = self.options(false);
        let ask = self.ask_permits(many, of, &options, round, timeout, false);
        match manner {
            Manner::Cancel => match self.or_goes(manner, ask.semaphore.acquire(many, timeout)).await {
                Some(guard) => self.got_permits(&ask, guard.map(Some)).await,
                None => self.each(&ask, |process, ask| What::Cancelled { process, ask, name: GATE }),
            },
            Manner::Try => {
                let guard = ask.semaphore.try_acquire(many).await;
                self.got_permits(&ask, guard).await;
            }
            Manner::Wait | Manner::Run => {
                let guard = ask.semaphore.acquire(many, timeout).await.map(Some);
                self.got_permits(&ask, guard).await;
            }
        }
    }

    /// After all faults, each waiting client must get a permit.
    pub async fn last_permit(&mut self, patience: Duration) {
        let of = self.of();
        let (options, round) = self.options(true);
        let ask = self.ask_permits(1, of, &options, round, patience, true);
        match ask.semaphore.acquire(1, patience).await {
            Ok(guard) => {
                let watch = self.have(&ask, &guard);
                self.world.sleep(MS).await;
                self.end_permits(guard, &watch, Ending::Release).await;
            }
            Err(error) => self.refused_permits(&ask, &error),
        }
    }

    /// A part of a scene: takes permits, holds them and gives them back.
    pub async fn play_permits(&mut self, part: Part, many: u32, of: u32, round: Duration) {
        let ttl = self.ttl();
        let ask = self.ask_permits(many, of, &part.options(ttl), round, part.timeout, part.must);
        let acquired = match part.once {
            true => ask.semaphore.try_acquire(many).await,
            false => ask.semaphore.acquire(many, part.timeout).await.map(Some),
        };
        match acquired {
            Ok(Some(guard)) => {
                let watch = self.have(&ask, &guard);
                self.keep_permits(guard, watch, part).await;
            }
            other => self.got_permits(&ask, other).await,
        }
    }

    /// Holds permits until the part ends, and checks the lease often.
    async fn keep_permits(&mut self, guard: PermitsGuard, watch: Watch, part: Part) {
        let end = (self.world.now() + micros(part.hold)).min(self.end_of_faults());
        let step = (self.ttl() / 16).max(MS);
        self.write(&watch);
        while self.world.now() < end {
            let left = Duration::from_micros(end - self.world.now());
            let rest = pin!(self.world.sleep(step.min(left)));
            let lost = pin!(guard.lost());
            if let Either::Left(_) = select(lost, rest).await {
                self.lost(&watch);
                if part.must_keep {
                    self.world.record(What::Unfinished { clients: 1 });
                }
                self.world.sleep(part.lingers).await;
                self.lets_go(&watch);
                return self.world.leases.remove(watch.number);
            }
            self.sample(&watch);
        }
        self.write(&watch);
        self.end_permits(guard, &watch, if part.dropped { Ending::Drop } else { Ending::Release }).await;
    }

    fn ask_permits(
        &self,
        many: u32,
        of: u32,
        options: &LockOptions,
        round: Duration,
        timeout: Duration,
        must: bool,
    ) -> Ask {
        let semaphore = self.quorum.semaphore_with(NAME, of, options).expect("the plan's options make sense");
        let numbers = (0..many).map(|_| self.world.leases.asks.fetch_add(1, Ordering::Relaxed)).collect();
        let ask = Ask { semaphore, many, of, numbers, round };
        // Allows for turns in this process, whole rounds, slow clocks and whole milliseconds.
        let by = self.world.now() + micros((timeout + 5 * round).mul_f64(1.006) + 16 * MS);
        self.each(&ask, |process, ask| What::Asked { process, ask, name: GATE, by, must });
        ask
    }

    async fn got_permits(&mut self, ask: &Ask, guard: quorumlock::Result<Option<PermitsGuard>>) {
        match guard {
            Ok(Some(guard)) => self.hold_permits(ask, guard).await,
            Ok(None) => {
                let failed =
                    |process, ask| What::Failed { process, ask, name: GATE, unavailable: false, kept_out: false };
                self.each(ask, failed);
            }
            Err(error) => self.refused_permits(ask, &error),
        }
    }

    fn refused_permits(&self, ask: &Ask, error: &Error) {
        let unavailable = error.is_unavailable();
        let kept_out = is_kept_out(error);
        self.each(ask, |process, ask| What::Failed { process, ask, name: GATE, unavailable, kept_out });
    }

    /// Records that the permits are held, one acquisition for each permit.
    fn have(&self, ask: &Ask, guard: &PermitsGuard) -> Watch {
        let number = |_: &_| self.world.leases.count.fetch_add(1, Ordering::Relaxed);
        let parts = guard.permits().iter().map(|permit| (permit.number as u8 + 1, number(permit))).collect();
        assert_eq!(guard.permits().len(), ask.many as usize, "all or nothing");
        let watch = Watch::of_permits(self.process, parts, guard.lease(), ask.round);
        // First record what the other holders believe at this moment.
        self.world.leases.sample(&self.world, |_| true);
        let (until, permits) = (watch.until(&self.world), ask.of);
        for (&ask, (name, lease, token)) in ask.numbers.iter().zip(watch.tokens()) {
            let (shared, owner) = (false, None);
            self.record(|process| What::Acquired { process, ask, name, lease, token, until, shared, owner });
            self.record(|process| What::Counted { process, lease, permits });
        }
        self.world.leases.watched.lock().unwrap().push(watch.clone());
        watch
    }

    async fn hold_permits(&mut self, ask: &Ask, guard: PermitsGuard) {
        let watch = self.have(ask, &guard);
        let lease = guard.lease();
        let mut inner = self.another();
        if watched(inner.work(&watch), lease.lost(), || self.lost(&watch)).await {
            return self.keeps_lost(guard, &watch).await;
        }
        let ending = self.ending();
        self.end_permits(guard, &watch, ending).await;
    }

    async fn end_permits(&self, guard: PermitsGuard, watch: &Watch, ending: Ending) {
        self.ends(watch, ending, guard, PermitsGuard::release).await;
    }

    fn each(&self, ask: &Ask, what: impl Fn(u16, u32) -> What) {
        ask.numbers.iter().for_each(|&number| self.record(|process| what(process, number)));
    }
}
