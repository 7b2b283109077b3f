//! Sessions: one lease that owns many locks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use quorumlock::blocking::{Quorum, Session};
use quorumlock::{Error, LostReason, Released};

use crate::common::PATIENCE;
use crate::world::{MS, SECOND, World, eventually, freed, is_free};

const NO_NAMES: [&str; 0] = [];

fn session(quorum: &Quorum) -> Session {
    quorum.session().grant(PATIENCE).unwrap()
}

fn held(session: &Session) -> Vec<String> {
    session.held().into_iter().map(|(name, _)| name.to_string()).collect()
}

fn session_holds_each_name_until_it_is_unlocked(world: &World) {
    let (client, other) = (world.client(), world.client());
    let (mine, theirs) = (session(&client), session(&other));
    mine.lock(["b", "a"], PATIENCE).unwrap();
    mine.try_lock(["c"]).unwrap();
    assert_eq!(held(&mine), ["a", "b", "c"]);
    assert!(mine.token("c") > mine.token("a") && mine.token("d").is_none());
    let refused = theirs.try_lock(["c", "d"]).unwrap_err();
    assert!(refused.is_contended() && &*refused.conflicts()[0].name == "c", "{refused}");
    assert!(theirs.lock(["c", "d"], 20 * MS).unwrap_err().is_timeout());
    assert_eq!(mine.unlock(["c"]).unwrap(), Released::Released);
    theirs.lock(["c", "d"], PATIENCE).unwrap();
    assert!(mine.is_alive() && mine.ensure(SECOND).is_ok() && mine.remaining() > SECOND);
    assert_eq!(mine.revoke().unwrap(), Released::Released);
    assert!(!mine.is_alive() && held(&mine).is_empty());
    assert!(mine.ensure(SECOND).unwrap_err().is_lost() && mine.try_lock(["e"]).unwrap_err().is_lost());
    freed(&other, "a");
}

fn threads_join_a_session_and_its_last_handle_releases_all(world: &World) {
    let (client, other) = (world.client(), world.client());
    let owner = session(&client);
    let id = owner.id().to_owned();
    thread::scope(|scope| {
        for name in ["a", "b"] {
            let joined = client.join_session(&id).unwrap();
            scope.spawn(move || joined.lock([name], PATIENCE).unwrap());
        }
    });
    assert_eq!(held(&owner), ["a", "b"]);
    let last = owner.clone();
    drop(owner);
    assert!(last.is_alive() && !is_free(&other, "a"));
    drop(last);
    freed(&other, "a");
    freed(&other, "b");
    assert!(client.join_session(&id).is_none());
}

fn a_thread_learns_that_a_session_was_lost_or_was_not(world: &World) {
    let client = world.client();
    let brief = || client.session().ttl(12 * SECOND).grant(PATIENCE).unwrap();
    let revoked = brief();
    assert_eq!(revoked.lost(20 * MS).unwrap(), None);
    let watch = thread::spawn({
        let session = revoked.clone();
        move || session.lost(Duration::MAX)
    });
    revoked.revoke().unwrap();
    eventually("the watch ends", || watch.is_finished());
    assert_eq!(watch.join().unwrap().unwrap(), None, "it was revoked");
    let lost = brief();
    lost.lock(["a", "b"], PATIENCE).unwrap();
    let cancelled = lost.cancellation();
    client.revoke("b").unwrap();
    assert!(lost.lost(PATIENCE).unwrap().is_some());
    assert!(!lost.is_alive() && cancelled.is_cancelled());
    assert_eq!(lost.revoke().unwrap(), Released::AlreadyExpired);
    freed(&client, "a");
}

