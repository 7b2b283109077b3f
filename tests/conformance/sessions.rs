//! Sessions: many locks that are renewed, lost and released together.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use quorumlock::{Error, LockOptions, LostReason, MAX_NAMES, MAX_SESSION_NAMES, Quorum, Released, Session};
use tokio::time::Instant;

use crate::common::logs::Logs;
use crate::common::{PATIENCE, answered, eventually, inspected, released};
use crate::semaphores::later_hellos;
use crate::world::World;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const NO_NAMES: [&str; 0] = [];

async fn session(quorum: &Quorum) -> Session {
    quorum.session().grant(PATIENCE).await.unwrap()
}

async fn brief(world: &impl World, quorum: &Quorum) -> Session {
    quorum.session().ttl(world.ttl()).grant(PATIENCE).await.unwrap()
}

/// A session that must be held when a scenario ends. A real machine may stall for most of its ttl.
async fn lasting(world: &impl World, quorum: &Quorum) -> Session {
    quorum.session().ttl(2 * world.ttl()).grant(PATIENCE).await.unwrap()
}

/// Whether nobody holds `name` or waits for it.
async fn is_free(quorum: &Quorum, name: &str) -> bool {
    let lock = quorum.lock(name);
    answered(|| lock.try_acquire()).await.is_some()
}

fn held(session: &Session) -> Vec<String> {
    session.held().into_iter().map(|(name, _)| name.to_string()).collect()
}

/// Repeats the call until the error names this many conflicts. If the machine stalls, an error may
/// name fewer.
async fn until_told(conflicts: usize, call: impl AsyncFn() -> Error) -> Error {
    let told = RefCell::new(None);
    eventually("the conflicts are told", async || {
        let error = call().await;
        let is_told = error.conflicts().len() == conflicts;
        *told.borrow_mut() = Some(error);
        is_told
    })
    .await;
    told.into_inner().unwrap()
}

async fn passed(time: Duration) {
    let until = Instant::now() + time;
    eventually("time passes", async || Instant::now() >= until).await;
}

async fn lost(session: &Session) -> LostReason {
    let reason = tokio::time::timeout(PATIENCE, session.lost()).await.expect("the loss is told");
    assert!(!session.is_alive() && session.remaining().is_zero() && session.held().is_empty());
    reason
}

async fn session_holds_its_locks_until_it_unlocks_them(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let session = session(&client).await;
    session.lock(["b", "a", "b"], PATIENCE).await.unwrap();
    answered(|| session.try_lock(["c"])).await;
    assert_eq!(held(&session), ["a", "b", "c"]);
    assert!(session.ensure(SECOND).is_ok() && session.ensure(600 * SECOND).unwrap_err().is_lost());
    for name in ["a", "b", "c"] {
        assert!(!is_free(&other, name).await, "{name}");
    }
    assert_eq!(released(session.unlock(["c", "c"])).await, Released::Released);
    world.freed("c").await;
    assert_eq!((held(&session), session.token("c")), (vec!["a".to_owned(), "b".to_owned()], None));
    assert!(is_free(&other, "c").await && !is_free(&other, "a").await);
    session.lock(["c"], PATIENCE).await.unwrap();
    assert!(!is_free(&other, "c").await);
}

