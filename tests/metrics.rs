//! Compares the table of metrics with a real recorder: all metrics appear with their labels, and no
//! lock's name appears.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use common::asked::Asked;
use common::node::ask;
use common::server::Server;
use common::{ConnectAll, PATIENCE, answer, answered, eventually, released, servers, unguarded};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use quorumlock::host::{Host, TokioTime};
use quorumlock::metrics::{Kind, METRICS, buckets};
use quorumlock::node::{MemoryNode, Name, Node, Verb};
use quorumlock::{NodeState, Quorum};
use tokio::runtime::Handle;

const SECOND: Duration = Duration::from_secs(1);
/// A part of each lock's name, each key and the password in these tests.
const SECRET: &str = "hush";

/// One line of the exposition.
#[derive(Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// Parses `name{label="value",...} number`. The label values here have no comma and no quote.
fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    let pair = |pair: &str| {
        let (label, value) = pair.split_once('=').unwrap();
        (label.to_owned(), value.trim_matches('"').to_owned())
    };
    let labels = labels.trim_end_matches('}').split(',').filter(|pair| !pair.is_empty()).map(pair).collect();
    Sample { name: name.to_owned(), labels, value: value.parse().unwrap() }
}

/// The exporter that docs/observability.md recommends.
fn exporter() -> PrometheusBuilder {
    buckets().fold(PrometheusBuilder::new(), |builder, (name, bounds)| {
        builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), bounds).unwrap()
    })
}

struct Exposition {
    text: String,
    samples: Vec<Sample>,
}

impl Exposition {
    fn of(recorder: &PrometheusHandle) -> Self {
        let text = recorder.render();
        let samples = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(sample).collect();
        Self { text, samples }
    }

    /// The sum over all series of `name` with these labels.
    fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let matches = |sample: &&Sample| {
            sample.name == name
                && labels.iter().all(|&(label, value)| sample.labels.get(label).is_some_and(|known| known == value))
        };
        self.samples.iter().filter(matches).map(|sample| sample.value).sum()
    }

    /// Whether there is a series of `name` with these labels, and all of them are zero.
    fn starts_at_zero(&self, name: &str, labels: &[(&str, &str)]) -> bool {
        let has = |sample: &Sample| {
            sample.name == name
                && labels.iter().all(|&(label, value)| sample.labels.get(label).is_some_and(|known| known == value))
        };
        self.samples.iter().any(has) && self.sum(name, labels) == 0.0
    }

    #[track_caller]
    fn at_least(&self, least: f64, name: &str, labels: &[(&str, &str)]) {
        let found = self.sum(name, labels);
        assert!(found >= least, "{name} {labels:?} is {found}, less than {least}\n{}", self.text);
    }
}

fn name(what: &str) -> String {
    format!("{SECRET}/{what}")
}

#[tokio::test]
async fn each_metric_of_the_table_has_its_labels_and_no_lock_name() {
    let recorder = exporter().install_recorder().unwrap();
    let mut servers = servers(3).await;
    // Quorums of one process share the gauges of a node, so use other nodes for the other quorums.
    let spare = common::servers(1).await;
    for server in &servers {
        server.command(&["ACL", "SETUSER", SECRET, "on", &format!(">{SECRET}"), "~*", "&*", "+@all"]);
    }
    let url = |server: &Server| format!("redis://{SECRET}:{SECRET}@127.0.0.1:{}", server.port());
    let builder = common::builder().nodes(servers.iter().map(url)).max_ttl(Duration::ZERO);
    // The ttl is long, and so is a node's time to answer: the machine may stall.
    let quorum = builder.ttl(24 * SECOND).node_timeout(20 * SECOND).connect_all().await;

    holds_and_waits(&quorum, &recorder).await;
    let now = Exposition::of(&recorder);
    assert_eq!((now.sum("quorumlock_locks_held", &[]), now.sum("quorumlock_waiting_callers", &[])), (1.0, 1.0));
    quorum.quiet().await;
    loses(&quorum, &servers, &spare).await;
    grants_late(&quorum, &servers).await;
    splits().await;
    // A server that has been up for a minute would vote at once.
    let young = common::new_servers(1).await;
    let guarded = common::builder().node(young[0].url()).connect().await.unwrap();
    assert!(guarded.lock(name("fresh")).try_acquire().await.unwrap_err().is_unavailable());
    quorum.inspect(&name("looked at")).await.unwrap();
    servers[2].kill();
    eventually("the death is noticed", async || matches!(quorum.nodes()[2].state, NodeState::Down { .. })).await;
    quorum.quiet().await;

    let told = Exposition::of(&recorder);
    complete(&told);
    counted(&told);
    nodes(&told, &servers, &young[0].url());
    assert!(!told.text.contains(SECRET), "neither a lock's name nor a password\n{}", told.text);
}

