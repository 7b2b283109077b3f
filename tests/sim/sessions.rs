//! What clients do with sessions. Clients lock names, and unlock some names again. Several clients
//! of one process may share a session. In the end, clients revoke, drop or lose the session.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use quorumlock::{Error, LockOptions, Released, Session};

use crate::book::{Book, Hand, Locked};
use crate::clients::{Client, Manner, Watch, is_kept_out, watched};
use crate::judge::history::What;
use crate::scenes::part::Part;
use crate::world::micros;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// How often a client joins a session of another client of its process, if there is one.
const SHARES: f64 = 0.5;
/// The share of sessions for which a separate task, and not the clients, waits for the loss.
const APART: f64 = 0.4;

/// One call that locks names of a session.
struct Asked {
    /// The names, each with the number of its ask.
    parts: Vec<(u8, u32)>,
    /// How many locks of the session had ended when the call began.
    since: usize,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Lock,
    Unlock,
    Work,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Revoke,
    /// Begins the revocation, and does not wait for its end.
    Abandon,
    /// Drops the handle. The drop of the last handle releases all locks.
    Drop,
}

/// One step of a session in a scene.
#[derive(Clone, Copy, Debug)]
pub enum Does {
    /// Locks these names, and must get them.
    Locks(&'static [u8]),
    /// Locks these names, and may fail.
    Tries(&'static [u8]),
    Unlocks(&'static [u8]),
    /// Holds its locks for this many milliseconds, plus a random time up to the second number.
    Holds(u64, u64),
    /// Waits for this many milliseconds, even if the session has ended.
    Keeps(u64),
    /// Records that all locks of the session must have been renewed at one moment.
    Together,
    Revokes,
    Drops,
}

impl Client {
    pub fn has_sessions(&self) -> bool {
        self.world.core.lock().unwrap().plan.sessions > 0.0
    }

    /// Uses a session for a while. Other clients of the process may share it.
    pub async fn some_session(&mut self) {
        let Some(hand) = self.some_handle().await else { return };
        let mut inner = self.another();
        if self.until_lost(&hand, inner.uses(&hand)).await {
            return self.keeps_ended(hand).await;
        }
        let end = self.dice.weighed(&[(4, End::Revoke), (1, End::Abandon), (4, End::Drop)]);
        self.gives_up(hand, end).await;
    }

    /// After all faults, each client must get a session, and a lock in it.
    pub async fn last_session(&mut self, patience: Duration) {
        let (options, round) = self.options(true);
        let Some(hand) = self.granted(&options, round, patience, Manner::Wait, true).await else { return };
        let names = self.some_names();
        let asked = self.asks_session(&hand, &names, patience, true);
        let got = hand.session.lock(self.texts(&names), patience).await;
        self.came(&hand, &asked, Some(got));
        self.world.sleep(MS).await;
        self.gives_up(hand, End::Revoke).await;
    }

    /// A part of a scene: grants a session, and takes these steps in it.
    pub async fn play_session(&mut self, part: Part, does: &[Does], round: Duration) {
        let options = part.options(self.ttl());
        let Some(hand) = self.granted(&options, round, SECOND, Manner::Wait, true).await else { return };
        let mut inner = self.another();
        let lost = self.until_lost(&hand, inner.plays(&hand, does, part.timeout)).await;
        if lost && part.must_keep {
            self.world.record(What::Unfinished { clients: 1 });
        }
        let end = if matches!(does.last(), Some(Does::Revokes)) { End::Revoke } else { End::Drop };
        self.gives_up(hand, end).await;
    }

    async fn plays(&mut self, hand: &Hand, does: &[Does], timeout: Duration) {
        for &what in does {
            match what {
                Does::Locks(names) | Does::Tries(names) => {
                    let asked = self.asks_session(hand, names, timeout, matches!(what, Does::Locks(_)));
                    let got = hand.session.lock(self.texts(names), timeout).await;
                    self.came(hand, &asked, Some(got));
                }
                Does::Unlocks(names) => self.unlock(hand, names, true).await,
                Does::Holds(least, more) => {
                    let last = least + self.dice.between(0, more + 1);
                    self.holds(hand, Duration::from_millis(last)).await;
                }
                Does::Keeps(last) => self.world.sleep(Duration::from_millis(last)).await,
                Does::Together => self.renewed_together(hand),
                Does::Revokes | Does::Drops => {}
            }
        }
    }

    /// Holds the session's locks, and checks them often.
    async fn holds(&mut self, hand: &Hand, last: Duration) {
        let end = self.world.now() + micros(last);
        let step = (self.ttl() / 16).max(MS);
        hand.book.held().iter().for_each(|watch| self.write(watch));
        while self.world.now() < end && hand.session.is_alive() {
            let left = Duration::from_micros(end - self.world.now());
            self.world.sleep(step.min(left)).await;
            hand.book.held().iter().for_each(|watch| self.sample(watch));
        }
    }

    fn renewed_together(&self, hand: &Hand) {
        for pair in hand.book.held().windows(2) {
            let (lease, other) = (pair[0].number, pair[1].number);
            self.record(|process| What::Together { process, lease, other });
        }
    }

    async fn some_handle(&mut self) -> Option<Hand> {
        if let Some(hand) = self.joins() {
            return Some(hand);
        }
        let (manner, (options, round)) = (self.manner(), self.options(false));
        let timeout = self.timeout(manner);
        self.granted(&options, round, timeout, manner, false).await
    }

    /// Joins a session that another client of this process has.
    fn joins(&mut self) -> Option<Hand> {
        let books = self.world.sessions.of(self.process);
        if books.is_empty() || !self.dice.chance(SHARES) {
            return None;
        }
        let book = books[self.dice.index(books.len())].clone();
        let session = self.quorum.join_session(&book.id)?;
        book.handles.fetch_add(1, Ordering::Relaxed);
        Some(Hand { session, book })
    }

    async fn granted(
        &mut self,
        options: &LockOptions,
        round: Duration,
        timeout: Duration,
        manner: Manner,
        must: bool,
    ) -> Option<Hand> {
        let asked = Asked { parts: self.asks(&[0], timeout, must), since: 0 };
        let builder = self.quorum.session().options(options.clone());
        match self.or_goes(manner, builder.grant(timeout)).await {
            Some(Ok(session)) => {
                self.tell_each(&asked, |process, ask, _| What::Begun { process, ask });
                return Some(self.begins(session, round));
            }
            Some(Err(error)) => self.refused_all(&asked, &error),
            None => self.tell_each(&asked, |process, ask, name| What::Cancelled { process, ask, name }),
        }
        None
    }

    /// Runs `body` to its end. Returns whether the session was lost before this end.
    async fn until_lost(&self, hand: &Hand, body: impl Future<Output = ()>) -> bool {
        if hand.book.apart {
            body.await;
        } else {
            watched(body, hand.session.lost(), || self.all_lost(&hand.book)).await;
        }
        hand.book.lost.load(Ordering::Relaxed)
    }

    fn begins(&mut self, session: Session, round: Duration) -> Hand {
        let book = Arc::new(Book::new(session.id(), round, self.dice.chance(APART)));
        self.world.sessions.add(self.process, &book);
        if book.apart {
            let (client, token, book) = (self.another(), session.cancellation(), book.clone());
            let told = async move {
                if book.over.run_until_cancelled(token.cancelled()).await.is_some() {
                    client.all_lost(&book);
                }
            };
            self.world.exec.spawn(self.process, Box::pin(told));
        }
        Hand { session, book }
    }

    /// Takes some steps, until the faults end. After a loss, some clients try further steps.
    async fn uses(&mut self, hand: &Hand) {
        let steps = 1 + self.dice.index(7);
        for _ in 0..steps {
            match self.dice.weighed(&[(4, Step::Lock), (2, Step::Unlock), (3, Step::Work)]) {
                Step::Lock => self.locks(hand).await,
                Step::Unlock => self.unlocks(hand).await,
                Step::Work => self.works(hand).await,
            }
            let over = !hand.session.is_alive() && self.dice.chance(0.6);
            if over || self.world.now() >= self.end_of_faults() {
                return;
            }
        }
    }

    async fn locks(&mut self, hand: &Hand) {
        let (manner, names) = (self.manner(), self.some_names());
        let (timeout, texts) = (self.timeout(manner), self.texts(&names));
        let asked = self.asks_session(hand, &names, timeout, false);
        let got = match manner {
            Manner::Try => Some(hand.session.try_lock(texts).await),
            Manner::Run => Some(hand.session.scope(below(texts, timeout)).await),
            Manner::Wait | Manner::Cancel => self.or_goes(manner, hand.session.lock(texts, timeout)).await,
        };
        self.came(hand, &asked, got);
    }

    /// Records the result of a call: either all names of the call are held, or the call added none.
    fn came(&self, hand: &Hand, asked: &Asked, got: Option<quorumlock::Result<()>>) {
        match got {
            Some(Ok(())) => self.has(hand, asked),
            Some(Err(error)) => self.refused_all(asked, &error),
            None => self.tell_each(asked, |process, ask, name| What::Cancelled { process, ask, name }),
        }
        self.agrees(hand);
    }

    /// Records that these names are held: by a new lease, or by a lease of an earlier call.
    fn has(&self, hand: &Hand, asked: &Asked) {
        let is_new = |&(name, _): &(u8, u32)| hand.book.lease(name).is_none();
        let new: Vec<_> = asked.parts.iter().copied().filter(is_new).collect();
        // First record what all holders believe now. The new locks may make this session's deadline
        // earlier than it was.
        self.world.leases.sample(&self.world, |other| other.is_on(&new));
        hand.book.held().iter().for_each(|watch| self.sample(watch));
        for &(name, ask) in &asked.parts {
            let token = hand.session.token(&self.text(name));
            match hand.book.lease(name) {
                Some(lease) => self.record(|process| What::Shares { process, ask, name, lease }),
                // The session had this name when the call began. Another call unlocked it while
                // this call waited for the other names.
                None if token.is_none() && hand.book.gave_up(name, asked.since) => {
                    self.record(|process| What::Cancelled { process, ask, name });
                }
                // 0 is no token: it makes the judge report that the session does not hold the name.
                None => self.has_new(hand, name, ask, token.unwrap_or(0)),
            }
        }
    }

    fn has_new(&self, hand: &Hand, name: u8, ask: u32, token: u64) {
        let (text, lease) = (self.text(name).into(), self.world.leases.count.fetch_add(1, Ordering::Relaxed));
        let locked = Locked { quorum: self.quorum.clone(), id: hand.book.id.clone(), text, token };
        let watch = Watch::of_session(self.process, name, lease, locked, hand.book.round);
        let (until, shared) = (watch.until(&self.world), false);
        let owner = hand.session.owner(&self.text(name));
        let owner = owner.map(|owner| self.world.core.lock().unwrap().history.owner(self.process as u16, &owner));
        self.record(|process| What::Acquired { process, ask, name, lease, token, until, shared, owner });
        self.world.leases.watched.lock().unwrap().push(watch.clone());
        hand.book.held.lock().unwrap().insert(name, watch);
    }

    /// Records each name for which `held` and the results of earlier calls disagree.
    fn agrees(&self, hand: &Hand) {
        if !hand.session.is_alive() {
            return;
        }
        let said: BTreeMap<String, u64> =
            hand.session.held().into_iter().map(|(text, token)| (text.to_string(), token)).collect();
        let held = hand.book.held();
        let known: BTreeMap<_, _> =
            held.iter().flat_map(Watch::tokens).map(|(name, _, token)| (self.text(name), token)).collect();
        for name in 0..self.many() {
            let text = self.text(name);
            if said.get(&text) != known.get(&text) {
                self.record(|process| What::HeldAmiss { process, name });
            }
        }
    }

    /// Unlocks some of the session's names, whichever client locked them.
    async fn unlocks(&mut self, hand: &Hand) {
        let held: Vec<_> = hand.book.held().iter().flat_map(Watch::names).collect();
        if held.is_empty() {
            return;
        }
        let first = self.dice.pick(&held);
        let names: Vec<_> = held.into_iter().filter(|&name| name == first || self.dice.chance(0.3)).collect();
        let waits = self.dice.chance(0.8);
        self.unlock(hand, &names, waits).await;
    }

    async fn unlock(&self, hand: &Hand, names: &[u8], waits: bool) {
        // A lost session frees nothing: its locks keep others out until its last handle is dropped.
        if !hand.session.is_alive() {
            return;
        }
        let ended = self.give(hand, |name| names.contains(&name));
        let freed = begun(hand.session.unlock(self.texts(names)), waits).await;
        self.freed(hand, &ended, freed);
    }

    /// Ends the locks on these names in the book. Returns these locks.
    fn give(&self, hand: &Hand, which: impl Fn(u8) -> bool) -> Vec<Watch> {
        hand.book.held().iter().for_each(|watch| self.sample(watch));
        let ended = hand.book.end(which);
        ended.iter().for_each(|watch| self.released(watch));
        ended
    }

    /// Records the result of the release.
    fn freed(&self, hand: &Hand, ended: &[Watch], freed: Option<quorumlock::Result<Released>>) {
        freed.iter().for_each(|came| self.told(ended, came));
        if matches!(freed, Some(Ok(Released::Released))) {
            for (name, lease, _) in ended.iter().flat_map(Watch::tokens) {
                self.record(|process| What::Freed { process, name, lease });
            }
        }
        ended.iter().for_each(|watch| self.sample(watch));
        self.agrees(hand);
    }

    async fn works(&mut self, hand: &Hand) {
        let held = hand.book.held();
        if held.is_empty() {
            let pause = self.think();
            return self.world.sleep(pause).await;
        }
        let watch = &held[self.dice.index(held.len())];
        self.work(watch).await;
        hand.book.held().iter().for_each(|watch| self.sample(watch));
    }

    /// Records the loss of the session for all its locks.
    fn all_lost(&self, book: &Book) {
        book.lost.store(true, Ordering::Relaxed);
        book.end(|_| true).iter().for_each(|watch| self.lost(watch));
    }

    /// Keeps a handle of a lost session for a while: the session must stay lost.
    async fn keeps_ended(&mut self, hand: Hand) {
        let ttl = self.ttl();
        let pause = self.dice.log(MS, 2 * ttl);
        self.world.sleep(pause).await;
        self.leaves(hand);
    }

    async fn gives_up(&self, hand: Hand, end: End) {
        if end != End::Drop {
            let ended = self.give(&hand, |_| true);
            self.lets_go_of_lost(&hand.book);
            let freed = begun(hand.session.revoke(), end == End::Revoke).await;
            self.freed(&hand, &ended, freed);
        }
        self.leaves(hand);
    }

    /// Records that the work under a lost session has ended.
    fn lets_go_of_lost(&self, book: &Book) {
        if book.lost.load(Ordering::Relaxed) {
            book.gone.lock().unwrap().iter().for_each(|watch| self.lets_go(watch));
        }
    }

    /// Drops a handle. With the last handle, the session's locks end.
    fn leaves(&self, hand: Hand) {
        let last = hand.book.handles.fetch_sub(1, Ordering::Relaxed) == 1;
        let Hand { session, book } = hand;
        if !last {
            return;
        }
        self.world.sessions.remove(self.process, &book);
        book.over.cancel();
        book.held().iter().for_each(|watch| self.sample(watch));
        book.end(|_| true).iter().for_each(|watch| self.released(watch));
        self.lets_go_of_lost(&book);
        drop(session);
        for watch in std::mem::take(&mut *book.gone.lock().unwrap()) {
            self.sample(&watch);
            self.world.leases.remove(watch.number);
        }
    }

    /// Some of the plan's names, in forward or reverse order.
    fn some_names(&mut self) -> Vec<u8> {
        let (many, first) = (self.many(), self.some_name());
        let share = self.dice.pick(&[0.0, 0.3, 1.0]);
        let mut names: Vec<_> = (0..many).filter(|&name| name == first || self.dice.chance(share)).collect();
        if self.dice.chance(0.5) {
            names.reverse();
        }
        names
    }

    fn many(&self) -> u8 {
        self.world.core.lock().unwrap().plan.names
    }

    fn think(&mut self) -> Duration {
        let think = self.world.core.lock().unwrap().plan.think;
        self.dice.around(think)
    }

    fn texts(&self, names: &[u8]) -> Vec<String> {
        names.iter().map(|&name| self.text(name)).collect()
    }

    /// Records a call that locks names. After `timeout`, the call may take three more rounds. Two
    /// are for the turn in this process and a split of the votes, and one is to ask who holds the
    /// name.
    fn asks_session(&self, hand: &Hand, names: &[u8], timeout: Duration, must: bool) -> Asked {
        Asked { parts: self.asks(names, timeout + 3 * hand.book.round, must), since: hand.book.over() }
    }

    fn asks(&self, names: &[u8], within: Duration, must: bool) -> Vec<(u8, u32)> {
        let by = self.world.now() + micros(within.mul_f64(1.006) + 8 * MS);
        let number = |&name: &u8| (name, self.world.leases.asks.fetch_add(1, Ordering::Relaxed));
        let parts: Vec<_> = names.iter().map(number).collect();
        for &(name, ask) in &parts {
            self.record(|process| What::Asked { process, ask, name, by, must });
        }
        parts
    }

    fn refused_all(&self, asked: &Asked, error: &Error) {
        let (unavailable, kept_out) = (error.is_unavailable(), is_kept_out(error));
        self.tell_each(asked, |process, ask, name| What::Failed { process, ask, name, unavailable, kept_out });
    }

    fn tell_each(&self, asked: &Asked, what: impl Fn(u16, u32, u8) -> What) {
        asked.parts.iter().for_each(|&(name, ask)| self.record(|process| what(process, ask, name)));
    }
}

/// Locks names in the session of the current scope. The caller does not pass the session.
async fn below(texts: Vec<String>, timeout: Duration) -> quorumlock::Result<()> {
    Session::current().expect("it is called within a scope").lock(texts, timeout).await
}

/// Waits for `work`. If `waits` is false, polls `work` only once.
async fn begun<T>(work: impl Future<Output = T>, waits: bool) -> Option<T> {
    if waits {
        return Some(work.await);
    }
    let mut work = pin!(work);
    std::future::poll_fn(|context| {
        let begun = work.as_mut().poll(context);
        Poll::Ready(match begun {
            Poll::Ready(came) => Some(came),
            Poll::Pending => None,
        })
    })
    .await
}