async fn session_locks_all_names_or_none_and_names_the_conflicts(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let (session, another) = (session(&client).await, session(&other).await);
    another.lock(["b"], PATIENCE).await.unwrap();
    let guard = other.lock("d").acquire(PATIENCE).await.unwrap();
    session.lock(["z"], PATIENCE).await.unwrap();
    let holder = inspected(&other, "b").await.holder().unwrap().to_owned();
    for patience in [None, Some(50 * MS)] {
        let all = ["a", "b", "c", "d", "z"];
        let locks = async || match patience {
            None => session.try_lock(all).await,
            Some(patience) => session.lock(all, patience).await,
        };
        let error = until_told(2, async || locks().await.unwrap_err()).await;
        assert!(error.is_contended() || error.is_timeout(), "{error}");
        let said = error.to_string();
        assert!(
            said.contains(&format!("\"b\" is held by {holder} for ")) && said.contains("\"d\" is held by "),
            "{said}"
        );
        let conflicts: Vec<_> = error.conflicts().iter().map(|conflict| &*conflict.name).collect();
        assert_eq!(conflicts, ["b", "d"]);
        assert_eq!(error.conflicts()[0].holder, holder);
        assert!(error.conflicts()[0].left.is_some_and(|left| left > SECOND));
        assert_eq!(held(&session), ["z"], "and what it held it holds");
        eventually("a and c are free", async || is_free(&other, "a").await && is_free(&other, "c").await).await;
    }
    let options = client.options().max_rounds(1);
    let impatient = client.session().options(options).grant(PATIENCE).await.unwrap();
    let error = until_told(1, async || impatient.lock(["b"], PATIENCE).await.unwrap_err()).await;
    let said = error.to_string();
    assert!(said.contains("max_rounds (1)") && said.contains(&format!("\"b\" is held by {holder} for ")), "{said}");
    assert_eq!((error.nodes().len(), error.conflicts().len()), (3, 1));
    released(another.revoke()).await;
    released(guard.release()).await;
    session.lock(["a", "b", "c", "d", "z"], PATIENCE).await.unwrap();
    assert_eq!(held(&session), ["a", "b", "c", "d", "z"]);
}

async fn a_part_of_a_set_is_unlocked_and_the_rest_is_held_and_renewed(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let session = lasting(&world, &client).await;
    session.lock(["a", "b", "c", "d"], PATIENCE).await.unwrap();
    for name in ["a", "b", "c", "d"] {
        world.held_everywhere(name).await;
    }
    let holder = world.look(0, "a").await.holder;
    let tokens: Vec<_> = session.held().into_iter().map(|(_, token)| token).collect();
    assert!(tokens.iter().all(|token| *token == tokens[0]), "they were locked together");
    assert_eq!(released(session.unlock(["b", "d"])).await, Released::Released);
    let guard = other.lock("b").acquire(PATIENCE).await.unwrap();
    assert!(guard.token() > tokens[0]);
    world.freed("d").await;
    assert!(world.look(0, "d").await.fence >= tokens[0], "the release has raised the fence");
    passed(world.ttl() * 3).await;
    assert!(session.is_alive() && guard.is_held());
    assert_eq!(held(&session), ["a", "c"]);
    for name in ["a", "c"] {
        assert_eq!(world.look(1, name).await.holder, holder, "{name}");
    }
    assert_eq!((world.holders("d").await, session.token("a")), (0, Some(tokens[0])));
    released(session.unlock(["a"])).await;
    assert_eq!(released(session.revoke()).await, Released::Released);
    world.freed("a").await;
    world.freed("c").await;
    assert!(guard.is_held());
}

async fn name_unlocked_during_its_renewal_stays_free_without_a_loss(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    // The session must last until the unlock. Its first renewal is sent when two thirds of its ttl
    // are left.
    let session = lasting(&world, &client).await;
    session.lock(["a", "b"], PATIENCE).await.unwrap();
    world.held_everywhere("b").await;
    world.all().into_iter().for_each(|node| world.hang(node));
    eventually("a renewal is under way", async || session.remaining() < world.ttl() * 5 / 4).await;
    let mut unlocking = Box::pin(session.unlock(["a"]));
    assert!(futures::poll!(&mut unlocking).is_pending());
    world.all().into_iter().for_each(|node| world.resume(node));
    assert_eq!(released(unlocking).await, Released::Released);
    assert!(other.lock("a").acquire(PATIENCE).await.is_ok());
    passed(world.ttl() * 2).await;
    assert!(session.is_alive());
    world.freed("a").await;
}

