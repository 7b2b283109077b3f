//! The locks of one session: each has a [`Tenure`] of its own; they are renewed together, and lost
//! together.
//!
//! A pure state machine, like [`Tenure`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::lease::{LostReason, Phase, Renewed, Tenure};
use super::node_set::NodeSet;
use super::renewal::{Renewal, RenewalTally};
use super::tick::Tick;
use super::validity::Validity;

/// Several leases of which none outlives another that was lost.
#[derive(Clone, Debug)]
pub struct Tenancy {
    validity: Validity,
    phase: Phase,
    parts: BTreeMap<u64, Part>,
    /// The deadlines, with whose they are.
    ends: BTreeSet<(Tick, u64)>,
    /// When each is to be renewed that has no renewal under way.
    dues: BTreeSet<(Tick, u64)>,
    count: u64,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    tenure: Tenure,
    due: Option<Due>,
    /// How often names were taken out of it.
    narrowed: u32,
}

/// When a part is to be renewed, and what else is renewed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// All parts are.
    Together(Tick),
    /// No other part is that is not due: it alone cannot wait.
    Alone(Tick),
}

impl Due {
    const fn at(self) -> Tick {
        match self {
            Self::Together(at) | Self::Alone(at) => at,
        }
    }
}

/// A renewal of one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Which part.
    pub part: u64,
    /// When it was taken, before it was sent.
    pub t0: Tick,
    /// How often names had been taken out of it by then.
    narrowed: u32,
}

impl Tenancy {
    /// No locks yet; each will have this validity.
    #[must_use]
    pub const fn new(validity: Validity) -> Self {
        Self {
            validity,
            phase: Phase::Held,
            parts: BTreeMap::new(),
            ends: BTreeSet::new(),
            dues: BTreeSet::new(),
            count: 0,
        }
    }

    /// How it is. One of which a deadline has passed and that nobody has ended is still `Held`.
    #[must_use]
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// The first deadline; the end of time where nothing is held.
    #[must_use]
    pub fn deadline(&self) -> Tick {
        self.ends.first().map_or(Tick::NEVER, |(end, _)| *end)
    }

    /// When something is to be renewed; the end of time where nothing is.
    #[must_use]
    pub fn next_renewal(&self) -> Tick {
        self.dues.first().map_or(Tick::NEVER, |(due, _)| *due)
    }

    /// For how long all of it is held at least; where nothing is, for as long as a lock would be.
    #[must_use]
    pub fn remaining(&self, now: Tick) -> Duration {
        match self.phase {
            Phase::Held if self.ends.is_empty() => self.validity.length(),
            Phase::Held => self.deadline().since(now),
            Phase::Released | Phase::Lost(_) => Duration::ZERO,
        }
    }

    /// Whether nothing of it is lost at `now`, and it was not given up.
    #[must_use]
    pub fn is_alive(&self, now: Tick) -> bool {
        self.phase == Phase::Held && now < self.deadline()
    }

    /// Why it is lost at `now`: also where a deadline has passed and no timer has noticed.
    #[must_use]
    pub fn lost(&self, now: Tick) -> Option<LostReason> {
        match self.phase {
            Phase::Lost(reason) => Some(reason),
            Phase::Held => self.first().and_then(|part| part.tenure.lost(now)),
            Phase::Released => None,
        }
    }

    /// Why it ends when its first deadline is reached.
    #[must_use]
    pub fn expired(&self, now: Tick) -> LostReason {
        self.first().map_or(LostReason::Expired, |part| part.tenure.expired(now))
    }

    fn first(&self) -> Option<&Part> {
        self.ends.first().and_then(|(_, part)| self.parts.get(part))
    }

    /// One lock more. Returns its number.
    pub fn add(&mut self, tenure: Tenure, due: Option<Due>) -> u64 {
        self.count += 1;
        let number = self.count;
        self.parts.insert(number, Part { tenure, due: None, narrowed: 0 });
        self.ends.insert((tenure.deadline(), number));
        self.set(number, due);
        number
    }

