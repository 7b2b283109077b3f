//! `quorumlock bench`, and the distances of `quorumlock sandbox --latency`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{bare, done, until};

/// Runs a benchmark of so many seconds and returns its object.
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
fn it_tells_how_the_lock_passes_from_one_to_the_next() {
    let options = ["--workers", "4", "--processes", "2", "--masters", "3", "--hold", "2ms", "--latency", "4ms"];
    // On a busy machine a second may be too short for each worker to have its turn.
    let mut summaries = [1, 2, 4, 8, 16].into_iter().map(|seconds| contention(seconds, &options));
    let summary = summaries.find(|summary| number(summary, "least_sections") > 0.0).expect("each has had its turn");
    for field in ["acquire_p50_ms", "acquire_p99_ms", "acquire_max_ms", "most_sections", "least_sections"] {
        assert!(number(&summary, field) > 0.0, "{field} in {summary}");
    }
    assert_eq!((number(&summary, "overlaps"), number(&summary, "workers")), (0.0, 4.0));
    assert!(number(&summary, "split_rounds_per_section") < 1.0, "{summary}");
    let commands = number(&summary, "commands_per_section");
    assert!((2.0..=20.0).contains(&commands), "a quorum of nodes is asked for each section: {summary}");
    // No handover is faster than a message can go there and back. By how much the proxies are late, up to
    // 0.4 ms, is measured when they start and taken off: they may be less late afterwards.
    assert!(number(&summary, "handover_p50_ms") >= 3.6 && number(&summary, "sections_per_second") < 180.0, "{summary}");
    assert!(number(&summary, "hold_p50_ms") >= 2.0, "{summary}");
}

#[test]
fn barging_asks_more_often_and_no_more_than_one_of_both_can_be_had() {
    let summary = contention(1, &["--workers", "2", "--masters", "3", "--unfair"]);
    assert_eq!(number(&summary, "overlaps"), 0.0);
    assert_eq!(done(bare().args(["bench", "contention", "--unfair", "--strict"])).0, 64);
    assert_eq!(done(bare().args(["bench", "contention", "--latency", "1ms,2ms"])).0, 64);
}

/// What `bench cost` says of one phase.
fn phase<'a>(costs: &'a Value, name: &str) -> &'a Value {
    &costs["phases"][name]
}

/// What each pair needed: what a client asks every few seconds is a small part for one pair.
fn for_each_pair(commands: &Value) -> Value {
    let counts = commands.as_object().unwrap().iter();
    let rounded = counts.map(|(command, count)| (command.clone(), count.as_f64().unwrap().round()));
    rounded.filter(|(_, count)| *count > 0.0).map(|(command, count)| (command, json!(count))).collect()
}

#[test]
fn costs_count_each_command_that_each_node_carried_out_for_a_pair_and_no_other() {
    let costs = bench(&["cost", "--pairs", "60", "--tasks", "4", "--rounds", "3", "--masters", "3"]);
    for name in ["plain", "plain_crowd"] {
        let nodes = phase(&costs, name)["by_node"].as_array().unwrap();
        assert_eq!(nodes.len(), 3, "{costs}");
        for node in nodes {
            // An acquisition is a SET; a release is a script, which compares and deletes.
            let expected = json!({ "set": 1.0, "evalsha": 1.0, "get": 1.0, "del": 1.0 });
            assert_eq!(for_each_pair(&node["by_command"]), expected, "{name}: {node}");
        }
    }
    for name in ["alone", "fresh", "crowd", "plain", "plain_crowd"] {
        let spent = phase(&costs, name);
        assert!(number(spent, "pairs") >= 60.0 && number(spent, "pairs_per_second") > 0.0, "{name}: {spent}");
        assert!(number(spent, "node_cpu_us") > 0.0 && number(spent, "client_cpu_us") > 0.0, "{name}: {spent}");
    }
    for name in ["alone", "fresh", "crowd"] {
        let spent = phase(&costs, name);
        assert!(number(spent, "node_cpu_to_plain") > 0.0 && number(spent, "client_cpu_to_plain") > 0.0, "{spent}");
        assert_eq!(spent["node_cpu_to_plain_by_round"].as_array().unwrap().len(), 3, "{spent}");
    }
}

#[test]
fn a_lone_pair_costs_a_node_at_most_twelve_commands() {
    // One node: where there are more, a late one may get a release and the next claim in one call.
    let costs = bench(&["cost", "--pairs", "60", "--tasks", "4", "--rounds", "2", "--masters", "1"]);
    for name in ["alone", "fresh"] {
        // What is written by time, as the record is, adds less than one to a pair: it falls out.
        let commands = phase(&costs, name)["by_node"][0]["by_command"].as_object().unwrap().values();
        let each: f64 = commands.map(|count| count.as_f64().unwrap().floor()).sum();
        assert!((4.0..=12.0).contains(&each), "{name}: {costs}");
    }
    let crowd = number(phase(&costs, "crowd"), "commands");
    assert!(crowd >= 2.0 && crowd <= number(phase(&costs, "alone"), "commands"), "calls are shared: {costs}");
}

