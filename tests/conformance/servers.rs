//! Tests over real servers only: replicas, one server at two addresses, servers without the
//! scripts, and other servers behind an address.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use quorumlock::{ErrorKind, NodeState, Released};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::common::logs::Logs;
use crate::common::server::Server;
use crate::common::{ConnectAll, PATIENCE, answered, eventually, new_servers, refused, released, servers, unguarded};

const SECOND: Duration = Duration::from_secs(1);

mod redis {
    use super::*;

    #[tokio::test]
    async fn server_without_the_script_gets_it_within_the_same_call() {
        let servers = servers(3).await;
        let client = unguarded(&servers).connect_all().await;
        for _ in 0..3 {
            servers.iter().for_each(|server| assert_eq!(server.command(&["SCRIPT", "FLUSH"]), "OK"));
            let lock = client.lock("flushed");
            let guard = answered(|| lock.try_acquire()).await.expect("one round is enough");
            servers.iter().for_each(|server| assert_eq!(server.command(&["SCRIPT", "FLUSH"]), "OK"));
            assert_eq!(released(guard.release()).await, Released::Released);
        }
    }

    #[tokio::test]
    async fn the_same_server_behind_two_addresses_is_refused() {
        let servers = servers(1).await;
        let again = format!("redis://localhost:{}", servers[0].port());
        let error = refused(unguarded(&servers).node(again.clone()), "behind two addresses").await;
        assert!(error.is_config(), "{error}");
        let databases = crate::common::builder().nodes([servers[0].url(), format!("{}/1", servers[0].url())]);
        assert!(refused(databases.max_ttl(Duration::ZERO), "behind two addresses").await.is_config());
    }

    #[tokio::test]
    async fn a_replica_is_refused_and_named_as_one() {
        let servers = servers(3).await;
        replicate(&servers[2], &servers[0]).await;
        let quorum = unguarded(&servers).connect().await.unwrap();
        eventually("the replica is noticed", async || quorum.nodes()[2].state == NodeState::Replica).await;
        let lock = quorum.lock("voted");
        assert!(answered(|| lock.try_acquire()).await.is_some(), "two masters are a quorum");
        replicate(&servers[1], &servers[0]).await;
        assert!(refused(unguarded(&servers), "it is a replica").await.is_unavailable());
    }

    #[tokio::test]
    async fn a_master_that_becomes_a_replica_loses_its_vote() {
        let servers = servers(3).await;
        let quorum = unguarded(&servers).connect_all().await;
        replicate(&servers[2], &servers[0]).await;
        let _guard = quorum.lock("demoted").acquire(PATIENCE).await.unwrap();
        eventually("the replica is noticed", async || quorum.nodes()[2].state == NodeState::Replica).await;
        assert_eq!(servers[2].command(&["ROLE"]).split(' ').next(), Some("slave"));
    }

    async fn replicate(replica: &Server, master: &Server) {
        assert_eq!(replica.command(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]), "OK");
        eventually("it replicates", async || replica.command(&["ROLE"]).contains("connected")).await;
    }

    #[tokio::test]
    async fn a_server_that_may_evict_locks_is_warned_of() {
        let logs = Logs::capture();
        let evicting = Server::with(&["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"]).await;
        let _quorum = crate::common::builder().node(evicting.url()).max_ttl(Duration::ZERO).connect().await.unwrap();
        let text = logs.text();
        let warning = text.lines().find(|line| line.contains("may evict locks")).expect("a warning");
        assert!(warning.starts_with("WARN") && warning.contains("allkeys-lru") && warning.contains(&evicting.url()));
    }

    #[tokio::test]
    async fn the_restart_guard_switched_off_is_warned_of() {
        let logs = Logs::capture();
        let servers = servers(1).await;
        let _quorum = unguarded(&servers).connect_all().await;
        assert!(logs.text().contains("the restart guard is off"));
    }

    #[tokio::test]
    async fn fresh_servers_do_not_vote_until_forgotten_holds_have_ended() {
        let (fresh, others) = (new_servers(3).await, new_servers(3).await);
        let builder = |servers: &[Server]| crate::common::builder().nodes(servers.iter().map(Server::url));
        let careful = builder(&fresh).connect().await.unwrap();
        // At first, the nodes may not have answered their first hello.
        eventually("the quarantine is told", async || {
            let error = careful.lock("fresh").try_acquire().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            error.to_string().contains("quarantined for")
        })
        .await;
        assert_eq!(fresh[0].command(&["EXISTS", "quorumlock:{fresh}"]), "0", "it was asked for nothing");
        let brief = builder(&others).max_ttl(SECOND).ttl(SECOND).connect().await.unwrap();
        drop(brief.lock("fresh").acquire(PATIENCE).await.unwrap());
    }

    #[tokio::test]
    async fn other_process_behind_a_known_address_is_quarantined() {
        let servers = new_servers(2).await;
        servers[0].make_old();
        let mut proxy = Proxy::to(servers[0].port()).await;
        let address = format!("redis://127.0.0.1:{}", proxy.port);
        // The quarantine is long, so that the test sees it even if the machine stalls.
        let builder = crate::common::builder().node(address).max_ttl(20 * SECOND).ttl(20 * SECOND);
        let quorum = builder.connect().await.unwrap();
        eventually("it votes", async || quorum.nodes()[0].state == NodeState::Up).await;
        proxy.switch(servers[1].port()).await;
        eventually("the other process is doubted", async || {
            matches!(quorum.nodes()[0].state, NodeState::Quarantined { .. })
        })
        .await;
        assert!(quorum.lock("moved").acquire(PATIENCE).await.is_ok(), "after max_ttl");
    }
}

/// A port that can lead to another server, as that of a load balancer.
struct Proxy {
    port: u16,
    target: Arc<AtomicU16>,
    connections: Arc<tokio::sync::Mutex<JoinSet<()>>>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    async fn to(target: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let target = Arc::new(AtomicU16::new(target));
        let connections = Arc::<tokio::sync::Mutex<JoinSet<()>>>::default();
        let (to, accepted) = (target.clone(), connections.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let port = to.load(Ordering::SeqCst);
                accepted.lock().await.spawn(async move {
                    let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        Self { port, target, connections, _tasks: tasks }
    }

    /// Ends all connections; new ones go to `target`.
    async fn switch(&mut self, target: u16) {
        self.target.store(target, Ordering::SeqCst);
        self.connections.lock().await.shutdown().await;
    }
}
