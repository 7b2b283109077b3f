//! Servers that refuse operations for a while: clients send the refused operations again.

use std::sync::Arc;
use std::time::Duration;

use quorumlock::node::redis::RedisNode;
use quorumlock::node::{FaultKind, Kind, Name, Node, Note, Outcome, Reply, Verb, Waiter};
use quorumlock::{LockGuard, Quorum};

use crate::common::asked::Asked;
use crate::common::clockwork::Clockwork;
use crate::common::logs::Logs;
use crate::common::node::{Recorder, ask_all, heard, real};
use crate::common::server::{Server, ask};
use crate::common::{ConnectAll, PATIENCE, eventually, servers, unguarded};

const SECOND: Duration = Duration::from_secs(1);

/// A lock that is held on one server. Its ttl is far longer than the test.
async fn held(servers: &[Server]) -> (Quorum, LockGuard) {
    let quorum = unguarded(servers).connect_all().await;
    let guard = quorum.lock("held").acquire(PATIENCE).await.unwrap();
    (quorum, guard)
}

async fn is_released(quorum: &Quorum, server: &Server) {
    quorum.quiet().await;
    assert_eq!(server.holder("held"), None, "it was not left to expire");
}

#[tokio::test]
async fn a_release_that_a_busy_server_refused_is_tried_again() {
    let servers = servers(1).await;
    let (server, port) = (&servers[0], servers[0].port());
    let (quorum, guard) = held(&servers).await;
    server.command(&["CONFIG", "SET", "busy-reply-threshold", "10"]);
    let stuck = std::thread::spawn(move || ask(port, &["EVAL", "while true do end", "0"], PATIENCE));
    eventually("the server is busy", async || server.command(&["GET", "any"]).contains("BUSY")).await;
    let error = guard.release().await.unwrap_err();
    assert!(error.to_string().contains("tried again in the background"), "{error}");
    assert_eq!(server.command(&["SCRIPT", "KILL"]), "OK");
    stuck.join().unwrap().unwrap();
    is_released(&quorum, server).await;
}

/// Lets the server refuse writes and PING from now on.
async fn lose_the_disk(server: &Server) {
    let folder = server.folder().join("gone");
    std::fs::create_dir(&folder).unwrap();
    server.command(&["CONFIG", "SET", "dir", folder.to_str().unwrap()]);
    server.command(&["CONFIG", "SET", "save", "3600 1"]);
    std::fs::remove_dir(&folder).unwrap();
    server.command(&["BGSAVE"]);
    eventually("it refuses writes", async || server.command(&["SET", "any", "thing"]).contains("MISCONF")).await;
}

/// The client subscribes although PING is refused, so it logs nothing about missing rights.
#[tokio::test]
async fn client_of_a_server_without_a_disk_subscribes_to_wakeups() {
    let logs = Logs::capture();
    let servers = [Server::with(&["--enable-protected-configs", "yes"]).await];
    let server = &servers[0];
    lose_the_disk(server).await;
    let quorum = unguarded(&servers).open().unwrap();
    let subscribed = || !server.command(&["PUBSUB", "CHANNELS"]).is_empty();
    eventually("it has subscribed", async || subscribed()).await;
    server.command(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]);
    quorum.ready(PATIENCE).await.unwrap();
    assert!(!logs.text().contains("no wake-ups"), "{}", logs.text());
}

#[tokio::test]
async fn release_refused_for_want_of_a_disk_is_sent_again() {
    let servers = [Server::with(&["--enable-protected-configs", "yes"]).await];
    let server = &servers[0];
    let (quorum, guard) = held(&servers).await;
    lose_the_disk(server).await;
    let error = guard.release().await.unwrap_err();
    assert!(error.to_string().contains("tried again in the background"), "{error}");
    server.command(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]);
    is_released(&quorum, server).await;
}

