//! The table of clients and of the locks that the agent holds for them. It uses no async and no
//! clock. Each lock in the table ends if its client dies: with its connection, or after `keep_ms`.
//!
//! Methods return the guards of locks that end. The caller releases these locks after it has
//! unlocked the table, because a release calls the library.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use quorumlock::LostReason;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::terms::{ClientId, Ended, Peer, Terms};

/// How many locks that ended are remembered, and for how long.
const REMEMBERED: usize = 4_096;
const REMEMBERED_FOR: Duration = Duration::from_secs(300);
/// A lock takes up one more place for this many bytes of its names and value.
const PLACE: usize = 1_024;

/// The bounds of the agent. Locks count by their [`places`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) clients: usize,
    /// Connections of one uid.
    pub(super) user_clients: usize,
    pub(super) locks: usize,
    /// Locks of one uid.
    pub(super) user_locks: usize,
    /// Locks that one connection has taken and that end with it.
    pub(super) client_locks: usize,
    /// Streams of events. One uid may have three quarters of them.
    pub(super) streams: usize,
}

/// Locks that have ended, with the reason of each, and the time of the next check.
pub(super) type Lapsed<G> = (Vec<(Ended, G)>, Option<Instant>);

/// How many places a lock takes up: one for each name, and one for each KiB.
pub(super) fn places(names: &[String], value: &str) -> usize {
    let bytes = names.iter().map(String::len).sum::<usize>() + value.len();
    names.len() + bytes / PLACE
}

/// The option whose bound was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooMany(pub(super) &'static str);

/// Why there is no lock with an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// The lock never existed, was released, is forgotten, or belongs to another uid.
    Unknown,
    Ended(Ended),
}

pub(super) struct Entry<G> {
    pub(super) terms: Terms,
    pub(super) guard: G,
    /// Is cancelled when the entry leaves the table.
    pub(super) ended: CancellationToken,
    places: usize,
    /// When to check next whether the lock has ended. With the id, this is the lock's key in
    /// `Table::looks`. A `keep` does not change this time.
    look: Instant,
}

struct Client {
    uid: Option<u32>,
    locks: HashSet<Uuid>,
    /// How many [`places`] these locks take up.
    places: usize,
}

/// The counts of one uid. All clients over TCP count as one uid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct User {
    clients: usize,
    /// How many [`places`] its locks take up, and its acquisitions that are under way.
    places: usize,
    /// The streams of events that this uid has open.
    streams: usize,
}

/// A lock that the agent ended lately.
struct Past {
    id: Uuid,
    uid: Option<u32>,
    how: Ended,
    at: Instant,
}

pub(super) struct Table<G> {
    limits: Limits,
    clients: HashMap<ClientId, Client>,
    last_client: ClientId,
    users: HashMap<Option<u32>, User>,
    locks: HashMap<Uuid, Entry<G>>,
    looks: BTreeSet<(Instant, Uuid)>,
    past: VecDeque<Past>,
    stopped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) clients: usize,
    pub(super) locks: usize,
}

