//! Sets that have to wait: they get their names one after the other, and may lose a name while they
//! wait for another.

use std::pin::pin;
use std::time::Duration;

use quorumlock::Quorum;

use crate::common::{PATIENCE, answered, eventually, inspected, released};
use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);

/// The holder of `name` that a quorum of nodes names.
async fn holder(quorum: &Quorum, name: &str) -> Option<String> {
    inspected(quorum, name).await.holder().map(str::to_owned)
}

/// The set holds a, and waits for b. Somebody revokes a before the set renews it. Although b comes
/// at once, the set must acquire a again, with another owner.
async fn revoked_name_of_a_set_that_waits_is_taken_anew(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let held = client.lock("b").acquire(PATIENCE).await.unwrap();
    let lock = other.lock_all(["a", "b"]);
    let mut set = pin!(lock.acquire(600 * SECOND));
    let waits = async || crate::semaphores::waits(&client, "b").await;
    let holds = async || holder(&client, "a").await.is_some();
    tokio::select! {
        _ = &mut set => panic!("b is held"),
        () = eventually("it holds a and waits for b", async || holds().await && waits().await) => {}
    }
    let revoked = holder(&client, "a").await;
    world.answer(async || client.revoke("a").await).await.unwrap();
    released(held.release()).await;
    let set = set.await.unwrap();
    assert!(set.is_held());
    assert_ne!(holder(&client, "a").await, revoked, "what was revoked is held on");
}

/// The session waits for a. Once it has a, it gets b and c together, with one owner.
async fn name_granted_together_with_another_is_unlocked_alone(world: impl World) {
    let ttl = 2 * world.ttl();
    let client = world.client_with(|builder| builder.ttl(ttl)).await;
    let other = world.client().await;
    let held = client.lock("a").acquire(PATIENCE).await.unwrap();
    let session = client.session().grant(PATIENCE).await.unwrap();
    let mut locking = pin!(session.lock(["a", "b", "c", "d"], 600 * SECOND));
    tokio::select! {
        _ = &mut locking => panic!("a is held"),
        () = tokio::time::sleep(SECOND / 10) => {
            released(held.release()).await;
        }
    }
    locking.await.unwrap();
    let owners = async || {
        let mut owners = Vec::new();
        for name in ["a", "b", "c", "d"] {
            owners.push(holder(&other, name).await);
        }
        owners
    };
    let before = owners().await;
    assert!(before.iter().all(Option::is_some) && before[1] == before[2] && before[0] != before[1], "{before:?}");
    released(session.unlock(["b"])).await;
    world.freed("b").await;
    let lock = other.lock("b");
    assert!(answered(|| lock.try_acquire()).await.is_some());
    tokio::time::sleep(ttl * 3 / 2).await;
    let after = owners().await;
    assert!(
        session.is_alive() && after[1].is_none() && after[2..] == before[2..] && after[0] == before[0],
        "{after:?}"
    );
    released(session.revoke()).await;
    client.quiet().await;
    assert!(owners().await.iter().all(Option::is_none));
}

both! {
    3 nodes:
        revoked_name_of_a_set_that_waits_is_taken_anew,
        name_granted_together_with_another_is_unlocked_alone;
}

/// Each client in these tests has a network of its own.
mod apart {
    use std::sync::Arc;

    use crate::fault::{Faults, FaultyNode};
    use quorumlock::QuorumBuilder;
    use quorumlock::host::{Host, TokioTime};
    use quorumlock::node::{Inspection, MemoryNode, Name, Node, Outcome, Verb};
    use tokio::runtime::Handle;
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::common::asked::Asked;
    use crate::common::node::ask;

    const TTL: Duration = Duration::from_secs(3);
    const MS: Duration = Duration::from_millis(1);

    struct Side {
        quorum: Quorum,
        links: Vec<Faults>,
    }

    struct Nodes {
        host: Arc<dyn Host>,
        stores: Vec<Arc<MemoryNode>>,
    }

    impl Nodes {
        fn start() -> Self {
            let host: Arc<dyn Host> = Arc::new(TokioTime::new(Handle::current()));
            let store = |_| Arc::new(MemoryNode::new("memory://", host.clone()));
            Self { stores: (0..3).map(store).collect(), host }
        }

        fn side(&self) -> Side {
            let link = |store: &Arc<MemoryNode>| FaultyNode::new(store.clone(), self.host.clone());
            let (nodes, links): (Vec<_>, Vec<_>) = self.stores.iter().map(link).unzip();
            let nodes = nodes.into_iter().map(|node| node as Arc<dyn Node>).collect();
            let builder: QuorumBuilder = Quorum::builder().max_ttl(Duration::ZERO).ttl(TTL);
            Side { quorum: builder.over(self.host.clone(), nodes).unwrap(), links }
        }

