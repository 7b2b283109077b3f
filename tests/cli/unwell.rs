//! `quorumlock status` names the fault if something is wrong, and fails if `run` would fail.

use std::process::Command;

use serde_json::Value;

use super::status::looked;
use super::{EACH_NODE, IN_VAIN, at_once, bare, done, over, tried, until};
use crate::common::server::Server;
use crate::common::{new_servers, servers};

/// Makes the user `locks` on each server. Returns the command over the servers, logged in as this
/// user.
fn limited(servers: &[Server], rights: &[&str]) -> Command {
    let words = [&["ACL", "SETUSER", "locks", "on", ">pw"], rights].concat();
    servers.iter().for_each(|server| assert_eq!(server.command(&words), "OK"));
    let urls: Vec<_> = servers.iter().map(|server| format!("redis://locks:pw@127.0.0.1:{}", server.port())).collect();
    nodes(&urls)
}

fn nodes(urls: &[String]) -> Command {
    let mut command = bare();
    command.env("QUORUMLOCK_NODES", urls.join(",")).env("QUORUMLOCK_MAX_TTL", "0");
    command
}

/// Runs `status job`, which waits until it knows the state of each node. Returns its exit code, its
/// text and its object.
fn status(command: &mut Command) -> (i32, String, Value) {
    told(command.args(["status", "job"]).args(EACH_NODE))
}

/// As `status`, for a quorum that is down.
fn status_of_few(command: &mut Command) -> (i32, String, Value) {
    told(command.args(["status", "job"]))
}

fn told(command: &mut Command) -> (i32, String, Value) {
    let (code, out, err) = looked(command);
    let (same, object, _) = looked(command.arg("--json"));
    assert_eq!(code, same, "{out}{err}{object}");
    (code, out + &err, serde_json::from_str(&object).unwrap())
}

#[tokio::test]
async fn status_of_a_refusing_quorum_is_69_and_names_missing_rights() {
    let servers = servers(3).await;
    for (rights, missing) in [
        (&["~other:*", "&*", "+@all"][..], "~quorumlock:*"),
        (&["resetkeys", "~*", "&*", "+@all", "-evalsha"], "+evalsha"),
        (&["resetkeys", "~*", "&*", "+@all", "-script", "-eval"], "+eval"),
    ] {
        // Make the server forget the scripts: otherwise the client would not have to load them.
        servers.iter().for_each(|server| assert_eq!(server.command(&["SCRIPT", "FLUSH"]), "OK"));
        let (code, said, object) = status_of_few(&mut limited(&servers, rights));
        assert_eq!((code, &object["votes"], &object["quorum_votes"]), (69, &0.into(), &false.into()), "{said}");
        assert!(said.contains("NOPERM") && said.contains(missing), "{said}");
        assert!(!said.contains("look again") && said.contains("nobody can tell who holds it"), "{said}");
        assert!(object["nodes"][0]["why"].as_str().unwrap().contains(missing), "{object}");
        let (code, said, _) = looked(limited(&servers, rights).arg("status"));
        assert!(code == 69 && said.contains(missing), "{said}");
    }
}

/// The node refuses the claim before it writes anything, so the name is not even held for one ttl.
#[tokio::test]
async fn client_without_a_right_to_acquire_keeps_no_other_out() {
    let servers = servers(3).await;
    let mut lacking = limited(&servers, &["~quorumlock:*", "&quorumlock:*", "+@all", "-@dangerous", "+info", "-hset"]);
    let (code, _, said) = done(lacking.args(["run", "job", "--timeout", IN_VAIN, "--ttl=600s", "--", "true"]));
    assert!(code == 69 && said.contains("lacks"), "{code} {said}");
    let (code, _, said) = done(over(&servers).args(["run", "job", "--timeout", "300s", "--", "true"]));
    assert_eq!(code, 0, "{said}");
}

#[tokio::test]
async fn refusing_node_is_reported_and_does_not_vote() {
    let servers = servers(3).await;
    drop(limited(&servers[..1], &["~other:*", "&*", "+@all"]));
    let urls: Vec<_> = servers.iter().map(Server::url).collect();
    let user = urls[0].replace("redis://", "redis://locks:pw@");
    let (code, said, object) = status(&mut nodes(&[vec![user], urls[1..].to_vec()].concat()));
    assert_eq!((code, &object["votes"], &object["agreed"]), (0, &2.into(), &true.into()), "{said}");
    assert!(said.contains("down: NOPERM"), "{said}");
}

