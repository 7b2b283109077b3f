//! The places of a waiter in the nodes' queues, and which pushes to this waiter are votes.
//!
//! A node that refuses a waiter's claim gives the waiter a place in its queue. Once the name is
//! free, the node grants the name to the waiter, and sends a push. The push answers the last claim
//! of the waiter that the node has confirmed. The waiter cannot see how long the push took to
//! arrive. But the node granted the name after that claim was sent. So the waiter counts the hold
//! from the moment when it sent that claim. A withdrawal may give the waiter a place again, but no
//! reply confirms this place. A push for such a place counts from the last confirmed claim, unless
//! the node has granted a claim after that confirmation.

use std::time::Duration;

use super::node_set::NodeSet;
use super::tick::Tick;
use super::validity::{Drift, MAX_ROUND, Validity};

/// When a node sent a message: over which connection, and at which TIME of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// The number of the connection.
    pub generation: u64,
    /// The node's TIME.
    pub time: Duration,
}

impl Stamp {
    /// Whether `other` was sent later, over the same connection.
    #[must_use]
    pub fn is_before(self, other: Self) -> bool {
        self.generation == other.generation && self.time < other.time
    }
}

/// How long a hand-over lasts: the ttl, but at most 3 s plus four round trips, and at most
/// [`MAX_ROUND`].
///
/// This time is long enough for the push and the first renewal. It is not longer, because a waiter
/// that has died keeps the name until the hand-over ends.
#[must_use]
pub fn lasts(ttl: Duration, drift: Drift, round_trip: Duration) -> Validity {
    let long = Duration::from_secs(3).saturating_add(round_trip.saturating_mul(4));
    // Nodes count whole milliseconds.
    let long = Duration::from_millis(u64::try_from(ttl.min(long).min(MAX_ROUND).as_millis()).unwrap_or(0));
    Validity::new(long, drift)
}

/// How long a waiter waits between two asks, if a hand-over lasts for `lasts`. The time of a
/// hand-over counts from the last ask. So a waiter that is first or second in any queue (`soon`)
/// asks often, to have most of a hand-over left. Other waiters ask only to keep their places.
#[must_use]
pub fn again(lasts: Duration, ttl: Duration, soon: bool) -> Duration {
    if soon { lasts / 4 } else { lasts.max(ttl / 3) }
}

/// When another owner's hold has ended, a waiter pauses for this time, and then asks. `rank` is the
/// waiter's best place in any queue. The first two waiters ask at once. For each place behind the
/// second, the pause is a quarter of a hand-over (`lasts`) longer. Without pauses, all waiters
/// would ask at one moment, even if the holder has renewed its hold.
#[must_use]
pub fn defers(lasts: Duration, rank: u32) -> Duration {
    (lasts / 4).saturating_mul(rank.saturating_sub(2))
}

/// A place in a node's queue that the node has confirmed in its reply to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Registered {
    /// The time just before the claim was sent. A hand-over that answers this claim begins later.
    pub t0: Tick,
    /// How long a hand-over of the name lasts.
    pub lasts: Validity,
    /// When the node confirmed the place.
    pub stamp: Stamp,
    /// The place in the queue, counted from 1.
    pub rank: u32,
    /// Whether this reply answers the owner's first claim. If so, the node had pushed nothing to
    /// the owner before it confirmed this place.
    pub first: bool,
}

/// A push that is a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pushed {
    /// The ballot that was granted.
    pub ballot: u64,
    /// When the claim that the push answers was sent.
    pub t0: Tick,
    /// How long the hand-over lasts, counted from `t0`.
    pub lasts: Validity,
    /// When the node pushed.
    pub stamp: Stamp,
}

impl Pushed {
    /// Until when the hand-over may be relied on.
    #[must_use]
    pub fn ends(&self) -> Tick {
        self.lasts.deadline(self.t0)
    }

    /// How much time must be left when the round is won: at least `min_validity`, and enough for a
    /// renewal.
    #[must_use]
    pub fn least(&self, min_validity: Duration) -> Duration {
        min_validity.max(self.lasts.ttl() / 8)
    }
}

/// The registrations of one owner, and the pushes to this owner, by node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Handovers {
    nodes: Vec<Slot>,
    /// The nodes that pushed anything, even if the push was no vote.
    pushed: NodeSet,
    /// The nodes whose last push was not followed by a grant or a refusal of a claim. A withdrawal
    /// empties this set.
    open: NodeSet,
    /// The highest ballot that was pushed.
    top: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Slot {
    registered: Option<Registered>,
    vote: Option<Pushed>,
    /// A push that this client handled before the reply that confirms the place.
    early: Option<Early>,
}

