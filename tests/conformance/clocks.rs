//! Wrong clocks. Most of these tests run over memory nodes: of a real server, tests can set only
//! the wall clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorumlock::host::{Host, Task, TokioTime};
use quorumlock::node::{MemoryNode, Name, Node, NodeStatus, Outcome, Request, Verb};
use quorumlock::rules::Tick;
use quorumlock::{LostReason, Quorum, Released};
use tokio::runtime::Handle;

use crate::common::PATIENCE;
use crate::common::asked::Asked;
use crate::common::clockwork::Clockwork;
use crate::common::node::{ask, real};
use crate::world::{Memory, World};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Tokio's clock, which can also jump ahead, as if the machine had been suspended; and a wall clock
/// that tests set.
#[derive(Debug)]
struct Warped {
    time: TokioTime,
    slept: Mutex<Duration>,
    wall: Mutex<Duration>,
}

impl Warped {
    fn new() -> Arc<Self> {
        let time = TokioTime::new(Handle::current());
        let wall = Mutex::new(time.wall());
        Arc::new(Self { time, slept: Mutex::default(), wall })
    }

    /// Suspends the machine for this time. The machine's monotonic clock counts this time, and the
    /// machine's timers do not.
    fn suspend(&self, time: Duration) {
        *self.slept.lock().unwrap() += time;
    }

    /// Sets back the clock from which a node takes its TIME.
    fn set_back(&self, time: Duration) {
        *self.slept.lock().unwrap() -= time;
    }
}

impl Host for Warped {
    fn now(&self) -> Tick {
        self.time.now() + *self.slept.lock().unwrap()
    }

    fn wall(&self) -> Duration {
        *self.wall.lock().unwrap()
    }

    fn random(&self) -> u64 {
        self.time.random()
    }

    fn spawn(&self, task: Task) {
        self.time.spawn(task);
    }
}

async fn client(world: &Memory, host: &Arc<Warped>) -> Quorum {
    let nodes = world.all().into_iter().map(|node| world.node(node)).collect();
    Quorum::builder().max_ttl(Duration::ZERO).ttl(10 * SECOND).over(host.clone(), nodes).unwrap()
}

fn store(host: &Arc<Warped>) -> Arc<dyn Node> {
    Arc::new(MemoryNode::new("memory://", host.clone()))
}

/// A node that suspends the client's machine for the time `sleeps` during each claim.
#[derive(Debug)]
struct Sleepy {
    node: MemoryNode,
    host: Arc<Warped>,
    sleeps: Duration,
}

impl Node for Sleepy {
    fn label(&self) -> &Arc<str> {
        self.node.label()
    }

    fn submit(&self, request: Request) {
        if request.operation.verb() == Verb::Claim {
            self.host.suspend(self.sleeps);
        }
        self.node.submit(request);
    }

    fn status(&self) -> NodeStatus {
        self.node.status()
    }
}

/// An owner holds a name for a minute, and dies. Then the node's clock is set back by an hour.
async fn hold_does_not_outlast_a_clock_that_is_set_back(node: &dyn Node, set_back: impl FnOnce()) {
    let names: Arc<[Name]> = [Name::new("", "hold").unwrap()].into();
    let asked = async |verb: Verb, owner: &str, ballot: u64| {
        let (owner, names) = (owner.into(), names.clone());
        let timed = Asked { ttl: 60 * SECOND, ..Asked::inspect(names) };
        ask(node, &Asked { verb, owner, ballot, count: 1, ..timed }).await.unwrap()
    };
    assert_eq!(asked(Verb::Claim, "a/1", 1).await, Outcome::Granted { fence: 1 });
    set_back();
    for verb in [Verb::Inspect, Verb::Claim] {
        let left = match asked(verb, "b/1", 2).await {
            Outcome::Inspected(entries) => entries[0].remaining,
            Outcome::Held { remaining, .. } => remaining,
            other => panic!("{other:?}"),
        };
        assert!(left.is_some_and(|left| left <= 60 * SECOND), "{verb:?}: {left:?}");
    }
}

mod redis {
    use super::*;

