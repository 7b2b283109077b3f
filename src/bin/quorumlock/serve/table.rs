//! The table of clients and of the locks that the agent holds for them. No async, no clock. A lock
//! in the table always has an owner: its connection, or the time by which it must be kept.
//!
//! Methods return the guards of locks that end. The caller drops them after it has unlocked the
//! table, since a drop calls the library.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::terms::{ClientId, Peer, Terms};

/// How many locks that ended are remembered, and for how long.
const REMEMBERED: usize = 4_096;
const REMEMBERED_FOR: Duration = Duration::from_secs(300);

/// The bounds of the agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) clients: usize,
    /// Locks in all.
    pub(super) locks: usize,
    /// Locks that one connection has taken and that end with it.
    pub(super) client_locks: usize,
}

/// A bound that was reached: the name of its option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooMany(pub(super) &'static str);

/// Why the agent ended a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Its client did not say in time that it lives.
    NotKept,
    /// The connection that had taken it was closed.
    Disconnected,
    /// The agent has stopped.
    Stopping,
}

/// Why there is no lock with an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// There was none, or it was released, or it belongs to another uid.
    Unknown,
    Ended(Ended),
}

pub(super) struct Entry<G> {
    pub(super) terms: Terms,
    pub(super) guard: G,
    /// Is cancelled when the entry leaves the table.
    pub(super) ended: CancellationToken,
    /// When to look whether the lock has lapsed, if it must be kept: its key in `Table::looks`. The
    /// lock may have been kept since then.
    look: Option<Instant>,
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
    clients: HashMap<ClientId, HashSet<Uuid>>,
    last_client: ClientId,
    locks: HashMap<Uuid, Entry<G>>,
    /// Acquisitions that are under way.
    pending: usize,
    looks: BTreeSet<(Instant, Uuid)>,
    past: VecDeque<Past>,
    stopped: bool,
}

/// How much is in the table.
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
            locks: HashMap::new(),
            pending: 0,
            looks: BTreeSet::new(),
            past: VecDeque::new(),
            stopped: false,
        }
    }

    pub(super) fn sizes(&self) -> Sizes {
        Sizes { clients: self.clients.len(), locks: self.locks.len() }
    }

    /// Adds a connection.
    pub(super) fn enter(&mut self) -> Result<ClientId, TooMany> {
        if self.clients.len() >= self.limits.clients {
            return Err(TooMany("max-clients"));
        }
        self.last_client += 1;
        self.clients.insert(self.last_client, HashSet::new());
        Ok(self.last_client)
    }

    /// Removes a connection. Its locks end.
    pub(super) fn leave(&mut self, client: ClientId, now: Instant) -> Vec<G> {
        let locks = self.clients.remove(&client).unwrap_or_default();
        locks.into_iter().filter_map(|id| self.end(id, Ended::Disconnected, now)).collect()
    }

    /// The number of locks that end with this connection.
    pub(super) fn locks_of(&self, client: ClientId) -> usize {
        self.clients.get(&client).map_or(0, HashSet::len)
    }

    /// The latest deadline that the client of this connection was told for one of its locks.
    pub(super) fn told(&self, client: ClientId) -> Option<Instant> {
        let locks = self.clients.get(&client)?;
        locks.iter().filter_map(|id| self.locks.get(id)?.terms.told()).max()
    }

    /// Reserves a place for a lock that is about to be acquired. If `client` is given, the lock
    /// ends with this connection.
    pub(super) fn reserve(&mut self, client: Option<ClientId>) -> Result<(), TooMany> {
        if client.is_some_and(|client| self.locks_of(client) >= self.limits.client_locks) {
            return Err(TooMany("max-client-locks"));
        }
        if self.locks.len() + self.pending >= self.limits.locks {
            return Err(TooMany("max-locks"));
        }
        self.pending += 1;
        Ok(())
    }

    /// Gives a reserved place back, whether or not a lock was added.
    pub(super) fn give_back(&mut self) {
        self.pending -= 1;
    }

    /// Adds a lock. Returns its id, and whether the lock lapses before all others. Returns the guard
    /// if its connection has been closed meanwhile.
    pub(super) fn add(&mut self, id: Uuid, terms: Terms, guard: G) -> Result<bool, G> {
        if let Some(client) = terms.client {
            let Some(locks) = self.clients.get_mut(&client) else { return Err(guard) };
            locks.insert(id);
        }
        let look = terms.keep_until();
        self.looks.extend(look.map(|look| (look, id)));
        self.locks.insert(id, Entry { terms, guard, ended: CancellationToken::new(), look });
        Ok(look.is_some() && self.looks.first() == look.map(|look| (look, id)).as_ref())
    }

    /// The lock with this id, if this peer may use it.
    pub(super) fn find(&mut self, id: Uuid, peer: Peer, now: Instant) -> Result<&mut Entry<G>, Missing> {
        let Some(entry) = self.locks.get_mut(&id).filter(|entry| entry.terms.allow(peer)) else {
            return Err(missing(&self.past, id, peer));
        };
        match entry.terms.has_lapsed(now) {
            _ if self.stopped => Err(Missing::Ended(Ended::Stopping)),
            // The lock ends in a moment.
            true => Err(Missing::Ended(Ended::NotKept)),
            false => Ok(entry),
        }
    }

    /// Removes the lock with this id, if this peer may use it. The caller releases it.
    pub(super) fn take(&mut self, id: Uuid, peer: Peer) -> Result<Entry<G>, Missing> {
        if !self.locks.get(&id).is_some_and(|entry| entry.terms.allow(peer)) {
            return Err(missing(&self.past, id, peer));
        }
        self.remove(id).ok_or(Missing::Unknown)
    }

    /// Ends the locks that were not kept. Returns when to look again.
    pub(super) fn lapse(&mut self, now: Instant) -> (Vec<G>, Option<Instant>) {
        let mut guards = Vec::new();
        while let Some(&(at, id)) = self.looks.first() {
            if at > now {
                return (guards, Some(at));
            }
            self.looks.pop_first();
            match self.locks.get_mut(&id) {
                Some(entry) if !entry.terms.has_lapsed(now) => {
                    entry.look = entry.terms.keep_until();
                    self.looks.extend(entry.look.map(|look| (look, id)));
                }
                _ => guards.extend(self.end(id, Ended::NotKept, now)),
            }
        }
        (guards, None)
    }

    /// From now on, no client may use its locks. They stay in the table until their clients let go.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }

    /// Empties the table: the guards of all locks.
    pub(super) fn drain(&mut self) -> Vec<G> {
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
        if let Some(locks) = entry.terms.client.and_then(|client| self.clients.get_mut(&client)) {
            locks.remove(&id);
        }
        if let Some(look) = entry.look {
            self.looks.remove(&(look, id));
        }
        entry.ended.cancel();
        Some(entry)
    }
}

