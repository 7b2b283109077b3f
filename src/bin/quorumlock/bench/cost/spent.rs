//! What pairs cost.

use std::ops::AddAssign;
use std::time::Duration;

use quorumlock::Transport;

use super::super::ratio;
use super::counts::Counts;
use crate::histogram::Histogram;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// One task, one name.
    Alone(Transport),
    /// One task, another name each time.
    Fresh(Transport),
    /// Many tasks, each with a name of its own.
    Crowd(Transport),
    /// One task of the hand-written client.
    Plain,
    /// Many of them.
    PlainCrowd,
}

impl Phase {
    /// Each phase, over each transport that this command has.
    pub(super) fn all() -> Vec<Self> {
        let kinds: [fn(Transport) -> Self; 3] = [Self::Alone, Self::Fresh, Self::Crowd];
        let library = kinds.into_iter().flat_map(|kind| Transport::ALL.iter().map(move |&transport| kind(transport)));
        library.chain([Self::Plain, Self::PlainCrowd]).collect()
    }

    /// Its name; with its transport unless that is the default.
    pub(super) fn name(self) -> String {
        let kind = match self {
            Self::Alone(_) => "alone",
            Self::Fresh(_) => "fresh",
            Self::Crowd(_) => "crowd",
            Self::Plain => "plain",
            Self::PlainCrowd => "plain crowd",
        };
        match self.transport().filter(|&transport| transport != Transport::default()) {
            Some(transport) => format!("{kind} {transport}"),
            None => kind.to_owned(),
        }
    }

    pub(super) const fn is_crowd(self) -> bool {
        matches!(self, Self::Crowd(_) | Self::PlainCrowd)
    }

    /// The same over the default transport, if this is over another.
    pub(super) fn by_default(self) -> Option<Self> {
        let default = Transport::default();
        self.transport().filter(|&transport| transport != default)?;
        match self {
            Self::Alone(_) => Some(Self::Alone(default)),
            Self::Fresh(_) => Some(Self::Fresh(default)),
            Self::Crowd(_) => Some(Self::Crowd(default)),
            Self::Plain | Self::PlainCrowd => None,
        }
    }

    const fn transport(self) -> Option<Transport> {
        match self {
            Self::Alone(transport) | Self::Fresh(transport) | Self::Crowd(transport) => Some(transport),
            Self::Plain | Self::PlainCrowd => None,
        }
    }

    /// What it is compared with: as many tasks of the hand-written client.
    pub(super) const fn floor(self) -> Option<Self> {
        match self {
            Self::Alone(_) | Self::Fresh(_) => Some(Self::Plain),
            Self::Crowd(_) => Some(Self::PlainCrowd),
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
    /// How long each pair took.
    pub(super) latencies: Histogram,
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

    /// How long the pair took that `share` of all did not exceed, in microseconds.
    pub(super) fn latency(&self, share: f64) -> f64 {
        self.latencies.percentile(share).as_secs_f64() * 1e6
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
        self.latencies.add(&other.latencies);
        self.nodes.resize_with(other.nodes.len(), Counts::default);
        self.nodes.iter_mut().zip(&other.nodes).for_each(|(node, other)| *node += other);
    }
}

/// What each phase cost, in the order of [`Phase::all`].
#[derive(Clone, Debug)]
pub(super) struct Round(pub(super) Vec<(Phase, Spent)>);

impl Default for Round {
    fn default() -> Self {
        Self(Phase::all().into_iter().map(|phase| (phase, Spent::default())).collect())
    }
}

impl Round {
    pub(super) fn of(&self, phase: Phase) -> Option<&Spent> {
        self.0.iter().find_map(|(known, spent)| (*known == phase).then_some(spent))
    }

    /// A figure of a phase as a multiple of that of its floor.
    pub(super) fn to_floor(&self, phase: Phase, figure: fn(&Spent) -> f64) -> Option<f64> {
        self.to(phase, phase.floor()?, figure)
    }

    /// A figure of a phase as a multiple of another's.
    pub(super) fn to(&self, phase: Phase, other: Phase, figure: fn(&Spent) -> f64) -> Option<f64> {
        ratio(figure(self.of(phase)?), figure(self.of(other)?))
    }
}

impl AddAssign<&Self> for Round {
    fn add_assign(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|((_, spent), (_, other))| *spent += other);
    }
}