#[tokio::test]
async fn every_series_exists_at_zero_from_connect() {
    let recorder = exporter().build_recorder();
    let (told, _local) = (recorder.handle(), metrics::set_default_local_recorder(&recorder));
    let servers = servers(1).await;
    // A command that takes long would count as a fault.
    let _quorum = unguarded(&servers).node_timeout(20 * SECOND).connect_all().await;
    let (now, node) = (Exposition::of(&told), servers[0].url());
    let one = |name: &'static str, label: &'static str, values: &'static [&'static str]| {
        values.iter().map(move |value| (name, vec![(label, *value)]))
    };
    let outcomes = ["acquired", "contended", "timeout", "unavailable", "cancelled", "error"].as_slice();
    let mut series: Vec<_> = one(
        "quorumlock_locks_lost_total",
        "reason",
        &["expired", "revoked", "forgotten", "max_hold", "closed", "other_list"],
    )
    .chain(one("quorumlock_renewals_total", "outcome", &["extended", "lost", "unclear"]))
    .chain(one("quorumlock_rounds_total", "verdict", &["won", "failed", "stale", "timeout"]))
    .chain(one("quorumlock_hints_total", "outcome", &["heard", "wasted"]))
    .chain(one("quorumlock_acquisitions_total", "outcome", outcomes))
    .collect();
    for (operation, outcome) in [
        ("claim", "ok"),
        ("claim", "refused"),
        ("claim", "failed"),
        ("renew", "ok"),
        ("renew", "refused"),
        ("renew", "failed"),
        ("release", "ok"),
        ("release", "failed"),
        ("other", "failed"),
    ] {
        let labels = vec![("node", &*node), ("operation", operation), ("outcome", outcome)];
        series.push(("quorumlock_node_operations_total", labels));
    }
    for reason in ["down", "quarantined", "unfit", "overloaded", "timeout", "rejected", "garbled"] {
        series.push(("quorumlock_node_faults_total", vec![("node", &*node), ("reason", reason)]));
    }
    for name in [
        "acquire_duration_seconds_count",
        "hold_duration_seconds_count",
        "round_duration_seconds_count",
        "renewal_margin_ratio_count",
        "split_rounds_total",
        "late_grants_total",
        "handover_duration_seconds_count",
        "handovers_total",
        "locks_held",
        "waiting_callers",
        "waiting_acquisitions",
        "node_doubts_total",
        "node_twins",
        "other_list",
    ] {
        assert!(now.starts_at_zero(&format!("quorumlock_{name}"), &[]), "{name}\n{}", now.text);
    }
    for (name, labels) in series {
        assert!(now.starts_at_zero(name, &labels), "{name} {labels:?}\n{}", now.text);
    }
    assert_eq!(now.sum("quorumlock_quorum_size", &[("quorum", "default")]), 1.0);
    let build = [("version", env!("CARGO_PKG_VERSION")), ("protocol", "4")];
    assert_eq!(now.sum("quorumlock_build_info", &build), 1.0, "{}", now.text);
}

