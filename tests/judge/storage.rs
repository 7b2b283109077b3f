//! The writes that the storage behind the locks took, and the writes that it refused.

use std::collections::{BTreeMap, BTreeSet};

use super::beliefs::Lease;
use super::rule::{Rule, Verdict};

#[derive(Debug, Default)]
pub struct Storage {
    /// By team and name, for the latest holder that wrote: the number of its `Acquired` event, and
    /// its token if nodes forgot a higher token.
    latest: BTreeMap<(u8, u8), (usize, Option<u64>)>,
    /// The highest token of any write, by team and name.
    highest: BTreeMap<(u8, u8), u64>,
    /// Leases with a refused write, until the history shows whether they were still held after the
    /// refusal.
    refused: BTreeSet<u32>,
    pub rejected: u64,
    pub stale_unchecked: u64,
}

impl Storage {
    pub fn wrote(&mut self, number: u32, lease: &Lease, taken: bool, checked: bool, verdict: &mut Verdict) {
        if !taken {
            self.rejected += 1;
            let outdated = lease.fell && self.highest.get(&lease.of()).is_some_and(|&highest| highest > lease.token);
            // If there are two holders, the storage refuses the writes of one of them.
            if !outdated && !lease.apart {
                self.refused.insert(number);
            }
            return;
        }
        let highest = self.highest.entry(lease.of()).or_default();
        *highest = lease.token.max(*highest);
        let (latest, fell) = self.latest.entry(lease.of()).or_default();
        if lease.event >= *latest {
            (*latest, *fell) = (lease.event, Some(lease.token).filter(|_| lease.fell));
        } else if checked && !lease.apart && fell.is_none_or(|fell| lease.token < fell) {
            verdict.broken(Rule::StaleWrite, format!("lease {number} wrote after a later holder"));
        } else {
            self.stale_unchecked += 1;
        }
    }

    pub fn held(&mut self, number: u32, apart: bool, verdict: &mut Verdict) {
        if self.refused.remove(&number) && !apart {
            verdict.broken(Rule::HolderRefused, format!("a write of lease {number} was refused, and it is still held"));
        }
    }
}
