//! `--metrics`: what a Prometheus finds.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use super::{Background, line_of, run, until};
use crate::common::servers;

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

/// The body of a page, empty if nobody serves it.
fn page(port: u16, path: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return String::new() };
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
}

#[tokio::test]
async fn a_scrape_shows_the_latency_in_buckets_and_the_nodes_by_name() {
    let (servers, folder, port) = (servers(3).await, tempfile::tempdir().unwrap(), free_port());
    let script = "echo > $0/inside; exec sleep 1000";
    let options = ["--metrics", &format!(":{port}"), "--ttl", "300ms"];
    let _holder = Background::start(&mut run(&servers, "job", &options, script, folder.path()));
    line_of(&folder.path().join("inside"));
    until("a renewal is counted", || {
        page(port, "/metrics").contains("quorumlock_renewals_total{outcome=\"extended\"}")
    });
    let text = page(port, "/metrics");
    for bound in ["0.0005", "0.25", "60", "+Inf"] {
        let line = format!("quorumlock_acquire_seconds_bucket{{outcome=\"acquired\",le=\"{bound}\"}}");
        assert!(text.contains(&line), "{line} in {text}");
    }
    assert!(text.contains("quorumlock_acquire_seconds_count{outcome=\"acquired\"} 1\n"), "{text}");
    assert!(text.contains("# TYPE quorumlock_acquire_seconds histogram"), "{text}");
    for server in &servers {
        assert!(text.contains(&format!("quorumlock_node_up{{node=\"{}\"}} 1", server.url())), "{text}");
    }
    assert!(!text.contains("job"), "no lock's name is a label");
}

/// A real Prometheus. scripts/test fetches one where there is none.
#[tokio::test]
async fn a_real_prometheus_scrapes_it() {
    let folder = tempfile::tempdir().unwrap();
    let (target, port) = (free_port(), free_port());
    let config = format!(
        "global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}\n\
         scrape_configs: [{{job_name: run, static_configs: [{{targets: ['127.0.0.1:{target}']}}]}}]\n"
    );
    let file = folder.path().join("prometheus.yml");
    std::fs::write(&file, config).unwrap();
    let mut prometheus = std::process::Command::new("prometheus");
    prometheus
        .arg(format!("--config.file={}", file.display()))
        .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let _prometheus = Background(Some(
        prometheus.spawn().expect("prometheus starts; ./scripts/test fetches it, or apt-get install prometheus"),
    ));
    let servers = servers(3).await;
    let script = "echo > $0/inside; exec sleep 1000";
    let options = ["--metrics", &target.to_string()];
    let _holder = Background::start(&mut run(&servers, "job", &options, script, folder.path()));
    let query = "/api/v1/query?query=quorumlock_acquire_seconds_count{outcome=%22acquired%22}";
    until("Prometheus has the acquisition", || {
        let answer: serde_json::Value = serde_json::from_str(&page(port, query)).unwrap_or_default();
        let found = &answer["data"]["result"][0];
        found["value"][1] == "1"
    });
    let query =
        "/api/v1/query?query=histogram_quantile(0.99,quorumlock_acquire_seconds_bucket{outcome=%22acquired%22})";
    let answer: serde_json::Value = serde_json::from_str(&page(port, query)).unwrap();
    let p99 = answer["data"]["result"][0]["value"][1].as_str().unwrap().parse::<f64>().unwrap();
    assert!(p99 > 0.0 && p99 < 60.0, "{answer}");
}
