//! `--metrics`: the page and the file for Prometheus.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;

use super::{Background, done, line_of, run, tried, until};
use crate::common::port::Port;
use crate::common::server::Server;
use crate::common::servers;

/// The body of a page. Empty if no program serves the page.
pub(crate) fn page(port: u16, path: &str) -> String {
    answer(port, path).1
}

/// The status and the body of a page: 0 and nothing if no program serves the page.
pub(crate) fn answer(port: u16, path: &str) -> (u16, String) {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return (0, String::new()) };
    let mut text = String::new();
    // Ignore errors: the program may end just now.
    let _ = write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let _ = stream.read_to_string(&mut text);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return (0, String::new()) };
    (head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0), body.to_owned())
}

#[tokio::test]
async fn a_scrape_shows_the_latency_in_buckets_and_the_nodes_by_name() {
    let (servers, folder, own) = (servers(3).await, tempfile::tempdir().unwrap(), Port::take());
    let port = own.number();
    let script = "echo > $0/inside; exec sleep 1000";
    let options = ["--metrics", &format!(":{port}"), "--ttl", "12s"];
    let _holder = Background::start(&mut run(&servers, "job", &options, script, folder.path()));
    line_of(&folder.path().join("inside"));
    // The third node may be connected later than the others.
    let up = |server: &Server| format!("quorumlock_node_up{{quorum=\"default\",node=\"{}\"}} 1", server.url());
    let mut text = String::new();
    until("a renewal is counted, and each node is up", || {
        text = page(port, "/metrics");
        text.contains("quorumlock_renewals_total{quorum=\"default\",outcome=\"extended\"}")
            && servers.iter().all(|server| text.contains(&up(server)))
    });
    for bound in ["0.0001", "0.25", "60", "+Inf"] {
        let line = format!("quorumlock_acquire_duration_seconds_bucket{{quorum=\"default\",le=\"{bound}\"}}");
        assert!(text.contains(&line), "{line} in {text}");
    }
    assert!(text.contains("quorumlock_acquire_duration_seconds_count{quorum=\"default\"} 1\n"), "{text}");
    assert!(text.contains("# TYPE quorumlock_acquire_duration_seconds histogram"), "{text}");
    assert!(!text.contains("job"), "no lock's name is a label");
}

#[tokio::test]
async fn run_goes_on_without_metrics_if_their_port_is_in_use() {
    let (servers, folder) = (servers(1).await, tempfile::tempdir().unwrap());
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let (address, file) = (taken.local_addr().unwrap(), folder.path().join("nightly.prom"));
    let options = ["--metrics", &address.to_string(), "--metrics-textfile", file.to_str().unwrap()];
    let (code, out, err) = done(&mut run(&servers, "job", &options, "echo ran", folder.path()));
    assert_eq!((code, out.as_str()), (0, "ran\n"), "{err}");
    assert!(err.contains(&format!("metrics are not served at {address}: ")), "{err}");
    assert!(std::fs::read_to_string(&file).unwrap().contains("outcome=\"acquired\"} 1\n"));
}

/// The file is for node_exporter's textfile collector.
#[tokio::test]
async fn a_short_run_leaves_its_metrics_in_a_file_whatever_it_came_to() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let file = folder.path().join("nightly.prom");
    let options = ["--metrics-textfile", file.to_str().unwrap(), "--no-wait"];
    let (code, ..) = done(&mut run(&servers, "job", &options[..2], "exit 3", folder.path()));
    assert_eq!(code, 3);
    let text = std::fs::read_to_string(&file).unwrap();
    for line in [
        "quorumlock_acquisitions_total{run=\"nightly\",quorum=\"default\",outcome=\"acquired\"} 1\n",
        "quorumlock_hold_duration_seconds_count{run=\"nightly\",quorum=\"default\"} 1\n",
        "quorumlock_locks_lost_total{run=\"nightly\",quorum=\"default\",reason=\"expired\"} 0\n",
        "quorumlock_quorum_size{run=\"nightly\",quorum=\"default\"} 2\n",
        "quorumlock_run_failure_code{run=\"nightly\"} 0\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(!text.contains("quorumlock_node_up") && !text.contains("job"), "{text}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644, "node_exporter may read it");
    servers.iter().for_each(|server| server.take("job", "somebody"));
    let (code, _, err) = tried(&mut run(&servers, "job", &options, "true", folder.path()));
    assert_eq!(code, 75, "{err}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("quorumlock_run_failure_code{run=\"nightly\"} 75\n"), "{text}");
    assert!(text.contains("outcome=\"acquired\"} 0\n"), "{text}");
    let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, ["nightly.prom"], "nothing else is left");
}