    /// One of the locks.
    #[must_use]
    pub fn tenure(&self, part: u64) -> Option<&Tenure> {
        self.parts.get(&part).map(|part| &part.tenure)
    }

    /// One lock less: it was given up.
    pub fn remove(&mut self, part: u64) {
        self.set(part, None);
        if let Some(gone) = self.parts.remove(&part) {
            self.ends.remove(&(gone.tenure.deadline(), part));
        }
    }

    /// Names were taken out of one of the locks. What is under way for it names them still.
    pub fn narrow(&mut self, part: u64) {
        if let Some(part) = self.parts.get_mut(&part) {
            part.narrowed = part.narrowed.saturating_add(1);
        }
    }

    /// Takes what is to be renewed at `now`: all that may be, or if nothing is due but what cannot
    /// wait for the others, that. So the renewals of all are sent at one moment.
    pub fn renew(&mut self, now: Tick) -> Vec<Sent> {
        let due: Vec<_> = self.dues.iter().take_while(|(at, _)| *at <= now).map(|(_, part)| *part).collect();
        let together = |part| self.parts.get(part).is_some_and(|part| matches!(part.due, Some(Due::Together(_))));
        let parts = if due.iter().any(together) { self.dues.iter().map(|(_, part)| *part).collect() } else { due };
        parts.iter().for_each(|&part| self.set(part, None));
        let may = |number: &u64| self.parts.get(number).filter(|part| self.may_renew(part, now));
        let sent = |number| may(&number).map(|part| Sent { part: number, t0: now, narrowed: part.narrowed });
        parts.into_iter().filter_map(sent).collect()
    }

    fn may_renew(&self, part: &Part, now: Tick) -> bool {
        self.phase == Phase::Held && part.tenure.may_renew(now)
    }

    /// Something was sent for a part's owner: these nodes may hold its names from now on.
    pub fn sent(&mut self, part: u64, nodes: NodeSet) {
        if let Some(part) = self.parts.get_mut(&part) {
            part.tenure.sent(nodes);
        }
    }

    /// A renewal came to `renewal` with these votes.
    ///
    /// One that names what was given up meanwhile can renew the rest, and never lose it: that a node
    /// has those names for others, or for nobody, is as it should be.
    pub fn renewed(&mut self, sent: Sent, renewal: Renewal, votes: &RenewalTally, now: Tick) -> Renewed {
        if self.phase != Phase::Held {
            return Renewed::Over;
        }
        let Some(part) = self.parts.get_mut(&sent.part) else { return Renewed::Over };
        let outdated = renewal == Renewal::Lost && part.narrowed != sent.narrowed;
        let renewal = if outdated { Renewal::Unclear } else { renewal };
        let before = part.tenure.deadline();
        let renewed = part.tenure.renewed(sent.t0, renewal, votes, now);
        let after = part.tenure.deadline();
        self.ends.remove(&(before, sent.part));
        self.ends.insert((after, sent.part));
        if let Renewed::Lost(reason) = renewed {
            self.phase = Phase::Lost(reason);
        }
        renewed
    }

    /// When a part is to be renewed next, if ever.
    pub fn set(&mut self, part: u64, due: Option<Due>) {
        let Some(known) = self.parts.get_mut(&part) else { return };
        if let Some(before) = std::mem::replace(&mut known.due, due) {
            self.dues.remove(&(before.at(), part));
        }
        self.dues.extend(due.map(|due| (due.at(), part)));
    }

    /// These nodes are in doubt. Returns the parts that are to be renewed at once: without these
    /// nodes no quorum stands behind their deadlines.
    pub fn doubted(&mut self, nodes: NodeSet) -> Vec<u64> {
        let numbers: Vec<_> = self.parts.keys().copied().collect();
        numbers.into_iter().filter(|&part| self.part_doubted(part, nodes)).collect()
    }

    /// The same for one part.
    pub fn part_doubted(&mut self, part: u64, nodes: NodeSet) -> bool {
        let Some(part) = self.parts.get_mut(&part) else { return false };
        nodes.iter().filter(|&node| part.tenure.doubted(node)).count() > 0
    }