#[tokio::test]
async fn a_node_that_hangs_is_waited_for_and_that_is_said() {
    let servers = servers(3).await;
    servers[1].stop();
    // Allow time for the other two nodes, which must answer before the timeouts end.
    let (code, _, err) = done(over(&servers).args(["status", "--connect-timeout", "15s", "--node-timeout", "15s"]));
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("waiting for the nodes; "), "{err}");
    assert!(err.contains(&format!("{} has not answered yet", servers[1].url())), "{err}");
}

#[tokio::test]
async fn a_node_that_is_not_waited_for_is_told_to_need_more_time() {
    let servers = servers(3).await;
    servers[1].stop();
    let (code, out, err) = done(over(&servers).args(["status", "--connect-timeout", IN_VAIN, "--node-timeout", "20s"]));
    assert!(code == 0 && out.contains(&format!("{}: no answer within 5 s", servers[1].url())), "{out}{err}");
    assert!(
        out.contains("; use a longer --connect-timeout to find out which") && !out.contains("timeout 10s"),
        "{out}"
    );
}

#[tokio::test]
async fn status_of_one_server_behind_two_addresses_exits_with_64() {
    let servers = servers(1).await;
    let mut urls: Vec<_> = servers.iter().map(Server::url).collect();
    urls.push(urls[0].replace("127.0.0.1", "localhost"));
    // The command does not wait for all nodes, so one node may not have answered.
    let mut command = nodes(&urls);
    let (code, said, err) = done(command.args(["status", "job"]).args(EACH_NODE));
    assert!(code == 64 && said.contains("one server is behind two addresses"), "{code}: {said}{err}");
    let (code, object, _) = done(command.arg("--json"));
    let object: Value = serde_json::from_str(&object).unwrap();
    assert_eq!((code, &object["quorum_votes"]), (64, &false.into()), "{object}");
    assert_eq!(done(nodes(&urls).args(["run", "job", "--timeout", "1h", "--", "true"])).0, 64);
}

/// The warnings of `status`, which must succeed.
fn warnings(command: &mut Command) -> String {
    let (code, said, object) = status(command);
    assert_eq!((code, &object["quorum_votes"]), (0, &true.into()), "{said}");
    let warnings = object["warnings"].as_array().unwrap().iter().map(|warning| warning.as_str().unwrap());
    let told = warnings.inspect(|warning| assert!(said.contains(&format!("warning: {warning}")), "{said}"));
    // These tests set max_ttl to 0, since otherwise new servers would be in quarantine.
    told.filter(|warning| !warning.starts_with("max_ttl is 0 here: ")).collect()
}

#[tokio::test]
async fn a_node_that_may_evict_locks_is_warned_of() {
    let mut servers = servers(2).await;
    servers.push(Server::with(&["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"]).await);
    let said = warnings(&mut over(&servers));
    assert!(said.contains("allkeys-lru") && said.contains("noeviction") && said.contains(&servers[2].url()), "{said}");
}

#[tokio::test]
async fn missing_right_to_notify_waiters_is_warned_of_once() {
    let servers = servers(3).await;
    let said = warnings(&mut limited(&servers, &["~quorumlock:*", "resetchannels", "+@all"]));
    assert_eq!(said.matches("does not notify waiters").count(), 1, "{said}");
    assert!(servers.iter().all(|server| said.contains(&format!("127.0.0.1:{}", server.port()))), "{said}");
    assert!(said.contains("&quorumlock:*") && !said.contains("EVAL"), "{said}");
}

#[tokio::test]
async fn an_even_number_of_nodes_is_warned_of() {
    assert_eq!(warnings(&mut over(&servers(3).await)), "");
    let said = warnings(&mut over(&servers(4).await));
    assert!(said.contains("with 4 nodes, at most 1 may fail, as with 3; use an odd number"), "{said}");
}

/// Servers whose records a client with a max_ttl of an hour has just made.
pub(super) async fn quarantined(count: usize) -> Vec<Server> {
    let servers = new_servers(count).await;
    // The command fails once it knows that a quorum is in quarantine. At that moment, other nodes
    // may have no record yet.
    until("each has a record", || {
        let (code, _, err) = done(guarded(&servers).args(["run", "job", "--timeout", "50s", "--", "true"]));
        assert!(code == 69 && err.contains("quarantined for"), "{code} {err}");
        servers.iter().all(|server| !server.record("id").is_empty())
    });
    servers
}

/// The command with a max_ttl of an hour: a server that restarts does not vote for an hour.
pub(super) fn guarded(servers: &[Server]) -> Command {
    let mut command = over(servers);
    command.env("QUORUMLOCK_MAX_TTL", "1h");
    command
}

