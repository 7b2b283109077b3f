//! `quorumlock watch`, in a terminal.

use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::screen::Screen;
use super::status::looked;
use super::{Background, EACH_NODE, comes_true, done, over, run, until};
use crate::common::server::Server;
use crate::common::servers;

fn watching(servers: &[Server], words: &[&str]) -> Command {
    let mut command = over(servers);
    command.arg("watch").args(words);
    command
}

/// A client that holds the name until the returned value is dropped or ended.
fn holder(servers: &[Server], name: &str, note: &str) -> Background {
    let folder = tempfile::tempdir().unwrap();
    let holder = Background::start(&mut run(
        servers,
        name,
        &["--timeout", "1h", "--describe", note],
        "echo > $0/in; exec sleep 1000",
        folder.path(),
    ));
    until("it is held", || folder.path().join("in").exists());
    holder
}

fn row(text: &str, server: &Server) -> String {
    let port = format!("127.0.0.1:{} ", server.port());
    text.lines().find(|line| line.starts_with(&port)).unwrap_or_default().trim_end().to_owned()
}

/// Whether the screen shows that a node is slow, or was slow. A slow node counts as slow only until
/// it is down.
fn was_slow(text: &str, server: &Server) -> bool {
    row(text, server).ends_with("slow") || text.contains(&format!("127.0.0.1:{} slow to answer", server.port()))
}

/// Whether the end of a hold is shown. If `watch` last looked long before the end, as on a busy
/// machine, it cannot tell whether the lock was released.
fn shows_release(text: &str) -> bool {
    text.contains("job released by") || text.contains("job no longer held by")
}

#[tokio::test]
async fn watch_shows_a_taken_lock_and_a_down_node_at_any_size() {
    let mut servers = servers(3).await;
    let mut screen = Screen::start(&watching(&servers, &["job", "--every", "200ms"]), 80, 24);
    screen.shows("job is free");
    screen.shows("3 of 3 nodes vote; a quorum is 2");
    let mut holder = holder(&servers, "job", "deploy #812");
    let pid = format!("/{}/", holder.child().id());
    screen.comes_to("the holder", |text| {
        text.lines().any(|line| line.starts_with("job is held by") && line.contains(&pid))
    });
    screen.shows("note \"deploy #812\", held for");
    let taken = |line: &str| line.contains(" ago ") && line.contains("job taken by");
    screen.comes_to("an event", |text| text.lines().any(taken));
    screen.comes_to("that its list is in force", |text| row(text, &servers[0]).contains("3 nodes"));
    servers[2].kill();
    screen.comes_to("that the node is down", |text| row(text, &servers[2]).ends_with("down"));
    screen.shows("2 of 3 nodes vote");
    screen.shows(&format!("127.0.0.1:{} down: ", servers[2].port()));
    screen.resize(40, 10);
    screen.comes_to("it on a small screen", |text| {
        let lines: Vec<_> = text.lines().collect();
        lines.len() == 10 && lines[9].starts_with("q quit") && text.contains("note \"deploy #812\"")
    });
    screen.resize(20, 4);
    screen.shows("too small: 36x8");
    screen.resize(100, 30);
    screen.comes_to("it on a larger screen", |text| text.lines().count() == 30 && text.contains("job is held by"));
    servers[2].restart().await;
    screen.comes_to("that the node is up again", |text| row(text, &servers[2]).ends_with("up"));
    holder.send(Signal::TERM);
    screen.shows("job is free");
    screen.comes_to("the end of the hold", shows_release);
    screen.types("q");
    assert_eq!(screen.ends(), 0);
}

#[tokio::test]
async fn lost_quorum_and_its_return_are_events() {
    let mut servers = servers(3).await;
    let mut screen = Screen::start(&watching(&servers, &["job", "--every", "200ms"]), 120, 30);
    screen.shows("3 of 3 nodes vote");
    servers[1..].iter_mut().for_each(Server::kill);
    screen.shows("1 of 3 nodes vote; a quorum is 2: no lock can be acquired");
    for server in &mut servers[1..] {
        server.restart().await;
    }
    let place = |text: &str, event| text.lines().position(|line| line.contains(" ago ") && line.contains(event));
    let returned = |text: &str| place(text, "a quorum of nodes votes again");
    screen.comes_to("that a quorum votes again", |text| returned(text).is_some());
    servers[1..].iter_mut().for_each(Server::kill);
    // The latest events come first.
    screen.comes_to("that no quorum votes", |text| {
        let lost = place(text, "no quorum of nodes votes: no lock can be acquired");
        lost.is_some_and(|lost| returned(text).is_some_and(|returned| lost < returned))
    });
    screen.types("q");
    assert_eq!(screen.ends(), 0);
}

