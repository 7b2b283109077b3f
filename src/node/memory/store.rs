//! The data that a node stores.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::entry::Entry;
use super::line::is_heard_by;
use super::millis;
use super::record::Record;
use super::seen::Seen;
use crate::node::hint::Hint;
use crate::node::operation::Name;

/// The data that a node stores. The functions take the time of the node as an argument, so that a
/// simulation can run the node's clock fast or slow, or step it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Store {
    pub(super) entries: BTreeMap<Arc<str>, Entry>,
    /// `None` until a hello makes a record.
    pub(super) record: Option<Record>,
    pub(super) seen: Seen,
    /// Whether the node knows that it has forgotten no lock that may still be held.
    pub(super) kept_all: bool,
    pub(super) hints: Vec<Hint>,
    pub(super) news: Vec<Name>,
    sweep_at: usize,
}

/// After a search for expired entries, the store searches again only once it has this many entries,
/// plus twice the number of entries that were left.
const SWEEP: usize = 1_024;

impl Store {
    /// A store whose record has this id, is synced, and is old enough to vote. No list is in force.
    #[must_use]
    pub fn made(id: &str) -> Self {
        Self { record: Some(Record::old(id)), ..Self::default() }
    }

    /// Sets whether the node knows that it has forgotten no lock that may still be held. Only on
    /// such a node, a new record counts as `OldAtOnce::FirstUse`. A real node checks its uptime and
    /// its counters in INFO.
    pub const fn keeps_all(&mut self, on: bool) {
        self.kept_all = on;
    }

    /// Takes the hints that were published after the last call.
    pub fn hints(&mut self) -> Vec<Hint> {
        std::mem::take(&mut self.hints)
    }

    /// Takes the names about which news was published after the last call.
    pub fn news(&mut self) -> Vec<Name> {
        std::mem::take(&mut self.news)
    }

    /// Drops all holds of a name, as if an operator had deleted them. Keeps the fence.
    pub fn forget(&mut self, name: &Name) {
        if let Some(entry) = self.entries.get_mut(name.key()) {
            entry.forget();
        }
    }

    /// `high` and `floor` of the record. No ballot above `high` was granted, except ballots more
    /// than a day ahead of the clock. From now on, only ballots above `floor` are granted.
    #[must_use]
    pub fn bounds(&self) -> (u64, u64) {
        self.record.as_ref().map_or((0, 0), |record| (record.high(), record.floor()))
    }

    /// The two hashes that a real node would store: the record, and the ids that clients have seen.
    #[must_use]
    pub fn stored_record(&self) -> [BTreeMap<String, String>; 2] {
        [self.record.as_ref().map(Record::fields).unwrap_or_default(), self.seen.fields()]
    }

    /// Whether no name is held.
    #[must_use]
    pub fn is_free(&self, now: Duration) -> bool {
        self.entries.values().all(|entry| entry.kept("", millis(now)).is_none())
    }

    /// Whether no queue has a waiter.
    #[must_use]
    pub fn is_idle(&self, now: Duration) -> bool {
        self.entries.values().all(|entry| entry.line.len(now) == 0)
    }

    /// Whether an owner is in the queue of a name.
    #[must_use]
    pub fn waits(&self, name: &Name, owner: &str, now: Duration) -> bool {
        self.entries.get(name.key()).is_some_and(|entry| entry.line.contains(owner, now))
    }

    /// The time until a name is free for its first live waiter, and all its live waiters, in order.
    #[must_use]
    pub fn waited_for(&self, name: &Name, now: Duration, hears: &dyn Fn(&str) -> bool) -> (Duration, Vec<Arc<str>>) {
        let Some(entry) = self.entries.get(name.key()) else { return Default::default() };
        let now = millis(now);
        let live: Vec<_> = entry.line.live(now).filter(|owner| is_heard_by(owner, hears)).cloned().collect();
        (live.first().map_or(Duration::ZERO, |first| entry.free_in(first, now)), live)
    }

    /// Drops expired data, as a real node does even between operations.
    pub fn expire_all(&mut self, now: Duration) {
        self.entries.retain(|_, entry| !entry.expire(millis(now)));
        self.seen.expire(millis(now));
    }

