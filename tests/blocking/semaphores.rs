//! Semaphores: at most K holders at a time.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use quorumlock::blocking::Quorum;
use quorumlock::{Error, LostReason, Released};

use crate::common::PATIENCE;
use crate::world::{MS, SECOND, World, eventually};

fn threads_hold_no_more_permits_than_there_are(world: &World) {
    let (one, two) = (world.client().semaphore("a", 2), world.client().semaphore("a", 2));
    let (first, inside, sections) = (Barrier::new(2), AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        for semaphore in [&one, &two] {
            let first = &first;
            scope.spawn(move || semaphore.run(1, PATIENCE, |_| first.wait().is_leader()).unwrap());
        }
    });
    thread::scope(|scope| {
        for semaphore in [&one, &one, &two, &two] {
            let (inside, sections) = (&inside, &sections);
            scope.spawn(move || {
                for _ in 0..5 {
                    let guard = semaphore.acquire(1, PATIENCE).unwrap();
                    assert!(inside.fetch_add(1, Ordering::SeqCst) < 2, "three inside");
                    sections.fetch_add(1, Ordering::SeqCst);
                    inside.fetch_sub(1, Ordering::SeqCst);
                    assert_eq!(guard.release().unwrap(), Released::Released);
                }
            });
        }
    });
    assert_eq!(sections.into_inner(), 20);
}

fn permits_have_distinct_numbers_and_are_released_on_drop(world: &World) {
    let (one, two) = (world.client().semaphore("a", 3), world.client().semaphore("a", 3));
    let (pair, single) = (one.acquire(2, PATIENCE).unwrap(), two.acquire(1, PATIENCE).unwrap());
    let numbers: BTreeSet<_> = pair.permits().iter().chain(single.permits()).map(|permit| permit.number).collect();
    assert_eq!(numbers, BTreeSet::from([0, 1, 2]));
    assert!(two.try_acquire(1).unwrap().is_none());
    assert!(one.acquire(1, 20 * MS).unwrap_err().is_timeout());
    assert_eq!((pair.name(), pair.lease().is_held()), ("a", true));
    drop(pair);
    let again = two.acquire(2, PATIENCE).unwrap();
    drop((single, again));
    assert_eq!(one.acquire(3, PATIENCE).unwrap().permits().len(), 3);
}

fn a_body_that_fails_releases_them_and_its_error_is_returned(world: &World) {
    let semaphore = world.client().semaphore("a", 1);
    type Failed = Box<dyn std::error::Error>;
    let failed = semaphore.try_run(1, PATIENCE, |_| "x".parse::<u32>().map_err(Failed::from));
    assert!(failed.unwrap_err().to_string().contains("invalid digit"));
    assert_eq!(semaphore.run(1, PATIENCE, |lease| lease.permits()[0].number).unwrap(), 0);
    let _guard = semaphore.acquire(1, PATIENCE).unwrap();
    let refused = semaphore.try_run(1, Duration::ZERO, |_| Ok::<_, Failed>(()));
    assert!(refused.unwrap_err().downcast_ref::<Error>().unwrap().is_timeout());
}

fn a_thread_learns_that_they_were_lost_or_were_not(world: &World) {
    let client = world.client();
    let semaphore = client.semaphore_with("a", 2, &client.options().ttl(12 * SECOND)).unwrap();
    let guard = semaphore.acquire(2, PATIENCE).unwrap();
    assert_eq!(guard.lost(20 * MS).unwrap(), None);
    let lease = guard.lease();
    let watch = thread::spawn(move || lease.lost(Duration::MAX));
    guard.release().unwrap();
    eventually("the watch ends", || watch.is_finished());
    assert_eq!(watch.join().unwrap().unwrap(), None, "they were released");
    let error = semaphore.run(2, PATIENCE, |lease| {
        client.revoke("a/1").unwrap();
        assert!(lease.lost(PATIENCE).unwrap().is_some());
        assert!(!lease.is_held());
    });
    assert!(error.unwrap_err().is_lost());
    assert!(semaphore.acquire(2, PATIENCE).is_ok());
}

fn waits_by_default_are_those_of_the_options(world: &World) {
    let client = world.client();
    let semaphore = client.semaphore_with("a", 1, &client.options().wait(20 * MS)).unwrap();
    let guard = semaphore.acquire_default(1).unwrap();
    assert!(semaphore.acquire_default(1).unwrap_err().is_timeout());
    drop(guard);
    eventually("it is free", || semaphore.acquire_default(1).is_ok());
}

both!(
    threads_hold_no_more_permits_than_there_are,
    permits_have_distinct_numbers_and_are_released_on_drop,
    a_body_that_fails_releases_them_and_its_error_is_returned,
    a_thread_learns_that_they_were_lost_or_were_not,
    waits_by_default_are_those_of_the_options,
);

#[test]
fn numbers_that_make_no_sense_are_refused() {
    let quorum = Quorum::in_memory(3).unwrap();
    let two = quorum.semaphore("a", 2);
    for many in [0, 3, u32::MAX] {
        let error = two.acquire(many, SECOND).unwrap_err();
        assert!(error.is_config() && error.to_string().contains("ask for 1 to 2"), "{error}");
        assert!(two.try_acquire(many).unwrap_err().is_config());
        assert!(two.acquire_default(many).unwrap_err().is_config());
        assert!(two.run(many, SECOND, |_| ()).unwrap_err().is_config());
    }
    for permits in [0, 1_001] {
        let error = quorum.semaphore("a", permits).acquire(1, SECOND).unwrap_err();
        assert!(error.is_config() && error.to_string().contains("give it 1 to 1000"), "{error}");
        assert!(quorum.semaphore_with("a", permits, &quorum.options()).unwrap_err().is_config());
    }
    assert!(quorum.semaphore("", 1).try_acquire(1).unwrap_err().is_config());
    let guard = two.acquire(1, PATIENCE).unwrap();
    quorum.shutdown(PATIENCE).unwrap();
    assert_eq!(guard.lost(SECOND).unwrap(), Some(LostReason::Closed));
    assert!(two.acquire(1, SECOND).unwrap_err().is_closed());
}