/// A push that may be a vote, depending on the place that it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Early {
    ballot: u64,
    told: Duration,
    stamp: Stamp,
}

impl Early {
    /// The vote, if this push answers the registration `known`.
    fn answers(self, known: &Registered) -> Option<Pushed> {
        let Self { ballot, told, stamp } = self;
        let Registered { t0, lasts, .. } = *known;
        // The node granted the name for the time `told`. The claim was sent earlier, at `t0`. So it
        // is safe to count `told` from `t0`.
        let vote = Pushed { ballot, t0, lasts: lasts.lasting(told.min(lasts.ttl()).min(MAX_ROUND)), stamp };
        known.stamp.is_before(stamp).then_some(vote)
    }
}

impl Handovers {
    /// Notes that a node refused a claim because of another owner. `registered` is the claim's
    /// place in the queue. A push that the node sent before this answer becomes void. A push that
    /// the node sent after this answer stays valid, even if this client has handled the push
    /// already. If `registered` is `None`, the claim does not wait: an earlier place stays, and all
    /// pushes that this client has handled become void.
    pub fn refused(&mut self, node: usize, registered: Option<Registered>) {
        let Some(answer) = registered else {
            self.open.remove(node);
            return self.stale(node);
        };
        let slot = self.slot(node);
        let vote = slot.vote.filter(|vote| answer.stamp.is_before(vote.stamp));
        // This client may have handled a push before an answer that the node sent earlier.
        let early = || slot.early.filter(|_| answer.first)?.answers(&answer);
        *slot = Slot { registered, vote: vote.or_else(early), early: None };
        let vote = slot.vote;
        if vote.is_none() {
            self.open.remove(node);
        }
    }

    /// Notes that a node called a claim stale. The node's last push becomes void: the hold that the
    /// push reported may be over, or may have a higher ballot now. The owner's place in the queue
    /// stays.
    pub fn stale(&mut self, node: usize) {
        if let Some(slot) = self.nodes.get_mut(node) {
            slot.vote = None;
        }
    }

    /// Notes that the owner withdraws all pushes that have come until now.
    pub fn withdraw(&mut self) {
        self.open = NodeSet::default();
    }

    /// Notes that a node granted a claim. The grant is itself a vote, and ends the owner's place.
    pub fn granted(&mut self, node: usize) {
        self.open.remove(node);
        if let Some(slot) = self.nodes.get_mut(node) {
            *slot = Slot::default();
        }
    }

    /// Notes that a node has handed the name over to this owner, for the time `told`. `counts` is
    /// false if the node may not vote, or if a reply may have overtaken the push. Returns whether
    /// the push is a vote.
    ///
    /// To be a vote, a push must come over the connection that confirmed the place. The TIME of the
    /// push must be later than the TIME of the confirmation. (Equal TIMEs do not show which came
    /// first: all operations of one script call have the same TIME.) A push that is handled before
    /// the confirmation may answer an earlier claim of the owner. So it is a vote only if the
    /// confirmation answers the owner's first claim.
    pub fn push(&mut self, node: usize, ballot: u64, told: Duration, stamp: Stamp, counts: bool) -> bool {
        self.pushed.insert(node);
        self.open.insert(node);
        self.top = self.top.max(ballot);
        if !counts {
            return false;
        }
        let (slot, push) = (self.slot(node), Early { ballot, told, stamp });
        let Some(known) = slot.registered else {
            slot.early = Some(push);
            return false;
        };
        let vote = push.answers(&known);
        slot.vote = vote.or(slot.vote);
        vote.is_some()
    }

    /// The node's last push that is a vote, if this vote counts at `now`. No vote counts for longer
    /// than [`MAX_ROUND`].
    #[must_use]
    pub fn vote(&self, node: usize, now: Tick) -> Option<Pushed> {
        self.nodes.get(node)?.vote.filter(|vote| now < vote.t0 + MAX_ROUND && now < vote.ends())
    }