        /// Sends an operation to a node directly, past the clients.
        async fn ask(&self, node: usize, verb: Verb, name: &str, ballot: u64) -> Outcome {
            let names = [Name::new("quorumlock:", name).unwrap()].into();
            let operation = Asked { verb, owner: "nobody".into(), ballot, ..Asked::inspect(names) };
            ask(&*self.stores[node], &operation).await.unwrap()
        }

        async fn look(&self, node: usize, name: &str) -> Inspection {
            match self.ask(node, Verb::Inspect, name, 0).await {
                Outcome::Inspected(mut entries) => entries.remove(0),
                other => panic!("a question was answered with {other}"),
            }
        }

        /// Raises the fence of a name on all nodes.
        async fn raise(&self, name: &str, fence: u64) {
            for node in 0..3 {
                self.ask(node, Verb::Release, name, fence).await;
            }
        }

        /// The owner of a name, if all nodes name the same owner.
        async fn owner(&self, name: &str) -> Option<String> {
            let mut owners = Vec::new();
            for node in 0..3 {
                owners.push(self.look(node, name).await.holder);
            }
            owners.iter().all(|owner| *owner == owners[0]).then(|| owners.swap_remove(0)).flatten()
        }
    }

    /// The ballots of b are an hour ahead of the ballots of a. A set has both names, and its client
    /// is cut off. Another client then gets a, with a token between the tokens of a and b. The
    /// set's late release must not end this lock.
    #[tokio::test(start_paused = true)]
    async fn set_that_failed_ends_no_later_lock_of_one_of_its_names() {
        let nodes = Nodes::start();
        let (set, other) = (nodes.side(), nodes.side());
        let held = other.quorum.lock("b").acquire(PATIENCE).await.unwrap();
        let lock = set.quorum.lock_all(["a", "b"]);
        let waiting = tokio::spawn(async move { lock.acquire(60 * SECOND).await });
        let waits = async || nodes.look(0, "b").await.waiting > 0;
        eventually("it has a and waits for b", async || nodes.owner("a").await.is_some() && waits().await).await;
        let ahead = held.token() + 3_600_000_000;
        nodes.raise("b", ahead).await;
        let owner = nodes.owner("b").await;
        held.release().await.unwrap();
        let is_its = async || nodes.owner("b").await.is_some_and(|now| Some(now) != owner);
        set.links.iter().for_each(|link| link.hold_back(Verb::Renew));
        eventually("it has b", is_its).await;
        // After this pause, the client of the set knows that it has b.
        sleep(MS).await;
        assert!(nodes.look(0, "b").await.ballot > ahead, "a renewal of both names is on its way");
        set.links.iter().for_each(Faults::pause);

        let later = other.quorum.lock("a").acquire(PATIENCE).await.unwrap();
        assert!(later.token() < ahead);
        set.links.iter().for_each(|link| {
            link.let_go();
            link.resume();
        });
        sleep(2 * TTL).await;
        assert!(later.is_held(), "a set that had lost the name before has ended this");
        later.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }

    /// A set of many names meets a lock of another client, on a name in the middle. After the time
    /// `held`, the other client releases this lock. Returns how long the set needed after this
    /// release, and how many claims it sent to a node.
    async fn won_after(held: Duration) -> (Duration, u64) {
        let nodes = Nodes::start();
        let (set, other) = (nodes.side(), nodes.side());
        set.links.iter().for_each(|link| link.delay(10 * MS, 10 * MS));
        let in_the_way = other.quorum.lock("name/300").acquire(PATIENCE).await.unwrap();
        let lock = set.quorum.lock_all((100..700).map(|number| format!("name/{number}")));
        let waiting = tokio::spawn(async move { lock.acquire(10 * SECOND).await });
        eventually("it has met the other", async || set.links[0].asked(Verb::Claim) > 1).await;
        sleep(held).await;
        in_the_way.release().await.unwrap();
        let released = Instant::now();
        let won = waiting.await.unwrap().expect("nothing is in its way");
        let took = released.elapsed();
        won.release().await.unwrap();
        (took, set.links[0].asked(Verb::Claim))
    }

    #[tokio::test(start_paused = true)]
    async fn set_of_many_names_is_won_soon_after_one_was_held() {
        for held in [Duration::ZERO, SECOND / 10, 3 * SECOND] {
            let (took, asked) = won_after(held).await;
            assert!(took < SECOND && asked < 60, "{held:?}: {took:?}, {asked} claims");
        }
    }
}
