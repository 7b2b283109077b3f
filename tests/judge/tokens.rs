//! The tokens that holders got for each name, and the order in which tokens must grow.

use std::collections::BTreeMap;

use super::history::Micros;

/// For worlds in which nodes that forgot need not be synced. Clocks alone still make some tokens
/// grow, since a node that forgot has no vote for a while. See "What is not promised" in
/// docs/guarantees.md.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// The lowest time that a client's wall clock showed when the run began.
    pub zero: u64,
    /// How long a node that forgot has no vote, at least.
    pub quarantine: Micros,
    /// How far a forgotten token may be ahead of the clocks if later tokens must still be above it.
    pub ahead: Micros,
}

/// How a token compares with the tokens before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dealt {
    Above,
    /// Not above some earlier tokens, which nodes forgot, and to which nodes need not be synced.
    BelowForgotten,
    /// Not above this token of this process.
    Below(u64, u16),
}

/// The time when the token was first asked for or handed over, its number, and the process that got
/// it.
type Token = (Micros, u64, u16);

#[derive(Debug, Default)]
pub struct Tokens {
    /// By team and name: the highest tokens of writers, and the highest tokens of readers.
    names: BTreeMap<(u8, u8), [Vec<Token>; 2]>,
    clocks: Option<Clocks>,
    /// When nodes forgot.
    forgot: Vec<Micros>,
}

impl Tokens {
    pub fn new(clocks: Option<Clocks>) -> Self {
        Self { clocks, ..Self::default() }
    }

    /// A process got a token at `now`. The token was first asked for, or handed over, at `asked`.
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

    pub fn forgot(&mut self, now: Micros) {
        self.forgot.push(now);
    }
}

/// The number that later tokens must exceed because of this token. The number is below the token if
/// a node that may have granted the token forgot the grant, and votes again.
fn carried((asked, token, _): Token, clocks: Option<Clocks>, forgot: &[Micros], now: Micros) -> u64 {
    let Some(Clocks { zero, quarantine, ahead }) = clocks else { return token };
    let first = forgot.iter().find(|&&at| asked <= at && at + quarantine <= now);
    first.map_or(token, |at| token.min(zero + at + ahead))
}
