//! What a run of seeds came to, for people and for programs.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::judge::history::SECOND;
use crate::judge::{Tally, Violation};
use crate::run::{Run, run};

/// How many violations are shown with their history.
const SHOWN: usize = 3;

#[derive(Default)]
pub struct Summary {
    seeds: u64,
    simulated: u64,
    events: u64,
    tally: Tally,
    faults: BTreeMap<&'static str, u64>,
    rules: BTreeMap<&'static str, u64>,
    found: Vec<Found>,
    pub differing: Vec<u64>,
    took: Duration,
    /// Time of all cores, without what other programs took of them.
    computed: Duration,
    jobs: usize,
}

/// A seed that broke a promise.
struct Found {
    seed: u64,
    violations: Vec<Violation>,
    around: Vec<String>,
}

impl Summary {
    /// Runs `count` seeds from `first` on, on all cores; until the first violation if that is asked for.
    pub fn run(first: u64, count: u64, until_found: bool) -> Self {
        let (began, before) = (Instant::now(), computed());
        let (next, stop) = (AtomicU64::new(first), AtomicBool::new(false));
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let summary = Mutex::new(Self { jobs, ..Self::default() });
        let work = || {
            while !stop.load(Ordering::Relaxed) {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= first + count {
                    return;
                }
                let run = run(seed);
                if until_found && !run.judgement.violations.is_empty() {
                    stop.store(true, Ordering::Relaxed);
                }
                summary.lock().unwrap().add(&run);
            }
        };
        std::thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(work))));
        let mut summary = summary.into_inner().unwrap();
        summary.found.sort_by_key(|found| found.seed);
        summary.took = began.elapsed();
        summary.computed = computed().saturating_sub(before);
        summary
    }

    fn add(&mut self, run: &Run) {
        self.seeds += 1;
        self.simulated += run.simulated;
        self.events += run.history.events.len() as u64;
        let (sum, tally) = (&mut self.tally, run.judgement.tally);
        sum.asked += tally.asked;
        sum.acquired += tally.acquired;
        sum.losses += tally.losses;
        sum.cancelled += tally.cancelled;
        sum.rejected_writes += tally.rejected_writes;
        sum.stale_unchecked_writes += tally.stale_unchecked_writes;
        run.faults.iter().for_each(|(kind, count)| *self.faults.entry(kind).or_default() += count);
        let violations = &run.judgement.violations;
        violations.iter().for_each(|violation| *self.rules.entry(violation.rule.name()).or_default() += 1);
        if let Some(first) = violations.first() {
            let around = if self.found.len() < SHOWN { run.history.around(first.event).collect() } else { Vec::new() };
            self.found.push(Found { seed: run.seed, violations: violations.clone(), around });
        }
    }

    pub fn is_clean(&self) -> bool {
        self.found.is_empty() && self.differing.is_empty() && self.tally.acquired > 0
    }

    pub fn print(&self, as_json: bool) {
        if as_json {
            println!("{}", self.json());
        } else {
            self.text();
        }
    }

    /// Acquisitions a second of real time, on one core.
    fn rate(&self) -> u64 {
        (self.tally.acquired as f64 / self.computed.as_secs_f64().max(1e-9)) as u64
    }

    fn json(&self) -> Value {
        let found = |found: &Found| {
            let said: Vec<_> = found.violations.iter().map(|one| format!("{}: {}", one.rule.name(), one.why)).collect();
            json!({"seed": found.seed, "violations": said, "history": found.around})
        };
        json!({
            "seeds": self.seeds,
            "simulated_seconds": self.simulated / SECOND,
            "events": self.events,
            "asked": self.tally.asked,
            "acquisitions": self.tally.acquired,
            "cancelled": self.tally.cancelled,
            "losses": self.tally.losses,
            "writes_refused_by_token": self.tally.rejected_writes,
            "stale_writes_where_no_token_is_checked": self.tally.stale_unchecked_writes,
            "faults": self.faults,
            "violations": self.rules.values().sum::<u64>(),
            "broken": self.rules,
            "found": self.found.iter().map(found).collect::<Vec<_>>(),
            "not_deterministic": self.differing,
            "seconds": self.took.as_secs_f64(),
            "core_seconds": self.computed.as_secs_f64(),
            "cores": self.jobs,
            "acquisitions_a_second_and_core": self.rate(),
        })
    }

    fn text(&self) {
        let faults: u64 = self.faults.values().sum();
        println!(
            "sim: {} seeds, {} simulated seconds, {} acquisitions ({} a second and core), {} losses, {faults} faults, {} violations, {:.1} s",
            self.seeds,
            self.simulated / SECOND,
            self.tally.acquired,
            self.rate(),
            self.tally.losses,
            self.rules.values().sum::<u64>(),
            self.took.as_secs_f64(),
        );
        for seed in &self.differing {
            println!("seed {seed} gave two histories: something in the library or the simulation is not deterministic");
        }
        for found in &self.found {
            println!("\nseed {}: replay with `cargo test --test sim -- --seed {}`", found.seed, found.seed);
            found.around.iter().for_each(|line| println!("    {line}"));
            found.violations.iter().take(5).for_each(|one| println!("  {}: {}", one.rule.name(), one.why));
        }
    }
}

/// The processor time this program has used.
fn computed() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Shows all of one seed.
pub fn replay(seed: u64, as_json: bool) -> ExitCode {
    let run = run(seed);
    if as_json {
        let mut summary = Summary { jobs: 1, ..Summary::default() };
        summary.add(&run);
        summary.print(true);
    } else {
        println!("{:#?}", run.plan);
        let mut broken = run.judgement.violations.iter().peekable();
        for (number, event) in run.history.events.iter().enumerate() {
            println!("{}", run.history.line(event));
            while let Some(violation) = broken.next_if(|violation| violation.event == number) {
                println!("^^^^^^^^^^^ {}: {}", violation.rule.name(), violation.why);
            }
        }
        println!("digest {:016x}, {:?}", run.history.digest(), run.judgement.tally);
    }
    if run.judgement.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