#[tokio::test]
async fn a_server_without_memory_cannot_now_and_may_later() {
    let server = Server::start().await;
    let node = real(&server).await;
    let claim = operation(Verb::Claim, "full", 7);
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let fault = crate::common::node::ask(&node, &claim).await.unwrap_err();
    assert!(fault.kind() == FaultKind::Busy && fault.to_string().contains("raise maxmemory"), "{fault:?}");
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    assert!(crate::common::node::ask(&node, &claim).await.is_ok());
}

/// An operation of one owner, with a ttl of a minute.
fn operation(verb: Verb, name: &str, ballot: u64) -> Asked {
    let names = [Name::new("quorumlock:", name).unwrap()].into();
    Asked { verb, ballot, owner: "c/1/x/1".into(), ttl: 60 * SECOND, count: 1, ..Asked::inspect(names) }
}

/// Sends three operations in one call: a claim of a free name, a renewal, and a release.
async fn a_claim_before_a_renewal_and_a_release(node: &RedisNode) -> Vec<Reply> {
    let asked = [
        operation(Verb::Claim, "free", 9),
        operation(Verb::Renew, "renewed", 5),
        operation(Verb::Release, "released", 6),
    ];
    ask_all(node, &asked).await
}

async fn holding(server: &Server) -> RedisNode {
    let node = real(server).await;
    for (name, ballot) in [("renewed", 5), ("released", 6)] {
        let claim = operation(Verb::Claim, name, ballot);
        assert_eq!(ask_all(&node, &[claim]).await.pop().unwrap().unwrap(), Outcome::Granted { fence: ballot });
    }
    node
}

#[tokio::test]
async fn claim_refused_for_memory_lets_later_operations_run() {
    let server = Server::start().await;
    let node = holding(&server).await;
    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
    let mut replies = a_claim_before_a_renewal_and_a_release(&node).await.into_iter();
    assert_eq!(replies.next().unwrap().unwrap_err().kind(), FaultKind::Busy);
    assert_eq!(replies.next().unwrap().unwrap(), Outcome::Extended);
    assert_eq!(replies.next().unwrap().unwrap(), Outcome::Released { held: 1 });
    assert_eq!(server.holder("released"), None);
}

/// As in the test above, but the call must also rotate the record's ballots. This write must not
/// come before the write that Redis may refuse.
#[tokio::test]
async fn claim_refused_at_an_old_record_lets_later_operations_run() {
    let server = Server::start().await;
    let node = holding(&server).await;
    server.command(&["HSET", "node", "rotated", "0"]);
    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
    let mut replies = a_claim_before_a_renewal_and_a_release(&node).await.into_iter();
    assert_eq!(replies.next().unwrap().unwrap_err().kind(), FaultKind::Busy);
    assert_eq!(replies.next().unwrap().unwrap(), Outcome::Extended);
    assert_eq!(replies.next().unwrap().unwrap(), Outcome::Released { held: 1 });
}

#[tokio::test]
async fn foreign_data_in_a_key_fails_only_its_own_operation() {
    let server = Server::start().await;
    let node = holding(&server).await;
    server.command(&["HSET", "quorumlock:{theirs}", "x", "y"]);
    for verb in [Verb::Claim, Verb::Renew, Verb::Release] {
        let asked = [operation(verb, "theirs", 7), operation(Verb::Renew, "renewed", 5)];
        let replies = ask_all(&node, &asked).await;
        let said = replies[0].as_ref().unwrap_err().to_string();
        assert!(said.contains("no lock of this protocol"), "{said}");
        assert_eq!(replies[1].as_ref().unwrap(), &Outcome::Extended, "{verb:?}");
    }
    server.command(&["DEL", "node"]);
    server.command(&["HSET", "node", "x", "y"]);
    let asked = [operation(Verb::Claim, "free", 7_000_000), operation(Verb::Renew, "renewed", 5)];
    let replies = ask_all(&node, &asked).await;
    assert!(replies.iter().all(|reply| matches!(reply, Ok(Outcome::Forgot))), "that is no record: {replies:?}");
    server.command(&["DEL", "node"]);
    server.command(&["SET", "node", "x"]);
    let replies = ask_all(&node, &[operation(Verb::Claim, "free", 7_000_000)]).await;
    let said = replies[0].as_ref().unwrap_err().to_string();
    assert!(said.contains("the key node is a string") && said.contains("delete this key"), "{said}");
}

