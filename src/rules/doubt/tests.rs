//! What the guard concludes from a node's record and process.

mod clock;
mod wait;

use super::*;
use crate::rules::list::OldAtOnce;

const SECOND: Duration = Duration::from_secs(1);
const MAX_TTL: Duration = Duration::from_secs(60);
/// How long a new record is quarantined: 1.01 `MAX_TTL`.
const QUARANTINE: Duration = Duration::from_millis(60_600);

fn at(seconds: u32) -> Tick {
    Tick::new(SECOND * seconds)
}

fn ms(ms: u64) -> Tick {
    Tick::new(Duration::from_millis(ms))
}

fn guard() -> RestartGuard {
    RestartGuard::new(MAX_TTL, 0.01)
}

fn record(id: &str, process: &str, age: u32) -> Record {
    Record {
        id: id.into(),
        process: process.into(),
        age: SECOND * age,
        high: 0,
        floor: 0,
        synced: true,
        word: None,
        in_force: None,
        seen: Vec::new(),
    }
}

/// A hello that took no time returns this record.
fn hears(guard: &mut RestartGuard, record: &Record, now: u32) {
    guard.hello(Some(record), at(now), at(now));
}

/// The guard of a node whose record is old.
fn known() -> RestartGuard {
    let mut guard = guard();
    guard.meets_process("run");
    hears(&mut guard, &record("a", "run", 1_000), 0);
    guard
}

fn quarantine(guard: &RestartGuard, now: u32) -> Option<(Duration, Doubt)> {
    guard.quarantined(at(now))
}

#[test]
fn old_record_votes_at_once() {
    assert_eq!(quarantine(&known(), 0), None);
    assert!(known().settled(at(0)), "`extended` counts");
}

#[test]
fn node_without_a_record_has_no_vote() {
    let mut guard = guard();
    assert_eq!(quarantine(&guard, 5), Some((QUARANTINE, Doubt::Restarted)));
    guard.hello(None, at(5), at(5));
    assert_eq!(quarantine(&guard, 5), Some((QUARANTINE, Doubt::Restarted)), "the node never had a record");
    assert!(!guard.settled(at(5)) && guard.record().is_none() && !guard.take_news());
}

#[test]
fn record_of_another_process_is_useless_until_rewritten() {
    let mut guard = known();
    guard.meets_process("new");
    assert_eq!(quarantine(&guard, 9), Some((QUARANTINE, Doubt::Restarted)));
    assert!(!guard.settled(at(9)));
    hears(&mut guard, &record("a", "run", 1_009), 9);
    assert!(quarantine(&guard, 9).is_some() && !guard.settled(at(9)), "the node restarted and kept its data");
    hears(&mut guard, &record("b", "new", 0), 10);
    assert_eq!(quarantine(&guard, 10), Some((QUARANTINE, Doubt::Restarted)));
    assert!(guard.take_news());
    hears(&mut guard, &record("b", "new", 61), 71);
    assert_eq!(quarantine(&guard, 71), None);
}

#[test]
fn record_of_an_earlier_process_is_useless_to_a_new_client() {
    let mut guard = guard();
    guard.meets_process("new");
    hears(&mut guard, &record("a", "run", 1_000), 0);
    assert_eq!(quarantine(&guard, 0), Some((QUARANTINE, Doubt::Restarted)));
    assert!(!guard.settled(at(0)));
}

/// Another client had changed the record before this client came back.
#[test]
fn record_that_got_a_new_id_by_a_restart_is_doubted_since_then() {
    let mut guard = known();
    guard.meets_process("new");
    hears(&mut guard, &record("b", "new", 15), 30);
    assert_eq!(quarantine(&guard, 30), Some((QUARANTINE - SECOND * 15, Doubt::Restarted)));
    assert!(guard.settled(at(30)), "the doubt began 15 s ago");
}

#[test]
fn returned_process_with_the_same_record_is_doubted_from_now() {
    let mut guard = known();
    guard.meets_process("new");
    guard.meets_process("run");
    hears(&mut guard, &record("a", "run", 1_010), 10);
    assert_eq!(quarantine(&guard, 10), Some((QUARANTINE, Doubt::Restarted)));
}

#[test]
fn promoted_master_that_forgot_its_promotion_is_the_same() {
    let mut guard = guard();
    guard.meets_process("run/id");
    hears(&mut guard, &record("a", "run/id", 1_000), 0);
    guard.meets_process("run");
    hears(&mut guard, &record("a", "run/id", 1_005), 5);
    assert_eq!(quarantine(&guard, 5), None);
    guard.meets_process("run/other");
    assert!(quarantine(&guard, 5).is_some(), "the server was a replica in between");
}

#[test]
fn new_id_in_the_same_process_is_doubted_since_it_began() {
    let mut guard = known();
    hears(&mut guard, &record("b", "run", 5), 30);
    assert_eq!(quarantine(&guard, 30), Some((QUARANTINE - SECOND * 5, Doubt::Forgot)));
    assert!(!guard.settled(at(30)) && guard.settled(ms(30_100)) && guard.take_news());
}

#[test]
fn new_id_of_a_record_old_at_once_is_doubted_from_now_on() {
    for word in [OldAtOnce::Init, OldAtOnce::FirstUse] {
        let mut guard = known();
        hears(&mut guard, &Record { word: Some(word), ..record("b", "run", 62) }, 30);
        assert_eq!(quarantine(&guard, 30), Some((QUARANTINE, Doubt::Forgot)), "{word:?}");
    }
}

