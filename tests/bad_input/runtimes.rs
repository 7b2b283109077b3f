//! Calls without a Tokio runtime, and clients whose runtime ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Stdio;
use std::time::{Duration, Instant};

use futures::FutureExt;
use quorumlock::{Error, NodeState, Quorum, Released, Transport};
use tokio::runtime::{Builder, Runtime};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::common::beside::listens;
use crate::common::logs::Logs;
use crate::common::program::command;
use crate::common::server::Server;
use crate::common::{ConnectAll, PATIENCE, eventually, inspected, released, servers, unguarded};
use crate::{SECOND, builder};

#[test]
fn calls_without_a_tokio_runtime_return_a_config_error() {
    let said = |error: Error| {
        assert!(error.is_config() && error.to_string().contains("Tokio runtime"), "{error}");
    };
    said(builder(&["redis://127.0.0.1:1".to_owned()]).connect().now_or_never().unwrap().unwrap_err());
    said(builder(&["redis://127.0.0.1:1".to_owned()]).open().unwrap_err());
    said(Quorum::in_memory(3).unwrap_err());
    let runtime = Runtime::new().unwrap();
    let (quorum, guard) = runtime.block_on(async {
        let quorum = Quorum::in_memory(3).unwrap();
        let guard = quorum.lock("held").acquire(PATIENCE).await.unwrap();
        (quorum, guard)
    });
    said(quorum.lock("a").acquire(SECOND).now_or_never().unwrap().unwrap_err());
    said(quorum.lock("a").try_acquire().now_or_never().unwrap().unwrap_err());
    said(quorum.inspect("a").now_or_never().unwrap().unwrap_err());
    drop(guard);
    runtime.block_on(async { assert!(quorum.lock("held").acquire(PATIENCE).await.is_ok()) });
}

#[test]
fn a_guard_that_outlives_its_runtime_is_dropped_in_peace() {
    let runtime = Runtime::new().unwrap();
    let (quorum, guard) = runtime.block_on(async {
        let servers = servers(1).await;
        let quorum = unguarded(&servers).connect_all().await;
        let guard = quorum.lock("held").acquire(PATIENCE).await.unwrap();
        (quorum, guard)
    });
    drop(runtime);
    assert!(guard.token() > 0);
    drop(guard);
    drop(quorum);
}

/// A quorum with a guard and a session. Its runtime has ended.
fn orphaned(servers: &[Server]) -> (Quorum, quorumlock::LockGuard, quorumlock::Session) {
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let quorum = unguarded(servers).wait(PATIENCE).connect_all().await;
        let guard = quorum.lock("held").acquire(PATIENCE).await.unwrap();
        let session = quorum.session().grant(PATIENCE).await.unwrap();
        (quorum, guard, session)
    })
}

#[test]
fn a_quorum_whose_runtime_has_ended_says_so_at_once() {
    let runtime = Runtime::new().unwrap();
    let servers = runtime.block_on(servers(3));
    let (quorum, guard, session) = orphaned(&servers);
    let said = |error: Error| {
        assert!(error.is_config() && error.to_string().contains("a runtime that has ended"), "{error}");
    };
    let began = Instant::now();
    said(quorum.lock("a").try_acquire().now_or_never().unwrap().unwrap_err());
    runtime.block_on(async {
        said(quorum.lock("a").acquire(PATIENCE).await.unwrap_err());
        said(quorum.lock("a").acquire_default().await.unwrap_err());
        said(quorum.lock("a").try_acquire().await.unwrap_err());
        said(quorum.lock_all(["a", "b"]).run(PATIENCE, |_| async {}).await.unwrap_err());
        said(quorum.rw_lock("a").read(PATIENCE).await.unwrap_err());
        said(quorum.semaphore("a", 2).acquire(1, PATIENCE).await.unwrap_err());
        said(quorum.semaphore("a", 2).try_acquire(1).await.unwrap_err());
        said(quorum.election("a").campaign(PATIENCE).await.unwrap_err());
        said(quorum.election("a").observe().map(drop).unwrap_err());
        said(quorum.once("a", PATIENCE).claim().await.unwrap_err());
        said(quorum.session().grant(PATIENCE).await.unwrap_err());
        said(session.lock(["a"], PATIENCE).await.unwrap_err());
        said(session.try_lock(["a"]).await.unwrap_err());
        said(quorum.inspect("a").await.unwrap_err());
        said(quorum.revoke("a").await.unwrap_err());
        said(quorum.force_release("a").await.unwrap_err());
        said(quorum.ready(PATIENCE).await.unwrap_err());
        said(quorum.members().await.unwrap_err());
        said(quorum.held_names().next().await.map(drop).unwrap_err());
        said(guard.release().await.unwrap_err());
        quorum.shutdown(SECOND).await;
    });
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
}

