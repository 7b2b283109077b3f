//! What clients do with their locks. Like real clients, they wait, give up, hold locks for too
//! long, and forget to release them.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use quorumlock::rules::validity::MAX_ROUND;
use quorumlock::{
    Error, Lease, LockGuard, LockOptions, LostReason, NodeCause, PermitsLease, Quorum, QuorumLock, Released,
};

use crate::book::Locked;
use crate::dice::Dice;
use crate::judge::history::{Micros, Told, What};
use crate::storage::Write;
use crate::world::{World, micros};

const MS: Duration = Duration::from_millis(1);

/// A lease that the simulation can check at any moment: is it held, and until when?
#[derive(Clone, Debug)]
pub struct Watch {
    pub process: usize,
    /// The number of this lease in the history. A set has the number of its first name.
    pub number: u32,
    /// The lease's names, each with a lease number: to the judge, each name is a lease of its own.
    parts: Vec<(u8, u32)>,
    lease: Held,
    /// Whether the holder is a reader.
    shared: bool,
    /// How long a release of this lease may wait at most.
    round: Duration,
}

/// The kind of lease that a client holds.
#[derive(Clone, Debug)]
pub enum Held {
    Lock(Lease),
    Permits(PermitsLease),
    Session(Locked),
}

impl Held {
    fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    fn remaining(&self) -> Duration {
        match self {
            Self::Lock(lease) => lease.remaining(),
            Self::Permits(lease) => lease.remaining(),
            Self::Session(locked) => locked.remaining(),
        }
    }

    /// The token of a name. A lock has one token for all its names.
    fn token(&self, name: u8) -> u64 {
        match self {
            Self::Lock(lease) => lease.token(),
            Self::Session(locked) => locked.token,
            Self::Permits(lease) => {
                let mut permits = lease.permits().iter();
                permits.find(|permit| permit.number + 1 == u32::from(name)).expect("it is held").token
            }
        }
    }

    fn lost(&self) -> Option<LostReason> {
        match self {
            Self::Lock(lease) => lease.lost().now_or_never(),
            Self::Permits(lease) => lease.lost().now_or_never(),
            Self::Session(locked) => locked.lost(),
        }
    }
}

/// All leases that clients hold.
#[derive(Debug, Default)]
pub struct Leases {
    pub watched: Mutex<Vec<Watch>>,
    pub count: AtomicU32,
    pub asks: AtomicU32,
}

impl Leases {
    /// Records the present state of the leases for which `which` is true.
    pub fn sample(&self, world: &World, which: impl Fn(&Watch) -> bool) {
        let chosen: Vec<_> = self.watched.lock().unwrap().iter().filter(|watch| which(watch)).cloned().collect();
        chosen.iter().for_each(|watch| watch.sample(world));
    }

    pub fn forget(&self, process: usize) {
        let (gone, kept) = std::mem::take(&mut *self.watched.lock().unwrap())
            .into_iter()
            .partition::<Vec<_>, _>(|watch| watch.process == process);
        *self.watched.lock().unwrap() = kept;
        drop(gone);
    }

    /// The process of the last lease in the table. This is mostly the newest lease.
    pub fn some_holder(&self) -> Option<usize> {
        self.watched.lock().unwrap().last().map(|watch| watch.process)
    }

    pub fn remove(&self, number: u32) {
        let mut watched = self.watched.lock().unwrap();
        let gone = watched.iter().position(|watch| watch.number == number).map(|index| watched.swap_remove(index));
        drop(watched);
        drop(gone);
    }
}

impl Watch {
    pub fn of_permits(process: usize, parts: Vec<(u8, u32)>, lease: PermitsLease, round: Duration) -> Self {
        Self { process, number: parts[0].1, parts, lease: Held::Permits(lease), shared: false, round }
    }

    pub fn of_session(process: usize, name: u8, number: u32, locked: Locked, round: Duration) -> Self {
        Self { process, number, parts: vec![(name, number)], lease: Held::Session(locked), shared: false, round }
    }

    pub fn names(&self) -> impl Iterator<Item = u8> {
        self.parts.iter().map(|&(name, _)| name)
    }

    /// The lease's names, each with its lease number and its token.
    pub fn tokens(&self) -> impl Iterator<Item = (u8, u32, u64)> {
        self.parts.iter().map(|&(name, lease)| (name, lease, self.lease.token(name)))
    }