#[test]
fn record_that_has_gone_is_a_doubt_from_now_on() {
    let mut guard = known();
    guard.hello(None, at(10), at(10));
    assert_eq!(quarantine(&guard, 10), Some((QUARANTINE, Doubt::Forgot)));
    assert!(guard.take_news() && guard.record().is_none());
    assert_eq!(guard.id().map(|id| &**id), Some("a"), "the next hello must carry the known id");
    guard.hello(None, at(12), at(12));
    assert!(!guard.take_news(), "the doubt was reported before");
    hears(&mut guard, &Record { word: Some(OldAtOnce::FirstUse), ..record("a", "run", 62) }, 13);
    assert_eq!(quarantine(&guard, 13), Some((QUARANTINE - SECOND * 3, Doubt::Forgot)));
}

#[test]
fn reply_with_another_id_is_a_doubt_and_counts_as_forgot() {
    for shown in [Some("b"), None] {
        let mut guard = known();
        assert!(guard.showed(Some("a"), at(9)) && quarantine(&guard, 9).is_none());
        assert!(!guard.showed(shown, at(10)));
        assert_eq!(quarantine(&guard, 10), Some((QUARANTINE, Doubt::Forgot)), "{shown:?}");
        assert!(!guard.settled(at(10)) && guard.take_news());
    }
    assert!(guard().showed(Some("a"), at(0)), "there is no known record to differ from");
}

#[test]
fn record_below_a_grant_that_was_counted_has_lost_it() {
    let mut guard = known();
    guard.granted(7, at(5));
    hears(&mut guard, &Record { high: 7, ..record("a", "run", 1_006) }, 6);
    assert_eq!(quarantine(&guard, 6), None);
    hears(&mut guard, &Record { high: 6, ..record("a", "run", 1_010) }, 10);
    assert_eq!(quarantine(&guard, 10), Some((QUARANTINE, Doubt::Forgot)));
    assert!(guard.take_news());
    hears(&mut guard, &Record { high: 6, ..record("a", "run", 1_015) }, 15);
    assert!(!guard.take_news(), "once");
}

#[test]
fn grant_counted_after_a_hello_is_checked_by_the_next_one() {
    let mut guard = known();
    guard.granted(7, at(10));
    let low = Record { high: 6, ..record("a", "run", 1_010) };
    guard.hello(Some(&low), at(9), at(11));
    assert_eq!(quarantine(&guard, 11), None, "the record may be older than the grant");
    guard.granted(9, at(15));
    guard.hello(Some(&low), at(14), at(16));
    assert_eq!(quarantine(&guard, 16), Some((QUARANTINE, Doubt::Forgot)), "ballot 7 is missing");
}

#[test]
fn ballot_that_is_too_far_ahead_for_a_record_is_not_looked_for() {
    let mut guard = known();
    guard.observe(1_000 * SECOND, at(5), at(5));
    guard.granted(u64::try_from((90_000 * SECOND).as_micros()).unwrap(), at(5));
    hears(&mut guard, &record("a", "run", 1_006), 6);
    assert_eq!(quarantine(&guard, 6), None);
}

#[test]
fn record_whose_word_was_taken_back_is_young_and_that_is_news() {
    let mut guard = guard();
    hears(&mut guard, &Record { word: Some(OldAtOnce::FirstUse), ..record("a", "run", 62) }, 10);
    assert_eq!(quarantine(&guard, 10), None);
    hears(&mut guard, &record("b", "run", 2), 15);
    assert_eq!(quarantine(&guard, 15), Some((QUARANTINE - SECOND * 2, Doubt::Forgot)));
    assert!(!guard.settled(at(15)) && guard.take_news());
}

#[test]
fn master_that_was_a_replica_is_doubted_despite_its_record() {
    let mut guard = known();
    guard.demoted();
    assert!(quarantine(&guard, 9).is_some() && !guard.settled(at(9)));
    hears(&mut guard, &record("a", "run", 1_010), 10);
    assert_eq!(quarantine(&guard, 10), Some((QUARANTINE, Doubt::Restarted)));
    hears(&mut guard, &record("a", "run", 1_020), 20);
    assert_eq!(guard.free_at(), ms(70_600), "the doubt is raised once, and not by each later hello");
}

#[test]
fn reconnection_to_the_same_process_and_record_changes_nothing() {
    let mut guard = known();
    guard.meets_process("run");
    hears(&mut guard, &record("a", "run", 1_010), 10);
    assert!(quarantine(&guard, 10).is_none() && guard.settled(at(10)) && !guard.take_news());
}

#[test]
fn zero_switches_the_guard_off() {
    let mut guard = RestartGuard::new(Duration::ZERO, 0.01);
    assert_eq!(quarantine(&guard, 0), None);
    guard.meets_process("run");
    hears(&mut guard, &Record { synced: false, ..record("a", "run", 0) }, 1);
    guard.meets_process("new");
    hears(&mut guard, &record("b", "new", 0), 2);
    assert!(quarantine(&guard, 2).is_none() && guard.settled(at(2)) && !guard.take_news());
    assert!(!guard.showed(Some("a"), at(3)), "the id differs, even if the guard is off");
    guard.observe(SECOND, at(4), at(4));
    assert!(!guard.observe(100 * SECOND, at(5), at(5)) && quarantine(&guard, 5).is_none());
}

#[test]
fn doubt_is_news_only_once() {
    let mut guard = known();
    assert!(!guard.take_news());
    hears(&mut guard, &record("b", "run", 0), 20);
    assert_eq!([guard.take_news(), guard.take_news()], [true, false]);
    guard.observe(100 * SECOND, at(21), at(21));
    guard.observe(200 * SECOND, at(22), at(22));
    assert!(guard.take_news());
}

#[test]
fn causes_of_doubt_have_names_for_metrics() {
    assert_eq!(Doubt::CAUSES.map(Doubt::as_str), ["restarted", "forgot", "clock_stepped"]);
}
