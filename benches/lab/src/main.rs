//! The lab: what is measured for the figures of benches/README.md, over redis-servers of its own, in
//! one process on one thread. Compare what one run prints and nothing else.

mod contender;
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
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> contender::Result<()> {
    match Lab::parse() {
        Lab::Peers(args) => peers::measure(&args).await,
    }
}
