//! What the guard holds of nodes.

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const MAX_TTL: Duration = Duration::from_secs(60);

fn at(seconds: u32) -> Tick {
    Tick::new(SECOND * seconds)
}

fn given(guard: &mut RestartGuard, taught: bool, now: Tick) -> Lesson {
    let lesson = guard.lesson().unwrap();
    guard.lesson_given(lesson, taught, now);
    lesson
}

fn guard() -> RestartGuard {
    RestartGuard::new(MAX_TTL, 0.01)
}

#[test]
fn a_node_younger_than_max_ttl_is_quarantined_until_it_is_older() {
    let mut guard = guard();
    guard.admit("a", 20 * SECOND, at(100));
    // It may be up for little more than 19 seconds: uptimes are differences of rounded times.
    assert_eq!(guard.quarantined(at(100)), Some((41 * SECOND, Doubt::Restarted)));
    given(&mut guard, false, at(141));
    assert_eq!(guard.quarantined(at(141)), None);
}

#[test]
fn an_old_node_votes_at_once() {
    let mut guard = guard();
    guard.admit("a", MAX_TTL + SECOND, at(0));
    assert_eq!(guard.quarantined(at(0)), None);
}

#[test]
fn a_master_that_was_a_replica_in_between_is_quarantined_though_it_is_the_same_process() {
    let mut guard = guard();
    guard.admit("a", 1_000 * SECOND, at(0));
    guard.demoted();
    guard.admit("a", 1_010 * SECOND, at(10));
    assert_eq!(guard.quarantined(at(10)), Some((MAX_TTL, Doubt::Restarted)));
    guard.admit("a", 1_020 * SECOND, at(20));
    given(&mut guard, true, at(20));
    assert_eq!(guard.quarantined(at(70)), None, "once, and not each time it is seen from then on");
}

#[test]
fn a_node_seen_as_a_replica_first_is_not_believed_about_its_uptime() {
    let mut guard = guard();
    guard.demoted();
    guard.admit("a", 1_000 * SECOND, at(0));
    assert_eq!(guard.quarantined(at(0)), Some((MAX_TTL, Doubt::Restarted)));
}

#[test]
fn another_process_behind_the_address_is_quarantined_however_long_it_has_been_up() {
    let mut guard = guard();
    guard.admit("master", 1_000 * SECOND, at(0));
    guard.admit("replica", 1_000 * SECOND, at(10));
    assert_eq!(guard.quarantined(at(10)), Some((MAX_TTL, Doubt::Restarted)));
}

#[test]
fn a_reconnection_to_the_same_process_changes_nothing() {
    let mut guard = guard();
    guard.admit("a", 100 * SECOND, at(0));
    guard.admit("a", 110 * SECOND, at(10));
    assert_eq!(guard.quarantined(at(10)), None);
}

#[test]
fn an_uptime_that_went_back_is_a_restart_whatever_the_run_id_says() {
    let mut guard = guard();
    guard.admit("a", 100 * SECOND, at(0));
    guard.admit("a", 3 * SECOND, at(10));
    assert_eq!(guard.quarantined(at(10)), Some((MAX_TTL, Doubt::Restarted)));
}

#[test]
fn zero_switches_the_guard_off() {
    let mut guard = RestartGuard::new(Duration::ZERO, 0.01);
    guard.admit("a", Duration::ZERO, at(0));
    guard.admit("b", Duration::ZERO, at(1));
    assert_eq!(guard.quarantined(at(1)), None);
}

#[test]
fn a_clock_stepped_forward_or_back_is_quarantined() {
    for stepped in [95 * SECOND, 105 * SECOND] {
        let mut guard = guard();
        assert!(!guard.observe(100 * SECOND, at(0), at(0)));
        assert!(guard.observe(stepped + SECOND, at(1), at(1)), "{stepped:?}");
        assert_eq!(guard.quarantined(at(1)), Some((MAX_TTL, Doubt::ClockStepped)));
    }
}

#[test]
fn a_clock_stepped_after_the_node_told_what_it_is_is_noticed_with_the_next_reply() {
    // Redis counts its uptime by its wall clock: stepped back, it looks like a restart, and its old
    // clock is forgotten.
    let mut guard = guard();
    guard.meet("a", 100 * SECOND, Some(500 * SECOND), at(0), at(0));
    guard.meet("a", 95 * SECOND, Some(495 * SECOND), at(1), at(1));
    assert!(guard.observe(600 * SECOND, at(90), at(90)), "stepped forward since");
    assert_eq!(guard.quarantined(at(90)), Some((MAX_TTL, Doubt::ClockStepped)));
}