    /// Ends it as lost, if it is held. Returns whether it was.
    pub fn lose(&mut self, reason: LostReason) -> bool {
        let held = self.phase == Phase::Held;
        if held {
            self.phase = Phase::Lost(reason);
        }
        held
    }

    /// Its holder gives it up, in time. Returns whether all of it was held.
    pub fn release(&mut self, now: Tick) -> bool {
        let alive = self.is_alive(now);
        if alive {
            self.phase = Phase::Released;
        }
        alive
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Drift, RenewVote, Size, Won};

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(since: u64) -> Tick {
        Tick::new(ms(since))
    }

    fn validity() -> Validity {
        Validity::new(ms(1_000), Drift::default())
    }

    fn tenure(t0: u64, max_hold: Option<Duration>) -> Tenure {
        let (t0, voters) = (at(t0), NodeSet::first(2));
        let deadline = validity().deadline(t0);
        let (least, may_hold) = (Duration::ZERO, voters);
        let won = Won { t0, ballot: 7, highest: 7, handed_over: false, deadline, least, voters, may_hold };
        Tenure::new(Size::of(3), validity(), max_hold, won, t0)
    }

    fn votes(vote: RenewVote) -> RenewalTally {
        let mut tally = RenewalTally::new(Size::of(3));
        (0..2).for_each(|node| tally.count(node, vote));
        tally
    }

    fn together(due: u64) -> Option<Due> {
        Some(Due::Together(at(due)))
    }

    /// Two locks, of which one was acquired a little later.
    fn two() -> (Tenancy, u64, u64) {
        let mut tenancy = Tenancy::new(validity());
        let first = tenancy.add(tenure(0, None), together(330));
        let second = tenancy.add(tenure(100, None), together(430));
        (tenancy, first, second)
    }

    fn parts(sent: &[Sent]) -> Vec<u64> {
        sent.iter().map(|sent| sent.part).collect()
    }

    #[test]
    fn without_locks_it_lives_for_ever() {
        let mut tenancy = Tenancy::new(validity());
        assert_eq!((tenancy.deadline(), tenancy.next_renewal()), (Tick::NEVER, Tick::NEVER));
        assert_eq!((tenancy.remaining(at(1 << 40)), tenancy.lost(at(1 << 40))), (ms(988), None));
        assert!(tenancy.is_alive(at(1 << 40)) && tenancy.renew(at(9)).is_empty() && tenancy.release(at(9)));
        assert_eq!((tenancy.remaining(at(9)), tenancy.is_alive(at(9))), (Duration::ZERO, false));
    }

    #[test]
    fn all_are_renewed_when_the_first_is_due() {
        let (mut tenancy, first, second) = two();
        assert_eq!(tenancy.next_renewal(), at(330));
        assert!(tenancy.renew(at(329)).is_empty());
        assert_eq!(parts(&tenancy.renew(at(330))), [first, second]);
        assert_eq!(tenancy.next_renewal(), Tick::NEVER, "they are under way");
    }

    #[test]
    fn what_cannot_wait_is_renewed_alone() {
        let (mut tenancy, first, second) = two();
        let hurried = tenancy.add(tenure(120, None), Some(Due::Alone(at(220))));
        assert_eq!(parts(&tenancy.renew(at(220))), [hurried]);
        tenancy.set(hurried, together(550));
        assert_eq!(parts(&tenancy.renew(at(330))), [first, second, hurried], "and from then on with the others");
    }

    #[test]
    fn it_is_held_until_its_first_deadline() {
        let (mut tenancy, first, second) = two();
        assert_eq!((tenancy.deadline(), tenancy.remaining(at(900))), (at(988), ms(88)));
        assert_eq!((tenancy.is_alive(at(987)), tenancy.is_alive(at(988))), (true, false));
        assert_eq!((tenancy.lost(at(987)), tenancy.lost(at(988))), (None, Some(LostReason::Expired)));
        tenancy.remove(first);
        assert_eq!((tenancy.deadline(), tenancy.next_renewal()), (at(1_088), at(430)));
        tenancy.remove(second);
        assert_eq!((tenancy.deadline(), tenancy.next_renewal()), (Tick::NEVER, Tick::NEVER));
    }

