//! The end of a `Quorum`: by a shutdown, with its last handle, or with its process.

use std::time::Duration;

use quorumlock::{LostReason, Released};
use tokio::runtime::Handle;

use crate::common::{PATIENCE, eventually, is_taken};
use crate::world::{Redis, World};

const SECOND: Duration = Duration::from_secs(1);
const NAME: &str = "closing-time";

async fn shutdown_drains_releases_ends_holds_and_closes(world: impl World) {
    let client = world.client_with(|builder| builder.client_name(NAME).ttl(600 * SECOND)).await;
    let held = client.lock("held").acquire(PATIENCE).await.unwrap();
    let released = client.lock("released").acquire(PATIENCE).await.unwrap();
    world.held_everywhere("held").await;
    world.held_everywhere("released").await;
    drop(released);
    let waiting = client.lock("held");
    let waiter = async { waiting.acquire(60 * SECOND).await.unwrap_err() };
    let (waiter, ()) = tokio::join!(waiter, client.shutdown(PATIENCE));
    assert!(waiter.is_closed(), "{waiter}");
    assert_eq!(held.lost().await, LostReason::Closed);
    assert!(!held.is_held());
    assert_eq!((world.holders("held").await, world.holders("released").await), (0, 0), "drained");
    assert!(client.lock("more").acquire(SECOND).await.unwrap_err().is_closed());
    assert!(client.lock("more").try_acquire().await.unwrap_err().is_closed());
    assert!(client.inspect("more").await.unwrap_err().is_closed());
    assert_eq!(held.release().await.unwrap(), Released::AlreadyExpired);
    for node in world.all() {
        eventually("the connection is closed", async || world.connections(node, NAME) == 0).await;
    }
}

async fn a_shutdown_does_not_wait_for_hung_nodes_past_its_deadline(world: impl World) {
    // A release that waits for the hung node would wait for as long as the ttl.
    let client = world.client_with(|builder| builder.ttl(600 * SECOND)).await;
    let _held = client.lock("held").acquire(PATIENCE).await.unwrap();
    world.hang(0);
    let began = tokio::time::Instant::now();
    client.shutdown(Duration::from_millis(300)).await;
    assert!(began.elapsed() <= Duration::from_millis(301) + world.slack(), "{:?}", began.elapsed());
    world.resume(0);
}

async fn dropping_every_handle_leaves_no_task_and_no_connection(world: impl World) {
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let client = world.client_with(|builder| builder.client_name(NAME).ttl(600 * SECOND)).await;
    let lock = client.lock("dropped");
    let guard = lock.acquire(PATIENCE).await.unwrap();
    let entered = guard.reenter().unwrap();
    world.held_everywhere("dropped").await;
    assert!(tasks() > before);
    drop((client, lock, guard));
    assert!(entered.is_held(), "the last guard keeps the quorum");
    drop(entered);
    eventually("no task stays", async || tasks() == before).await;
    world.freed("dropped").await;
    for node in world.all() {
        eventually("no connection stays", async || world.connections(node, NAME) == 0).await;
    }
}

async fn a_dropped_quorum_of_dead_and_hung_nodes_leaves_no_task(mut world: impl World) {
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let client = world.client_with(|builder| builder.ttl(2 * SECOND).node_timeout(SECOND / 5)).await;
    let guard = client.lock("dropped").acquire(PATIENCE).await.unwrap();
    world.hang(0);
    world.kill(1);
    drop((client, guard));
    eventually("no task stays", async || tasks() == before).await;
    world.resume(0);
}

both! {
    3 nodes: shutdown_drains_releases_ends_holds_and_closes, a_shutdown_does_not_wait_for_hung_nodes_past_its_deadline,
        dropping_every_handle_leaves_no_task_and_no_connection, a_dropped_quorum_of_dead_and_hung_nodes_leaves_no_task;
}

/// These tests need real servers, because a process must die.
mod killed {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    use crate::common::program::command;

    const NODES: &str = "QUORUMLOCK_TEST_NODES";
    /// The ttl is long, because the child may stall for most of this time.
    const TTL: Duration = Duration::from_secs(24);

    #[tokio::test]
    async fn redis_a_killed_process_frees_the_lock_by_its_ttl() {
        let world = Redis::start(3).await;
        let urls: Vec<_> = world.servers.iter().map(crate::common::server::Server::url).collect();
        let mut child = command(std::env::current_exe().unwrap())
            .args(["--exact", "closing::killed::child_that_holds_until_it_is_killed", "--ignored", "--nocapture"])
            .env(NODES, urls.join(","))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        assert!(output.lines().any(|line| line.unwrap().contains("holding")), "the child holds the lock");
        let client = world.client().await;
        assert!(is_taken(&client.lock("killed")).await);
        child.kill().unwrap();
        let began = tokio::time::Instant::now();
        child.wait().unwrap();
        assert_eq!(world.holders("killed").await, 3, "nobody released it");
        let guard = client.lock("killed").acquire(PATIENCE).await.unwrap();
        assert!(began.elapsed() <= TTL + world.slack(), "free after {:?}", began.elapsed());
        assert!(guard.is_held());
    }

    #[tokio::test]
    #[ignore = "the other half of a_killed_process_frees_the_lock_by_its_ttl, which starts it"]
    async fn child_that_holds_until_it_is_killed() {
        let Ok(nodes) = std::env::var(NODES) else { return };
        let builder = crate::common::builder().nodes(nodes.split(',')).max_ttl(Duration::ZERO).ttl(TTL);
        let client = builder.connect().await.unwrap();
        let guard = client.lock("killed").acquire(PATIENCE).await.unwrap();
        eventually("three nodes hold it", async || {
            let seen = client.inspect("killed").await.unwrap();
            seen.nodes.iter().all(|(_, said)| said.as_ref().is_ok_and(|said| said.holder.is_some()))
        })
        .await;
        println!("holding");
        // If the parent has ended, this process ends by itself.
        tokio::time::sleep(2 * PATIENCE).await;
        drop(guard);
    }
}