impl<G> Table<G> {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            clients: HashMap::new(),
            last_client: 0,
            users: HashMap::new(),
            locks: HashMap::new(),
            looks: BTreeSet::new(),
            past: VecDeque::new(),
            stopped: false,
        }
    }

    pub(super) fn sizes(&self) -> Sizes {
        Sizes { clients: self.clients.len(), locks: self.locks.len() }
    }

    pub(super) fn enter(&mut self, uid: Option<u32>) -> Result<ClientId, TooMany> {
        if self.clients.len() >= self.limits.clients {
            return Err(TooMany("max-clients"));
        }
        if self.user(uid).clients >= self.limits.user_clients {
            return Err(TooMany("max-user-clients"));
        }
        self.charge(uid, |user| user.clients += 1);
        self.last_client += 1;
        let client = Client { uid, locks: HashSet::new(), places: 0 };
        self.clients.insert(self.last_client, client);
        Ok(self.last_client)
    }

    /// Removes a connection. Its locks end, except those that `cut` has kept.
    pub(super) fn leave(&mut self, client: ClientId, now: Instant) -> Vec<G> {
        let Some(client) = self.clients.remove(&client) else { return Vec::new() };
        self.charge(client.uid, |user| user.clients -= 1);
        let ends = |id: &Uuid| self.locks.get(id).is_some_and(|entry| entry.terms.ends_with_connection());
        let ending: Vec<_> = client.locks.into_iter().filter(ends).collect();
        ending.into_iter().filter_map(|id| self.end(id, Ended::Disconnected, now)).collect()
    }

    /// Notes that the agent closes this connection. Its locks stay until the last deadlines in the
    /// answers to their clients.
    pub(super) fn cut(&mut self, client: ClientId, now: Instant) {
        let locks: Vec<_> = self.clients.get(&client).map_or_else(Vec::new, |it| it.locks.iter().copied().collect());
        for id in locks {
            if let Some(entry) = self.locks.get_mut(&id) {
                entry.terms.cut();
            }
            self.look_again(id, now);
        }
    }

    /// The number of locks that end with this connection.
    pub(super) fn locks_of(&self, client: ClientId) -> usize {
        self.clients.get(&client).map_or(0, |client| client.locks.len())
    }

    /// Reserves places for a lock that is about to be acquired. If `client` is given, the lock ends
    /// with this connection.
    pub(super) fn reserve(&mut self, uid: Option<u32>, client: Option<ClientId>, places: usize) -> Result<(), TooMany> {
        self.has_room(uid, client, places)?;
        self.charge(uid, |user| user.places += places);
        Ok(())
    }

    /// Gives reserved places back, whether or not a lock was added.
    pub(super) fn give_back(&mut self, uid: Option<u32>, places: usize) {
        self.charge(uid, |user| user.places -= places);
    }

    fn has_room(&self, uid: Option<u32>, client: Option<ClientId>, places: usize) -> Result<(), TooMany> {
        let of_client = client.and_then(|client| self.clients.get(&client)).map_or(0, |client| client.places);
        if client.is_some() && of_client + places > self.limits.client_locks {
            return Err(TooMany("max-client-locks"));
        }
        if self.users.values().map(|user| user.places).sum::<usize>() + places > self.limits.locks {
            return Err(TooMany("max-locks"));
        }
        if self.user(uid).places + places > self.limits.user_locks {
            return Err(TooMany("max-user-locks"));
        }
        Ok(())
    }

    pub(super) fn open_stream(&mut self, uid: Option<u32>) -> Result<(), TooMany> {
        let limit = self.limits.streams;
        let all = self.users.values().map(|user| user.streams).sum::<usize>();
        if all >= limit || self.user(uid).streams >= three_quarters(limit) {
            return Err(TooMany("max-streams"));
        }
        self.charge(uid, |user| user.streams += 1);
        Ok(())
    }

    pub(super) fn close_stream(&mut self, uid: Option<u32>) {
        self.charge(uid, |user| user.streams -= 1);
    }

    fn user(&self, uid: Option<u32>) -> User {
        self.users.get(&uid).copied().unwrap_or_default()
    }

    fn charge(&mut self, uid: Option<u32>, change: impl FnOnce(&mut User)) {
        let mut user = self.user(uid);
        change(&mut user);
        if user == User::default() {
            self.users.remove(&uid);
        } else {
            self.users.insert(uid, user);
        }
    }

    /// Adds a lock. Returns whether this lock must be checked before all others. Fails with the
    /// guard if the lock's connection was closed, or if the agent has stopped: then no client may
    /// get the lock.
    pub(super) fn add(&mut self, id: Uuid, terms: Terms, places: usize, guard: G, now: Instant) -> Result<bool, G> {
        if self.stopped {
            return Err(guard);
        }
        if let Some(client) = terms.client {
            let Some(client) = self.clients.get_mut(&client) else { return Err(guard) };
            client.locks.insert(id);
            client.places += places;
        }
        self.charge(terms.uid(), |user| user.places += places);
        let look = terms.look(now);
        self.looks.insert((look, id));
        self.locks.insert(id, Entry { terms, guard, ended: CancellationToken::new(), places, look });
        Ok(self.looks.first() == Some(&(look, id)))
    }

    /// From now on, the lock takes up at least `places` places. Never lowers this number: of two
    /// values that are sent at the same time, either may be stored last.
    pub(super) fn grow(&mut self, id: Uuid, places: usize) -> Result<(), TooMany> {
        let Some(entry) = self.locks.get(&id).filter(|entry| entry.places < places) else { return Ok(()) };
        let (uid, client, more) = (entry.terms.uid(), entry.terms.client, places - entry.places);
        self.has_room(uid, client, more)?;
        self.charge(uid, |user| user.places += more);
        if let Some(client) = client.and_then(|client| self.clients.get_mut(&client)) {
            client.places += more;
        }
        if let Some(entry) = self.locks.get_mut(&id) {
            entry.places = places;
        }
        Ok(())
    }

    /// The lock with this id, if this peer may use it.
    pub(super) fn find(&mut self, id: Uuid, peer: Peer, now: Instant) -> Result<&mut Entry<G>, Missing> {
        let Some(entry) = self.locks.get_mut(&id).filter(|entry| entry.terms.allow(peer)) else {
            return Err(missing(&self.past, self.stopped, id, peer));
        };
        match entry.terms.lapsed(now) {
            _ if self.stopped => Err(Missing::Ended(Ended::Stopping)),
            // `lapse` will remove the lock in a moment.
            Some(how) => Err(Missing::Ended(how)),
            None => Ok(entry),
        }
    }

    /// Removes the lock with this id, if this peer may use it. The caller must release the lock.
    pub(super) fn take(&mut self, id: Uuid, peer: Peer) -> Result<Entry<G>, Missing> {
        if !self.locks.get(&id).is_some_and(|entry| entry.terms.allow(peer)) {
            return Err(missing(&self.past, self.stopped, id, peer));
        }
        self.remove(id).ok_or(Missing::Unknown)
    }

    /// Ends locks whose time is over, and locks that were lost some time ago. Returns when to check
    /// again.
    pub(super) fn lapse(&mut self, now: Instant, lost: impl Fn(&G) -> Option<LostReason>) -> Lapsed<G> {
        let mut guards = Vec::new();
        while let Some(&(at, id)) = self.looks.first() {
            if at > now {
                return (guards, Some(at));
            }
            self.looks.pop_first();
            let how = self.locks.get(&id).and_then(|Entry { terms, guard, .. }| {
                let lost = || terms.is_stale(now).then(|| lost(guard)).flatten();
                terms.lapsed(now).or_else(|| lost().map(Ended::Lost))
            });
            match how {
                Some(how) => guards.extend(self.end(id, how, now).map(|guard| (how, guard))),
                None => self.look_again(id, now),
            }
        }
        (guards, None)
    }

    fn look_again(&mut self, id: Uuid, now: Instant) {
        let Some(entry) = self.locks.get_mut(&id) else { return };
        self.looks.remove(&(entry.look, id));
        entry.look = entry.terms.look(now);
        self.looks.insert((entry.look, id));
    }

    /// From now on, no client may use its locks, and no lock is added. Locks stay in the table
    /// until their clients release them.
    pub(super) const fn stop(&mut self) {
        self.stopped = true;
    }

    /// Removes all locks from the table, and returns their guards.
    pub(super) fn drain(&mut self) -> Vec<G> {
        self.looks.clear();
        self.locks.drain().map(|(_, entry)| entry.guard).collect()
    }

    /// Ends a lock, and remembers how it ended.
    fn end(&mut self, id: Uuid, how: Ended, now: Instant) -> Option<G> {
        let entry = self.remove(id)?;
        while self.past.front().is_some_and(|past| past.at + REMEMBERED_FOR < now) || self.past.len() >= REMEMBERED {
            self.past.pop_front();
        }
        self.past.push_back(Past { id, uid: entry.terms.uid(), how, at: now });
        Some(entry.guard)
    }

    fn remove(&mut self, id: Uuid) -> Option<Entry<G>> {
        let entry = self.locks.remove(&id)?;
        if let Some(client) = entry.terms.client.and_then(|client| self.clients.get_mut(&client)) {
            client.locks.remove(&id);
            client.places -= entry.places;
        }
        self.charge(entry.terms.uid(), |user| user.places -= entry.places);
        self.looks.remove(&(entry.look, id));
        entry.ended.cancel();
        Some(entry)
    }
}

