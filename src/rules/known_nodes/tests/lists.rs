//! Lists: how they are put in force, kept in force, and found on nodes.

use super::*;

#[test]
fn list_is_put_in_force_once_all_nodes_were_asked() {
    let mut bench = Bench::new(3);
    bench.hears(0, None);
    let record = bench.without_list(1);
    bench.hears(1, Some(record));
    assert_eq!((bench.hellos(), bench.counts()), (vec![], vec![]), "the client is still connecting to c");
    bench.passes(5);
    bench.all_hear([2]);
    assert_eq!(bench.hellos(), [(0, Intent::Put), (1, Intent::Put)], "the list is in force on c already");
    assert!(bench.hellos().is_empty(), "both hellos were sent");
    bench.passes(5);
    bench.all_hear([0, 1]);
    assert_eq!((bench.hellos(), bench.counts()), (vec![], vec![0, 1, 2]));
}

#[test]
fn node_being_dialed_is_awaited_for_one_round_timeout() {
    let mut bench = Bench::new(2);
    bench.hears(0, None);
    assert_eq!(bench.plan().due, bench.now + SECOND);
    bench.passes(999);
    assert!(bench.hellos().is_empty());
    bench.passes(1);
    assert_eq!(bench.hellos(), [(0, Intent::Put)]);
}

#[test]
fn node_that_cannot_be_reached_is_not_waited_for() {
    let mut bench = Bench::new(2);
    bench.hears(0, None);
    bench.book.heard(1, None, bench.now);
    assert_eq!(bench.hellos(), [(0, Intent::Put)]);
}

#[test]
fn list_is_put_in_force_only_after_stale_nodes_are_asked_again() {
    let mut bench = Bench::up(3);
    bench.passes(LATER);
    let record = bench.without_list(0);
    bench.hears(0, Some(record));
    assert_eq!(bench.hellos(), [(1, Intent::Keep), (2, Intent::Keep)]);
    bench.passes(5);
    let other = bench.of_list(1, &stranger());
    bench.hears(1, Some(other));
    bench.all_hear([2]);
    assert!(bench.hellos().is_empty(), "another list has come in force meanwhile");
    let mut bench = Bench::up(3);
    bench.passes(LATER);
    bench.hears(0, None);
    bench.plan();
    bench.passes(5);
    bench.all_hear([1, 2]);
    assert_eq!(bench.hellos(), [(0, Intent::Put)]);
}

#[test]
fn silent_node_is_awaited_for_one_round_timeout() {
    let mut bench = Bench::up(3);
    bench.passes(LATER);
    bench.hears(0, None);
    assert_eq!(bench.hellos(), [(1, Intent::Keep), (2, Intent::Keep)]);
    bench.passes(5);
    bench.all_hear([1]);
    assert_eq!(bench.plan().due, bench.now + Duration::from_millis(995));
    bench.passes(995);
    assert!(bench.hellos().contains(&(0, Intent::Put)), "c is silent");
}

#[test]
fn list_is_not_put_in_force_while_another_of_its_name_is() {
    let mut bench = Bench::new(3);
    let (other, lacks) = (bench.of_list(1, &stranger()), bench.without_list(2));
    bench.hears(0, None);
    bench.hears(1, Some(other));
    bench.hears(2, Some(lacks));
    assert!(bench.hellos().is_empty());
    bench.passes(4_500);
    assert_eq!(bench.hellos(), [0, 1, 2].map(|node| (node, Intent::Look)));
    bench.passes(5);
    bench.hears(0, None);
    let lacks = [1, 2].map(|node| bench.without_list(node));
    lacks.into_iter().zip(1..).for_each(|(record, node)| bench.hears(node, Some(record)));
    assert_eq!(bench.hellos(), [0, 1, 2].map(|node| (node, Intent::Put)), "the other list has lapsed");
}