#[tokio::test]
async fn a_node_that_hangs_is_shown_as_slow_and_holds_up_nothing() {
    let servers = servers(3).await;
    let mut screen = Screen::start(&watching(&servers, &["job", "--every", "200ms", "--node-timeout", "20s"]), 80, 24);
    screen.comes_to("that it is up", |text| row(text, &servers[0]).ends_with("up"));
    screen.shows("job is free");
    servers[0].stop();
    screen.comes_to("that it is slow", |text| was_slow(text, &servers[0]));
    let held = holder(&servers, "job", "meanwhile");
    // The node still hangs. `watch` may already show it as down, since the holder may have taken
    // long to start.
    screen.shows("note \"meanwhile\"");
    drop(held);
    servers[0].resume();
    screen.comes_to("that it answers", |text| row(text, &servers[0]).ends_with("up"));
    screen.types("q");
    assert_eq!(screen.ends(), 0);
}

#[tokio::test]
async fn names_are_shown_in_time_while_a_node_hangs() {
    let servers = servers(3).await;
    // A search that waited for the hanging node would take this long.
    let node_timeout = Duration::from_secs(60);
    let mut screen = Screen::start(&watching(&servers, &["--node-timeout", "60s"]), 80, 24);
    // A node that hangs before it is connected is shown as down, and never as slow.
    screen.comes_to("that it is up", |text| row(text, &servers[0]).ends_with("up"));
    screen.shows("0 names are held");
    servers[0].stop();
    screen.comes_to("that it is slow", |text| was_slow(text, &servers[0]));
    let _first = holder(&servers, "orders/1", "one");
    screen.shows("orders/1");
    let _second = holder(&servers, "orders/2", "two");
    let began = Instant::now();
    screen.shows("orders/2");
    assert!(began.elapsed() < node_timeout, "{:?}", began.elapsed());
    servers[0].resume();
    screen.types("q");
    assert_eq!(screen.ends(), 0);
}

