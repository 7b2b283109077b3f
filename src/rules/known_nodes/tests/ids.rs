//! Ids of records: which ids hellos report, and what the ids that other clients report mean.

use super::*;

/// The ids were reported 300 ms ago. Since then, all nodes have answered a hello.
fn shows(record: Record, seen: &[(&str, &str)]) -> Record {
    showed(record, seen, Duration::from_millis(300))
}

fn showed(record: Record, seen: &[(&str, &str)], age: Duration) -> Record {
    let seen = seen.iter().map(|&(node, id)| Sighting { node: node.into(), id: id.into(), age }).collect();
    Record { seen, ..record }
}

#[test]
fn ids_of_the_former_and_the_newer_record_are_no_twins() {
    for (age, is_former, is_newer) in [
        (9_000, true, false),
        (8_500, true, false),
        (8_499, false, false),
        (1_250, false, false),
        (1_249, false, true),
        (0, false, true),
    ] {
        let mut bench = Bench::up(3);
        bench.passes(40_000);
        let restarted = Record { age: SECOND * 20, ..bench.record(0) };
        bench.hears(0, Some(restarted));
        bench.hears(2, None);
        bench.passes(1_000);
        let record = showed(bench.record(1), &[("a", "a0")], Duration::from_millis(age));
        bench.hears(1, Some(record));
        match &bench.plan().standings[0] {
            MembershipState::Counts { .. } => assert!(is_former, "{age} ms ago"),
            MembershipState::Unclear => assert!(is_newer, "{age} ms ago"),
            MembershipState::Twins { .. } => assert!(!is_former && !is_newer, "{age} ms ago"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn two_ids_behind_one_name_leave_it_without_a_vote() {
    let mut bench = Bench::up(3);
    bench.passes(5);
    let record = shows(bench.record(1), &[("a", "a1"), ("b", "b1"), ("c", "c1")]);
    bench.hears(1, Some(record));
    assert_eq!(bench.counts(), [0, 1, 2], "all clients see the same ids");
    bench.passes(5);
    let record = shows(bench.record(1), &[("a", "a1"), ("a", "a2")]);
    bench.hears(1, Some(record.clone()));
    assert_eq!(bench.counts(), [1, 2]);
    let plan = bench.plan();
    let MembershipState::Twins { why } = &plan.standings[0] else { panic!("{:?}", plan.standings[0]) };
    assert!(why.contains("two servers behind the name a") && why.contains("a1, a2"), "{why}");
    bench.passes(5);
    let record = shows(record, &[("a", "a2")]);
    bench.hears(1, Some(record));
    assert_eq!(bench.counts(), [1, 2], "this client sees the other id");
}

/// Nodes keep only the time of the last report. Another client reports its id just before each
/// hello of this client.
#[test]
fn newly_reported_id_takes_the_vote_and_is_checked_at_once() {
    let mut bench = Bench::up(3);
    bench.passes(4_000);
    let just_now = |record| showed(record, &[("a", "a2")], Duration::from_millis(100));
    let records = [bench.record(0), just_now(bench.record(1)), just_now(bench.record(2))];
    records.clone().into_iter().enumerate().for_each(|(node, record)| bench.hears(node, Some(record)));
    let plan = bench.plan();
    assert_eq!(plan.standings[0], MembershipState::Unclear);
    assert!(!plan.standings[0].renews() && !plan.standings[0].counts(bench.now));
    assert!(plan.hellos.iter().any(|(node, _)| *node == 0), "the record is read again");
    bench.passes(250);
    let mut newer = bench.clone();
    newer.hears(0, Some(Record { id: "a2".into(), age: Duration::from_millis(500), ..newer.record(0) }));
    assert_eq!(newer.counts(), [0, 1, 2], "the record had got a new id");
    bench.all_hear([0]);
    assert!(matches!(bench.plan().standings[0], MembershipState::Twins { .. }));
    bench.passes(5_000);
    records.into_iter().enumerate().for_each(|(node, record)| bench.hears(node, Some(record)));
    assert!(matches!(bench.plan().standings[0], MembershipState::Twins { .. }), "a known fault is not unclear again");
    bench.passes(15_000);
    bench.all_hear(0..3);
    assert_eq!(bench.counts(), [0, 1, 2], "nobody reports the other id any more");
}

/// A client for which the name a has two servers.
fn with_twins() -> Bench {
    let mut bench = Bench::up(3);
    bench.passes(5);
    let record = shows(bench.record(1), &[("a", "a2")]);
    bench.hears(1, Some(record));
    assert_eq!(bench.counts(), [1, 2]);
    bench
}

#[test]
fn twins_are_over_when_no_other_id_was_reported_for_15_s() {
    let mut bench = with_twins();
    bench.passes(14_999);
    bench.all_hear(0..3);
    assert_eq!(bench.counts(), [1, 2]);
    bench.passes(1);
    assert_eq!(bench.counts(), [0, 1, 2]);
}

/// The clients on both sides may have been suspended, or cut off, at the same time. They report
/// their ids again with their second hellos.
#[test]
fn twins_stay_until_all_connected_nodes_answered_for_15_s() {
    for away in [vec![], vec![2], vec![1, 2], vec![0, 1, 2]] {
        let mut bench = with_twins();
        bench.passes(60_000);
        away.iter().for_each(|&node| bench.book.heard(node, None, bench.now));
        assert_eq!(bench.counts(), [0; 0]);
        bench.all_hear([0, 1]);
        assert_eq!(bench.counts(), [1], "without {away:?}");
        for _ in 0..3 {
            bench.passes(4_900);
            assert!(!bench.counts().contains(&0), "without {away:?}");
            bench.all_hear(if away == [2] { 0..2 } else { 0..3 });
        }
        bench.passes(300);
        // A node that is connected and silent prolongs the finding until it answers.
        assert_eq!(bench.counts().contains(&0), !away.is_empty(), "without {away:?}");
        bench.passes(5_000);
        bench.all_hear(0..3);
        assert_eq!(bench.counts(), [0, 1, 2], "without {away:?}");
    }
}

#[test]
fn ids_that_clients_of_another_list_show_make_no_twins() {
    let mut bench = Bench::up(3);
    bench.passes(5);
    let team = List::new("team", ["a", "b", "x"], SECOND * 60);
    let record = shows(bench.of_list(1, &team), &[("a", "a2")]);
    bench.hears(1, Some(record));
    assert_eq!(bench.counts(), [0, 2]);
}

#[test]
fn hello_shows_only_ids_of_the_last_10_s_with_a_record() {
    let mut bench = Bench::up(4);
    bench.book.heard(3, None, bench.now);
    bench.passes(10_000);
    bench.all_hear([1]);
    bench.hears(2, None);
    let hello = bench.hello(0);
    assert_eq!(hello.intent, Intent::Keep);
    let seen: Vec<(Arc<str>, Arc<str>)> = vec![("b".into(), "b1".into())];
    assert_eq!(hello.seen, seen, "a answered 10 s ago, c has no record, d is unreachable");
}

#[test]
fn record_of_a_server_that_no_client_knew_is_old_at_once() {
    let hello = |seen: &[(&str, &str)]| {
        let mut bench = Bench::new(2);
        let record = shows(bench.record(1), seen);
        bench.hears(1, Some(record));
        bench.hears(0, None);
        bench.hello(0)
    };
    assert_eq!((hello(&[]).intent, hello(&[]).old), (Intent::Put, Some(OldAtOnce::FirstUse)));
    assert_eq!(hello(&[("b", "b1")]).old, Some(OldAtOnce::FirstUse));
    assert_eq!(hello(&[("a", "a1")]).old, None, "another client saw a record on the node");
}

#[test]
fn first_records_of_a_list_know_every_ballot() {
    let sync = |others: Option<Record>| {
        let mut bench = Bench::new(2);
        bench.hears(0, None);
        bench.hears(1, others);
        bench.hello(0).sync
    };
    assert_eq!(sync(None), Some(0));
    assert_eq!(sync(Some(Bench::new(2).record(1))), None, "the other node may have granted ballots");
}

#[test]
fn record_of_a_server_whose_record_this_client_knew_is_young() {
    let mut bench = Bench::up(1);
    bench.passes(5);
    bench.hears(0, None);
    let hello = bench.hello(0);
    assert_eq!((hello.intent, hello.old, hello.sync), (Intent::Put, None, None));
    assert_eq!(hello.knew.as_deref(), Some("a1"), "this id makes a record young that counts as old at once");
}

#[test]
fn record_that_is_there_is_not_made_old() {
    let mut bench = Bench::new(1);
    let record = bench.without_list(0);
    bench.hears(0, Some(record));
    let hello = bench.hello(0);
    assert_eq!((hello.intent, hello.old), (Intent::Put, None));
}

#[test]
fn hello_shows_the_record_that_the_client_knew() {
    let knew = |holds, bench: &mut Bench| {
        bench.holds = holds;
        bench.hello(0).knew
    };
    let new = || {
        let mut bench = Bench::new(1);
        bench.hears(0, None);
        bench
    };
    assert_eq!(knew(false, &mut new()), None);
    assert_eq!(knew(true, &mut new()).as_deref(), Some("held"), "the client holds a lock on other nodes");
    let mut bench = Bench::up(1);
    bench.book.heard(0, None, bench.now);
    bench.hears(0, None);
    assert_eq!(knew(true, &mut bench).as_deref(), Some("a1"), "the client saw the record over another connection");
}

#[test]
fn record_old_at_once_is_taken_back_after_a_reconnection() {
    let mut bench = Bench::up(2);
    bench.passes(5);
    bench.book.heard(0, None, bench.now);
    let another = Record { id: "a2".into(), word: Some(OldAtOnce::Init), ..bench.record(0) };
    bench.hears(0, Some(another.clone()));
    let hello = bench.hello(0);
    assert_eq!((hello.intent, hello.knew.as_deref()), (Intent::Keep, Some("a1")), "the greeting only looked");
    bench.passes(5);
    bench.hears(0, Some(Record { word: None, age: Duration::ZERO, ..another }));
    assert!(bench.hellos().iter().all(|&(node, _)| node != 0), "the record is young now");
    bench.passes(10_000);
    assert_eq!(bench.hello(0).knew.as_deref(), Some("a2"));
}
