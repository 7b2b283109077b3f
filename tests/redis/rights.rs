//! Missing rights of a node's user, and what fails without them.

use std::time::Duration;

use futures::StreamExt;
use quorumlock::{Leader, NodeState, Quorum, Released};

use crate::common::logs::Logs;
use crate::common::server::Server;
use crate::common::{ConnectAll, PATIENCE, answered, confirmed, eventually, inspected, released, servers, unguarded};
use crate::sessions::calls_of;

const SECOND: Duration = Duration::from_secs(1);

/// Clients that log in as a user with `rights`, without a quarantine.
async fn clients<const N: usize>(servers: &[Server], rights: &[&str]) -> [Quorum; N] {
    let mut words = vec!["ACL", "SETUSER", "locks", "on", ">pw", "~quorumlock:*", "+@all"];
    words.extend(rights);
    for server in servers {
        assert_eq!(server.command(&words), "OK");
    }
    let urls = servers.iter().map(|server| format!("redis://locks:pw@127.0.0.1:{}", server.port()));
    let builder = crate::common::builder().nodes(urls).max_ttl(Duration::ZERO);
    let connected = futures::future::join_all((0..N).map(|_| builder.clone().connect())).await;
    let connected: Vec<_> = connected.into_iter().map(Result::unwrap).collect();
    connected.try_into().unwrap()
}

/// Hands the lock on `name` from the first client to the second, which waits for it.
async fn hand_over(first: &Quorum, second: &Quorum, name: &str) -> Released {
    let guard = first.lock(name).acquire(PATIENCE).await.unwrap();
    let next = second.lock(name);
    let waits = tokio::spawn(async move { next.acquire(PATIENCE).await });
    let on_every_node = async || {
        let seen = first.inspect(name).await.unwrap();
        seen.nodes.iter().all(|(_, said)| said.as_ref().is_ok_and(|entry| entry.waiting == 1))
    };
    eventually("it waits on every node", on_every_node).await;
    let ended = released(guard.release()).await;
    released(waits.await.unwrap().unwrap().release()).await;
    ended
}

#[tokio::test]
async fn client_without_the_right_to_its_channel_waits_in_no_queue() {
    let servers = servers(3).await;
    let [first, second] = clients(&servers, &["resetchannels"]).await;
    let guard = first.lock("contended").acquire(PATIENCE).await.unwrap();
    let calls = || servers.iter().map(calls_of).collect::<Vec<_>>();
    let before = calls();
    let waits = tokio::spawn(async move { second.lock("contended").acquire(PATIENCE).await });
    let asked = async || calls().iter().zip(&before).all(|(now, before)| *now >= before + 3);
    eventually("it has asked again", asked).await;
    let seen = inspected(&first, "contended").await;
    assert!(seen.nodes.iter().all(|(_, said)| said.as_ref().is_ok_and(|entry| entry.waiting == 0)));
    assert_eq!(released(guard.release()).await, Released::Released);
    assert!(waits.await.unwrap().unwrap().is_held());
}

/// The ids of the connections of the user `locks`.
fn connections(server: &Server) -> Vec<String> {
    let list = server.command(&["CLIENT", "LIST"]);
    let ours = list.lines().filter(|line| line.contains("user=locks"));
    ours.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[tokio::test]
async fn node_that_sends_no_wakeups_is_warned_of_once_with_the_right() {
    let logs = Logs::capture();
    let servers = servers(3).await;
    let [first, second] = clients(&servers, &["resetchannels"]).await;
    let warnings = || {
        let text = logs.text();
        text.lines().filter(|line| line.starts_with("WARN") && line.contains("&quorumlock:wake:*")).count()
    };
    eventually("three nodes of two clients are warned of", async || warnings() == 6).await;
    let (old, quorums) = (servers.iter().map(connections).collect::<Vec<_>>(), [&first, &second]);
    for server in &servers {
        server.command(&["CLIENT", "KILL", "USER", "locks"]);
    }
    let fresh = |(server, old): (&Server, &Vec<String>)| {
        let now = connections(server);
        now.len() == 2 && now.iter().all(|id| !old.contains(id))
    };
    let up = |quorum: &&Quorum| quorum.nodes().iter().all(|node| node.state == NodeState::Up);
    let again = async || servers.iter().zip(&old).all(fresh) && quorums.iter().all(up);
    eventually("both are connected again", again).await;
    for quorum in quorums {
        released(quorum.lock("again").acquire(PATIENCE).await.unwrap().release()).await;
    }
    assert_eq!(warnings(), 6, "it is said once\n{}", logs.text());
}

#[tokio::test]
async fn rights_that_the_readme_names_are_enough_for_wakeups() {
    let logs = Logs::capture();
    let servers = servers(3).await;
    let [first, second] = clients(&servers, &["resetchannels", "&quorumlock:*", "-@dangerous", "+info"]).await;
    assert_eq!(hand_over(&first, &second, "woken").await, Released::Released);
    assert!(!logs.text().contains("no wake-ups"), "{}", logs.text());
}

/// Waits until this client sees this leader with this value.
async fn seen(looks: &Quorum, leader: &Leader, value: &str) {
    let mut leaders = looks.election("it").observe().unwrap().boxed();
    let until = async {
        while leaders.next().await.is_none_or(|seen| (seen.token, &*seen.value) != (leader.token(), value)) {}
    };
    tokio::time::timeout(PATIENCE, until).await.unwrap();
}

/// Without news, the observer asks every 5 s. The client logs the refusal once for each node, and
/// rarely tries again.
#[tokio::test]
async fn observer_without_the_right_to_channels_sees_leaders_later() {
    let logs = Logs::capture();
    let servers = servers(3).await;
    let [leads, looks] = clients(&servers, &["resetchannels"]).await;
    let leader = leads.election("it").campaign(PATIENCE).await.unwrap();
    confirmed(leader.proclaim("here")).await;
    seen(&looks, &leader, "here").await;
    let mut leaders = looks.election("it").observe().unwrap().boxed();
    for value in ["1", "2"] {
        confirmed(leader.proclaim(value)).await;
        let comes = async { while leaders.next().await.is_none_or(|seen| seen.value != value) {} };
        tokio::time::timeout(PATIENCE, comes).await.unwrap();
    }
    eventually("all are up", async || looks.nodes().iter().all(|node| node.state == NodeState::Up)).await;
    let said =
        || logs.text().lines().filter(|line| line.starts_with("WARN") && line.contains("no news of names")).count();
    eventually("each node refuses", async || said() >= 3).await;
    assert_eq!(said(), 3, "once for each node\n{}", logs.text());
    released(leader.resign()).await;
}

#[tokio::test]
async fn a_leader_that_may_not_publish_proclaims_and_is_seen() {
    // Capture the log here too. Otherwise a log line that runs first in this test would stay
    // disabled for other tests.
    let _logs = Logs::capture();
    let servers = servers(3).await;
    let [leads] = clients(&servers, &["resetchannels"]).await;
    let looks = unguarded(&servers).connect_all().await;
    let mut leaders = looks.election("it").observe().unwrap().boxed();
    let leader = leads.election("it").campaign(PATIENCE).await.unwrap();
    let seen = async {
        while leaders.next().await.is_none_or(|seen| seen.token != leader.token()) {}
        confirmed(leader.proclaim("here")).await;
        while leaders.next().await.is_none_or(|seen| seen.value != "here") {}
    };
    tokio::time::timeout(PATIENCE, seen).await.unwrap();
    assert_eq!(released(leader.resign()).await, Released::Released);
}

/// The rights that docs/rights.md gives.
fn least() -> Vec<&'static str> {
    let line = include_str!("../../docs/rights.md").lines().find(|line| line.starts_with("ACL SETUSER locks"));
    line.unwrap().split(' ').skip(5).collect()
}

