//! `quorumlock bench`, and the round trips of `quorumlock sandbox --latency`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{bare, done, until};

/// Runs the benchmark `contention` for this many seconds, and returns its object.
fn contention(seconds: u32, options: &[&str]) -> Value {
    bench(&[&["contention", "--seconds", &seconds.to_string()], options].concat())
}

/// Runs a benchmark and returns its object.
fn bench(options: &[&str]) -> Value {
    let (code, out, err) = done(bare().arg("bench").args(options).arg("--json"));
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(out.lines().count(), 1, "standard output holds one object and nothing else");
    serde_json::from_str(&out).unwrap()
}

fn number(summary: &Value, field: &str) -> f64 {
    summary[field].as_f64().unwrap_or_else(|| panic!("{field} in {summary}"))
}

#[test]
fn contention_bench_reports_acquire_hold_and_handover_times() {
    let options = ["--workers", "4", "--processes", "2", "--masters", "3", "--hold", "2ms", "--latency", "4ms"];
    // On a busy machine, a second may be too short for each worker to get the lock. Averages over a
    // few sections would say little.
    let mut summaries = [1, 2, 4, 8, 16, 16].into_iter().map(|seconds| contention(seconds, &options));
    let summary = summaries.find(|summary| number(summary, "least_sections") >= 3.0).expect("each has had its turn");
    for field in ["acquire_p50_ms", "acquire_p99_ms", "acquire_max_ms", "most_sections", "least_sections"] {
        assert!(number(&summary, field) > 0.0, "{field} in {summary}");
    }
    assert_eq!((number(&summary, "overlaps"), number(&summary, "workers")), (0.0, 4.0));
    assert!(number(&summary, "split_rounds_per_section") < 1.0, "{summary}");
    let commands = number(&summary, "commands_per_section");
    assert!((2.0..=20.0).contains(&commands), "a quorum of nodes is asked for each section: {summary}");
    // No hand-over is faster than a round trip of 4 ms. The proxies measure their own delay at the
    // start, up to 0.4 ms, and subtract it. During the benchmark, this delay may be smaller, so
    // allow 3.6 ms.
    assert!(number(&summary, "handover_p50_ms") >= 3.6 && number(&summary, "sections_per_second") < 180.0, "{summary}");
    assert!(number(&summary, "hold_p50_ms") >= 2.0, "{summary}");
}

#[test]
fn unfair_contention_has_no_overlaps_and_excludes_strict() {
    let summary = contention(1, &["--workers", "2", "--masters", "3", "--unfair"]);
    assert_eq!(number(&summary, "overlaps"), 0.0);
    assert_eq!(done(bare().args(["bench", "contention", "--unfair", "--strict"])).0, 64);
    assert_eq!(done(bare().args(["bench", "contention", "--latency", "1ms,2ms"])).0, 64);
}

#[tokio::test]
async fn uncontended_bench_on_given_nodes_uses_names_of_its_own() {
    let servers = crate::common::servers(3).await;
    let said = |arguments: &[&str]| done(super::over(&servers).arg("bench").args(arguments));
    let (code, out, err) = said(&["uncontended", "--pairs", "5", "--json"]);
    let found: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{code}: {out}{err}"));
    for phase in ["again", "fresh"] {
        let phase = &found["phases"][phase];
        assert!(number(phase, "acquire_p50_ms") > 0.0 && number(phase, "release_p99_ms") > 0.0, "{found}");
        assert_eq!(number(phase, "pairs"), 5.0, "{found}");
    }
    let keys: Vec<_> = servers.iter().map(|server| server.command(&["KEYS", "*"])).collect();
    let locks: Vec<_> = keys.iter().flat_map(|keys| keys.split(' ')).filter(|key| key.contains('{')).collect();
    // Each of the six names is on a quorum, which is two nodes.
    assert!(locks.iter().all(|key| key.contains("{quorumlock-bench/")) && locks.len() >= 12, "{keys:?}");
    let (code, out, err) = said(&["uncontended", "--pairs", "5"]);
    assert!(code == 0 && out.contains("acquire p50") && out.lines().count() == 3, "{out}{err}");
}

#[test]
fn throughput_is_told_for_each_number_of_tasks() {
    let found = bench(&["throughput", "--tasks", "1,8", "--seconds", "1", "--masters", "3"]);
    let crowds = found["crowds"].as_array().unwrap();
    assert_eq!(crowds.iter().map(|crowd| number(crowd, "tasks")).collect::<Vec<_>>(), [1.0, 8.0], "{found}");
    for crowd in crowds {
        assert!(number(crowd, "pairs_per_second") > 0.0 && number(crowd, "client_cpu_us") > 0.0, "{found}");
    }
    assert_eq!(done(bare().args(["bench", "throughput", "--tasks", "0"])).0, 64);
}

#[test]
fn distance_bench_relates_latency_to_the_quorum_round_trip() {
    let found = bench(&["distance", "--masters", "3", "--latency", "2ms,300ms,60ms", "--pairs", "4"]);
    let mut trips: Vec<_> = found["round_trips_ms"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    trips.sort_by(f64::total_cmp);
    assert!(trips.iter().zip([1.0, 55.0, 295.0]).all(|(trip, least)| *trip >= least), "{found}");
    assert_eq!(number(&found, "quorum_round_trip_ms"), trips[1], "the second of three: {found}");
    assert!(number(&found, "acquire_p50_ms") >= 59.0 && number(&found, "acquire_p50_to_round_trip") > 0.0, "{found}");
    assert_eq!(done(bare().args(["bench", "distance", "--masters", "3", "--latency", "1ms,2ms"])).0, 64);
}

#[tokio::test]
async fn a_command_can_be_run_without_waiting_in_line() {
    let servers = crate::common::servers(3).await;
    let run = ["run", "job", "--unfair", "--timeout", "1h", "--", "echo", "inside"];
    let (code, out, err) = done(super::over(&servers).args(run));
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
    for (node, (least, most)) in nodes.split(',').zip([(0, 10), (19, 60), (79, 160)]) {
        assert!(round_trip(node) >= Duration::from_millis(least), "{node}");
        until("no more than the distance is waited", || round_trip(node) < Duration::from_millis(most));
    }
    std::fs::write(folder.path().join("go"), "").unwrap();
    assert_eq!(sandbox.done().0, 0);
    until("nobody answers any more", || TcpStream::connect(nodes[8..].split(',').next().unwrap()).is_err());
}