    #[tokio::test]
    async fn hold_does_not_outlast_a_clock_that_is_set_back() {
        let clock = Clockwork::still().await;
        let node = real(&clock.server).await;
        super::hold_does_not_outlast_a_clock_that_is_set_back(&node, || clock.set_back(HOUR)).await;
    }
}

mod memory {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn hold_does_not_outlast_a_clock_that_is_set_back() {
        let host = Warped::new();
        host.suspend(2 * HOUR);
        let node = store(&host);
        super::hold_does_not_outlast_a_clock_that_is_set_back(&*node, || host.set_back(HOUR)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_grow_whatever_the_wall_clocks_show() {
        let world = Memory::start(3).await;
        let now = Warped::new().wall();
        let mut last = 0;
        for wall in [now, now - 5 * YEAR, now + 5 * YEAR, Duration::ZERO, now + 10 * YEAR, now, Duration::MAX] {
            let host = Warped::new();
            *host.wall.lock().unwrap() = wall;
            let guard = client(&world, &host).await.lock("tokens").acquire(PATIENCE).await.unwrap();
            assert!(guard.token() > last, "{} after {last} at {wall:?}", guard.token());
            last = guard.token();
            assert!(guard.remaining() > 9 * SECOND, "the wall clock says nothing of the validity");
            guard.release().await.unwrap();
        }
    }

    /// An arrival is the median of the clocks of the client and the nodes, so one wrong clock does
    /// not matter.
    #[tokio::test(start_paused = true)]
    async fn waiters_with_wrong_wall_clocks_are_served_in_arrival_order() {
        for (early_is_fast, late_is_slow) in [(HOUR, Duration::ZERO), (Duration::ZERO, HOUR)] {
            let [right, early, late] = [(); 3].map(|()| Warped::new());
            let stores: Vec<Arc<dyn Node>> = (0..3).map(|_| store(&right)).collect();
            let lock = |host: &Arc<Warped>| {
                Quorum::builder().max_ttl(Duration::ZERO).over(host.clone(), stores.clone()).unwrap().lock("order")
            };
            *early.wall.lock().unwrap() += early_is_fast;
            *late.wall.lock().unwrap() -= late_is_slow;
            let guard = lock(&right).acquire(PATIENCE).await.unwrap();
            let mut tokens = Vec::new();
            for host in [early, late] {
                let lock = lock(&host);
                tokens.push(tokio::spawn(async move { lock.acquire(60 * SECOND).await.unwrap().token() }));
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            guard.release().await.unwrap();
            let tokens = futures::future::try_join_all(tokens).await.unwrap();
            assert!(tokens.is_sorted(), "{early_is_fast:?} fast, {late_is_slow:?} slow");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_ages_while_its_holders_machine_is_suspended() {
        let world = Memory::start(3).await;
        let host = Warped::new();
        let guard = client(&world, &host).await.lock("asleep").acquire(PATIENCE).await.unwrap();
        // After this pause, the timers of the lease are set.
        tokio::time::sleep(Duration::from_millis(10)).await;
        host.suspend(5 * SECOND);
        assert!(guard.is_held() && guard.remaining() < 5 * SECOND);
        host.suspend(60 * SECOND);
        assert!(!guard.is_held(), "at once, whatever timers do");
        assert!(guard.ensure(Duration::ZERO).unwrap_err().is_lost());
        let woke = tokio::time::Instant::now();
        let reason = tokio::time::timeout(60 * SECOND, guard.lost()).await.expect("the loss is told");
        assert_eq!(reason, LostReason::Expired);
        assert!(woke.elapsed() <= SECOND + Duration::from_millis(2), "timers look at the clock each second");
    }

    #[tokio::test(start_paused = true)]
    async fn lock_ends_at_its_deadline_before_any_timer_fires() {
        let world = Memory::start(3).await;
        let host = Warped::new();
        let client = client(&world, &host).await;
        let guard = client.lock("over").acquire(PATIENCE).await.unwrap();
        let left = guard.remaining();
        assert!(guard.ensure(left).is_ok() && guard.ensure(left + Duration::from_nanos(1)).unwrap_err().is_lost());
        host.suspend(left);
        assert_eq!((guard.remaining(), guard.is_held()), (Duration::ZERO, false));
        let error = guard.ensure(Duration::ZERO).unwrap_err();
        assert!(error.is_lost() && error.to_string().contains("its validity ended"), "{error}");
        assert!(guard.reenter().unwrap_err().is_lost(), "also where nodes would grant it");
        assert_eq!(guard.release().await.unwrap(), Released::AlreadyExpired);
        client.quiet().await;
        world.freed("over").await;
    }

    /// A call that reports the loss must also cancel the tokens and release the name.
    #[tokio::test(start_paused = true)]
    async fn failed_check_past_the_deadline_cancels_tokens_and_releases() {
        let world = Memory::start(3).await;
        let host = Warped::new();
        let client = client(&world, &host).await;
        let guard = client.lock("one").acquire(PATIENCE).await.unwrap();
        let session = client.session().grant(PATIENCE).await.unwrap();
        session.lock(["two"], PATIENCE).await.unwrap();
        let permits = client.semaphore("three", 2).acquire(1, PATIENCE).await.unwrap();
        let told = [guard.cancellation(), session.cancellation(), permits.cancellation()];
        host.suspend(guard.remaining().max(permits.remaining()).max(session.remaining()));
        assert!(told.iter().all(|told| !told.is_cancelled()), "no timer has said so");
        assert!(guard.ensure(Duration::ZERO).unwrap_err().is_lost());
        assert!(session.unlock(["two"]).await.unwrap_err().is_lost());
        assert!(permits.ensure(Duration::ZERO).unwrap_err().is_lost());
        assert!(told.iter().all(|told| told.is_cancelled()), "at once");
        client.quiet().await;
        world.freed("one").await;
        world.freed("two").await;
    }

    #[tokio::test(start_paused = true)]
    async fn late_release_of_each_of_two_guards_reports_expiry() {
        let world = Memory::start(3).await;
        let host = Warped::new();
        let client = client(&world, &host).await;
        let outer = client.lock("twice").acquire(PATIENCE).await.unwrap();
        let inner = outer.reenter().unwrap();
        host.suspend(outer.remaining());
        // The other guard is left, and no timer has reported the loss yet.
        assert_eq!(inner.release().await.unwrap(), Released::AlreadyExpired);
        assert_eq!(outer.release().await.unwrap(), Released::AlreadyExpired);
        client.quiet().await;
        world.freed("twice").await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_whose_deadline_passed_in_its_sleep_is_not_renewed() {
        let world = Memory::start(3).await;
        let host = Warped::new();
        let guard = client(&world, &host).await.lock("late").acquire(PATIENCE).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
        host.suspend(60 * SECOND);
        assert_eq!(guard.lost().await, LostReason::Expired);
        assert_eq!(world.faults.iter().map(|node| node.asked(Verb::Renew)).sum::<u64>(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_majority_that_grants_after_the_validity_grants_nothing() {
        for (sleeps, wins) in [(SECOND, true), (20 * SECOND, false)] {
            let host = Warped::new();
            // The node's own clock does not jump, so the node would hold the name for the whole
            // ttl.
            let time: Arc<dyn Host> = Arc::new(TokioTime::new(Handle::current()));
            let node = MemoryNode::new("memory://0", time);
            let sleepy: Arc<dyn Node> = Arc::new(Sleepy { node, host: host.clone(), sleeps });
            let client = Quorum::builder().max_ttl(Duration::ZERO).ttl(10 * SECOND).over(host, vec![sleepy]).unwrap();
            match client.lock("late").try_acquire().await {
                Ok(guard) => assert!(wins && guard.is_some_and(|guard| guard.remaining() < 9 * SECOND)),
                Err(error) => {
                    assert!(!wins && error.is_unavailable() && error.to_string().contains("too late"), "{error}")
                }
            }
            client.quiet().await;
            assert_eq!(client.inspect("late").await.unwrap().agreed(), Some(false), "and nothing is left behind");
        }
    }
}