#[test]
fn a_push_tells_of_a_clock_that_was_set_forward() {
    let mut guard = guard();
    guard.meet("a", MAX_TTL * 2, Some(SECOND * 1_000), at(100), at(100));
    assert!(!guard.observe_push(SECOND * 1_001, at(102)), "it was on its way for a second");
    assert!(guard.trust(at(102)).grants);
    assert!(guard.observe_push(SECOND * 1_004, at(103)), "it cannot be so late there");
    assert!(!guard.trust(at(103)).grants);
    assert!(!guard.observe_push(SECOND * 9_000, at(104)), "nothing is known of the clock before the next answer");
}

#[test]
fn what_a_push_tells_of_a_clock_is_remembered() {
    let mut guard = guard();
    guard.meet("a", MAX_TTL * 2, Some(SECOND * 1_000), at(100), at(110));
    assert!(
        !guard.observe_push(SECOND * 1_001, at(101)),
        "its clock is ahead by 900 s, the highest that the answer allows"
    );
    assert!(guard.observe(SECOND * 1_005, at(111), at(112)), "and no longer is");
}

#[test]
fn slow_drift_within_the_rate_is_no_step() {
    let mut guard = guard();
    for second in 0..10_000u32 {
        let time = (SECOND * second).mul_f64(1.004);
        assert!(!guard.observe(time, at(second), at(second)), "second {second}");
    }
}

#[test]
fn what_whole_microseconds_cut_off_is_no_step() {
    let nanos = |nanos| Tick::new(Duration::from_nanos(nanos));
    let mut guard = RestartGuard::new(MAX_TTL, 0.0);
    assert!(!guard.observe(SECOND, nanos(0), nanos(0)));
    assert!(!guard.observe(SECOND, nanos(0), nanos(0)), "the same again");
    assert!(!guard.observe(SECOND + Duration::from_micros(1), nanos(999), nanos(999)), "a microsecond begins");
    assert!(guard.observe(SECOND + Duration::from_micros(9), nanos(999), nanos(999)), "eight more are a step");
}

#[test]
fn an_uptime_may_be_a_second_and_a_fiftieth_of_the_time_behind_and_no_more() {
    let before = 100 * SECOND;
    let elapsed = 50 * SECOND;
    assert!(!went_back(before, elapsed, 148 * SECOND));
    assert!(went_back(before, elapsed, 148 * SECOND - Duration::from_nanos(1)));
}

#[test]
fn the_longest_doubt_stands() {
    let mut guard = guard();
    guard.admit("a", 20 * SECOND, at(0));
    assert!(!guard.observe(100 * SECOND, at(0), at(0)));
    assert!(guard.observe(200 * SECOND, at(1), at(1)));
    let stepped = guard.quarantined(at(1));
    guard.admit("a", 21 * SECOND, at(1));
    assert_eq!((stepped, guard.quarantined(at(1))), (Some((MAX_TTL, Doubt::ClockStepped)), stepped));
    guard.admit("b", 21 * SECOND, at(1));
    assert_eq!(guard.quarantined(at(1)), stepped, "one that is no longer changes nothing");
}

#[test]
fn a_doubted_node_extends_nothing_until_no_running_round_counts_what_it_forgot() {
    let ms = |ms| Tick::new(Duration::from_millis(ms));
    let mut guard = guard();
    guard.admit("a", 1_000 * SECOND, at(0));
    assert!(guard.settled(at(0)), "it is not in doubt");
    guard.admit("b", 1_000 * SECOND, at(10));
    assert!(!guard.settled(at(10)) && !guard.settled(ms(15_099)));
    assert!(guard.settled(ms(15_100)) && guard.quarantined(at(69)).is_some());
}

#[test]
fn clocks_that_may_run_further_apart_are_in_doubt_for_longer() {
    let mut guard = RestartGuard::new(MAX_TTL, 0.1);
    guard.admit("a", 1_000 * SECOND, at(0));
    guard.admit("b", 1_000 * SECOND, at(10));
    assert!(!guard.settled(Tick::new(Duration::from_millis(15_999))) && guard.settled(at(16)));
}

