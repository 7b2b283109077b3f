//! What is done once a period: who was the first in it, and whether that was undone.

use std::collections::BTreeMap;

use super::history::{Micros, Owner};
use super::rule::{Rule, Verdict};

/// Clocks of nodes run apart by that much at most, in parts of a period, where none is stepped.
pub const DRIFT: Micros = 50;
/// A period begins when a node grants it, which is no longer ago than a vote counts.
const ROUND: Micros = 5_000_000;

/// The last that was the first of a period, by name.
#[derive(Debug, Default)]
pub struct Periods(BTreeMap<u8, First>);

#[derive(Clone, Copy, Debug)]
pub struct First {
    pub lease: u32,
    /// Whose claims it came from, where nodes were watched.
    pub owner: Option<Owner>,
    /// Until then nobody else is.
    until: Micros,
}

impl First {
    /// Of a period of that length, which was asked for at a time that may be known.
    pub fn new(lease: u32, owner: Option<Owner>, (now, asked): (Micros, Option<Micros>), period: Micros) -> Self {
        let until = asked.map_or_else(|| (now + period).saturating_sub(ROUND), |asked| asked + period);
        Self { lease, owner, until: until.saturating_sub(period / DRIFT) }
    }
}

impl Periods {
    /// Whose lease this is was the first of a period at `now`. That one was before is no promise
    /// any more where too few nodes remember it.
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

    /// Others may be the first again. Whether the period goes on.
    pub fn undone(&mut self, now: Micros, lease: u32) -> bool {
        let goes_on = self.0.values().any(|first| first.lease == lease && now < first.until);
        self.0.retain(|_, first| first.lease != lease);
        goes_on
    }
}