/// The client is stopped, so that no client makes the record of the empty server for a while.
#[tokio::test]
async fn server_that_restarted_empty_is_not_said_to_have_forgotten() {
    let (mut servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let mut client = run(&servers, "job", &["--timeout", "1h"], "echo > $0/in; exec sleep 1000", folder.path());
    let mut client = Background::start(client.env("QUORUMLOCK_MAX_TTL", "1h"));
    until("it is held", || folder.path().join("in").exists());
    until("records were met", || servers[1].command(&["HLEN", "quorumlock:node:seen"]) == "3");
    let mut command = watching(&servers, &["job", "--every", "200ms"]);
    let mut screen = Screen::start(command.env("QUORUMLOCK_MAX_TTL", "1h"), 120, 24);
    screen.shows("job is held by");
    client.send(Signal::STOP);
    servers[0].restart().await;
    screen.shows("quarantined: no record: it has restarted, and no client has used it since");
    assert!(!screen.text().contains("it forgot"), "{}", screen.text());
    let (_, said, err) = looked(over(&servers).env("QUORUMLOCK_MAX_TTL", "1h").arg("status").args(EACH_NODE));
    assert!(said.contains("2 of 3 nodes vote") && !said.contains("forgot while it ran"), "{said}{err}");
    screen.types("q");
    assert_eq!(screen.ends(), 0);
}

/// Searches for names are 5 s apart, so the name may be free between two of them.
#[tokio::test]
async fn name_that_is_released_and_then_taken_is_not_handed_over() {
    let servers = servers(3).await;
    let mut first = holder(&servers, "job", "first");
    let mut screen = Screen::start(&watching(&servers, &[]), 200, 24);
    screen.shows("1 name is held");
    first.send(Signal::TERM);
    let _ = first.done();
    let _second = holder(&servers, "job", "second");
    // On a busy machine, `watch` may miss the change of holder. `watch` must not report a
    // hand-over.
    screen.comes_to("the second holder", |text| {
        text.lines().any(|line| line.starts_with("job ") && line.contains("second"))
    });
    assert!(!screen.text().contains("handed over"), "{}", screen.text());
    screen.types("q");
    assert_eq!(screen.ends(), 0);
}

#[tokio::test]
async fn the_queue_is_shown_and_events_are_selected_by_kind() {
    let servers = servers(3).await;
    let mut holder = holder(&servers, "job", "first");
    let mut screen = Screen::start(&watching(&servers, &["job", "--every", "200ms"]), 80, 24);
    screen.shows("job is held by");
    screen.shows("note \"first\"");
    let folder = tempfile::tempdir().unwrap();
    let options = ["--timeout", "1h", "--describe", "second"];
    let _waiter = Background::start(&mut run(&servers, "job", &options, "exec sleep 1000", folder.path()));
    screen.shows("queue 1");
    screen.shows("job 1 waits in the queue");
    screen.types("e");
    screen.comes_to("events of locks alone", |text| {
        text.contains("e events: lock") && !text.contains("waits in the queue")
    });
    screen.types("ee");
    screen.shows("job 1 waits in the queue");
    // Show only events of locks: events of nodes could push the events of locks off the screen.
    screen.types("ee");
    holder.send(Signal::TERM);
    screen.shows("note \"second\"");
    // If `watch` looks between the release and the next hold, it reports both, and no hand-over.
    screen.comes_to("that it passed on", |text| {
        text.contains("job handed over by") || (shows_release(text) && text.contains("job taken by"))
    });
    screen.types("\u{1b}");
    assert_eq!(screen.ends(), 0);
}

/// Without a push, `watch` asks the nodes only once a minute.
#[tokio::test]
async fn watch_shows_pushes_of_nodes_at_once() {
    let servers = servers(3).await;
    let mut screen = Screen::start(&watching(&servers, &["job", "--every", "60s"]), 80, 24);
    screen.shows("job is free");
    // After a push, a busy node may answer too late. In this case, only the next push helps.
    until("it is shown before that question", || {
        let mut holder = holder(&servers, "job", "pushed");
        let began = Instant::now();
        let is_shown = || screen.text().contains("note \"pushed\"");
        let shown = comes_true(|| is_shown() || began.elapsed() > Duration::from_secs(5)) && is_shown();
        holder.send(Signal::TERM);
        let _ = holder.done();
        shown
    });
    screen.types("q");
    assert_eq!(screen.ends(), 0);
}

#[tokio::test]
async fn a_holder_that_dies_is_not_said_to_have_released_the_lock() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let mut screen = Screen::start(&watching(&servers, &["job", "--every", "100ms"]), 80, 24);
    screen.shows("job is free");
    let options = ["--ttl", "10s", "--timeout", "1h"];
    let mut holder = Background::start(&mut run(&servers, "job", &options, "exec sleep 1000", folder.path()));
    screen.shows("job taken by");
    holder.send(Signal::KILL);
    // On a busy machine, `watch` may have looked too late to know that the lock was lost.
    screen.comes_to("its end", |text| text.contains("job lost by") || text.contains("job no longer held by"));
    screen.types("q");
    assert_eq!(screen.ends(), 0);
}

#[tokio::test]
async fn watch_without_a_name_shows_all_names_and_filters_them() {
    let servers = servers(3).await;
    let _holders = [holder(&servers, "orders/1", "one"), holder(&servers, "reports", "two")];
    let mut screen = Screen::start(&watching(&servers, &[]), 80, 24);
    screen.shows("2 names are held");
    screen.comes_to("both", |text| text.contains("orders/1") && text.contains("reports"));
    screen.types("/REP\r");
    screen.comes_to("one of them", |text| !text.contains("orders/1") && text.contains("reports"));
    screen.types("\u{3}");
    assert_eq!(screen.ends(), 0);
}

#[tokio::test]
async fn a_signal_gives_the_terminal_back() {
    let servers = servers(3).await;
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 0)] {
        let mut screen = Screen::start(&watching(&servers, &["job"]), 80, 24);
        screen.shows("job is free");
        assert!(screen.is_taken_over());
        screen.send(signal);
        assert_eq!(screen.ends(), code);
    }
}

/// `watch` puts no list in force, writes nothing under the name, and uses no token.
#[tokio::test]
async fn watch_only_reads() {
    let servers = servers(3).await;
    let mut screen = Screen::start(&watching(&servers, &["job", "--every", "100ms"]), 100, 24);
    screen.shows("job is free");
    let asked = || servers[0].command(&["INFO", "commandstats"]);
    let calls = |text: &str| text.split("cmdstat_evalsha:calls=").nth(1)?.split(',').next()?.parse::<u64>().ok();
    let before = calls(&asked()).unwrap_or(0);
    until("it has asked again and again", || calls(&asked()).unwrap_or(0) > before + 10);
    screen.comes_to("that no list is in force", |text| text.matches("no client").count() == 3);
    for server in &servers {
        assert_eq!(server.command(&["EXISTS", "quorumlock:{job}"]), "0");
        assert_eq!(server.fence("job"), 0);
    }
    screen.types("q");
    assert_eq!(screen.ends(), 0);
}

