//! Within a Tokio runtime, every call of the blocking types returns an error that says so. Handles
//! may be dropped there.

use std::time::Duration;

use quorumlock::blocking::{
    Election, HeldNames, Leader, Leaders, LockGuard, Once, OncePermit, PermitsGuard, Quorum, QuorumLock, QuorumRwLock,
    QuorumSemaphore, ReadGuard, Session, SessionBuilder, WriteGuard,
};
use quorumlock::{Error, QuorumBuilder};
use tokio::runtime::{Builder, Runtime};

use crate::common::PATIENCE;
use crate::world::{HOUR, SECOND, World, eventually, freed, is_free, lasting, servers};

#[track_caller]
fn said<T: std::fmt::Debug>(refused: Result<T, Error>) {
    let error = refused.unwrap_err();
    assert!(error.is_config() && error.to_string().contains("within a Tokio runtime"), "{error}");
}

/// One value of each type, and two values of each type that a call consumes.
struct All {
    quorum: Quorum,
    lock: QuorumLock,
    guards: [LockGuard; 2],
    rw_lock: QuorumRwLock,
    readers: [ReadGuard; 2],
    writers: [WriteGuard; 2],
    semaphore: QuorumSemaphore,
    permits: [PermitsGuard; 2],
    session: Session,
    builder: SessionBuilder,
    election: Election,
    leaders: Leaders,
    leader: [Leader; 2],
    once: Once,
    claims: [OncePermit; 3],
    names: HeldNames,
}

impl All {
    fn of(quorum: Quorum) -> Self {
        let (election, semaphore) = (quorum.election("leader"), quorum.semaphore("permits", 2));
        let session = quorum.session().grant(PATIENCE).unwrap();
        session.lock(["session"], PATIENCE).unwrap();
        Self {
            lock: quorum.lock("free"),
            guards: ["guard/0", "guard/1"].map(|name| quorum.lock(name).acquire(PATIENCE).unwrap()),
            rw_lock: quorum.rw_lock("free"),
            readers: ["reader", "reader"].map(|name| quorum.rw_lock(name).read(PATIENCE).unwrap()),
            writers: ["writer/0", "writer/1"].map(|name| quorum.rw_lock(name).write(PATIENCE).unwrap()),
            permits: [1, 1].map(|many| semaphore.acquire(many, PATIENCE).unwrap()),
            builder: quorum.session(),
            leaders: election.observe().unwrap(),
            leader: ["leader", "leader/1"].map(|name| quorum.election(name).campaign(PATIENCE).unwrap()),
            once: quorum.once("free", HOUR),
            claims: ["done", "undone", "dropped"].map(|name| quorum.once(name, HOUR).claim().unwrap().unwrap()),
            names: quorum.held_names(),
            session,
            election,
            semaphore,
            quorum,
        }
    }

    /// Makes every call within a runtime, and checks that it is refused.
    fn refused(self) {
        self.handles();
        let Self { guards, readers, writers, permits, leader, claims, .. } = self;
        let [guard, released] = guards;
        said(guard.lost(SECOND));
        said(guard.lease().lost(SECOND));
        said(released.release());
        let [reader, released] = readers;
        said(reader.lost(SECOND));
        said(released.release());
        let [writer, released] = writers;
        said(writer.lost(SECOND));
        said(writer.downgrade());
        said(released.release());
        let [held, released] = permits;
        said(held.lost(SECOND));
        said(held.lease().lost(SECOND));
        said(released.release());
        let [leader, resigned] = leader;
        said(leader.lost(SECOND));
        said(leader.proclaim("it"));
        said(leader.lease().proclaim("it"));
        said(resigned.resign());
        let [done, undone, dropped] = claims;
        said(dropped.lost(SECOND));
        said(done.done());
        said(undone.undo());
        assert!(guard.is_held() && reader.is_held() && held.is_held() && leader.is_held() && dropped.is_held());
        said(self.quorum.shutdown(SECOND));
    }