    fn sample(&self, world: &World) {
        let (process, until, held) = (self.process as u16, self.until(world), self.lease.is_held());
        for &(name, lease) in &self.parts {
            world.record(What::Sample { process, name, lease, held, until });
        }
    }

    fn lets_go(&self, world: &World) {
        for &(name, lease) in &self.parts {
            world.record(What::LetGo { process: self.process as u16, name, lease });
        }
    }

    /// The time until which the holder believes that it holds the lock.
    pub fn until(&self, world: &World) -> Micros {
        let rate = world.core.lock().unwrap().processes[self.process].rate;
        world.now() + micros(self.lease.remaining()) * 1_000_000 / rate
    }

    pub fn is_on(&self, names: &[(u8, u32)]) -> bool {
        self.parts.iter().any(|(name, _)| names.iter().any(|(other, _)| other == name))
    }
}

/// A body that runs under a lock. If the lock was lost, the drop of this value records that the
/// work has ended.
struct Inside {
    world: Arc<World>,
    watch: Watch,
}

impl Drop for Inside {
    fn drop(&mut self) {
        if self.watch.lease.lost().is_some() {
            self.watch.lets_go(&self.world);
        }
    }
}

/// How a client makes its call.
#[derive(Clone, Copy, Debug)]
pub enum Manner {
    Try,
    Wait,
    /// Drops the call at a random moment.
    Cancel,
    Run,
}

/// What kind of lock a client asks for.
#[derive(Clone, Copy, Debug)]
enum Face {
    Lock,
    /// A job that is done once in a period.
    Once,
    /// An election.
    Office,
    /// A writer that becomes a reader later.
    Downgrade,
    /// A lock that becomes a ticket, or a ticket.
    Ticket,
    Session,
}

#[derive(Clone, Copy, Debug)]
pub enum Ending {
    Release,
    Drop,
    /// Begins the release, and does not wait for its end.
    Abandon,
}

pub struct Client {
    pub world: Arc<World>,
    pub process: usize,
    pub quorum: Quorum,
    pub dice: Dice,
}

/// One call that acquires a lock.
pub struct Ask {
    /// The names, each with an ask number: to the judge, each name is an ask of its own.
    parts: Vec<(u8, u32)>,
    pub lock: QuorumLock,
    timeout: Duration,
    shared: bool,
    round: Duration,
}

impl Client {
    pub fn new(world: Arc<World>, process: usize, quorum: Quorum, dice: Dice) -> Self {
        Self { world, process, quorum, dice }
    }

    /// Acquires and releases locks until the plan's end. After that, acquires once more, with a
    /// long timeout.
    pub async fn live(mut self) {
        let (length, think, patience) = {
            let core = self.world.core.lock().unwrap();
            (micros(core.plan.length), core.plan.think, core.plan.patience())
        };
        loop {
            let pause = self.dice.around(think);
            self.world.sleep(pause).await;
            if self.world.now() >= length {
                break;
            }
            self.once().await;
        }
        self.last(patience).await;
        self.world.finished.fetch_add(1, Ordering::Relaxed);
    }

    pub fn manner(&mut self) -> Manner {
        self.dice.weighed(&[(3, Manner::Try), (8, Manner::Wait), (3, Manner::Cancel), (2, Manner::Run)])
    }

    async fn once(&mut self) {
        if self.has_permits() {
            return self.some_permits().await;
        }
        match self.face() {
            Face::Lock => self.some_lock().await,
            Face::Once => self.some_period().await,
            Face::Office => self.some_office().await,
            Face::Downgrade => self.writes_and_reads().await,
            Face::Ticket => self.some_ticket().await,
            Face::Session => self.some_session().await,
        }
    }

    /// The kind of lock to ask for next, if the plan has several kinds.
    fn face(&mut self) -> Face {
        let core = self.world.core.lock().unwrap();
        let shares = [
            (core.plan.once, Face::Once),
            (core.plan.elections, Face::Office),
            (core.plan.downgrades, Face::Downgrade),
            (core.plan.tickets, Face::Ticket),
            (core.plan.sessions, Face::Session),
        ];
        drop(core);
        let has = |&(share, face): &(f64, Face)| (share > 0.0 && self.dice.chance(share)).then_some(face);
        shares.iter().find_map(has).unwrap_or(Face::Lock)
    }

    /// How long the next call may wait.
    pub fn timeout(&mut self, manner: Manner) -> Duration {
        let ttl = self.ttl();
        match manner {
            Manner::Try => Duration::ZERO,
            _ if self.dice.chance(0.1) => Duration::ZERO,
            _ => self.dice.log(MS, 3 * ttl),
        }
    }

