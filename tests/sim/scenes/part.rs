//! A part: what a client does in a scene. The client asks once, holds for a while, and gives the
//! lock back.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use quorumlock::{LockGuard, LockOptions};

use crate::clients::{Client, Ending, Watch};
use crate::judge::history::{Micros, What};
use crate::sessions::Does;
use crate::world::{World, micros};

/// One part. By default it waits for up to a minute, renews its lock, and holds it for a minute.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub ttl: Option<Duration>,
    pub timeout: Duration,
    pub round_timeout: Option<Duration>,
    pub renewed: bool,
    /// Whether a loss of the lock breaks a promise.
    pub must_keep: bool,
    /// Tries once, and does not wait.
    pub once: bool,
    /// How long the part holds the lock, unless the lock is lost or all faults end earlier.
    pub hold: Duration,
    pub dropped: bool,
    /// How long the part keeps its guard after a loss.
    pub lingers: Duration,
    /// Whether a failure of this ask breaks a promise.
    pub must: bool,
    /// The names that the part asks for.
    pub names: &'static [u8],
    /// Whether the part acquires as a reader.
    pub shared: bool,
    /// Asks for permits instead of a lock: how many, and how many the semaphore has.
    pub permits: Option<(u32, u32)>,
    /// Claims a period instead of a lock. For a period, `dropped` means that the part undoes its
    /// permit.
    pub once_per: Option<Duration>,
    /// Campaigns in an election instead, and proclaims this many values with this pause after each.
    pub proclaims: Option<(u32, Duration)>,
    /// Acquires as a writer, holds for `hold`, then becomes a reader, and holds for `hold` again.
    pub downgrades: bool,
    /// Acquires, holds for `hold`, and makes a ticket (false), or resumes the last ticket (true).
    pub ticket: Option<bool>,
    /// Uses a session instead of a lock, and takes these steps in it.
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
            ticket: None,
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

/// Begins a part in a process, unless the process is dead.
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

/// After the faults, one caller in each process must get the lock.
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

/// Shuts a process's quorum down. The process ends after that.
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

/// The operator runs `init` by a client of this process.
pub fn init(world: &Arc<World>, process: usize) {
    let Some(quorum) = world.quorums.of(process) else { return };
    let number = world.parts.begun(process);
    let world = world.clone();
    world.clone().exec.spawn(
        process,
        Box::pin(async move {
            // The call fails if a node does not answer, or has served before. Scenes expect such
            // failures.
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
        if let Some(resumes) = part.ticket {
            return self.play_ticket(part, resumes, round).await;
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

    /// Holds the lock, and checks the lease often.
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