async fn unlock_of_an_unheld_name_is_refused_and_frees_nothing(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let session = session(&client).await;
    session.lock(["a", "b"], PATIENCE).await.unwrap();
    for (names, says) in [
        (&["a", "x"][..], "does not hold \"x\", so nothing was unlocked"),
        (&NO_NAMES, "there is no name to unlock"),
        (&["a", ""], "empty"),
    ] {
        let error = session.unlock(names).await.unwrap_err();
        assert!(error.is_config() && error.to_string().contains(says), "{error}");
    }
    assert_eq!(held(&session), ["a", "b"]);
    assert!(!is_free(&other, "a").await);
}

async fn revoked_session_frees_its_locks_and_ends_for_all_handles(world: impl World) {
    let client = world.client().await;
    let session = session(&client).await;
    let handle = session.clone();
    session.lock(["a", "b"], PATIENCE).await.unwrap();
    session.lock(["c"], PATIENCE).await.unwrap();
    assert_eq!(released(session.revoke()).await, Released::Released);
    for name in ["a", "b", "c"] {
        world.freed(name).await;
    }
    assert!(!handle.is_alive() && handle.held().is_empty() && !handle.cancellation().is_cancelled());
    for error in [
        handle.lock(["d"], SECOND).await.unwrap_err(),
        handle.try_lock(["a"]).await.unwrap_err(),
        handle.unlock(["a"]).await.unwrap_err(),
        handle.ensure(MS).unwrap_err(),
    ] {
        assert!(error.is_lost() && error.to_string().contains("revoked"), "{error}");
    }
    assert_eq!(handle.revoke().await.unwrap(), Released::Released);
    eventually("nothing is in use", async || client.in_use() == (0, 0, 0)).await;
}

async fn the_last_handle_frees_everything(world: impl World) {
    let client = world.client().await;
    let session = session(&client).await;
    session.lock(["a", "b"], PATIENCE).await.unwrap();
    session.lock(["c"], PATIENCE).await.unwrap();
    let handle = session.clone();
    drop(session);
    assert!(handle.is_alive() && world.holders("c").await > 0);
    let id = handle.id().to_owned();
    drop(handle);
    for name in ["a", "b", "c"] {
        world.freed(name).await;
    }
    assert!(client.join_session(&id).is_none());
    eventually("nothing is in use", async || client.in_use() == (0, 0, 0)).await;
}

async fn a_session_that_is_not_renewed_expires_and_frees_everything(world: impl World) {
    let client = world.client().await;
    let ttl = 2 * world.ttl();
    let options = client.options().ttl(ttl).auto_renew(false);
    let session = client.session().options(options).grant(PATIENCE).await.unwrap();
    session.lock(["a"], PATIENCE).await.unwrap();
    let deadline = Instant::now() + session.remaining();
    passed(ttl / 3).await;
    let later = Instant::now() + ttl - ttl / 50;
    session.lock(["b", "c"], PATIENCE).await.unwrap();
    let token = session.cancellation();
    assert_eq!(lost(&session).await, LostReason::Expired);
    // The other locks alone would last for another third of the ttl.
    let in_time = deadline + (ttl / 4).max(world.slack());
    assert!(Instant::now() < in_time, "with the first of its locks");
    eventually("the token is cancelled", async || token.is_cancelled()).await;
    world.freed("a").await;
    for name in ["b", "c"] {
        let holders = world.holders(name).await;
        assert!(holders > 0 || Instant::now() >= later, "{name} is held until its own deadline");
        world.freed(name).await;
    }
    assert_eq!(session.revoke().await.unwrap(), Released::AlreadyExpired);
    let error = session.lock(["a"], SECOND).await.unwrap_err();
    assert!(error.is_lost() && error.to_string().contains("validity ended"), "{error}");
}

