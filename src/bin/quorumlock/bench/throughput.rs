//! `quorumlock bench throughput`: many tasks, each with a lock of its own.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use quorumlock::Quorum;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use super::progress::Progress;
use super::samples::{HEADING, Samples};
use super::target::{Target, name};
use super::{ratio, rounded};
use crate::cli::bench::Throughput;
use crate::failure::{Failure, Outcome};
use crate::output::{self, grouped, table};

pub(super) async fn measured(args: &Throughput) -> Outcome {
    let target = Target::set(&args.place)?;
    let quorum = target.connected().await?;
    let length = Duration::from_secs(u64::from(args.seconds));
    let progress = Progress::steps("numbers of tasks measured", args.tasks.len() as u64);
    let mut crowds = Vec::new();
    for &tasks in &args.tasks {
        crowds.push(Crowd::run(&quorum, tasks, length).await?);
        progress.step();
    }
    drop(progress);
    quorum.shutdown(Duration::from_secs(1)).await;
    if args.json {
        let crowds: Vec<_> = crowds.iter().map(Crowd::json).collect();
        output::say(&json!({ "nodes": target.settings.nodes.len(), "crowds": crowds }).to_string()).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let heading = ["tasks", "pairs a second"].into_iter().chain(HEADING).chain(["client CPU, us a pair"]);
    let rows: Vec<_> = crowds.iter().map(Crowd::row).collect();
    output::say(&table(&heading.collect::<Vec<_>>(), &rows).join("\n")).await?;
    Ok(ExitCode::SUCCESS)
}

struct Crowd {
    tasks: u32,
    samples: Samples,
    took: Duration,
    cpu: Duration,
}

impl Crowd {
    async fn run(quorum: &Quorum, tasks: u32, length: Duration) -> Result<Self, Failure> {
        let (began, before) = (Instant::now(), cpu());
        let task = async |number: u32| {
            let lock = quorum.lock(name(format_args!("crowd/{number}")));
            let mut samples = Samples::default();
            while began.elapsed() < length {
                samples.add_pair(&lock).await?;
            }
            Ok::<_, Failure>(samples)
        };
        let all = try_join_all((0..tasks).map(task)).await?;
        let (took, cpu) = (began.elapsed(), cpu().saturating_sub(before));
        let mut samples = Samples::default();
        all.into_iter().for_each(|one| samples.add(one));
        Ok(Self { tasks, samples, took, cpu })
    }

    fn rate(&self) -> f64 {
        ratio(self.samples.pairs() as f64, self.took.as_secs_f64()).unwrap_or_default()
    }

    /// The client's CPU time per pair, in microseconds.
    fn client(&self) -> f64 {
        ratio(self.cpu.as_secs_f64() * 1e6, self.samples.pairs() as f64).unwrap_or_default()
    }

    fn json(&self) -> Value {
        let mut said = self.samples.json();
        said.insert("tasks".to_owned(), self.tasks.into());
        said.insert("pairs_per_second".to_owned(), rounded(self.rate()).into());
        said.insert("client_cpu_us".to_owned(), rounded(self.client()).into());
        said.into()
    }

    fn row(&self) -> Vec<String> {
        let begin = [grouped(self.tasks.into()), grouped(self.rate() as u64)];
        begin.into_iter().chain(self.samples.cells()).chain([format!("{:.1}", self.client())]).collect()
    }
}

/// The CPU time of all threads of this process.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