/// QuorumlockNoQuorum reads this gauge. Such a node grants no lock.
#[tokio::test]
async fn node_that_refuses_hellos_or_has_no_memory_is_not_up() {
    let recorder = exporter().build_recorder();
    let (told, _local) = (recorder.handle(), metrics::set_default_local_recorder(&recorder));
    let servers = servers(1).await;
    let server = &servers[0];
    let rights = |rules: &[&str]| assert_eq!(server.command(&[&["ACL", "SETUSER", "locks"], rules].concat()), "OK");
    rights(&["on", ">pw", "~*", "&*", "+@all"]);
    let url = format!("redis://locks:pw@127.0.0.1:{}", server.port());
    let quorum = common::builder().node(url).connect_all().await;
    let becomes = async |up: f64, why: &str| {
        eventually(why, async || Exposition::of(&told).sum("quorumlock_node_up", &[]) == up).await;
    };
    becomes(1.0, "it is up").await;
    rights(&["-evalsha"]);
    becomes(0.0, "it refuses hellos").await;
    rights(&["+evalsha"]);
    becomes(1.0, "it answers hellos again").await;
    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
    becomes(0.0, "it is out of memory").await;
    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "0"]), "OK");
    becomes(1.0, "it has memory again").await;
    // A user may lack the rights to some names only.
    rights(&["resetkeys", "~quorumlock:node"]);
    let lock = quorum.lock(name("wanted"));
    assert!(answer(|| lock.try_acquire()).await.is_err());
    assert_eq!(Exposition::of(&told).sum("quorumlock_node_up", &[]), 1.0);
}

/// All series exist from the start: no operation registers a series later.
#[tokio::test]
async fn a_process_has_at_most_300_series_at_five_nodes() {
    let recorder = exporter().build_recorder();
    let (told, _local) = (recorder.handle(), metrics::set_default_local_recorder(&recorder));
    let servers = servers(5).await;
    let quorum = unguarded(&servers).connect_all().await;
    let connected = Exposition::of(&told).samples.len();
    assert!(connected <= 300, "{connected} series");
    let guard = quorum.lock(name("counted")).acquire(PATIENCE).await.unwrap();
    assert!(quorum.lock(name("counted")).try_acquire().await.unwrap().is_none());
    released(guard.release()).await;
    quorum.inspect(&name("counted")).await.unwrap();
    assert_eq!(Exposition::of(&told).samples.len(), connected, "{}", told.render());
}

#[tokio::test]
async fn each_quorum_and_class_has_its_own_series_from_the_start() {
    let recorder = exporter().build_recorder();
    let (told, _local) = (recorder.handle(), metrics::set_default_local_recorder(&recorder));
    let orders = Quorum::builder().name("orders").in_memory(3).unwrap();
    let _other = Quorum::builder().name("other").in_memory(5).unwrap();
    let lock = orders.lock_with(name("one"), &orders.options().metrics_class("checkout")).unwrap();
    let now = Exposition::of(&told);
    let class = [("quorum", "orders"), ("class", "checkout")];
    for metric in ["locks_held", "locks_lost_total", "acquisitions_total", "acquire_duration_seconds_count"] {
        assert!(now.starts_at_zero(&format!("quorumlock_{metric}"), &class), "{metric}\n{}", now.text);
    }
    assert!(!now.samples.iter().any(|sample| sample.labels.get("class").is_some_and(String::is_empty)));
    let (_guard, _plain) =
        (lock.acquire(PATIENCE).await.unwrap(), orders.lock(name("two")).acquire(PATIENCE).await.unwrap());
    let now = Exposition::of(&told);
    let held = |labels: &[(&str, &str)]| now.sum("quorumlock_locks_held", labels);
    assert_eq!((held(&class), held(&class[..1]), held(&[("quorum", "other")])), (1.0, 2.0, 0.0));
    let sizes = ["orders", "other"].map(|quorum| now.sum("quorumlock_quorum_size", &[("quorum", quorum)]));
    assert_eq!(sizes, [2.0, 3.0]);
    for class in (0..20).map(|class| format!("class-{class}")) {
        orders.lock_with(name("any"), &orders.options().metrics_class(class)).unwrap();
    }
    let now = Exposition::of(&told);
    let classes: std::collections::BTreeSet<_> =
        now.samples.iter().filter_map(|sample| sample.labels.get("class")).collect();
    assert!(classes.len() <= quorumlock::metrics::MAX_CLASSES + 1, "{classes:?}");
    assert!(classes.iter().any(|class| *class == "other"), "{classes:?}");
}

