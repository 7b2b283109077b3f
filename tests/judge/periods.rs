//! What is done once a period: who was the first in it, and whether that was undone.

use std::collections::BTreeMap;

use super::history::Micros;
use super::rule::{Rule, Verdict};

/// Clocks of nodes run apart by that much at most, in parts of a period, where none is stepped.
const DRIFT: Micros = 50;
/// A period begins when a node grants it, which is no longer ago than a vote counts.
const ROUND: Micros = 5_000_000;

/// The last that was the first of a period, by name.
#[derive(Debug, Default)]
pub struct Periods(BTreeMap<u8, First>);

#[derive(Debug)]
struct First {
    lease: u32,
    /// Until then nobody else is.
    until: Micros,
}

impl Periods {
    /// Whose lease this is was the first of a period at `now`.
    pub fn first(&mut self, now: Micros, name: u8, (lease, period): (u32, Micros), verdict: &mut Verdict) {
        let until = (now + period - period / DRIFT).saturating_sub(ROUND);
        if let Some(before) = self.0.insert(name, First { lease, until })
            && now < before.until
        {
            let (other, left) = (before.lease, before.until - now);
            let why = format!("lease {other} was the first of a period that goes on for {left} us at least");
            verdict.broken(Rule::TwiceAPeriod, why);
        }
    }

    /// Others may be the first again.
    pub fn undone(&mut self, lease: u32) {
        self.0.retain(|_, first| first.lease != lease);
    }
}
