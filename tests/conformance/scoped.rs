//! `run` and `try_run` do the same for locks, readers, writers, permits, leaders and sessions.

use std::future::{Future, pending};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use quorumlock::{LeaderLease, LockOptions, Quorum, QuorumBuilder, Result, Session};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::common::logs::Logs;
use crate::common::{PATIENCE, eventually, released};
use crate::world::{Redis, World};

const SECOND: Duration = Duration::from_secs(1);

/// The kind of lock under which a body works.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Face {
    Lock,
    Reader,
    Writer,
    Permit,
    Office,
    Session,
}

const FACES: [Face; 6] = [Face::Lock, Face::Reader, Face::Writer, Face::Permit, Face::Office, Face::Session];

impl Face {
    /// The name that is held while the body runs.
    fn name(self) -> String {
        if self == Self::Permit { "Permit/0".to_owned() } else { format!("{self:?}") }
    }

    /// Runs a body that cannot fail.
    async fn run<T>(self, client: &Quorum, wait: Duration, body: impl Future<Output = T>) -> Result<T> {
        let name = format!("{self:?}");
        match self {
            Self::Lock => client.lock(name).run(wait, |_| body).await,
            Self::Reader => client.rw_lock(name).run_read(wait, |_| body).await,
            Self::Writer => client.rw_lock(name).run_write(wait, |_| body).await,
            Self::Permit => client.semaphore(name, 1).run(1, wait, |_| body).await,
            Self::Office => client.election(name).run(wait, |_| body).await,
            Self::Session => {
                let locked = async |session: Session| {
                    session.lock([name], wait).await.expect("nobody else has it");
                    body.await
                };
                client.session().run(wait, locked).await
            }
        }
    }

    /// Runs a body that can fail.
    async fn try_run<T>(
        self,
        client: &Quorum,
        wait: Duration,
        body: impl Future<Output = Result<T, Failed>>,
    ) -> Result<T, Failed> {
        let name = format!("{self:?}");
        match self {
            Self::Lock => client.lock(name).try_run(wait, |_| body).await,
            Self::Reader => client.rw_lock(name).try_run_read(wait, |_| body).await,
            Self::Writer => client.rw_lock(name).try_run_write(wait, |_| body).await,
            Self::Permit => client.semaphore(name, 1).try_run(1, wait, |_| body).await,
            Self::Office => client.election(name).try_run(wait, |_| body).await,
            Self::Session => {
                let locked = async |session: Session| {
                    session.lock([name], wait).await?;
                    body.await
                };
                client.session().try_run(wait, locked).await
            }
        }
    }
}

/// The error type of an application's own functions.
#[derive(Debug)]
enum Failed {
    Lock(quorumlock::Error),
    Work,
}

impl From<quorumlock::Error> for Failed {
    fn from(error: quorumlock::Error) -> Self {
        Self::Lock(error)
    }
}

/// Counts the bodies that have begun, and records when each was dropped.
#[derive(Clone)]
struct Bodies {
    begun: Arc<Semaphore>,
    dropped: Arc<Mutex<Vec<(Face, Instant)>>>,
}

struct Body(Bodies, Face);

impl Drop for Body {
    fn drop(&mut self) {
        self.0.dropped.lock().unwrap().push((self.1, Instant::now()));
    }
}

impl Bodies {
    fn new() -> Self {
        Self { begun: Arc::new(Semaphore::new(0)), dropped: Arc::default() }
    }

    /// A body that never ends by itself.
    fn endless(&self, face: Face) -> impl Future<Output = ()> + Send + 'static {
        let body = Body(self.clone(), face);
        async move {
            body.0.begun.add_permits(1);
            pending::<()>().await;
        }
    }

    /// Waits until this many bodies have begun.
    async fn have_begun(&self, many: usize) {
        let begun = self.begun.acquire_many(u32::try_from(many).unwrap());
        timeout(PATIENCE, begun).await.expect("all begin").unwrap().forget();
    }

    fn dropped(&self) -> Vec<(Face, Instant)> {
        self.dropped.lock().unwrap().clone()
    }
}

