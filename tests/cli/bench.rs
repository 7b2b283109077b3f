//! `quorumlock bench`, and the distances of `quorumlock sandbox --latency`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{bare, done, until};

/// Runs a benchmark of one second and returns its object.
fn contention(options: &[&str]) -> Value {
    let (code, out, err) = done(bare().args(["bench", "contention", "--seconds", "1", "--json"]).args(options));
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(out.lines().count(), 1, "standard output holds one object and nothing else");
    serde_json::from_str(&out).unwrap()
}

fn number(summary: &Value, field: &str) -> f64 {
    summary[field].as_f64().unwrap_or_else(|| panic!("{field} in {summary}"))
}

#[test]
fn it_tells_how_the_lock_passes_from_one_to_the_next() {
    let options = ["--workers", "4", "--processes", "2", "--masters", "3", "--hold", "2ms", "--latency", "4ms"];
    let summary = contention(&options);
    for field in ["acquire_p50_ms", "acquire_p99_ms", "acquire_max_ms", "most_sections", "least_sections"] {
        assert!(number(&summary, field) > 0.0, "{field} in {summary}");
    }
    assert_eq!((number(&summary, "overlaps"), number(&summary, "workers")), (0.0, 4.0));
    assert!(number(&summary, "split_rounds_per_section") < 1.0, "{summary}");
    let commands = number(&summary, "commands_per_section");
    assert!((2.0..=20.0).contains(&commands), "a quorum of nodes is asked for each section: {summary}");
    // No handover is faster than a message can go there and back.
    assert!(number(&summary, "handover_p50_ms") >= 4.0 && number(&summary, "sections_per_second") < 170.0, "{summary}");
    assert!(number(&summary, "hold_p50_ms") >= 2.0, "{summary}");
}

#[test]
fn barging_asks_more_often_and_no_more_than_one_of_both_can_be_had() {
    let summary = contention(&["--workers", "2", "--masters", "3", "--unfair"]);
    assert_eq!(number(&summary, "overlaps"), 0.0);
    assert_eq!(done(bare().args(["bench", "contention", "--unfair", "--strict"])).0, 64);
    assert_eq!(done(bare().args(["bench", "contention", "--latency", "1ms,2ms"])).0, 64);
}

#[tokio::test]
async fn a_command_can_be_run_without_waiting_in_line() {
    let servers = crate::common::servers(3).await;
    let (code, out, err) = done(super::over(&servers).args(["run", "job", "--unfair", "--", "echo", "inside"]));
    assert_eq!((code, out.as_str()), (0, "inside\n"), "{err}");
}

/// The shortest of some round trips to a server.
fn round_trip(address: &str) -> Duration {
    let mut stream = TcpStream::connect(address.strip_prefix("redis://").unwrap()).unwrap();
    stream.set_nodelay(true).unwrap();
    let trip = |_| {
        let sent = Instant::now();
        stream.write_all(b"PING\r\n").unwrap();
        stream.read_exact(&mut [0; 7]).unwrap();
        sent.elapsed()
    };
    (0..5).map(trip).min().unwrap()
}

#[test]
fn servers_of_a_sandbox_can_be_far_apart() {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo $QUORUMLOCK_NODES > $0/nodes; until [ -e $0/go ]; do sleep 0.02; done";
    let mut command = bare();
    command.args(["sandbox", "--masters", "3", "--latency", "0,20ms,80ms", "--", "sh", "-c", script]);
    let sandbox = super::Background::start(command.arg(folder.path()));
    let nodes = super::line_of(&folder.path().join("nodes"));
    let trips: Vec<_> = nodes.split(',').map(round_trip).collect();
    assert!(trips[1] > 4 * trips[0] && trips[2] > 2 * trips[1], "{trips:?}");
    assert!(trips[1] >= Duration::from_millis(19) && trips[2] < Duration::from_millis(160), "{trips:?}");
    std::fs::write(folder.path().join("go"), "").unwrap();
    assert_eq!(sandbox.done().0, 0);
    until("nobody answers any more", || TcpStream::connect(nodes[8..].split(',').next().unwrap()).is_err());
}
