//! `quorumlock run` while too few nodes answer for a quorum: what it writes as a holder and as a
//! waiter.

use super::{Background, at_once, line_of, over, run, until};
use crate::common::server::Server;
use crate::common::servers;

/// What happens to two of three nodes.
#[derive(Clone, Copy)]
enum Trouble {
    /// The nodes do not answer.
    Hang,
    /// The nodes answer with an error.
    RefuseWrites,
}

impl Trouble {
    fn begin(self, server: &Server) {
        match self {
            Self::Hang => server.stop(),
            Self::RefuseWrites => _ = server.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]),
        }
    }

    fn end(self, server: &Server) {
        match self {
            Self::Hang => server.resume(),
            Self::RefuseWrites => _ = server.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]),
        }
    }
}

/// Waits until the node has answered two more renewals.
fn renewed_twice(server: &Server) {
    for _ in 0..2 {
        let before = server.ends("job");
        until("the node gets another renewal", || server.ends("job") > before);
    }
}

/// Checks that no note is repeated: notes with `lost` and notes with `back` take turns. (If the
/// machine stalls, there may be more turns.)
fn take_turns(said: &str, lost: &str, back: &str) {
    let notes = said.lines().filter(|line| line.contains(lost) || line.contains(back));
    let are_lost: Vec<_> = notes.map(|line| line.contains(lost)).collect();
    assert!(are_lost[0] && are_lost.windows(2).all(|pair| pair[0] != pair[1]), "{said}");
}

#[tokio::test]
async fn holder_without_a_quorum_is_told_once_when_sigterm_comes() {
    let cases = [
        (Trouble::Hang, "1s", "did not answer", servers(3).await),
        (Trouble::RefuseWrites, "10s", "did not renew it", servers(3).await),
    ];
    at_once(cases, |(trouble, node_timeout, what, servers)| {
        let folder = tempfile::tempdir().unwrap();
        let options = ["--ttl", "60s", "--kill-grace", "1s", "--node-timeout", node_timeout];
        let script = "echo > $0/held; exec sleep 1000";
        let mut holder = Background::start(&mut run(&servers, "job", &options, script, folder.path()));
        line_of(&folder.path().join("held"));
        // The third node may not have been connected when the lock was acquired.
        until("all nodes hold it", || servers.iter().all(|server| server.ends("job") > 0));
        servers[..2].iter().for_each(|server| trouble.begin(server));
        // If the machine stalls, the third node may not answer in time either.
        let said = holder.says(&format!(" of 3 nodes {what}. Unless a quorum renews it within "));
        let begins = |missing| format!("the lock on \"job\" could not be renewed: {missing} of 3 nodes {what}. ");
        assert!([2, 3].iter().any(|missing| said.contains(&begins(missing))), "{said}");
        holder.says(" s, the command gets SIGTERM\n");
        renewed_twice(&servers[2]);
        servers[..2].iter().for_each(|server| trouble.end(server));
        let said = holder.says("quorumlock: the lock on \"job\" is renewed again\n");
        take_turns(&said, "could not be renewed: ", "is renewed again");
        // The log names only nodes that are down.
        let is_named = said.contains(&format!("SIGTERM\n  {}: ", servers[0].url()));
        assert_eq!(is_named, matches!(trouble, Trouble::RefuseWrites), "{said}");
    });
}

#[tokio::test]
async fn waiter_is_told_at_once_that_the_quorum_is_lost_and_is_back() {
    let servers = servers(3).await;
    servers.iter().for_each(|server| server.take("job", "somebody/else"));
    let mut waiter = Background::start(over(&servers).args(["run", "job", "--node-timeout", "1s", "--", "true"]));
    // On a busy machine, the first note may say that no quorum votes yet, or may name no holder.
    waiter.says("for \"job\", for 60 min at most");
    let lost = "quorumlock: waiting for a quorum of nodes, and then for \"job\", for ";
    let back = "quorumlock: a quorum votes now; waiting for \"job\", for ";
    for times in 1..=2 {
        servers[..2].iter().for_each(Server::stop);
        until("the loss is told", || waiter.err().text().matches(lost).count() >= times);
        servers[..2].iter().for_each(Server::resume);
        until("the return is told", || waiter.err().text().matches(back).count() >= times);
    }
    let said = waiter.err().text();
    take_turns(&said, lost, back);
    let down = format!(" of 3 nodes vote: {} is down: ", servers[0].url());
    assert!(said.contains(" more at most; ") && said.contains(&down), "{said}");
}
