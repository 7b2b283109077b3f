//! What the guard concludes from a node's TIME.

use super::*;

#[test]
fn clock_of_another_server_is_no_stepped_clock() {
    let mut guard = known();
    guard.observe(100 * SECOND, at(1), at(1));
    guard.observe(200 * SECOND, at(2), at(2));
    guard.meets_process("new");
    hears(&mut guard, &record("b", "new", 20), 2);
    assert_eq!(quarantine(&guard, 2), Some((QUARANTINE, Doubt::Restarted)));
}

#[test]
fn clock_stepped_forward_or_back_is_a_doubt() {
    for stepped in [95 * SECOND, 105 * SECOND] {
        let mut guard = known();
        assert!(!guard.observe(100 * SECOND, at(0), at(0)));
        assert!(guard.observe(stepped + SECOND, at(1), at(1)), "{stepped:?}");
        assert_eq!(quarantine(&guard, 1), Some((QUARANTINE, Doubt::ClockStepped)));
        assert!(!guard.settled(at(1)));
    }
}

#[test]
fn push_shows_a_clock_that_was_set_forward() {
    let mut guard = known();
    guard.observe(SECOND * 1_000, at(100), at(100));
    assert!(!guard.observe_push(SECOND * 1_001, at(102)), "the push took a second");
    assert!(guard.trust(at(102)).grants);
    assert!(guard.observe_push(SECOND * 1_004, at(103)), "the node's clock cannot show such a late time");
    assert!(!guard.trust(at(103)).grants);
    assert!(!guard.observe_push(SECOND * 9_000, at(104)), "nothing is known of the clock before the next answer");
}

#[test]
fn clock_shown_by_a_push_is_remembered() {
    let mut guard = known();
    guard.observe(SECOND * 1_000, at(100), at(110));
    assert!(
        !guard.observe_push(SECOND * 1_001, at(101)),
        "the push shows a clock that is ahead by at least 900 s, as far as the reply allows"
    );
    assert!(guard.observe(SECOND * 1_005, at(111), at(112)), "the clock is less far ahead now");
}

#[test]
fn slow_drift_within_the_rate_is_no_step() {
    let mut guard = guard();
    for second in 0..10_000u32 {
        let time = (SECOND * second).mul_f64(1.004);
        assert!(!guard.observe(time, at(second), at(second)), "second {second}");
    }
}

/// The node may have read its clock when the request was sent, and the clock may have drifted from
/// then on.
#[test]
fn drift_counts_since_the_request_was_sent() {
    let mut guard = guard();
    assert!(!guard.observe(100 * SECOND, at(0), at(10)));
    assert!(!guard.observe(Duration::from_millis(110_090), at(10), at(10)));
    assert!(guard.observe(Duration::from_millis(110_150), at(10), at(10)));
}

#[test]
fn rounding_to_microseconds_is_no_clock_step() {
    let nanos = |nanos| Tick::new(Duration::from_nanos(nanos));
    let mut guard = RestartGuard::new(MAX_TTL, 0.0);
    assert!(!guard.observe(SECOND, nanos(0), nanos(0)));
    assert!(!guard.observe(SECOND, nanos(0), nanos(0)), "the same time again is no step");
    assert!(!guard.observe(SECOND + Duration::from_micros(1), nanos(999), nanos(999)), "a new microsecond has begun");
    assert!(guard.observe(SECOND + Duration::from_micros(9), nanos(999), nanos(999)), "8 us more are a step");
}

#[test]
fn clock_offset_is_the_middle_of_what_the_reply_allows() {
    let mut guard = guard();
    assert_eq!(guard.clock_ahead(), None);
    guard.observe(100 * SECOND, at(10), at(12));
    assert_eq!(guard.clock_ahead(), Some(89_000_000));
}

#[test]
fn slow_reply_widens_the_range_of_the_clock() {
    let mut guard = guard();
    assert!(!guard.observe(100 * SECOND, at(0), at(0)));
    // The node may have answered at any moment of these five seconds.
    assert!(!guard.observe(104 * SECOND, at(1), at(6)));
}
