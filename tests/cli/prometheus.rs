//! A real Prometheus, which scripts/test fetches if it is missing, scrapes the command and a
//! program that uses the library, and evaluates the alerts. The tests send the dashboard's queries
//! to Prometheus.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use quorumlock::{Quorum, QuorumLock};
use serde_json::Value;

use super::metrics::page;
use super::{Background, comes_true, line_of, run, until};
use crate::common::port::Port;
use crate::common::program;
use crate::common::server::Server;
use crate::common::servers;

const SECOND: Duration = Duration::from_secs(1);
/// The ttl of all locks in this file.
const TTL: Duration = Duration::from_secs(12);
/// The panels that have no data while all nodes are well. If a node is slow once, such a panel has
/// data for a minute.
const EMPTY_WHILE_WELL: [&str; 1] = ["Failed operations"];

/// A Prometheus that scrapes both programs every second, and evaluates the alerts five times a
/// second.
struct Prometheus {
    port: Port,
    _process: Background,
}

impl Prometheus {
    fn start(folder: &Path, command: u16, library: u16) -> Self {
        let alerts = Path::new(env!("CARGO_MANIFEST_DIR")).join("docker/prometheus/alerts.yml");
        let config = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 200ms}}\n\
             rule_files: [{}]\n\
             scrape_configs:\n\
             - {{job_name: run, static_configs: [{{targets: ['127.0.0.1:{command}'], labels: {{region: eu}}}}]}}\n\
             - {{job_name: library, static_configs: [{{targets: ['127.0.0.1:{library}'], labels: {{region: us}}}}]}}\n",
            alerts.display()
        );
        let (file, port) = (folder.join("prometheus.yml"), Port::take());
        std::fs::write(&file, config).unwrap();
        let mut prometheus = program::command("prometheus");
        prometheus
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{}", port.number()))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let started = prometheus.spawn();
        let process = started.expect("prometheus starts; ./scripts/test fetches it, or apt-get install prometheus");
        Self { port, _process: Background::of(process) }
    }

    fn api(&self, path: &str) -> Value {
        serde_json::from_str(&page(self.port.number(), &format!("/api/v1/{path}"))).unwrap_or_default()
    }

    /// The results of a query, one for each series, without NaN: a quantile of no values is NaN.
    fn ask(&self, query: &str) -> Vec<f64> {
        let answer = self.api(&format!("query?query={}", utf8_percent_encode(query, NON_ALPHANUMERIC)));
        assert!(answer.is_null() || answer["status"] == "success", "{query}: {answer}");
        let series = answer["data"]["result"].as_array().cloned().unwrap_or_default();
        let value = |series: &Value| series["value"][1].as_str()?.parse().ok();
        series.iter().filter_map(value).filter(|value: &f64| !value.is_nan()).collect()
    }

    fn one(&self, query: &str) -> f64 {
        self.ask(query).first().copied().unwrap_or(f64::NAN)
    }

    /// The titles of the panels that have a query without a result.
    fn empty_panels(&self, queries: &[(String, String)]) -> BTreeSet<String> {
        let empty = queries.iter().filter(|(_, query)| self.ask(query).is_empty());
        empty.map(|(panel, _)| panel.clone()).collect()
    }

    fn firing(&self) -> BTreeSet<String> {
        let alerts = self.api("alerts")["data"]["alerts"].as_array().cloned().unwrap_or_default();
        let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
        firing.filter_map(|alert| Some(alert["labels"]["alertname"].as_str()?.to_owned())).collect()
    }
}

/// The dashboard's queries, each with its panel's title.
fn dashboard() -> Vec<(String, String)> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docker/grafana/dashboards/quorumlock.json");
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap().replace("$__rate_interval", "1m");
            assert!(!query.contains('$'), "a variable that this test does not know: {query}");
            queries.push((panel["title"].as_str().unwrap().to_owned(), query));
        }
    }
    assert!(queries.len() > 20, "{queries:?}");
    queries
}

/// Serves the metrics of this process's recorder over HTTP while the test runs, as a program that
/// uses the library does.
fn serve(handle: PrometheusHandle) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (mut request, mut part) = (Vec::new(), [0; 1024]);
            while !request.ends_with(b"\r\n\r\n") {
                match stream.read(&mut part) {
                    Ok(read @ 1..) => request.extend_from_slice(&part[..read]),
                    _ => break,
                }
            }
            let body = handle.render();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close";
            let _ = write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        }
    });
    port
}