/// Acquires, waits, times out, gives up and is cancelled. In the end, one lock is held and one
/// caller waits.
async fn holds_and_waits(quorum: &Quorum, recorder: &PrometheusHandle) {
    let lock = quorum.lock(name("held"));
    let guard = lock.acquire(PATIENCE).await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(answer(|| lock.acquire(Duration::from_millis(20))).await.unwrap_err().is_timeout());
    assert!(quorum.lock("").acquire(SECOND).await.unwrap_err().is_config());
    let renewals = || Exposition::of(recorder).sum("quorumlock_renewals_total", &[("outcome", "extended")]);
    eventually("it is renewed", async || renewals() >= 1.0).await;
    let waiter = tokio::spawn(async move {
        let _ = lock.acquire(60 * SECOND).await;
    });
    tokio::task::yield_now().await;
    // The lock and the waiter must stay until the caller has read the metrics.
    tokio::spawn(async move {
        tokio::task::yield_now().await;
        waiter.abort();
        drop(guard);
    });
}

/// Loses locks in three ways: by deleted keys, by expiry, and by a shutdown.
async fn loses(quorum: &Quorum, servers: &[Server], spare: &[Server]) {
    let guard = quorum.lock(name("deleted")).acquire(PATIENCE).await.unwrap();
    for server in servers {
        eventually("the node holds it", async || server.forget(&name("deleted"))).await;
    }
    guard.lost().await;
    let manual = quorum.options().ttl(3 * SECOND).auto_renew(false);
    quorum.lock_with(name("expires"), &manual).unwrap().acquire(PATIENCE).await.unwrap().lost().await;
    let other = unguarded(spare).connect_all().await;
    let guard = other.lock(name("shut")).acquire(PATIENCE).await.unwrap();
    other.shutdown(PATIENCE).await;
    guard.lost().await;
}

/// Two nodes refuse, and the third node grants after the round has failed.
async fn grants_late(quorum: &Quorum, servers: &[Server]) {
    for server in &servers[..2] {
        server.take(&name("late"), "foreigner");
    }
    servers[2].stop();
    let lock = quorum.lock(name("late"));
    assert!(answered(|| lock.try_acquire()).await.is_none());
    servers[2].resume();
    quorum.quiet().await;
}

/// Two of four nodes grant, and two hold the name for another owner.
async fn splits() {
    let host: Arc<dyn Host> = Arc::new(TokioTime::new(Handle::current()));
    let node = |number| Arc::new(MemoryNode::new(&format!("memory://{number}"), host.clone()));
    let nodes: Vec<_> = (0..4).map(node).collect();
    let names: Arc<[Name]> = [Name::new("quorumlock:", &name("split")).unwrap()].into();
    let claim = |owner: &str| {
        let (verb, owner, ttl) = (Verb::Claim, owner.into(), 60 * SECOND);
        Asked { verb, owner, ttl, ballot: 1, count: 1, ..Asked::inspect(names.clone()) }
    };
    for node in &nodes[2..] {
        ask(&**node, &claim("somebody")).await.unwrap();
    }
    let nodes = nodes.into_iter().map(|node| -> Arc<dyn Node> { node }).collect();
    let quorum = Quorum::builder().over(host, nodes).unwrap();
    // A try with split votes asks again for two round timeouts.
    let options = quorum.options().round_timeout(3 * SECOND);
    let lock = quorum.lock_with(name("split"), &options).unwrap();
    assert!(lock.try_acquire().await.unwrap_err().is_unavailable());
}