/// Two claims of free names, and renewals and releases of held names.
fn many() -> Vec<Asked> {
    let held = |number| [format!("renewed{number}"), format!("released{number}")];
    let renewed = (0..3).map(|number| operation(Verb::Renew, &held(number)[0], 5));
    let released = (0..3).map(|number| operation(Verb::Release, &held(number)[1], 5));
    let free = ["free", "behind"].map(|name| operation(Verb::Claim, name, 9));
    renewed.chain(released).chain(free).collect()
}

async fn holding_many(server: &Server) -> RedisNode {
    let node = real(server).await;
    let held = many().into_iter().filter(|operation| operation.verb != Verb::Claim);
    let claims: Vec<_> = held.map(|operation| Asked { verb: Verb::Claim, ..operation }).collect();
    assert!(ask_all(&node, &claims).await.iter().all(|reply| matches!(reply, Ok(Outcome::Granted { fence: 5 }))));
    node
}

fn as_asked(operation: &Asked) -> Outcome {
    match operation.verb {
        Verb::Renew => Outcome::Extended,
        Verb::Release => Outcome::Released { held: 1 },
        _ => Outcome::Granted { fence: operation.ballot },
    }
}

#[tokio::test]
async fn key_of_another_type_fails_only_its_own_operation() {
    for foreign in [["SET", "v"].as_slice(), &["RPUSH", "v"], &["ZADD", "1", "v"], &["SADD", "v"]] {
        for verb in [Verb::Claim, Verb::Renew, Verb::Release] {
            for place in [0, 4, 8] {
                let server = Server::start().await;
                let node = holding_many(&server).await;
                let (command, arguments) = foreign.split_first().unwrap();
                let key = "quorumlock:{theirs}";
                server.command(&[&[*command, key], arguments].concat());
                let kind = server.command(&["TYPE", key]);
                let mut asked = many();
                asked.insert(place, operation(verb, "theirs", 9));
                let replies = ask_all(&node, &asked).await;
                for (index, (operation, reply)) in asked.iter().zip(replies).enumerate() {
                    if index == place {
                        let said = reply.unwrap_err().to_string();
                        assert!(said.contains(&format!("the key {key} is a {kind}")), "{said}");
                    } else {
                        assert_eq!(reply.unwrap(), as_asked(operation), "{index} beside {verb:?} at {place}");
                    }
                }
                assert_eq!(server.command(&["TYPE", key]), kind, "it is left as it is");
            }
        }
    }
}

#[tokio::test]
async fn a_record_of_another_type_lets_nothing_be_done() {
    let server = Server::start().await;
    let node = holding_many(&server).await;
    server.command(&["DEL", "node"]);
    server.command(&["RPUSH", "node", "x"]);
    for reply in ask_all(&node, &many()).await {
        let said = reply.unwrap_err().to_string();
        assert!(said.contains("the key node is a list"), "{said}");
    }
}

/// The result is the same if the claims come first in the call.
#[tokio::test]
async fn claims_refused_for_memory_change_no_other_reply() {
    for claims_first in [false, true] {
        let server = Server::start().await;
        let node = holding_many(&server).await;
        let mut asked = many();
        if claims_first {
            asked.rotate_right(2);
        }
        assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
        for (operation, reply) in asked.iter().zip(ask_all(&node, &asked).await) {
            if operation.verb == Verb::Claim {
                assert_eq!(reply.unwrap_err().kind(), FaultKind::Busy);
            } else {
                assert_eq!(reply.unwrap(), as_asked(operation));
            }
        }
        assert_eq!([server.holder("free"), server.holder("released0")], [None, None]);
        assert_eq!(server.holder("renewed2").as_deref(), Some("c/1/x/1"));
    }
}

