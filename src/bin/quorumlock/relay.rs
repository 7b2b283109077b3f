//! `quorumlock relay`: simulates distant regions with containers on one machine.

use std::net::TcpListener;

use crate::cli::Relay;
use crate::failure::{Failure, Outcome, UNAVAILABLE};
use crate::latency;
use crate::output;
use crate::process::{self, Signals};
use crate::route::Route;

/// Runs relays until a signal ends this process.
pub(crate) async fn relay(args: Relay) -> Outcome {
    let mut signals = Signals::ending()?;
    args.routes.iter().try_for_each(open)?;
    output::note(&format!("relays to {} servers", args.routes.len()));
    Ok(process::ended_by(signals.next().await))
}

fn open(route: &Route) -> Result<(), Failure> {
    let Route { listen, server, round_trip } = route;
    let listener = TcpListener::bind(listen)
        .map_err(|error| Failure::new(UNAVAILABLE, format!("cannot listen on {listen}: {error}")))?;
    Ok(latency::relay(listener, server.clone(), *round_trip / 2)?)
}