/// Acquires the lock again and again. Holds it for more than a third of the ttl each time, so that
/// the lock is renewed.
async fn works(lock: QuorumLock) {
    loop {
        let guard = lock.acquire(60 * SECOND).await;
        tokio::time::sleep(TTL.mul_f32(0.4)).await;
        drop(guard);
    }
}

/// Deletes the lock's key from every node, as an eviction would, and waits for the loss.
async fn loses(quorum: &Quorum, servers: &[Server]) {
    let guard = quorum.lock("deleted").acquire(60 * SECOND).await.unwrap();
    until("all nodes hold it", || servers.iter().all(|server| server.hold("deleted").is_some()));
    servers.iter().for_each(|server| assert!(server.forget("deleted")));
    guard.lost().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prometheus_answers_each_panel_and_fires_at_the_first_loss() {
    let (folder, own) = (tempfile::tempdir().unwrap(), Port::take());
    let command = own.number();
    let recorder = quorumlock::metrics::buckets().fold(PrometheusBuilder::new(), |builder, (name, bounds)| {
        builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), bounds).unwrap()
    });
    let recorder = recorder.build_recorder();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let prometheus = Prometheus::start(folder.path(), command, serve(recorder.handle()));
    let mut servers = servers(5).await;
    let script = "echo > $0/inside; exec sleep 1000";
    let options = ["--metrics", &command.to_string(), "--ttl", "12s"];
    let _holder = Background::start(&mut run(&servers, "job", &options, script, folder.path()));
    line_of(&folder.path().join("inside"));
    let builder = Quorum::builder().nodes(servers.iter().map(Server::url)).max_ttl(Duration::ZERO).name("orders");
    let quorum = builder.ttl(TTL).connect_timeout(60 * SECOND).connect().await.unwrap();
    let lock = quorum.lock_with("orders/42", &quorum.options().metrics_class("checkout")).unwrap();
    let workers: Vec<_> = (0..2).map(|_| tokio::spawn(works(lock.clone()))).collect();

    let queries = dashboard();
    let well = EMPTY_WHILE_WELL.map(str::to_owned).into();
    until("each panel has data", || prometheus.empty_panels(&queries).is_subset(&well));
    let acquired = "quorumlock_acquisitions_total{job=\"run\",outcome=\"acquired\"}";
    let p99 = "histogram_quantile(0.99, sum by (le) (quorumlock_acquire_duration_seconds_bucket))";
    let margin = "histogram_quantile(0.5, sum by (le) (quorumlock_renewal_margin_ratio_bucket{job=\"run\"}))";
    for (query, range) in [
        (acquired, 1.0..=1.0),
        (p99, 0.000_1..=60.0),
        (margin, 0.5..=0.8),
        ("quorumlock_quorum_size{job=\"library\",quorum=\"orders\"}", 3.0..=3.0),
        ("count(quorumlock_locks_held{class=\"checkout\"})", 1.0..=1.0),
        ("count({job=\"run\",__name__=~\"quorumlock_.*\"})", 200.0..=300.0),
    ] {
        // After a scrape that took longer than a second, a program has no data until the next
        // scrape. The first renewals may be late, too.
        let mut value = f64::NAN;
        let is_right = comes_true(|| {
            value = prometheus.one(query);
            range.contains(&value)
        });
        assert!(is_right, "{query}: {value}, and not {range:?}");
    }
    assert_eq!(prometheus.firing(), BTreeSet::new(), "all is well");

    loses(&quorum, &servers).await;
    until("the first lost lock fires", || prometheus.firing().contains("QuorumlockLockLost"));
    servers[4].kill();
    until("each panel has data", || prometheus.empty_panels(&queries).is_empty());
    until("Prometheus evaluates each rule", || {
        let groups = prometheus.api("rules")["data"]["groups"].clone();
        let rules = groups[0]["rules"].as_array().cloned().unwrap_or_default();
        rules.len() > 5 && rules.iter().all(|rule| rule["health"] == "ok")
    });
    workers.iter().for_each(tokio::task::JoinHandle::abort);
}