/// A claim that waits for the name, so that the node may hand the name to it.
fn waits(number: u32, ballot: u64) -> Asked {
    Asked {
        owner: format!("c/1/x/{number}").into(),
        waiter: Some(Waiter { arrival: ballot, lasts: 60 * SECOND, again: 60 * SECOND }),
        ..operation(Verb::Claim, "wanted", ballot)
    }
}

/// Redis must not refuse the first write of a hand-over. Redis must refuse the first write of a
/// claim that waits, before the claim has written anything.
#[tokio::test]
async fn release_without_memory_hands_over_and_a_claim_cannot_queue() {
    let server = Server::start().await;
    let hears = Recorder::of("c/1/x");
    let node = heard(&format!("redis://127.0.0.1:{}", server.port()), hears.clone()).await;
    let release = Asked { next: 20, ..operation(Verb::Release, "wanted", 9) };
    ask_all(&node, &[operation(Verb::Claim, "wanted", 9), waits(2, 10)]).await;
    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
    let refused = ask_all(&node, &[waits(3, 11)]).await.pop().unwrap();
    assert_eq!(refused.unwrap_err().kind(), FaultKind::Busy);
    assert_eq!(server.command(&["ZCARD", "quorumlock:{wanted}:queue"]), "1");
    let released = ask_all(&node, &[release]).await.pop().unwrap();
    assert_eq!(released.unwrap(), Outcome::Released { held: 1 });
    assert_eq!(server.holder("wanted").as_deref(), Some("c/1/x/2"));
    eventually("it is told", async || hears.take().iter().any(|hint| hint.granted.is_some())).await;
}

/// The first write of such a claim is to drop the dead waiters.
#[tokio::test]
async fn claim_behind_dead_waiters_without_memory_drops_none() {
    for permits in [false, true] {
        let clock = Clockwork::still().await;
        let (server, node) = (&clock.server, real(&clock.server).await);
        let held = Asked { ttl: SECOND, ..operation(Verb::Claim, "wanted", 9) };
        ask_all(&node, &[held.clone(), waits(2, 10), waits(3, 11)]).await;
        clock.pass(2 * SECOND);
        let gate = Some(held.names[0].clone()).filter(|_| permits);
        let name = if permits { "wanted/0" } else { "wanted" };
        let claim = Asked { gate, next: 30, ..operation(Verb::Claim, name, 20) };
        assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
        let refused = ask_all(&node, std::slice::from_ref(&claim)).await.pop().unwrap();
        assert_eq!(refused.unwrap_err().kind(), FaultKind::Busy, "{permits}");
        assert_eq!(server.command(&["ZCARD", "quorumlock:{wanted}:queue"]), "2");
        server.command(&["CONFIG", "SET", "maxmemory", "0"]);
        let granted = ask_all(&node, &[claim]).await.pop().unwrap();
        assert_eq!(granted.unwrap(), Outcome::Granted { fence: 20 }, "{permits}");
        assert_eq!(server.command(&["EXISTS", "quorumlock:{wanted}:queue"]), "0");
    }
}

/// There are more dead waiters than a script reads at a time.
#[tokio::test]
async fn waiter_behind_many_dead_ones_is_handed_the_name_in_one_call() {
    let clock = Clockwork::still().await;
    let server = &clock.server;
    let hears = Recorder::of("c/1/x");
    let node = heard(&format!("redis://127.0.0.1:{}", server.port()), hears.clone()).await;
    let dead = |number| Asked { owner: format!("c/1/dead/{number}").into(), ..waits(number, 10) };
    let mut asked = vec![operation(Verb::Claim, "wanted", 9)];
    asked.extend((0..300).map(dead));
    asked.extend([waits(2, 11), waits(3, 12)]);
    ask_all(&node, &asked).await;
    ask_all(&node, &[Asked { next: 20, ..operation(Verb::Release, "wanted", 9) }]).await;
    assert_eq!(server.holder("wanted").as_deref(), Some("c/1/x/2"));
    assert_eq!(server.command(&["ZCARD", "quorumlock:{wanted}:queue"]), "1");
    assert_eq!(server.command(&["HLEN", "quorumlock:{wanted}:waiting"]), "1");
    let told = std::sync::Mutex::new(Vec::new());
    eventually("both are told", async || {
        let mut told = told.lock().unwrap();
        told.extend(hears.take());
        told.len() == 2
    })
    .await;
    let told = told.into_inner().unwrap();
    assert!(told[0].granted.is_some() && told[1].granted.is_none(), "{told:?}");
    assert_eq!((&*told[1].acquisition, told[1].after), ("c/1/x/3", 30 * SECOND), "half of a hand-over");
}