    /// Drops expired entries, but only if the number of entries has reached `sweep_at`.
    pub(super) fn expire(&mut self, now: Duration) {
        if self.entries.len() >= self.sweep_at {
            self.entries.retain(|_, entry| !entry.expire(now));
            self.sweep_at = SWEEP + 2 * self.entries.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::operation::{Claim, Operation, Predecessor, Release, Renew, Revoke, Verb, Waiter};
    use crate::node::reply::Outcome;

    const SECOND: Duration = Duration::from_secs(1);

    /// The record's `high` after this ballot was granted.
    const fn high(ballot: u64) -> u64 {
        ballot + 250_000
    }

    fn names(name: &str) -> Arc<[Name]> {
        [Name::new("p:", name).unwrap()].into()
    }

    /// A waiter with this arrival. It announces that its asks are at most ten seconds apart.
    const fn waiter(arrival: u64) -> Option<Waiter> {
        Some(Waiter { arrival, lasts: Duration::from_secs(3), again: Duration::from_secs(10) })
    }

    /// A claim that may wait, with a ttl of two seconds.
    fn claim(name: &str, owner: &str, ballot: u64) -> Claim {
        let claim = Claim::sample(name, owner, ballot);
        Claim { ttl: 2 * SECOND, waiter: waiter(ballot), next: ballot + 100, ..claim }
    }

    fn waits(name: &str, owner: &str, ballot: u64) -> Operation {
        claim(name, owner, ballot).into()
    }

    #[test]
    fn ended_names_are_forgotten_in_batches_and_held_ones_never() {
        let mut store = Store::made("m");
        for round in 0..4u32 {
            let now = 1_000 * SECOND * (round + 1);
            for number in 0..1_000 {
                store.apply(&waits(&format!("{round}/{number}"), "me", 1_000_000 * (u64::from(round) + 1)), now);
            }
            assert!((1_000..1_100).contains(&store.entries.len()), "{}", store.entries.len());
        }
        for number in 0..5_000 {
            store.apply(&waits(&format!("held/{number}"), "me", 9_000_000), 9_000 * SECOND);
        }
        let held = store.entries.values().filter(|entry| entry.holder(9_000 * SECOND).is_some());
        assert_eq!(held.count(), 5_000);
    }

    #[test]
    fn a_queue_outlives_the_fence_of_its_name() {
        let (mut store, name) = (Store::made("m"), Name::new("p:", "a").unwrap());
        store.apply(&waits("a", "one", 7), SECOND);
        let waiter = Waiter { arrival: 8, lasts: SECOND, again: 500 * SECOND };
        store.apply(&Claim { waiter: Some(waiter), ..claim("a", "two", 8) }.into(), SECOND);
        // Add enough entries to make the store drop expired entries.
        for number in 0..2_000 {
            store.apply(&waits(&format!("other/{number}"), "me", 9), 500 * SECOND);
        }
        assert!(store.waits(&name, "two", 500 * SECOND));
        store.apply(&Operation::Inspect(names("a")), 500 * SECOND);
        assert!(store.waits(&name, "two", 500 * SECOND), "an inspection does not end the queue");
    }

    #[test]
    fn ballots_age_with_writes_and_not_with_inspections() {
        let mut store = Store::made("m");
        store.apply(&waits("a", "me", 7), 1_000 * SECOND);
        for now in [1_100, 1_300, 1_500] {
            store.apply(&Operation::Inspect(names("a")), SECOND * now);
            assert_eq!(store.bounds(), (high(7), 0), "an inspection writes nothing");
        }
        store.apply(&waits("b", "me", 6), 1_500 * SECOND);
        assert_eq!(store.bounds(), (high(7), high(7)));
    }

    /// If the node forgot too early that a lock is over, a renewal would heal the hold, and the
    /// next renewal would count.
    #[test]
    fn ended_hold_is_remembered_like_fences_and_25_h_if_revoked() {
        for (verb, later, lost) in [
            (Verb::Release, 104, true),
            (Verb::Release, 106, false),
            (Verb::Revoke, 106, true),
            (Verb::Revoke, 89_999, true),
            (Verb::Revoke, 90_000, false),
        ] {
            let (mut store, began) = (Store::made("m"), 1_000 * SECOND);
            store.apply(&claim("a", "me", 7).with_verb(verb), began);
            let renewed = store.apply(&claim("a", "me", 7).with_verb(Verb::Renew), began + SECOND * later);
            let expected = if lost { Outcome::Lost { holder: String::new() } } else { Outcome::Healed };
            assert_eq!(renewed, expected, "{verb:?} {later} s later");
        }
    }

    #[test]
    fn holder_claim_needs_its_own_ballot_or_one_above_the_fence() {
        let withdraw = |ballot| claim("a", "other", ballot).with_verb(Verb::Withdraw);
        for (fence, ballot, granted) in
            [(0, 6, false), (0, 7, true), (0, 8, true), (9, 7, true), (9, 8, false), (9, 9, false), (9, 10, true)]
        {
            let mut store = Store::made("m");
            store.apply(&waits("a", "me", 7), SECOND);
            store.apply(&withdraw(fence), SECOND);
            let outcome = store.apply(&waits("a", "me", ballot), SECOND);
            let expected = match granted {
                true => Outcome::Granted { fence: ballot },
                false => Outcome::Stale { fence: fence.max(7) },
            };
            assert_eq!(outcome, expected, "{ballot} after {fence} was withdrawn");
        }
    }

    #[test]
    fn claim_of_holder_is_stale_once_its_lock_is_over() {
        let mut store = Store::made("m");
        store.apply(&waits("a", "me", 7), SECOND);
        store.apply(&Revoke { names: names("a"), ballot: 9 }.into(), SECOND);
        for (ballot, granted) in [(7, false), (9, false), (10, true)] {
            let outcome = store.clone().apply(&waits("a", "me", ballot), SECOND);
            assert_eq!(matches!(outcome, Outcome::Granted { .. }), granted, "{ballot}: {outcome}");
        }
    }

    #[test]
    fn withdrawal_frees_only_grants_up_to_its_ballot() {
        for (renewed, ballot, freed) in [(7, 6, 0), (7, 7, 1), (9, 7, 0), (9, 9, 1)] {
            let mut store = Store::made("m");
            store.apply(&waits("a", "me", 7), SECOND);
            // This is a renewal of a lock that other nodes granted with another ballot.
            store.apply(&claim("a", "me", renewed).with_verb(Verb::Renew), SECOND);
            let outcome = store.apply(&claim("a", "me", ballot).with_verb(Verb::Withdraw), SECOND);
            assert_eq!(outcome, Outcome::Released { held: freed }, "{ballot} after {renewed}");
        }
    }

    #[test]
    fn release_frees_a_hold_of_any_ballot_and_ends_only_its_token() {
        let mut store = Store::made("m");
        store.apply(&waits("a", "me", 9), SECOND);
        let release = Release { token: 7, ..Release::of(&claim("a", "me", 8)) };
        assert_eq!(store.apply(&release.into(), SECOND), Outcome::Released { held: 1 });
        for (token, renewed) in [(7, Outcome::Lost { holder: String::new() }), (8, Outcome::Healed)] {
            let outcome = store.clone().apply(&claim("a", "other", token).with_verb(Verb::Renew), SECOND);
            assert_eq!(outcome, renewed, "{token}");
        }
        assert_eq!(store.apply(&waits("a", "other", 9), SECOND), Outcome::Stale { fence: 9 });
    }

    #[test]
    fn owner_keeps_its_queue_entry_on_withdrawal_not_on_release() {
        let (mut store, name) = (Store::made("m"), Name::new("p:", "a").unwrap());
        store.apply(&waits("a", "one", 7), SECOND);
        store.apply(&waits("a", "two", 8), SECOND);
        store.apply(&claim("a", "two", 8).with_verb(Verb::Withdraw), SECOND);
        assert!(store.waits(&name, "two", SECOND));
        store.apply(&claim("a", "two", 8).with_verb(Verb::Release), SECOND);
        assert!(!store.waits(&name, "two", SECOND));
    }

    #[test]
    fn withdrawal_does_not_hand_the_name_back_to_its_owner() {
        let mut store = Store::made("m");
        store.apply(&waits("a", "c/1", 7), SECOND);
        store.apply(&waits("a", "c/2", 8), SECOND);
        // c/2 waits, gets the name by a hand-over, and leaves the queue.
        store.apply(&Release { next: 20, ..Release::of(&claim("a", "c/1", 7)) }.into(), SECOND);
        store.apply(&waits("a", "c/3", 9), SECOND);
        store.hints();
        let withdraws = |owner: &str, ballot, next| {
            Operation::Withdraw(Release { ballot, next, ..Release::of(&claim("a", owner, 1)) })
        };
        store.apply(&withdraws("c/2", 20, 30), SECOND);
        let handed = |store: &mut Store| store.hints().into_iter().find_map(|hint| hint.granted);
        assert_eq!(handed(&mut store).map(|granted| granted.owner.to_string()).as_deref(), Some("c/3"));
        store.apply(&withdraws("c/3", 30, 40), SECOND);
        assert_eq!(handed(&mut store), None);
    }

    /// If the waiter with the earliest arrival withdraws and takes its place again, the name stays
    /// free for this waiter. If another waiter withdraws, the node hands the name to the waiter
    /// with the earliest arrival.
    #[test]
    fn withdrawal_takes_its_owners_place_again() {
        let name = Name::new("p:", "a").unwrap();
        for (owner, arrival, handed) in [("c/2", 5, None), ("c/3", 15, Some("c/5"))] {
            let mut store = Store::made("m");
            store.apply(&waits("a", owner, 7), SECOND);
            store.apply(&waits("a", "c/5", 10), SECOND);
            store.hints();
            let place = waiter(arrival).map(|waiter| (crate::node::Kind::Lock, waiter));
            let withdrawal = Release { next: 20, place, ..Release::of(&claim("a", owner, 7)) };
            store.apply(&Operation::Withdraw(withdrawal), SECOND);
            let granted = store.hints().into_iter().find_map(|hint| hint.granted);
            assert_eq!(granted.map(|granted| granted.owner.to_string()).as_deref(), handed);
            assert!(store.waits(&name, owner, SECOND));
        }
    }

    #[test]
    fn free_name_goes_to_the_first_waiter_on_any_claim() {
        for (owner, ballot, granted) in [("c/0", 8, true), ("c/9", 12, false)] {
            let mut store = Store::made("m");
            store.apply(&waits("a", "c/1", 7), SECOND);
            store.apply(&waits("a", "c/5", 10), SECOND);
            store.hints();
            let outcome = store.apply(&waits("a", owner, ballot), 4 * SECOND);
            let handed: Vec<_> = store.hints().into_iter().filter_map(|hint| hint.granted).collect();
            if granted {
                assert_eq!((outcome, handed), (Outcome::Granted { fence: ballot }, vec![]), "this claim came first");
                continue;
            }
            assert!(matches!(&outcome, Outcome::Held { holder, .. } if holder == "c/5"), "{outcome}");
            assert_eq!(handed.len(), 1);
            assert_eq!((&*handed[0].owner, handed[0].ballot, handed[0].lasts), ("c/5", ballot + 100, 3 * SECOND));
        }
    }

    #[test]
    fn claim_that_barges_or_was_first_itself_hands_nothing_over() {
        let mut store = Store::made("m");
        store.apply(&waits("a", "c/1", 7), SECOND);
        store.apply(&waits("a", "c/5", 10), SECOND);
        let barges = Claim { next: 0, waiter: None, ..claim("a", "c/9", 12) };
        assert!(granted(&store.clone().apply(&barges.into(), 4 * SECOND)));
        assert!(granted(&store.apply(&waits("a", "c/5", 10), 4 * SECOND)));
    }

    /// However many waiters are dead, one call must drop them all.
    #[test]
    fn dead_waiters_are_dropped_within_one_call() {
        for by in ["release", "claim"] {
            let mut store = Store::made("m");
            store.apply(&waits("a", "c/1", 7), SECOND);
            (0..300).for_each(|number| drop(store.apply(&waits("a", &format!("dead/{number}"), 8), SECOND)));
            store.apply(&waits("a", "c/5", 10), SECOND);
            store.hints();
            let hears = |client: &str| client != "dead";
            match by {
                "release" => {
                    let release = Release { next: 20, ..Release::of(&claim("a", "c/1", 7)) };
                    store.apply_heard(&release.into(), SECOND, &hears);
                }
                _ => drop(store.apply_heard(&waits("a", "c/9", 12), 4 * SECOND, &hears)),
            }
            let handed: Vec<_> = store.hints().into_iter().filter_map(|hint| hint.granted).collect();
            assert_eq!(handed.iter().map(|handed| &*handed.owner).collect::<Vec<_>>(), ["c/5"], "{by}");
        }
    }

    #[test]
    fn waiter_that_has_not_asked_again_is_handed_nothing() {
        for (after, handed) in [(20, true), (21, false)] {
            let mut store = Store::made("m");
            store.apply(&Claim { ttl: 60 * SECOND, ..claim("a", "c/1", 7) }.into(), SECOND);
            store.apply(&waits("a", "c/5", 10), SECOND);
            // This waiter keeps the queue from expiring.
            store.apply(&waits("a", "c/6", 11), 10 * SECOND);
            let release = Release { next: 20, ..Release::of(&claim("a", "c/1", 7)) };
            store.apply(&release.into(), (1 + after) * SECOND);
            let granted = store.hints().into_iter().find_map(|hint| hint.granted).unwrap();
            assert_eq!(&*granted.owner == "c/5", handed, "{after}");
        }
    }

    #[test]
    fn name_is_handed_over_only_with_a_ballot_above_its_bar() {
        for (next, handed) in [(9, false), (10, true)] {
            let mut store = Store::made("m");
            store.apply(&waits("a", "c/1", 7), SECOND);
            store.apply(&waits("a", "c/5", 8), SECOND);
            let release = Release { ballot: 9, next, ..Release::of(&claim("a", "c/1", 7)) };
            store.apply(&release.into(), SECOND);
            assert_eq!(store.hints().iter().any(|hint| hint.granted.is_some()), handed, "{next}");
        }
    }

    /// The owners with a hint to ask again since the last call, each with the hint's time in ms.
    fn told(store: &mut Store) -> Vec<(String, u128)> {
        let hints = store.hints().into_iter().filter(|hint| hint.granted.is_none());
        hints.map(|hint| (hint.acquisition.to_string(), hint.after.as_millis())).collect()
    }

    /// A held name with four waiters, which joined the queue one second after the other.
    fn queue_of_four() -> Store {
        let mut store = Store::made("m");
        store.apply(&Claim { ttl: 60 * SECOND, ..claim("a", "c/1", 7) }.into(), SECOND);
        for number in 2..6 {
            store.apply(&waits("a", &format!("c/{number}"), 6 + number), SECOND * u32::try_from(number).unwrap());
        }
        store.hints();
        store
    }

    fn ends(owner: &str, next: u64) -> Operation {
        Release { token: 0, ballot: 9, next, ..Release::of(&claim("a", owner, 7)) }.into()
    }

    #[test]
    fn name_freed_without_a_usable_ballot_wakes_first_two_waiters() {
        for next in [0, 9, 10] {
            let mut store = queue_of_four();
            store.apply(&ends("c/1", next), 5 * SECOND);
            let expected = match next {
                10 => vec![("c/4".to_owned(), 500)],
                _ => ["c/2", "c/3"].map(|owner| (owner.to_owned(), 0)).to_vec(),
            };
            assert_eq!(told(&mut store), expected, "{next}");
        }
    }

    /// A revocation raises the fence, and so does a reader whose clock is ahead.
    #[test]
    fn waiter_is_woken_if_the_fence_is_above_the_next_ballot() {
        for by in ["revocation", "reader"] {
            let mut store = Store::made("m");
            store.apply(&shared("a", "c/s1", 7, None), SECOND);
            store.apply(&waits("a", "d/2", 8), SECOND);
            match by {
                "reader" => {
                    store.apply(&shared("a", "c/s9", 900, None), SECOND);
                    let release = Release { next: 901, ..Release::of(&claim("a", "c/s9", 900)) };
                    store.apply(&release.into(), SECOND);
                }
                _ => drop(store.apply(&Revoke { names: names("a"), ballot: 900 }.into(), SECOND)),
            }
            store.hints();
            store.apply(&ends("c/s1", 20), SECOND);
            assert_eq!(told(&mut store), [("d/2".to_owned(), 0)], "{by}");
        }
    }

    /// The waiter that becomes second must ask again when its last ask is `lasts / 2` old, or at
    /// once if this ask is older.
    #[test]
    fn waiter_that_becomes_the_second_is_told_to_ask_again() {
        for (leaves, told_to) in [("c/2", vec![("c/4", 500)]), ("c/3", vec![("c/4", 500)]), ("c/4", vec![])] {
            let mut store = queue_of_four();
            store.apply(&ends(leaves, 20), 5 * SECOND);
            let expected: Vec<_> = told_to.into_iter().map(|(owner, after)| (owner.to_owned(), after)).collect();
            assert_eq!(told(&mut store), expected, "{leaves} leaves");
        }
        let mut store = queue_of_four();
        // The first waiter takes the name itself, after the hold has expired.
        store.apply(&waits("a", "c/2", 20), 62 * SECOND);
        assert_eq!(told(&mut store), [], "the other waiters are silent");
        let mut store = queue_of_four();
        store.apply(&Release { ballot: 9, next: 0, ..Release::of(&claim("a", "c/1", 7)) }.into(), 5 * SECOND);
        store.hints();
        assert!(granted(&store.apply(&waits("a", "c/2", 20), 6 * SECOND)));
        assert_eq!(told(&mut store), [("c/4".to_owned(), 0)]);
    }

    #[test]
    fn waiters_behind_dead_ones_are_notified_while_readers_hold() {
        let mut store = Store::made("m");
        store.apply(&shared("a", "c/s1", 7, None), SECOND);
        (1..4).for_each(|number| drop(store.apply(&waits("a", &format!("dead/{number}"), 8), SECOND)));
        store.apply(&waits("a", "c/5", 10), SECOND);
        store.apply(&waits("a", "c/6", 11), SECOND);
        // The claim of this reader, which arrived first, searches for writers that arrived earlier.
        // The search drops dead waiters.
        let reads = shared("a", "c/s2", 9, Some(1));
        assert!(granted(&store.apply_heard(&reads, SECOND, &|client| client != "dead")));
        assert_eq!(told(&mut store), [("c/5".to_owned(), 1_500), ("c/6".to_owned(), 1_500)]);
    }

    #[test]
    fn permit_claim_wakes_the_waiters_of_a_free_gate() {
        let mut store = queue_of_four();
        let permit = |owner: &str| Claim { gate: Some(names("a")[0].clone()), ..Claim::sample("a/0", owner, 30) };
        store.apply(&ends("c/1", 0), 5 * SECOND);
        store.hints();
        let outcome = store.apply(&permit("c/8").into(), 5 * SECOND);
        assert!(matches!(&outcome, Outcome::Held { holder, .. } if holder == "c/2"), "{outcome}");
        assert_eq!(told(&mut store), [("c/2".to_owned(), 0), ("c/3".to_owned(), 0)]);
    }

    #[test]
    fn hold_that_ends_later_than_its_ttl_from_now_is_cut() {
        for (owner, other) in [("c/1", "c/9"), ("c/s1", "c/9")] {
            let mut store = Store::made("m");
            store.apply(&Claim { waiter: None, ..claim("a", owner, 7) }.into(), 1_000 * SECOND);
            let once = Claim { waiter: None, ..claim("a", other, 100_000_000) };
            assert!(!granted(&store.apply(&once.clone().into(), 10 * SECOND)), "the clock was set back");
            assert!(granted(&store.apply(&once.into(), 12 * SECOND)), "{owner}");
        }
    }

    #[test]
    fn store_answers_the_queries_of_a_simulation() {
        let (mut store, name) = (Store::made("m"), Name::new("p:", "a").unwrap());
        assert!(store.is_free(SECOND) && store.is_idle(SECOND) && !store.waits(&name, "two", SECOND));
        store.apply(&waits("a", "one", 7), SECOND);
        assert!(!store.is_free(SECOND) && store.is_free(3 * SECOND) && store.is_idle(SECOND));
        store.apply(&waits("a", "two", 8), 2 * SECOND);
        assert!(!store.is_idle(2 * SECOND) && !store.is_idle(22 * SECOND));
        assert!(store.is_idle(22 * SECOND + SECOND / 1_000), "the last ask is older than twice `again`");
        for (acquisition, now, waits) in [("one", 2, false), ("two", 2, true), ("two", 22, true), ("two", 23, false)] {
            assert_eq!(store.waits(&name, acquisition, SECOND * now), waits, "{acquisition} at {now}");
        }
        assert_eq!(store.bounds(), (high(7), 0));
        store.forget(&name);
        assert!(store.is_free(2 * SECOND));
    }

    fn shared(names: &str, owner: &str, ballot: u64, arrival: Option<u64>) -> Operation {
        let waiter = arrival.and_then(waiter);
        Claim { waiter, next: ballot + 100, ..Claim::sample(names, owner, ballot) }.into()
    }

    fn granted(outcome: &Outcome) -> bool {
        matches!(outcome, Outcome::Granted { .. })
    }

    #[test]
    fn reader_passes_no_live_writer_with_an_earlier_arrival() {
        let mut store = Store::made("m");
        assert!(granted(&store.apply(&shared("a", "c/s1", 7, None), SECOND)));
        store.apply(&shared("a", "d/1", 8, Some(5)), SECOND);
        let reader = shared("a", "e/s1", 9, Some(6));
        assert!(!granted(&store.clone().apply(&reader, 5 * SECOND)));
        assert!(granted(&store.clone().apply(&reader, 22 * SECOND)), "the writer is silent");
        assert!(granted(&store.apply(&shared("a", "e/s1", 9, Some(4)), 5 * SECOND)), "the reader came first");
    }

    #[test]
    fn readers_at_the_head_are_handed_the_name_together() {
        let mut store = Store::made("m");
        store.apply(&Claim::sample("a", "c/1", 7).into(), SECOND);
        for (owner, arrival) in [("d/s1", 1), ("d/s2", 2), ("e/1", 3), ("d/s3", 4)] {
            store.apply(&shared("a", owner, 8, Some(arrival)), SECOND);
        }
        let release = |owner: &str, ballot, next| Release { next, ..Release::of(&Claim::sample("a", owner, ballot)) };
        let handed = |store: &mut Store, release: Release| {
            store.apply(&release.into(), SECOND);
            let owners = store.hints().into_iter().filter_map(|hint| hint.granted);
            owners.map(|granted| granted.owner.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(handed(&mut store, release("c/1", 7, 20)), ["d/s1", "d/s2"]);
        assert_eq!(handed(&mut store.clone(), release("e/1", 8, 21)), ["d/s3"], "a writer leaves the queue");
        assert!(handed(&mut store, release("d/s1", 20, 22)).is_empty(), "another reader holds the name");
        assert_eq!(handed(&mut store, release("d/s2", 20, 23)), ["e/1"]);
    }

    #[test]
    fn writer_turned_reader_hands_the_name_to_waiting_readers() {
        let mut store = Store::made("m");
        store.apply(&Claim::sample("a", "c/1", 7).into(), SECOND);
        for (owner, arrival) in [("d/s1", 1), ("e/1", 3)] {
            store.apply(&shared("a", owner, 8, Some(arrival)), SECOND);
        }
        let follows = Some(Predecessor { owner: "c/1".into(), token: 7 });
        let reads = Claim { follows, next: 20, ..Claim::sample("a", "c/s1", 9) };
        assert!(granted(&store.apply(&reads.into(), SECOND)));
        let owners = store.hints().into_iter().filter_map(|hint| hint.granted);
        assert_eq!(owners.map(|granted| granted.owner.to_string()).collect::<Vec<_>>(), ["d/s1"]);
    }

    #[test]
    fn lock_is_taken_over_once_from_a_holder_that_is_not_revoked() {
        let lost = Outcome::Lost { holder: String::new() };
        let after = |owner: &str, from: &str, ballot| {
            let follows = Some(Predecessor { owner: from.into(), token: 7 });
            Claim { follows, ..Claim::sample("a", owner, ballot) }.into()
        };
        let mut store = Store::made("m");
        assert_eq!(store.apply(&after("d/1", "c/1", 30), SECOND), lost, "nobody holds the name");
        store.apply(&Claim::sample("a", "c/1", 7).into(), SECOND);
        assert!(matches!(store.apply(&after("d/1", "e/1", 30), SECOND), Outcome::Held { .. }), "another owner");
        let mut revoked = store.clone();
        revoked.apply(&Revoke { names: names("a"), ballot: 20 }.into(), SECOND);
        assert_eq!(revoked.apply(&after("d/1", "c/1", 30), SECOND), lost);
        assert_eq!(store.apply(&after("d/1", "c/1", 7), SECOND), Outcome::Stale { fence: 7 });
        for owner in ["d/1", "d/1"] {
            assert!(granted(&store.apply(&after(owner, "c/1", 30), SECOND)), "the same ask may come twice");
        }
        assert_eq!(store.apply(&after("e/1", "c/1", 40), SECOND), lost, "the first has it");
    }

    #[test]
    fn fence_of_readers_is_the_names_once_the_last_has_gone() {
        let reads = |owner: &str, ballot| shared("a", owner, ballot, None);
        let release = |owner: &str, ballot| Release::of(&Claim::sample("a", owner, ballot)).into();
        let mut store = Store::made("m");
        store.apply(&reads("c/s1", 7), SECOND);
        store.apply(&reads("d/s1", 9), SECOND);
        store.apply(&release("d/s1", 9), SECOND);
        assert!(granted(&store.clone().apply(&reads("e/s1", 8), SECOND)), "readers' tokens have no order");
        store.apply(&release("c/s1", 7), SECOND);
        assert_eq!(store.clone().apply(&reads("e/s1", 8), SECOND), Outcome::Stale { fence: 9 });
        // A release by a reader that holds nothing raises the fence too.
        store.apply(&release("e/s1", 11), SECOND);
        assert_eq!(store.apply(&reads("f/s1", 11), SECOND), Outcome::Stale { fence: 11 });
    }

    #[test]
    fn reader_hold_of_higher_ballot_ends_by_release_not_withdrawal() {
        let gives_up = Claim::sample("a", "c/s1", 8);
        let release = Release::of(&gives_up);
        for (operation, held) in [(release.clone().into(), 1), (Operation::Withdraw(release), 0)] {
            let mut store = Store::made("m");
            store.apply(&shared("a", "c/s1", 9, None), SECOND);
            assert_eq!(store.apply(&operation, SECOND), Outcome::Released { held });
        }
    }

    #[test]
    fn expired_writer_stays_out_beside_readers_if_clock_goes_back() {
        let mut store = Store::made("m");
        let writer = Claim { ttl: SECOND, ..Claim::sample("a", "c/1", 7) };
        store.apply(&writer.clone().into(), SECOND);
        assert!(granted(&store.apply(&shared("a", "d/s1", 8, None), SECOND + SECOND + SECOND / 100)));
        let renewed = store.apply(&Renew::of(&writer, 1).into(), SECOND + SECOND - SECOND / 50);
        assert_eq!(renewed, Outcome::Lost { holder: "d/s1".to_owned() });
    }

    /// The reader may have been revoked on other nodes, so this node must not heal its hold.
    #[test]
    fn renewal_of_a_reader_up_to_a_revoked_ballot_heals_nothing() {
        let mut store = Store::made("m");
        store.apply(&shared("a", "c/s1", 7, None), SECOND);
        store.apply(&Revoke { names: names("a"), ballot: 20 }.into(), SECOND);
        let renews = |store: &mut Store, ballot| {
            store.apply(&Renew::of(&Claim::sample("a", "d/s1", ballot), 1).into(), 2 * SECOND)
        };
        assert_eq!(renews(&mut store, 8), Outcome::Lost { holder: String::new() });
        store.apply(&Revoke { names: names("a"), ballot: 10 }.into(), 2 * SECOND);
        assert_eq!(
            renews(&mut store, 15),
            Outcome::Lost { holder: String::new() },
            "a lower revocation changes nothing"
        );
        assert_eq!(renews(&mut store, 21), Outcome::Healed, "the reader's token is above the revoked ballot");
    }

    /// Seed 223504554 of the simulation found a bug here: the reply to a second revocation said
    /// that the name was free.
    #[test]
    fn second_revocation_reports_the_revoked_reader_again() {
        let mut store = Store::made("m");
        store.apply(&shared("a", "c/s1", 7, None), SECOND);
        for ballot in [20, 21] {
            let told = store.apply(&Revoke { names: names("a"), ballot }.into(), SECOND);
            assert!(matches!(told, Outcome::Revoked { holder: Some(holder), ballot: 7, .. } if holder == "c/s1"));
        }
    }
}
