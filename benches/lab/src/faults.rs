//! `faults`: how much slower locks are while servers are stopped and killed.

use std::sync::Arc;
use std::time::Duration;

use clap::value_parser;

use crate::contender::{Lock, Ours, Quorums, Result, all_vote};
use crate::servers::Server;
use crate::stage::Stage;
use crate::table::{print, short};
use crate::turn::{Figures, during};

const NODES: usize = 5;
/// How many nodes may fail while the others are a quorum.
const MOST: usize = 2;

#[derive(clap::Args)]
pub struct Args {
    /// How many seconds to measure healthy nodes, and each fault
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u32).range(1..=600))]
    seconds: u32,
}

pub async fn measure(args: &Args) -> Result<()> {
    let mut stage = Stage::empty(NODES)?;
    let quorum = Quorums::builder(&stage.ports()).connect().await?;
    all_vote(&quorum).await?;
    let lock = Arc::new(Lock::Ours(Ours(quorum.clone())));
    let length = Duration::from_secs(args.seconds.into());
    let mut rows = Vec::new();
    for failing in 1..=MOST {
        for fault in [Fault::Stop, Fault::Kill] {
            let healthy = during(&lock, length).await?;
            let some = &mut stage.servers[..failing];
            some.iter_mut().try_for_each(|server| fault.strikes(server))?;
            let struck = during(&lock, length).await?;
            some.iter_mut().try_for_each(|server| fault.ends(server))?;
            all_vote(&quorum).await?;
            rows.push(row(format!("{failing} {}", fault.name()), &healthy, &struck));
        }
    }
    quorum.shutdown(Duration::from_secs(1)).await;
    println!("Faults: of five nodes; multiples of the healthy run just before");
    print(&["nodes", "acquire p50, ms", "to healthy", "p99, ms", "to healthy", "failed"], &rows);
    Ok(())
}

/// What happens to a server.
#[derive(Clone, Copy)]
enum Fault {
    /// SIGSTOP: connections stay open, and nothing answers.
    Stop,
    /// SIGKILL.
    Kill,
}

impl Fault {
    const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stopped",
            Self::Kill => "killed",
        }
    }

    fn strikes(self, server: &mut Server) -> std::io::Result<()> {
        match self {
            Self::Stop => server.stop(),
            Self::Kill => server.kill(),
        }
    }

    fn ends(self, server: &mut Server) -> std::io::Result<()> {
        match self {
            Self::Stop => server.resume(),
            Self::Kill => server.restart(),
        }
    }
}

fn row(nodes: String, healthy: &Figures, struck: &Figures) -> Vec<String> {
    let times = ["acquire_p50_ms", "acquire_p99_ms"];
    let times = times.into_iter().flat_map(|name| [struck[name], struck[name] / healthy[name]]);
    [nodes].into_iter().chain(times.map(short)).chain([format!("{:.0}", struck["failed"])]).collect()
}
