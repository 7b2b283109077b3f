//! The thread of a `Quorum` ends when its last handle is dropped.
#![cfg(target_os = "linux")]

use std::cell::RefCell;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use quorumlock::LostReason;
use quorumlock::blocking::{LockGuard, Quorum, Session};

use crate::common::program::command;
use crate::common::server::Server;
use crate::common::{self, PATIENCE};
use crate::world::{HOUR, SECOND, World, eventually, freed, is_free, lasting, servers};

/// A value that keeps the quorum's thread alive, and a name for the value.
type Kept = (&'static str, Box<dyn Send>);

fn kept(quorum: &Quorum) -> Vec<Kept> {
    let guard = quorum.lock("lock").acquire(PATIENCE).unwrap();
    let permits = quorum.semaphore("permits", 1).acquire(1, PATIENCE).unwrap();
    let leader = quorum.election("leader").campaign(PATIENCE).unwrap();
    vec![
        ("a lock", Box::new(quorum.lock("free"))),
        ("a lease", Box::new(guard.lease())),
        ("a guard", Box::new(guard)),
        ("a reader-writer lock", Box::new(quorum.rw_lock("free"))),
        ("a reader", Box::new(quorum.rw_lock("read").read(PATIENCE).unwrap())),
        ("a writer", Box::new(quorum.rw_lock("written").write(PATIENCE).unwrap())),
        ("a semaphore", Box::new(quorum.semaphore("free", 1))),
        ("a lease of permits", Box::new(permits.lease())),
        ("permits", Box::new(permits)),
        ("a builder of sessions", Box::new(quorum.session())),
        ("a session", Box::new(session(quorum))),
        ("an election", Box::new(quorum.election("free"))),
        ("a lease of an office", Box::new(leader.lease())),
        ("a leader", Box::new(leader)),
        ("an observer", Box::new(quorum.election("free").observe().unwrap())),
        ("once", Box::new(quorum.once("free", HOUR))),
        ("a permit", Box::new(quorum.once("once", HOUR).claim().unwrap().unwrap())),
        ("names", Box::new(quorum.held_names())),
    ]
}

/// The number of threads of quorums in this process.
fn threads() -> usize {
    let names = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = names.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim() == "quorumlock").count()
}

fn each_thing_that_is_left_last_ends_the_thread(world: impl Fn() -> World) {
    for number in 0.. {
        eventually("no thread stays", || threads() == 0);
        let world = world();
        let client = world.client();
        // A world in memory has a client, which would keep the thread alive. Keep real servers.
        let servers = match world {
            World::Memory(quorum) => {
                drop(quorum);
                Vec::new()
            }
            World::Redis(servers) => servers,
        };
        let Some((what, last)) = kept(&client).into_iter().nth(number) else { return };
        drop(client);
        // A thread that has just been started has no name yet.
        eventually("it has its thread", || threads() > 0);
        drop(last);
        eventually(what, || threads() == 0);
        drop(servers);
    }
}

fn a_thread_that_waits_ends_with_the_quorums_shutdown() {
    let quorum = Quorum::in_memory(3).unwrap();
    let mut leaders = quorum.election("a").observe().unwrap();
    let guard = quorum.lock("b").acquire(PATIENCE).unwrap();
    let (ended, ends) = channel();
    let (observed, watched) = (ended.clone(), ended);
    thread::spawn(move || observed.send(leaders.next().is_none()));
    thread::spawn(move || watched.send(guard.lost(Duration::MAX).unwrap() == Some(LostReason::Closed)));
    quorum.shutdown(PATIENCE).unwrap();
    drop(quorum);
    for _ in 0..2 {
        assert!(ends.recv_timeout(PATIENCE).expect("it ends"));
    }
    eventually("no thread stays", || threads() == 0);
}

/// Counts the threads of the process, so the process must run nothing else.
#[test]
#[ignore = "run by the test below, in a process of its own"]
fn alone() {
    each_thing_that_is_left_last_ends_the_thread(World::memory);
    each_thing_that_is_left_last_ends_the_thread(World::redis);
    a_thread_that_waits_ends_with_the_quorums_shutdown();
    println!("no thread stayed");
}

#[test]
fn runtime_thread_ends_when_its_last_user_is_dropped() {
    let told = child_of("alone", "");
    assert!(told.contains("no thread stayed"), "{told}");
}