fn missing(past: &VecDeque<Past>, id: Uuid, peer: Peer) -> Missing {
    let past = past.iter().rev().find(|past| past.id == id && past.uid == peer.uid);
    past.map_or(Missing::Unknown, |past| Missing::Ended(past.how))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const ALICE: Peer = Peer { uid: Some(1), pid: None };
    const BOB: Peer = Peer { uid: Some(2), pid: None };

    /// A table whose guards are names.
    fn table() -> Table<&'static str> {
        Table::new(Limits { clients: 2, locks: 3, client_locks: 2 })
    }

    fn add(table: &mut Table<&'static str>, client: Option<ClientId>, keep: Option<u64>, now: Instant) -> Uuid {
        let id = Uuid::from_u128(table.locks.len() as u128 + 1);
        let terms = Terms::new(ALICE.uid, client, keep.map(Duration::from_secs), now);
        table.add(id, terms, "guard").unwrap();
        id
    }

    #[test]
    fn locks_end_with_their_connection_and_untied_ones_do_not() {
        let (mut table, now) = (table(), Instant::now());
        let client = table.enter().unwrap();
        let tied = [add(&mut table, Some(client), None, now), add(&mut table, Some(client), Some(9), now)];
        let untied = add(&mut table, None, Some(9), now);
        let ended = table.find(tied[0], ALICE, now).map(|entry| entry.ended.clone()).unwrap_or_default();
        assert_eq!((table.locks_of(client), table.leave(client, now).len()), (2, 2));
        assert!(ended.is_cancelled());
        let gone = Err(Missing::Ended(Ended::Disconnected));
        assert!(tied.iter().all(|id| table.find(*id, ALICE, now).map(|_| ()) == gone));
        assert!(table.find(untied, ALICE, now).is_ok());
        assert_eq!((table.sizes(), table.looks.len()), (Sizes { clients: 0, locks: 1 }, 1));
    }

    #[test]
    fn lock_of_a_closed_connection_is_handed_back() {
        let (mut table, now) = (table(), Instant::now());
        let client = table.enter().unwrap();
        table.leave(client, now);
        let terms = Terms::new(ALICE.uid, Some(client), Some(SECOND), now);
        assert_eq!(table.add(Uuid::nil(), terms, "guard"), Err("guard"));
        assert_eq!((table.sizes(), table.looks.len()), (Sizes { clients: 0, locks: 0 }, 0));
    }

    #[test]
    fn locks_of_other_uids_are_unknown() {
        let (mut table, now) = (table(), Instant::now());
        let id = add(&mut table, None, Some(9), now);
        assert_eq!(table.find(id, BOB, now).map(|_| ()), Err(Missing::Unknown));
        assert_eq!(table.take(id, BOB).map(|_| ()), Err(Missing::Unknown));
        assert_eq!(table.lapse(now + 9 * SECOND).0.len(), 1);
        assert_eq!(table.find(id, BOB, now).map(|_| ()), Err(Missing::Unknown));
        assert_eq!(table.find(id, ALICE, now).map(|_| ()), Err(Missing::Ended(Ended::NotKept)));
    }

    #[test]
    fn lock_lapses_at_its_deadline_and_not_before() {
        let (mut table, now) = (table(), Instant::now());
        let id = add(&mut table, None, Some(9), now);
        table.find(id, ALICE, now).unwrap().terms.keep(now + SECOND);
        assert_eq!(table.lapse(now + 9 * SECOND), (vec![], Some(now + 10 * SECOND)));
        assert!(table.find(id, ALICE, now + 9 * SECOND).is_ok());
        // A late keep does not revive a lock that the agent is about to end.
        let late = table.find(id, ALICE, now + 10 * SECOND).map(|_| ());
        assert_eq!(late, Err(Missing::Ended(Ended::NotKept)));
        assert_eq!(table.lapse(now + 10 * SECOND), (vec!["guard"], None));
        assert_eq!(table.sizes().locks, 0);
    }

    #[test]
    fn nothing_is_left_of_a_released_lock() {
        let (mut table, now) = (table(), Instant::now());
        let client = table.enter().unwrap();
        let id = add(&mut table, Some(client), Some(9), now);
        let entry = table.take(id, ALICE).unwrap_or_else(|missing| panic!("{missing:?}"));
        assert!(entry.ended.is_cancelled());
        assert_eq!((table.looks.len(), table.locks_of(client), table.lapse(now + 9 * SECOND)), (0, 0, (vec![], None)));
        assert_eq!(table.find(id, ALICE, now).map(|_| ()), Err(Missing::Unknown));
    }

    #[test]
    fn earliest_deadline_is_reported() {
        let (mut table, now) = (table(), Instant::now());
        let terms = |keep| Terms::new(None, None, Some(keep * SECOND), now);
        let added = [9, 10, 8].map(|keep| table.add(Uuid::from_u128(keep.into()), terms(keep), "guard").unwrap());
        assert_eq!(added, [true, false, true]);
        assert_eq!(table.lapse(now), (vec![], Some(now + 8 * SECOND)));
    }

    #[test]
    fn bounds_hold() {
        let (mut table, now) = (table(), Instant::now());
        let client = table.enter().unwrap();
        table.enter().unwrap();
        assert_eq!(table.enter(), Err(TooMany("max-clients")));
        add(&mut table, Some(client), None, now);
        add(&mut table, Some(client), None, now);
        assert_eq!(table.reserve(Some(client)), Err(TooMany("max-client-locks")));
        assert_eq!([table.reserve(None), table.reserve(None)], [Ok(()), Err(TooMany("max-locks"))]);
        table.give_back();
        assert_eq!(table.reserve(None), Ok(()));
    }

    #[test]
    fn stopped_agent_keeps_locks_until_clients_let_go() {
        let (mut table, now) = (table(), Instant::now());
        let client = table.enter().unwrap();
        let ids = [add(&mut table, Some(client), None, now), add(&mut table, Some(client), None, now)];
        table.stop();
        assert_eq!(table.find(ids[0], ALICE, now).map(|_| ()), Err(Missing::Ended(Ended::Stopping)));
        assert!(table.take(ids[0], ALICE).is_ok());
        assert_eq!((table.leave(client, now).len(), table.drain().len()), (1, 0));
    }

    #[test]
    fn few_past_locks_are_remembered_for_a_while() {
        let (mut table, now) = (table(), Instant::now());
        for number in 0..REMEMBERED as u128 + 9 {
            let terms = Terms::new(None, None, Some(SECOND), now);
            table.add(Uuid::from_u128(number), terms, "guard").unwrap();
        }
        table.lapse(now + SECOND);
        assert_eq!(table.past.len(), REMEMBERED);
        let id = add(&mut table, None, Some(1), now);
        table.lapse(now + SECOND + REMEMBERED_FOR + SECOND);
        assert_eq!((table.past.len(), table.past[0].id), (1, id));
    }
}
