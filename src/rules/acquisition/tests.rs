//! What votes and hand-overs decide.

use std::time::Duration;

use super::*;
use crate::rules::handover::{Registered, Stamp};
use crate::rules::{Drift, Size, Validity, Vote};

fn at(ms: u64) -> Tick {
    Tick::new(Duration::from_millis(ms))
}

fn acquisition(ttl: u64) -> Acquisition<ClaimTally> {
    let validity = Validity::new(Duration::from_millis(ttl), Drift::default());
    Acquisition::new(Terms { size: Size::of(3), validity, min_validity: Duration::ZERO })
}

fn ask(of: &mut Acquisition<ClaimTally>, t0: u64, ballot: u64, votes: &[Vote]) {
    let mut tally = ClaimTally::new(Size::of(3));
    votes.iter().enumerate().for_each(|(node, &vote)| tally.count(node, vote));
    of.ask(Ask { t0: at(t0), ballot, votes: tally });
}

fn nodes(set: NodeSet) -> Vec<usize> {
    set.iter().collect()
}

#[test]
fn a_quorum_in_time_wins_with_the_deadline_of_its_own_ask() {
    let mut acquisition = acquisition(1_000);
    ask(&mut acquisition, 100, 7, &[Vote::Granted]);
    assert_eq!(acquisition.decide(at(110), &Handovers::default()), None);
    acquisition.last_mut().unwrap().votes.count(2, Vote::Granted);
    let Some(Decision::Won(grant)) = acquisition.decide(at(120), &Handovers::default()) else {
        panic!("a quorum granted")
    };
    assert_eq!((grant.t0, grant.ballot, grant.deadline), (at(100), 7, at(1_088)));
    assert_eq!((nodes(grant.granted), nodes(grant.may_hold)), (vec![0, 2], vec![0, 1, 2]));
}

#[test]
fn acquisition_begins_without_a_claim() {
    let mut acquisition = acquisition(1_000);
    assert_eq!((acquisition.withdrawn(), acquisition.last().is_some()), (0, false));
    ask(&mut acquisition, 0, 7, &[]);
    assert_eq!((acquisition.withdrawn(), acquisition.last().is_some()), (0, true));
}

#[test]
fn quorum_that_comes_too_late_is_unavailable_not_contended() {
    let mut acquisition = acquisition(1_000);
    ask(&mut acquisition, 0, 7, &[Vote::Granted; 2]);
    assert!(matches!(acquisition.decide(at(987), &Handovers::default()), Some(Decision::Won(_))));
    assert_eq!(acquisition.decide(at(988), &Handovers::default()), Some(Decision::Failed(Cause::Unavailable)));
}

#[test]
fn votes_older_than_the_longest_round_never_count() {
    let mut acquisition = acquisition(60_000);
    ask(&mut acquisition, 0, 7, &[Vote::Granted; 2]);
    assert!(matches!(acquisition.decide(at(4_999), &Handovers::default()), Some(Decision::Won(_))));
    assert_eq!(acquisition.decide(at(5_000), &Handovers::default()), Some(Decision::Failed(Cause::Unavailable)));
}

#[test]
fn stale_ballots_are_lifted_three_times() {
    let mut acquisition = acquisition(1_000);
    for ballot in 1..4 {
        ask(&mut acquisition, 0, ballot, &[Vote::Stale; 2]);
        assert_eq!(acquisition.decide(at(1), &Handovers::default()), Some(Decision::Lift));
    }
    ask(&mut acquisition, 0, 4, &[Vote::Stale; 2]);
    assert_eq!(acquisition.decide(at(1), &Handovers::default()), Some(Decision::Failed(Cause::Contended)));
}

