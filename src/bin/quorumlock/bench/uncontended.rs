//! `quorumlock bench uncontended`: one task, and locks that nobody else requests.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use quorumlock::Quorum;
use serde_json::{Value, json};

use super::progress::Progress;
use super::samples::{HEADING, Samples};
use super::target::{Target, name};
use super::{ratio, rounded};
use crate::cli::bench::Uncontended;
use crate::failure::{Failure, Outcome};
use crate::output::{self, table};

pub(super) async fn measured(args: &Uncontended) -> Outcome {
    let target = Target::set(&args.place)?;
    let quorum = target.connected().await?;
    let progress = Progress::steps("acquired and released", 2 * u64::from(args.pairs));
    let again = Phase::run(&quorum, args.pairs, &progress, |_| name("again")).await?;
    let fresh = Phase::run(&quorum, args.pairs, &progress, |number| name(format_args!("fresh/{number}"))).await?;
    drop(progress);
    let phases = [("again", again), ("fresh", fresh)];
    quorum.shutdown(Duration::from_secs(1)).await;
    if args.json {
        let phases: serde_json::Map<_, _> =
            phases.iter().map(|(name, phase)| ((*name).to_owned(), phase.json())).collect();
        output::say(&json!({ "nodes": target.settings.nodes.len(), "phases": phases }).to_string()).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let heading = ["names"].into_iter().chain(HEADING).chain(["pairs a second"]).collect::<Vec<_>>();
    let rows = phases.map(|(name, phase)| phase.row(name));
    output::say(&table(&heading, &rows).join("\n")).await?;
    Ok(ExitCode::SUCCESS)
}

/// One measurement of acquisitions and releases: with one name, or with a new name each time.
struct Phase {
    samples: Samples,
    took: Duration,
}

impl Phase {
    async fn run(
        quorum: &Quorum,
        pairs: u32,
        progress: &Progress,
        name: impl Fn(u32) -> String,
    ) -> Result<Self, Failure> {
        // Do not measure the first pair: an idle node may answer more slowly.
        Samples::default().add_pair(&quorum.lock(name(pairs))).await?;
        let began = Instant::now();
        let mut samples = Samples::default();
        for number in 0..pairs {
            samples.add_pair(&quorum.lock(name(number))).await?;
            progress.step();
        }
        Ok(Self { samples, took: began.elapsed() })
    }

    fn rate(&self) -> f64 {
        ratio(self.samples.pairs() as f64, self.took.as_secs_f64()).unwrap_or_default()
    }

    fn json(&self) -> Value {
        let mut said = self.samples.json();
        said.insert("pairs_per_second".to_owned(), rounded(self.rate()).into());
        said.into()
    }

    fn row(&self, name: &str) -> Vec<String> {
        let rate = output::grouped(self.rate() as u64);
        [name.to_owned()].into_iter().chain(self.samples.cells()).chain([rate]).collect()
    }
}