async fn a_session_outlives_several_ttls(world: impl World) {
    let client = world.client().await;
    let session = brief(&world, &client).await;
    for names in [&["a", "b"][..], &["c"], &["d"]] {
        session.lock(names, PATIENCE).await.unwrap();
        passed(world.ttl() / 5).await;
    }
    passed(world.ttl() * 3).await;
    assert!(session.is_alive() && session.remaining() <= world.ttl() && session.failed_renewal().is_empty());
    for name in ["a", "b", "c", "d"] {
        world.held_everywhere(name).await;
    }
}

async fn session_that_loses_one_lock_loses_all(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let session = lasting(&world, &client).await;
    session.lock(["a", "b"], PATIENCE).await.unwrap();
    session.lock(["c"], PATIENCE).await.unwrap();
    let guard = client.lock("its own").acquire(PATIENCE).await.unwrap();
    let waiting = session.clone();
    let holder = other.lock("d").acquire(PATIENCE).await.unwrap();
    let waiting = tokio::spawn(async move { waiting.lock(["d"], PATIENCE).await });
    world.answer(async || other.revoke("c").await).await.unwrap();
    assert_eq!(lost(&session).await, LostReason::Revoked);
    let error = waiting.await.unwrap().unwrap_err();
    assert!(error.is_lost() && error.to_string().contains("revoked it"), "{error}");
    for name in ["a", "b", "c"] {
        world.freed(name).await;
    }
    drop(holder);
    eventually("nobody waits for d", async || is_free(&other, "d").await).await;
    assert!(guard.is_held(), "that is no lock of the session");
}

async fn loss_is_told_by_the_deadline_when_nodes_hang(world: impl World) {
    let client = world.client().await;
    let session = brief(&world, &client).await;
    session.lock(["a"], PATIENCE).await.unwrap();
    session.lock(["b"], PATIENCE).await.unwrap();
    world.all().into_iter().for_each(|node| world.hang(node));
    let deadline = Instant::now() + session.remaining();
    assert_eq!(lost(&session).await, LostReason::Expired);
    assert!(Instant::now() <= deadline + world.slack() + MS, "it is told by the deadline");
    world.all().into_iter().for_each(|node| world.resume(node));
    client.quiet().await;
    world.freed("a").await;
    world.freed("b").await;
}

async fn each_lock_has_a_token_above_all_earlier_ones_of_its_names(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let (session, another) = (session(&client).await, session(&other).await);
    let mut last = 0;
    for _ in 0..3 {
        for (session, names) in
            [(&session, &["a", "b"][..]), (&another, &["b"]), (&session, &["b"]), (&another, &["a", "b"])]
        {
            session.lock(names, PATIENCE).await.unwrap();
            let token = session.token("b").unwrap();
            assert!(token > last, "{names:?}");
            last = token;
            released(session.unlock(names)).await;
        }
    }
    session.lock(["a"], PATIENCE).await.unwrap();
    session.lock(["b"], PATIENCE).await.unwrap();
    let tokens: BTreeSet<_> = session.held().into_iter().map(|(_, token)| token).collect();
    assert_eq!(tokens.len(), 2, "each has its own");
}

async fn held_name_is_locked_again_without_a_request_to_nodes(world: impl World) {
    let client = world.client().await;
    let session = client.session().ttl(60 * SECOND).grant(PATIENCE).await.unwrap();
    session.lock(["a", "b"], PATIENCE).await.unwrap();
    let before = session.held();
    world.all().into_iter().for_each(|node| world.hang(node));
    session.lock(["b", "a"], Duration::ZERO).await.unwrap();
    session.try_lock(["b"]).await.unwrap();
    assert_eq!(session.held(), before);
    world.all().into_iter().for_each(|node| world.resume(node));
}

