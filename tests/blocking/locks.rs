//! Locks on one name or on several names.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quorumlock::blocking::Quorum;
use quorumlock::{Error, LockOptions, Owner, QuorumBuilder, Released};

use crate::common::PATIENCE;
use crate::common::server::Server;
use crate::world::{MS, SECOND, World, eventually, lasting, servers};

#[test]
fn threads_hold_a_lock_on_real_servers_one_at_a_time() {
    let servers = servers(3);
    let quorum = Quorum::connect(lasting(&servers)).unwrap();
    let (inside, sections) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            let (lock, inside, sections) = (quorum.lock("it"), &inside, &sections);
            scope.spawn(move || {
                for _ in 0..20 {
                    // The timeout is shorter than the ttl: no wait can succeed because a lock
                    // expires.
                    let guard = lock.acquire(3 * PATIENCE).unwrap();
                    let (left, began) = (guard.remaining(), Instant::now());
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two inside");
                    sections.fetch_add(1, Ordering::SeqCst);
                    inside.fetch_sub(1, Ordering::SeqCst);
                    // A lock that was handed over begins with a short validity, which may end if
                    // the machine stalls.
                    let ended = guard.release().unwrap();
                    assert!(ended == Released::Released || began.elapsed() >= left, "{ended:?}");
                }
            });
        }
    });
    assert_eq!(sections.into_inner(), 80);
}

#[test]
fn lock_is_renewed_while_no_thread_waits() {
    let quorum = Quorum::in_memory(3).unwrap();
    // The ttl is long, so that the lock is not lost if the process stalls.
    let lock = quorum.lock_with("it", &quorum.options().ttl(24 * SECOND)).unwrap();
    let guard = lock.acquire(PATIENCE).unwrap();
    for _ in 0..2 {
        let deadline = || Instant::now() + guard.remaining();
        // A second is much more than the time between reading the clock and calling `remaining`.
        let before = deadline();
        eventually("it is renewed", || deadline() > before + SECOND);
    }
    assert!(guard.is_held());
    assert_eq!(guard.release().unwrap(), Released::Released);
}

#[test]
fn last_guard_dropped_is_released_and_its_connections_end() {
    let servers = servers(3);
    let other = Quorum::connect(lasting(&servers)).unwrap();
    for _ in 0..5 {
        let guard =
            Quorum::connect(lasting(&servers).client_name("gone")).unwrap().lock("it").acquire(PATIENCE).unwrap();
        assert!(other.lock("it").try_acquire().unwrap().is_none());
        assert!(guard.is_held(), "without the handle and the lock");
        drop(guard);
        other.lock("it").acquire(PATIENCE).unwrap().release().unwrap();
    }
    let connected = |server: &Server| server.command(&["CLIENT", "LIST"]).contains("name=gone");
    eventually("its connections have ended", || !servers.iter().any(connected));
}

#[test]
fn many_dropped_locks_are_released_before_the_thread_ends() {
    let servers = servers(3);
    let other = Quorum::connect(lasting(&servers)).unwrap();
    let quorum = Quorum::connect(lasting(&servers)).unwrap();
    let names = |set: usize| (0..500).map(move |name| format!("{set}/{name}"));
    let guards: Vec<_> = (0..20).map(|set| quorum.lock_all(names(set)).acquire(PATIENCE).unwrap()).collect();
    drop(quorum);
    drop(guards);
    for set in 0..20 {
        // Drop the guard, because waiting for its release may take long on a busy machine.
        drop(other.lock_all(names(set)).acquire(PATIENCE).unwrap());
    }
}

#[test]
fn run_releases_whatever_its_body_comes_to() {
    let quorum = Quorum::in_memory(3).unwrap();
    let lock = quorum.lock("it");
    assert!(lock.run(PATIENCE, |lease| lease.token()).unwrap() > 0);
    let failed = lock.try_run(PATIENCE, |_| "x".parse::<u32>().map_err(Box::<dyn std::error::Error>::from));
    assert!(failed.unwrap_err().to_string().contains("invalid digit"));
    let panicked = catch_unwind(AssertUnwindSafe(|| lock.run(PATIENCE, |_| panic!("on purpose"))));
    assert!(panicked.is_err());
    let guard = lock.acquire(PATIENCE).expect("it was released each time");
    let refused = lock.try_run(Duration::ZERO, |_| Ok::<_, Box<dyn std::error::Error>>(()));
    assert!(refused.unwrap_err().downcast_ref::<Error>().unwrap().is_timeout());
    drop(guard);
}