#[test]
fn what_expires_sooner_than_a_round_ends_is_in_doubt_for_as_long_only() {
    let mut guard = RestartGuard::new(2 * SECOND, 0.01);
    guard.admit("a", 90 * SECOND, at(0));
    guard.admit("b", 90 * SECOND, at(10));
    assert!(!guard.settled(at(11)) && guard.settled(at(12)));
}

#[test]
fn a_young_node_has_been_in_doubt_since_it_came_up() {
    let mut guard = guard();
    guard.admit("a", 4 * SECOND, at(100));
    assert!(!guard.settled(at(102)) && guard.settled(at(103)), "up for 3 seconds at least");
}

#[test]
fn each_doubt_is_news_once() {
    let mut guard = guard();
    guard.admit("a", 1_000 * SECOND, at(0));
    assert_eq!(guard.take_news(), News::Met);
    guard.admit("a", 1_010 * SECOND, at(10));
    assert_eq!(guard.take_news(), News::None, "nothing is in doubt");
    guard.admit("b", 1_000 * SECOND, at(20));
    assert_eq!([guard.take_news(), guard.take_news()], [News::Doubted, News::None]);
    guard.observe(100 * SECOND, at(21), at(21));
    guard.observe(200 * SECOND, at(22), at(22));
    assert_eq!(guard.take_news(), News::Doubted);
}

#[test]
fn votes_wait_for_a_lesson_and_not_for_long() {
    let mut guard = guard();
    guard.admit("a", 1_000 * SECOND, at(0));
    assert_eq!(guard.quarantined(at(0)), None, "what restarted before anybody was there votes, and is taught");
    assert_eq!(guard.lesson().map(|lesson| lesson.from <= at(0)), Some(true));
    let first = given(&mut guard, true, at(0));
    guard.admit("b", 1_000 * SECOND, at(10));
    guard.lesson_given(first, true, at(10));
    let lesson = guard.lesson().expect("what was taught was another process");
    assert_eq!((lesson.from, lesson.ends), (Tick::new(Duration::from_millis(15_100)), at(70)));
    assert_eq!(guard.quarantined(at(70)), Some((LESSON, Doubt::Restarted)));
    assert_eq!(guard.quarantined(at(72)), None);
    given(&mut guard, false, at(69));
    assert!(guard.quarantined(at(70)).is_some(), "there is time for another try");
    given(&mut guard, false, at(70));
    assert!(guard.quarantined(at(70)).is_none() && guard.lesson().is_some(), "it votes, and is taught later");
    given(&mut guard, true, at(80));
    assert_eq!(guard.lesson(), None);
}

#[test]
fn who_restarted_before_it_was_first_seen_is_taught_before_it_votes_and_who_never_forgot_votes_at_once() {
    let met = |taught| {
        let mut guard = guard();
        guard.admit("a", 1_000 * SECOND, at(5));
        guard.recorded(taught, at(5));
        guard
    };
    let knows = met(Some(true));
    assert!(knows.quarantined(at(5)).is_none() && knows.lesson().is_none());
    for untold in [Some(false), None] {
        let mut forgot = met(untold);
        assert_eq!(forgot.quarantined(at(5)), Some((LESSON, Doubt::Restarted)));
        assert!(forgot.only_waits_for_a_lesson(at(5)) && forgot.settled(at(5)));
        assert_eq!(forgot.quarantined(at(7)), None, "and not for long");
        given(&mut forgot, true, at(5));
        assert_eq!(forgot.quarantined(at(5)), None);
    }
    let mut alone = met(Some(false));
    given(&mut alone, false, at(5));
    assert!(alone.quarantined(at(5)).is_none() && alone.lesson().is_some());
}

#[test]
fn a_node_that_nobody_could_teach_votes_at_once_when_it_is_connected_to_again() {
    for told in [Some(false), None] {
        let mut guard = guard();
        guard.admit("a", 1_000 * SECOND, at(5));
        guard.recorded(told, at(5));
        assert_eq!(guard.take_news(), News::Met);
        given(&mut guard, false, at(5));
        guard.admit("a", 1_010 * SECOND, at(15));
        guard.recorded(told, at(15));
        assert_eq!(guard.quarantined(at(15)), None, "nobody is told to teach it now");
    }
}