    /// The result of the call, or `None` if the client drops the call before it ends.
    pub async fn or_goes<T>(&mut self, manner: Manner, asked: impl Future<Output = T>) -> Option<T> {
        if !matches!(manner, Manner::Cancel) {
            return Some(asked.await);
        }
        let ttl = self.ttl();
        let patience = self.dice.log(MS / 10, 2 * ttl);
        tokio::select! {
            biased;
            () = self.world.sleep(patience) => None,
            got = asked => Some(got),
        }
    }

    async fn some_lock(&mut self) {
        let manner = self.manner();
        let timeout = self.timeout(manner);
        let ask = self.ask(timeout, false);
        match manner {
            Manner::Run => self.run(&ask).await,
            Manner::Cancel => match self.or_goes(manner, ask.lock.acquire(timeout)).await {
                Some(guard) => self.got(&ask, guard.map(Some)).await,
                None => self.went(&ask),
            },
            Manner::Try => {
                let guard = ask.lock.try_acquire().await;
                self.got(&ask, guard).await;
            }
            Manner::Wait => {
                let guard = ask.lock.acquire(timeout).await.map(Some);
                self.got(&ask, guard).await;
            }
        }
    }

    /// After all faults have ended, each caller must get the lock.
    pub async fn last(&mut self, patience: Duration) {
        if self.has_permits() {
            return self.last_permit(patience).await;
        }
        if self.world.core.lock().unwrap().plan.once > 0.0 {
            return self.last_period(patience).await;
        }
        if self.has_sessions() && self.dice.chance(0.5) {
            return self.last_session(patience).await;
        }
        let ask = self.ask(patience, true);
        match ask.lock.acquire(patience).await {
            Ok(guard) => {
                let watch = self.acquired(&ask, guard.lease());
                self.world.sleep(MS).await;
                self.end(guard, &watch, Ending::Release).await;
            }
            Err(error) => self.failed(&ask, &error),
        }
    }

    pub fn ttl(&self) -> Duration {
        self.world.core.lock().unwrap().processes[self.process].ttl
    }

    fn ask(&mut self, timeout: Duration, must: bool) -> Ask {
        let names = self.world.core.lock().unwrap().plan.names;
        let mut names = self.names(names);
        let (options, round) = self.options(must);
        // The order of the names must not matter.
        if self.dice.chance(0.5) {
            names.reverse();
        }
        let shared = self.reads();
        self.ask_for(&names, shared, &options, round, timeout, must)
    }

    /// Options for a lock, and how long one of its rounds may last.
    pub fn options(&mut self, must: bool) -> (LockOptions, Duration) {
        let core = self.world.core.lock().unwrap();
        let (ttl, renew) = (core.processes[self.process].ttl, core.plan.auto_renew);
        drop(core);
        let ttl = if self.dice.chance(0.5) { ttl } else { ttl.mul_f64(0.5 + self.dice.share() / 2.0) };
        let ttl = Duration::from_millis(ttl.as_millis() as u64).max(100 * MS);
        let mut options =
            LockOptions::default().ttl(ttl).auto_renew(self.dice.chance(renew)).fair(self.dice.chance(0.85));
        let mut round = (ttl - ttl / 100 - 2 * MS) / 3;
        if !must && self.dice.chance(0.3) {
            round = self.round_time(ttl);
            options = options.round_timeout(round);
        }
        if self.dice.chance(0.1) {
            options = options.max_hold(ttl.mul_f64(1.0 + self.dice.share()));
        }
        (options, round)
    }

    /// Whether the client acquires as a reader, if the plan has readers.
    fn reads(&mut self) -> bool {
        let readers = self.world.core.lock().unwrap().plan.readers;
        readers > 0.0 && self.dice.chance(readers)
    }

    pub fn some_name(&mut self) -> u8 {
        let names = self.world.core.lock().unwrap().plan.names;
        self.dice.index(names as usize) as u8
    }

    /// One of the first `many` names, or several of them if the plan has sets.
    fn names(&mut self, many: u8) -> Vec<u8> {
        let sets = self.world.core.lock().unwrap().plan.sets;
        let first = self.dice.index(many as usize) as u8;
        if many == 1 || sets == 0.0 || !self.dice.chance(sets) {
            return vec![first];
        }
        let share = self.dice.pick(&[0.5, 1.0]);
        (0..many).filter(|&name| name == first || self.dice.chance(share)).collect()
    }