#[test]
fn a_body_that_ends_after_its_lock_was_lost_is_told_so() {
    let quorum = Quorum::in_memory(3).unwrap();
    let lock = quorum.lock_with("it", &quorum.options().ttl(12 * SECOND)).unwrap();
    let lost = lock.run(PATIENCE, |lease| {
        quorum.revoke("it").unwrap();
        eventually("the lock is lost", || !lease.is_held());
    });
    assert!(lost.unwrap_err().is_lost());
    assert!(lock.acquire(PATIENCE).unwrap().is_held());
}

fn revoked_guard_keeps_the_next_holder_out_until_dropped(world: &World) {
    let (client, other) = (world.client(), world.client());
    let short = client.options().ttl(1_500 * MS).round_timeout(500 * MS);
    let guard = client.lock_with("it", &short).unwrap().acquire(PATIENCE).unwrap();
    let (deadline, gone) = (Instant::now() + guard.remaining(), AtomicBool::new(false));
    thread::scope(|scope| {
        let next = scope.spawn(|| {
            let _next = other.lock("it").acquire(PATIENCE).unwrap();
            gone.load(Ordering::SeqCst) || Instant::now() >= deadline
        });
        client.revoke("it").unwrap();
        assert!(guard.lost(PATIENCE).unwrap().is_some());
        // Wait, so that the test notices a next holder that enters too early.
        thread::sleep(300 * MS);
        gone.store(true, Ordering::SeqCst);
        drop(guard);
        assert!(next.join().unwrap(), "it entered when the loss was told");
    });
}

#[test]
fn sets_owners_and_second_guards_are_as_with_async() {
    let quorum = Quorum::in_memory(3).unwrap();
    let owner = Owner::new();
    let set = quorum.lock_all(["b", "a"]).owned_by(&owner);
    let (guard, again) = (set.acquire(PATIENCE).unwrap(), set.try_acquire().unwrap().unwrap());
    assert_eq!(guard.names().collect::<Vec<_>>(), ["a", "b"]);
    let third = again.reenter().unwrap();
    drop((guard, again));
    assert!(third.is_held() && quorum.lock("a").try_acquire().unwrap().is_none());
    assert_eq!(quorum.inspect("a").unwrap().agreed(), Some(true));
    assert_eq!(third.release().unwrap(), Released::Released);
    let impatient = quorum.options().wait(Duration::ZERO);
    let free = quorum.lock_all_with(["a", "b"], &impatient).unwrap().acquire_default().unwrap();
    let error = quorum.lock_with("a", &impatient).unwrap().acquire_default().unwrap_err();
    assert!(error.is_timeout(), "{error}");
    drop(free);
}

#[test]
fn bad_input_and_a_shutdown_are_told_as_with_async() {
    assert!(Quorum::in_memory(0).unwrap_err().is_config());
    assert!(Quorum::connect(QuorumBuilder::default()).unwrap_err().to_string().contains("no node is configured"));
    let nobody = QuorumBuilder::default().node("redis://127.0.0.1:1").connect_timeout(Duration::from_millis(50));
    assert!(Quorum::connect(nobody).unwrap_err().is_unavailable());
    let quorum = Quorum::in_memory(3).unwrap();
    assert!(quorum.lock("").acquire(SECOND).unwrap_err().is_config());
    assert!(quorum.lock_with("it", &LockOptions::default().ttl(Duration::ZERO)).unwrap_err().is_config());
    let guard = quorum.lock("it").acquire(PATIENCE).unwrap();
    quorum.shutdown(PATIENCE).unwrap();
    assert!(!guard.is_held() && quorum.lock("it").acquire(SECOND).unwrap_err().is_closed());
}

both!(revoked_guard_keeps_the_next_holder_out_until_dropped);
