//! What one lease decides, and the timers that it sets.

use super::*;
use crate::rules::{Backoff, Drift, RenewVote};

mod timers;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at(since: u64) -> Tick {
    Tick::new(ms(since))
}

fn validity() -> Validity {
    Validity::new(ms(1_000), Drift::default())
}

/// A round that the first two of three nodes granted at 0 ms.
fn won() -> Won {
    let (deadline, granted) = (validity().deadline(at(0)), NodeSet::first(2));
    let (least, backers, may_hold) = (Duration::ZERO, granted, granted);
    Won { t0: at(0), ballot: 7, highest: 7, handed_over: false, deadline, least, granted, backers, may_hold }
}

fn handed_over(deadline: u64) -> Won {
    Won { handed_over: true, deadline: at(deadline), ..won() }
}

fn tenure(max_hold: Option<Duration>) -> LeaseState {
    LeaseState::new(Size::of(3), validity(), max_hold, won(), at(10))
}

/// A pace that renews as late as allowed, and repeats a renewal without a pause.
fn pace(round_trip: u64) -> Pace<fn() -> u64> {
    let (backoff, round_trip) = (Backoff::default(), ms(round_trip));
    Pace { auto_renew: true, backoff, round_trip, phase: 0, from: at(0), random: || 0 }
}

fn renewed(tenure: &mut LeaseState, t0: u64, renewal: Renewal, votes: &RenewalTally, now: u64) -> Renewed {
    let heard = Heard { t0: at(t0), renewal, votes, doubted: NodeSet::default() };
    tenure.renewed(heard, pace(5), at(now)).0
}

fn extended(nodes: u32) -> RenewalTally {
    let nodes: Vec<_> = NodeSet::first(nodes).iter().map(|node| (node, RenewVote::Extended)).collect();
    votes(&nodes)
}

fn votes(votes: &[(usize, RenewVote)]) -> RenewalTally {
    let mut tally = RenewalTally::new(Size::of(3));
    votes.iter().for_each(|&(node, vote)| tally.count(node, vote));
    tally
}

/// A margin is a share of the validity. After a hand-over, it is a share of the time that was left
/// when the lease began.
#[test]
fn margin_is_relative_to_the_last_extension_or_the_grant() {
    let mut tenure = tenure(None);
    let extended = votes(&[(0, RenewVote::Extended), (1, RenewVote::Extended)]);
    let of = |renewed| match renewed {
        Renewed::Extended { margin, of } => (margin, of),
        other => panic!("{other:?}"),
    };
    assert_eq!(of(renewed(&mut tenure, 330, Renewal::Extended, &extended, 340)), (ms(648), ms(988)));
    let mut tenure = LeaseState::new(Size::of(3), validity(), None, handed_over(500), at(300));
    assert_eq!(of(renewed(&mut tenure, 350, Renewal::Extended, &extended, 360)), (ms(140), ms(200)));
    assert_eq!(of(renewed(&mut tenure, 700, Renewal::Extended, &extended, 738)), (ms(600), ms(988)));
}

#[test]
fn lease_is_held_until_its_deadline_and_lost_from_then_on() {
    let tenure = tenure(None);
    assert!(tenure.is_held(at(987)) && tenure.lost(at(987)).is_none());
    assert_eq!((tenure.is_held(at(988)), tenure.lost(at(988))), (false, Some(LostReason::Expired)));
    assert_eq!(tenure.remaining(at(900)), ms(88));
}

#[test]
fn handed_over_lease_is_renewed_soon_even_without_auto_renew() {
    let (tenure, won) = (tenure(None), handed_over(988));
    let first = |round_trip| tenure.first_renewal(&won, pace(round_trip));
    assert_eq!((first(5), first(150)), (Some(Due::Alone(at(110))), Some(Due::Alone(at(160)))));
    assert_eq!(first(900), Some(Due::Alone(at(10) + ms(978) / 4)));
    let by_hand = Pace { auto_renew: false, ..pace(5) };
    assert_eq!(tenure.first_renewal(&won, by_hand), first(5), "even without auto_renew");
}

#[test]
fn lease_may_be_held_by_every_node_asked_since_its_grant() {
    let mut tenure = tenure(None);
    assert_eq!((tenure.since(), tenure.may_hold()), (at(10), NodeSet::first(2)));
    tenure.sent(NodeSet::of(2));
    assert_eq!(tenure.may_hold(), NodeSet::first(3));
}

