//! A lock that is lost keeps others out until its last guard is dropped, or until its deadline if
//! that comes first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use quorumlock::{LostReason, Owner, Quorum, QuorumBuilder, Released};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::common::PATIENCE;
use crate::world::World;

const MS: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Lock,
    /// The next holder is another caller of the same client.
    Beside,
    /// One name of the set is revoked, and the next holder wants the other name.
    Set,
    Reentered,
    /// The next holder is the same owner.
    Owned,
    Reader,
    Writer,
    Permit,
    Office,
    /// One lock of the session is revoked, and the next holder wants the other lock.
    Session,
}

const KINDS: [Kind; 10] = [
    Kind::Lock,
    Kind::Beside,
    Kind::Set,
    Kind::Reentered,
    Kind::Owned,
    Kind::Reader,
    Kind::Writer,
    Kind::Permit,
    Kind::Office,
    Kind::Session,
];

/// The ttl of locks that are revoked: they must not expire before the revocation.
fn ttl(world: &impl World) -> Duration {
    3 * world.ttl()
}

/// A lock of some kind that is held.
struct Hold {
    lost: BoxFuture<'static, ()>,
    /// Calling this releases the lock. Dropping this drops the guard.
    guard: Box<dyn FnOnce() -> BoxFuture<'static, Released> + Send>,
    /// The deadline at the start. Renewals move it to later.
    deadline: Instant,
}

fn told(lost: impl Future<Output = LostReason> + Send + 'static) -> BoxFuture<'static, ()> {
    lost.map(|reason| assert_eq!(reason, LostReason::Revoked)).boxed()
}

/// Makes a `Hold` of a guard that has a lease.
macro_rules! hold {
    ($guard:expr, $release:ident) => {{
        let guard = $guard;
        let (lease, deadline) = (guard.lease(), Instant::now() + guard.remaining());
        let lost = told(async move { lease.lost().await });
        Hold { lost, guard: Box::new(move || async move { guard.$release().await.unwrap() }.boxed()), deadline }
    }};
}

impl Kind {
    fn name(self) -> String {
        format!("{self:?}")
    }

    fn revoked(self) -> String {
        match self {
            Self::Set | Self::Session => self.name() + "/b",
            Self::Permit => self.name() + "/0",
            _ => self.name(),
        }
    }

    /// The name that the next holder wants.
    fn wanted(self) -> String {
        if matches!(self, Self::Set | Self::Session) { self.name() + "/a" } else { self.name() }
    }

    async fn hold(self, client: &Quorum, owner: &Owner) -> Hold {
        let (name, names) = (self.name(), [self.wanted(), self.revoked()]);
        match self {
            Self::Lock | Self::Beside => hold!(client.lock(name).acquire(PATIENCE).await.unwrap(), release),
            Self::Set => hold!(client.lock_all(names).acquire(PATIENCE).await.unwrap(), release),
            Self::Reentered => {
                let first = client.lock(name).acquire(PATIENCE).await.unwrap();
                let Hold { lost, guard: second, deadline } = hold!(first.reenter().unwrap(), release);
                let both = async move |first: quorumlock::LockGuard| {
                    first.release().await.unwrap();
                    second().await
                };
                Hold { lost, guard: Box::new(move || both(first).boxed()), deadline }
            }
            Self::Owned => hold!(client.lock(name).owned_by(owner).acquire(PATIENCE).await.unwrap(), release),
            Self::Reader => hold!(client.rw_lock(name).read(PATIENCE).await.unwrap(), release),
            Self::Writer => hold!(client.rw_lock(name).write(PATIENCE).await.unwrap(), release),
            Self::Permit => hold!(client.semaphore(name, 1).acquire(1, PATIENCE).await.unwrap(), release),
            Self::Office => hold!(client.election(name).campaign(PATIENCE).await.unwrap(), resign),
            Self::Session => {
                let session = client.session().grant(PATIENCE).await.unwrap();
                for name in names {
                    session.lock([name], PATIENCE).await.unwrap();
                }
                let (handle, deadline) = (session.clone(), Instant::now() + session.remaining());
                let lost = told(async move { handle.lost().await });
                Hold { lost, guard: Box::new(|| async move { session.revoke().await.unwrap() }.boxed()), deadline }
            }
        }
    }

    /// Acquires the lock as the next holder, and drops it at once. Returns when the lock was
    /// acquired.
    async fn enter(self, holder: &Quorum, other: &Quorum, owner: &Owner) -> Instant {
        let (name, wait) = (self.wanted(), 6 * PATIENCE);
        match self {
            Self::Lock | Self::Set | Self::Reentered | Self::Session => {
                drop(other.lock(name).acquire(wait).await.unwrap())
            }
            Self::Beside => drop(holder.lock(name).acquire(wait).await.unwrap()),
            Self::Owned => drop(holder.lock(name).owned_by(owner).acquire(wait).await.unwrap()),
            Self::Reader => drop(other.rw_lock(name).write(wait).await.unwrap()),
            Self::Writer => drop(other.rw_lock(name).read(wait).await.unwrap()),
            Self::Permit => drop(other.semaphore(name, 1).acquire(1, wait).await.unwrap()),
            Self::Office => drop(other.election(name).campaign(wait).await.unwrap()),
        }
        Instant::now()
    }
}

/// What the holder does after it has learned of its loss.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Drops,
    Releases,
    Stays,
}