#[tokio::test]
async fn new_servers_are_told_to_be_new_and_when_they_will_vote() {
    let servers = new_servers(3).await;
    let (code, said, _) = status(&mut guarded(&servers));
    assert_eq!(code, 69);
    assert!(said.contains("no record: no client has used it since it started empty or lost its data"), "{said}");
    assert!(said.contains("the first one waits for 60 min") && said.contains("`quorumlock init`"), "{said}");
    let servers = quarantined(3).await;
    let (code, said, _) = status(&mut guarded(&servers));
    assert_eq!(code, 69);
    assert!(
        said.contains("this server is new, has restarted or lost its record, and may have forgotten locks"),
        "{said}"
    );
    // The machine may stall for minutes before the command starts.
    let told = (55..=61).any(|minutes| said.contains(&format!("no lock can be acquired for another {minutes} min")));
    assert!(told, "{said}");
}

#[tokio::test]
async fn servers_up_longer_than_max_ttl_vote_with_their_first_client() {
    let servers = new_servers(3).await;
    let tells = |words: &[&str]| tried(over(&servers).env("QUORUMLOCK_MAX_TTL", "6s").args(words));
    // Two votes are enough: the third server may have been too young when the client read its
    // uptime.
    let (code, out, err) = tells(&["status", "--wait"]);
    assert!(code == 0 && out.contains(" of 3 nodes vote") && out.contains("no record"), "{code}: {out}{err}");
    let (code, _, err) = tells(&["run", "job", "-n", "--connect-timeout", "45s", "--ttl", "6s", "--", "true"]);
    assert_eq!(code, 0, "{err}");
}

#[tokio::test]
async fn a_single_try_waits_for_quarantines_that_end_in_time() {
    let servers = new_servers(3).await;
    let mut command = over(&servers);
    let tries = ["run", "job", "-n", "--connect-timeout", "45s", "--ttl", "6s", "--", "true"];
    let (code, _, err) = tried(command.env("QUORUMLOCK_MAX_TTL", "6s").args(tries));
    assert_eq!(code, 0, "{err}");
}

#[tokio::test]
async fn a_job_of_a_period_waits_for_quarantines_that_end_in_time() {
    let servers = new_servers(3).await;
    let mut command = over(&servers);
    let job = ["run", "job", "--once-per", "1h", "--timeout", "50s", "--ttl", "6s", "--", "true"];
    let (code, _, err) = done(command.env("QUORUMLOCK_MAX_TTL", "6s").args(job));
    assert_eq!(code, 0, "{err}");
}

#[tokio::test]
async fn status_on_too_few_voting_nodes_reports_no_name_as_free() {
    let servers = quarantined(3).await;
    servers[0].take("job", "somebody");
    let (code, said, object) = status(&mut guarded(&servers));
    assert_eq!((code, &object["agreed"], &object["held"]), (69, &false.into(), &Value::Null), "{said}");
    assert_eq!(object["nodes"][0]["holder"], "somebody");
    assert!(said.contains("nobody can tell who holds it; 0 of 3 nodes vote"), "{said}");
    assert!(said.contains("one node names the holder somebody") && !said.contains("free"), "{said}");
}

#[tokio::test]
async fn foreign_key_under_a_name_blocks_that_name_and_not_the_node() {
    let servers = servers(3).await;
    servers.iter().for_each(|server| assert_eq!(server.command(&["SET", "quorumlock:{job}", "theirs"]), "OK"));
    let (code, said, object) = status(&mut over(&servers));
    assert_eq!((code, &object["votes"], &object["agreed"]), (69, &0.into(), &false.into()), "{said}");
    let why = "up, but cannot lock this name: WRONGTYPE the key quorumlock:{job} is a string";
    assert!(said.contains(why) && said.contains("this name cannot be locked, but other names can"), "{said}");
    assert_eq!(looked(over(&servers).arg("status").args(EACH_NODE)).0, 0, "other names can be locked");
}

