//! What a client does in a scene: it asks once, holds for a while, and gives the lock back.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use quorumlock::{LockGuard, LockOptions};

use crate::clients::{Client, Ending, Watch};
use crate::judge::history::{Micros, What};
use crate::sessions::Does;
use crate::world::{World, micros};

/// One ask. By default it waits for a minute, is renewed, and holds until it is lost.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub ttl: Option<Duration>,
    pub timeout: Duration,
    pub round_timeout: Option<Duration>,
    pub renewed: bool,
    /// Whether it is broken a promise if it loses the lock.
    pub must_keep: bool,
    /// It tries once, and does not wait.
    pub once: bool,
    /// For how long; until it is lost or all faults have ended where this is longer.
    pub hold: Duration,
    pub dropped: bool,
    /// For how long it keeps the guard of what it lost.
    pub lingers: Duration,
    /// Whether it is broken a promise if this ask fails.
    pub must: bool,
    /// Which names it asks for.
    pub names: &'static [u8],
    /// As a reader.
    pub shared: bool,
    /// How many permits it asks for, and of how many; it asks for no lock then.
    pub permits: Option<(u32, u32)>,
    /// It claims a period, and is the first or not; dropped means that it undoes it.
    pub once_per: Option<Duration>,
    /// It asks for an office, and proclaims so many values, one after the other, that long apart.
    pub proclaims: Option<(u32, Duration)>,
    /// As a writer, which reads behind that; `hold` is for how long it does either.
    pub downgrades: bool,
    /// It has a session, which does this, one after the other; it asks for no lock then.
    pub session: Option<&'static [Does]>,
}

impl Default for Part {
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        Self {
            ttl: None,
            timeout: minute,
            round_timeout: None,
            renewed: true,
            once: false,
            must_keep: false,
            hold: minute,
            dropped: false,
            lingers: Duration::ZERO,
            must: false,
            names: &[0],
            shared: false,
            permits: None,
            once_per: None,
            proclaims: None,
            downgrades: false,
            session: None,
        }
    }
}

impl Part {
    pub fn options(&self, ttl: Duration) -> LockOptions {
        let options = LockOptions::default().ttl(self.ttl.unwrap_or(ttl)).auto_renew(self.renewed);
        match self.round_timeout {
            Some(timeout) => options.round_timeout(timeout),
            None => options,
        }
    }
}

/// Begins a part in a process, unless that is dead.
pub fn begin(world: &Arc<World>, process: usize, part: Part) {
    let Some(client) = client(world, process) else { return };
    let number = world.parts.begun(process);
    let world = world.clone();
    world.clone().exec.spawn(
        process,
        Box::pin(async move {
            client.play(part).await;
            world.parts.ended(number);
        }),
    );
}

/// After the faults, somebody of each process gets the lock.
pub fn epilogue(world: &Arc<World>, patience: Duration) {
    let onlookers = world.core.lock().unwrap().plan.onlookers.clone();
    let takes_part = |process: &usize| !world.parts.is_shut(*process) && !onlookers.contains(process);
    for (process, _) in world.quorums.all().into_iter().filter(|(process, _)| takes_part(process)) {
        let Some(mut client) = client(world, process) else { continue };
        let number = world.parts.begun(process);
        let world = world.clone();
        world.clone().exec.spawn(
            process,
            Box::pin(async move {
                client.last(patience).await;
                world.parts.ended(number);
            }),
        );
    }
}

/// Shuts a process's quorum down, and lets the process end when that is done.
pub fn shut_down(world: &Arc<World>, process: usize) {
    let Some(quorum) = world.quorums.of(process) else { return };
    world.parts.shut(process);
    let number = world.parts.begun(process);
    let world = world.clone();
    world.clone().exec.spawn(
        process,
        Box::pin(async move {
            world.record(What::ShutDown { process: process as u16 });
            quorum.shutdown(Duration::from_secs(1)).await;
            world.parts.ended(number);
        }),
    );
}

/// By a client of this process the operator says that its servers are new.
pub fn init(world: &Arc<World>, process: usize) {
    let Some(quorum) = world.quorums.of(process) else { return };
    let number = world.parts.begun(process);
    let world = world.clone();
    world.clone().exec.spawn(
        process,
        Box::pin(async move {
            // It is refused unless all of them answer, and none has served before.
            let _ = quorum.init().await;
            world.parts.ended(number);
        }),
    );
}

fn client(world: &Arc<World>, process: usize) -> Option<Client> {
    let quorum = world.quorums.of(process)?;
    let dice = world.core.lock().unwrap().dice.fork();
    Some(Client::new(world.clone(), process, quorum, dice))
}

impl Client {
    pub fn end_of_faults(&self) -> Micros {
        micros(self.world.core.lock().unwrap().plan.length)
    }

    async fn play(mut self, part: Part) {
        let ttl = self.ttl();
        let round = part.round_timeout.unwrap_or((part.ttl.unwrap_or(ttl) / 3).min(Duration::from_secs(2)));
        if let Some((many, of)) = part.permits {
            return self.play_permits(part, many, of, round).await;
        }
        if let Some(period) = part.once_per {
            return self.play_once(part, period, round).await;
        }
        if let Some((values, apart)) = part.proclaims {
            return self.play_office(part, values, apart, round).await;
        }
        if let Some(does) = part.session {
            return self.play_session(part, does, round).await;
        }
        if part.downgrades {
            return self.play_downgrade(part, round).await;
        }
        let ask = self.ask_for(part.names, part.shared, &part.options(ttl), round, part.timeout, part.must);
        let acquired = match part.once {
            true => ask.lock.try_acquire().await,
            false => ask.lock.acquire(part.timeout).await.map(Some),
        };
        match acquired {
            Ok(None) => self.denied(&ask),
            Ok(Some(guard)) => {
                let watch = self.acquired(&ask, guard.lease());
                self.keep(guard, watch, part).await;
            }
            Err(error) => self.failed(&ask, &error),
        }
    }

    /// Holds, and looks at the lease often.
    async fn keep(&mut self, guard: LockGuard, watch: Watch, part: Part) {
        let end = (self.world.now() + micros(part.hold)).min(self.end_of_faults());
        let step = (self.ttl() / 16).max(Duration::from_millis(1));
        let lease = guard.lease();
        self.write(&watch);
        while self.world.now() < end {
            let left = Duration::from_micros(end - self.world.now());
            let rest = std::pin::pin!(self.world.sleep(step.min(left)));
            let lost = std::pin::pin!(lease.lost());
            if let Either::Left(_) = select(lost, rest).await {
                self.lost(&watch);
                if part.must_keep {
                    self.world.record(What::Unfinished { clients: 1 });
                }
                self.world.sleep(part.lingers).await;
                self.lets_go(&watch);
                drop(guard);
                return self.world.leases.remove(watch.number);
            }
            self.sample(&watch);
        }
        self.write(&watch);
        self.end(guard, &watch, if part.dropped { Ending::Drop } else { Ending::Release }).await;
    }
}