/// Boxes the future of a body.
fn body<T: Send + 'static>(body: impl Future<Output = T> + Send + 'static) -> BoxFuture<'static, T> {
    body.boxed()
}

async fn lock_is_held_during_the_body_and_free_afterwards(world: impl World) {
    let client = world.client().await;
    for face in FACES {
        let held = async {
            world.held_everywhere(&face.name()).await;
            7
        };
        assert_eq!(face.run(&client, PATIENCE, held).await.unwrap(), 7, "{face:?}");
        world.freed(&face.name()).await;
        let held = async {
            world.held_everywhere(&face.name()).await;
            Ok(8)
        };
        assert_eq!(face.try_run(&client, PATIENCE, held).await.unwrap(), 8, "{face:?}");
        world.freed(&face.name()).await;
    }
}

async fn whatever_a_body_fails_with_everything_is_free_behind_it(world: impl World) {
    let client = world.client().await;
    for face in FACES {
        let failed = face.try_run(&client, PATIENCE, async { Err::<(), _>(Failed::Work) }).await;
        assert!(matches!(failed, Err(Failed::Work)), "{face:?}: {failed:?}");
        world.freed(&face.name()).await;
        let taken = client.lock(face.name()).acquire(PATIENCE).await.unwrap();
        eventually("it is told that it is held", async || {
            let begun = async { unreachable!("somebody else holds it") };
            let held = face.try_run(&client, Duration::ZERO, body::<Result<(), Failed>>(begun)).await;
            matches!(&held, Err(Failed::Lock(error)) if error.is_timeout())
        })
        .await;
        released(taken.release()).await;
    }
}

/// Two of three nodes hang while all bodies work.
async fn body_is_dropped_when_its_lock_is_lost(world: impl World) {
    let ttl = 2 * world.ttl();
    let client = world.client_with(|builder: QuorumBuilder| builder.ttl(ttl)).await;
    let bodies = Bodies::new();
    let runs = FACES.map(|face| face.run(&client, PATIENCE, bodies.endless(face)));
    let hung = async {
        bodies.have_begun(FACES.len()).await;
        assert!(bodies.dropped().is_empty(), "none is lost yet");
        (0..2).for_each(|node| world.hang(node));
        Instant::now()
    };
    let (results, hung) = tokio::join!(timeout(PATIENCE, join_all(runs)), hung);
    for (face, result) in FACES.iter().zip(results.expect("the loss is told")) {
        let error = result.unwrap_err();
        assert!(error.is_lost(), "{face:?}: {error}");
    }
    let dropped = bodies.dropped();
    assert_eq!(dropped.len(), FACES.len());
    for (face, at) in dropped {
        assert!(at <= hung + ttl + world.slack(), "{face:?} {:?} after the nodes hung", at - hung);
    }
    (0..2).for_each(|node| world.resume(node));
    for face in FACES {
        world.freed(&face.name()).await;
    }
}

async fn cancelled_run_drops_its_body_and_frees_everything(world: impl World) {
    let client = world.client().await;
    let bodies = Bodies::new();
    let runs = FACES.map(|face| face.run(&client, PATIENCE, bodies.endless(face)));
    tokio::select! {
        _ = join_all(runs) => unreachable!("they are endless"),
        () = bodies.have_begun(FACES.len()) => {}
    }
    assert_eq!(bodies.dropped().len(), FACES.len());
    for face in FACES {
        world.freed(&face.name()).await;
    }
    client.quiet().await;
}