#[test]
fn a_renewal_moves_the_deadline_from_its_own_beginning() {
    let mut tenure = tenure(None);
    let extended = votes(&[(1, RenewVote::Extended), (2, RenewVote::Extended)]);
    let moved = renewed(&mut tenure, 300, Renewal::Extended, &extended, 320);
    assert_eq!(moved, Renewed::Extended { margin: ms(668), of: ms(988) });
    assert_eq!(tenure.deadline(), at(1_288));
    renewed(&mut tenure, 200, Renewal::Extended, &extended, 330);
    assert_eq!(tenure.deadline(), at(1_288), "a renewal that was overtaken does not move the deadline back");
}

#[test]
fn a_renewal_that_comes_after_the_deadline_renews_nothing() {
    let mut tenure = tenure(None);
    let extended = votes(&[(0, RenewVote::Extended), (1, RenewVote::Extended)]);
    let late = renewed(&mut tenure, 300, Renewal::Extended, &extended, 988);
    assert_eq!((late, tenure.phase()), (Renewed::Lost(LostReason::Expired), Phase::Lost(LostReason::Expired)));
    assert_eq!(renewed(&mut tenure, 300, Renewal::Extended, &extended, 500), Renewed::Over, "a lost lease stays lost");
}

#[test]
fn lease_is_renewed_at_once_if_a_doubt_breaks_its_quorum() {
    let mut tenure = tenure(None);
    let mut doubted = |nodes| tenure.doubted(nodes, true, at(300));
    assert_eq!(doubted(NodeSet::of(2)), None, "that node did not vote");
    assert_eq!(doubted(NodeSet::of(0)), Some(Due::Alone(at(300))));
    assert_eq!(doubted(NodeSet::of(0)), None, "once");
    renewed(&mut tenure, 300, Renewal::Extended, &extended(3), 320);
    let mut doubted = |nodes| tenure.doubted(nodes, true, at(330));
    assert_eq!(doubted(NodeSet::of(0)), None, "two nodes are still a quorum");
    assert_eq!(doubted(NodeSet::first(2)), Some(Due::Alone(at(330))));
    tenure.release(at(400));
    assert_eq!(tenure.doubted(NodeSet::of(2), true, at(410)), None, "the lease is over");
}

/// Nodes n0 and n1 hold the first of two names, n1 and n2 the second.
#[test]
fn doubt_about_a_node_behind_one_of_several_names_renews_them() {
    let of = |nodes: [usize; 2]| votes(&nodes.map(|node| (node, RenewVote::Extended)));
    let (both, common) = (of([0, 1]).with(of([1, 2])), of([0, 1]).with(of([0, 1])));
    for node in 0..3 {
        let mut tenure = tenure(None);
        renewed(&mut tenure, 300, Renewal::Extended, &both, 320);
        assert_eq!(tenure.doubted(NodeSet::default(), true, at(330)), None, "no node came into doubt");
        assert_eq!(tenure.doubted(NodeSet::of(node), true, at(330)), Some(Due::Alone(at(330))), "n{node}");
        assert_eq!(tenure.doubted(NodeSet::of(node), true, at(330)), None, "once");
    }
    let mut tenure = tenure(None);
    renewed(&mut tenure, 300, Renewal::Extended, &common, 320);
    assert_eq!(tenure.doubted(NodeSet::of(2), true, at(330)), None, "n2 holds neither name");
}

#[test]
fn doubt_without_auto_renew_renews_nothing_but_still_counts() {
    let mut tenure = tenure(None);
    assert_eq!(tenure.doubted(NodeSet::of(0), false, at(300)), None);
    assert_eq!(tenure.doubted(NodeSet::of(0), true, at(310)), None, "the deadline no longer depends on the node");
    assert_eq!(tenure.doubted(NodeSet::of(1), true, at(310)), Some(Due::Alone(at(310))));
}

#[test]
fn first_renewal_comes_before_a_third_of_the_validity() {
    let third = ms(988) / 3;
    let first = |random: fn() -> u64| tenure(None).first_renewal(&won(), Pace { random, ..pace(5) }).unwrap();
    let (Due::Together(latest), Due::Together(soonest)) = (first(|| 0), first(|| u64::MAX)) else { panic!() };
    assert!(latest <= at(0) + third && latest > at(0) + (third - ms(6)), "{latest:?}");
    assert!(soonest <= at(0) + third / 4 && soonest > at(0) + (third / 4 - ms(6)), "{soonest:?}");
    assert_eq!(tenure(None).first_renewal(&won(), Pace { auto_renew: false, ..pace(5) }), None);
}