    fn handles(&self) {
        let Self { quorum, lock, rw_lock, semaphore, session, builder, election, once, .. } = self;
        said(quorum.inspect("it"));
        said(quorum.revoke("it"));
        said(quorum.force_release("it"));
        said(quorum.ready(SECOND));
        said(quorum.members());
        said(quorum.init());
        said(lock.acquire(SECOND));
        said(lock.acquire_default());
        said(lock.try_acquire());
        said(lock.run(SECOND, |_| ()));
        said(lock.try_run(SECOND, |_| Ok::<_, Error>(())));
        said(rw_lock.read(SECOND));
        said(rw_lock.write(SECOND));
        said(rw_lock.read_default());
        said(rw_lock.write_default());
        said(rw_lock.try_read());
        said(rw_lock.try_write());
        said(rw_lock.run_read(SECOND, |_| ()));
        said(rw_lock.run_write(SECOND, |_| ()));
        said(rw_lock.try_run_read(SECOND, |_| Ok::<_, Error>(())));
        said(rw_lock.try_run_write(SECOND, |_| Ok::<_, Error>(())));
        said(semaphore.acquire(1, SECOND));
        said(semaphore.acquire_default(1));
        said(semaphore.try_acquire(1));
        said(semaphore.run(1, SECOND, |_| ()));
        said(semaphore.try_run(1, SECOND, |_| Ok::<_, Error>(())));
        said(session.lock(["it"], SECOND));
        said(session.try_lock(["it"]));
        said(session.unlock(["session"]));
        said(session.lost(SECOND));
        said(session.revoke());
        assert!(session.is_alive() && session.token("session").is_some());
        said(builder.clone().grant(SECOND));
        said(builder.clone().grant_default());
        said(builder.clone().run(SECOND, |_| ()));
        said(builder.clone().try_run(SECOND, |_| Ok::<_, Error>(())));
        said(election.campaign(SECOND));
        said(election.campaign_default());
        said(election.observe());
        said(election.run(SECOND, |_| ()));
        said(election.try_run(SECOND, |_| Ok::<_, Error>(())));
        said(once.claim());
        said(once.run(|_| ()));
        said(once.try_run(|_| Ok::<_, Error>(())));
    }

    /// Checks that iterators return an error within a runtime.
    fn iterators_refused(&mut self) {
        said(self.leaders.next_within(SECOND));
        said(self.leaders.next().unwrap());
        assert!(self.leaders.next().is_none(), "an error is the end");
        said(self.leaders.next_within(SECOND));
        said(self.names.next().unwrap());
        assert!(self.names.next().is_none(), "an error is the end");
    }
}

fn calls_in_a_runtime_fail_and_release_the_guards_they_consume(world: &World) {
    let other = world.client();
    let (one, many) = (Builder::new_current_thread().build().unwrap(), Runtime::new().unwrap());
    for turn in 0..3 {
        let mut all = All::of(world.client());
        let calls = move || {
            said(Quorum::in_memory(3));
            said(Quorum::in_memory_with(QuorumBuilder::default(), 3));
            said(Quorum::connect(QuorumBuilder::default()));
            said(Quorum::open(QuorumBuilder::default()));
            said(Quorum::from_env());
            all.iterators_refused();
            all.refused();
        };
        match turn {
            0 => one.block_on(async { calls() }),
            1 => many.block_on(async { calls() }),
            _ => many.block_on(many.spawn_blocking(calls)).unwrap(),
        }
        for name in ["guard/0", "reader", "writer/0", "writer/1", "permits/0", "permits/1", "leader", "session"] {
            freed(&other, name);
        }
        // The permit is given back in the background.
        let once = other.once("undone", HOUR);
        let undone = |claimed: Option<OncePermit>| claimed.is_some_and(|permit| permit.undo().is_ok());
        eventually("it was undone", || once.claim().is_ok_and(undone));
        for name in ["done", "dropped"] {
            assert!(other.once(name, HOUR).claim().unwrap().is_none(), "{name} is used");
            other.force_release(name).unwrap();
        }
        assert!(is_free(&other, "free"), "nothing was asked for");
    }
}

both!(calls_in_a_runtime_fail_and_release_the_guards_they_consume);

#[test]
fn observer_refused_in_a_runtime_works_outside_it() {
    let quorum = Quorum::in_memory(3).unwrap();
    let leader = quorum.election("a").campaign(PATIENCE).unwrap();
    let mut leaders = quorum.election("a").observe().unwrap();
    Runtime::new().unwrap().block_on(async { said(leaders.next_within(SECOND)) });
    assert_eq!(leaders.next().unwrap().unwrap().token, leader.token());
}

#[test]
fn last_guard_dropped_in_a_runtime_is_released() {
    let servers = servers(3);
    let other = Quorum::connect(lasting(&servers)).unwrap();
    let quorum = Quorum::connect(lasting(&servers)).unwrap();
    let guard = quorum.lock("it").acquire(PATIENCE).unwrap();
    Runtime::new().unwrap().block_on(async { drop((quorum, guard)) });
    assert!(other.lock("it").acquire(PATIENCE).is_ok());
    let all = All::of(Quorum::connect(lasting(&servers)).unwrap());
    Runtime::new().unwrap().block_on(async { drop(all) });
    for name in ["guard/0", "reader", "writer/0", "permits/0", "leader", "session"] {
        freed(&other, name);
    }
}

#[test]
fn a_session_that_is_current_may_be_looked_for_within_a_runtime() {
    let quorum = Quorum::in_memory(3).unwrap();
    let session = quorum.session().grant(Duration::from_secs(5)).unwrap();
    let runtime = Runtime::new().unwrap();
    session.scope(|| {
        runtime.block_on(async {
            let current = Session::current().unwrap();
            assert_eq!(current.id(), session.id());
            said(current.lock(["it"], SECOND));
        })
    });
}
