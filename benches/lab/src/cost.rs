//! `cost`: what a pair costs the client, and what it costs the nodes by their own counters. A pair
//! is an acquisition and its release.

use clap::value_parser;

use crate::contender::{Kind, Result};
use crate::stage::Stage;
use crate::table::Report;
use crate::turn::Work;

const NODES: usize = 5;
const TASKS: u32 = 256;
const KINDS: [Kind; 3] = [Kind::Plain, Kind::Ours, Kind::OursRedis];

const COLUMNS: [(&str, &str); 6] = [
    ("pairs a second", "pairs_per_second"),
    ("pair p50, ms", "pair_p50_ms"),
    ("p99, ms", "pair_p99_ms"),
    ("node CPU, us", "node_cpu_us"),
    ("commands a node", "commands_a_node"),
    ("client CPU, us", "client_cpu_us"),
];

#[derive(clap::Args)]
pub struct Args {
    /// How many pairs to measure in each phase
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = value_parser!(u32).range(1..=10_000_000))]
    pairs: u32,
    /// In how many turns to measure, so that other load meets all contenders alike
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u32).range(1..=1_000))]
    rounds: u32,
}

pub async fn measure(args: &Args) -> Result<()> {
    let pairs = args.pairs.div_ceil(args.rounds);
    let mut report = Report::default();
    for (phase, work) in [
        ("again", Work::Again { pairs }),
        ("fresh", Work::Fresh { pairs }),
        ("crowd", Work::Crowd { tasks: TASKS, each: pairs.div_ceil(TASKS) }),
    ] {
        let turns = Stage::set(NODES).await?.compare(&KINDS, args.rounds as usize, |_| work).await?;
        println!("{phase} (in brackets: multiple of what is written by hand)");
        report.add(phase, None, &turns);
        report.show(phase, None, &COLUMNS);
        println!("{phase}, by transport (in brackets: multiple of fred's)");
        let transports = format!("{phase}, by transport");
        report.add(&transports, None, &turns[1..]);
        report.show(&transports, None, &COLUMNS);
    }
    Ok(())
}
