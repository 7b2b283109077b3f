//! Tickets: locks that one process acquires, and another process resumes.

use std::sync::Mutex;
use std::time::Duration;

use quorumlock::{LockGuard, LockOptions, Ticket};

use crate::clients::{Client, Manner, Watch, watched};
use crate::judge::history::What;
use crate::scenes::part::Part;

/// How many of the last tickets the clients know.
const KNOWN: usize = 3;

/// The last tickets, each with its name and the lease that it was made of.
#[derive(Debug, Default)]
pub struct Tickets(Mutex<Vec<(u8, u32, Ticket)>>);

impl Tickets {
    fn add(&self, name: u8, lease: u32, ticket: Ticket) {
        let mut known = self.0.lock().unwrap();
        known.insert(0, (name, lease, ticket));
        known.truncate(KNOWN);
    }

    pub fn were_made(&self) -> bool {
        !self.0.lock().unwrap().is_empty()
    }

    fn all(&self) -> Vec<(u8, u32, Ticket)> {
        self.0.lock().unwrap().clone()
    }
}

impl Client {
    /// Makes a ticket, or resumes or releases one. Tickets stay known, so that a ticket may be used
    /// several times, and late.
    pub async fn some_ticket(&mut self) {
        let known = self.world.tickets.all();
        let (options, round) = self.options(false);
        let manner = self.manner();
        if !known.is_empty() && self.dice.chance(0.6) {
            let used = known[self.dice.index(known.len())].clone();
            if self.dice.chance(0.1) {
                // The judge checks what this release does, not what it returns.
                let _ = self.quorum.release(&used.2).await;
                return;
            }
            return self.resumes(used, (&options, round), manner, None).await;
        }
        let (name, timeout) = (self.some_name(), self.timeout(manner));
        self.hands_on(name, (&options, round), (manner, timeout), None).await;
    }

    /// A part of a scene: makes a ticket after `hold`, or resumes the last one and holds the lock.
    pub async fn play_ticket(&mut self, part: Part, resumes: bool, round: Duration) {
        let options = part.options(self.ttl());
        if !resumes {
            let how = (Manner::Wait, part.timeout);
            return self.hands_on(part.names[0], (&options, round), how, Some(part.hold)).await;
        }
        if let Some(used) = self.world.tickets.all().into_iter().next() {
            self.resumes(used, (&options, round), Manner::Wait, Some(part.hold)).await;
        }
    }

    async fn hands_on(
        &mut self,
        name: u8,
        (options, round): (&LockOptions, Duration),
        (manner, timeout): (Manner, Duration),
        hold: Option<Duration>,
    ) {
        let ask = self.ask_for(&[name], false, options, round, timeout, false);
        let guard = match self.or_goes(manner, ask.lock.acquire(timeout)).await {
            Some(Ok(guard)) => guard,
            Some(Err(error)) => return self.failed(&ask, &error),
            None => return self.went(&ask),
        };
        let watch = self.acquired(&ask, guard.lease());
        let Some(guard) = self.works_under(guard, &watch, hold).await else { return };
        let (lease, mut made) = (guard.lease(), None);
        let told = {
            let makes = async { made = Some(guard.into_ticket().await) };
            watched(makes, lease.lost(), || self.lost(&watch)).await
        };
        match made {
            Some(Ok(ticket)) => {
                let lease = watch.number;
                self.record(|process| What::HandsOn { process, lease });
                self.world.leases.remove(lease);
                self.world.tickets.add(name, lease, ticket);
            }
            Some(Err((_, guard))) if told => self.keeps_lost(guard, &watch).await,
            Some(Err((_, guard))) => {
                let ending = self.ending();
                self.ends(&watch, ending, guard, LockGuard::release).await;
            }
            None => {}
        }
    }

    async fn resumes(
        &mut self,
        (name, writer, ticket): (u8, u32, Ticket),
        (options, round): (&LockOptions, Duration),
        manner: Manner,
        hold: Option<Duration>,
    ) {
        let ask = self.ask_for(&[name], false, options, round, Duration::ZERO, false);
        let quorum = self.quorum.clone();
        let guard = match self.or_goes(manner, quorum.resume_with(&ticket, options)).await {
            Some(Ok(guard)) => guard,
            Some(Err(error)) => return self.failed(&ask, &error),
            None => return self.went(&ask),
        };
        let watch = self.acquired(&ask, guard.lease());
        let lease = watch.number;
        self.record(|process| What::Follows { process, lease, writer });
        if let Some(guard) = self.works_under(guard, &watch, hold).await {
            let ending = self.ending();
            self.ends(&watch, ending, guard, LockGuard::release).await;
        }
    }

    /// Works under the lock. Returns `None` if the lock was lost.
    async fn works_under(&mut self, guard: LockGuard, watch: &Watch, hold: Option<Duration>) -> Option<LockGuard> {
        let (mut inner, lease, world) = (self.another(), guard.lease(), self.world.clone());
        let works = async {
            match hold {
                Some(hold) => world.sleep(hold).await,
                None => inner.work(watch).await,
            }
        };
        if watched(works, lease.lost(), || self.lost(watch)).await {
            self.keeps_lost(guard, watch).await;
            return None;
        }
        Some(guard)
    }
}
