//! What can be said of a benchmark on the command line.

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::duration;

#[derive(Subcommand)]
pub(crate) enum Bench {
    /// Workers in several processes take turns at one lock
    Contention(Contention),
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
    /// Nobody waits in a queue: each asks at random times, and the lucky one gets the lock
    #[arg(long, conflicts_with = "strict")]
    pub(crate) unfair: bool,
    /// Strictly first come first served: no process passes the lock on within itself while others wait
    #[arg(long)]
    pub(crate) strict: bool,
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
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) nodes: crate::cli::Nodes,
}
