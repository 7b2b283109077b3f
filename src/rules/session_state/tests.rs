//! What the locks of a session decide together.

use super::*;
use crate::rules::{Backoff, Drift, RenewVote, RenewalTally, Size};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at(since: u64) -> Tick {
    Tick::new(ms(since))
}

fn validity() -> Validity {
    Validity::new(ms(1_000), Drift::default())
}

fn won(t0: u64) -> Won {
    let (t0, granted) = (at(t0), NodeSet::first(2));
    let deadline = validity().deadline(t0);
    let (least, backers, may_hold) = (Duration::ZERO, granted, granted);
    Won { t0, ballot: 7, highest: 7, handed_over: false, deadline, least, granted, backers, may_hold }
}

/// A pace that renews as late as allowed, and repeats a renewal without a pause.
fn pace() -> Pace<fn() -> u64> {
    let (backoff, round_trip) = (Backoff::default(), ms(5));
    Pace { auto_renew: true, backoff, round_trip, phase: 0, from: at(345), random: || 0 }
}

fn add(tenancy: &mut SessionState, won: &Won, max_hold: Option<Duration>) -> u64 {
    let tenure = LeaseState::new(Size::of(3), validity(), max_hold, *won, won.t0);
    tenancy.add(tenure, won, NodeSet::default(), pace())
}

fn renewed(tenancy: &mut SessionState, sent: Sent, vote: RenewVote, now: u64) -> Renewed {
    let votes = votes(vote);
    let renewal = votes.verdict().unwrap_or(Renewal::Unclear);
    let heard = Heard { t0: sent.t0, renewal, votes: &votes, doubted: NodeSet::default() };
    tenancy.renewed(sent, heard, pace(), at(now))
}

fn votes(vote: RenewVote) -> RenewalTally {
    let mut tally = RenewalTally::new(Size::of(3));
    (0..2).for_each(|node| tally.count(node, vote));
    tally
}

/// Two locks, the second acquired 100 ms later.
fn two() -> (SessionState, u64, u64) {
    let mut tenancy = SessionState::new(validity());
    let [first, second] = [0, 100].map(|t0| add(&mut tenancy, &won(t0), None));
    (tenancy, first, second)
}

fn parts(sent: &[Sent]) -> Vec<u64> {
    sent.iter().map(|sent| sent.part).collect()
}

#[test]
fn session_without_locks_lives_for_ever() {
    let mut tenancy = SessionState::new(validity());
    assert_eq!((tenancy.deadline(), tenancy.next_renewal()), (Tick::NEVER, Tick::NEVER));
    assert_eq!(tenancy.timers(Timers::default()), Timers::default());
    assert_eq!((tenancy.remaining(at(1 << 40)), tenancy.lost(at(1 << 40))), (ms(988), None));
    assert_eq!(tenancy.deadline_reached(at(1 << 40)), Expiry::Later(Tick::NEVER), "there is no deadline");
    assert!(tenancy.is_alive(at(1 << 40)) && tenancy.renew(at(9)).is_empty() && tenancy.release(at(9)));
    assert_eq!((tenancy.remaining(at(9)), tenancy.is_alive(at(9))), (Duration::ZERO, false));
}

#[test]
fn locks_of_a_session_are_renewed_when_the_first_is_due() {
    let (mut tenancy, first, second) = two();
    assert!((at(320)..at(330)).contains(&tenancy.next_renewal()));
    assert!(tenancy.renew(at(320)).is_empty());
    assert_eq!(parts(&tenancy.renew(at(330))), [first, second]);
    assert_eq!(tenancy.next_renewal(), Tick::NEVER, "both renewals are under way");
}

/// All locks of a session are renewed as soon as one of them is due. So a new lock is due late.
#[test]
fn added_lock_is_due_in_the_last_eighth_of_the_first_third() {
    let (mut tenancy, third) = (SessionState::new(validity()), ms(988) / 3);
    let tenure = LeaseState::new(Size::of(3), validity(), None, won(0), at(0));
    tenancy.add(tenure, &won(0), NodeSet::default(), Pace::<fn() -> u64> { random: || u64::MAX, ..pace() });
    let due = tenancy.next_renewal();
    assert!(due <= at(0) + third * 7 / 8 && due > at(0) + (third * 7 / 8 - ms(6)), "{due:?}");
}

