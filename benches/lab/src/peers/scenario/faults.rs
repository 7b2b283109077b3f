//! One and two of five nodes fail while locks are used, or before a client connects.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;

use crate::contender::{Kind, Lock, Result};
use crate::peers::relay::{Relay, Way};
use crate::stage::Stage;
use crate::table::{Report, print, short};
use crate::turn::{Figures, during, first};

const NODES: usize = 5;
/// How long each state is measured.
const LENGTH: Duration = Duration::from_millis(1_500);
/// How often each compared start is measured. The fastest counts: other load only slows a start.
const STARTS: usize = 3;
/// How long an earlier client uses the servers before a contender starts.
const USED: Duration = Duration::from_millis(500);
/// How long a contender may take to connect while nodes fail.
const PATIENCE: Duration = Duration::from_secs(12);
/// The round trip that a slow node adds: about a hundred times the round trip through a relay.
const SLOW: Duration = Duration::from_millis(15);

#[derive(Clone, Copy)]
enum Fault {
    BlackHole,
    Dead,
    Slow,
}

impl Fault {
    const fn name(self) -> &'static str {
        match self {
            Self::BlackHole => "black-holed",
            Self::Dead => "dead",
            Self::Slow => "slow",
        }
    }

    fn strikes(self, relay: &Relay) {
        match self {
            Self::BlackHole => relay.switch(Way::BlackHole),
            Self::Dead => relay.switch(Way::Dead),
            Self::Slow => relay.delay(SLOW),
        }
    }
}

/// The contenders that are measured in all faults. In faults other than black holes, the other
/// contenders would hang for seconds each time.
const OURS: [Kind; 2] = [Kind::Hand, Kind::Ours];

pub async fn measure(kinds: &[Kind], share: f64, report: &mut Report) -> Result<()> {
    println!("Faults: of five nodes; multiples of the same contender's healthy run just before, acquisitions alone");
    let stage = Stage::set(NODES).await?;
    let length = LENGTH.mul_f64(share);
    let places = Places::of(&stage, kinds)?;
    for failing in [1, 2] {
        for fault in [Fault::BlackHole, Fault::Dead, Fault::Slow] {
            let some: Vec<_> = OURS.into_iter().filter(|kind| kinds.contains(kind)).collect();
            let kinds = if matches!(fault, Fault::BlackHole) { kinds } else { &some };
            let scenario = format!("{failing} {} after the start", fault.name());
            for &kind in kinds {
                let turn = afterwards(&stage, places.of_kind(kind), kind, fault, failing, length).await;
                add(report, &scenario, kind, turn);
            }
        }
        let scenario = format!("{failing} black-holed before the start");
        for (kind, turn) in before(&stage, &places, kinds, failing, length).await? {
            add(report, &scenario, kind, turn);
        }
    }
    show(report);
    Ok(())
}

