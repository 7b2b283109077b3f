//! The tokens that were dealt for each name, and which must be greater than which.

use std::collections::BTreeMap;

use super::history::Micros;

/// Where nobody need sync nodes to what they forgot: what clocks carry all the same, since a node that
/// forgot has no vote for a while. See "What is not promised" in docs/guarantees.md.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// The least that a client's clock showed at time zero.
    pub zero: u64,
    /// For how long at least such a node has no vote.
    pub quarantine: Micros,
    /// By how much no clock is ahead of a client's, where tokens must grow.
    pub ahead: Micros,
}

/// What a token is beside those that were dealt before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dealt {
    Above,
    /// Nodes forgot the one above it, and were not promised to be synced to it.
    BelowForgotten,
    /// Not above this, of that process.
    Below(u64, u16),
}

/// When it was first asked for, or handed over, the token, and whose it is.
type Token = (Micros, u64, u16);

#[derive(Debug, Default)]
pub struct Tokens {
    /// Of each name and each team, of writers and of readers: those that were the highest so far.
    names: BTreeMap<(u8, u8), [Vec<Token>; 2]>,
    clocks: Option<Clocks>,
    /// When nodes forgot.
    forgot: Vec<Micros>,
}

impl Tokens {
    pub fn new(clocks: Option<Clocks>) -> Self {
        Self { clocks, ..Self::default() }
    }

    /// One was first asked for, or handed over, at `asked`, and dealt to a process at `now`.
    pub fn dealt(
        &mut self,
        of: (u8, u8),
        shared: bool,
        (token, process): (u64, u16),
        asked: Micros,
        now: Micros,
    ) -> Dealt {
        let [written, read] = self.names.entry(of).or_default();
        // Readers' tokens are in no order among themselves.
        let before = written.iter().chain(read.iter().filter(|_| !shared)).copied();
        let (highest, whose) = before.clone().map(|(_, token, whose)| (token, whose)).max().unwrap_or_default();
        let carried = before.map(|dealt| carried(dealt, self.clocks, &self.forgot, now)).max().unwrap_or(0);
        let known = if shared { read } else { written };
        known.retain(|&(before, other, _)| other > token || self.clocks.is_some() && before > asked);
        known.push((asked, token, process));
        match token {
            _ if token > highest => Dealt::Above,
            _ if token > carried => Dealt::BelowForgotten,
            _ => Dealt::Below(highest, whose),
        }
    }

    /// A node forgot.
    pub fn forgot(&mut self, now: Micros) {
        self.forgot.push(now);
    }
}

/// Above what later tokens must be, for this one: less, where a node that may have granted it forgot
/// it, and votes again.
fn carried((asked, token, _): Token, clocks: Option<Clocks>, forgot: &[Micros], now: Micros) -> u64 {
    let Some(Clocks { zero, quarantine, ahead }) = clocks else { return token };
    let first = forgot.iter().find(|&&at| asked <= at && at + quarantine <= now);
    first.map_or(token, |at| token.min(zero + at + ahead))
}
