//! The lab measures the figures of benches/README.md, over redis-servers that it starts, in one
//! process on one thread. Compare only figures of the same run.

mod contender;
mod cost;
mod faults;
mod keys;
mod leases;
mod peers;
mod servers;
mod stage;
mod table;
mod turn;

use clap::Parser;

#[derive(Parser)]
#[command(about)]
enum Lab {
    /// This library beside other locks, and beside what any lock must cost
    Peers(peers::Args),
    /// What an acquisition and its release cost the nodes and the client: over fred, over redis-rs,
    /// and with a hand-written SET NX and compare-and-delete
    Cost(cost::Args),
    /// Holds many locks for a time: what this costs, and how many are lost. Prints an object
    Leases(leases::Args),
    /// How much nodes and this process keep of names that are used once, and whether this grows.
    /// Prints an object
    Keys(keys::Args),
    /// How much slower locks are while nodes are stopped and killed
    Faults(faults::Args),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> contender::Result<()> {
    let lab = Lab::parse();
    if cfg!(debug_assertions) {
        eprintln!("this is a debug build: its times mean nothing");
    }
    match lab {
        Lab::Peers(args) => peers::measure(&args).await,
        Lab::Cost(args) => cost::measure(&args).await,
        Lab::Leases(args) => leases::measure(&args).await,
        Lab::Keys(args) => keys::measure(&args).await,
        Lab::Faults(args) => faults::measure(&args).await,
    }
}