/// A holder is revoked while the next holder waits. After that, the first holder ends as `end`
/// says. The next holder must get the lock after this end, or after the deadline.
async fn revoked(world: &impl World, kind: Kind, end: End, (holder, other): (&Quorum, &Quorum)) {
    let owner = Owner::new();
    let Hold { lost, guard, deadline } = kind.hold(holder, &owner).await;
    let (gone, told) = (Arc::new(AtomicBool::new(false)), Notify::new());
    let next = async {
        if let Kind::Owned = kind {
            // The same owner could reenter the lock until its loss is known.
            told.notified().await;
        }
        let entered = kind.enter(holder, other, &owner).await;
        let after = if gone.load(Ordering::SeqCst) || entered >= deadline { "the end" } else { "the loss" };
        assert_eq!(after, "the end", "when {kind:?} let the next one in");
        entered
    };
    let ends = async {
        world.answer(async || other.revoke(&kind.revoked()).await).await.unwrap();
        timeout(PATIENCE, lost).await.expect("the loss is told");
        told.notify_one();
        // Wait, so that the test notices a next holder that enters too early.
        sleep(300 * MS).await;
        gone.store(end != End::Stays, Ordering::SeqCst);
        match end {
            End::Drops => drop(guard),
            End::Releases => assert_eq!(guard().await, Released::AlreadyExpired, "{kind:?}"),
            End::Stays => return Some(guard),
        }
        None
    };
    let (entered, _guard) = tokio::join!(next, ends);
    // Check times in memory only: real machines may stall.
    if world.slack().is_zero() {
        let by = if end == End::Stays { deadline + ttl(world) } else { deadline };
        assert!(entered < by, "{kind:?} that {end:?} lets the next one in");
    }
}

async fn all_revoked(world: impl World, end: End) {
    let brief = |builder: QuorumBuilder| builder.ttl(ttl(&world));
    let clients = (world.client_with(brief).await, world.client().await);
    join_all(KINDS.map(|kind| revoked(&world, kind, end, (&clients.0, &clients.1)))).await;
}

async fn revoked_holder_keeps_the_next_out_until_its_guard_is_dropped(world: impl World) {
    all_revoked(world, End::Drops).await;
}

async fn revoked_holder_that_releases_lets_the_next_in_at_once(world: impl World) {
    all_revoked(world, End::Releases).await;
}

async fn revoked_holder_that_stays_keeps_the_next_out_until_deadline(world: impl World) {
    all_revoked(world, End::Stays).await;
}

both! {
    3 nodes: revoked_holder_keeps_the_next_out_until_its_guard_is_dropped,
        revoked_holder_that_releases_lets_the_next_in_at_once,
        revoked_holder_that_stays_keeps_the_next_out_until_deadline;
}
