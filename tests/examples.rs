//! The examples do what they promise, over real servers, and over nodes in memory if the
//! environment names no servers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

mod common;
/// This example consists of tests, which run here.
#[path = "../examples/testing_your_code.rs"]
#[allow(dead_code, reason = "its main is the example's")]
mod testing_your_code;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};

use common::postgres::Postgres;
use common::program::command;
use common::server::Server;
use common::{ConnectAll, PATIENCE, answered, eventually, released, servers, unguarded};
use rustix::process::{Pid, Signal, kill_process};

/// The program of an example. `cargo test` builds all examples, but `cargo test --test examples`
/// does not. So this function checks that the program is not older than the example's source.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().unwrap().parent().unwrap().join("examples").join(name);
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples").join(name).with_extension("rs");
    let changed = |path: PathBuf| path.metadata().and_then(|file| file.modified());
    let built = changed(program.clone()).is_ok_and(|built| built >= changed(source).unwrap());
    assert!(built, "first: cargo build --locked --all-features --examples");
    program
}

/// A running example, which ends with its handle.
struct Example {
    process: Child,
    lines: Receiver<String>,
}

impl Example {
    /// Starts an example over `servers`, or over nodes in memory if there are none. Switches off
    /// the quarantine, in which new servers would be.
    fn start(name: &str, arguments: &[&str], servers: &[Server]) -> Self {
        Self::within(&[], name, arguments, servers)
    }

    /// As `start`, with more environment variables.
    fn within(environment: &[(&str, &str)], name: &str, arguments: &[&str], servers: &[Server]) -> Self {
        let mut command = command(program(name));
        for (variable, _) in std::env::vars().filter(|(variable, _)| variable.starts_with("QUORUMLOCK_")) {
            command.env_remove(variable);
        }
        if !servers.is_empty() {
            let nodes: Vec<_> = servers.iter().map(Server::url).collect();
            command.env("QUORUMLOCK_NODES", nodes.join(",")).env("QUORUMLOCK_MAX_TTL", "0");
            // `acquire_default` waits this long, since the machine may stall.
            command.env("QUORUMLOCK_TIMEOUT", "50s");
        }
        command.envs(environment.iter().copied());
        let mut process = command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = lines(process.stdout.take().unwrap());
        Self { process, lines }
    }

