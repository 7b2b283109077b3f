//! What a node stores.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::entry::Entry;
use super::millis;
use super::record::Record;
use super::roster::Rostered;
use crate::node::hint::Hint;
use crate::node::operation::Name;

/// What a node stores. Its functions take the node's own time, so that a simulation can run it
/// fast, slow or stepped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Store {
    pub(super) entries: BTreeMap<Arc<str>, Entry>,
    pub(super) record: Record,
    pub(super) roster: Rostered,
    pub(super) hints: Vec<Hint>,
    pub(super) news: Vec<Name>,
    sweep_at: usize,
}

/// How many entries are kept at least before the expired ones are looked for.
const SWEEP: usize = 1_024;

impl Store {
    /// Takes what was published to clients since the last time.
    pub fn hints(&mut self) -> Vec<Hint> {
        std::mem::take(&mut self.hints)
    }

    /// Takes the names of which news was published since the last time.
    pub fn news(&mut self) -> Vec<Name> {
        std::mem::take(&mut self.news)
    }

    /// The process ended, and the next one has what is stored: it must be taught like one that has
    /// nothing.
    pub fn restarted(&mut self) {
        self.record.restarted();
        self.roster.restarted();
    }

    /// Forgets who holds a name or held it, as a real node does whose keys are deleted by hand, and
    /// keeps its fence.
    pub fn forget(&mut self, name: &Name) {
        if let Some(entry) = self.entries.get_mut(name.key()) {
            entry.forget();
        }
    }

    /// The highest ballot granted here, of any name, and up to which ballots nothing is granted.
    #[must_use]
    pub const fn bounds(&self) -> (u64, u64) {
        (self.record.high(), self.record.floor())
    }

    /// Whether nothing is held.
    #[must_use]
    pub fn is_free(&self, now: Duration) -> bool {
        self.entries.values().all(|entry| entry.kept("", millis(now)).is_none())
    }

    /// Whether nobody waits in any queue.
    #[must_use]
    pub fn is_idle(&self, now: Duration) -> bool {
        self.entries.values().all(|entry| entry.line.len(now) == 0)
    }

    /// Whether an owner stands in the queue of a name.
    #[must_use]
    pub fn waits(&self, name: &Name, owner: &str, now: Duration) -> bool {
        self.entries.get(name.key()).is_some_and(|entry| entry.line.contains(owner, now))
    }

    /// Forgets what has expired, as a real node does from time to time whether it is asked or not.
    pub fn expire_all(&mut self, now: Duration) {
        self.entries.retain(|_, entry| !entry.expire(millis(now)));
    }

