//! The first lock of a new process, over healthy nodes and while nodes fail. Other processes have
//! used the same nodes before.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::part;
use crate::contender::{Kind, Result};
use crate::peers::relay::{Relay, Way};
use crate::stage::Stage;
use crate::table::{Report, print, short};
use crate::turn::first;

const NODES: usize = 5;
const ROUNDS: u32 = 15;
/// How long a contender may take to connect.
const PATIENCE: Duration = Duration::from_secs(15);
/// The contenders that keep one connection to each node.
const KINDS: [Kind; 4] = [Kind::Fred, Kind::Redis, Kind::Ours, Kind::OursRedis];

/// The states of the nodes: the figure's name, how many nodes fail, and how.
const STATES: [(&str, usize, Way); 5] = [
    ("healthy", 0, Way::Open),
    ("one_dead", 1, Way::Dead),
    ("two_dead", 2, Way::Dead),
    ("one_hung", 1, Way::BlackHole),
    ("two_hung", 2, Way::BlackHole),
];

pub async fn measure(kinds: &[Kind], share: f64, report: &mut Report) -> Result<()> {
    println!("Start: connect and the first lock of a new process, ms (in brackets: multiple of its own healthy start)");
    let stage = Stage::set(NODES).await?;
    let relays = stage.ports().into_iter().map(|port| Relay::start(port, Duration::ZERO));
    let relays = relays.collect::<std::io::Result<Vec<_>>>()?;
    let mut rows: Vec<Vec<String>> = Vec::new();
    for kind in KINDS.into_iter().filter(|kind| kinds.contains(kind)) {
        let mut figures = Vec::new();
        for (name, failing, way) in STATES {
            if failing > 0 && !survives(kind) {
                continue;
            }
            figures.push((name, median_start(&stage, &relays, kind, failing, way, part(ROUNDS, share)).await?));
        }
        let healthy = figures[0].1;
        let cell = |&(name, took): &(&str, f64)| match name {
            "healthy" => short(took),
            _ => format!("{} ({:.2})", short(took), took / healthy),
        };
        rows.push([kind.name().to_owned()].into_iter().chain(figures.iter().map(cell)).collect());
        report.add_once("start", None, kind.name(), &figures);
    }
    for row in &mut rows {
        row.resize(STATES.len() + 1, "-".to_owned());
    }
    print(&["contender", "healthy", "one dead", "two dead", "one hung", "two hung"], &rows);
    Ok(())
}

/// Whether this contender starts while nodes fail. The floors do not.
const fn survives(kind: Kind) -> bool {
    matches!(kind, Kind::Ours | Kind::OursRedis)
}

/// The median time from the start to the release of the first lock, in milliseconds.
async fn median_start(
    stage: &Stage,
    relays: &[Relay],
    kind: Kind,
    failing: usize,
    way: Way,
    rounds: u32,
) -> Result<f64> {
    let mut all = Vec::new();
    for _ in 0..rounds {
        relays.iter().for_each(|relay| relay.switch(Way::Open));
        relays.iter().take(failing).for_each(|relay| relay.switch(way));
        let ports: Vec<_> = relays.iter().map(Relay::port).collect();
        let began = Instant::now();
        let lock = Arc::new(kind.connect(&ports, &stage.scripts, PATIENCE).await?);
        first(&lock).await?;
        all.push(began.elapsed().as_secs_f64() * 1e3);
        if let Some(lock) = Arc::into_inner(lock) {
            lock.close().await;
        }
    }
    all.sort_unstable_by(f64::total_cmp);
    Ok(all[all.len() / 2])
}
