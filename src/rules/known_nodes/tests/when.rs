//! When hellos are sent, and for how long their answers count.

use super::*;

#[test]
fn hello_keeps_the_list_in_force_every_five_seconds() {
    let mut bench = Bench::up(2);
    assert_eq!(bench.plan().due, bench.now + Duration::from_millis(4_500));
    bench.passes(4_499);
    assert!(bench.hellos().is_empty());
    bench.passes(1);
    assert_eq!(bench.hellos(), [(0, Intent::Keep), (1, Intent::Keep)]);
    bench.passes(5);
    bench.all_hear([0, 1]);
    bench.passes(4_494);
    assert!(bench.hellos().is_empty(), "the next hello is due 4.5 s after the last one was sent");
    bench.passes(1);
    assert_eq!(bench.hellos(), [(0, Intent::Keep), (1, Intent::Keep)]);
}

#[test]
fn hellos_of_several_clients_are_spread() {
    let next = |random| {
        let mut bench = Bench::up(1);
        bench.passes(4_500);
        bench.book.plan(bench.now, false, random);
        bench.passes(1);
        bench.all_hear([0]);
        let sent = bench.now.minus(Duration::from_millis(1));
        bench.plan().due.since(sent)
    };
    assert_eq!(next(0), Duration::from_millis(4_500));
    assert_eq!(next(512), Duration::from_millis(4_750));
    assert!(next(1_023) < SECOND * 5 && next(u64::MAX) < SECOND * 5);
}

#[test]
fn votes_count_for_ten_seconds_after_an_answered_hello() {
    let mut bench = Bench::up(2);
    let standing = bench.plan().standings.remove(0);
    assert_eq!(standing, MembershipState::Counts { until: bench.now + SECOND * 10 });
    let ends = bench.now + SECOND * 10;
    assert!(standing.counts(ends.minus(Duration::from_nanos(1))) && !standing.counts(ends));
    bench.passes(10_000);
    bench.all_hear([1]);
    assert_eq!((bench.plan().standings.remove(0), bench.counts()), (MembershipState::Unknown, vec![1]));
}

#[test]
fn node_with_a_reply_at_odds_with_its_record_is_asked_at_once() {
    let mut bench = Bench::up(2);
    bench.plan();
    let stale = Known { stale: true, ..bench.known(Some(bench.record(0))) };
    bench.passes(5);
    bench.knows(0, stale.clone());
    assert_eq!(bench.hellos(), [(0, Intent::Keep)]);
    bench.passes(5);
    bench.knows(0, stale);
    assert!(bench.hellos().is_empty(), "one hello at a time");
    bench.passes(5);
    bench.all_hear([0]);
    assert!(bench.hellos().is_empty(), "the new answer is known");
}

#[test]
fn record_of_another_process_is_written_at_once() {
    let mut bench = Bench::up(2);
    bench.passes(5);
    let replaced = Known { process: "new".into(), ..bench.known(Some(bench.record(0))) };
    bench.knows(0, replaced);
    let plan = bench.plan();
    assert_eq!((&plan.standings[0], plan.hellos.len()), (&MembershipState::Unknown, 1));
    assert_eq!((plan.hellos[0].0, plan.hellos[0].1.intent), (0, Intent::Keep));
    bench.passes(5);
    let written = Record { process: "new".into(), id: "a2".into(), ..bench.record(0) };
    let known = Known { process: "new".into(), ..bench.known(Some(written)) };
    bench.knows(0, known);
    assert_eq!((bench.hellos(), bench.counts()), (vec![], vec![0, 1]));
}

#[test]
fn hello_that_changes_nothing_is_not_repeated_at_once() {
    let mut bench = Bench::new(1);
    bench.hears(0, None);
    assert_eq!(bench.hellos(), [(0, Intent::Put)]);
    bench.passes(5);
    bench.hears(0, None);
    assert!(bench.hellos().is_empty());
    assert_eq!(bench.plan().due, bench.now + Duration::from_millis(245));
    bench.passes(245);
    assert_eq!(bench.hellos(), [(0, Intent::Put)]);
}

#[test]
fn hello_that_failed_is_sent_again_soon() {
    let mut bench = Bench::new(1);
    bench.hears(0, None);
    assert_eq!(bench.hellos(), [(0, Intent::Put)]);
    bench.passes(5);
    bench.book.failed(0, bench.now);
    assert!(bench.hellos().is_empty());
    bench.passes(250);
    assert_eq!(bench.hellos(), [(0, Intent::Put)]);
}

#[test]
fn hello_that_fails_again_and_again_is_sent_less_and_less_often() {
    let mut bench = Bench::new(1);
    bench.hears(0, None);
    for pause in [250, 500, 1_000, 2_000, 4_000] {
        assert_eq!(bench.hellos(), [(0, Intent::Put)]);
        bench.book.failed(0, bench.now);
        bench.passes(pause - 1);
        assert!(bench.hellos().is_empty(), "{pause}");
        bench.passes(1);
    }
    bench.hears(0, None);
    assert_eq!(bench.hellos(), [(0, Intent::Put)]);
    bench.book.failed(0, bench.now);
    bench.passes(250);
    assert_eq!(bench.hellos(), [(0, Intent::Put)], "a hello was carried out in between");
}

#[test]
fn unanswered_hello_is_sent_again_after_a_round_timeout() {
    let mut bench = Bench::new(1);
    bench.hears(0, None);
    assert_eq!(bench.hellos(), [(0, Intent::Put)]);
    assert_eq!(bench.plan().due, bench.now + SECOND);
    bench.passes(1_000);
    assert_eq!(bench.hellos(), [(0, Intent::Put)]);
}

#[test]
fn new_connection_is_heard_anew() {
    let mut bench = Bench::up(2);
    bench.passes(LATER);
    bench.book.heard(0, Some(Known { connecting: true, ..Known::default() }), bench.now);
    assert_eq!(bench.counts(), [1]);
    bench.passes(5);
    bench.all_hear([0]);
    assert_eq!(
        (bench.counts(), bench.hellos()),
        (vec![0, 1], vec![]),
        "the greeting of the new connection was a hello"
    );
    bench.passes(1_495);
    assert_eq!(bench.hellos(), [(1, Intent::Keep)]);
}

#[test]
fn times_shrink_with_a_short_max_ttl() {
    let list = Arc::new(List::new("default", ["a"], SECOND * 5));
    let mut book = KnownNodes::new(list.clone(), vec!["a".into()], SECOND, false);
    let mut bench = Bench::new(1);
    let record = Record { in_force: Some(in_force(&list)), ..bench.record(0) };
    let known = bench.known(Some(record));
    book.heard(0, Some(known), bench.now);
    let plan = book.plan(bench.now, false, 0);
    assert_eq!(plan.standings, [MembershipState::Counts { until: bench.now + SECOND * 2 }]);
    assert_eq!(plan.due, bench.now + Duration::from_millis(900));
    bench.passes(900);
    assert_eq!(book.plan(bench.now, false, 0).hellos.len(), 1);
}