    /// Forgets what has expired, now and then.
    pub(super) fn expire(&mut self, now: Duration) {
        if self.entries.len() >= self.sweep_at {
            self.entries.retain(|_, entry| !entry.expire(now));
            self.sweep_at = SWEEP + 2 * self.entries.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::far;
    use super::*;
    use crate::node::operation::{Claim, Operation, Release, Renew, Revoke, Stance, Verb};
    use crate::node::reply::Outcome;

    const SECOND: Duration = Duration::from_secs(1);

    /// What the record knows of a ballot.
    const fn high(ballot: u64) -> u64 {
        ballot + 250_000
    }

    fn names(name: &str) -> Arc<[Name]> {
        [Name::new("p:", name).unwrap()].into()
    }

    /// A claim for two seconds of an owner that waits for ten.
    fn claim(name: &str, owner: &str, ballot: u64) -> Claim {
        let stance = Stance::Wait { ticket: ballot, patience: 10 * SECOND };
        let claim = Claim::sample(name, owner, ballot);
        Claim { ttl: 2 * SECOND, stance, grace: SECOND, ..claim }
    }

    fn waits(name: &str, owner: &str, ballot: u64) -> Operation {
        claim(name, owner, ballot).into()
    }

    #[test]
    fn names_that_have_ended_are_forgotten_now_and_then_and_others_never() {
        let mut store = Store::default();
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
        let (mut store, name) = (Store::default(), Name::new("p:", "a").unwrap());
        store.apply(&waits("a", "one", 7), SECOND);
        let stance = Stance::Wait { ticket: 8, patience: 1_000 * SECOND };
        store.apply(&Claim { stance, ..claim("a", "two", 8) }.into(), SECOND);
        // So many that what has ended is forgotten.
        for number in 0..2_000 {
            store.apply(&waits(&format!("other/{number}"), "me", 9), 500 * SECOND);
        }
        assert!(store.waits(&name, "two", 500 * SECOND));
        store.apply(&Operation::Inspect(names("a")), 500 * SECOND);
        assert!(store.waits(&name, "two", 500 * SECOND), "nor does it end when it is looked at");
    }

    #[test]
    fn ballots_grow_old_with_what_is_carried_out_and_not_with_questions() {
        let mut store = Store::default();
        store.apply(&waits("a", "me", 7), 1_000 * SECOND);
        for now in [1_100, 1_300, 1_500] {
            store.apply(&Operation::Inspect(names("a")), SECOND * now);
            assert_eq!(store.bounds(), (high(7), 0), "a question writes nothing");
        }
        store.apply(&waits("b", "me", 6), 1_500 * SECOND);
        assert_eq!(store.bounds(), (high(7), high(7)));
    }

    /// A renewal that was on its way for so long would heal the name, and the next one count.
    #[test]
    fn what_is_over_is_remembered_as_long_as_fences_and_an_hour_if_revoked() {
        for (verb, later, lost) in [
            (Verb::Release, 104, true),
            (Verb::Release, 106, false),
            (Verb::Revoke, 106, true),
            (Verb::Revoke, 3_599, true),
            (Verb::Revoke, 3_600, false),
        ] {
            let (mut store, began) = (Store::default(), 1_000 * SECOND);
            store.apply(&claim("a", "me", 7).with_verb(verb), began);
            let renewed = store.apply(&claim("a", "me", 7).with_verb(Verb::Renew), began + SECOND * later);
            let expected = if lost { Outcome::Lost { holder: String::new() } } else { Outcome::Healed };
            assert_eq!(renewed, expected, "{verb:?} {later} s later");
        }
    }

    #[test]
    fn claim_of_holder_is_granted_above_its_own_and_what_was_withdrawn() {
        let withdraw = |ballot| claim("a", "other", ballot).with_verb(Verb::Withdraw);
        for (fence, ballot, granted) in
            [(0, 6, false), (0, 7, true), (0, 8, true), (9, 7, true), (9, 8, false), (9, 9, false), (9, 10, true)]
        {
            let mut store = Store::default();
            store.apply(&waits("a", "me", 7), SECOND);
            store.apply(&withdraw(fence), SECOND);
            let outcome = store.apply(&waits("a", "me", ballot), SECOND);
            let expected = match granted {
                true => Outcome::Granted { fence: ballot },
                false => Outcome::Stale { fence: fence.max(7) },
            };
            assert_eq!(outcome, expected, "{ballot} where {fence} was withdrawn");
        }
    }

    #[test]
    fn claim_of_holder_is_stale_once_its_lock_is_over() {
        let mut store = Store::default();
        store.apply(&waits("a", "me", 7), SECOND);
        store.apply(&Revoke { names: names("a"), ballot: 9 }.into(), SECOND);
        for (ballot, granted) in [(7, false), (9, false), (10, true)] {
            let outcome = store.clone().apply(&waits("a", "me", ballot), SECOND);
            assert_eq!(matches!(outcome, Outcome::Granted { .. }), granted, "{ballot}: {outcome}");
        }
    }

    #[test]
    fn withdrawal_frees_only_what_was_granted_with_ballots_up_to_it() {
        for (renewed, ballot, freed) in [(7, 6, 0), (7, 7, 1), (9, 7, 0), (9, 9, 1)] {
            let mut store = Store::default();
            store.apply(&waits("a", "me", 7), SECOND);
            // A renewal of a token that other nodes granted.
            store.apply(&claim("a", "me", renewed).with_verb(Verb::Renew), SECOND);
            let outcome = store.apply(&claim("a", "me", ballot).with_verb(Verb::Withdraw), SECOND);
            assert_eq!(outcome, Outcome::Released { held: freed }, "{ballot} after {renewed}");
        }
    }

    #[test]
    fn release_frees_whatever_ballot_it_holds_and_ends_its_token_alone() {
        let mut store = Store::default();
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
    fn owner_that_withdraws_keeps_its_place_and_is_not_handed_what_it_gives_up() {
        let (mut store, name) = (Store::default(), Name::new("p:", "a").unwrap());
        store.apply(&waits("a", "one", 7), SECOND);
        store.apply(&waits("a", "two", 8), SECOND);
        store.apply(&claim("a", "two", 8).with_verb(Verb::Withdraw), SECOND);
        assert!(store.waits(&name, "two", SECOND));
        store.apply(&claim("a", "two", 8).with_verb(Verb::Release), SECOND);
        assert!(!store.waits(&name, "two", SECOND));
    }

    /// Later it is not too far any more, and would be forgotten with the turn.
    #[test]
    fn a_fence_that_was_too_far_ahead_is_known_to_the_record_once_a_turn_is_given() {
        let (mut store, began) = (Store::default(), 1_000 * SECOND);
        let far = far(began) + 5_000_000;
        store.apply(&waits("a", "one", far), began);
        store.apply(&waits("a", "two", far + 1), began + SECOND);
        let once = Claim { stance: Stance::Once, ..claim("a", "three", far + 2) }.into();
        assert!(matches!(store.apply(&once, began + 6 * SECOND), Outcome::Reserved { .. }));
        assert_eq!(store.bounds().0, far);
    }

    #[test]
    fn a_free_name_is_granted_to_who_came_first_though_another_stands_in_the_queue_already() {
        for (acquisition, ballot, granted) in [("early", 8, true), ("late", 9, true), ("later", 10, false)] {
            let mut store = Store::default();
            store.apply(&waits("a", "one", 7), SECOND);
            store.apply(&waits("a", "late", 9), SECOND);
            let outcome = store.apply(&waits("a", acquisition, ballot), 4 * SECOND);
            assert_eq!(matches!(outcome, Outcome::Granted { .. }), granted, "{acquisition}: {outcome}");
            assert_eq!(matches!(outcome, Outcome::Reserved { .. }), !granted, "{acquisition}: {outcome}");
        }
    }

    #[test]
    fn what_a_simulation_asks_is_answered_from_what_is_stored() {
        let (mut store, name) = (Store::default(), Name::new("p:", "a").unwrap());
        assert!(store.is_free(SECOND) && store.is_idle(SECOND) && !store.waits(&name, "two", SECOND));
        store.apply(&waits("a", "one", 7), SECOND);
        assert!(!store.is_free(SECOND) && store.is_free(3 * SECOND) && store.is_idle(SECOND));
        store.apply(&waits("a", "two", 8), 2 * SECOND);
        assert!(!store.is_idle(2 * SECOND) && !store.is_idle(12 * SECOND - SECOND / 1_000));
        assert!(store.is_idle(12 * SECOND), "its patience is over");
        for (acquisition, now, waits) in [("one", 2, false), ("two", 2, true), ("two", 11, true), ("two", 12, false)] {
            assert_eq!(store.waits(&name, acquisition, SECOND * now), waits, "{acquisition} at {now}");
        }
        assert_eq!(store.bounds(), (high(7), 0));
        store.apply(&Operation::teach(900_000, 1), 2 * SECOND);
        assert_eq!(store.bounds(), (900_000, 900_000));
        let record = |store: &mut Store| store.apply(&Operation::Record, 2 * SECOND);
        assert_eq!(record(&mut store), Outcome::Record { high: 900_000, floor: 900_000, taught: true });
        store.restarted();
        assert_eq!(record(&mut store), Outcome::Record { high: 900_000, floor: 900_000, taught: false });
        store.forget(&name);
        assert!(store.is_free(2 * SECOND));
    }

    fn shared(names: &str, owner: &str, ballot: u64, ticket: Option<u64>) -> Operation {
        let stance = ticket.map_or(Stance::Once, |ticket| Stance::Wait { ticket, patience: 60 * SECOND });
        Claim { stance, grace: SECOND, ..Claim::sample(names, owner, ballot) }.into()
    }

    fn granted(outcome: &Outcome) -> bool {
        matches!(outcome, Outcome::Granted { .. })
    }

    /// Others read on, and the queue never ends.
    #[test]
    fn a_writer_that_died_while_others_read_keeps_no_reader_out_for_ever() {
        for handover in [3 * SECOND, Duration::ZERO] {
            let mut store = Store::default();
            assert!(granted(&store.apply(&shared("a", "c/s1", 7, None), SECOND)));
            let waits = Stance::Wait { ticket: 5, patience: 60 * SECOND };
            let writer = Claim { stance: waits, handover, ..Claim::sample("a", "d/1", 8) };
            store.apply(&writer.into(), SECOND);
            let reader = shared("a", "e/s1", 9, Some(6));
            assert!(!granted(&store.apply(&reader, 5 * SECOND)));
            assert!(granted(&store.apply(&reader, 11 * SECOND)), "{handover:?}");
        }
    }

    /// It holds the name elsewhere, and the revocation took that.
    #[test]
    fn writer_that_was_revoked_becomes_no_reader_where_it_held_nothing() {
        let mut store = Store::default();
        store.apply(&Revoke { names: names("a"), ballot: 20 }.into(), SECOND);
        let reader = |follows| Claim { follows, ..Claim::sample("a", "c/s1", 30) }.into();
        assert_eq!(store.apply(&reader(7), SECOND), Outcome::Lost { holder: String::new() });
        assert!(granted(&store.apply(&reader(21), SECOND)), "it was the writer by a later token");
    }

    #[test]
    fn fence_of_readers_is_the_names_once_the_last_has_gone() {
        let reads = |owner: &str, ballot| shared("a", owner, ballot, None);
        let release = |owner: &str, ballot| Release::of(&Claim::sample("a", owner, ballot)).into();
        let mut store = Store::default();
        store.apply(&reads("c/s1", 7), SECOND);
        store.apply(&reads("d/s1", 9), SECOND);
        store.apply(&release("d/s1", 9), SECOND);
        assert!(granted(&store.clone().apply(&reads("e/s1", 8), SECOND)), "readers' tokens have no order");
        store.apply(&release("c/s1", 7), SECOND);
        assert_eq!(store.clone().apply(&reads("e/s1", 8), SECOND), Outcome::Stale { fence: 9 });
        // Also of one that did not read.
        store.apply(&release("e/s1", 11), SECOND);
        assert_eq!(store.apply(&reads("f/s1", 11), SECOND), Outcome::Stale { fence: 11 });
    }

    #[test]
    fn a_writer_whose_time_is_over_stays_out_beside_readers_where_the_clock_goes_back() {
        let mut store = Store::default();
        let writer = Claim { ttl: SECOND, ..Claim::sample("a", "c/1", 7) };
        store.apply(&writer.clone().into(), SECOND);
        assert!(granted(&store.apply(&shared("a", "d/s1", 8, None), SECOND + SECOND + SECOND / 100)));
        let renewed = store.apply(&Renew::of(&writer, 1).into(), SECOND + SECOND - SECOND / 50);
        assert_eq!(renewed, Outcome::Lost { holder: "d/s1".to_owned() });
    }

    #[test]
    fn readers_that_died_in_the_queue_cost_a_writer_one_turn() {
        let mut store = Store::default();
        store.apply(&Claim::sample("a", "c/1", 7).into(), SECOND);
        for number in 0..100 {
            store.apply(&shared("a", &format!("d/s{number}"), 8, Some(number)), SECOND);
        }
        let writer = shared("a", "e/1", 9, Some(200));
        store.apply(&writer, SECOND);
        let release = Release { grace: SECOND, ..Release::of(&Claim::sample("a", "c/1", 7)) };
        store.apply(&release.into(), SECOND);
        assert!(!granted(&store.apply(&writer, SECOND)));
        assert!(granted(&store.apply(&writer, 2 * SECOND)));
    }

    /// It may have been revoked where it reads, and be healed here.
    #[test]
    fn reader_that_was_not_here_when_readers_were_revoked_takes_nothing_here() {
        let mut store = Store::default();
        store.apply(&shared("a", "c/s1", 7, None), SECOND);
        store.apply(&Revoke { names: names("a"), ballot: 20 }.into(), SECOND);
        let renews = |store: &mut Store, ballot| {
            store.apply(&Renew::of(&Claim::sample("a", "d/s1", ballot), 1).into(), 2 * SECOND)
        };
        assert_eq!(renews(&mut store, 8), Outcome::Lost { holder: String::new() });
        store.apply(&Revoke { names: names("a"), ballot: 10 }.into(), 2 * SECOND);
        assert_eq!(renews(&mut store, 15), Outcome::Lost { holder: String::new() }, "an earlier one came later");
        assert_eq!(renews(&mut store, 21), Outcome::Healed, "it came later");
    }

    /// Found by seed 223504554: who had asked before they came was told that the name is free.
    #[test]
    fn readers_that_were_revoked_are_told_to_the_next_who_revokes() {
        let mut store = Store::default();
        store.apply(&shared("a", "c/s1", 7, None), SECOND);
        for ballot in [20, 21] {
            let told = store.apply(&Revoke { names: names("a"), ballot }.into(), SECOND);
            assert!(matches!(told, Outcome::Revoked { holder: Some(holder), ballot: 7, .. } if holder == "c/s1"));
        }
    }
}