/// Runs a test in a process of its own, which must succeed. Returns what the process writes.
fn child_of(test: &str, nodes: &str) -> String {
    let mut child = command(std::env::current_exe().unwrap());
    child.args(["--exact", &format!("ending::{test}"), "--ignored", "--nocapture", "--test-threads=1"]);
    let output = child.env("ENDING_NODES", nodes).output().unwrap();
    let told = [output.stdout, output.stderr].map(|told| String::from_utf8_lossy(&told).into_owned()).concat();
    assert!(output.status.success(), "{}: {told}", output.status);
    told
}

thread_local! {
    static KEPT: RefCell<Option<(Quorum, LockGuard)>> = const { RefCell::new(None) };
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn kept_in_a_thread_local() {
    let nodes = std::env::var("ENDING_NODES").unwrap();
    let keep = move || {
        // Use `KEPT` before Tokio's thread-locals. The thread-local that is used first is destroyed
        // last, so Tokio's are gone when `KEPT` is dropped.
        KEPT.with_borrow_mut(Option::take);
        let quorum = Quorum::connect(common::builder().nodes(nodes.split(',')).max_ttl(Duration::ZERO)).unwrap();
        let lock = quorum.lock_with("it", &quorum.options().ttl(600 * SECOND)).unwrap();
        let guard = lock.acquire(PATIENCE).unwrap();
        KEPT.with_borrow_mut(|kept| *kept = Some((quorum, guard)));
    };
    thread::spawn(keep).join().unwrap();
    println!("the thread has ended");
    std::process::exit(0);
}

/// Whether the lock of a test is released when the test's process ends. The process sends the
/// release within 250 ms, or never. Try ten times: on a busy machine, a try may need longer.
fn releases(test: &str, says: &str) -> bool {
    let servers = servers(3);
    let other = Quorum::connect(lasting(&servers)).unwrap();
    let nodes: Vec<_> = servers.iter().map(Server::url).collect();
    (0..10).any(|_| {
        let told = child_of(test, &nodes.join(","));
        assert!(told.contains(says), "{told}");
        let released = other.lock("it").acquire(5 * SECOND).is_ok();
        if !released {
            eventually("the next try finds it free", || other.force_release("it").is_ok());
        }
        released
    })
}

#[test]
fn a_guard_in_a_thread_local_is_released_as_its_thread_ends() {
    assert!(releases("kept_in_a_thread_local", "the thread has ended"));
}

/// A name, and the function that acquires it.
type Holder = (&'static str, fn(&Quorum) -> Box<dyn Send>);

fn session(quorum: &Quorum) -> Session {
    let session = quorum.session().grant(PATIENCE).unwrap();
    session.lock(["session"], PATIENCE).unwrap();
    session
}

/// The last handle is dropped, so the runtime that sends the release ends too.
#[test]
fn last_guard_of_every_kind_is_released_on_drop() {
    let servers = servers(3);
    let other = Quorum::connect(lasting(&servers)).unwrap();
    let holders: [Holder; 6] = [
        ("lock", |quorum| Box::new(quorum.lock("lock").acquire(PATIENCE).unwrap())),
        ("read", |quorum| Box::new(quorum.rw_lock("read").read(PATIENCE).unwrap())),
        ("written", |quorum| Box::new(quorum.rw_lock("written").write(PATIENCE).unwrap())),
        ("permits/0", |quorum| Box::new(quorum.semaphore("permits", 1).acquire(1, PATIENCE).unwrap())),
        ("leader", |quorum| Box::new(quorum.election("leader").campaign(PATIENCE).unwrap())),
        ("session", |quorum| Box::new(session(quorum))),
    ];
    for _ in 0..10 {
        for (name, hold) in holders {
            let held = hold(&Quorum::connect(lasting(&servers)).unwrap());
            assert!(!is_free(&other, name), "{name}");
            drop(held);
            freed(&other, name);
        }
    }
}

/// Acts as a program whose `main` returns with a guard in scope.
#[test]
#[ignore = "run by the test below, in a process of its own"]
fn main_returns() {
    let nodes = std::env::var("ENDING_NODES").unwrap();
    let main = || {
        let quorum = Quorum::connect(common::builder().nodes(nodes.split(',')).max_ttl(Duration::ZERO))?;
        let lock = quorum.lock_with("it", &quorum.options().ttl(600 * SECOND))?;
        let guard = lock.acquire(PATIENCE)?;
        guard.ensure(SECOND)
    };
    main().unwrap();
    std::process::exit(0);
}

#[test]
fn a_guard_dropped_as_main_returns_is_released() {
    assert!(releases("main_returns", ""));
}