/// Redis 6.2 gives new users all channels, and then refuses a rule for a single channel.
#[tokio::test]
async fn documented_users_are_taken_where_new_ones_have_all_channels() {
    let server = Server::with(&["--acl-pubsub-default", "allchannels"]).await;
    let pages = [include_str!("../../docs/deploy.md"), include_str!("../../docs/rights.md")];
    let users = pages
        .iter()
        .flat_map(|page| page.lines())
        .filter_map(|line| line.strip_prefix("ACL SETUSER locks ").or_else(|| line.strip_prefix("user locks ")));
    let users: Vec<_> = users.collect();
    assert_eq!(users.len(), 3, "{users:?}");
    for user in users {
        server.command(&["ACL", "DELUSER", "locks"]);
        let words: Vec<_> = ["ACL", "SETUSER", "locks"].into_iter().chain(user.split(' ')).collect();
        assert_eq!(server.command(&words), "OK", "{user}");
    }
}

#[tokio::test]
async fn least_rights_suffice_for_every_operation() {
    let logs = Logs::capture();
    let servers = servers(3).await;
    let rights = [&["reset", "on", ">pw", "resetchannels"][..], &least()].concat();
    let [first, second] = clients(&servers, &rights).await;
    assert!(servers[0].command(&["ACL", "GETUSER", "locks"]).contains("-@all"), "no more than these");
    assert_eq!(hand_over(&first, &second, "lock").await, Released::Released);
    let readers = first.rw_lock("readers");
    let (one, other) = (readers.read(PATIENCE).await.unwrap(), second.rw_lock("readers").read(PATIENCE).await.unwrap());
    let another = second.rw_lock("readers");
    assert!(answered(|| another.try_write()).await.is_none());
    released(one.release()).await;
    released(other.release()).await;
    released(readers.write(PATIENCE).await.unwrap().release()).await;
    let permits = first.semaphore("permits", 2).acquire(2, PATIENCE).await.unwrap();
    let another = second.semaphore("permits", 2);
    assert!(answered(|| another.try_acquire(1)).await.is_none());
    released(permits.release()).await;
    let [one, other] = [&first, &second].map(|quorum| quorum.once("once", 600 * SECOND));
    let done = answered(|| one.claim()).await.unwrap();
    released(done.done()).await;
    assert!(answered(|| other.claim()).await.is_none());
    let session = first.session().grant(PATIENCE).await.unwrap();
    session.lock(["a", "b"], PATIENCE).await.unwrap();
    released(session.unlock(["a"])).await;
    released(session.revoke()).await;
    let leader = first.election("it").campaign(PATIENCE).await.unwrap();
    confirmed(leader.proclaim("here")).await;
    seen(&second, &leader, "here").await;
    released(leader.resign()).await;
    let held = first.lock("held").describe("why").acquire(PATIENCE).await.unwrap();
    let listed = async || {
        let mut names = second.held_names();
        let some = names.next().await.ok().flatten().unwrap_or_default();
        some.iter().any(|(name, _)| name == "held") && names.unread().is_empty()
    };
    eventually("each node is read, and the name is listed", listed).await;
    answered(|| second.revoke("held")).await;
    drop(held);
    assert!(!logs.text().contains("NOPERM") && !logs.text().contains("no wake-ups"), "{}", logs.text());
    for server in &servers {
        let refused = server.command(&["ACL", "LOG"]);
        assert!(!refused.contains("locks"), "{refused}");
    }
}