fn a_session_that_runs_a_body_ends_with_it(world: &World) {
    let (client, other) = (world.client(), world.client());
    let kept = client
        .session()
        .run(PATIENCE, |session| {
            session.lock(["a"], PATIENCE).unwrap();
            session.clone()
        })
        .unwrap();
    assert!(!kept.is_alive());
    freed(&other, "a");
    let failed: Result<(), Error> = client.session().try_run(PATIENCE, |session| {
        session.lock(["a"], PATIENCE)?;
        session.unlock(["b"]).map(drop)
    });
    assert!(failed.unwrap_err().is_config());
    freed(&other, "a");
    let ended = client.session().run(PATIENCE, |session| session.revoke().unwrap());
    assert_eq!(ended.unwrap(), Released::Released, "it was not lost");
    let lost = client.session().ttl(12 * SECOND).run(PATIENCE, |session| {
        session.lock(["a"], PATIENCE).unwrap();
        client.revoke("a").unwrap();
        assert!(session.lost(PATIENCE).unwrap().is_some());
    });
    assert!(lost.unwrap_err().is_lost());
}

fn a_body_that_panics_ends_its_session_for_all_handles(world: &World) {
    let (client, other) = (world.client(), world.client());
    let mut kept = None;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        client.session().run(PATIENCE, |session| {
            kept = Some(session.clone());
            session.lock(["a"], PATIENCE).unwrap();
            panic!("on purpose");
        })
    }));
    assert!(panicked.is_err() && !kept.unwrap().is_alive());
    freed(&other, "a");
}

both!(
    session_holds_each_name_until_it_is_unlocked,
    threads_join_a_session_and_its_last_handle_releases_all,
    a_thread_learns_that_a_session_was_lost_or_was_not,
    a_session_that_runs_a_body_ends_with_it,
    a_body_that_panics_ends_its_session_for_all_handles,
);

#[test]
fn a_scope_is_that_of_its_thread_and_ends_with_its_body() {
    let quorum = Quorum::in_memory(3).unwrap();
    let (outer, inner) = (session(&quorum), session(&quorum));
    let current = || Session::current().map(|session| session.id().to_owned());
    assert_eq!(current(), None);
    outer.scope(|| {
        assert_eq!(current().as_deref(), Some(outer.id()));
        assert_eq!(thread::scope(|scope| scope.spawn(current).join().unwrap()), None);
        inner.scope(|| assert_eq!(current().as_deref(), Some(inner.id())));
        let panicked = catch_unwind(AssertUnwindSafe(|| inner.scope(|| panic!("on purpose"))));
        assert!(panicked.is_err());
        assert_eq!(current().as_deref(), Some(outer.id()));
    });
    assert_eq!(current(), None);
    let id = outer.id().to_owned();
    drop(outer);
    assert!(quorum.join_session(&id).is_none(), "the scope keeps it no longer");
}

#[test]
fn input_that_makes_no_sense_is_refused() {
    let quorum = Quorum::in_memory(3).unwrap();
    let live = session(&quorum);
    assert!(live.lock(NO_NAMES, SECOND).unwrap_err().is_config());
    assert!(live.try_lock(NO_NAMES).unwrap_err().is_config());
    assert!(live.unlock(NO_NAMES).unwrap_err().is_config());
    assert!(live.lock([""], SECOND).unwrap_err().is_config());
    assert!(live.unlock(["a"]).unwrap_err().is_config(), "it does not hold it");
    assert!(quorum.session().ttl(Duration::ZERO).grant(SECOND).unwrap_err().is_config());
    assert!(quorum.session().ttl(Duration::ZERO).grant_default().unwrap_err().is_config());
    assert!(quorum.session().options(quorum.options().ttl(SECOND)).grant_default().unwrap().is_alive());
    assert!(quorum.join_session("nobody").is_none());
    live.lock(["a"], PATIENCE).unwrap();
    quorum.shutdown(PATIENCE).unwrap();
    assert_eq!(live.lost(SECOND).unwrap(), Some(LostReason::Closed));
    assert!(quorum.session().grant(SECOND).unwrap_err().is_closed());
}

#[test]
fn session_grant_without_a_quorum_names_the_silent_node() {
    let nobody = quorumlock::Quorum::builder().node("redis://127.0.0.1:1");
    let quorum = Quorum::open(nobody).unwrap();
    let error = quorum.session().grant(50 * MS).unwrap_err();
    assert!(error.is_unavailable() && error.nodes().len() == 1, "{error}");
}