#[tokio::test]
async fn node_with_an_unreadable_record_is_down_and_grants_nothing() {
    let servers = servers(3).await;
    assert_eq!(servers[1].command(&["SET", "quorumlock:node", "theirs"]), "OK");
    servers[2].command(&["DEL", "quorumlock:node"]);
    assert_eq!(servers[2].command(&["HSET", "quorumlock:node", "theirs", "1"]), "1");
    let (code, said, object) = status_of_few(&mut over(&servers));
    assert_eq!((code, &object["votes"], &object["quorum_votes"]), (69, &1.into(), &false.into()), "{said}");
    assert!(said.contains("down: WRONGTYPE the key quorumlock:node is a string"), "{said}");
    assert!(said.contains("down: ERR the key quorumlock:node is no record of this protocol"), "{said}");
    let (code, said, _) = done(over(&servers).arg("status"));
    assert!(code == 69 && said.contains("no lock can be acquired"), "{said}");
    let (code, _, err) = done(over(&servers).args(["run", "job", "--timeout", "0", "--", "true"]));
    assert!(code == 69 && err.contains("the key quorumlock:node is a string"), "{err}");
}

#[tokio::test]
async fn a_node_without_memory_is_warned_of() {
    let servers = servers(3).await;
    assert_eq!(servers[0].command(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
    let said = warnings(&mut over(&servers));
    assert!(said.contains("is out of memory") && said.contains("maxmemory is 1 bytes"), "{said}");
}

#[tokio::test]
async fn nodes_without_memory_do_not_vote_and_still_answer_status() {
    let servers = servers(3).await;
    for server in &servers[..2] {
        assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
    }
    let (code, said, object) = status(&mut over(&servers));
    assert_eq!((code, &object["votes"], &object["quorum_votes"]), (69, &1.into(), &false.into()), "{said}");
    assert!(said.contains("up, but grants no lock: it is out of memory") && said.contains("raise maxmemory"), "{said}");
    assert!(said.contains("1 of 3 nodes vote; a quorum is 2: no lock can be acquired"), "{said}");
    assert!(!said.contains("held locks end"), "renewals go on: {said}");
    assert!(object["held"] == false && said.contains("job is free, but cannot be locked now"), "{said}");
    // On a busy machine, the nodes may answer a single try too late.
    until("whoever tries once is told why", || {
        let (code, _, err) = done(over(&servers).args(["run", "job", "--timeout", "0", "--", "true"]));
        assert_eq!(code, 69, "{err}");
        err.contains("OOM")
    });
    servers[0].command(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(status(&mut over(&servers)).0, 0);
    // Allow time: the command may first connect to the other two nodes, one of which has no memory.
    assert_eq!(done(over(&servers).args(["run", "job", "--timeout", "1h", "--", "true"])).0, 0);
}

/// Makes saving fail: a folder has the name of the server's file. From then on, the server refuses
/// writes.
pub(super) fn without_a_disk(server: &Server) {
    std::fs::create_dir(server.folder().join("dump.rdb")).unwrap();
    assert_eq!(server.command(&["CONFIG", "SET", "save", "3600 1"]), "OK");
    server.command(&["BGSAVE"]);
    until("it refuses writes", || server.command(&["PING"]).contains("MISCONF"));
}

pub(super) fn without_replicas(server: &Server) {
    assert_eq!(server.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]), "OK");
}

/// `status` only reads, and these nodes allow reads.
#[tokio::test]
async fn nodes_that_refuse_writes_vote_on_no_claim_and_run_says_why() {
    let cases = [
        (
            servers(3).await,
            without_replicas as fn(&Server),
            "NOREPLICAS",
            "min-replicas-to-write 0",
            ["min-replicas-to-write", "0"],
        ),
        (servers(3).await, without_a_disk, "MISCONF", "Free disk space", ["stop-writes-on-bgsave-error", "no"]),
    ];
    at_once(cases, |(servers, refuse, why, mend, back)| {
        servers[..2].iter().for_each(refuse);
        let (code, said, object) = status(&mut over(&servers));
        assert_eq!((code, &object["votes"], &object["quorum_votes"]), (69, &1.into(), &false.into()), "{said}");
        assert!(said.contains(&format!("up, but grants no lock, as it refuses writes: {why} ")), "{said}");
        assert!(said.contains(mend) && said.contains("1 of 3 nodes vote; a quorum is 2: no lock can be"), "{said}");
        assert!(object["held"] == false && said.contains("job is free, but cannot be locked now"), "{said}");
        assert_eq!(done(over(&servers).args(["status", "--wait", "1s"])).0, 69);
        let (code, _, err) = done(over(&servers).args(["run", "job", "--timeout", IN_VAIN, "--", "true"]));
        assert!(code == 69 && err.contains(why), "{code} {err}");
        for server in &servers[..2] {
            assert_eq!(server.command(&["CONFIG", "SET", back[0], back[1]]), "OK");
        }
        assert_eq!(status(&mut over(&servers)).0, 0);
        assert_eq!(done(over(&servers).args(["run", "job", "--timeout", "1h", "--", "true"])).0, 0);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn server_error_text_sends_no_control_codes_to_a_terminal() {
    let fake = crate::common::fake::Fake::start(|_| b"-ERR \x1b]0;title\x07\r\n".to_vec()).await;
    at_once([&["status"][..], &["doctor"], &["run", "--timeout", IN_VAIN, "job", "--", "true"]], |arguments| {
        let (_, out, err) = done(nodes(&[fake.url()]).args(arguments));
        let said = out + &err;
        assert!(said.contains("title") && !said.contains(['\u{1b}', '\u{7}']), "{said:?}");
    });
}

#[tokio::test]
async fn max_ttl_below_the_default_ttl_stops_only_acquiring() {
    let servers = servers(1).await;
    let short = ["--max-ttl", "20s"];
    let (code, out, err) = looked(over(&servers).arg("status").args(short).args(EACH_NODE));
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(done(over(&servers).args(["release", "job", "--force", "--yes"]).args(short)).0, 0);
    let (code, _, err) = done(over(&servers).args(["run", "job"]).args(short).args(["--", "true"]));
    assert!(code == 64 && err.contains("ttl is 30 s (the default), above max_ttl (20 s); use --ttl 20s"), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_that_is_no_redis_is_reported_as_such() {
    let http = crate::common::fake::Fake::start(|_| b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()).await;
    let nowhere = format!("redis://{}", "x".repeat(300));
    let mut command = nodes(&[http.url(), nowhere]);
    let (code, said, _) = status_of_few(command.env("RUST_BACKTRACE", "0"));
    assert_eq!(code, 69);
    assert!(said.contains("does not speak the Redis protocol") && !said.contains("HELLO"), "{said}");
    assert!(said.contains("failed to lookup address") && !said.contains("Custom {"), "{said}");
}

#[tokio::test]
async fn a_max_ttl_of_zero_is_warned_of() {
    let servers = servers(3).await;
    let warned = |max_ttl: &str| status(over(&servers).env("QUORUMLOCK_MAX_TTL", max_ttl)).1.contains("max_ttl is 0");
    assert!(warned("0s") && !warned("1s"));
}

#[tokio::test]
async fn nodes_with_another_list_in_force_are_named() {
    let servers = servers(3).await;
    let text = || looked(over(&servers).arg("status").args(EACH_NODE)).1;
    let out = text();
    assert!(out.contains("no list is in force: no client is connected, or the nodes forgot\n"), "{out}");
    // A run may end before it has connected to the third node.
    until("the list is in force on all nodes", || {
        assert_eq!(done(over(&servers).args(["run", "job", "--timeout", "1h", "--", "true"])).0, 0);
        text().contains("this list is in force on 3 of 3 nodes\n")
    });
    servers[2].put_in_force("jobs 60000 4 other:1", 600_000);
    let (code, said, object) = status(&mut over(&servers));
    let differs = format!("another list is in force on 127.0.0.1:{}: ours is \"default\", theirs", servers[2].port());
    assert!(code == 0 && said.contains(&differs) && said.contains("2 of 3 nodes vote"), "{said}");
    assert_eq!((&object["nodes"][2]["state"], &object["nodes"][2]["counts"]), (&"other list".into(), &false.into()));
    servers[2].put_in_force("default 60000 4 other:1", 600_000);
    let (code, said, object) = status(&mut over(&servers));
    assert!(code == 69 && said.contains("a client with this list acquires nothing\n"), "{said}");
    assert!(said.contains(": stop its clients (theirs ends in 10 min, if none of its clients still runs)\n"), "{said}");
    assert!(object["refused"].as_str().unwrap().contains("ours has 3 nodes, theirs has 1 node: "), "{object}");
    let counts = object["nodes"].as_array().unwrap().iter().filter(|node| node["counts"] == true).count();
    assert_eq!(object["votes"], counts, "{object}");
}

#[tokio::test]
async fn nodes_whose_record_is_another_key_tell_nothing_of_clients() {
    let servers = servers(3).await;
    servers[..2].iter().for_each(|server| _ = server.command(&["SET", "quorumlock:node", "theirs"]));
    let (code, said, object) = status_of_few(&mut over(&servers));
    assert_eq!((code, &object["votes"], &object["agreed"]), (69, &1.into(), &false.into()), "{said}");
    assert!(said.contains("nobody knows which clients use these nodes: 1 of 3 answered"), "{said}");
}
