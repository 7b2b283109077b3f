//! `peers` compares quorumlock with other locks over Redis, and with floors: the least that a lock
//! over five nodes costs. All contenders run on the same servers, in turn.

mod markdown;
mod plots;
mod reach;
mod relay;
mod scenario;

use std::path::PathBuf;
use std::time::Instant;

use crate::contender::{Kind, Result};
use crate::table::Report;
pub use relay::Relay;
use scenario::Scenario;

#[derive(clap::Args)]
pub struct Args {
    /// The scenarios to measure
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Scenario::ALL)]
    scenario: Vec<Scenario>,
    /// A share of the usual number of pairs: 0.1 for a glance
    #[arg(long, default_value_t = 1.0)]
    share: f64,
    /// Only the contender of this name, or those whose names contain it, and the floor by hand
    #[arg(long)]
    only: Option<String>,
    /// Adds rows that another program measured: a file as --json writes it
    #[arg(long)]
    with: Vec<PathBuf>,
    /// Writes all rows as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// Writes plots into this folder
    #[arg(long)]
    plots: Option<PathBuf>,
    /// Writes the part of benches/README.md that shows a run
    #[arg(long, requires = "date")]
    markdown: Option<PathBuf>,
    /// The day of the run, for --markdown
    #[arg(long)]
    date: Option<String>,
}

pub async fn measure(args: &Args) -> Result<()> {
    let mut report = Report::default();
    let names = |part: &str, kind: &Kind| match Kind::ALL.iter().any(|kind| kind.name() == part) {
        true => kind.name() == part,
        false => kind.name().contains(part),
    };
    let wanted = |kind: &Kind| *kind == Kind::Hand || args.only.as_ref().is_none_or(|part| names(part, kind));
    let kinds: Vec<_> = Kind::ALL.into_iter().filter(wanted).collect();
    for scenario in &args.scenario {
        let began = Instant::now();
        scenario.measure(&kinds, args.share, &mut report).await?;
        eprintln!("({scenario:?}: {:.0} s)", began.elapsed().as_secs_f64());
    }
    for file in &args.with {
        let other: Report = serde_json::from_slice(&std::fs::read(file)?)?;
        report.rows.extend(other.rows);
    }
    if let Some(file) = &args.json {
        std::fs::write(file, serde_json::to_vec_pretty(&report)?)?;
    }
    if let Some(folder) = &args.plots {
        plots::write(&report, folder)?;
    }
    if let Some(file) = &args.markdown {
        std::fs::write(file, markdown::written(&report, args.date.as_deref().unwrap_or_default()))?;
    }
    reach::tell(&report);
    Ok(())
}