#[test]
fn a_caller_that_waits_when_the_quorums_runtime_ends_is_told_so() {
    let (runtime, home) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let servers = runtime.block_on(servers(3));
    let other = runtime.block_on(unguarded(&servers).ttl(600 * SECOND).connect()).unwrap();
    let _held = runtime.block_on(other.lock("it").acquire(PATIENCE)).unwrap();
    let quorum = home.block_on(unguarded(&servers).connect()).unwrap();
    let waits = runtime.spawn(async move { quorum.lock("it").acquire(10 * PATIENCE).await.unwrap_err() });
    let waiting = async || {
        let seen = inspected(&other, "it").await;
        seen.nodes.iter().all(|(_, said)| said.as_ref().is_ok_and(|said| said.waiting > 0))
    };
    runtime.block_on(eventually("it waits", waiting));
    drop(home);
    let error = runtime.block_on(async { tokio::time::timeout(PATIENCE, waits).await }).expect("at once").unwrap();
    assert!(error.is_config() && error.to_string().contains("a runtime that has ended"), "{error}");
}

/// The names of the variables that tell a child its nodes, its transport and its kind of runtime.
const TOLD: [&str; 3] = ["RUNTIMES_NODES", "RUNTIMES_TRANSPORT", "RUNTIMES_THREADS"];

