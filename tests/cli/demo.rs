//! `quorumlock demo`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::{Background, bare, done, over, until};
use crate::common::servers;

fn number(summary: &Value, field: &str) -> u64 {
    summary[field].as_u64().unwrap_or_else(|| panic!("{field} in {summary}"))
}

#[test]
fn demo_on_its_own_servers_kills_one_without_overlaps() {
    // The demo is long: in the last quarter of its time, it restarts the node, and a stall must not
    // skip this quarter.
    let (code, out, err) = done(bare().args(["demo", "--json", "--seconds", "24", "--workers", "4"]));
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(out.lines().count(), 1, "standard output holds one object and nothing else");
    let summary: Value = serde_json::from_str(&out).unwrap();
    assert!(number(&summary, "sections") > 0);
    for field in ["overlaps", "rejected_tokens", "lost_updates"] {
        assert_eq!(number(&summary, field), 0, "{field}");
    }
    assert_eq!((number(&summary, "nodes_killed"), number(&summary, "nodes_restarted")), (1, 1));
    assert!(summary["lost"].is_u64());
    let granted = number(&summary["nodes"][0], "granted");
    assert!(number(&summary, "handed_over") > 0 && granted < number(&summary, "sections"), "{summary}");
    let percentile = |field: &str| summary[field].as_f64().unwrap();
    assert!(percentile("acquire_p50_ms") > 0.0 && percentile("acquire_p99_ms") >= percentile("acquire_p50_ms"));
    assert!(number(&summary, "acquire_samples") >= number(&summary, "sections"));
    assert!(number(&summary["nodes"][1], "no_vote") > 0, "the node that was killed had no vote: {summary}");
}

#[tokio::test]
async fn nodes_that_are_not_its_own_are_not_killed() {
    let mut servers = servers(3).await;
    let (code, out, err) = done(over(&servers).args(["demo", "--seconds", "2", "--json", "--processes", "3"]));
    assert_eq!(code, 0, "{out}{err}");
    assert!(err.contains("so it kills none"), "{err}");
    let summary: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((number(&summary, "nodes_killed"), number(&summary, "processes")), (0, 3));
    assert!(servers.iter_mut().all(|server| server.command(&["PING"]) == "PONG"));
}

/// Keys that are deleted by hand are point 2 of "What is not promised". This test shows that the
/// demo can find overlaps: a demo that always reports 0 would fail here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_forget_make_overlaps_and_the_demo_fails() {
    let servers = servers(3).await;
    let over_now = &AtomicBool::new(false);
    // Use a process for each worker: within one process, workers wait for each other even if nodes
    // forget.
    let demo = |seconds: u32| {
        done(over(&servers).args(["demo", "--seconds", &seconds.to_string(), "--processes", "8", "--json"]))
    };
    let (code, out, err) = std::thread::scope(|scope| {
        for server in &servers {
            let forgets = ["DEL", "quorumlock:{quorumlock-demo}"];
            scope.spawn(move || server.repeat(&forgets, over_now, Duration::from_secs(3_600)));
        }
        // Overlaps happen by chance: several per second on an idle machine, and fewer on a busy
        // machine. So try longer and longer runs.
        let longer = [1, 2, 4, 8].into_iter().chain([16; 16]);
        // Run the demos in a thread of their own: if a demo fails, this thread must end the other
        // threads.
        let demos = scope.spawn(|| longer.map(demo).find(|(code, ..)| *code != 0).expect("a demo that fails"));
        let ended = demos.join();
        over_now.store(true, Ordering::Relaxed);
        ended.unwrap()
    });
    let summary: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {err}"));
    assert!(number(&summary, "overlaps") > 0, "{summary}");
    assert_eq!(code, 1);
}

#[test]
fn ctrl_c_ends_it_and_its_workers() {
    let mut demo = Background::start(bare().args(["demo", "--seconds", "600"]));
    let parent = demo.child().id().to_string();
    until("its workers run", || workers_of(&parent).len() == 2);
    let workers = workers_of(&parent);
    demo.send(Signal::INT);
    assert_eq!(demo.done().0, 130);
    until("its workers are gone", || !workers.iter().any(|pid| super::runs(pid)));
}

#[test]
fn killing_it_ends_its_workers() {
    let mut demo = Background::start(bare().args(["demo", "--seconds", "600"]));
    let parent = demo.child().id().to_string();
    until("its workers run", || workers_of(&parent).len() == 2);
    let workers = workers_of(&parent);
    demo.send(Signal::KILL);
    until("its workers are gone", || !workers.iter().any(|pid| super::runs(pid)));
}

/// The worker processes of a demo.
pub(super) fn workers_of(parent: &str) -> Vec<String> {
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_worker = |pid: &String| {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let stat = read("stat");
        let child = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.split(' ').nth(1) == Some(parent));
        child && read("cmdline").contains("demo-worker")
    };
    pids.filter(is_worker).inspect(|pid| super::note(pid)).collect()
}
