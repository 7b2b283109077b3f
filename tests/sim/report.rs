//! The results of a run of seeds, for people and for programs.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::judge::history::SECOND;
use crate::judge::{Tally, Violation};
use crate::lists::drawn_in;
use crate::run::{Run, run};
use crate::scenes::{Scene, play};

/// How many broken runs are shown with their history.
const SHOWN: usize = 3;
/// How many broken runs are shown at all.
const TOLD: usize = 20;

#[derive(Default)]
pub struct Summary {
    seeds: u64,
    simulated: u64,
    events: u64,
    tally: Tally,
    faults: BTreeMap<&'static str, u64>,
    rules: BTreeMap<&'static str, u64>,
    scenes: BTreeMap<&'static str, Played>,
    found: Vec<Found>,
    pub differing: Vec<Item>,
    took: Duration,
    /// Processor time on all cores, which does not count the time of other programs.
    computed: Duration,
    jobs: usize,
}

/// One run: a seed of a random world, or a seed of a scene.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    pub scene: Option<&'static Scene>,
    pub seed: u64,
}

impl Item {
    pub fn run(&self) -> Run {
        self.scene.map_or_else(|| run(self.seed), |scene| play(scene, self.seed))
    }

    /// The arguments that replay this run.
    fn replay(&self) -> String {
        let scene = self.scene.map_or(String::new(), |scene| format!("--scene {} ", scene.name));
        let lists = match drawn_in() {
            0 => String::new(),
            percent => format!("--lists {percent} "),
        };
        format!("{scene}{lists}--seed {}", self.seed)
    }
}

/// The results of all runs of one scene.
#[derive(Clone, Copy, Debug, Default)]
struct Played {
    runs: u64,
    acquired: u64,
    /// The number of runs in which a promise was broken.
    broken: u64,
    first: Option<u64>,
}

/// A run that broke a promise.
struct Found {
    item: Item,
    violations: Vec<Violation>,
    around: Vec<String>,
}

impl Summary {
    /// Runs all items on all cores. With `until_found`, stops at the first violation.
    pub fn run(items: &[Item], until_found: bool) -> Self {
        let (began, before) = (Instant::now(), computed());
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let summary = Mutex::new(Self { jobs, ..Self::default() });
        let work = || {
            while !stop.load(Ordering::Relaxed) {
                let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                let run = item.run();
                if until_found && !run.judgement.violations.is_empty() {
                    stop.store(true, Ordering::Relaxed);
                }
                summary.lock().unwrap().add(*item, &run);
            }
        };
        std::thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(work))));
        let mut summary = summary.into_inner().unwrap();
        summary.found.sort_by_key(|found| (found.item.scene.map(|scene| scene.name), found.item.seed));
        summary.took = began.elapsed();
        summary.computed = computed().saturating_sub(before);
        summary
    }

    fn add(&mut self, item: Item, run: &Run) {
        match item.scene {
            Some(scene) => self.played(scene, run),
            None => self.seeds += 1,
        }
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
            self.found.push(Found { item, violations: violations.clone(), around });
        }
    }

    fn played(&mut self, scene: &Scene, run: &Run) {
        let played = self.scenes.entry(scene.name).or_default();
        played.runs += 1;
        played.acquired += run.judgement.tally.acquired;
        if !run.judgement.violations.is_empty() {
            played.broken += 1;
            played.first = Some(played.first.map_or(run.seed, |first| first.min(run.seed)));
        }
    }

    /// Whether no promise was broken, no two histories differed, and every scene acquired a lock. A
    /// scene without an acquisition could not find a bug.
    pub fn is_clean(&self) -> bool {
        let idle = self.tally.acquired == 0 || self.scenes.values().any(|played| played.acquired == 0);
        self.found.is_empty() && self.differing.is_empty() && !idle
    }

    pub fn print(&self, as_json: bool) {
        if as_json {
            println!("{}", self.json());
        } else {
            self.text();
        }
    }

    /// Acquisitions per second of processor time.
    fn rate(&self) -> u64 {
        (self.tally.acquired as f64 / self.computed.as_secs_f64().max(1e-9)) as u64
    }

    fn json(&self) -> Value {
        let found = |found: &Found| {
            let said: Vec<_> = found.violations.iter().map(|one| format!("{}: {}", one.rule.name(), one.why)).collect();
            let (item, scene) = (found.item, found.item.scene.map(|scene| scene.name));
            let (seed, replay) = (item.seed, item.replay());
            json!({"scene": scene, "seed": seed, "replay": replay, "violations": said, "history": found.around})
        };
        let played = |(name, played): (&&str, &Played)| {
            let Played { runs, broken, first, .. } = played;
            ((*name).to_owned(), json!({"runs": runs, "broken": broken, "first": first}))
        };
        json!({
            "seeds": self.seeds,
            "scenes": self.scenes.iter().map(played).collect::<serde_json::Map<_, _>>(),
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
            "broken_runs": self.found.len(),
            "found": self.found.iter().take(TOLD).map(found).collect::<Vec<_>>(),
            "not_deterministic": self.differing.iter().map(Item::replay).collect::<Vec<_>>(),
            "seconds": self.took.as_secs_f64(),
            "core_seconds": self.computed.as_secs_f64(),
            "cores": self.jobs,
            "acquisitions_a_second_and_core": self.rate(),
        })
    }

    fn text(&self) {
        let faults: u64 = self.faults.values().sum();
        println!(
            "sim: {} seeds, {} scenes, {} simulated seconds, {} acquisitions ({} a second and core), {} losses, {faults} faults, {} violations, {:.1} s",
            self.seeds,
            self.scenes.len(),
            self.simulated / SECOND,
            self.tally.acquired,
            self.rate(),
            self.tally.losses,
            self.rules.values().sum::<u64>(),
            self.took.as_secs_f64(),
        );
        for item in &self.differing {
            println!(
                "{} gave two histories: something in the library or the simulation is not deterministic",
                item.replay()
            );
        }
        for found in self.found.iter().take(TOLD) {
            println!("\nreplay with `cargo test --release --test sim -- {}`", found.item.replay());
            found.around.iter().for_each(|line| println!("    {line}"));
            found.violations.iter().take(5).for_each(|one| println!("  {}: {}", one.rule.name(), one.why));
        }
    }
}

/// The processor time that this program has used.
fn computed() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

pub fn replay(item: Item, as_json: bool) -> ExitCode {
    let run = item.run();
    if as_json {
        let mut summary = Summary { jobs: 1, ..Summary::default() };
        summary.add(item, &run);
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