#[test]
fn the_keys_that_names_leave_behind_are_counted() {
    let kept = bench(&["keys", "--rate", "300", "--minutes", "0.02", "--masters", "3"]);
    let [names, keys] = ["names", "keys_highest"].map(|field| number(&kept, field));
    assert!((1.0..=360.0).contains(&names), "no more than asked for: {kept}");
    assert!((names..=4.0 * names).contains(&keys) && number(&kept, "keys") <= keys, "fences outlast locks: {kept}");
    // So few names take less than the buffers of connections, which come and go.
    let [memory, highest] = ["used_memory", "used_memory_highest"].map(|field| number(&kept, field));
    assert!(0.0 < memory && memory <= highest, "{kept}");
    assert!(number(&kept, "client_memory") > 0.0 && kept["keys_growth"].is_null(), "too short to say: {kept}");
    let arguments = ["bench", "keys", "--rate", "50", "--minutes", "0.01", "--masters", "1", "--ttl", "1s"];
    let (code, out, _) = done(bare().args(arguments));
    assert!(code == 0 && out.lines().count() == 5 && out.contains("too short to say whether it grows"), "{out}");
    assert_eq!(done(bare().args(["bench", "keys", "--minutes", "0"])).0, 64);
}

#[tokio::test]
async fn the_users_own_nodes_are_measured_by_names_that_nobody_else_has() {
    let servers = crate::common::servers(3).await;
    let said = |arguments: &[&str]| done(super::over(&servers).arg("bench").args(arguments));
    let (code, out, err) = said(&["uncontended", "--pairs", "5", "--json"]);
    let found: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{code}: {out}{err}"));
    for phase in ["again", "fresh"] {
        let phase = phase_of(&found, phase);
        assert!(number(phase, "acquire_p50_ms") > 0.0 && number(phase, "release_p99_ms") > 0.0, "{found}");
        assert_eq!((number(phase, "pairs"), number(phase, "failed")), (5.0, 0.0), "{found}");
    }
    for server in &servers {
        let keys = server.command(&["KEYS", "*"]);
        let locks: Vec<_> = keys.split(' ').filter(|key| key.contains('{')).collect();
        assert!(locks.iter().all(|key| key.contains("{quorumlock-bench/")) && locks.len() >= 6, "{keys}");
    }
    let (code, out, err) = said(&["uncontended", "--pairs", "5"]);
    assert!(code == 0 && out.contains("acquire p50") && out.lines().count() == 3, "{out}{err}");
}

fn phase_of<'a>(found: &'a Value, name: &str) -> &'a Value {
    &found["phases"][name]
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
fn what_a_lock_takes_is_told_by_the_round_trip_that_decides() {
    let found = bench(&["distance", "--masters", "3", "--latency", "2ms,300ms,60ms", "--pairs", "4"]);
    let mut trips: Vec<_> = found["round_trips_ms"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    trips.sort_by(f64::total_cmp);
    assert!(trips.iter().zip([1.0, 55.0, 295.0]).all(|(trip, least)| *trip >= least), "{found}");
    assert_eq!(number(&found, "quorum_round_trip_ms"), trips[1], "the second of three: {found}");
    assert!(number(&found, "acquire_p50_ms") >= 59.0 && number(&found, "acquire_p50_to_round_trip") > 0.0, "{found}");
    assert_eq!(done(bare().args(["bench", "distance", "--masters", "3", "--latency", "1ms,2ms"])).0, 64);
}

#[test]
fn locks_are_still_acquired_while_nodes_fail_and_more_may_not() {
    let found = bench(&["faults", "--masters", "3", "--seconds", "1"]);
    let faults = found["faults"].as_array().unwrap();
    assert_eq!(faults.iter().map(|turn| turn["fault"].as_str().unwrap()).collect::<Vec<_>>(), ["stopped", "killed"]);
    for turn in faults {
        assert_eq!((number(turn, "failing"), number(turn, "failed")), (1.0, 0.0), "{found}");
        assert!(number(turn, "pairs") > 0.0 && number(turn, "acquire_p50_to_healthy") > 0.0, "{found}");
    }
    assert_eq!(done(bare().args(["bench", "faults", "--masters", "3", "--failing", "2"])).0, 64);
}

#[test]
fn leases_are_renewed_and_counted_and_none_is_lost() {
    let found = bench(&["leases", "--leases", "200", "--ttl", "6s", "--seconds", "4", "--masters", "3"]);
    assert_eq!((number(&found, "leases"), number(&found, "lost")), (200.0, 0.0), "{found}");
    assert!(number(&found, "renewals") >= 200.0, "each after two seconds: {found}");
    assert!(number(&found, "script_calls") > 0.0 && number(&found, "script_calls_to_full") > 0.0, "{found}");
    assert!(number(&found, "client_share") > 0.0 && number(&found, "renewals_peak_to_mean") >= 1.0, "{found}");
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
    for (node, (least, most)) in nodes.split(',').zip([(0, 10), (19, 60), (79, 160)]) {
        assert!(round_trip(node) >= Duration::from_millis(least), "{node}");
        until("no more than the distance is waited", || round_trip(node) < Duration::from_millis(most));
    }
    std::fs::write(folder.path().join("go"), "").unwrap();
    assert_eq!(sandbox.done().0, 0);
    until("nobody answers any more", || TcpStream::connect(nodes[8..].split(',').next().unwrap()).is_err());
}
