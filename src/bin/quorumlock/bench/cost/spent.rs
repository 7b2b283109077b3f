//! What pairs cost.

use std::ops::AddAssign;
use std::time::Duration;

use super::super::ratio;
use super::counts::Counts;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// One task, one name.
    Alone,
    /// One task, another name each time.
    Fresh,
    /// Many tasks, each with a name of its own.
    Crowd,
    /// One task of the hand-written client.
    Plain,
    /// Many of them.
    PlainCrowd,
}

impl Phase {
    pub(super) const ALL: [Self; 5] = [Self::Alone, Self::Fresh, Self::Crowd, Self::Plain, Self::PlainCrowd];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Fresh => "fresh",
            Self::Crowd => "crowd",
            Self::Plain => "plain",
            Self::PlainCrowd => "plain crowd",
        }
    }

    pub(super) const fn is_crowd(self) -> bool {
        matches!(self, Self::Crowd | Self::PlainCrowd)
    }

    /// What it is compared with: as many tasks of the hand-written client.
    pub(super) const fn floor(self) -> Option<Self> {
        match self {
            Self::Alone | Self::Fresh => Some(Self::Plain),
            Self::Crowd => Some(Self::PlainCrowd),
            Self::Plain | Self::PlainCrowd => None,
        }
    }
}

/// What one phase cost.
#[derive(Clone, Debug, Default)]
pub(super) struct Spent {
    pub(super) pairs: u64,
    pub(super) took: Duration,
    /// CPU time of this process.
    pub(super) client: Duration,
    /// By node.
    pub(super) nodes: Vec<Counts>,
}

impl Spent {
    pub(super) fn rate(&self) -> f64 {
        ratio(self.pairs as f64, self.took.as_secs_f64()).unwrap_or_default()
    }

    /// CPU time of all nodes together for a pair, in microseconds.
    pub(super) fn node_cpu(&self) -> f64 {
        self.micros(self.nodes.iter().map(|node| node.cpu).sum())
    }

    /// CPU time of this process for a pair, in microseconds.
    pub(super) fn client_cpu(&self) -> f64 {
        self.micros(self.client)
    }

    /// How many commands a node carries out for a pair, on average.
    pub(super) fn commands(&self) -> f64 {
        let all: u64 = self.nodes.iter().map(Counts::total).sum();
        self.each(all) / self.nodes.len().max(1) as f64
    }

    /// A count of all pairs as one of each pair.
    pub(super) fn each(&self, count: u64) -> f64 {
        ratio(count as f64, self.pairs as f64).unwrap_or_default()
    }

    pub(super) fn micros(&self, time: Duration) -> f64 {
        ratio(time.as_secs_f64() * 1e6, self.pairs as f64).unwrap_or_default()
    }
}

impl AddAssign<&Self> for Spent {
    fn add_assign(&mut self, other: &Self) {
        self.pairs += other.pairs;
        self.took += other.took;
        self.client += other.client;
        self.nodes.resize_with(other.nodes.len(), Counts::default);
        self.nodes.iter_mut().zip(&other.nodes).for_each(|(node, other)| *node += other);
    }
}

/// What each phase cost.
#[derive(Clone, Debug, Default)]
pub(super) struct Round(pub(super) [Spent; Phase::ALL.len()]);

impl Round {
    pub(super) fn of(&self, phase: Phase) -> &Spent {
        &self.0[phase as usize]
    }

    /// A figure of a phase as a multiple of that of its floor.
    pub(super) fn to_floor(&self, phase: Phase, figure: fn(&Spent) -> f64) -> Option<f64> {
        ratio(figure(self.of(phase)), figure(self.of(phase.floor()?)))
    }
}

impl AddAssign<&Self> for Round {
    fn add_assign(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(spent, other)| *spent += other);
    }
}