/// Checks that the exposition has every metric of the table with its description, and that samples
/// have only the labels of the table.
fn complete(told: &Exposition) {
    for metric in METRICS {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let (help, kind) =
            (format!("# HELP {} {}", metric.name, metric.help), format!("# TYPE {} {kind}", metric.name));
        assert!(told.text.contains(&help) && told.text.contains(&kind), "{} is missing\n{}", metric.name, told.text);
        let suffixes = if metric.kind == Kind::Histogram { &["_bucket", "_sum", "_count"][..] } else { &[""] };
        for suffix in suffixes {
            let full = format!("{}{suffix}", metric.name);
            let mut samples = told.samples.iter().filter(|sample| sample.name == full).peekable();
            assert!(samples.peek().is_some(), "{full} has no sample");
            for sample in samples {
                let labels: Vec<_> = sample.labels.keys().filter(|label| *label != "le").collect();
                let mut expected = metric.labels.to_vec();
                // No lock here has a class.
                expected.retain(|label| *label != "class");
                expected.sort_unstable();
                assert_eq!(labels, expected, "{full}");
            }
        }
    }
    let known = |sample: &Sample| METRICS.iter().any(|metric| sample.name.starts_with(metric.name));
    assert!(told.samples.iter().all(known), "something is recorded that is not in the table");
}

/// Checks that all events were counted, under the right labels.
fn counted(told: &Exposition) {
    for outcome in ["acquired", "contended", "timeout", "cancelled", "unavailable", "error"] {
        told.at_least(1.0, "quorumlock_acquisitions_total", &[("outcome", outcome)]);
    }
    for (verdict, least) in [("won", 3.0), ("failed", 3.0)] {
        told.at_least(least, "quorumlock_rounds_total", &[("verdict", verdict)]);
    }
    for outcome in ["extended", "lost"] {
        told.at_least(1.0, "quorumlock_renewals_total", &[("outcome", outcome)]);
    }
    for reason in ["forgotten", "expired", "closed"] {
        assert_eq!(told.sum("quorumlock_locks_lost_total", &[("reason", reason)]), 1.0, "{reason}");
    }
    told.at_least(2.0, "quorumlock_split_rounds_total", &[]);
    told.at_least(1.0, "quorumlock_late_grants_total", &[]);
    told.at_least(1.0, "quorumlock_renewal_margin_ratio_count", &[]);
    let none_left = told.sum("quorumlock_renewal_margin_ratio_bucket", &[("le", "0.1")]);
    assert_eq!(none_left, 0.0, "each renewal came in time");
    told.at_least(6.0, "quorumlock_round_duration_seconds_count", &[]);
    told.at_least(4.0, "quorumlock_hold_duration_seconds_count", &[]);
    assert_eq!((told.sum("quorumlock_locks_held", &[]), told.sum("quorumlock_waiting_callers", &[])), (0.0, 0.0));
}

/// Checks the metrics of nodes: the third node is dead, and the young node is in quarantine.
fn nodes(told: &Exposition, servers: &[Server], young: &str) {
    let node = servers[1].url();
    for (operation, outcome) in [
        ("claim", "ok"),
        ("claim", "refused"),
        ("renew", "ok"),
        ("renew", "refused"),
        ("release", "ok"),
        ("other", "ok"),
    ] {
        let labels = [("node", &*node), ("operation", operation), ("outcome", outcome)];
        told.at_least(1.0, "quorumlock_node_operations_total", &labels);
        told.at_least(1.0, "quorumlock_node_round_trip_seconds_count", &labels[..1]);
    }
    told.at_least(1.0, "quorumlock_node_operations_total", &[("node", young), ("outcome", "failed")]);
    told.at_least(1.0, "quorumlock_node_faults_total", &[("node", young), ("reason", "quarantined")]);
    for (node, up, quarantined) in [(&*node, 1.0, 0.0), (&servers[2].url(), 0.0, 0.0), (young, 1.0, 1.0)] {
        assert_eq!(told.sum("quorumlock_node_up", &[("node", node)]), up, "{node}");
        assert_eq!(told.sum("quorumlock_node_quarantined", &[("node", node)]), quarantined, "{node}");
    }
}