    /// Whether no node has pushed anything.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.pushed.is_empty()
    }

    /// The nodes that pushed anything, even if the push was no vote.
    #[must_use]
    pub const fn pushed(&self) -> NodeSet {
        self.pushed
    }

    /// The nodes that have confirmed a place of the owner. They may hand the name over to this
    /// owner.
    #[must_use]
    pub fn registered(&self) -> NodeSet {
        self.slots().filter(|(_, slot)| slot.registered.is_some()).map(|(node, _)| node).collect()
    }

    /// The nodes that may hold the name because of a push, even if the push was no vote. After this
    /// push, the node has not granted or refused a claim, and the owner has not withdrawn.
    #[must_use]
    pub const fn open(&self) -> NodeSet {
        self.open
    }

    /// The highest ballot of all pushes; 0 if there was none.
    #[must_use]
    pub const fn top(&self) -> u64 {
        self.top
    }

    /// The best place in any node's queue.
    #[must_use]
    pub fn rank(&self) -> Option<u32> {
        self.slots().filter_map(|(_, slot)| slot.registered.map(|known| known.rank)).min()
    }

    fn slots(&self) -> impl Iterator<Item = (usize, &Slot)> {
        self.nodes.iter().enumerate()
    }

    fn slot(&mut self, node: usize) -> &mut Slot {
        if node >= self.nodes.len() {
            self.nodes.resize(node + 1, Slot::default());
        }
        &mut self.nodes[node]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    const LASTS: Duration = Duration::from_secs(3);

    fn at(seconds: u64) -> Tick {
        Tick::new(SECOND * u32::try_from(seconds).unwrap())
    }

    const fn stamp(generation: u64, seconds: u64) -> Stamp {
        Stamp { generation, time: Duration::from_secs(seconds) }
    }

    fn registered(t0: u64, stamp: Stamp) -> Option<Registered> {
        let lasts = Validity::new(3 * SECOND, Drift::default());
        Some(Registered { t0: at(t0), lasts, stamp, rank: 1, first: false })
    }

    #[test]
    fn hand_over_lasts_at_most_the_ttl_and_the_longest_round() {
        let ms = Duration::from_millis;
        let lasts = |ttl, trip| lasts(ttl, Drift::default(), trip).ttl();
        assert_eq!(lasts(30 * SECOND, ms(10)), ms(3_040));
        assert_eq!(lasts(SECOND, ms(10)), SECOND);
        assert_eq!(lasts(30 * SECOND, SECOND), MAX_ROUND);
    }

    #[test]
    fn waiter_asks_four_times_per_hand_over_if_among_first_two() {
        let ms = Duration::from_millis;
        assert_eq!(again(ms(3_040), 30 * SECOND, true), ms(760));
        assert_eq!(again(ms(3_040), 30 * SECOND, false), 10 * SECOND);
        assert_eq!(again(ms(300), ms(300), false), ms(300));
    }

    #[test]
    fn waiters_ask_one_after_the_other_when_a_hold_has_ended() {
        let ms = Duration::from_millis;
        let deferred = [0, 1, 2, 3, 4, 14].map(|rank| defers(ms(3_040), rank));
        assert_eq!(deferred, [0, 0, 0, 760, 1_520, 9_120].map(ms));
    }

    #[test]
    fn push_is_timed_from_the_registration_that_it_answers() {
        let mut handed = Handovers::default();
        handed.refused(1, registered(10, stamp(1, 100)));
        assert!(handed.push(1, 7, LASTS, stamp(1, 102), true));
        let vote = handed.vote(1, at(12)).unwrap();
        assert_eq!((vote.ballot, vote.t0, vote.ends()), (7, at(10), at(13).minus(Duration::from_millis(32))));
        assert_eq!(handed.vote(1, at(13)), None, "the hand-over has ended");
        assert_eq!((handed.rank(), handed.top(), handed.pushed()), (Some(1), 7, NodeSet::of(1)));
    }

    #[test]
    fn push_is_no_vote_if_doubted_or_not_after_its_registration() {
        for (when, counts) in
            [(stamp(2, 102), true), (stamp(0, 102), true), (stamp(1, 100), true), (stamp(1, 102), false)]
        {
            let mut handed = Handovers::default();
            handed.refused(0, registered(10, stamp(1, 100)));
            assert!(!handed.push(0, 7, LASTS, when, counts) && handed.vote(0, at(11)).is_none(), "{when:?}");
            assert_eq!((handed.is_empty(), handed.top()), (false, 7), "the node may still hold the name");
        }
        let mut handed = Handovers::default();
        assert!(!handed.push(0, 7, LASTS, stamp(1, 102), true));
        handed.refused(0, registered(10, stamp(1, 100)));
        assert_eq!(handed.vote(0, at(11)), None, "the push has a later TIME, but was received before the answer");
    }

    #[test]
    fn push_before_the_reply_to_the_first_claim_counts_with_it() {
        for (answer, first, counts, vote) in [
            (stamp(1, 100), true, true, true),
            (stamp(1, 100), false, true, false),
            (stamp(1, 100), true, false, false),
            (stamp(1, 101), true, true, false),
            (stamp(2, 100), true, true, false),
        ] {
            let mut handed = Handovers::default();
            assert!(!handed.push(0, 7, LASTS, stamp(1, 101), counts) && handed.vote(0, at(11)).is_none());
            handed.refused(0, registered(10, answer).map(|known| Registered { first, ..known }));
            assert_eq!(handed.vote(0, at(11)).map(|vote| vote.t0), vote.then(|| at(10)), "{answer:?} {first} {counts}");
            handed.refused(0, registered(11, stamp(1, 102)));
            assert_eq!(handed.vote(0, at(11)), None, "the registration now answers another claim");
        }
    }

    #[test]
    fn later_reply_of_a_node_ends_its_earlier_push() {
        for later in [
            |handed: &mut Handovers| handed.refused(0, None),
            |handed: &mut Handovers| handed.refused(0, registered(11, stamp(1, 101))),
            |handed: &mut Handovers| handed.stale(0),
            |handed: &mut Handovers| handed.granted(0),
        ] {
            let mut handed = Handovers::default();
            handed.refused(0, registered(10, stamp(1, 100)));
            assert!(handed.push(0, 7, LASTS, stamp(1, 101), true));
            later(&mut handed);
            assert_eq!(handed.vote(0, at(11)), None);
        }
    }

    #[test]
    fn reply_from_before_a_push_does_not_end_it() {
        for (answer, kept) in [(stamp(1, 102), true), (stamp(1, 103), false), (stamp(2, 102), false)] {
            let mut handed = Handovers::default();
            handed.refused(0, registered(10, stamp(1, 100)));
            assert!(handed.push(0, 7, LASTS, stamp(1, 103), true));
            handed.refused(0, registered(11, answer));
            assert_eq!(handed.vote(0, at(12)).map(|vote| vote.t0), kept.then(|| at(10)), "{answer:?}");
            assert_eq!(!handed.open().is_empty(), kept);
        }
    }

    #[test]
    fn push_that_does_not_count_is_open_until_its_node_replies() {
        for answer in [|handed: &mut Handovers| handed.granted(0), |handed: &mut Handovers| handed.refused(0, None)] {
            let mut handed = Handovers::default();
            assert!(!handed.push(0, 7, LASTS, stamp(1, 103), false) && !handed.open().is_empty());
            handed.stale(0);
            assert_eq!(handed.open(), NodeSet::of(0), "the push may have a higher ballot than the claim");
            answer(&mut handed);
            assert!(handed.open().is_empty() && handed.pushed() == NodeSet::of(0));
        }
    }

    #[test]
    fn push_that_comes_after_a_withdrawal_is_open() {
        let mut handed = Handovers::default();
        handed.refused(0, registered(10, stamp(1, 100)));
        handed.push(0, 9, LASTS, stamp(1, 101), true);
        handed.withdraw();
        assert!(handed.open().is_empty());
        handed.push(0, 9, LASTS, stamp(1, 102), true);
        assert_eq!(handed.open(), NodeSet::of(0));
    }

    #[test]
    fn registration_outlives_a_stale_reply_and_a_plain_refusal() {
        let mut handed = Handovers::default();
        handed.refused(0, registered(10, stamp(1, 100)));
        assert!(handed.push(0, 6, LASTS, stamp(1, 101), true));
        handed.refused(0, None);
        assert_eq!((handed.vote(0, at(11)), handed.rank()), (None, Some(1)));
        handed.stale(0);
        assert_eq!(handed.registered(), NodeSet::of(0));
        assert!(handed.push(0, 7, LASTS, stamp(1, 102), true));
        handed.granted(0);
        assert!(handed.registered().is_empty() && !handed.push(0, 8, LASTS, stamp(1, 103), true));
    }

    #[test]
    fn push_lasts_the_shorter_of_requested_and_reported_time() {
        for (told, length) in [(2, 1_968), (3, 2_968), (4, 2_968)] {
            let mut handed = Handovers::default();
            handed.refused(0, registered(10, stamp(1, 100)));
            handed.push(0, 7, told * SECOND, stamp(1, 101), true);
            let ends = handed.vote(0, at(10)).unwrap().ends().since(at(10)).as_millis();
            assert_eq!(ends, length, "a shorter push has the same drift");
        }
    }

    #[test]
    fn push_counts_for_at_most_a_round() {
        let mut handed = Handovers::default();
        let lasts = Validity::new(60 * SECOND, Drift::default());
        handed.refused(0, registered(10, stamp(1, 100)).map(|known| Registered { lasts, ..known }));
        handed.push(0, 7, 60 * SECOND, stamp(1, 101), true);
        assert!(handed.vote(0, at(14)).is_some() && handed.vote(0, at(15)).is_none());
    }
}
