//! `quorumlock bench faults`: how much slower locks are while nodes fail. Over servers of its own:
//! nobody else's are stopped.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use quorumlock::Quorum;
use serde_json::{Value, json};

use super::progress::Progress;
use super::samples::{HEADING, Samples};
use super::target::name;
use super::{connected, ratio, rounded};
use crate::cli::bench::Faults;
use crate::demo::all_vote;
use crate::failure::{Failure, Outcome};
use crate::output::{self, table};
use crate::servers::Servers;

/// How long servers that come back may take to vote.
const BACK: Duration = Duration::from_secs(15);

pub(super) async fn measured(args: &Faults) -> Outcome {
    let most = (args.masters - 1) / 2;
    let failing = args.failing.unwrap_or(most);
    if failing > most {
        return Err(Failure::usage(format!("{} nodes tolerate no more than {most} that fail", args.masters)));
    }
    let mut servers = Servers::start(usize::from(args.masters))?;
    let quorum = connected(&servers.ports(), None).await?;
    let length = Duration::from_secs(u64::from(args.seconds));
    let turns = (1..=usize::from(failing)).flat_map(|failing| Fault::ALL.map(|fault| (failing, fault)));
    let turns: Vec<_> = turns.collect();
    let progress = Progress::steps("faults measured", turns.len() as u64);
    let mut measured = Vec::new();
    for (failing, fault) in turns {
        measured.push(Turn::run(&mut servers, &quorum, (failing, fault), length).await?);
        progress.step();
    }
    drop(progress);
    quorum.shutdown(Duration::from_secs(1)).await;
    told(&measured, args).await?;
    Ok(ExitCode::SUCCESS)
}

/// What happens to a server.
#[derive(Clone, Copy)]
enum Fault {
    /// SIGSTOP: connections stay open, and nothing answers.
    Stop,
    /// SIGKILL.
    Kill,
}

impl Fault {
    const ALL: [Self; 2] = [Self::Stop, Self::Kill];

    const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stopped",
            Self::Kill => "killed",
        }
    }

    fn strikes(self, servers: &mut Servers, index: usize) -> Result<(), Failure> {
        match self {
            Self::Stop => servers.stop(index)?,
            Self::Kill => servers.kill(index),
        }
        Ok(())
    }

    fn ends(self, servers: &mut Servers, index: usize) -> Result<(), Failure> {
        match self {
            Self::Stop => Ok(servers.resume(index)?),
            Self::Kill => servers.restart(index),
        }
    }
}

/// One fault, beside the healthy nodes just before it.
struct Turn {
    failing: usize,
    fault: Fault,
    healthy: Samples,
    struck: Samples,
}

impl Turn {
    async fn run(
        servers: &mut Servers,
        quorum: &Quorum,
        (failing, fault): (usize, Fault),
        length: Duration,
    ) -> Result<Self, Failure> {
        let healthy = during(quorum, length).await;
        (0..failing).try_for_each(|index| fault.strikes(servers, index))?;
        let struck = during(quorum, length).await;
        (0..failing).try_for_each(|index| fault.ends(servers, index))?;
        all_vote(quorum, BACK).await;
        Ok(Self { failing, fault, healthy, struck })
    }

    fn what(&self) -> String {
        format!("{} {}", self.failing, self.fault.name())
    }

    fn to_healthy(&self, share: f64) -> Option<f64> {
        let time = |samples: &Samples| samples.acquired(share).map(|time| time.as_secs_f64());
        ratio(time(&self.struck)?, time(&self.healthy)?)
    }

    fn json(&self) -> Value {
        let mut said = self.struck.json();
        said.insert("failing".to_owned(), self.failing.into());
        said.insert("fault".to_owned(), self.fault.name().into());
        for (name, share) in [("acquire_p50_to_healthy", 0.5), ("acquire_p99_to_healthy", 0.99)] {
            said.insert(name.to_owned(), json!(self.to_healthy(share).map(rounded)));
        }
        said.into()
    }

    fn row(&self) -> Vec<String> {
        let to_healthy = [0.5, 0.99]
            .map(|share| self.to_healthy(share).map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")));
        let failed = output::grouped(self.struck.failed);
        [self.what()].into_iter().chain(self.struck.cells()).chain(to_healthy).chain([failed]).collect()
    }
}

async fn during(quorum: &Quorum, length: Duration) -> Samples {
    let lock = quorum.lock(name("faults"));
    let (began, mut samples) = (Instant::now(), Samples::default());
    while began.elapsed() < length {
        if samples.add_pair(&lock).await.is_err() {
            samples.failed += 1;
        }
    }
    samples
}

async fn told(turns: &[Turn], args: &Faults) -> Result<(), Failure> {
    if args.json {
        let turns: Vec<_> = turns.iter().map(Turn::json).collect();
        return Ok(output::say(&json!({ "nodes": args.masters, "faults": turns }).to_string()).await?);
    }
    let heading = ["nodes"].into_iter().chain(HEADING).chain(["p50 to healthy", "p99 to healthy", "failed"]);
    let rows: Vec<_> = turns.iter().map(Turn::row).collect();
    Ok(output::say(&table(&heading.collect::<Vec<_>>(), &rows).join("\n")).await?)
}
