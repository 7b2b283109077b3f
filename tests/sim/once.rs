//! What clients do once a period.

use std::time::Duration;

use quorumlock::{Once, OncePermit};

use crate::clients::{Ask, Client, Watch, watched};
use crate::judge::history::What;
use crate::scenes::part::Part;
use crate::world::micros;

const MS: Duration = Duration::from_millis(1);
/// How many rounds a claim may take beside the two of everybody who asks: those for which it tries
/// again, the last one, and looks at who has it.
const ROUNDS: u32 = 5;
/// And how long the last pause between two tries is at most.
const PAUSE: Duration = Duration::from_millis(250);

/// What becomes of a period.
#[derive(Clone, Copy, Debug)]
enum Kept {
    Done,
    Dropped,
    Undone,
}

impl Client {
    /// Claims a period, however that goes.
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
        self.keeps(watch.number, permit).await;
        self.sample(&watch);
        self.world.leases.remove(watch.number);
    }

    /// Its work is done, or is to be done by somebody else in this period.
    async fn keeps(&mut self, lease: u32, permit: OncePermit) {
        match self.dice.weighed(&[(5, Kept::Done), (2, Kept::Dropped), (3, Kept::Undone)]) {
            Kept::Done => drop(permit.done().await),
            Kept::Dropped => drop(permit),
            Kept::Undone => self.undoes(lease, permit).await,
        }
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

    /// When all faults have ended, everybody is the first once, and lets the next be that too.
    pub async fn last_period(&mut self, patience: Duration) {
        let (name, (options, _)) = (self.some_name(), self.options(true));
        // A claim is one round. Where its client's clock is behind, that has time for two questions
        // only by the whole ttl: a plan's nodes are that near.
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

    /// Until it has one, or for so long.
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

    /// A part of a scene: claims the period, works for a while, and keeps or undoes it.
    pub async fn play_once(&mut self, part: Part, period: Duration, round: Duration) {
        let options = part.options(self.ttl());
        // It may make one whole round behind the two that it tries for.
        let ask = self.ask_for(part.names, false, &options, round, 2 * round, part.must);
        let once = self.quorum.once_with("lock-a", period, &options).expect("the scene's period makes sense");
        match once.claim().await {
            Ok(Some(permit)) => {
                let watch = self.acquired(&ask, permit.lease());
                let (lease, period) = (watch.number, micros(period));
                self.record(|process| What::First { process, lease, name: 0, period });
                self.world.sleep(part.hold).await;
                self.released(&watch);
                if part.dropped {
                    self.undoes(lease, permit).await;
                } else {
                    drop(permit.done().await);
                }
                self.world.leases.remove(watch.number);
            }
            Ok(None) => self.refused(&ask),
            Err(error) => self.failed(&ask, &error),
        }
    }
}