/// Why this matters: other clients may raise the fences faster than a slow node answers.
#[test]
fn ballot_lift_need_not_wait_for_a_slow_node_except_the_last() {
    let mut acquisition = acquisition(1_000);
    for ballot in 1..3 {
        ask(&mut acquisition, 0, ballot, &[Vote::Granted]);
        assert!(!acquisition.may_lift_early());
        acquisition.last_mut().unwrap().votes.count(1, Vote::Stale);
        assert!(acquisition.may_lift_early());
        assert_eq!(acquisition.decide(at(1), &Handovers::default()), None, "the slow node may grant the ballot");
    }
    ask(&mut acquisition, 0, 3, &[Vote::Granted, Vote::Stale]);
    assert!(!acquisition.may_lift_early());
    acquisition.last_mut().unwrap().votes.count(2, Vote::Stale);
    assert_eq!(acquisition.decide(at(1), &Handovers::default()), Some(Decision::Lift));
}

#[test]
fn node_of_an_earlier_claim_may_hold_if_the_last_was_unsent() {
    let mut acquisition = acquisition(1_000);
    ask(&mut acquisition, 0, 1, &[Vote::Granted, Vote::Stale, Vote::Stale]);
    ask(&mut acquisition, 5, 9, &[Vote::Unsent, Vote::Granted, Vote::Granted]);
    assert_eq!(nodes(acquisition.may_hold()), [0, 1, 2]);
    let Some(Decision::Won(grant)) = acquisition.decide(at(6), &Handovers::default()) else {
        panic!("a quorum granted")
    };
    assert_eq!(nodes(grant.may_hold), [0, 1, 2]);
}

#[test]
fn votes_up_to_a_withdrawn_ballot_count_for_nothing() {
    let mut acquisition = acquisition(1_000);
    ask(&mut acquisition, 0, 5, &[Vote::Granted, Vote::Refused]);
    acquisition.withdraw(7);
    assert_eq!((acquisition.withdrawn(), acquisition.decide(at(1), &Handovers::default())), (7, None));
    assert!(acquisition.may_hold().is_empty() && acquisition.unheard().is_empty());
    for (ballot, wins) in [(7, false), (8, true)] {
        ask(&mut acquisition, 2, ballot, &[Vote::Granted; 2]);
        let decision = acquisition.decide(at(3), &Handovers::default());
        assert_eq!(matches!(decision, Some(Decision::Won(_))), wins, "{ballot}");
    }
}

#[test]
fn withdrawal_is_of_all_that_was_asked_with_and_release_too() {
    let mut acquisition = acquisition(1_000);
    ask(&mut acquisition, 0, 9, &[Vote::Granted, Vote::Refused]);
    acquisition.withdraw(0);
    assert_eq!((acquisition.withdrawn(), acquisition.highest()), (9, 9));
}

/// Pushes for two seconds each, as (node, t0 of the claim that the push answers, ballot).
fn handed(pushes: &[(usize, u64, u64)]) -> Handovers {
    let (mut handed, stamp) = (Handovers::default(), Stamp::default());
    let later = Stamp { time: Duration::from_secs(1), ..stamp };
    let lasts = Validity::new(Duration::from_secs(2), Drift::default());
    for &(node, t0, ballot) in pushes {
        handed.refused(node, Some(Registered { t0: at(t0), lasts, stamp, rank: 1, first: false }));
        assert!(handed.push(node, ballot, lasts.ttl(), later, true));
    }
    handed
}

#[test]
fn hand_over_ends_with_the_quorum_th_latest_of_its_votes() {
    let mut acquisition = acquisition(30_000);
    ask(&mut acquisition, 900, 5, &[Vote::Refused; 3]);
    assert_eq!(acquisition.decide(at(950), &handed(&[(0, 100, 7)])), Some(Decision::Failed(Cause::Contended)));
    for (pushes, t0, ends) in
        [(&[(0, 100, 7), (1, 500, 7)][..], 100, 2_078), (&[(0, 100, 7), (1, 500, 7), (2, 300, 7)], 300, 2_278)]
    {
        let Some(Decision::Won(grant)) = acquisition.decide(at(950), &handed(pushes)) else { panic!("{pushes:?}") };
        assert_eq!((grant.t0, grant.deadline, grant.ballot), (at(t0), at(ends), 7));
        assert_eq!((grant.granted.len(), grant.highest, grant.handed_over), (2, 7, true));
    }
    let two = handed(&[(0, 100, 7), (1, 500, 7)]);
    assert!(matches!(acquisition.decide(at(1_827), &two), Some(Decision::Won(_))));
    assert_eq!(acquisition.decide(at(1_828), &two), Some(Decision::Failed(Cause::Contended)), "only an eighth is left");
}