async fn callers_of_one_session_that_want_the_same_names_share_them(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let session = session(&client).await;
    let guard = other.lock("b").acquire(PATIENCE).await.unwrap();
    let calls = [&["a", "b"][..], &["b", "c"], &["b"]].map(|names| {
        let session = session.clone();
        tokio::spawn(async move { session.lock(names, PATIENCE).await })
    });
    eventually("the first is asking", async || {
        let error = session.try_lock(["b"]).await.unwrap_err();
        // A busy machine may be slow, so perhaps no quorum answered.
        assert!(error.is_contended() || error.is_unavailable(), "{error}");
        error.to_string().contains("another caller of this session")
    })
    .await;
    let error = session.lock(["b"], 20 * MS).await.unwrap_err();
    assert!(error.is_timeout() && error.to_string().contains("\"b\""), "{error}");
    released(guard.release()).await;
    for called in join_all(calls).await {
        called.unwrap().unwrap();
    }
    assert_eq!(held(&session), ["a", "b", "c"]);
}

/// A call acquires the names that are missing when the call begins, and no others.
async fn name_unlocked_during_another_lock_call_is_not_held(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let session = session(&client).await;
    session.lock(["a"], PATIENCE).await.unwrap();
    let guard = other.lock("b").acquire(PATIENCE).await.unwrap();
    let waiting = session.clone();
    let locking = tokio::spawn(async move { waiting.lock(["a", "b"], PATIENCE).await });
    eventually("it waits", async || {
        other.inspect("b").await.unwrap().nodes.iter().any(|(_, said)| said.as_ref().is_ok_and(|said| said.waiting > 0))
    })
    .await;
    released(session.unlock(["a"])).await;
    released(guard.release()).await;
    locking.await.unwrap().unwrap();
    assert_eq!((held(&session), session.token("a")), (vec!["b".to_owned()], None));
    eventually("a is free", async || is_free(&other, "a").await).await;
}

async fn cancelled_lock_call_leaves_nothing_and_lets_the_next_run(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let session = session(&client).await;
    let guard = other.lock("b").acquire(PATIENCE).await.unwrap();
    let (first, second) = (session.clone(), session.clone());
    let first = tokio::spawn(async move { first.lock(["b"], PATIENCE).await });
    eventually("it waits", async || {
        other.inspect("b").await.unwrap().nodes.iter().any(|(_, said)| said.as_ref().is_ok_and(|said| said.waiting > 0))
    })
    .await;
    let second = tokio::spawn(async move { second.lock(["a"], PATIENCE).await });
    first.abort();
    second.await.unwrap().unwrap();
    assert_eq!(held(&session), ["a"]);
    released(guard.release()).await;
    eventually("nobody waits for b", async || is_free(&other, "b").await).await;
}

async fn session_dropped_during_lock_calls_leaves_nothing(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    for step in 0..6 {
        let session = session(&client).await;
        session.lock(["held"], PATIENCE).await.unwrap();
        let locking = tokio::spawn(async move {
            // The task has the only handle of the session.
            let asked = [session.lock(["a", "b"], PATIENCE), session.lock(["b", "c"], PATIENCE)];
            join_all(asked).await
        });
        for _ in 0..step * 3 {
            tokio::task::yield_now().await;
        }
        locking.abort();
        let _ = locking.await;
        for name in ["held", "a", "b", "c"] {
            eventually("it is free", async || is_free(&other, name).await).await;
        }
        eventually("nothing is in use", async || client.in_use() == (0, 0, 0)).await;
    }
}

async fn session_is_joined_by_its_id_in_its_own_client(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let session = session(&client).await;
    let joined = client.join_session(session.id()).unwrap();
    joined.lock(["a"], PATIENCE).await.unwrap();
    assert_eq!(held(&session), ["a"]);
    assert_eq!(joined.id(), session.id());
    drop(session);
    assert!(joined.is_alive(), "it is a handle like any other");
    assert!(client.join_session("somebody").is_none() && other.join_session(joined.id()).is_none());
    let id = joined.id().to_owned();
    released(joined.revoke()).await;
    assert!(!client.join_session(&id).unwrap().is_alive(), "it says that it has ended");
    drop(joined);
    assert!(client.join_session(&id).is_none());
}