#[test]
fn urgent_lock_is_renewed_alone() {
    let (mut tenancy, first, second) = two();
    let hurried = add(&mut tenancy, &Won { handed_over: true, ..won(120) }, None);
    assert_eq!(tenancy.next_renewal(), at(220));
    let sent = tenancy.renew(at(220));
    assert_eq!(parts(&sent), [hurried]);
    renewed(&mut tenancy, sent[0], RenewVote::Extended, 230);
    assert_eq!(parts(&tenancy.renew(at(330))), [first, second, hurried], "from then on, it is renewed with the others");
}

#[test]
fn session_is_held_until_its_first_deadline() {
    let (mut tenancy, first, second) = two();
    assert_eq!((tenancy.deadline(), tenancy.remaining(at(900))), (at(988), ms(88)));
    assert_eq!((tenancy.is_alive(at(987)), tenancy.is_alive(at(988))), (true, false));
    assert_eq!((tenancy.lost(at(987)), tenancy.lost(at(988))), (None, Some(LostReason::Expired)));
    tenancy.remove(first);
    assert_eq!(tenancy.deadline(), at(1_088));
    assert!((at(420)..at(430)).contains(&tenancy.next_renewal()));
    tenancy.remove(second);
    assert_eq!((tenancy.deadline(), tenancy.next_renewal()), (Tick::NEVER, Tick::NEVER));
}

#[test]
fn session_timers_are_set_only_if_due_sooner() {
    let (mut tenancy, ..) = two();
    let due = Timers { renew: Some(tenancy.next_renewal()), expire: Some(at(986)) };
    assert_eq!(tenancy.timers(Timers::default()), due);
    assert_eq!(tenancy.timers(due), Timers::default(), "both timers are set");
    let later = due.renew.map(|at| at + Duration::from_nanos(1));
    assert_eq!(tenancy.timers(Timers { renew: later, ..due }), Timers { expire: None, ..due });
    assert_eq!(tenancy.timers(Timers { expire: Some(at(987)), ..due }), Timers { renew: None, ..due });
    tenancy.release(at(300));
    assert_eq!(tenancy.timers(Timers::default()), Timers::default(), "a session that has ended sets no timer");
}

#[test]
fn deadline_timer_ends_the_session_before_its_first_deadline() {
    let (mut tenancy, first, _) = two();
    assert_eq!(tenancy.deadline_reached(at(985)), Expiry::Later(at(986)));
    tenancy.remove(first);
    assert_eq!(tenancy.deadline_reached(at(986)), Expiry::Later(at(1_086)));
    assert_eq!(tenancy.deadline_reached(at(1_086)), Expiry::Lost(LostReason::Expired));
    assert_eq!(tenancy.deadline_reached(at(1_088)), Expiry::Over);
    assert_eq!(tenancy.phase(), Phase::Lost(LostReason::Expired));
}

#[test]
fn locks_of_a_lost_session_linger_until_their_own_deadlines() {
    let (mut tenancy, first, second) = two();
    tenancy.lose(LostReason::Forgotten);
    assert_eq!(tenancy.deadline_reached(at(986)), Expiry::Later(at(988)));
    assert!(tenancy.expired(at(987)).is_empty());
    assert_eq!((tenancy.expired(at(988)), tenancy.deadline_reached(at(988))), (vec![first], Expiry::Over));
    tenancy.remove(first);
    assert_eq!(tenancy.deadline_reached(at(988)), Expiry::Later(at(1_088)));
    assert_eq!(tenancy.expired(at(2_000)), [second]);
}

#[test]
fn renewal_moves_only_the_deadline_of_its_lock() {
    let (mut tenancy, ..) = two();
    let sent = tenancy.renew(at(330));
    let moved = renewed(&mut tenancy, sent[0], RenewVote::Extended, 340);
    assert_eq!(moved, Renewed::Extended { margin: ms(648), of: ms(988) });
    assert_eq!(tenancy.deadline(), at(1_088), "the deadline of the other lock");
    assert_eq!(tenancy.waits(at(330), ms(758)), at(1_088));
    assert_eq!(tenancy.waits(at(330), ms(757)), at(1_087));
    renewed(&mut tenancy, sent[1], RenewVote::Extended, 340);
    assert_eq!(tenancy.deadline(), at(1_318));
}