#[test]
fn list_of_another_name_keeps_its_node_from_voting_and_no_other() {
    let mut bench = Bench::new(3);
    let team = List::new("team", ["a", "x", "y"], SECOND * 60);
    let other = bench.of_list(0, &team);
    bench.hears(0, Some(other));
    bench.all_hear([1]);
    bench.hears(2, None);
    let plan = bench.plan();
    assert_eq!(plan.other_list, None);
    assert_eq!(plan.hellos.len(), 1, "the list is still put in force on c");
    assert_eq!((plan.hellos[0].0, plan.hellos[0].1.intent), (2, Intent::Put));
    let MembershipState::OtherList { until, why } = &plan.standings[0] else { panic!("{:?}", plan.standings[0]) };
    assert!(*until == bench.now + SECOND * 70 && why.contains("theirs is \"team\""), "{why}");
    assert_eq!(bench.counts(), [1]);
}

#[test]
fn other_list_of_the_name_stops_all_votes_while_in_force() {
    let mut bench = Bench::up(3);
    let other = bench.of_list(1, &stranger());
    bench.passes(5);
    bench.hears(1, Some(other));
    let plan = bench.plan();
    assert!(
        plan.other_list
            .as_ref()
            .is_some_and(|why| why.contains("in force on b") && why.contains("theirs has x, y, z in place of"))
    );
    assert!(plan.standings.iter().all(|standing| matches!(standing, MembershipState::OtherList { .. })), "{plan:?}");
    bench.book.heard(1, None, bench.now);
    bench.passes(69_999);
    bench.all_hear([0, 2]);
    assert!(bench.plan().other_list.is_some(), "b is unreachable, and may still have the other list");
    assert!(bench.counts().is_empty());
    assert_eq!(bench.plan().due, bench.now + Duration::from_millis(1));
    bench.passes(1);
    assert_eq!((bench.plan().other_list, bench.counts()), (None, vec![0, 2]));
}

#[test]
fn other_list_is_gone_once_an_undoubted_node_reports_so() {
    let mut bench = Bench::up(3);
    let (other, mine) = (bench.of_list(1, &stranger()), bench.record(1));
    bench.passes(5);
    bench.hears(1, Some(other));
    let ends = bench.now + SECOND * 70;
    let doubted = |bench: &mut Bench, known: Known| {
        bench.passes(5);
        bench.knows(1, Known { at: bench.now, ..known });
        bench.plan().other_list.is_some()
    };
    let none = bench.known(None);
    assert!(doubted(&mut bench, none), "the node forgot all");
    let young = Known { free_at: ends, ..bench.known(Some(Record { in_force: None, ..mine.clone() })) };
    assert!(doubted(&mut bench, young), "the record is young");
    let replaced = bench.known(Some(Record { process: "before".into(), ..mine.clone() }));
    assert!(doubted(&mut bench, replaced), "the node restarted");
    let good = bench.known(Some(mine));
    assert!(!doubted(&mut bench, good));
    assert_eq!(bench.counts(), [0, 1, 2]);
}

/// Clients that meet the other list stop extending their own. So two lists that keep each other out
/// both lapse.
#[test]
fn client_that_meets_another_list_stops_extending_its_own() {
    let mut bench = Bench::up(3);
    bench.passes(5);
    let other = bench.of_list(1, &stranger());
    bench.hears(1, Some(other));
    bench.passes(4_500);
    let plan = bench.plan();
    assert_eq!(plan.hellos.len(), 3);
    assert!(plan.hellos.iter().all(|(_, wanted)| wanted.intent == Intent::Look && wanted.sync.is_none()), "{plan:?}");
}

#[test]
fn node_whose_other_list_has_ended_is_asked_before_it_votes() {
    let mut bench = Bench::up(3);
    bench.passes(5);
    let team = List::new("team", ["a", "x", "y"], SECOND * 60);
    let brief = InForce { left: SECOND, ..in_force(&team) };
    let other = Record { in_force: Some(brief), ..bench.record(0) };
    bench.hears(0, Some(other));
    assert!(bench.hellos().is_empty());
    bench.passes(1_000);
    assert_eq!((bench.counts(), bench.hellos()), (vec![1, 2], vec![]), "the hello was sent with the first plan");
    bench.passes(5);
    bench.all_hear([0]);
    assert_eq!(bench.counts(), [0, 1, 2]);
}