/// A user loses a right while it holds the name. If the node published a hand-over that it cannot
/// write, the push would count. Earlier operations of the call still have replies.
#[tokio::test]
async fn handover_that_cannot_be_written_is_not_published() {
    let missing = ["zrem", "hset", "hdel", "pexpire"];
    // `next` is the ballot of the hand-over. The record's `high` lies between the two values.
    let all = missing.into_iter().flat_map(|command| [20, 10_000_000].map(|next| (command, next)));
    for (owner, command, next) in all.flat_map(|(command, next)| ["1", "s1"].map(|owner| (owner, command, next))) {
        let owner = format!("c/1/y/{owner}");
        let server = Server::start().await;
        let hears = Recorder::of("c/1/x");
        let node = as_a_user(&server, hears.clone()).await;
        let renewed = operation(Verb::Claim, "renewed", 5);
        let holds = Asked { owner: owner.as_str().into(), ..operation(Verb::Claim, "wanted", 9) };
        ask_all(&node, &[renewed, holds.clone(), waits(2, 10)]).await;
        server.command(&["ACL", "SETUSER", "locks", &format!("-{command}")]);
        let release = Asked { next, verb: Verb::Release, ..holds };
        let replies = ask_all(&node, &[operation(Verb::Renew, "renewed", 5), release]).await;
        assert_eq!(replies[0].is_ok(), !["hset", "pexpire"].contains(&command), "{owner} {command}: {replies:?}");
        assert!(replies[1].is_err(), "{owner} {command}: {replies:?}");
        assert!(hears.take().iter().all(|hint| hint.granted.is_none()), "{owner} {command}");
        assert_ne!(server.holder("wanted").as_deref(), Some("c/1/x/2"), "{owner} {command}");
    }
}

/// A node with a connection of the user `locks`, which has all rights at first.
async fn as_a_user(server: &Server, hears: Arc<Recorder>) -> RedisNode {
    server.command(&["ACL", "SETUSER", "locks", "on", ">pw", "~*", "&*", "+@all"]);
    heard(&format!("redis://locks:pw@127.0.0.1:{}", server.port()), hears).await
}

/// The notes of the two names stay, but the names are freed.
#[tokio::test]
async fn release_without_the_right_to_delete_notes_frees_the_names() {
    let names: Vec<_> = ["wanted", "beside"].iter().map(|name| Name::new("quorumlock:", name).unwrap()).collect();
    let (names, owner, kind) = (names.into(), "c/1/y/1".into(), Kind::Noted);
    let both = Asked { names, owner, kind, ..operation(Verb::Claim, "wanted", 9) };
    let server = Server::start().await;
    let node = as_a_user(&server, Recorder::of("c/1/x")).await;
    let note = Some(Note { number: 0, age: SECOND, says: "why".into() });
    let renewal = Asked { verb: Verb::Renew, note, ..both.clone() };
    assert_eq!(ask_all(&node, &[both.clone(), renewal]).await[1].as_ref().unwrap(), &Outcome::Extended);
    assert_eq!(server.command(&["EXISTS", "quorumlock:{beside}:note"]), "1");
    server.command(&["ACL", "SETUSER", "locks", "-del"]);
    let release = Asked { verb: Verb::Release, ..both };
    assert_eq!(ask_all(&node, &[release]).await[0].as_ref().unwrap(), &Outcome::Released { held: 2 });
    assert_eq!((server.holder("wanted"), server.holder("beside")), (None, None));
}

