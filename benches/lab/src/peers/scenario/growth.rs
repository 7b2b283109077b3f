//! How costs grow: with nodes, with tasks, with the names in a set and the waiters on a name.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::part;
use crate::contender::{Kind, Quorums, Result};
use crate::stage::Stage;
use crate::table::{Report, print, short};
use crate::turn::Work;

const NODES: [usize; 5] = [1, 3, 5, 7, 9];
const TASKS: [u32; 7] = [1, 4, 16, 64, 256, 1_024, 4_096];
const NAMES: [usize; 4] = [1, 10, 100, 1_000];
const WAITERS: [usize; 5] = [1, 10, 100, 1_000, 10_000];
/// How long to wait for a lock: the last waiter has many waiters before it.
const TIMEOUT: Duration = Duration::from_secs(120);

pub async fn nodes(kinds: &[Kind], share: f64, report: &mut Report) -> Result<()> {
    for nodes in NODES {
        println!("Nodes: one task over {nodes}");
        let at = Some(nodes as f64);
        let turns = Stage::set(nodes).await?.compare(kinds, 3, |_| Work::Fresh { pairs: part(400, share) }).await?;
        report.add("nodes", at, &turns);
        report.show("nodes", at, &[("pair p50, ms", "pair_p50_ms"), ("p99, ms", "pair_p99_ms")]);
    }
    Ok(())
}

pub async fn tasks(kinds: &[Kind], share: f64, report: &mut Report) -> Result<()> {
    let mut stage = Stage::set(5).await?;
    for tasks in TASKS {
        println!("Tasks: {tasks}, each with a name of its own");
        let at = Some(f64::from(tasks));
        let each = part((4_096 / tasks).clamp(1, 400), share);
        let turns = stage.compare(kinds, 3, |_| Work::Crowd { tasks, each }).await?;
        report.add("tasks", at, &turns);
        let columns = [
            ("pairs a second", "pairs_per_second"),
            ("pair p99, ms", "pair_p99_ms"),
            ("client CPU, us", "client_cpu_us"),
        ];
        report.show("tasks", at, &columns);
    }
    Ok(())
}

pub async fn of_ours(share: f64, report: &mut Report) -> Result<()> {
    sets(share, report).await?;
    waiters(report).await
}

async fn sets(share: f64, report: &mut Report) -> Result<()> {
    println!("Sets: all names of a set or none, this library alone");
    let stage = Stage::empty(5)?;
    let quorum = Quorums::builder(&stage.ports()).connect().await?;
    let mut rows = Vec::new();
    for names in NAMES {
        // Fewer pairs of large sets, since these take longer.
        let pairs = part((2_000 / names as u32).clamp(20, 200), share);
        let mut took = Vec::new();
        for number in 0..pairs {
            let lock = quorum.lock_all((0..names).map(|name| format!("set/{number}/{name}")));
            let began = Instant::now();
            lock.acquire(TIMEOUT).await?.release().await?;
            took.push(began.elapsed());
        }
        took.sort_unstable();
        let p50 = took[took.len() / 2].as_secs_f64() * 1e3;
        report.add_once("sets", Some(names as f64), Kind::Ours.name(), &[("pair_p50_ms", p50)]);
        rows.push(vec![names.to_string(), short(p50), short(p50 * 1e3 / names as f64)]);
    }
    quorum.shutdown(Duration::from_secs(1)).await;
    print(&["names", "pair p50, ms", "us a name"], &rows);
    Ok(())
}

async fn waiters(report: &mut Report) -> Result<()> {
    println!("Waiters: on one name, each of which releases it at once, this library alone");
    let stage = Stage::empty(5)?;
    let quorum = Quorums::builder(&stage.ports()).connect().await?;
    let mut rows = Vec::new();
    for count in WAITERS {
        let lock = Arc::new(quorum.lock(format!("wanted/{count}")));
        let holder = lock.acquire(TIMEOUT).await?;
        let (sender, mut entered) = mpsc::unbounded_channel();
        let mut waiters = JoinSet::new();
        for _ in 0..count {
            let (lock, sender) = (lock.clone(), sender.clone());
            waiters.spawn(async move {
                let guard = lock.acquire(TIMEOUT).await?;
                let _ = sender.send(Instant::now());
                guard.release().await
            });
        }
        // Sleep until all tasks wait: nothing reports when they all do.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let began = Instant::now();
        holder.release().await?;
        let first = entered.recv().await.ok_or("no waiter entered")? - began;
        while let Some(waiter) = waiters.join_next().await {
            waiter??;
        }
        let each = began.elapsed().as_secs_f64() * 1e6 / count as f64;
        let first = first.as_secs_f64() * 1e3;
        let figures = [("first_ms", first), ("each_us", each)];
        report.add_once("waiters", Some(count as f64), Kind::Ours.name(), &figures);
        rows.push(vec![count.to_string(), short(first), short(each)]);
    }
    quorum.shutdown(Duration::from_secs(1)).await;
    print(&["waiters", "first, ms", "us a waiter"], &rows);
    Ok(())
}
