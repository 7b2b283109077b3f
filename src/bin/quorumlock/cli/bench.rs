//! The command line of `quorumlock bench`.

use std::time::Duration;

use clap::{Args, Subcommand};
use quorumlock::Transport;

use super::Nodes;
use crate::duration;

#[derive(Subcommand)]
pub(crate) enum Bench {
    /// Measures how long an acquisition and a release take while nobody else wants the lock. Uses
    /// the nodes that you give, or starts servers
    Uncontended(Uncontended),
    /// Measures how many locks per second one process acquires and releases, for several numbers of
    /// tasks. Uses the nodes that you give, or starts servers
    Throughput(Throughput),
    /// Measures how long an acquisition and a release take, as multiples of the round trip to the
    /// node that completes a quorum. Uses the nodes that you give, or starts servers at chosen
    /// distances
    Distance(Distance),
    /// Measures how workers in several processes take turns at one lock
    Contention(Contention),
}

// The nodes of a benchmark. This is not a doc comment: clap would show a doc comment instead of the
// subcommand's help.
#[derive(Args)]
pub(crate) struct Place {
    #[command(flatten)]
    pub(crate) nodes: Nodes,
    /// The number of servers to start on loopback if you give no nodes
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) masters: u8,
}

#[derive(Args)]
pub(crate) struct Uncontended {
    #[command(flatten)]
    pub(crate) place: Place,
    /// How many times to acquire and release: N times with one name, and N times with new names
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
    /// How many tasks acquire locks at the same time: one number for each measurement. Each task
    /// has its own lock name
    #[arg(long, value_name = "N,N,..", value_delimiter = ',', default_value = "1,16,256", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) tasks: Vec<u32>,
    /// How many seconds each measurement takes
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
    /// The round trip to the servers that `bench` starts: one time for all, or one for each. This
    /// option has no effect on nodes that you give
    #[arg(long, value_name = "TIME,TIME,..", value_delimiter = ',', default_value = "80ms,2ms,160ms,12ms,40ms", value_parser = duration::parse)]
    pub(crate) latency: Vec<Duration>,
    /// How many times to acquire and release
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) pairs: u32,
    /// Prints one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Contention {
    /// The number of workers in all processes together
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) workers: u32,
    /// The number of processes that share the workers
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) processes: u32,
    /// How long a worker keeps the lock
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = duration::parse)]
    pub(crate) hold: Duration,
    /// How many seconds to measure, after a second of warming up
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) seconds: u32,
    /// The number of servers
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) masters: u8,
    /// The round trip to the servers: one time for all, or one for each
    #[arg(long, value_name = "TIME,TIME,..", value_delimiter = ',', value_parser = duration::parse)]
    pub(crate) latency: Vec<Duration>,
    /// The client library for connections to the servers: fred, or redis-rs if this command was
    /// built with the feature redis-rs
    #[arg(long, value_name = "NAME", default_value_t)]
    pub(crate) transport: Transport,
    /// Workers do not wait in a queue. They ask at random times, so chance decides who gets the
    /// lock
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