async fn a_body_that_panics_leaves_nothing(world: impl World) {
    let client = world.client().await;
    for face in FACES {
        let client = client.clone();
        let panics = body::<()>(async { std::panic::panic_any("a body's own panic") });
        let ran = tokio::spawn(async move { face.run(&client, PATIENCE, panics).await });
        assert!(ran.await.unwrap_err().is_panic(), "{face:?}");
        world.freed(&face.name()).await;
    }
    client.quiet().await;
}

/// Two nodes hang once the body has ended. If a round was too short, `acquire` asks again.
async fn a_release_that_nobody_confirms_is_a_warning(world: impl World) {
    let brief = LockOptions::default().round_timeout(SECOND / 2);
    for face in FACES {
        let client = world.client_with(|builder: QuorumBuilder| builder.options(brief.clone())).await;
        let hangs = async {
            world.held_everywhere(&face.name()).await;
            (0..2).for_each(|node| world.hang(node));
            7
        };
        let logs = Logs::capture();
        let ran = face.run(&client, PATIENCE, hangs).await;
        (0..2).for_each(|node| world.resume(node));
        assert_eq!(ran.unwrap(), 7, "{face:?}");
        let text = logs.text();
        let warned = text.lines().any(|line| line.starts_with("WARN") && line.contains("no quorum confirmed this"));
        assert!(warned, "{face:?}: {text}");
        world.freed(&face.name()).await;
    }
}

async fn handle_returned_by_a_body_holds_nothing_after_its_end(world: impl World) {
    let client = world.client().await;
    let leader: LeaderLease = client.election("a").run(PATIENCE, async |leader| leader).await.unwrap();
    world.freed("a").await;
    assert!(!leader.is_held() && leader.proclaim("late").await.unwrap_err().is_lost());
    let session = client
        .session()
        .try_run(PATIENCE, async |session| {
            session.lock(["a", "b"], PATIENCE).await?;
            Ok::<_, quorumlock::Error>(session)
        })
        .await
        .unwrap();
    world.freed("a").await;
    world.freed("b").await;
    assert!(!session.is_alive() && session.lock(["c"], SECOND).await.unwrap_err().is_lost());
}

async fn a_leaders_body_proclaims(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let proclaims = async |leader: LeaderLease| {
        world.confirmed(leader.proclaim("here")).await;
        eventually("the note is found", async || {
            let seen = other.inspect("a").await.unwrap();
            seen.description().is_some_and(|told| told.token == leader.token() && &*told.says == "here")
        })
        .await;
        Ok::<_, quorumlock::Error>(())
    };
    client.election("a").try_run(PATIENCE, proclaims).await.unwrap();
}

/// If the body revokes its own session, the session counts as released, and not as lost.
async fn a_body_that_revokes_its_session_goes_on(world: impl World) {
    let client = world.client().await;
    let revokes = async |session: Session| {
        session.lock(["a"], PATIENCE).await?;
        released(session.revoke()).await;
        session.lock(["b"], SECOND).await.map_err(|error| assert!(error.is_lost())).unwrap_err();
        Ok::<_, quorumlock::Error>(7)
    };
    assert_eq!(client.session().try_run(PATIENCE, revokes).await.unwrap(), 7);
    world.freed("a").await;
}

/// A handle that the body gave away does not keep the session.
async fn dropped_body_ends_its_session_for_all_handles(world: impl World) {
    let client = world.client().await;
    let (gives, mut given) = tokio::sync::mpsc::unbounded_channel::<Session>();
    let endless = async |session: Session| {
        session.lock(["a"], PATIENCE).await.unwrap();
        gives.send(session).unwrap();
        pending::<()>().await;
    };
    let session = tokio::select! {
        _ = client.session().run(PATIENCE, endless) => unreachable!("it is endless"),
        session = given.recv() => session.unwrap(),
    };
    assert!(!session.is_alive());
    world.freed("a").await;
}