/// The figures of a turn. Those named `.._to_healthy` are multiples of the figure with healthy
/// nodes.
type Turn = Result<Vec<(&'static str, f64)>>;

fn add(report: &mut Report, scenario: &str, kind: Kind, turn: Turn) {
    match turn {
        Ok(figures) => report.add_once(scenario, None, kind.name(), &figures),
        Err(error) => report.add_failed(scenario, None, kind.name(), &error.to_string()),
    }
}

/// The relays of each contender. All clients of a contender use its relays, as clients of a service
/// share addresses.
struct Places(Vec<(Kind, Place)>);

struct Place(Vec<Relay>);

impl Places {
    fn of(stage: &Stage, kinds: &[Kind]) -> Result<Self> {
        let place = |&kind: &Kind| {
            let relays = stage.ports().into_iter().map(|port| Relay::start(port, Duration::ZERO));
            Ok((kind, Place(relays.collect::<std::io::Result<Vec<_>>>()?)))
        };
        Ok(Self(kinds.iter().map(place).collect::<Result<_>>()?))
    }

    fn of_kind(&self, kind: Kind) -> &Place {
        let place = self.0.iter().find(|(other, _)| *other == kind);
        &place.expect("each contender has one").1
    }
}

impl Place {
    fn ports(&self) -> Vec<u16> {
        self.0.iter().map(Relay::port).collect()
    }

    /// Makes all nodes healthy again, and closes all connections.
    fn heal(&self) {
        for relay in &self.0 {
            relay.switch(Way::Dead);
            relay.delay(Duration::ZERO);
            relay.switch(Way::Open);
        }
    }
}

async fn afterwards(stage: &Stage, place: &Place, kind: Kind, fault: Fault, failing: usize, length: Duration) -> Turn {
    place.heal();
    let lock = Arc::new(kind.connect(&place.ports(), &stage.scripts, PATIENCE).await?);
    let healthy = during(&lock, length).await?;
    place.0.iter().take(failing).for_each(|relay| fault.strikes(relay));
    let failing = during(&lock, length).await?;
    close(lock).await;
    compared(&healthy, &failing)
}

/// The peers connect at the same time, because most of them only wait and never start. Contenders
/// whose starts are compared connect one after the other.
async fn before(
    stage: &Stage,
    places: &Places,
    kinds: &[Kind],
    failing: usize,
    length: Duration,
) -> Result<Vec<(Kind, Turn)>> {
    let (apart, together): (Vec<_>, Vec<_>) = kinds.iter().copied().partition(|kind| OURS.contains(kind));
    let mut started = Vec::new();
    for kind in apart {
        started.push((kind, least(stage, places.of_kind(kind), kind, failing).await));
    }
    let others = together.iter().map(|&kind| least(stage, places.of_kind(kind), kind, failing));
    let others = join_all(others).await;
    started.extend(together.into_iter().zip(others));
    let mut turns = Vec::new();
    for (kind, connected) in started {
        let turn = match connected {
            Ok((lock, start)) => beforehand(stage, places.of_kind(kind), kind, lock, start, length).await,
            Err(error) => Err(error),
        };
        turns.push((kind, turn));
    }
    Ok(turns)
}

/// The client of the last start, and the time of the fastest start. Peers start only once, because
/// their starts mostly wait.
async fn least(stage: &Stage, place: &Place, kind: Kind, failing: usize) -> Result<(Arc<Lock>, Duration)> {
    let (mut lock, mut start) = connected(stage, place, kind, failing).await?;
    for _ in 1..if OURS.contains(&kind) { STARTS } else { 1 } {
        close(lock).await;
        let again = connected(stage, place, kind, failing).await?;
        (lock, start) = (again.0, start.min(again.1));
    }
    Ok((lock, start))
}

/// Connects to nodes that another client of this contender has just used. Also returns how long
/// this took.
async fn connected(stage: &Stage, place: &Place, kind: Kind, failing: usize) -> Result<(Arc<Lock>, Duration)> {
    place.heal();
    let other = Arc::new(kind.connect(&place.ports(), &stage.scripts, PATIENCE).await?);
    during(&other, USED).await?;
    close(other).await;
    place.0.iter().take(failing).for_each(|relay| relay.switch(Way::BlackHole));
    let began = Instant::now();
    let lock = Arc::new(kind.connect(&place.ports(), &stage.scripts, PATIENCE).await.map_err(|_| "never starts")?);
    // Some contenders connect only when they acquire their first lock.
    tokio::time::timeout(PATIENCE, first(&lock)).await.map_err(|_| "never starts")??;
    Ok((lock, began.elapsed()))
}

async fn beforehand(
    stage: &Stage,
    place: &Place,
    kind: Kind,
    lock: Arc<Lock>,
    start: Duration,
    length: Duration,
) -> Turn {
    let failing = during(&lock, length).await?;
    close(lock).await;
    let (other, usual) = least(stage, place, kind, 0).await?;
    let healthy = during(&other, length).await?;
    close(other).await;
    let mut figures = compared(&healthy, &failing)?;
    figures.push(("start_to_healthy", start.as_secs_f64() / usual.as_secs_f64()));
    figures.push(("start_ms", start.as_secs_f64() * 1e3));
    Ok(figures)
}

fn compared(healthy: &Figures, failing: &Figures) -> Turn {
    let ratio = |name: &str| failing[name] / healthy[name];
    let figures = vec![
        ("p50_to_healthy", ratio("acquire_p50_ms")),
        ("p99_to_healthy", ratio("acquire_p99_ms")),
        ("healthy_p50_ms", healthy["acquire_p50_ms"]),
        ("failed", failing["failed"]),
    ];
    let none = !figures[0].1.is_finite();
    if none { Err("hangs: no lock was acquired".into()) } else { Ok(figures) }
}

async fn close(lock: Arc<Lock>) {
    if let Some(lock) = Arc::into_inner(lock) {
        lock.close().await;
    }
}

fn show(report: &Report) {
    let figure = |row: &crate::table::Row, name: &str| {
        row.figures.get(name).map_or_else(|| "-".to_owned(), |figure| short(figure.median))
    };
    let line = |row: &crate::table::Row| {
        let figures = ["p50_to_healthy", "p99_to_healthy", "start_to_healthy", "start_ms", "failed"]
            .map(|name| figure(row, name));
        let names = [row.scenario.clone(), row.contender.clone()];
        names.into_iter().chain(figures).chain([row.failed.clone().unwrap_or_default()]).collect()
    };
    let rows = report.rows.iter().filter(|row| row.scenario.ends_with("the start")).map(line).collect::<Vec<_>>();
    print(&["nodes", "contender", "p50", "p99", "start", "start, ms", "failed", ""], &rows);
}