    /// A random round timeout. In three of ten cases it is almost as long as the ttl allows.
    fn round_time(&mut self, ttl: Duration) -> Duration {
        let most = (ttl - ttl / 100 - 2 * MS).min(MAX_ROUND);
        let least = if self.dice.chance(0.3) { 0.9 } else { 0.02 };
        most.mul_f64(least + (1.0 - least) * self.dice.share())
    }

    /// Records a call for these names. Each round of the call lasts for `round` at most.
    pub fn ask_for(
        &self,
        names: &[u8],
        shared: bool,
        options: &LockOptions,
        round: Duration,
        timeout: Duration,
        must: bool,
    ) -> Ask {
        let texts = names.iter().map(|&name| format!("lock-{}", char::from(b'a' + name)));
        let lock = self.quorum.lock_all_with(texts, options).expect("the plan's options make sense");
        let lock = if shared { lock.as_reader() } else { lock };
        let number = |&name: &u8| (name, self.world.leases.asks.fetch_add(1, Ordering::Relaxed));
        let ask = Ask { parts: names.iter().map(number).collect(), lock, timeout, shared, round };
        // After `timeout`, the call may take three more rounds. Two are for the turn in this
        // process and a split of the votes, and one is to ask who holds the name. The 0.6 % and the
        // 8 ms allow for slow clocks and whole milliseconds.
        let by = self.world.now() + micros((timeout + 3 * round + self.listens()).mul_f64(1.006) + 8 * MS);
        self.record_each(&ask, |process, name, ask| What::Asked { process, ask, name, by, must });
        ask
    }

    /// How long a refused caller may wait for the holder's note, if holders may have notes.
    fn listens(&self) -> Duration {
        let plan = &self.world.core.lock().unwrap().plan;
        // The holder of a period may have a note, too.
        if plan.elections > 0.0 || plan.once > 0.0 { 500 * MS } else { Duration::ZERO }
    }

    async fn got(&mut self, ask: &Ask, guard: quorumlock::Result<Option<LockGuard>>) {
        match guard {
            Ok(Some(guard)) => self.hold(ask, guard).await,
            Ok(None) => self.denied(ask),
            Err(error) => self.failed(ask, &error),
        }
    }

    /// Records that the client dropped its call.
    pub fn went(&self, ask: &Ask) {
        self.record_each(ask, |process, name, ask| What::Cancelled { process, ask, name });
    }

    /// Records a try that returned `None`, which means that others hold the name.
    pub fn denied(&self, ask: &Ask) {
        self.refused(ask);
        if let [(name, _)] = ask.parts[..] {
            self.record(|process| What::Denied { process, name });
        }
    }

    /// Records that the call failed because others hold the name.
    pub fn refused(&self, ask: &Ask) {
        let (unavailable, kept_out) = (false, false);
        self.record_each(ask, |process, name, ask| What::Failed { process, ask, name, unavailable, kept_out });
    }

    pub fn failed(&self, ask: &Ask, error: &Error) {
        let unavailable = error.is_unavailable();
        let kept_out = is_kept_out(error);
        self.record_each(ask, |process, name, ask| What::Failed { process, ask, name, unavailable, kept_out });
    }

    pub fn acquired(&self, ask: &Ask, lease: Lease) -> Watch {
        let (count, token) = (&self.world.leases.count, lease.token());
        let parts: Vec<_> = ask.parts.iter().map(|&(name, _)| (name, count.fetch_add(1, Ordering::Relaxed))).collect();
        let (shared, round) = (ask.shared, ask.round);
        let owners: Vec<_> = ask.parts.iter().map(|&(name, _)| lease.owner(&self.text(name)).to_owned()).collect();
        let (number, lease) = (parts[0].1, Held::Lock(lease));
        let watch = Watch { process: self.process, number, parts, lease, shared, round };
        // First record what other holders of these names believe at this moment.
        self.world.leases.sample(&self.world, |other| other.is_on(&watch.parts));
        let until = watch.until(&self.world);
        for ((&(name, ask), &(_, lease)), owner) in ask.parts.iter().zip(&watch.parts).zip(owners) {
            let owner = Some(self.world.core.lock().unwrap().history.owner(self.process as u16, &owner));
            self.record(|process| What::Acquired { process, ask, name, lease, token, until, shared, owner });
        }
        self.world.leases.watched.lock().unwrap().push(watch.clone());
        watch
    }

