//! A node forgets a grant while the grant is on its way, and a holder needs this node for its
//! quorum. There must not be two holders.
//!
//! A holds the name on two of three nodes, and cannot reach one of the two any more. The third node
//! grants the name to B, and forgets this grant. After A's next renewal, the third node holds the
//! name for A. If the third node's `extended` counted at once, A's deadline would move forward
//! while B still counts the forgotten grant.

use std::time::Duration;

use crate::common::PATIENCE;
use quorumlock::{Lease, QuorumBuilder, QuorumLock};

const SECOND: Duration = Duration::from_secs(1);

/// The settings of A, which gives up a round soon.
fn hasty(builder: QuorumBuilder) -> QuorumBuilder {
    builder.options(quorumlock::LockOptions::default().round_timeout(SECOND / 5))
}

/// The settings of B, which waits for a long time.
fn patient(builder: QuorumBuilder) -> QuorumBuilder {
    builder.options(quorumlock::LockOptions::default().round_timeout(SECOND * 19 / 10))
}

/// Acquires the lock, and returns the token. At this moment, the other client must not hold the
/// lock.
async fn believes(lock: QuorumLock, other: Lease) -> u64 {
    let guard = lock.acquire(PATIENCE).await.expect("nodes 0 and 1 grant it");
    // Check the other client first: a lock that has ended never begins again.
    let (other, this) = (other.is_held(), guard.is_held());
    assert!(this && !other, "two hold it");
    guard.token()
}

mod memory {
    use std::sync::Arc;

    use crate::fault::{Faults, FaultyNode};
    use quorumlock::host::{Host, TokioTime};
    use quorumlock::node::{MemoryNode, Node};
    use quorumlock::{LostReason, Quorum};
    use tokio::runtime::Handle;
    use tokio::time::{Instant, sleep, sleep_until};

    use super::*;

    const TTL: Duration = Duration::from_secs(3);
    const MAX_TTL: Duration = Duration::from_secs(5);

    /// A client with a network of its own.
    struct Side {
        quorum: Quorum,
        links: Vec<Faults>,
    }

    fn side(host: &Arc<dyn Host>, stores: &[Arc<MemoryNode>], settings: fn(QuorumBuilder) -> QuorumBuilder) -> Side {
        let link = |store: &Arc<MemoryNode>| FaultyNode::new(store.clone(), host.clone());
        let (nodes, links): (Vec<_>, Vec<_>) = stores.iter().map(link).unzip();
        let nodes = nodes.into_iter().map(|node| node as Arc<dyn Node>).collect();
        let quorum = settings(Quorum::builder().max_ttl(MAX_TTL)).ttl(TTL).over(host.clone(), nodes).unwrap();
        Side { quorum, links }
    }

    fn store(host: &Arc<dyn Host>) -> Arc<MemoryNode> {
        Arc::new(MemoryNode::new("memory://", host.clone()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_grant_and_a_node_that_forgot_make_no_two_holders() {
        let host: Arc<dyn Host> = Arc::new(TokioTime::new(Handle::current()));
        let stores: Vec<_> = (0..3).map(|_| store(&host)).collect();
        let (a, b) = (side(&host, &stores, hasty), side(&host, &stores, patient));
        let began = Instant::now();
        a.links[0].pause();
        let first = a.quorum.lock("it").acquire(PATIENCE).await.unwrap();
        a.links[1].pause();

        sleep_until(began + TTL / 2).await;
        b.links[1].timeout(4 * SECOND);
        b.links[1].pause();
        let second = tokio::spawn(believes(b.quorum.lock("it"), first.lease()));
        sleep(Duration::from_millis(1)).await;
        let fresh = store(&host);
        a.links[0].restart(fresh.clone(), MAX_TTL);
        b.links[0].restart(fresh, MAX_TTL);

        // At this time, A's hold on node 1 has ended.
        sleep_until(began + TTL + Duration::from_millis(60)).await;
        b.links[1].resume();
        let second = second.await.unwrap();
        // B wins in a later round, since B knows that node 0 forgot its first grant to B.
        assert!(began.elapsed() < TTL + SECOND, "{:?}", began.elapsed());
        assert!(second > first.token());
        assert_eq!(first.lost().await, LostReason::Expired);
    }
}

mod redis {
    use quorumlock::{NodeState, Quorum};
    use tokio::time::sleep_until;

    use super::*;
    use crate::common::proxy::{Proxy, Way};
    use crate::common::server::Server;
    use crate::common::{eventually, servers};

    /// A node votes once its record is a second older than this ttl.
    const TTL: Duration = Duration::from_secs(2);

    /// A client with a network of its own. All nodes vote for this client.
    async fn side(servers: &[Server], settings: fn(QuorumBuilder) -> QuorumBuilder) -> (Quorum, Vec<Proxy>) {
        let proxies = futures::future::join_all(servers.iter().map(|server| Proxy::start(server.port()))).await;
        let builder = settings(crate::common::builder()).ttl(TTL).max_ttl(TTL).node_timeout(4 * SECOND);
        let named = |(node, proxy): (usize, &Proxy)| format!("{}?name=n{node}", proxy.url());
        let quorum = builder.nodes(proxies.iter().enumerate().map(named)).connect().await.unwrap();
        eventually("all nodes vote", async || quorum.nodes().iter().all(|node| node.state == NodeState::Up)).await;
        (quorum, proxies)
    }

    fn free(server: &Server) -> bool {
        server.holder("it").is_none()
    }

    #[tokio::test]
    async fn a_late_grant_and_a_node_that_forgot_make_no_two_holders() {
        let mut servers = servers(3).await;
        let ((a, from_a), (b, from_b)) = (side(&servers, hasty).await, side(&servers, patient).await);
        from_a[0].requests(Way::Held);
        let began = tokio::time::Instant::now();
        let first = a.lock("it").acquire(PATIENCE).await.unwrap();
        from_a[1].both(Way::Held);

        sleep_until(began + TTL / 2).await;
        from_b[1].requests(Way::Held);
        let second = tokio::spawn(believes(b.lock("it"), first.lease()));
        eventually("node 0 grants to B", async || !free(&servers[0])).await;
        // Give the answer time to arrive.
        tokio::time::sleep(Duration::from_millis(100)).await;
        servers[0].restart().await;
        from_a[0].requests(Way::Open);
        from_a[0].reset();
        eventually("A has healed node 0", async || !free(&servers[0]) || !first.is_held()).await;

        eventually("the key of A has ended on node 1", async || free(&servers[1])).await;
        from_b[1].requests(Way::Open);
        assert!(second.await.unwrap() > first.token());
    }
}