#[test]
fn pushes_and_grants_of_one_ballot_are_votes_alike() {
    let mut acquisition = acquisition(30_000);
    ask(&mut acquisition, 900, 7, &[Vote::Refused, Vote::Granted]);
    let Some(Decision::Won(grant)) = acquisition.decide(at(950), &handed(&[(0, 100, 7)])) else { panic!("won") };
    assert_eq!((grant.t0, grant.deadline), (at(100), at(2_078)));
    assert!(acquisition.holds(&grant, at(1_827)) && !acquisition.holds(&grant, at(1_828)), "an eighth must be left");
}

#[test]
fn pushes_and_grants_of_different_ballots_are_lifted() {
    let mut acquisition = acquisition(30_000);
    ask(&mut acquisition, 900, 8, &[Vote::Refused, Vote::Granted, Vote::Refused]);
    assert_eq!(acquisition.decide(at(950), &handed(&[(0, 100, 7)])), Some(Decision::Lift));
    assert_eq!(acquisition.decide(at(950), &handed(&[(0, 100, 7), (2, 100, 9)])), Some(Decision::Lift));
}

#[test]
fn a_quorum_of_one_ballot_wins_whatever_others_have_pushed() {
    let mut acquisition = acquisition(30_000);
    ask(&mut acquisition, 900, 5, &[Vote::Refused; 3]);
    let three = handed(&[(0, 100, 7), (1, 100, 7), (2, 100, 9)]);
    let Some(Decision::Won(grant)) = acquisition.decide(at(950), &three) else { panic!("a quorum has ballot 7") };
    assert_eq!((grant.ballot, grant.highest, nodes(grant.granted)), (7, 9, vec![0, 1]));
}

#[test]
fn a_lift_waits_for_its_own_answers() {
    let mut acquisition = acquisition(30_000);
    let two = handed(&[(0, 100, 7), (1, 100, 9)]);
    ask(&mut acquisition, 50, 5, &[Vote::Refused; 3]);
    assert_eq!(acquisition.decide(at(950), &two), Some(Decision::Lift));
    for ballot in [9, 10] {
        let mut lifted = acquisition.clone();
        lifted.ask(Ask { t0: at(900), ballot, votes: ClaimTally::new(Size::of(3)) });
        lifted.last_mut().unwrap().votes.count(2, Vote::Refused);
        assert_eq!(lifted.decide(at(950), &two), None, "the nodes that pushed may grant the higher ballot");
        lifted.last_mut().unwrap().votes.count(0, Vote::Unknown);
        assert_eq!(
            lifted.decide(at(950), &two),
            Some(Decision::Lift),
            "two of three nodes did not grant this ballot, so the client tries a higher one"
        );
    }
}

#[test]
fn a_quorum_of_pushes_that_leaves_too_little_wins_nothing() {
    let mut acquisition = acquisition(30_000);
    acquisition.terms.min_validity = Duration::from_millis(500);
    ask(&mut acquisition, 900, 5, &[Vote::Refused; 3]);
    let two = handed(&[(0, 100, 7), (1, 100, 7)]);
    assert!(matches!(acquisition.decide(at(1_577), &two), Some(Decision::Won(_))));
    assert_eq!(acquisition.decide(at(1_578), &two), Some(Decision::Failed(Cause::Contended)));
    ask(&mut acquisition, 1_578, 7, &[]);
    assert_eq!(acquisition.decide(at(1_578), &two), None, "the nodes that hold the name will answer");
}