    async fn hold(&mut self, ask: &Ask, guard: LockGuard) {
        let watch = self.acquired(ask, guard.lease());
        let lease = guard.lease();
        let told = watched(self.section(&guard, &watch), lease.lost(), || self.lost(&watch)).await;
        if told {
            return self.keeps_lost(guard, &watch).await;
        }
        let ending = self.ending();
        self.end(guard, &watch, ending).await;
    }

    /// Keeps the guard of a lost lock for a while: the lock must stay lost.
    pub async fn keeps_lost(&mut self, guard: impl Sized, watch: &Watch) {
        let ttl = self.ttl();
        let pause = self.dice.log(MS, 2 * ttl);
        self.world.sleep(pause).await;
        self.sample(watch);
        self.lets_go(watch);
        drop(guard);
        self.world.leases.remove(watch.number);
    }

    pub fn ending(&mut self) -> Ending {
        self.dice.weighed(&[(6, Ending::Release), (2, Ending::Drop), (1, Ending::Abandon)])
    }

    pub async fn end(&self, guard: LockGuard, watch: &Watch, ending: Ending) {
        self.ends(watch, ending, guard, LockGuard::release).await;
    }

    /// Gives up a lease: waits for the release, drops the guard, or only begins the release.
    pub async fn ends<G, R: Future<Output = quorumlock::Result<Released>>>(
        &self,
        watch: &Watch,
        ending: Ending,
        guard: G,
        release: impl FnOnce(G) -> R,
    ) {
        self.sample(watch);
        self.released(watch);
        match ending {
            Ending::Release => {
                let came = release(guard).await;
                self.told(std::slice::from_ref(watch), &came);
            }
            Ending::Drop => drop(guard),
            Ending::Abandon => {
                let mut release = pin!(release(guard));
                std::future::poll_fn(|context| {
                    let _ = release.as_mut().poll(context);
                    Poll::Ready(())
                })
                .await;
            }
        }
        self.sample(watch);
        self.world.leases.remove(watch.number);
    }

    /// Records the result of one call that released these leases.
    pub fn told(&self, watches: &[Watch], came: &quorumlock::Result<Released>) {
        let told = match came {
            Ok(Released::Released) => Told::Released,
            Ok(Released::AlreadyExpired) => Told::Expired,
            Err(error) if error.is_unavailable() => Told::Unconfirmed,
            Err(_) => return,
        };
        let all = || watches.iter().flat_map(|watch| watch.parts.iter().map(move |part| (part, watch.round)));
        let last = all().count();
        for (number, (&(name, lease), round)) in (1..).zip(all()) {
            let (more, round) = (number < last, micros(round));
            self.record(|process| What::ReleaseTold { process, name, lease, told, round, more });
        }
    }

    async fn run(&mut self, ask: &Ask) {
        let seen = Mutex::new(None);
        let mut inner = self.another();
        let result = ask
            .lock
            .run(ask.timeout, |lease| {
                let watch = self.acquired(ask, lease);
                *seen.lock().unwrap() = Some(watch.clone());
                async move {
                    let _inside = Inside { world: inner.world.clone(), watch: watch.clone() };
                    inner.work(&watch).await;
                    inner.sample(&watch);
                    let held = watch.lease.is_held();
                    if held {
                        inner.released(&watch);
                    }
                    held
                }
            })
            .await;
        let watch = seen.lock().unwrap().take();
        match (watch, result) {
            (Some(watch), result) => {
                if !matches!(result, Ok(true)) {
                    self.lost(&watch);
                }
                self.sample(&watch);
                self.world.leases.remove(watch.number);
            }
            (None, Err(error)) => self.failed(ask, &error),
            (None, Ok(_)) => unreachable!("a body that ran was seen"),
        }
    }

    /// Another client of the same process, with its own dice, for work under this client's lock.
    pub fn another(&mut self) -> Self {
        Self::new(self.world.clone(), self.process, self.quorum.clone(), self.dice.fork())
    }

    pub fn text(&self, name: u8) -> String {
        self.world.core.lock().unwrap().plan.name_of(name)
    }