/// A user has lost a right that a place in a queue needs. Earlier operations of the call still have
/// replies.
#[tokio::test]
async fn claim_without_a_right_to_queue_undoes_no_earlier_release() {
    for command in ["zadd", "hset", "pttl", "pexpire", "zrank"] {
        let server = Server::start().await;
        let node = as_a_user(&server, Recorder::of("c/1/x")).await;
        ask_all(&node, &[operation(Verb::Claim, "released", 5), operation(Verb::Claim, "wanted", 9)]).await;
        server.command(&["ACL", "SETUSER", "locks", &format!("-{command}")]);
        let replies = ask_all(&node, &[operation(Verb::Release, "released", 5), waits(2, 10)]).await;
        // A release needs HSET too, to store `over`.
        assert_eq!(replies[0].is_ok(), command != "hset", "{command}: {replies:?}");
        assert_eq!(server.holder("released"), None, "{command}");
        assert!(replies[1].is_err(), "{command}: {replies:?}");
    }
}

/// If the key of the queue or of the waiters has a wrong type, the node refuses the waiting claim,
/// and no other operation of the call.
#[tokio::test]
async fn a_queue_of_another_type_is_refused_alone() {
    for (key, kind) in [("quorumlock:{wanted}:queue", "zset"), ("quorumlock:{wanted}:waiting", "hash")] {
        let server = Server::start().await;
        let node = holding_many(&server).await;
        ask_all(&node, &[operation(Verb::Claim, "wanted", 5)]).await;
        server.command(&["SET", key, "theirs"]);
        let mut asked = many();
        asked.insert(3, waits(2, 9));
        for (index, (operation, reply)) in asked.iter().zip(ask_all(&node, &asked).await).enumerate() {
            if index == 3 {
                let said = reply.unwrap_err().to_string();
                assert!(said.contains(&format!("the key {key} is a string")), "no {kind}: {said}");
            } else {
                assert_eq!(reply.unwrap(), as_asked(operation), "{index}");
            }
        }
    }
}

/// The node cannot read the waiters' arguments, so it drops the waiters. The waiters ask again.
#[tokio::test]
async fn release_frees_a_name_whose_waiting_key_is_foreign() {
    let server = Server::start().await;
    let hears = Recorder::of("c/1/x");
    let node = heard(&format!("redis://127.0.0.1:{}", server.port()), hears.clone()).await;
    ask_all(&node, &[operation(Verb::Claim, "wanted", 9), waits(2, 10), waits(3, 11)]).await;
    server.command(&["SET", "quorumlock:{wanted}:waiting", "theirs"]);
    let release = |owner: &str| {
        let owner = owner.into();
        Asked { owner, next: 20, ..operation(Verb::Release, "wanted", 9) }
    };
    let held = [("c/1/x/1", 1), ("c/1/x/3", 0)];
    for (owner, held) in held {
        let released = ask_all(&node, &[release(owner)]).await.pop().unwrap();
        assert_eq!(released.unwrap(), Outcome::Released { held });
    }
    assert_eq!(server.holder("wanted"), None);
    assert_eq!(server.command(&["EXISTS", "quorumlock:{wanted}:queue"]), "0", "nobody waits");
    assert_eq!(server.command(&["GET", "quorumlock:{wanted}:waiting"]), "theirs");
    assert!(hears.take().is_empty());
}

#[tokio::test]
async fn claims_refused_for_want_of_memory_leave_the_record_as_it_was() {
    let server = Server::start().await;
    let node = holding(&server).await;
    let claims =
        [("free", 9_000_000), ("behind", 8_000_000)].map(|(name, ballot)| operation(Verb::Claim, name, ballot));
    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
    for reply in ask_all(&node, &claims).await {
        assert_eq!(reply.unwrap_err().kind(), FaultKind::Busy);
    }
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(ask_all(&node, &claims[1..]).await.pop().unwrap().unwrap(), Outcome::Granted { fence: 8_000_000 });
    assert_eq!(server.high(""), 8_250_000);
}

