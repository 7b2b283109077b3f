//! Counts what one server carries out for each operation, by its own counters.
//!
//! With several servers, the counts would differ from run to run: a server that is late gets a
//! release and the next claim in one call.

use std::time::Duration;

use futures::future::join_all;
use quorumlock::{LockOptions, Quorum};

use crate::PATIENCE;
use crate::common::server::Server;
use crate::common::{servers, unguarded};

/// How often each operation is done. In a longer run, periodic writes of the node's record would
/// add to the counts.
const TIMES: u32 = 200;
/// The ttl of the lock whose renewals are counted.
const BRIEF: Duration = Duration::from_millis(200);

/// Prints two lines for each operation: `commands.NAME = N` and `script_calls.NAME = N`.
pub async fn told() {
    let servers = servers(1).await;
    let quorum = unguarded(&servers).connect().await.unwrap();
    let other = unguarded(&servers).connect().await.unwrap();
    let stage = Stage { server: &servers[0], quorum, other };
    stage.pairs().await;
    stage.shared().await;
    stage.sets().await;
    stage.refused().await;
    stage.renewed().await;
    stage.crowd().await;
}

struct Stage<'a> {
    server: &'a Server,
    quorum: Quorum,
    /// A second client, like that of another process.
    other: Quorum,
}

impl Stage<'_> {
    async fn pairs(&self) {
        let before = self.counts();
        for number in 0..TIMES {
            let lock = self.quorum.lock(format!("pair/{number}"));
            lock.acquire(PATIENCE).await.unwrap().release().await.unwrap();
        }
        self.tell("pair", before, TIMES);
        let before = self.counts();
        for number in 0..TIMES {
            let once = self.quorum.once(format!("once/{number}"), PATIENCE);
            once.claim().await.unwrap().expect("nobody claimed it").done().await.unwrap();
        }
        self.tell("once", before, TIMES);
    }

    async fn shared(&self) {
        let before = self.counts();
        for number in 0..TIMES {
            let lock = self.quorum.rw_lock(format!("shared/{number}"));
            lock.read(PATIENCE).await.unwrap().release().await.unwrap();
        }
        self.tell("shared", before, TIMES);
        let before = self.counts();
        for number in 0..TIMES {
            let semaphore = self.quorum.semaphore(format!("permit/{number}"), 3);
            semaphore.acquire(1, PATIENCE).await.unwrap().release().await.unwrap();
        }
        self.tell("permit", before, TIMES);
    }

    async fn sets(&self) {
        let before = self.counts();
        for number in 0..TIMES {
            let lock = self.quorum.lock_all((0..10).map(|name| format!("set/{number}/{name}")));
            lock.acquire(PATIENCE).await.unwrap().release().await.unwrap();
        }
        self.tell("set_of_ten", before, TIMES);
        let session = self.quorum.session().grant(PATIENCE).await.unwrap();
        let before = self.counts();
        for number in 0..TIMES {
            let name = format!("session/{number}");
            session.lock([&name], PATIENCE).await.unwrap();
            session.unlock([&name]).await.unwrap();
        }
        self.tell("session", before, TIMES);
        session.revoke().await.unwrap();
    }

    async fn refused(&self) {
        let held = self.quorum.lock("refused").acquire(PATIENCE).await.unwrap();
        let lock = self.other.lock("refused");
        let before = self.counts();
        for _ in 0..TIMES {
            assert!(lock.try_acquire().await.unwrap().is_none());
        }
        self.tell("refused", before, TIMES);
        held.release().await.unwrap();
    }

    /// Counts about 20 renewals, each of which is a script call of its own.
    async fn renewed(&self) {
        let options = LockOptions::default().ttl(BRIEF);
        let held = self.quorum.lock_with("renewed", &options).unwrap().acquire(PATIENCE).await.unwrap();
        let before = self.counts();
        while self.counts().script_calls < before.script_calls + 20 {
            tokio::time::sleep(BRIEF / 20).await;
        }
        let renewals = u32::try_from(self.counts().script_calls - before.script_calls).unwrap();
        self.tell("renewal", before, renewals);
        held.release().await.unwrap();
    }

    /// Runs enough concurrent tasks to fill two script calls.
    async fn crowd(&self) {
        let again = async |number| {
            let lock = self.quorum.lock(format!("crowd/{number}"));
            for _ in 0..TIMES / 10 {
                lock.acquire(PATIENCE).await.unwrap().release().await.unwrap();
            }
        };
        let tasks: u32 = 256;
        let before = self.counts();
        join_all((0..tasks).map(again)).await;
        // The number of script calls depends on timing here. The subcommand `crowd` counts them.
        let (before, times) = (before.commands, f64::from(tasks * (TIMES / 10)));
        println!("commands.crowd = {:.3}", (self.counts().commands - before) as f64 / times);
    }

    fn tell(&self, name: &str, before: Counts, times: u32) {
        let after = self.counts();
        let each = |after: u64, before: u64| (after - before) as f64 / f64::from(times);
        println!("commands.{name} = {:.3}", each(after.commands, before.commands));
        println!("script_calls.{name} = {:.4}", each(after.script_calls, before.script_calls));
    }

    fn counts(&self) -> Counts {
        let said = self.server.command(&["INFO", "commandstats"]);
        let mut counts = Counts::default();
        for (command, calls) in said.lines().filter_map(calls) {
            counts.commands += calls;
            counts.script_calls += if ["eval", "evalsha"].contains(&command) { calls } else { 0 };
        }
        counts
    }
}

#[derive(Clone, Copy, Default)]
struct Counts {
    commands: u64,
    script_calls: u64,
}

/// Parses `cmdstat_set:calls=12,usec=34,..`. Leaves out INFO: this program sends it, and so does
/// the library, but not for operations.
fn calls(line: &str) -> Option<(&str, u64)> {
    let (command, figures) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
    (command != "info").then_some((command, figures.split(',').next()?.parse().ok()?))
}
