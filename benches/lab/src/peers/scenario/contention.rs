//! Many tasks of one process contend for one name: how often the name passes to another task, and
//! how fairly.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::contender::{Kind, Lock, Result};
use crate::stage::{PATIENCE, Stage};
use crate::table::{Report, print, short};

const TASKS: usize = 16;
const HOLD: Duration = Duration::from_millis(2);
const LENGTH: Duration = Duration::from_secs(4);

pub async fn measure(kinds: &[Kind], share: f64, report: &mut Report) -> Result<()> {
    println!("Contention: {TASKS} tasks want one name and hold it for {HOLD:?} (peers as they retry by themselves)");
    let stage = Stage::set(5).await?;
    let mut rows = Vec::new();
    for kind in [Kind::Ours, Kind::Rslock, Kind::DistributedLock].into_iter().filter(|kind| kinds.contains(kind)) {
        let lock = Arc::new(kind.connect(&stage.ports(), &stage.scripts, PATIENCE).await?);
        let took = contend(&lock, LENGTH.mul_f64(share)).await?;
        let figures = took.figures();
        report.add_once("contention", None, kind.name(), &figures);
        rows.push([kind.name().to_owned()].into_iter().chain(figures.iter().map(|(_, value)| short(*value))).collect());
        if let Some(lock) = Arc::into_inner(lock) {
            lock.close().await;
        }
    }
    print(&["contender", "sections a second", "most", "least", "longest wait, ms"], &rows);
    Ok(())
}

/// The result. `sections` has one count for each task.
struct Course {
    length: Duration,
    sections: Vec<u32>,
    longest: Duration,
}

impl Course {
    fn figures(&self) -> Vec<(&'static str, f64)> {
        let extreme = |count: Option<&u32>| f64::from(count.copied().unwrap_or(0));
        vec![
            ("sections_per_second", f64::from(self.sections.iter().sum::<u32>()) / self.length.as_secs_f64()),
            ("most_sections", extreme(self.sections.iter().max())),
            ("least_sections", extreme(self.sections.iter().min())),
            ("longest_wait_ms", self.longest.as_secs_f64() * 1e3),
        ]
    }
}

async fn contend(lock: &Arc<Lock>, length: Duration) -> Result<Course> {
    let end = Instant::now() + length;
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let lock = lock.clone();
        tasks.spawn(async move { worker(&lock, end).await });
    }
    let mut course = Course { length, sections: Vec::new(), longest: Duration::ZERO };
    while let Some(one) = tasks.join_next().await {
        let (sections, longest) = one??;
        course.sections.push(sections);
        course.longest = course.longest.max(longest);
    }
    Ok(course)
}

/// Contends until `end`. A wait that is not over at `end` counts with its length up to `end`.
async fn worker(lock: &Lock, end: Instant) -> Result<(u32, Duration)> {
    let (mut sections, mut longest) = (0, Duration::ZERO);
    while Instant::now() < end {
        let began = Instant::now();
        let left = end - began;
        let Ok(held) = tokio::time::timeout(left, lock.wanted("wanted")).await else {
            return Ok((sections, longest.max(began.elapsed())));
        };
        longest = longest.max(began.elapsed());
        tokio::time::sleep(HOLD).await;
        held?.release().await?;
        sections += 1;
    }
    Ok((sections, longest))
}
