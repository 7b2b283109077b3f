//! The tokens that were dealt for each name, and which must be greater than which.

use std::collections::BTreeMap;

use super::history::Micros;

/// Of one name, of writers or of readers.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    highest: u64,
    /// Later ones must be above this: less than the highest where only clocks carry tokens over what
    /// nodes forgot, and that was ahead of them.
    carried: u64,
}

impl Known {
    fn max(self, other: Self) -> Self {
        Self { highest: self.highest.max(other.highest), carried: self.carried.max(other.carried) }
    }
}

/// What a token is beside those that were dealt before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dealt {
    Above,
    /// Nodes forgot the one above it, and were not promised to be taught it.
    BelowForgotten,
    /// Not above this.
    Below(u64),
}

#[derive(Debug, Default)]
pub struct Tokens {
    names: BTreeMap<u8, [Known; 2]>,
    /// Where nodes forget and nobody need teach them: up to which token clocks carry what was dealt
    /// before time zero. See "What is not promised" in docs/protocol.md.
    clocks: Option<u64>,
}

impl Tokens {
    pub fn new(clocks: Option<u64>) -> Self {
        Self { clocks, ..Self::default() }
    }

    pub fn dealt(&mut self, name: u8, shared: bool, token: u64) -> Dealt {
        let [written, read] = self.names.entry(name).or_default();
        // Readers' tokens are in no order among themselves.
        let before = if shared { *written } else { written.max(*read) };
        let known = if shared { read } else { written };
        *known = known.max(Known { highest: token, carried: token });
        match token {
            _ if token > before.highest => Dealt::Above,
            _ if token > before.carried => Dealt::BelowForgotten,
            _ => Dealt::Below(before.highest),
        }
    }

    /// A node forgot.
    pub fn forgot(&mut self, now: Micros) {
        let Some(clocks) = self.clocks else { return };
        let known = self.names.values_mut().flatten();
        known.for_each(|known| known.carried = known.carried.min(clocks + now));
    }
}
