//! Many readers, or one writer.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use quorumlock::blocking::Quorum;
use quorumlock::{Error, LostReason, Released};

use crate::common::PATIENCE;
use crate::world::{MS, SECOND, World, eventually, freed};

fn readers_share_it_and_a_writer_is_alone(world: &World) {
    let (one, two) = (world.client().rw_lock("a"), world.client().rw_lock("a"));
    let (reader, other) = (one.read(PATIENCE).unwrap(), two.try_read().unwrap().unwrap());
    assert!(one.try_write().unwrap().is_none());
    assert!(one.write(20 * MS).unwrap_err().is_timeout());
    assert_eq!((reader.name(), reader.lease().is_held()), ("a", true));
    assert_eq!(reader.release().unwrap(), Released::Released);
    assert_eq!(other.release().unwrap(), Released::Released);
    let writer = one.write(PATIENCE).unwrap();
    assert!(two.try_read().unwrap().is_none() && two.try_write().unwrap().is_none());
    assert!(two.read(20 * MS).unwrap_err().is_timeout());
    let token = writer.token();
    let reader = writer.downgrade().unwrap();
    assert!(reader.is_held() && reader.token() > token);
    let other = two.read(PATIENCE).unwrap();
    assert!(two.try_write().unwrap().is_none());
    drop((reader, other));
    let writer = two.write(PATIENCE).unwrap();
    assert!(writer.token() > token);
    assert_eq!(writer.release().unwrap(), Released::Released);
}

fn dropped_read_and_write_guards_are_released(world: &World) {
    let (client, other) = (world.client(), world.client());
    drop(client.rw_lock("read").read(PATIENCE).unwrap());
    drop(client.rw_lock("written").write(PATIENCE).unwrap());
    drop(client.rw_lock("downgraded").write(PATIENCE).unwrap().downgrade().unwrap());
    for name in ["read", "written", "downgraded"] {
        freed(&other, name);
    }
}

fn two_threads_read_together_and_write_in_turn(world: &World) {
    let (one, two) = (world.client().rw_lock("a"), world.client().rw_lock("a"));
    let (both, inside, sections) = (Barrier::new(2), AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        for lock in [&one, &two] {
            let (both, inside, sections) = (&both, &inside, &sections);
            scope.spawn(move || {
                lock.run_read(PATIENCE, |lease| {
                    both.wait();
                    assert!(lease.is_held());
                })
                .unwrap();
                for _ in 0..10 {
                    let section = |_: &_| {
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two write");
                        sections.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        Ok::<_, Error>(())
                    };
                    lock.try_run_write(PATIENCE, section).unwrap();
                }
            });
        }
    });
    assert_eq!(sections.into_inner(), 20);
}

fn a_body_that_fails_releases_it_and_its_error_is_returned(world: &World) {
    let lock = world.client().rw_lock("a");
    type Failed = Box<dyn std::error::Error>;
    let failed = lock.try_run_read(PATIENCE, |_| "x".parse::<u32>().map_err(Failed::from));
    assert!(failed.unwrap_err().to_string().contains("invalid digit"));
    assert_eq!(lock.run_write(PATIENCE, |lease| lease.name().to_owned()).unwrap(), "a");
    let refused = lock.try_run_write(Duration::ZERO, |_| Ok::<_, Failed>(())).and_then(|()| {
        let _reader = lock.read(PATIENCE)?;
        lock.try_run_write(Duration::ZERO, |_| Ok::<_, Failed>(()))
    });
    assert!(refused.unwrap_err().downcast_ref::<Error>().unwrap().is_timeout());
}

fn a_thread_learns_that_it_was_lost_or_was_not(world: &World) {
    let client = world.client();
    let lock = client.rw_lock_with("a", &client.options().ttl(12 * SECOND)).unwrap();
    let reader = lock.read(PATIENCE).unwrap();
    assert_eq!(reader.lost(20 * MS).unwrap(), None);
    let lease = reader.lease();
    let watch = thread::spawn(move || lease.lost(Duration::MAX));
    reader.release().unwrap();
    eventually("the watch ends", || watch.is_finished());
    assert_eq!(watch.join().unwrap().unwrap(), None, "it was released");
    let error = lock.run_write(PATIENCE, |lease| {
        client.revoke("a").unwrap();
        assert!(matches!(lease.lost(PATIENCE).unwrap(), Some(LostReason::Revoked | LostReason::Expired)));
        assert_eq!(lease.lost(Duration::ZERO).unwrap(), lease.lost(Duration::MAX).unwrap());
    });
    assert!(error.unwrap_err().is_lost());
}

fn waits_by_default_are_those_of_the_options(world: &World) {
    let client = world.client();
    let lock = client.rw_lock_with("a", &client.options().wait(20 * MS)).unwrap();
    let reader = lock.read_default().unwrap();
    assert!(lock.write_default().unwrap_err().is_timeout());
    reader.release().unwrap();
    eventually("it is free", || lock.write_default().is_ok());
    let _writer = client.rw_lock("a").write(PATIENCE).unwrap();
    assert!(lock.read_default().unwrap_err().is_timeout());
}

both!(
    readers_share_it_and_a_writer_is_alone,
    dropped_read_and_write_guards_are_released,
    two_threads_read_together_and_write_in_turn,
    a_body_that_fails_releases_it_and_its_error_is_returned,
    a_thread_learns_that_it_was_lost_or_was_not,
    waits_by_default_are_those_of_the_options,
);

#[test]
fn a_reader_never_becomes_the_writer_and_bad_names_are_refused() {
    let quorum = Quorum::in_memory(3).unwrap();
    let reader = quorum.rw_lock("a").read(PATIENCE).unwrap();
    assert!(reader.upgrade().unwrap_err().is_config() && reader.is_held());
    for name in ["", "a\0b"] {
        assert!(quorum.rw_lock(name).read(SECOND).unwrap_err().is_config());
        assert!(quorum.rw_lock(name).try_write().unwrap_err().is_config());
        assert!(quorum.rw_lock_with(name, &quorum.options()).unwrap_err().is_config());
    }
    quorum.shutdown(PATIENCE).unwrap();
    assert_eq!(reader.lost(SECOND).unwrap(), Some(LostReason::Closed));
    assert!(quorum.rw_lock("a").read(SECOND).unwrap_err().is_closed());
}