async fn code_below_a_scope_has_the_session(world: impl World) {
    let client = world.client().await;
    let (outer, inner) = (session(&client).await, session(&client).await);
    let below = async || Session::current().unwrap().lock(["a"], PATIENCE).await;
    outer.scope(below()).await.unwrap();
    assert_eq!(held(&outer), ["a"]);
    let nested = async {
        let id = inner.scope(async { Session::current().unwrap().id().to_owned() }).await;
        (id, Session::current().unwrap().id().to_owned())
    };
    assert_eq!(outer.scope(nested).await, (inner.id().to_owned(), outer.id().to_owned()));
    assert!(Session::current().is_none());
}

async fn session_needs_a_quorum_to_begin_and_none_without_locks(mut world: impl World) {
    let client = world.client().await;
    let session = brief(&world, &client).await;
    let error = client.session().ttl(MS).grant(SECOND).await.unwrap_err();
    assert!(error.is_config() && error.to_string().contains("ttl is 1 ms"), "{error}");
    world.kill(0);
    assert!(client.session().grant(PATIENCE).await.is_ok());
    world.kill(1);
    eventually("no quorum is left", async || client.nodes().iter().filter(|node| node.state.is_admitted()).count() < 2)
        .await;
    let error = client.session().grant(200 * MS).await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("2 of 3 nodes must vote"), "{error}");
    assert_eq!(error.nodes().len(), 3);
    passed(world.ttl() * 2).await;
    assert!(session.is_alive() && session.ensure(world.ttl() / 2).is_ok());
    let error = session.lock(["a"], 100 * MS).await.unwrap_err();
    assert!(error.is_unavailable() && error.conflicts().is_empty(), "{error}");
    assert!(session.is_alive());
    assert_eq!(session.revoke().await.unwrap(), Released::Released, "nothing is to be confirmed");
}

async fn read_only_client_is_granted_no_session(world: impl World) {
    let client = world.client_with(quorumlock::QuorumBuilder::onlooker).await;
    let error = client.session().grant(SECOND).await.unwrap_err();
    assert!(error.is_config() && error.to_string().contains("only inspects"), "{error}");
}

async fn a_shutdown_ends_sessions(world: impl World) {
    let client = world.client().await;
    let (empty, session) = (session(&client).await, session(&client).await);
    session.lock(["a", "b"], PATIENCE).await.unwrap();
    client.shutdown(PATIENCE).await;
    for session in [&empty, &session] {
        assert_eq!(lost(session).await, LostReason::Closed);
        assert!(session.lock(["c"], SECOND).await.unwrap_err().is_closed());
    }
    assert_eq!((world.holders("a").await, world.holders("b").await), (0, 0), "drained");
    assert!(client.session().grant(SECOND).await.unwrap_err().is_closed());
}

async fn uncontended_session_lock_costs_a_claim_and_a_release(world: impl World) {
    let client = world.client().await;
    let session = session(&client).await;
    let asked = || world.all().iter().map(|&node| world.asked(node)).collect::<Vec<_>>();
    for names in [&["a"][..], &["a", "b", "c"]] {
        let (before, began) = (asked(), std::time::Instant::now());
        session.lock(names, PATIENCE).await.unwrap();
        session.lock(names, PATIENCE).await.unwrap();
        released(session.unlock(names)).await;
        let more: Vec<_> = before.iter().map(|before| before + 1 + world.releases(names.len())).collect();
        eventually("each node was asked", async || asked().iter().zip(&more).all(|(now, then)| now >= then)).await;
        let most = |then: &u64| then + world.hellos() + later_hellos(&world, began);
        assert!(asked().iter().zip(&more).all(|(now, then)| *now <= most(then)), "{before:?}, {:?}", asked());
    }
}