/// Before the client's next check, the server may be a master again, with another server's data.
#[tokio::test]
async fn a_write_that_reaches_a_replica_ends_the_connection() {
    let server = Server::start().await;
    let node = holding(&server).await;
    // Use a master that sends nothing: otherwise a copy of its data would replace the record.
    let master = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    server.command(&["REPLICAOF", "127.0.0.1", &master.local_addr().unwrap().port().to_string()]);
    let replies = a_claim_before_a_renewal_and_a_release(&node).await;
    assert!(replies.iter().all(Result::is_err), "{replies:?}");
    assert!(replies[0].as_ref().unwrap_err().to_string().contains("READONLY"), "{replies:?}");
    eventually("it is known as a replica", async || !node.status().state.is_admitted()).await;
}

/// A fence that is too far ahead for `high` is kept until `high` includes it. But one client's
/// clock must not make the keys of all names live for a day.
#[tokio::test]
async fn fence_ahead_of_the_clock_is_kept_long_until_recorded() {
    let clock = Clockwork::start("+0").await;
    let (server, node) = (&clock.server, real(&clock.server).await);
    let (day, time) = (86_400, u64::try_from(clock.time()).unwrap());
    let ask = async |verb, name: &str, ballot| {
        let asked = Asked { ttl: 300 * SECOND, ..operation(verb, name, ballot) };
        ask_all(&node, &[asked]).await.pop().unwrap().unwrap();
        server.command(&["PTTL", &format!("quorumlock:{{{name}}}")]).parse::<u64>().unwrap() / 1_000
    };
    let high = || server.high("");
    let (far, near) = ((time + day + 60) * 1_000_000, (time + day - 600) * 1_000_000);
    assert!(ask(Verb::Claim, "near", near).await <= 450);
    assert!(ask(Verb::Claim, "far", far).await > day);
    assert_eq!(high(), near);
    assert!(ask(Verb::Renew, "near", near).await <= 450);
    assert!(ask(Verb::Renew, "far", far).await > day);
    clock.set("+120");
    assert!(ask(Verb::Renew, "far", far).await <= 450);
    assert_eq!(high(), far);
}

/// Point 2 of "What is not promised": a node that forgets also forgets a revocation.
#[tokio::test]
async fn node_that_forgot_a_revocation_renews_the_revoked_owner() {
    let server = Server::start().await;
    let node = real(&server).await;
    ask_all(&node, &[operation(Verb::Claim, "taken", 7), operation(Verb::Revoke, "taken", 9)]).await;
    let renew = async || ask_all(&node, &[operation(Verb::Renew, "taken", 7)]).await.pop().unwrap().unwrap();
    assert_eq!(renew().await, Outcome::Lost { holder: String::new() });
    server.command(&["DEL", "quorumlock:{taken}"]);
    assert_eq!([renew().await, renew().await], [Outcome::Healed, Outcome::Extended]);
}

/// If the node forgot the revocation, a late renewal would heal the name, and the next renewal
/// would count. A release is remembered only as long as a fence.
#[tokio::test]
async fn revocation_of_an_unused_name_is_remembered_for_25_hours() {
    let clock = Clockwork::start("+0").await;
    let node = real(&clock.server).await;
    let revoked = Asked { owner: "c/1/x/2".into(), ..operation(Verb::Revoke, "taken", 7) };
    let asked = [revoked.clone(), operation(Verb::Release, "taken", 8)];
    assert!(ask_all(&node, &asked).await.iter().all(Result::is_ok));
    let renew = async |owner: &str| {
        let renewal = Asked { owner: owner.into(), ..operation(Verb::Renew, "taken", 7) };
        ask_all(&node, &[renewal]).await.pop().unwrap().unwrap()
    };
    clock.set("+89000");
    assert_eq!(renew(&revoked.owner).await, Outcome::Lost { holder: String::new() });
    clock.set("+91000");
    assert_eq!(renew(&revoked.owner).await, Outcome::Healed);
}