#[test]
fn next_renewal_comes_before_a_third_of_the_validity() {
    let third = ms(988) / 3;
    let votes = extended(2);
    let heard = Heard { t0: at(300), renewal: Renewal::Extended, votes: &votes, doubted: NodeSet::default() };
    let next = |random: fn() -> u64| tenure(None).renewed(heard, Pace { random, ..pace(5) }, at(320)).1.unwrap();
    let (Due::Together(latest), Due::Together(soonest)) = (next(|| 0), next(|| u64::MAX)) else { panic!() };
    assert!(latest <= at(300) + third && latest > at(300) + (third - ms(6)), "{latest:?}");
    assert!(soonest <= at(300) + third * 7 / 8 && soonest > at(300) + (third * 7 / 8 - ms(6)), "{soonest:?}");
    let by_hand = Pace { auto_renew: false, ..pace(5) };
    assert_eq!(tenure(None).renewed(heard, by_hand, at(320)).1, None, "without auto_renew, no further renewal is due");
}

#[test]
fn extension_by_doubted_nodes_is_renewed_at_once() {
    let again = |nodes, doubted, auto_renew| {
        let votes = extended(nodes);
        let heard = Heard { t0: at(300), renewal: Renewal::Extended, votes: &votes, doubted };
        tenure(None).renewed(heard, Pace { auto_renew, from: at(320), ..pace(5) }, at(320)).1
    };
    assert_eq!(again(2, NodeSet::of(1), true), Some(Due::Alone(at(320))));
    assert!(matches!(again(3, NodeSet::of(1), true), Some(Due::Together(_))), "two nodes are still a quorum");
    assert!(matches!(again(2, NodeSet::of(2), true), Some(Due::Together(_))), "the lease depends on other nodes");
    assert_eq!(again(2, NodeSet::of(1), false), None);
}

#[test]
fn unclear_renewal_is_sent_again_after_a_growing_pause() {
    let (mut tenure, none) = (tenure(None), votes(&[]));
    let heard = Heard { t0: at(300), renewal: Renewal::Unclear, votes: &none, doubted: NodeSet::first(3) };
    let mut again = |auto_renew, random: fn() -> u64| {
        let (_, due) = tenure.renewed(heard, Pace { auto_renew, from: at(310), random, ..pace(5) }, at(320));
        let Some(Due::Alone(again)) = due else { panic!("{due:?}") };
        again.since(at(310))
    };
    assert_eq!(again(true, || 0), Duration::ZERO, "the pause begins at the shared moment");
    assert!((ms(19)..=ms(20)).contains(&again(false, || u64::MAX)), "two round trips, doubled once");
    assert!((ms(39)..=ms(40)).contains(&again(true, || u64::MAX)));
}

#[test]
fn ended_lease_sets_no_timer() {
    let mut tenure = tenure(None);
    let lost = votes(&[(0, RenewVote::Lost), (1, RenewVote::Lost)]);
    let heard = Heard { t0: at(300), renewal: Renewal::Lost, votes: &lost, doubted: NodeSet::first(3) };
    assert_eq!(tenure.renewed(heard, pace(5), at(320)), (Renewed::Lost(LostReason::Forgotten), None));
    let votes = extended(2);
    let heard = Heard { renewal: Renewal::Extended, votes: &votes, ..heard };
    assert_eq!(tenure.renewed(heard, pace(5), at(330)), (Renewed::Over, None));
    assert_eq!(tenure.deadline_reached(at(2_000)), Expiry::Over);
}

#[test]
fn lost_lease_lingers_until_its_old_deadline() {
    let mut tenure = tenure(None);
    assert!(!tenure.lingers(at(320)), "it is held");
    tenure.lose(LostReason::Forgotten);
    assert_eq!(tenure.deadline_reached(at(986)), Expiry::Later(at(988)));
    assert!(tenure.lingers(at(988).minus(Duration::from_nanos(1))) && !tenure.lingers(at(988)));
    assert_eq!(tenure.deadline_reached(at(988)), Expiry::Over);
    assert_eq!(tenure.phase(), Phase::Lost(LostReason::Forgotten));
}

