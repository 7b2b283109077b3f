//! Measures how much slower locks are while two of five nodes fail, compared with a run over
//! healthy nodes just before, in the same process.

use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use quorumlock::{NodeState, Quorum};
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use crate::cluster::Node;
use crate::common::eventually;
use crate::common::server::Server;
use crate::faults::Fault;
use crate::{MAX_TTL, NAMES, TTL};

/// The bounds: sections per second must be at least this share of the healthy run's, and the p99 of
/// `acquire` at most this multiple.
const LEAST_RATE: f64 = 0.7;
const MOST_P99: f64 = 3.0;
/// The number of tries, since other load of the machine may spoil a try. Each try is reported.
const TRIES: usize = 3;
const HEALTHY: Duration = Duration::from_secs(2);
const FAILING: Duration = Duration::from_secs(4);
/// How long to measure after the faults have ended.
const BACK: Duration = Duration::from_secs(2);
/// The interval between repetitions of a fault that is over at once.
const AGAIN: Duration = Duration::from_millis(250);

/// One node is stopped and one is killed. There are no proxies, and the ttl is the default.
const BAD_DAY: &str = "stop+kill";

struct Run {
    rate: f64,
    p99: Duration,
}

struct Ratio {
    rate: f64,
    p99: f64,
}

impl Ratio {
    fn holds(&self) -> bool {
        self.rate >= LEAST_RATE && self.p99 <= MOST_P99
    }

    fn json(&self) -> Value {
        let rounded = |number: f64| (number * 100.0).round() / 100.0;
        json!({"sections": rounded(self.rate), "p99": rounded(self.p99)})
    }
}

/// The ratios while both nodes fail, and while the nodes come back.
struct Try {
    failing: Ratio,
    back: Option<Ratio>,
}

impl Try {
    fn holds(&self) -> bool {
        self.failing.holds() && self.back.as_ref().is_none_or(Ratio::holds)
    }

    fn json(&self) -> Value {
        json!({"failing": self.failing.json(), "back": self.back.as_ref().map(Ratio::json)})
    }
}

impl fmt::Display for Try {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sections/s {:.2}  p99 {:.2}", self.failing.rate, self.failing.p99)?;
        let Some(back) = &self.back else { return Ok(()) };
        write!(f, "  coming back {:.2} {:.2}", back.rate, back.p99)
    }
}

/// Measures all faults, or only `only`. Returns the results, and whether all bounds held.
pub async fn run(only: Option<&str>, json: bool) -> bool {
    let mut found = Map::new();
    let mut all = true;
    let mut tell = |name: &str, tried: Vec<Try>| {
        let last = tried.last().expect("it was tried");
        all &= last.holds();
        if !json {
            let held = if last.holds() { "" } else { "  TOO SLOW" };
            println!("{name:>20}  {last}  (try {}){held}", tried.len());
        }
        found.insert(name.to_owned(), tried.iter().map(Try::json).collect());
    };
    let wanted = |name: &str| only.is_none_or(|only| only == name);
    if wanted(BAD_DAY) {
        tell(BAD_DAY, tries(async || bad_day().await).await);
    }
    let faults: Vec<_> = Fault::ALL.into_iter().filter(|fault| wanted(fault.name())).collect();
    if !faults.is_empty() {
        let bench = Bench::start().await;
        for fault in faults {
            tell(fault.name(), tries(async || bench.measure(fault).await).await);
        }
    }
    if json {
        println!("{}", json!({"ratios": found, "bounds": {"sections": LEAST_RATE, "p99": MOST_P99}, "held": all}));
    }
    all
}

async fn tries(measure: impl AsyncFn() -> Try) -> Vec<Try> {
    let mut tried = Vec::new();
    while tried.len() < TRIES && !tried.last().is_some_and(Try::holds) {
        tried.push(measure().await);
    }
    tried
}

async fn bad_day() -> Try {
    let mut servers = crate::common::servers(5).await;
    let quorum = crate::common::unguarded(&servers).connect().await.unwrap();
    work(&quorum, HEALTHY / 2).await;
    let healthy = work(&quorum, HEALTHY).await;
    servers[3].stop();
    servers[4].kill();
    let degraded = work(&quorum, 2 * FAILING).await;
    Try { failing: degraded.against(&healthy), back: None }
}

/// Five nodes behind proxies, and a client.
struct Bench {
    nodes: Vec<Arc<Node>>,
    spare: Server,
    quorum: Quorum,
}

impl Bench {
    async fn start() -> Self {
        let nodes: Vec<_> = join_all((0..5).map(|_| Node::start())).await.into_iter().map(Arc::new).collect();
        let urls = nodes.iter().map(|node| node.proxy.url());
        let quorum = crate::common::builder().nodes(urls).ttl(TTL).max_ttl(MAX_TTL).connect().await.unwrap();
        Self { nodes, spare: Server::start().await, quorum }
    }

    async fn measure(&self, fault: Fault) -> Try {
        eventually("all nodes vote", async || self.quorum.nodes().iter().all(|node| node.state == NodeState::Up)).await;
        work(&self.quorum, HEALTHY / 4).await;
        let healthy = work(&self.quorum, HEALTHY).await;
        let failing = &self.nodes[..2];
        let keep = async || {
            loop {
                join_all(failing.iter().map(|node| fault.begin(node, self.spare.port()))).await;
                if !fault.ends_by_itself() {
                    pending::<()>().await;
                }
                sleep(AGAIN).await;
            }
        };
        let while_failing = tokio::select! {
            biased;
            () = keep() => unreachable!("it never ends"),
            run = work(&self.quorum, FAILING) => run,
        };
        let end = join_all(failing.iter().map(|node| fault.end(node)));
        let (back, _) = tokio::join!(work(&self.quorum, BACK), end);
        Try { failing: while_failing.against(&healthy), back: Some(back.against(&healthy)) }
    }
}

/// Acquires and releases for `length`, with one task for each name.
async fn work(quorum: &Quorum, length: Duration) -> Run {
    let ends = Instant::now() + length;
    let tasks = NAMES.map(|name| {
        let lock = quorum.lock(name);
        tokio::spawn(async move {
            let mut took = Vec::new();
            while Instant::now() < ends {
                let asked = Instant::now();
                let Ok(guard) = lock.acquire(TTL).await else { continue };
                took.push(asked.elapsed());
                let _ = guard.release().await;
            }
            took
        })
    });
    let mut took = join_all(tasks).await.into_iter().flat_map(Result::unwrap).collect::<Vec<_>>();
    took.sort_unstable();
    let p99 = took.get(took.len() * 99 / 100).copied().unwrap_or(length);
    Run { rate: took.len() as f64 / length.as_secs_f64(), p99 }
}

impl Run {
    fn against(&self, healthy: &Self) -> Ratio {
        Ratio { rate: self.rate / healthy.rate, p99: self.p99.as_secs_f64() / healthy.p99.as_secs_f64() }
    }
}
