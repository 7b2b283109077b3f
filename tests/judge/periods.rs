//! Jobs that run once a period: which permit was the first in each period, and whether that permit
//! was undone.

use std::collections::BTreeMap;

use super::history::{Micros, Owner};
use super::rule::{Rule, Verdict};

/// If no clock is stepped, nodes' clocks run apart by at most a fiftieth of a period.
pub const DRIFT: Micros = 50;
/// The longest time from the start of a period until its client wins. A period starts when a node
/// grants the claim, and no vote counts for longer.
const ROUND: Micros = 5_000_000;

/// For each name, the last permit that was the first of a period.
#[derive(Debug, Default)]
pub struct Periods(BTreeMap<u8, First>);

#[derive(Clone, Copy, Debug)]
pub struct First {
    pub lease: u32,
    /// The owner whose claims won the permit, if the history contains the nodes' operations.
    pub owner: Option<Owner>,
    /// Until this time, no other permit may be the first.
    until: Micros,
}

impl First {
    /// The first permit of a period of this length. `asked` is the time of its first claim, if
    /// known.
    pub fn new(lease: u32, owner: Option<Owner>, (now, asked): (Micros, Option<Micros>), period: Micros) -> Self {
        let until = asked.map_or_else(|| (now + period).saturating_sub(ROUND), |asked| asked + period);
        Self { lease, owner, until: until.saturating_sub(period / DRIFT) }
    }
}

impl Periods {
    /// A permit was the first of a period at `now`. If too few nodes remember the previous permit,
    /// nothing is promised.
    pub fn first(
        &mut self,
        now: Micros,
        name: u8,
        first: First,
        remembered: impl Fn(Owner) -> bool,
        verdict: &mut Verdict,
    ) {
        let Some(before) = self.0.insert(name, first) else { return };
        if now < before.until && before.owner.is_none_or(remembered) {
            let (other, left) = (before.lease, before.until - now);
            let why = format!("lease {other} was the first of a period that goes on for {left} us at least");
            verdict.broken(Rule::TwiceAPeriod, why);
        }
    }

    /// A permit was undone, so another may be the first. Returns whether the period goes on.
    pub fn undone(&mut self, now: Micros, lease: u32) -> bool {
        let goes_on = self.0.values().any(|first| first.lease == lease && now < first.until);
        self.0.retain(|_, first| first.lease != lease);
        goes_on
    }
}
