//! Finds since when no fault has kept waiters from asking, or votes from counting.

use std::collections::BTreeSet;

use super::history::{Micros, SECOND, What};

/// How long after a fault it may take until connections are up and waiters have asked again.
const SETTLES: Micros = 5 * SECOND;

/// A fault that lasts until another event ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    Cut(u16, u8),
    Hung(u8),
    Down(u8),
    Split(u8),
    Paused(u16),
    Weather,
}

#[derive(Debug, Default)]
pub struct Calm {
    open: BTreeSet<Trouble>,
    /// When the effects of the last fault are over.
    since: Micros,
    /// How long a node may be doubted.
    doubts: Micros,
}

impl Calm {
    pub fn new(max_ttl: Micros) -> Self {
        Self { doubts: 2 * max_ttl, ..Self::default() }
    }

    pub fn look(&mut self, now: Micros, what: &What) {
        match *what {
            What::Cut { process, node, there, back } => self.lasts(now, Trouble::Cut(process, node), there || back),
            What::Hung { node, hung } => self.lasts(now, Trouble::Hung(node), hung),
            What::Paused { process, .. } => self.lasts(now, Trouble::Paused(process), true),
            What::Resumed { process } => self.lasts(now, Trouble::Paused(process), false),
            What::Weather { bad } => self.lasts(now, Trouble::Weather, bad),
            What::NodeDown { node, .. } => self.lasts(now, Trouble::Down(node), true),
            What::NodeUp { node } => {
                self.lasts(now, Trouble::Down(node), false);
                self.settles(now + self.doubts);
            }
            What::Split { node, split, .. } => {
                self.lasts(now, Trouble::Split(node), split);
                self.settles(now + self.doubts);
            }
            // A new process may first have to put its list in force.
            What::Started { .. } if now > 0 => self.settles(now + self.doubts),
            What::Forgot { .. } | What::Moved { .. } => self.settles(now + self.doubts),
            What::ClockStepped { .. } => self.settles(now + self.doubts),
            What::Replaced { .. } | What::Healed => self.settles(now),
            _ => {}
        }
    }

    /// Whether there is no fault, and the effects of all faults were over by `since`.
    pub fn is_since(&self, since: Micros) -> bool {
        self.open.is_empty() && since >= self.since
    }

    fn lasts(&mut self, now: Micros, trouble: Trouble, lasts: bool) {
        let changes = if lasts { self.open.insert(trouble) } else { self.open.remove(&trouble) };
        if changes {
            self.settles(now);
        }
    }

    fn settles(&mut self, at: Micros) {
        self.since = self.since.max(at + SETTLES);
    }
}
