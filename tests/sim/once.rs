//! What clients do with jobs that run once a period.

use std::time::Duration;

use quorumlock::{Once, OncePermit};

use crate::clients::{Ask, Client, Watch, watched};
use crate::judge::history::What;
use crate::scenes::part::Part;
use crate::world::micros;

const MS: Duration = Duration::from_millis(1);
/// How many more rounds a claim may take than other calls: for further tries, for the last round,
/// and to ask who holds the period.
const ROUNDS: u32 = 5;
/// The longest pause before the last of these tries.
const PAUSE: Duration = Duration::from_millis(250);

/// What a client does with its permit for a period.
#[derive(Clone, Copy, Debug)]
enum Kept {
    Done,
    Dropped,
    Undone,
}

impl Client {
    /// Claims a period. The claim may fail.
    pub async fn some_period(&mut self) {
        let (manner, name, (options, round)) = (self.manner(), self.some_name(), self.options(false));
        let period = self.period();
        let ask = self.ask_for(&[name], false, &options, round, ROUNDS * round + PAUSE, false);
        let once = self.quorum.once_with(self.text(name), period, &options).expect("the plan's period makes sense");
        let began = self.world.now();
        match self.or_goes(manner, once.claim()).await {
            Some(Ok(Some(permit))) => self.has_period(&ask, name, permit).await,
            Some(Ok(None)) => {
                self.record(|process| What::Skipped { process, name, began, period: micros(period) });
                self.refused(&ask);
            }
            Some(Err(error)) => self.failed(&ask, &error),
            None => self.went(&ask),
        }
    }

    async fn has_period(&mut self, ask: &Ask, name: u8, permit: OncePermit) {
        let watch = self.is_first(ask, name, &permit);
        let mut inner = self.another();
        let told = watched(inner.work(&watch), permit.lost(), || self.lost(&watch)).await;
        if told {
            self.lets_go(&watch);
        } else {
            self.sample(&watch);
            self.released(&watch);
        }
        self.keeps(&watch, told, permit).await;
        self.sample(&watch);
        self.world.leases.remove(watch.number);
    }

    /// Ends the permit: marks the job as done, drops the permit, or undoes it for another client.
    async fn keeps(&mut self, watch: &Watch, lost: bool, permit: OncePermit) {
        match self.dice.weighed(&[(5, Kept::Done), (2, Kept::Dropped), (3, Kept::Undone)]) {
            Kept::Done if lost => drop(permit.done().await),
            Kept::Done => self.done(watch, permit).await,
            Kept::Dropped => drop(permit),
            Kept::Undone => self.undoes(watch.number, permit).await,
        }
    }

    async fn done(&self, watch: &Watch, permit: OncePermit) {
        let came = permit.done().await;
        self.told(std::slice::from_ref(watch), &came);
    }

    async fn undoes(&self, lease: u32, permit: OncePermit) {
        self.record(|process| What::Undone { process, lease });
        drop(permit.undo().await);
    }

    fn is_first(&self, ask: &Ask, name: u8, permit: &OncePermit) -> Watch {
        let watch = self.acquired(ask, permit.lease());
        let (lease, period) = (watch.number, micros(self.period()));
        self.record(|process| What::First { process, lease, name, period });
        watch
    }

    /// After all faults, each client must get a permit. The client then undoes the permit, so that
    /// the next client gets one.
    pub async fn last_period(&mut self, patience: Duration) {
        let (name, (options, _)) = (self.some_name(), self.options(true));
        // A claim is one round. If its client's clock is behind, the claim needs two asks. Two asks
        // take less than a third of the ttl, since round trips are short compared to a plan's ttls.
        let round = (self.ttl() - self.ttl() / 100 - 2 * MS) / 3;
        let options = options.round_timeout(round);
        let ask = self.ask_for(&[name], false, &options, round, patience + ROUNDS * round + PAUSE, true);
        let once =
            self.quorum.once_with(self.text(name), self.period(), &options).expect("the plan's period makes sense");
        match self.claims_until(&once, patience).await {
            Ok(Some(permit)) => {
                let watch = self.is_first(&ask, name, &permit);
                self.world.sleep(MS).await;
                self.released(&watch);
                self.undoes(watch.number, permit).await;
                self.world.leases.remove(watch.number);
            }
            Ok(None) => self.refused(&ask),
            Err(error) => self.failed(&ask, &error),
        }
    }

    /// Claims again and again, until the client has a permit or the time is over.
    async fn claims_until(&mut self, once: &Once, patience: Duration) -> quorumlock::Result<Option<OncePermit>> {
        let end = self.world.now() + micros(patience);
        loop {
            let claimed = once.claim().await;
            if matches!(claimed, Ok(Some(_))) || self.world.now() >= end {
                return claimed;
            }
            let pause = self.dice.around(50 * MS);
            self.world.sleep(pause).await;
        }
    }

    fn period(&self) -> Duration {
        self.world.core.lock().unwrap().plan.period
    }

    /// A part of a scene: claims the period, works for a while, and keeps or undoes its permit.
    pub async fn play_once(&mut self, part: Part, period: Duration, round: Duration) {
        let options = part.options(self.ttl());
        // After two rounds of tries, a claim may make one more whole round.
        let ask = self.ask_for(part.names, false, &options, round, 2 * round, part.must);
        let once = self.quorum.once_with("lock-a", period, &options).expect("the scene's period makes sense");
        match once.claim().await {
            Ok(Some(permit)) => {
                let watch = self.acquired(&ask, permit.lease());
                let (lease, period) = (watch.number, micros(period));
                self.record(|process| What::First { process, lease, name: 0, period });
                self.world.sleep(part.hold).await;
                self.sample(&watch);
                self.released(&watch);
                if part.dropped {
                    self.undoes(lease, permit).await;
                } else {
                    self.done(&watch, permit).await;
                }
                self.world.leases.remove(watch.number);
            }
            Ok(None) => self.refused(&ask),
            Err(error) => self.failed(&ask, &error),
        }
    }
}
