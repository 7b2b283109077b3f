//! The command line of `quorumlock bench`.

use std::time::Duration;

use clap::{Args, Subcommand};
use quorumlock::Transport;

use super::Nodes;
use crate::duration;

#[derive(Subcommand)]
pub(crate) enum Bench {
    /// How long an acquisition and a release take while nobody else wants the lock. Over the nodes that
    /// are given, or servers of its own
    Uncontended(Uncontended),
    /// How many locks a second one process acquires and releases, by the number of tasks. Over the nodes
    /// that are given, or servers of its own
    Throughput(Throughput),
    /// What a lock takes, as a multiple of the round trip to the node that completes a quorum. Over the
    /// nodes that are given, or servers of its own at chosen distances
    Distance(Distance),
    /// Workers in several processes take turns at one lock
    Contention(Contention),
}

// The nodes of a benchmark. Not a doc comment: clap would show it instead of the subcommand's help.
#[derive(Args)]
pub(crate) struct Place {
    #[command(flatten)]
    pub(crate) nodes: Nodes,
    /// How many servers to start on loopback where no nodes are given
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) masters: u8,
}

#[derive(Args)]
pub(crate) struct Uncontended {
    #[command(flatten)]
    pub(crate) place: Place,
    /// How many acquisitions with their releases: of one name, and as many of another name each time
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) pairs: u32,
    /// Prints one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Throughput {
    #[command(flatten)]
    pub(crate) place: Place,
    /// How many tasks, each with a name of its own; each number is measured
    #[arg(long, value_name = "N,N,..", value_delimiter = ',', default_value = "1,16,256", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) tasks: Vec<u32>,
    /// How long to measure each
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) seconds: u32,
    /// Prints one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Distance {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The round trip to every server of its own, or to each. Nodes that are given are as far as they are
    #[arg(long, value_name = "TIME,TIME,..", value_delimiter = ',', default_value = "80ms,2ms,160ms,12ms,40ms", value_parser = duration::parse)]
    pub(crate) latency: Vec<Duration>,
    /// How many acquisitions with their releases
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) pairs: u32,
    /// Prints one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Contention {
    /// How many workers in all
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) workers: u32,
    /// Over how many processes
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) processes: u32,
    /// How long a worker keeps the lock
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = duration::parse)]
    pub(crate) hold: Duration,
    /// How long to measure, after a second of warming up
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) seconds: u32,
    /// How many servers
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) masters: u8,
    /// The round trip to every server, or to each
    #[arg(long, value_name = "TIME,TIME,..", value_delimiter = ',', value_parser = duration::parse)]
    pub(crate) latency: Vec<Duration>,
    /// The client library to reach the servers with: fred, or redis-rs where this command was built
    /// with the feature redis-rs
    #[arg(long, value_name = "NAME", default_value_t)]
    pub(crate) transport: Transport,
    /// Nobody waits in a queue: each asks at random times, and the lucky one gets the lock
    #[arg(long)]
    pub(crate) unfair: bool,
    /// Prints one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct BenchWorker {
    #[arg(long)]
    pub(crate) workers: u32,
    #[arg(long, value_parser = duration::parse)]
    pub(crate) hold: Duration,
    #[arg(long)]
    pub(crate) unfair: bool,
    #[command(flatten)]
    pub(crate) nodes: Nodes,
}