    #[test]
    fn each_renewal_moves_its_own_deadline() {
        let (mut tenancy, ..) = two();
        let sent = tenancy.renew(at(330));
        let renewed = tenancy.renewed(sent[0], Renewal::Extended, &votes(RenewVote::Extended), at(340));
        assert_eq!(renewed, Renewed::Extended { margin: ms(648), of: ms(988), next: at(330) + ms(988) / 3 });
        assert_eq!(tenancy.deadline(), at(1_088), "that of the other");
        tenancy.renewed(sent[1], Renewal::Extended, &votes(RenewVote::Extended), at(340));
        assert_eq!(tenancy.deadline(), at(1_318));
    }

    #[test]
    fn with_one_lock_all_are_lost() {
        let (mut tenancy, ..) = two();
        let sent = tenancy.renew(at(330));
        let renewed = tenancy.renewed(sent[1], Renewal::Lost, &votes(RenewVote::Lost), at(340));
        assert_eq!((renewed, tenancy.phase()), (Renewed::Lost(LostReason::Refused), Phase::Lost(LostReason::Refused)));
        let extended = votes(RenewVote::Extended);
        assert_eq!(tenancy.renewed(sent[0], Renewal::Extended, &extended, at(341)), Renewed::Over, "lost is final");
        assert!(!tenancy.is_alive(at(341)) && !tenancy.release(at(341)) && !tenancy.lose(LostReason::Closed));
        assert!(tenancy.renew(at(900)).is_empty());
    }

    #[test]
    fn a_renewal_that_names_what_was_given_up_since_loses_nothing_and_may_renew_the_rest() {
        let (mut tenancy, first, _) = two();
        let sent = tenancy.renew(at(330));
        tenancy.narrow(first);
        let renewed = tenancy.renewed(sent[0], Renewal::Lost, &votes(RenewVote::Lost), at(340));
        assert_eq!((renewed, tenancy.is_alive(at(340))), (Renewed::Unclear { failures: 0 }, true));
        tenancy.set(first, Some(Due::Alone(at(345))));
        let again = tenancy.renew(at(345));
        let renewed = tenancy.renewed(sent[0], Renewal::Extended, &votes(RenewVote::Extended), at(350));
        assert!(matches!(renewed, Renewed::Extended { .. }), "who extends it held all of it then");
        let renewed = tenancy.renewed(again[0], Renewal::Lost, &votes(RenewVote::Lost), at(360));
        assert_eq!(renewed, Renewed::Lost(LostReason::Refused), "this one named only the rest");
    }

    #[test]
    fn what_was_given_up_while_its_renewal_was_under_way_is_nobodys_loss() {
        let (mut tenancy, first, _) = two();
        let sent = tenancy.renew(at(330));
        tenancy.remove(first);
        assert_eq!(tenancy.renewed(sent[0], Renewal::Lost, &votes(RenewVote::Lost), at(340)), Renewed::Over);
        assert!(tenancy.is_alive(at(340)));
    }

    #[test]
    fn a_doubt_asks_for_those_that_rest_on_the_node() {
        let (mut tenancy, first, second) = two();
        assert!(tenancy.doubted(NodeSet::of(2)).is_empty(), "it did not vote");
        assert_eq!(tenancy.doubted(NodeSet::of(0)), [first, second]);
        assert!(tenancy.doubted(NodeSet::of(0)).is_empty(), "once");
    }

    #[test]
    fn what_was_held_for_too_long_is_not_renewed_and_ends_all_by_that_reason() {
        let mut tenancy = Tenancy::new(validity());
        tenancy.add(tenure(0, Some(ms(200))), together(330));
        let other = tenancy.add(tenure(150, None), together(480));
        assert_eq!(parts(&tenancy.renew(at(330))), [other]);
        assert_eq!((tenancy.expired(at(986)), tenancy.lost(at(988))), (LostReason::MaxHold, Some(LostReason::MaxHold)));
    }
}
