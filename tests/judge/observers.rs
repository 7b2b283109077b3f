//! Checks what observers see. Leaders must come in the order of their tokens, and the values of a
//! leader in the order in which it proclaimed them. Observers must see no other values.

use std::collections::BTreeMap;

use super::beliefs::Lease;
use super::history::Owner;
use super::rule::{Rule, Verdict};

/// A proclaimed value.
#[derive(Debug)]
struct Value {
    name: u8,
    token: u64,
    /// The number of this value among the values of its lease, counted from 1.
    nth: u32,
}

#[derive(Debug, Default)]
pub struct Observers {
    values: BTreeMap<u32, Value>,
    /// The token of each owner that has learned that it holds the lock.
    tokens: BTreeMap<Owner, u64>,
    /// How many values each lease has proclaimed.
    proclaimed: BTreeMap<u32, u32>,
    /// What each observer saw last: a leader's token, and the number of this leader's value.
    seen: BTreeMap<u32, (u64, u32)>,
}

impl Observers {
    pub fn acquired(&mut self, lease: &Lease) {
        self.tokens.extend(lease.owner.map(|owner| (owner, lease.token)));
    }

    /// The leader with this lease is about to proclaim a value.
    pub fn proclaims(&mut self, number: u32, lease: &Lease, value: u32) {
        let nth = self.proclaimed.entry(number).or_default();
        *nth += 1;
        self.values.insert(value, Value { name: lease.name, token: lease.token, nth: *nth });
    }

    /// An observer saw this owner lead with this token, and the owner's last value.
    pub fn saw(
        &mut self,
        observer: u32,
        name: u8,
        (owner, token): (Owner, u64),
        value: Option<u32>,
        verdict: &mut Verdict,
    ) {
        if self.tokens.get(&owner).is_some_and(|&known| known != token) {
            return verdict.broken(Rule::SeenAmiss, format!("token {token} is another's"));
        }
        // Until a leader proclaims a value, observers see the empty value, which has number 0.
        let nth = value.map_or(Some(0), |value| {
            self.values.get(&value).filter(|said| (said.name, said.token) == (name, token)).map(|said| said.nth)
        });
        let Some(nth) = nth else {
            return verdict.broken(Rule::SeenAmiss, format!("no leader with token {token} has proclaimed that"));
        };
        let last = self.seen.insert(observer, (token, nth));
        if let Some((before, number)) = last.filter(|&last| last >= (token, nth)) {
            let why = format!("value {nth} under token {token} comes after value {number} under token {before}");
            verdict.broken(Rule::SeenOutOfOrder, why);
        }
    }
}
