//! Nodes behind relays, as if they were far away. The third-nearest node completes a quorum.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::part;
use crate::contender::{Kind, Lock, Result, quorum};
use crate::peers::relay::{Relay, round_trip};
use crate::stage::{PATIENCE, Stage};
use crate::table::{Report, print, short};
use crate::turn::{Work, unmeasured};

const ROUND_TRIPS: [u64; 5] = [80, 2, 160, 12, 40];
const ROUNDS: usize = 3;
const PAIRS: u32 = 16;

pub async fn measure(kinds: &[Kind], share: f64, report: &mut Report) -> Result<()> {
    println!("Far: nodes {ROUND_TRIPS:?} ms away; multiples of the third-smallest round trip, as a PING has it");
    let stage = Stage::set(ROUND_TRIPS.len()).await?;
    let relays = stage.ports().into_iter().zip(ROUND_TRIPS);
    let relays = relays.map(|(port, trip)| Relay::start(port, Duration::from_millis(trip)));
    let relays = relays.collect::<std::io::Result<Vec<_>>>()?;
    let ports: Vec<_> = relays.iter().map(Relay::port).collect();
    let third = third(&ports)?;
    let mut locks = Vec::new();
    for &kind in kinds {
        let began = Instant::now();
        let lock = Arc::new(kind.connect(&ports, &stage.scripts, PATIENCE).await?);
        locks.push((kind, lock, began.elapsed(), Vec::new()));
    }
    for _ in 0..ROUNDS {
        for (_, lock, _, took) in &mut locks {
            took.push(unmeasured(lock, Work::Fresh { pairs: part(PAIRS, share) }).await?);
        }
    }
    let mut rows = Vec::new();
    for (kind, lock, connected, rounds) in locks {
        let of = |name: &str| best(rounds.iter().filter_map(|round| round.get(name).copied())) / third;
        let figures = [
            ("acquire_p50_to_trip", of("acquire_p50_ms")),
            ("acquire_p99_to_trip", of("acquire_p99_ms")),
            ("release_p50_to_trip", of("release_p50_ms")),
            ("release_p99_to_trip", of("release_p99_ms")),
            ("acquire_p50_ms", of("acquire_p50_ms") * third),
            ("connect_ms", connected.as_secs_f64() * 1e3),
            ("connect_beside_ms", beside(kind, &ports, &stage).await?.as_secs_f64() * 1e3),
        ];
        report.add_once("far", None, kind.name(), &figures);
        rows.push([kind.name().to_owned()].into_iter().chain(figures.iter().map(|(_, value)| short(*value))).collect());
        close(lock).await;
    }
    print(
        &["contender", "acquire p50", "p99", "release p50", "p99", "acquire p50, ms", "connect, ms", "beside another"],
        &rows,
    );
    Ok(())
}

/// How long it takes to connect while another client of the same nodes runs.
async fn beside(kind: Kind, ports: &[u16], stage: &Stage) -> Result<Duration> {
    let began = Instant::now();
    let lock = Arc::new(kind.connect(ports, &stage.scripts, PATIENCE).await?);
    let connected = began.elapsed();
    close(lock).await;
    Ok(connected)
}

/// The round trip to the node that completes a quorum, in milliseconds.
fn third(ports: &[u16]) -> Result<f64> {
    let mut trips = ports.iter().map(|&port| round_trip(port)).collect::<std::io::Result<Vec<_>>>()?;
    trips.sort_unstable();
    Ok(trips[quorum(ports.len()) - 1].as_secs_f64() * 1e3)
}

/// The least value: other load on the machine only lengthens round trips.
fn best(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::INFINITY, f64::min)
}

async fn close(lock: Arc<Lock>) {
    if let Some(lock) = Arc::into_inner(lock) {
        lock.close().await;
    }
}