    /// Works under the lock, sometimes with a second guard of the same lock.
    fn section<'a>(&self, guard: &'a LockGuard, watch: &Watch) -> impl Future<Output = ()> + use<'a> {
        let mut inner = Self::new(self.world.clone(), self.process, self.quorum.clone(), self.section_dice(watch));
        let watch = watch.clone();
        async move {
            let second = if inner.dice.chance(0.1) { guard.reenter().ok() } else { None };
            inner.work(&watch).await;
            if let Some(second) = second {
                if inner.dice.chance(0.5) {
                    drop(second.release().await);
                } else {
                    drop(second);
                }
                inner.sample(&watch);
                inner.write(&watch);
            }
        }
    }

    fn section_dice(&self, watch: &Watch) -> Dice {
        let mut dice = self.dice.clone();
        Dice::new(dice.next() ^ u64::from(watch.number))
    }

    pub async fn work(&mut self, watch: &Watch) {
        let (sections, ttl) = {
            let core = self.world.core.lock().unwrap();
            (core.plan.sections, core.processes[self.process].ttl)
        };
        let weighed: Vec<_> = sections.into_iter().zip(0..).collect();
        self.write(watch);
        let pause = match self.dice.weighed(&weighed) {
            0 => self.dice.log(MS / 10, 10 * MS),
            1 => self.dice.log(MS, ttl / 2),
            2 => self.dice.log(ttl, 3 * ttl),
            3 => self.edge(watch),
            _ => 4 * ttl,
        };
        self.rest(watch, pause).await;
        self.write(watch);
    }

    /// A pause that ends just before the validity ends, or a little after.
    fn edge(&mut self, watch: &Watch) -> Duration {
        let left = watch.lease.remaining() + 3 * MS;
        let early = self.dice.log(MS / 100, 20 * MS);
        left.saturating_sub(early)
    }

    /// Waits, and checks the lease now and then.
    async fn rest(&mut self, watch: &Watch, pause: Duration) {
        let end = self.world.now() + micros(pause);
        let looks = self.dice.index(4) as u32;
        for _ in 0..looks {
            let left = Duration::from_micros(end.saturating_sub(self.world.now()));
            let step = left.mul_f64(self.dice.share());
            self.world.sleep(step).await;
            self.sample(watch);
        }
        let left = end.saturating_sub(self.world.now());
        self.world.sleep(Duration::from_micros(left)).await;
        self.sample(watch);
    }

    /// Writes, unless the holder is a reader. Most writes check the lease first. Some do not, and
    /// rely on storage that checks the token.
    pub fn write(&mut self, watch: &Watch) {
        if watch.shared {
            return;
        }
        if self.dice.chance(0.1) || watch.lease.is_held() {
            let process = self.process;
            let write = |&(name, lease): &(u8, u32)| Write { process, name, lease, token: watch.lease.token(name) };
            watch.parts.iter().for_each(|part| self.world.write(write(part)));
        }
    }

    pub fn sample(&self, watch: &Watch) {
        watch.sample(&self.world);
    }

    pub fn released(&self, watch: &Watch) {
        for &(name, lease) in &watch.parts {
            self.record(|process| What::Released { process, name, lease });
        }
    }

    pub fn lost(&self, watch: &Watch) {
        let expired = watch.lease.lost() == Some(LostReason::Expired);
        for &(name, lease) in &watch.parts {
            self.record(|process| What::LostTold { process, name, lease, expired });
        }
        self.sample(watch);
    }

    /// Records that the work under a lost lock has ended.
    pub fn lets_go(&self, watch: &Watch) {
        watch.lets_go(&self.world);
    }

    fn record_each(&self, ask: &Ask, what: impl Fn(u16, u8, u32) -> What) {
        ask.parts.iter().for_each(|&(name, number)| self.record(|process| what(process, name, number)));
    }

    pub fn record(&self, what: impl FnOnce(u16) -> What) {
        self.world.record(what(self.process as u16));
    }
}

/// Whether the error says that another list is in force on a node.
pub fn is_kept_out(error: &Error) -> bool {
    error.is_unavailable() && error.nodes().iter().any(|report| report.cause == NodeCause::OtherList)
}

/// Runs `body` to its end. Calls `tell` when `lost` ends. Returns whether `lost` has ended.
pub async fn watched(body: impl Future<Output = ()>, lost: impl Future, tell: impl Fn()) -> bool {
    let (mut body, mut lost) = (pin!(body), pin!(lost));
    let mut told = false;
    std::future::poll_fn(|context| {
        if !told && lost.as_mut().poll(context).is_ready() {
            told = true;
            tell();
        }
        body.as_mut().poll(context).map(|()| told)
    })
    .await
}

/// The time by which all clients have finished, if the library keeps its promises.
pub fn bound(world: &World) -> Micros {
    let core = world.core.lock().unwrap();
    let plan = &core.plan;
    micros(plan.length + 12 * plan.ttl + 3 * plan.patience())
}