/// Why there is no such lock. After the agent has stopped, nodes may still hold the lock, so the
/// answer must not say that the lock was released.
fn missing(past: &VecDeque<Past>, stopped: bool, id: Uuid, peer: Peer) -> Missing {
    let past = past.iter().rev().find(|past| past.id == id && past.uid == peer.uid);
    match past {
        Some(past) => Missing::Ended(past.how),
        None if stopped => Missing::Ended(Ended::Stopping),
        None => Missing::Unknown,
    }
}

/// How much one user may have, so that a quarter is left for others. At least one if `of` is not
/// zero.
pub(super) const fn three_quarters(of: usize) -> usize {
    of - of / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const ALICE: Peer = Peer { uid: Some(1), pid: None };
    const BOB: Peer = Peer { uid: Some(2), pid: None };

    /// A table whose guards are names.
    type Names = Table<&'static str>;

    fn table() -> Names {
        Table::new(Limits { clients: 4, user_clients: 2, locks: 6, user_locks: 4, client_locks: 2, streams: 4 })
    }

    fn add(table: &mut Names, client: Option<ClientId>, keep: Option<u64>, now: Instant) -> Uuid {
        let id = Uuid::from_u128(table.locks.len() as u128 + 1);
        let terms = Terms::new(ALICE.uid, client, keep.map(Duration::from_secs), now);
        table.add(id, terms, 1, "guard", now).unwrap();
        id
    }

    fn guards((ended, next): Lapsed<&'static str>) -> (Vec<&'static str>, Option<Instant>) {
        (ended.into_iter().map(|(_, guard)| guard).collect(), next)
    }

    fn lapse(table: &mut Names, now: Instant) -> (Vec<&'static str>, Option<Instant>) {
        guards(table.lapse(now, |_| None))
    }

    fn found(table: &mut Names, id: Uuid, peer: Peer, now: Instant) -> Result<(), Missing> {
        table.find(id, peer, now).map(|_| ())
    }

    #[test]
    fn locks_end_with_their_connection_and_untied_ones_do_not() {
        let (mut table, now) = (table(), Instant::now());
        let client = table.enter(ALICE.uid).unwrap();
        let tied = [add(&mut table, Some(client), None, now), add(&mut table, Some(client), Some(9), now)];
        let untied = add(&mut table, None, Some(9), now);
        let ended = table.find(tied[0], ALICE, now).map(|entry| entry.ended.clone()).unwrap_or_default();
        assert_eq!((table.locks_of(client), table.leave(client, now).len()), (2, 2));
        assert!(ended.is_cancelled());
        let gone = Err(Missing::Ended(Ended::Disconnected));
        assert!(tied.iter().all(|id| found(&mut table, *id, ALICE, now) == gone));
        assert!(table.find(untied, ALICE, now).is_ok());
        assert_eq!((table.sizes(), table.looks.len()), (Sizes { clients: 0, locks: 1 }, 1));
    }

    #[test]
    fn locks_of_a_cut_connection_stay_until_their_deadlines() {
        let (mut table, now) = (table(), Instant::now());
        let client = table.enter(ALICE.uid).unwrap();
        let id = add(&mut table, Some(client), None, now);
        table.find(id, ALICE, now).unwrap().terms.until(now, now, 20 * SECOND);
        table.cut(client, now);
        assert!(table.leave(client, now).is_empty());
        assert_eq!(found(&mut table, id, ALICE, now + 19 * SECOND), Ok(()));
        assert_eq!(lapse(&mut table, now + 19 * SECOND), (vec![], Some(now + 20 * SECOND)));
        assert_eq!(found(&mut table, id, ALICE, now + 20 * SECOND), Err(Missing::Ended(Ended::Disconnected)));
        assert_eq!(lapse(&mut table, now + 20 * SECOND), (vec!["guard"], None));
        assert_eq!(table.users.len(), 0);
    }

    #[test]
    fn lock_of_a_closed_connection_is_handed_back() {
        let (mut table, now) = (table(), Instant::now());
        let client = table.enter(ALICE.uid).unwrap();
        table.leave(client, now);
        let terms = Terms::new(ALICE.uid, Some(client), Some(SECOND), now);
        assert_eq!(table.add(Uuid::nil(), terms, 1, "guard", now), Err("guard"));
        assert_eq!((table.sizes(), table.looks.len()), (Sizes { clients: 0, locks: 0 }, 0));
    }

    #[test]
    fn locks_of_other_uids_are_unknown() {
        let (mut table, now) = (table(), Instant::now());
        let id = add(&mut table, None, Some(9), now);
        assert_eq!(found(&mut table, id, BOB, now), Err(Missing::Unknown));
        assert_eq!(table.take(id, BOB).map(|_| ()), Err(Missing::Unknown));
        assert_eq!(lapse(&mut table, now + 9 * SECOND).0.len(), 1);
        assert_eq!(found(&mut table, id, BOB, now), Err(Missing::Unknown));
        assert_eq!(found(&mut table, id, ALICE, now), Err(Missing::Ended(Ended::NotKept)));
    }

    #[test]
    fn lock_lapses_at_its_deadline_and_not_before() {
        let (mut table, now) = (table(), Instant::now());
        let id = add(&mut table, None, Some(9), now);
        table.find(id, ALICE, now).unwrap().terms.keep(now + SECOND, SECOND);
        assert_eq!(lapse(&mut table, now + 9 * SECOND), (vec![], Some(now + 10 * SECOND)));
        assert!(table.find(id, ALICE, now + 9 * SECOND).is_ok());
        // A late request does not revive a lock that the agent is about to end.
        let late = found(&mut table, id, ALICE, now + 10 * SECOND);
        assert_eq!(late, Err(Missing::Ended(Ended::NotKept)));
        assert_eq!(lapse(&mut table, now + 10 * SECOND), (vec!["guard"], None));
        assert_eq!(table.sizes().locks, 0);
    }

    #[test]
    fn lost_lock_leaves_the_table_some_time_after_its_deadline() {
        let (mut table, now) = (table(), Instant::now());
        let client = table.enter(ALICE.uid).unwrap();
        let id = add(&mut table, Some(client), None, now);
        let (_, look) = lapse(&mut table, now);
        let look = look.unwrap();
        assert_eq!(guards(table.lapse(look - SECOND, |_| Some(LostReason::Revoked))), (vec![], Some(look)));
        // A lock that was not lost stays.
        let (guards, next) = lapse(&mut table, look);
        assert!(guards.is_empty() && next > Some(look));
        let lost = vec![(Ended::Lost(LostReason::Revoked), "guard")];
        assert_eq!(table.lapse(next.unwrap(), |_| Some(LostReason::Revoked)), (lost, None));
        let lost = Err(Missing::Ended(Ended::Lost(LostReason::Revoked)));
        assert_eq!((found(&mut table, id, ALICE, now), table.locks_of(client)), (lost, 0));
    }

    #[test]
    fn released_lock_leaves_nothing_in_the_table() {
        let (mut table, now) = (table(), Instant::now());
        let client = table.enter(ALICE.uid).unwrap();
        let id = add(&mut table, Some(client), Some(9), now);
        let entry = table.take(id, ALICE).unwrap_or_else(|missing| panic!("{missing:?}"));
        assert!(entry.ended.is_cancelled());
        assert_eq!((table.locks_of(client), lapse(&mut table, now + 9 * SECOND)), (0, (vec![], None)));
        assert_eq!(found(&mut table, id, ALICE, now), Err(Missing::Unknown));
        table.leave(client, now);
        assert_eq!((table.looks.len(), table.users.len()), (0, 0));
    }

    #[test]
    fn earliest_deadline_is_reported() {
        let (mut table, now) = (table(), Instant::now());
        let terms = |keep| Terms::new(None, None, Some(keep * SECOND), now);
        let added =
            [9, 10, 8].map(|keep| table.add(Uuid::from_u128(keep.into()), terms(keep), 1, "guard", now).unwrap());
        assert_eq!(added, [true, false, true]);
        assert_eq!(lapse(&mut table, now), (vec![], Some(now + 8 * SECOND)));
    }

    #[test]
    fn names_and_bytes_take_up_places() {
        let places = |names: usize, bytes, value: &str| places(&vec!["x".repeat(bytes); names], value);
        assert_eq!([places(1, 9, ""), places(100, 9, ""), places(2, 600, "")], [1, 100, 3]);
        assert_eq!(places(1, 1, &"x".repeat(65_536)), 65);
    }

    #[test]
    fn connections_are_bounded() {
        let mut table = table();
        let clients = [(); 2].map(|()| table.enter(ALICE.uid).unwrap());
        assert_eq!(table.enter(ALICE.uid), Err(TooMany("max-user-clients")));
        assert!(table.enter(BOB.uid).is_ok() && table.enter(None).is_ok());
        assert_eq!(table.enter(BOB.uid), Err(TooMany("max-clients")));
        table.leave(clients[0], Instant::now());
        assert!(table.enter(ALICE.uid).is_ok());
    }

    #[test]
    fn places_are_bounded() {
        let (mut table, now) = (table(), Instant::now());
        let client = table.enter(ALICE.uid).unwrap();
        assert_eq!(table.reserve(ALICE.uid, Some(client), 3), Err(TooMany("max-client-locks")));
        add(&mut table, Some(client), None, now);
        assert_eq!(table.reserve(ALICE.uid, Some(client), 2), Err(TooMany("max-client-locks")));
        let untied = add(&mut table, None, Some(9), now);
        assert_eq!(table.reserve(ALICE.uid, None, 3), Err(TooMany("max-user-locks")));
        assert_eq!(table.grow(untied, 4), Err(TooMany("max-user-locks")));
        assert_eq!(table.grow(untied, 3), Ok(()));
        assert_eq!(
            [table.reserve(BOB.uid, None, 2), table.reserve(BOB.uid, None, 1)],
            [Ok(()), Err(TooMany("max-locks"))]
        );
        table.give_back(BOB.uid, 2);
        // A smaller value may come before a larger one that was sent earlier.
        assert_eq!(table.grow(untied, 1), Ok(()));
        assert_eq!(table.user(ALICE.uid), User { clients: 1, places: 4, streams: 0 });
        table.leave(client, now);
        lapse(&mut table, now + 9 * SECOND);
        assert!(table.users.is_empty());
    }

    #[test]
    fn streams_are_bounded() {
        let mut table = table();
        let [alice, bob] = [ALICE.uid, BOB.uid];
        assert_eq!([(); 4].map(|()| table.open_stream(alice).is_ok()), [true, true, true, false]);
        assert_eq!([(); 2].map(|()| table.open_stream(bob).is_ok()), [true, false]);
        table.close_stream(alice);
        assert_eq!(table.open_stream(bob), Ok(()));
        assert_eq!([0, 1, 3, 4_096].map(three_quarters), [0, 1, 3, 3_072]);
    }

    #[test]
    fn stopped_agent_keeps_locks_until_clients_let_go() {
        let (mut table, now) = (table(), Instant::now());
        let client = table.enter(ALICE.uid).unwrap();
        let ids = [(); 2].map(|()| add(&mut table, Some(client), None, now));
        let unaware = table.enter(ALICE.uid).unwrap();
        let left = add(&mut table, Some(unaware), None, now);
        table.stop();
        let stopping = Missing::Ended(Ended::Stopping);
        assert_eq!(found(&mut table, ids[0], ALICE, now), Err(stopping));
        assert!(table.take(ids[0], ALICE).is_ok());
        table.cut(unaware, now);
        assert_eq!((table.leave(client, now).len(), table.leave(unaware, now).len(), table.drain().len()), (1, 0, 1));
        assert_eq!(table.take(left, ALICE).map(|_| ()), Err(stopping), "the nodes still hold it");
        let late = Terms::new(ALICE.uid, None, Some(SECOND), now);
        assert_eq!(table.add(Uuid::nil(), late, 1, "guard", now), Err("guard"));
    }

    #[test]
    fn few_past_locks_are_remembered_for_a_while() {
        let (mut table, now) = (table(), Instant::now());
        for number in 0..REMEMBERED as u128 + 9 {
            let terms = Terms::new(None, None, Some(SECOND), now);
            table.add(Uuid::from_u128(number), terms, 1, "guard", now).unwrap();
        }
        lapse(&mut table, now + SECOND);
        assert_eq!(table.past.len(), REMEMBERED);
        let id = add(&mut table, None, Some(1), now);
        lapse(&mut table, now + SECOND + REMEMBERED_FOR + SECOND);
        assert_eq!((table.past.len(), table.past[0].id), (1, id));
    }
}