/// Acts as a program with `#[tokio::main]`, whose `main` returns with guards in scope.
#[test]
#[ignore = "run by the tests below, in a process of its own"]
fn main_returns() {
    let [nodes, transport, threads] = TOLD.map(|name| std::env::var(name).unwrap());
    let mut builder = if threads == "one" { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    let runtime = builder.enable_all().build().unwrap();
    let logs = Logs::capture();
    runtime.block_on(main_on(&nodes, &transport)).unwrap();
    drop(runtime);
    eprint!("{}", logs.text());
    std::process::exit(0);
}

/// The `main` of this program: it returns with two guards in scope.
async fn main_on(nodes: &str, transport: &str) -> quorumlock::Result<()> {
    let builder = Quorum::builder().nodes(nodes.split(',')).transport(transport.parse().unwrap());
    let quorum = builder.connect_timeout(PATIENCE).max_ttl(Duration::ZERO).ttl(600 * SECOND).connect().await?;
    let also = quorum.lock("also").acquire(PATIENCE).await?;
    let guard = quorum.lock("it").acquire(PATIENCE).await?;
    also.ensure(SECOND).and(guard.ensure(SECOND))
}

/// A log that panics when a line is written to it.
struct Panics;

impl Subscriber for Panics {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().ends_with("protocol::release")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        panic!("the log is full");
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn main_returns_and_its_log_panics() {
    let [nodes, transport, _] = TOLD.map(|name| std::env::var(name).unwrap());
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let _log = listens(Panics);
    runtime.block_on(main_on(&nodes, &transport)).unwrap();
    let _ = catch_unwind(AssertUnwindSafe(|| drop(runtime)));
    std::process::exit(0);
}

#[test]
fn a_log_that_panics_as_main_returns_aborts_nothing() {
    let runtime = Runtime::new().unwrap();
    let servers = runtime.block_on(servers(3));
    let told = child_of("main_returns_and_its_log_panics", &servers, Transport::Fred, "one");
    assert!(told.contains("the log is full"), "{told}");
}

/// Runs `main_returns` in a process of its own, and returns what the process logs.
fn main_of(servers: &[Server], transport: Transport, threads: &str) -> String {
    child_of("main_returns", servers, transport, threads)
}

/// Runs a test in a process of its own, which must succeed. Returns what the process writes.
fn child_of(test: &str, servers: &[Server], transport: Transport, threads: &str) -> String {
    let nodes: Vec<_> = servers.iter().map(Server::url).collect();
    let mut child = command(std::env::current_exe().unwrap());
    child.args(["--exact", &format!("runtimes::{test}"), "--ignored", "--nocapture", "--test-threads=1"]);
    child.envs(TOLD.into_iter().zip([&*nodes.join(","), transport.name(), threads]));
    let output = child.stdin(Stdio::null()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    told
}

#[test]
fn guard_dropped_at_the_end_of_main_is_released_or_warned_of() {
    let runtime = Runtime::new().unwrap();
    let servers = runtime.block_on(servers(3));
    let other = runtime.block_on(unguarded(&servers).connect()).unwrap();
    for threads in ["one", "many"] {
        main_of(&servers, Transport::RedisRs, threads);
        let next = runtime.block_on(other.lock("it").acquire(PATIENCE));
        assert_eq!(runtime.block_on(released(next.unwrap().release())), Released::Released, "{threads}");
    }
    // fred writes to connections in a task of its own. This task does not run any more.
    let told = main_of(&servers, Transport::Fred, "one");
    let warned = told.lines().any(|line| line.starts_with("WARN") && line.contains("not confirmed before"));
    assert!(warned && told.contains("name="), "{told}");
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn main_returns_since_it_timed_out() {
    let [nodes, transport, _] = TOLD.map(|name| std::env::var(name).unwrap());
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let logs = Logs::capture();
    let error = runtime.block_on(async {
        let builder = Quorum::builder().nodes(nodes.split(',')).transport(transport.parse().unwrap());
        let quorum = builder.connect_timeout(PATIENCE).max_ttl(Duration::ZERO).connect().await?;
        quorum.lock("it").acquire(5 * SECOND).await.map(drop)
    });
    assert!(error.unwrap_err().is_timeout());
    drop(runtime);
    eprint!("{}", logs.text());
    std::process::exit(0);
}

#[test]
fn a_claim_that_timed_out_as_main_returns_is_not_warned_of() {
    let runtime = Runtime::new().unwrap();
    let servers = runtime.block_on(servers(3));
    let other = runtime.block_on(unguarded(&servers).ttl(600 * SECOND).connect()).unwrap();
    let _held = runtime.block_on(other.lock("it").acquire(PATIENCE)).unwrap();
    let told = child_of("main_returns_since_it_timed_out", &servers, Transport::Fred, "one");
    assert!(!told.contains("not confirmed"), "{told}");
}

/// Acquires five locks, and a session with five more. Drops the guards and the session last, like a
/// `main` that returns.
async fn holds_many(servers: &[Server], names: &[String]) {
    let builder = unguarded(servers).transport(Transport::RedisRs).ttl(600 * SECOND);
    let quorum = builder.wait(PATIENCE).connect().await.unwrap();
    // Wait for all votes: a node that does not vote yet gets no lock before the first renewal.
    eventually("all nodes vote", async || quorum.nodes().iter().all(|node| node.state == NodeState::Up)).await;
    let session = quorum.session().grant(PATIENCE).await.unwrap();
    let mut guards = Vec::new();
    for number in 0..5 {
        guards.push(quorum.lock(format!("lock-{number}")).acquire(PATIENCE).await.unwrap());
        session.lock([format!("session-{number}")], PATIENCE).await.unwrap();
    }
    // A quorum of grants is enough for a guard. On a busy machine, the last node may get its claim
    // later.
    let held = async || servers.iter().all(|server| names.iter().all(|name| server.holder(name).is_some()));
    eventually("all is held on each node", held).await;
}

#[test]
fn many_guards_dropped_as_main_returns_are_all_released() {
    let runtime = Runtime::new().unwrap();
    let servers = runtime.block_on(servers(3));
    let names: Vec<_> = (0..5).flat_map(|number| [format!("lock-{number}"), format!("session-{number}")]).collect();
    for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        builder.enable_all().build().unwrap().block_on(holds_many(&servers, &names));
        let free = async || servers.iter().all(|server| names.iter().all(|name| server.holder(name).is_none()));
        runtime.block_on(eventually("nothing is held", free));
    }
}