/// A body that blocks its thread is not dropped, and its lock is not renewed.
#[tokio::test]
async fn a_body_that_ends_after_its_time_was_over_is_told_so() {
    let world = Redis::start(3).await;
    let client = world.client_with(|builder: QuorumBuilder| builder.ttl(SECOND)).await;
    for face in FACES {
        let late = async { std::thread::sleep(SECOND * 6 / 5) };
        assert!(face.run(&client, PATIENCE, late).await.unwrap_err().is_lost(), "{face:?}");
        let late = async {
            std::thread::sleep(SECOND * 6 / 5);
            Ok(())
        };
        let ran = face.try_run(&client, PATIENCE, late).await;
        assert!(matches!(&ran, Err(Failed::Lock(error)) if error.is_lost()), "{face:?}: {ran:?}");
    }
}

/// The future of `run` is `Send`, so it can be spawned.
async fn a_task_of_its_own_runs_a_body(world: impl World) {
    let client = world.client().await;
    let (election, session) = (client.election("a"), client.session());
    let leads = tokio::spawn(async move { election.run(PATIENCE, async |leader| leader.token()).await });
    let locks = async |session: Session| session.lock(["b"], PATIENCE).await;
    let locked = tokio::spawn(async move { session.try_run(PATIENCE, locks).await });
    assert!(leads.await.unwrap().unwrap() > 0);
    locked.await.unwrap().unwrap();
}

async fn default_reads_writes_and_campaigns_wait_as_long_as_set(world: impl World) {
    let wait = SECOND / 5;
    let client = world.client_with(|builder: QuorumBuilder| builder.wait(wait)).await;
    let taken = client.lock("a").acquire(PATIENCE).await.unwrap();
    let (rw_lock, election) = (client.rw_lock("a"), client.election("a"));
    let waited = async |began: Instant, error: Option<quorumlock::Error>| {
        assert!(error.expect("somebody else has it").is_timeout());
        assert!(began.elapsed() >= wait && began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    };
    waited(Instant::now(), rw_lock.read_default().await.err()).await;
    waited(Instant::now(), rw_lock.write_default().await.err()).await;
    waited(Instant::now(), election.campaign_default().await.err()).await;
    released(taken.release()).await;
    let client = world.client_with(|builder: QuorumBuilder| builder.wait(PATIENCE)).await;
    let (rw_lock, election) = (client.rw_lock("a"), client.election("a"));
    released(rw_lock.read_default().await.unwrap().release()).await;
    released(rw_lock.write_default().await.unwrap().release()).await;
    released(election.campaign_default().await.unwrap().resign()).await;
}

async fn a_session_waits_for_a_quorum_for_as_long_as_its_options_say(mut world: impl World) {
    let client = world.client().await;
    assert!(client.session().grant_default().await.unwrap().is_alive());
    (0..2).for_each(|node| world.kill(node));
    let votes = || client.nodes().iter().filter(|node| node.state.is_admitted()).count();
    eventually("no quorum is left", async || votes() < 2).await;
    let session = client.session().options(client.options().wait(SECOND / 5));
    let began = Instant::now();
    let error = session.grant_default().await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("no session within 200 ms"), "{error}");
    assert!(began.elapsed() >= SECOND / 5 && began.elapsed() < PATIENCE, "{:?}", began.elapsed());
}

both! {
    3 nodes:
        lock_is_held_during_the_body_and_free_afterwards,
        whatever_a_body_fails_with_everything_is_free_behind_it,
        body_is_dropped_when_its_lock_is_lost,
        cancelled_run_drops_its_body_and_frees_everything,
        a_body_that_panics_leaves_nothing,
        a_release_that_nobody_confirms_is_a_warning,
        handle_returned_by_a_body_holds_nothing_after_its_end,
        a_leaders_body_proclaims,
        a_body_that_revokes_its_session_goes_on,
        dropped_body_ends_its_session_for_all_handles,
        a_task_of_its_own_runs_a_body,
        default_reads_writes_and_campaigns_wait_as_long_as_set,
        a_session_waits_for_a_quorum_for_as_long_as_its_options_say;
}