#[test]
fn refused_claim_withdraws_nothing_and_keeps_possible_holders() {
    let mut acquisition = acquisition(30_000);
    ask(&mut acquisition, 0, 5, &[Vote::Refused, Vote::Refused, Vote::Unknown]);
    let mut waits = Handovers::default();
    assert!(!acquisition.only_waits(&waits, false), "no node has registered the owner");
    let (lasts, stamp) = (Validity::new(Duration::from_secs(2), Drift::default()), Stamp::default());
    waits.refused(0, Some(Registered { t0: at(0), lasts, stamp, rank: 1, first: false }));
    assert!(acquisition.only_waits(&waits, false));
    let pushed = handed(&[(0, 0, 7)]);
    assert!(acquisition.only_waits(&pushed, true), "the push is new: claim with its ballot, and withdraw nothing");
    assert!(!acquisition.only_waits(&pushed, false), "a claim with the push's ballot has failed: withdraw");
    for _ in 0..LIFTS {
        acquisition.wait();
        ask(&mut acquisition, 10, 6, &[Vote::Refused; 3]);
    }
    assert_eq!((nodes(acquisition.may_hold()), acquisition.highest()), (vec![2], 6));
    ask(&mut acquisition, 20, 7, &[Vote::Stale; 3]);
    assert_eq!(acquisition.decide(at(21), &waits_nothing()), Some(Decision::Lift), "the earlier asks were no lifts");
    ask(&mut acquisition, 20, 7, &[Vote::Granted, Vote::Refused, Vote::Refused]);
    assert!(!acquisition.only_waits(&waits, true), "the grant must be withdrawn");
}

fn waits_nothing() -> Handovers {
    Handovers::default()
}

#[test]
fn round_of_which_no_vote_counts_is_over_once_all_have_answered() {
    let mut acquisition = acquisition(1_000);
    ask(&mut acquisition, 0, 7, &[Vote::Granted; 3]);
    let decision = acquisition.decide_by(at(1), &Handovers::default(), NodeSet::default());
    assert_eq!(decision, Some(Decision::Failed(Cause::Unavailable)), "no vote counts, and no further vote can come");
}

#[test]
fn grants_of_nodes_without_a_vote_at_the_decision_do_not_count() {
    let mut acquisition = acquisition(1_000);
    ask(&mut acquisition, 0, 7, &[Vote::Granted; 2]);
    let by = |voting: &[usize]| acquisition.decide_by(at(1), &Handovers::default(), voting.iter().copied().collect());
    assert!(matches!(by(&[0, 1]), Some(Decision::Won(_))));
    assert_eq!(by(&[1, 2]), None, "the third node may still grant the claim");
    assert_eq!(by(&[0]), Some(Decision::Failed(Cause::Unavailable)));
}

#[test]
fn pushes_of_nodes_without_a_vote_at_the_decision_do_not_count() {
    let mut acquisition = acquisition(30_000);
    ask(&mut acquisition, 900, 5, &[Vote::Refused; 3]);
    let two = handed(&[(0, 100, 7), (1, 500, 7)]);
    assert!(matches!(acquisition.decide_by(at(950), &two, NodeSet::first(2)), Some(Decision::Won(_))));
    assert_eq!(acquisition.decide_by(at(950), &two, NodeSet::of(0)), Some(Decision::Failed(Cause::Contended)));
}

/// The withdrawn claim did not wait, so no node had handed the name over before the withdrawal.
#[test]
fn pushes_up_to_a_withdrawn_ballot_count_for_nothing() {
    for (pushed, wins) in [(9, false), (10, true)] {
        let mut acquisition = acquisition(30_000);
        ask(&mut acquisition, 0, 9, &[Vote::Granted, Vote::Unsent, Vote::Unsent]);
        acquisition.withdraw(9);
        ask(&mut acquisition, 900, 11, &[Vote::Refused; 3]);
        let decision = acquisition.decide(at(950), &handed(&[(0, 900, pushed), (1, 900, pushed)]));
        assert_eq!(matches!(decision, Some(Decision::Won(_))), wins, "{pushed}: {decision:?}");
    }
}