async fn names_that_make_no_sense_are_refused_and_nothing_is_lost(world: impl World) {
    // A busy machine takes seconds for this many names. With these times, no answer is late, and no
    // lock is renewed during the test.
    let options = LockOptions::default().ttl(600 * SECOND).round_timeout(5 * SECOND);
    let client = world.client_with(|builder| builder.options(options).node_timeout(20 * SECOND)).await;
    let session = session(&client).await;
    let names =
        |from: usize, many: usize| (from..from + many).map(|number| format!("name/{number}")).collect::<Vec<_>>();
    for (names, says) in [
        (names(0, MAX_NAMES + 1), "more than 1000 names"),
        (Vec::new(), "a lock has no name"),
        (vec!["a".to_owned(), String::new()], "empty"),
    ] {
        let error = session.lock(names, SECOND).await.unwrap_err();
        assert!(error.is_config() && error.to_string().contains(says), "{error}");
    }
    assert_eq!(session.token(""), None);
    for set in 0..MAX_SESSION_NAMES / MAX_NAMES {
        session.lock(names(set * MAX_NAMES, MAX_NAMES), PATIENCE).await.unwrap();
    }
    let error = session.try_lock(["one more"]).await.unwrap_err();
    assert!(error.is_config() && error.to_string().contains("more than 10000 names"), "{error}");
    drop(session.unlock(["name/4321"]).await);
    eventually("there is room", async || session.try_lock(["one more"]).await.is_ok()).await;
    assert_eq!((session.held().len(), session.is_alive()), (MAX_SESSION_NAMES, true));
    // A slow node may need longer than a round to release all names. In this case, `revoke` fails,
    // and the release goes on.
    drop(session.revoke().await);
    world.freed("name/9999").await;
    world.freed("one more").await;
}

/// Another session that locks the names in the other order could wait for this session, and both
/// would wait for ever.
async fn session_that_waits_for_a_name_below_its_own_is_logged(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let _held = other.lock_all(["a", "z"]).acquire(PATIENCE).await.unwrap();
    let session = session(&client).await;
    session.lock(["m"], PATIENCE).await.unwrap();
    let logs = Logs::capture();
    for (name, logged) in [("z", 0), ("a", 1)] {
        assert!(session.lock([name], 10 * SECOND).await.unwrap_err().is_timeout());
        let text = logs.text();
        assert_eq!(
            text.matches("a session that holds \"m\" waits for names that sort before it").count(),
            logged,
            "{name}: {text}"
        );
    }
}

both! {
    3 nodes:
        session_holds_its_locks_until_it_unlocks_them,
        session_locks_all_names_or_none_and_names_the_conflicts,
        a_part_of_a_set_is_unlocked_and_the_rest_is_held_and_renewed,
        name_unlocked_during_its_renewal_stays_free_without_a_loss,
        unlock_of_an_unheld_name_is_refused_and_frees_nothing,
        revoked_session_frees_its_locks_and_ends_for_all_handles,
        the_last_handle_frees_everything,
        a_session_that_is_not_renewed_expires_and_frees_everything,
        session_that_loses_one_lock_loses_all,
        loss_is_told_by_the_deadline_when_nodes_hang,
        each_lock_has_a_token_above_all_earlier_ones_of_its_names,
        held_name_is_locked_again_without_a_request_to_nodes,
        callers_of_one_session_that_want_the_same_names_share_them,
        name_unlocked_during_another_lock_call_is_not_held,
        cancelled_lock_call_leaves_nothing_and_lets_the_next_run,
        session_dropped_during_lock_calls_leaves_nothing,
        session_is_joined_by_its_id_in_its_own_client,
        code_below_a_scope_has_the_session,
        read_only_client_is_granted_no_session,
        a_shutdown_ends_sessions,
        uncontended_session_lock_costs_a_claim_and_a_release,
        names_that_make_no_sense_are_refused_and_nothing_is_lost;
    memory 3 nodes:
        session_that_waits_for_a_name_below_its_own_is_logged,
        a_session_outlives_several_ttls,
        session_needs_a_quorum_to_begin_and_none_without_locks;
}