    /// Waits for the example's next line.
    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("it says one line more")
    }

    /// Waits for a line that has `text` in it.
    fn says(&self, text: &str) -> String {
        loop {
            let line = self.line();
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Sends a signal, waits for the example's end, and returns the rest of its output.
    fn ended_by(self, signal: Signal) -> String {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
        self.done()
    }

    /// Waits for the example's end, and returns the rest of its output.
    fn done(mut self) -> String {
        let mut rest = String::new();
        while let Some(line) = self.next() {
            rest += &(line + "\n");
        }
        let status = self.process.wait().unwrap();
        assert!(status.success(), "{status}: {rest}");
        rest
    }

    /// The next line; `None` once the example has closed its output.
    fn next(&self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(error) => {
                assert!(error.to_string().contains("closed"), "it does not end");
                None
            }
        }
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The lines of an output as they come. The channel closes at the end of the output.
fn lines(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    receiver
}

/// Sends one request. Returns the status and the text of the response.
fn post(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "POST {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), text.to_owned())
}

/// Sends requests until one is answered with this status, and with a text that begins with `text`.
/// If the machine stalls, no quorum may answer the service in time, or a release may come late.
async fn is_answered(address: &str, path: &str, status: u16, text: &str) {
    eventually(text, async || {
        let (told, said) = post(address, path);
        assert!([status, 409, 503].contains(&told), "{told}: {said}");
        told == status && said.starts_with(text)
    })
    .await;
}

#[tokio::test]
async fn the_cron_job_is_done_by_the_first_of_two_hosts() {
    let servers = servers(3).await;
    let first = Example::start("cron_once_a_period", &[], &servers).done();
    let path = first.trim().strip_prefix("wrote ").expect("it wrote the report");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "42 orders\n");
    std::fs::remove_file(path).unwrap();
    let second = Example::start("cron_once_a_period", &[], &servers).done();
    assert_eq!(second, "another host has written the report in this period\n");
}

#[test]
fn the_cron_job_is_done_without_servers() {
    let said = Example::start("cron_once_a_period", &[], &[]).done();
    let path = said.trim().strip_prefix("wrote ").expect("it wrote the report");
    std::fs::remove_file(path).unwrap();
}

#[tokio::test]
async fn the_next_worker_leads_when_the_leader_resigns() {
    let servers = servers(3).await;
    let first = Example::start("leader_worker", &["one:1"], &servers);
    first.says("one:1 leads with token");
    let second = Example::start("leader_worker", &["two:2"], &servers);
    second.says("the leader is at one:1");
    assert!(first.ended_by(Signal::INT).contains("one:1 has resigned"));
    second.says("two:2 leads with token");
    assert!(second.ended_by(Signal::TERM).contains("two:2 has resigned"));
}

#[test]
fn a_worker_leads_without_servers() {
    let worker = Example::start("leader_worker", &[], &[]);
    worker.says("leads with token");
    assert!(worker.ended_by(Signal::INT).contains("has resigned"));
}

#[tokio::test]
async fn a_leader_whose_lock_was_revoked_stops_and_campaigns_again() {
    let servers = servers(3).await;
    let worker = Example::start("leader_worker", &["one:1"], &servers);
    let token = worker.says("leads with token");
    let quorum = unguarded(&servers).connect_all().await;
    answered(|| quorum.revoke("scheduler")).await;
    assert_ne!(worker.says("leads with token"), token);
    worker.ended_by(Signal::INT);
}

#[tokio::test]
async fn a_request_is_refused_while_another_ships_the_order() {
    let servers = servers(3).await;
    let service = Example::start("web_service", &["127.0.0.1:0"], &servers);
    let address = service.line().strip_prefix("listening on http://").unwrap().to_owned();
    let quorum = unguarded(&servers).connect_all().await;
    let other = quorum.lock("orders/42").acquire(PATIENCE).await.unwrap();
    is_answered(&address, "/orders/42/ship", 409, "another request is shipping it\n").await;
    is_answered(&address, "/orders/43/ship", 200, "shipped, with token ").await;
    released(other.release()).await;
    is_answered(&address, "/orders/42/ship", 200, "shipped, with token ").await;
    assert_eq!(post(&address, "/").0, 404);
    service.ended_by(Signal::INT);
}

#[tokio::test]
async fn a_request_is_told_to_come_later_when_no_quorum_is_left() {
    let mut servers = servers(3).await;
    let service = Example::start("web_service", &["127.0.0.1:0"], &servers);
    let address = service.line().strip_prefix("listening on http://").unwrap().to_owned();
    servers.iter_mut().take(2).for_each(Server::kill);
    assert_eq!(post(&address, "/orders/42/ship"), (503, "try again later\n".to_owned()));
    service.ended_by(Signal::INT);
}

#[test]
fn a_request_is_answered_without_servers() {
    let service = Example::start("web_service", &["127.0.0.1:0"], &[]);
    let address = service.line().strip_prefix("listening on http://").unwrap().to_owned();
    assert_eq!(post(&address, "/orders/42/ship").0, 200);
    service.ended_by(Signal::INT);
}

#[tokio::test]
async fn the_storage_refuses_the_late_write() {
    let servers = servers(3).await;
    for servers in [&servers[..], &[]] {
        let said = Example::start("fenced_storage", &[], servers).done();
        assert!(said.contains("the late write was refused: token "), "{said}");
        assert!(said.ends_with("the order is shipped\n"), "{said}");
    }
}

#[tokio::test]
async fn paused_holder_does_not_commit_and_its_token_is_refused() {
    let (servers, postgres) = (servers(3).await, Postgres::shared().await);
    for servers in [&servers[..], &[]] {
        let url = postgres.url("postgres");
        let said = Example::within(&[("DATABASE_URL", &url)], "sqlx_fencing", &[], servers).done();
        assert!(said.starts_with("not committed: "), "{said}");
        assert!(said.contains("\nrefused: nothing was written: the fencing token "), "{said}");
        assert!(said.ends_with("\nthe order is shipped\n"), "{said}");
    }
}

#[tokio::test]
async fn spans_of_an_acquisition_are_exported_below_the_work_span() {
    let servers = servers(3).await;
    for servers in [&servers[..], &[]] {
        let said = Example::start("opentelemetry", &[], servers).done();
        let spans = exported(&said);
        let ship = &spans["ship"];
        for (name, within) in [("acquire", "ship"), ("round", "acquire"), ("release", "ship")] {
            assert_eq!(spans[name].parent, spans[within].id, "{name}: {said}");
            assert_eq!(spans[name].trace, ship.trace, "{name}: {said}");
        }
        let token = said.lines().find_map(|line| line.strip_prefix("shipped, with token ")).unwrap();
        assert!(spans["acquire"].text.contains(token) && spans["release"].text.contains(token), "{said}");
    }
}

#[tokio::test]
async fn worker_ships_the_order_that_the_handler_has_locked() {
    let servers = servers(3).await;
    for servers in [&servers[..], &[]] {
        let said = Example::start("handler_and_worker", &[], servers).done();
        let lines: Vec<_> = said.lines().collect();
        assert!(lines.len() == 3 && lines[0].contains("202") && lines[1].contains("409"), "{said}");
        let tokens = lines[2].strip_prefix("worker: orders/42 is shipped, with token ").expect("it is shipped");
        let (now, before) = tokens.split_once(", above ").unwrap();
        assert!(now.parse::<u64>().unwrap() > before.parse().unwrap(), "{said}");
    }
}

/// A span that the exporter printed.
struct Span {
    trace: String,
    id: String,
    parent: String,
    text: String,
}

/// The last span of each name.
fn exported(said: &str) -> HashMap<String, Span> {
    said.split("\nSpan #").skip(1).map(span).collect()
}

fn span(text: &str) -> (String, Span) {
    let field = |name: &str| {
        let value = text.lines().rev().find_map(|line| line.trim().strip_prefix(name)?.trim().strip_prefix(':'));
        value.unwrap_or_default().trim().to_owned()
    };
    let (trace, id, parent) = (field("TraceId"), field("SpanId"), field("ParentSpanId"));
    (field("Name"), Span { trace, id, parent, text: text.to_owned() })
}

#[tokio::test]
async fn code_that_was_tested_in_memory_runs_over_servers() {
    let servers = servers(3).await;
    for servers in [&servers[..], &[]] {
        assert_eq!(Example::start("testing_your_code", &[], servers).done(), "order 42 was shipped: Here\n");
    }
}

#[tokio::test]
async fn three_threads_take_the_lock_with_rising_tokens() {
    let servers = servers(3).await;
    for servers in [&servers[..], &[]] {
        let said = Example::start("blocking", &[], servers).done();
        let tokens = said.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
        let tokens: Vec<_> = tokens.collect();
        assert!(tokens.len() == 3 && tokens.is_sorted_by(|a, b| a < b), "{said}");
    }
}
