//! The blocking part of `quorumlock::testing`, on which users' tests rely.

use std::thread;
use std::time::{Duration, Instant};

use quorumlock::LostReason;
use quorumlock::blocking::testing::{hold, lose};
use quorumlock::blocking::{Lease, Quorum};
use tokio::runtime::Runtime;

use crate::common::{PATIENCE, unguarded};
use crate::world::{SECOND, eventually, servers};

#[test]
fn foreign_holder_keeps_the_lock_past_its_ttl_until_dropped() {
    // The ttl is long, so that the lock is not lost if the process stalls.
    let builder = quorumlock::Quorum::builder().max_ttl(24 * SECOND).ttl(24 * SECOND);
    let quorum = Quorum::in_memory_with(builder, 3).unwrap();
    let other = hold(&quorum, "it").unwrap();
    assert!(format!("{other:?}").contains("\"it\""));
    let lock = quorum.lock("it");
    assert!(lock.try_acquire().unwrap().is_none());
    let left = || quorum.inspect("it").unwrap().nodes[0].1.as_ref().unwrap().remaining.unwrap();
    for _ in 0..2 {
        let ends = || Instant::now() + left();
        // A second is much more than the time between reading the clock and calling `left`.
        let before = ends();
        eventually("it is renewed", || ends() > before + SECOND);
    }
    assert!(lock.acquire(SECOND / 50).unwrap_err().is_timeout());
    assert!(!lose(&quorum, "it").unwrap(), "it is not this quorum's");
    let (token, waits) = (other.token(), thread::spawn(move || lock.acquire(PATIENCE)));
    eventually("somebody waits", || {
        quorum.inspect("it").unwrap().nodes.iter().all(|(_, said)| said.as_ref().unwrap().waiting == 1)
    });
    drop(other);
    assert!(waits.join().unwrap().unwrap().token() > token);
}

#[test]
fn lose_takes_the_lock_from_its_holder_at_once() {
    let quorum = Quorum::in_memory(3).unwrap();
    assert!(!lose(&quorum, "it").unwrap(), "nobody holds it");
    let guard = quorum.lock("it").acquire(PATIENCE).unwrap();
    let other = quorum.lock("other").acquire(PATIENCE).unwrap();
    let lease: Lease = guard.lease();
    let told = thread::spawn(move || lease.lost(PATIENCE));
    assert!(lose(&quorum.clone(), "it").unwrap());
    assert!(!guard.is_held() && other.is_held());
    assert_eq!(told.join().unwrap().unwrap(), Some(LostReason::Revoked));
    assert!(!lose(&quorum, "it").unwrap(), "it is lost already");
    assert!(quorum.lock("it").try_acquire().unwrap().is_none(), "its guard keeps others out");
    let token = guard.token();
    drop(guard);
    assert!(quorum.lock("it").acquire(PATIENCE).unwrap().token() > token);
}

#[test]
fn a_foreign_holder_outlives_the_handle_it_was_made_with() {
    let quorum = Quorum::in_memory(3).unwrap();
    let (lock, other) = (quorum.lock("it"), hold(&quorum, "it").unwrap());
    drop(quorum);
    assert!(lock.try_acquire().unwrap().is_none());
    drop(other);
    lock.acquire(PATIENCE).unwrap().release().unwrap();
}

#[test]
fn hold_and_lose_refuse_real_nodes_empty_names_and_runtimes() {
    let servers = servers(1);
    let real = Quorum::connect(unguarded(&servers)).unwrap();
    let memory = Quorum::in_memory(3).unwrap();
    let runtime = Runtime::new().unwrap();
    let within = |said: &dyn Fn() -> quorumlock::Error| runtime.block_on(async { said() });
    let refused = [
        (hold(&real, "it").unwrap_err(), "needs a quorum in memory (Quorum::in_memory)"),
        (lose(&real, "it").unwrap_err(), "needs a quorum in memory (Quorum::in_memory)"),
        (hold(&memory, "").unwrap_err(), "name is empty"),
        (lose(&memory, "").unwrap_err(), "name is empty"),
        (within(&|| hold(&memory, "it").unwrap_err()), "within a Tokio runtime"),
        (within(&|| lose(&memory, "it").unwrap_err()), "within a Tokio runtime"),
    ];
    for (error, why) in refused {
        assert!(error.is_config() && error.to_string().contains(why), "{why}: {error}");
    }
    memory.shutdown(Duration::ZERO).unwrap();
    assert!(hold(&memory, "it").unwrap_err().is_closed());
}