#[test]
fn read_only_client_writes_nothing_and_judges_like_a_client() {
    let mut bench = Bench::of(3, true);
    let other = bench.of_list(1, &stranger());
    bench.hears(0, None);
    bench.all_hear([2]);
    assert_eq!((bench.hellos(), bench.counts()), (vec![], vec![0, 2]));
    bench.hears(1, Some(other));
    assert_eq!(bench.counts(), [0; 0], "a client of this list could acquire nothing");
    bench.passes(4_500);
    let plan = bench.plan();
    assert!(plan.hellos.len() == 3 && plan.other_list.is_some());
    let looks = |wanted: &Wanted| wanted.intent == Intent::Look && wanted.seen.is_empty() && wanted.old.is_none();
    assert!(plan.hellos.iter().all(|(_, wanted)| looks(wanted)), "{:?}", plan.hellos);
}

#[test]
fn own_list_counts_while_it_outlasts_new_grants() {
    for (left, asks, counts_for) in
        [(75_000, false, 9_999), (65_000, false, 4_950), (64_999, true, 4_949), (61_000, true, 990)]
    {
        let mut bench = Bench::new(1);
        let mut record = bench.record(0);
        record.in_force.as_mut().unwrap().left = Duration::from_millis(left);
        bench.hears(0, Some(record));
        assert_eq!(bench.hellos().first(), asks.then_some(&(0, Intent::Keep)), "{left}: a greeting extends nothing");
        bench.passes(counts_for - 1);
        assert_eq!(bench.counts(), [0], "{left}");
        bench.passes(2);
        assert!(bench.counts().is_empty(), "{left}");
    }
}

#[test]
fn list_that_lapsed_on_a_doubted_node_asks_no_more() {
    let mut bench = Bench::up(2);
    let other = bench.of_list(1, &stranger());
    bench.passes(5);
    bench.hears(1, Some(other));
    bench.passes(70_000);
    bench.all_hear([0]);
    assert!(bench.hellos().contains(&(1, Intent::Look)));
    let doubted = Known { free_at: bench.now + SECOND * 60, ..bench.known(Some(bench.record(1))) };
    bench.knows(1, doubted);
    bench.passes(1_000);
    assert!(bench.hellos().is_empty());
}

/// The stranger's hash is below that of three nodes, and above that of two nodes.
#[test]
fn list_with_the_lower_hash_goes_first_if_both_lapse() {
    for (nodes, waits) in [(3, 5_500), (2, 0)] {
        let mut bench = Bench::up(nodes);
        assert_eq!(stranger().hash() < bench.list.hash(), waits > 0);
        bench.passes(5);
        let other = bench.of_list(1, &stranger());
        bench.hears(1, Some(other));
        bench.plan();
        bench.passes(70_000);
        for node in 0..nodes {
            let lacks = bench.without_list(node);
            bench.hears(node, Some(lacks));
        }
        if waits > 0 {
            let plan = bench.plan();
            assert!(plan.hellos.iter().all(|(_, wanted)| wanted.intent == Intent::Keep), "{plan:?}");
            bench.passes(waits);
            for node in 0..nodes {
                let lacks = bench.without_list(node);
                bench.hears(node, Some(lacks));
            }
        }
        assert!(bench.hellos().iter().all(|(_, intent)| *intent == Intent::Put));
        assert_eq!(bench.plan().other_list, None);
    }
}

/// Urgent hellos to a and b alternate. Each answer must count until the other node has answered.
#[test]
fn list_is_put_in_force_if_nodes_answer_at_different_moments() {
    let mut bench = Bench::new(2);
    bench.book = KnownNodes::new(
        bench.list.clone(),
        NAMES[..2].iter().map(|&name| name.into()).collect(),
        at(50).since_origin(),
        false,
    );
    bench.hears(0, None);
    bench.plan();
    bench.passes(125);
    bench.hears(1, None);
    assert_eq!(bench.hellos(), [(0, Intent::Put), (1, Intent::Put)]);
}
