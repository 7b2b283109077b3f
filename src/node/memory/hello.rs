//! Carries out hello, the only operation that makes the record.

use std::time::Duration;

use super::millis;
use super::record::Record;
use super::store::Store;
use crate::node::operation::{Hello, Intent};
use crate::node::reply::Outcome;

impl Store {
    pub(super) fn hello(&mut self, hello: &Hello, precise: Duration) -> Outcome {
        let now = millis(precise);
        self.seen.expire(now);
        if hello.intent >= Intent::Keep {
            self.take_up(hello, precise);
        }
        let told = |record: &Record| record.told(self.seen.told(hello, now), now);
        Outcome::Hello(self.record.as_ref().map(told))
    }

    fn take_up(&mut self, hello: &Hello, precise: Duration) {
        let (now, before) = (millis(precise), self.record.clone());
        let made = || Record::made(hello, self.kept_all, now);
        let Some(mut record) = before.clone().or_else(made) else { return };
        record.meet(hello, before.is_none(), precise);
        if before.is_none_or(|before| before != record) {
            self.seen.touch(hello, now);
        }
        record.rotate(precise);
        self.seen.show(hello, &record, now);
        self.record = Some(record);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::node::operation::{Claim, OldAtOnce, Verb};
    use crate::rules::list::{self, List};

    const SECOND: Duration = Duration::from_secs(1);
    const BEGIN: Duration = Duration::from_secs(1_000);

    fn hello(intent: Intent) -> Hello {
        Hello::sample(intent)
    }

    fn said(store: &mut Store, hello: Hello, now: Duration) -> Option<list::Record> {
        match store.apply(&hello.into(), now) {
            Outcome::Hello(record) => record,
            other => panic!("a hello was answered with {other}"),
        }
    }

    fn put(now: Duration) -> Store {
        let mut store = Store::default();
        assert!(said(&mut store, hello(Intent::Put), now).is_some());
        store
    }

    fn claims(store: &mut Store, list: &Arc<List>, now: Duration) -> Outcome {
        let list = list.hash().clone();
        store.apply(&Claim { list, ..Claim::sample("a", "c/1", 7_000_000) }.into(), now)
    }

    #[test]
    fn record_is_made_by_a_hello_that_may_and_knows_the_process() {
        for (intent, process, made) in [
            (Intent::Look, "process", false),
            (Intent::Keep, "process", false),
            (Intent::Make, "", false),
            (Intent::Make, "process", true),
            (Intent::Put, "process", true),
        ] {
            let mut store = Store::default();
            let record = said(&mut store, Hello { process: process.into(), ..hello(intent) }, BEGIN);
            assert_eq!(record.is_some(), made, "{intent:?} {process}");
            let known = record.is_some_and(|record| &*record.id == "new" && !record.synced && record.age.is_zero());
            assert_eq!(known, made);
        }
    }

    #[test]
    fn node_without_a_record_carries_nothing_out() {
        for verb in Verb::ALL.into_iter().filter(|verb| !matches!(verb, Verb::Hello | Verb::Scan)) {
            let mut store = Store::default();
            let operation = Claim::sample("a", "c/1", 7).with_verb(verb);
            assert_eq!(store.apply(&operation, BEGIN), Outcome::Forgot, "{verb:?}");
            assert_eq!(store, Store::default());
        }
    }

    #[test]
    fn record_is_old_at_once_by_init_or_on_an_unused_node() {
        for (old, kept_all, is_old) in
            [(OldAtOnce::Init, false, true), (OldAtOnce::FirstUse, false, false), (OldAtOnce::FirstUse, true, true)]
        {
            let mut store = Store::default();
            store.keeps_all(kept_all);
            let makes = Hello { old: Some(old), sync: Some(0), ..hello(Intent::Make) };
            let record = said(&mut store, makes.clone(), BEGIN).unwrap();
            assert_eq!((record.word, record.synced), (Some(old).filter(|_| is_old), is_old));
            assert_eq!(record.age, if is_old { millis(makes.list.old()) } else { Duration::ZERO });
            let record = said(&mut store, makes, BEGIN).unwrap();
            assert_eq!(record.synced, is_old, "this hello did not make the record");
        }
    }

    #[test]
    fn record_old_at_once_is_doubted_by_client_that_knew_another() {
        for (knew, kept) in [(None, true), (Some("new"), true), (Some("another"), false), (Some("held"), false)] {
            let mut store = Store::default();
            let init = Hello { old: Some(OldAtOnce::Init), sync: Some(0), ..hello(Intent::Make) };
            assert!(said(&mut store, init, BEGIN).unwrap().synced);
            let knew = knew.map(Into::into);
            let record = said(&mut store, Hello { knew, ..hello(Intent::Keep) }, BEGIN + SECOND).unwrap();
            assert_eq!((record.word.is_some(), record.synced), (kept, kept));
            assert_eq!(record.age.is_zero(), !kept);
        }
    }

    #[test]
    fn new_process_gets_a_new_id_unless_it_forgot_its_promotion() {
        let of = |process: &str, new: &str| Hello { process: process.into(), new: new.into(), ..hello(Intent::Keep) };
        for (before, process, id) in
            [("a", "a", "new"), ("a/b", "a", "new"), ("a", "a/b", "other"), ("ab", "a", "other"), ("a", "", "new")]
        {
            let mut store = Store::default();
            said(&mut store, Hello { process: before.into(), ..hello(Intent::Make) }, BEGIN);
            let record = said(&mut store, of(process, "other"), BEGIN + SECOND).unwrap();
            assert_eq!((&*record.id, record.age.is_zero()), (id, id == "other"), "{before} {process}");
        }
    }

    #[test]
    fn list_stays_in_force_while_its_clients_say_hello() {
        let (mut store, list) = (put(BEGIN), hello(Intent::Keep).list);
        let (lasts, fresh) = (list.lasts(), list.fresh());
        assert!(matches!(claims(&mut store, &list, BEGIN), Outcome::Granted { .. }));
        let keeps = |store: &mut Store, now| said(store, hello(Intent::Keep), now).unwrap().in_force;
        let left = |store: &mut Store, now| keeps(store, now).map(|list| list.left);
        assert_eq!(left(&mut store, BEGIN + (lasts - fresh)), Some(fresh), "enough time is left");
        let later = BEGIN + (lasts - fresh) + SECOND;
        assert_eq!(left(&mut store, later), Some(lasts));
        assert_eq!(left(&mut store, later + lasts), None, "the list has lapsed");
        assert_eq!(claims(&mut store, &list, later + lasts), Outcome::NoList);
    }

    #[test]
    fn claim_of_another_list_meets_the_text_of_the_one_in_force() {
        let mut store = put(BEGIN);
        let other = Arc::new(List::new("default", ["elsewhere"], 60 * SECOND));
        let Outcome::OtherList { says, left } = claims(&mut store, &other, BEGIN + SECOND) else { panic!("another") };
        let list = hello(Intent::Look).list;
        assert_eq!((&*says, left), (&**list.says(), list.lasts() - SECOND));
        let puts = Hello { list: other, ..hello(Intent::Put) };
        let in_force = said(&mut store, puts, BEGIN + SECOND).unwrap().in_force.unwrap();
        assert_eq!((&in_force.hash, in_force.age), (list.hash(), SECOND), "the list is not replaced");
    }

    #[test]
    fn list_that_ends_too_late_by_a_clock_that_was_set_back_is_cut() {
        let mut store = put(BEGIN);
        let list = hello(Intent::Look).list;
        for intent in [Intent::Look, Intent::Keep] {
            let in_force = said(&mut store, hello(intent), BEGIN / 2).unwrap().in_force.unwrap();
            assert_eq!((in_force.left, in_force.age), (list.lasts(), Duration::ZERO));
        }
        let record = said(&mut store, hello(Intent::Look), BEGIN).unwrap();
        assert_eq!(record.in_force, None, "the cut is stored");
        assert_eq!(record.age, BEGIN / 2, "the cut of `since` is stored");
    }

    #[test]
    fn record_is_synced_once() {
        let mut store = put(BEGIN);
        let knew = Some("new".into());
        for (sync, bounds) in [(9, (9, 9)), (12, (9, 9))] {
            let syncs = Hello { sync: Some(sync), knew: knew.clone(), ..hello(Intent::Keep) };
            let record = said(&mut store, syncs, BEGIN).unwrap();
            assert_eq!((record.high, record.floor), bounds);
            assert!(record.synced);
        }
    }

    #[test]
    fn record_is_synced_only_by_clients_of_its_list_that_knew_it() {
        let other = Arc::new(List::new("other", ["node"], 60 * SECOND));
        let own = hello(Intent::Keep).list;
        for (list, knew, synced) in [
            (&own, Some("new"), true),
            (&own, Some("another"), false),
            (&own, None, false),
            (&other, Some("new"), false),
        ] {
            let mut store = put(BEGIN);
            let (list, knew) = (list.clone(), knew.map(Into::into));
            let record = said(&mut store, Hello { sync: Some(9), list, knew, ..hello(Intent::Keep) }, BEGIN).unwrap();
            assert_eq!(record.synced, synced);
        }
    }

    #[test]
    fn ids_are_kept_for_a_while_from_clients_of_the_list_in_force() {
        let (mut store, spare) = (put(BEGIN), hello(Intent::Look).list.spare());
        let shows = |id: &str, list: &Arc<List>| Hello {
            seen: vec![("node".into(), id.into())],
            list: list.clone(),
            ..hello(Intent::Keep)
        };
        let ids = |store: &mut Store, now| {
            let record = said(store, hello(Intent::Look), now).unwrap();
            record.seen.into_iter().map(|seen| format!("{} {}", seen.id, seen.age.as_secs())).collect::<Vec<_>>()
        };
        let list = hello(Intent::Look).list;
        said(&mut store, shows("a", &list), BEGIN);
        said(&mut store, shows("b", &list), BEGIN + spare / 2);
        said(&mut store, shows("c", &Arc::new(List::new("other", ["node"], 60 * SECOND))), BEGIN + spare / 2);
        assert_eq!(ids(&mut store, BEGIN + spare / 2), ["a 7", "b 0"]);
        assert_eq!(ids(&mut store, BEGIN + spare), ["b 7"]);
        assert_eq!(ids(&mut store, BEGIN), ["a 0"], "an id ahead of the clock does not count");
    }

    #[test]
    fn look_changes_nothing() {
        let mut store = put(BEGIN);
        let before = store.clone();
        let looks = Hello {
            process: "another".into(),
            knew: Some("held".into()),
            sync: Some(7),
            seen: vec![("node".into(), "id".into())],
            ..hello(Intent::Look)
        };
        for now in [BEGIN / 2, BEGIN + SECOND, BEGIN + 200 * SECOND] {
            said(&mut store, looks.clone(), now);
        }
        assert_eq!(store, before);
    }
}
