//! How long a doubted node does not vote, and from when on `extended` counts.

use super::*;
use crate::rules::doubt::wait::SOON;

#[test]
fn young_record_is_waited_for_until_it_is_max_ttl_old() {
    let mut guard = guard();
    guard.meets_process("run");
    hears(&mut guard, &record("a", "run", 20), 100);
    assert_eq!(quarantine(&guard, 100), Some((Duration::from_millis(40_600), Doubt::Restarted)));
    assert_eq!(guard.quarantined(ms(140_600)), None);
    assert!(!guard.take_news(), "this client holds nothing on the node");
}

#[test]
fn age_counts_from_when_the_answer_came() {
    let mut guard = guard();
    guard.hello(Some(&record("a", "run", 20)), at(100), at(103));
    assert_eq!(guard.free_at(), ms(143_600));
}

#[test]
fn node_that_forgot_waits_to_be_synced() {
    let mut guard = guard();
    let unsynced = |age| Record { synced: false, ..record("a", "run", age) };
    hears(&mut guard, &unsynced(50), 100);
    assert_eq!(quarantine(&guard, 100), Some((Duration::from_millis(10_600), Doubt::Restarted)));
    assert_eq!(guard.quarantined(ms(110_600)), Some((LATE, Doubt::Unsynced)));
    assert_eq!(quarantine(&guard, 200), Some((SOON, Doubt::Unsynced)), "the sync takes long");
    assert!(guard.settled(at(111)), "`extended` counts");
    hears(&mut guard, &record("a", "run", 150), 200);
    assert_eq!(quarantine(&guard, 200), None);
}

#[test]
fn longest_doubt_stands() {
    let mut guard = known();
    guard.observe(100 * SECOND, at(1), at(1));
    assert!(guard.observe(200 * SECOND, at(2), at(2)));
    let stepped = quarantine(&guard, 3);
    assert_eq!(stepped, Some((QUARANTINE - SECOND, Doubt::ClockStepped)));
    hears(&mut guard, &record("b", "run", 20), 3);
    assert_eq!(quarantine(&guard, 3), stepped, "the doubt that the new record raises ends sooner");
}

#[test]
fn doubted_node_extends_nothing_until_running_rounds_end() {
    let mut guard = known();
    assert!(guard.trust(at(9)) == Trust { grants: true, extensions: true });
    hears(&mut guard, &record("b", "run", 0), 10);
    assert!(!guard.settled(at(10)) && !guard.settled(ms(15_099)) && guard.settled(ms(15_100)));
    assert!(guard.trust(ms(15_100)) == Trust { grants: false, extensions: true });
}

#[test]
fn clocks_that_may_run_further_apart_are_in_doubt_for_longer() {
    let mut guard = RestartGuard::new(MAX_TTL, 0.1);
    hears(&mut guard, &record("a", "run", 0), 10);
    assert_eq!((guard.settles_at(), guard.free_at()), (at(16), at(76)));
}

#[test]
fn doubt_lasts_max_ttl_if_that_is_shorter_than_a_round() {
    let mut guard = RestartGuard::new(2 * SECOND, 0.01);
    hears(&mut guard, &record("a", "run", 0), 10);
    assert_eq!((guard.settles_at(), guard.free_at()), (at(12), ms(12_020)));
}