#[tokio::test]
async fn passwords_are_never_drawn() {
    let (mut servers, secret) = (Vec::new(), "hunter2-and-more");
    for _ in 0..3 {
        servers.push(Server::with(&["--requirepass", secret]).await);
    }
    let nodes: Vec<_> = servers.iter().map(|server| format!("redis://:{secret}@127.0.0.1:{}", server.port())).collect();
    let mut first = over(&servers);
    first.env("QUORUMLOCK_NODES", nodes.join(",")).args(["run", "job", "--timeout", "1h", "--", "true"]);
    assert_eq!(done(&mut first).0, 0);
    let mut command = watching(&servers, &["job"]);
    command.env("QUORUMLOCK_NODES", nodes.join(","));
    let mut screen = Screen::start(&command, 200, 50);
    screen.shows("job is free");
    servers[0].kill();
    screen.comes_to("an event", |text| row(text, &servers[0]).ends_with("down") && text.contains("down: "));
    assert!(!screen.written().contains(secret));
    screen.types("q");
    assert_eq!(screen.ends(), 0);
}

/// The users of all nodes may read locks. On two nodes, the user has no right to acquire a lock.
#[tokio::test]
async fn lack_and_return_of_a_quorums_rights_are_told() {
    let servers = servers(3).await;
    let user =
        |rights: &str| format!("ACL SETUSER locks on >pw ~quorumlock:* &quorumlock:* +@all -@dangerous +info{rights}");
    let give = |rights: [&str; 3]| {
        for (server, rights) in servers.iter().zip(rights) {
            let user = user(rights);
            assert_eq!(server.command(&user.split(' ').collect::<Vec<_>>()), "OK");
        }
    };
    give(["", " -pexpire", " -pexpire"]);
    let nodes: Vec<_> = servers.iter().map(|server| format!("redis://locks:pw@127.0.0.1:{}", server.port())).collect();
    let mut command = watching(&servers, &["job", "--every", "200ms"]);
    command.env("QUORUMLOCK_NODES", nodes.join(","));
    let mut screen = Screen::start(&command, 200, 30);
    screen.shows("no lock can be acquired");
    screen.comes_to("which right", |text| text.contains("+pexpire"));
    give([""; 3]);
    screen.comes_to("that the rights are there", |text| text.contains("3 of 3 nodes vote"));
    screen.types("q");
    assert_eq!(screen.ends(), 0);
}

#[test]
fn why_a_node_is_down_is_told_where_no_quorum_answers_at_all() {
    let nodes = "redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3";
    let mut screen = Screen::start(super::bare().args(["watch", "--nodes", nodes, "job"]), 120, 24);
    screen.comes_to("why", |text| text.matches("down: Connection refused").count() == 3);
    screen.types("q");
    assert_eq!(screen.ends(), 0);
}

#[test]
fn a_name_that_is_none_is_refused() {
    let long = "x".repeat(1_025);
    for name in ["", &long] {
        let screen = Screen::start(super::bare().args(["watch", "--nodes", "redis://127.0.0.1:1", name]), 80, 24);
        screen.comes_to("what is wrong", |text| text.contains("name"));
        assert_eq!(screen.ends(), 64, "{name}");
    }
}

#[tokio::test]
async fn a_terminal_that_goes_ends_it_without_a_panic() {
    let servers = servers(3).await;
    let screen = Screen::start(&watching(&servers, &["job"]), 80, 24);
    screen.shows("job is free");
    let code = screen.goes();
    assert!([129, 70].contains(&code), "{code}");
}

#[tokio::test]
async fn watch_without_a_terminal_names_the_alternatives() {
    let servers = servers(3).await;
    let (code, out, err) = done(&mut watching(&servers, &["job"]));
    assert_eq!((code, out.as_str()), (64, ""));
    assert!(err.contains("status --json") && err.contains("status --wait"), "{err}");
}

#[test]
fn an_interval_that_makes_no_sense_is_refused() {
    for every in ["0", "99ms", "2h"] {
        let screen =
            Screen::start(super::bare().args(["watch", "--nodes", "redis://127.0.0.1:1", "--every", every]), 80, 24);
        screen.shows("use 100 ms to 60 s");
        assert_eq!(screen.ends(), 64, "{every}");
    }
}