#[test]
fn deadline_timer_ends_the_lease_shortly_before_its_deadline() {
    let mut tenure = tenure(None);
    assert_eq!(tenure.expires(), at(986));
    assert_eq!(tenure.deadline_reached(at(986).minus(Duration::from_nanos(1))), Expiry::Later(at(986)));
    assert!(tenure.is_held(at(985)));
    assert_eq!(tenure.deadline_reached(at(986)), Expiry::Lost(LostReason::Expired));
    assert!(!tenure.is_held(at(985)) && tenure.deadline_reached(at(988)) == Expiry::Over, "a lost lease stays lost");
}

#[test]
fn unclear_renewal_is_sent_again_before_the_deadline() {
    let mut tenure = tenure(None);
    let long = Backoff { min: ms(5), max: ms(60_000) };
    let (mut now, mut times, none) = (at(300), 0, votes(&[]));
    while now < at(980) {
        let heard = Heard { t0: now, renewal: Renewal::Unclear, votes: &none, doubted: NodeSet::first(3) };
        let pace =
            Pace { auto_renew: true, backoff: long, round_trip: ms(600), phase: 0, from: now, random: || u64::MAX };
        let (_, Some(due)) = tenure.renewed(heard, pace, now) else { panic!("it is held") };
        (now, times) = (due.at(), times + 1);
    }
    assert!((6..10).contains(&times), "the renewal is tried {times} times");
}

#[test]
fn deadline_timer_is_set_again_if_the_deadline_has_moved() {
    let mut tenure = tenure(None);
    renewed(&mut tenure, 300, Renewal::Extended, &extended(2), 320);
    assert_eq!(tenure.deadline_reached(at(986)), Expiry::Later(at(1_286)));
    assert_eq!(tenure.deadline_reached(at(5_000)), Expiry::Lost(LostReason::Expired), "even if the timer is late");
}

#[test]
fn deadline_timer_ends_no_released_lease_and_reports_max_hold() {
    let (mut released, mut longest) = (tenure(None), tenure(Some(ms(400))));
    released.release(at(900));
    assert_eq!(released.deadline_reached(at(986)), Expiry::Over);
    assert_eq!(released.phase(), Phase::Released);
    assert_eq!(longest.deadline_reached(at(986)), Expiry::Lost(LostReason::MaxHold));
}

#[test]
fn renewal_is_awaited_until_its_timeout_or_the_deadline() {
    assert_eq!((tenure(None).waits(at(300), ms(500)), tenure(None).waits(at(300), ms(700))), (at(800), at(988)));
}

#[test]
fn lease_held_still_ignores_renewals_and_ends_at_its_deadline() {
    let mut tenure = tenure(None);
    tenure.hold_still();
    assert!(!tenure.may_renew(at(320)) && tenure.is_held(at(320)));
    for renewal in [Renewal::Extended, Renewal::Lost, Renewal::Unclear] {
        let votes = extended(2);
        let heard = Heard { t0: at(300), renewal, votes: &votes, doubted: NodeSet::first(3) };
        assert_eq!(tenure.renewed(heard, pace(5), at(320)), (Renewed::Over, None));
    }
    assert_eq!((tenure.deadline(), tenure.phase()), (at(988), Phase::Held));
    assert_eq!(tenure.deadline_reached(at(986)), Expiry::Lost(LostReason::Expired));
}

#[test]
fn lease_past_max_hold_is_not_renewed_and_ends_for_that_reason() {
    let tenure = tenure(Some(ms(400)));
    assert!(tenure.may_renew(at(409)) && !tenure.may_renew(at(410)));
    assert_eq!(tenure.lost(at(988)), Some(LostReason::MaxHold));
}

#[test]
fn lease_can_be_released_or_lost_only_while_held() {
    let (mut late, mut early) = (tenure(None), tenure(None));
    assert!(!late.release(at(988)) && late.lose(LostReason::Closed) && !late.lose(LostReason::Expired));
    assert!(early.release(at(987)) && !early.lose(LostReason::Closed));
    assert_eq!((late.phase(), early.phase()), (Phase::Lost(LostReason::Closed), Phase::Released));
}

#[test]
fn renewals_that_come_to_nothing_are_counted_until_one_succeeds() {
    let mut tenure = tenure(None);
    let none = votes(&[]);
    for failures in 0..3 {
        assert_eq!(renewed(&mut tenure, 300, Renewal::Unclear, &none, 320), Renewed::Unclear { failures });
    }
    let all = votes(&[(0, RenewVote::Extended), (1, RenewVote::Extended)]);
    renewed(&mut tenure, 330, Renewal::Extended, &all, 340);
    assert_eq!(renewed(&mut tenure, 350, Renewal::Unclear, &none, 360), Renewed::Unclear { failures: 0 });
}