#[test]
fn extended_lock_is_renewed_with_others_and_unclear_one_alone() {
    let (mut tenancy, first, second) = two();
    let sent = tenancy.renew(at(330));
    renewed(&mut tenancy, sent[0], RenewVote::Unknown, 346);
    assert_eq!(tenancy.next_renewal(), at(345), "the pause begins at the shared moment");
    renewed(&mut tenancy, sent[1], RenewVote::Extended, 346);
    let again = tenancy.renew(at(345));
    assert_eq!(parts(&again), [first]);
    renewed(&mut tenancy, again[0], RenewVote::Extended, 350);
    assert_eq!(parts(&tenancy.renew(at(330) + ms(988) / 3)), [second, first]);
}

#[test]
fn session_is_lost_with_any_of_its_locks() {
    let (mut tenancy, ..) = two();
    let sent = tenancy.renew(at(330));
    let lost = renewed(&mut tenancy, sent[1], RenewVote::Lost, 340);
    assert_eq!((lost, tenancy.phase()), (Renewed::Lost(LostReason::Forgotten), Phase::Lost(LostReason::Forgotten)));
    assert_eq!(renewed(&mut tenancy, sent[0], RenewVote::Extended, 341), Renewed::Over, "a lost lease stays lost");
    assert!(!tenancy.is_alive(at(341)) && !tenancy.release(at(341)) && !tenancy.lose(LostReason::Closed));
    assert!(tenancy.renew(at(900)).is_empty() && tenancy.timers(Timers::default()) == Timers::default());
}

#[test]
fn renewal_with_a_name_given_up_since_loses_nothing() {
    let (mut tenancy, first, _) = two();
    let sent = tenancy.renew(at(330));
    tenancy.narrow(first);
    let unclear = renewed(&mut tenancy, sent[0], RenewVote::Lost, 340);
    assert_eq!((unclear, tenancy.is_alive(at(340))), (Renewed::Unclear { failures: 0 }, true));
    let again = tenancy.renew(at(345));
    let extended = renewed(&mut tenancy, sent[0], RenewVote::Extended, 350);
    assert!(matches!(extended, Renewed::Extended { .. }), "a node that extended held all names");
    let lost = renewed(&mut tenancy, again[0], RenewVote::Lost, 360);
    assert_eq!(lost, Renewed::Lost(LostReason::Forgotten), "this renewal has only names that were not released");
}

#[test]
fn lock_removed_during_its_renewal_is_no_loss_of_the_session() {
    let (mut tenancy, first, _) = two();
    let sent = tenancy.renew(at(330));
    tenancy.remove(first);
    assert_eq!(renewed(&mut tenancy, sent[0], RenewVote::Lost, 340), Renewed::Over);
    assert!(tenancy.is_alive(at(340)));
}

#[test]
fn a_doubt_asks_for_those_that_rest_on_the_node() {
    let (mut tenancy, first, second) = two();
    let before = tenancy.next_renewal();
    tenancy.doubted(NodeSet::of(2), true, at(200));
    assert_eq!(tenancy.next_renewal(), before, "the node did not vote");
    tenancy.doubted(NodeSet::of(0), true, at(200));
    assert_eq!(parts(&tenancy.renew(at(200))), [first, second]);
    tenancy.doubted(NodeSet::of(0), true, at(210));
    assert_eq!(tenancy.next_renewal(), Tick::NEVER, "once");
}

#[test]
fn doubt_during_a_grant_or_renewal_renews_that_lock_alone() {
    let (mut tenancy, first, _) = two();
    let tenure = LeaseState::new(Size::of(3), validity(), None, won(120), at(130));
    let third = tenancy.add(tenure, &won(120), NodeSet::of(1), Pace { from: at(130), ..pace() });
    assert_eq!(parts(&tenancy.renew(at(130))), [third]);
    let sent = tenancy.renew(at(330));
    let votes = votes(RenewVote::Extended);
    let heard = Heard { t0: at(330), renewal: Renewal::Extended, votes: &votes, doubted: NodeSet::of(0) };
    tenancy.renewed(sent[0], heard, pace(), at(350));
    assert_eq!(parts(&tenancy.renew(at(345))), [first]);
}

#[test]
fn lock_past_max_hold_is_not_renewed_and_ends_the_session() {
    let mut tenancy = SessionState::new(validity());
    add(&mut tenancy, &won(0), Some(ms(200)));
    let other = add(&mut tenancy, &won(150), None);
    assert_eq!(parts(&tenancy.renew(at(330))), [other]);
    assert_eq!(tenancy.lost(at(988)), Some(LostReason::MaxHold));
    assert_eq!(tenancy.deadline_reached(at(986)), Expiry::Lost(LostReason::MaxHold));
}