#[test]
fn a_memory_that_went_while_the_process_stayed_is_noticed_by_what_it_was_taught() {
    let mut guard = guard();
    guard.admit("a", 1_000 * SECOND, at(0));
    guard.recorded(Some(true), at(0));
    guard.admit("a", 1_010 * SECOND, at(10));
    guard.recorded(None, at(10));
    assert_eq!(guard.quarantined(at(10)), None, "it did not tell");
    guard.recorded(Some(false), at(10));
    assert_eq!(guard.quarantined(at(10)), Some((MAX_TTL, Doubt::Restarted)));
    assert!(!guard.settled(at(10)) && !guard.only_waits_for_a_lesson(at(10)));
}

#[test]
fn a_stepped_clock_needs_no_lesson() {
    let mut guard = guard();
    guard.admit("a", 1_000 * SECOND, at(0));
    given(&mut guard, true, at(0));
    guard.observe(100 * SECOND, at(1), at(1));
    guard.observe(200 * SECOND, at(2), at(2));
    assert_eq!(guard.lesson(), None);
}

#[test]
fn the_nodes_clock_is_in_the_middle_of_what_its_answer_allows() {
    let mut guard = guard();
    assert_eq!(guard.clock_ahead(), None);
    guard.observe(100 * SECOND, at(10), at(12));
    assert_eq!(guard.clock_ahead(), Some(89_000_000));
}

#[test]
fn a_slow_reply_widens_what_is_believed_of_the_clock() {
    let mut guard = guard();
    assert!(!guard.observe(100 * SECOND, at(0), at(0)));
    // Answered somewhere within these five seconds.
    assert!(!guard.observe(104 * SECOND, at(1), at(6)));
}

#[test]
fn a_larger_max_ttl_is_no_new_doubt_and_lengthens_those_under_way() {
    let left = |longest: Duration, when| {
        let mut guard = guard();
        guard.admit("a", 1_000 * SECOND, at(0));
        guard.admit("b", SECOND, at(100));
        guard.raise(MAX_TTL, at(101));
        guard.raise(longest, at(when));
        guard.quarantined(at(when)).map(|(left, _)| left)
    };
    assert_eq!(left(MAX_TTL * 2, 110), Some(110 * SECOND), "the doubt began when it did");
    assert_eq!(left(MAX_TTL / 2, 110), Some(20 * SECOND), "who told more has gone");
    assert_eq!(left(MAX_TTL / 2, 133), None);
    assert_eq!(left(MAX_TTL * 2, 163), None, "it was over, and nobody had such locks then");
}

/// Nodes of another list teach it nothing that counts, and its own may have come only now.
#[test]
fn votes_of_a_node_that_is_listed_later_wait_for_one_more_try_to_teach_it() {
    let mut guard = guard();
    guard.admit("a", 1_000 * SECOND, at(0));
    guard.listed(at(1));
    assert_eq!(guard.quarantined(at(1)).map(|(left, _)| left), Some(2 * SECOND));
    given(&mut guard, false, at(2));
    assert_eq!(guard.quarantined(at(2)), None, "nobody could");
    guard.listed(at(10));
    assert_eq!(guard.quarantined(at(10)), None, "it was tried while its votes counted");
    guard.admit("b", 1_000 * SECOND, at(20));
    given(&mut guard, false, at(90));
    assert_eq!(guard.quarantined(at(90)), None);
    guard.listed(at(100));
    assert!(guard.only_waits_for_a_lesson(at(101)) && !guard.only_waits_for_a_lesson(at(102)));
    given(&mut guard, true, at(102));
}

#[test]
fn a_node_that_is_met_is_doubted_for_as_long_as_the_longest_locks_last_that_it_tells_of() {
    let mut old = guard();
    old.admit("a", 100 * SECOND, at(0));
    assert_eq!(old.quarantined(at(1)), None);
    old.raise(MAX_TTL * 2, at(1));
    let left = old.quarantined(at(1)).unwrap().0;
    assert_eq!(left, 20 * SECOND, "up for 99 seconds at least, then");
    let mut looks = old.clone();
    old.raise(MAX_TTL * 3, at(30));
    assert_eq!(old.quarantined(at(30)), None, "it was told, and waited for that");
    looks.raise_anew(MAX_TTL * 2, at(1));
    looks.raise_anew(MAX_TTL * 3, at(30));
    let left = looks.quarantined(at(30)).unwrap().0;
    assert_eq!(left, 51 * SECOND, "who only looks did not know of those locks");
    let mut off = RestartGuard::new(Duration::ZERO, 0.01);
    off.admit("a", SECOND, at(0));
    off.raise(MAX_TTL, at(0));
    assert_eq!(off.quarantined(at(0)), None);
}
