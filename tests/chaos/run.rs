//! Runs workers and faults for a while, and reports.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, RngCore, SeedableRng};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::sync::RwLock;
use tokio::time::sleep;

use crate::agents::AGENTS;
use crate::cluster::{HOLDER, Node, Workers};
use crate::common::server::{Server, ask};
use crate::faults::Fault;
use crate::judge::history::{History, Micros, What};
use crate::judge::text::seconds;
use crate::judge::{Judgement, judge};
use crate::record::Counts;
use crate::storage::Storage;
use crate::told::clock;
use crate::{MAX_TTL, NAMES, TTL};

const NODES: usize = 5;
const WORKERS: usize = 4;
/// How many nodes may have a fault at once.
const MINORITY: usize = 2;
/// While a majority of nodes is reachable, no worker may wait longer than this for a lock.
const STALL: Duration = Duration::from_secs(20);

pub struct Options {
    seconds: u64,
    seed: u64,
    soak: bool,
    /// Whether the workers are Python processes behind two agents.
    python: bool,
    pub json: bool,
    /// If set, the program measures ratios instead: of all faults, or of the named one.
    pub ratios: Option<Option<String>>,
}

impl Options {
    pub fn parse(arguments: &[String]) -> Self {
        let mut options =
            Self { seconds: 60, seed: clock() / 1_000, soak: false, python: false, json: false, ratios: None };
        let mut words = arguments.iter().map(String::as_str).peekable();
        while let Some(word) = words.next() {
            let number =
                |word: Option<&str>| word.and_then(|number| number.parse().ok()).expect("a number after the option");
            match word {
                "--seconds" => options.seconds = number(words.next()),
                "--seed" => options.seed = number(words.next()),
                "--soak" => (options.soak, options.seconds) = (true, number(words.next())),
                "--ratios" => {
                    options.ratios = Some(words.next_if(|word| !word.starts_with("--")).map(str::to_owned));
                }
                "--python" => options.python = true,
                "--json" => options.json = true,
                other => {
                    panic!("what is {other}? use --seconds S, --seed N, --soak S, --python, --ratios [FAULT], --json")
                }
            }
        }
        options
    }
}

pub struct Report {
    json: Value,
    violations: Vec<String>,
}

impl Report {
    pub fn print(&self, json: bool) {
        if json {
            println!("{}", self.json);
        } else {
            println!("{:#}", self.json);
        }
        for violation in &self.violations {
            eprintln!("VIOLATION {violation}");
        }
    }

    pub fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }
}

/// What the tasks of a run share.
struct Chaos {
    nodes: Vec<Arc<Node>>,
    spare: Server,
    workers: Arc<Workers>,
    busy: Mutex<HashSet<usize>>,
    deck: Mutex<Vec<Fault>>,
    log: Mutex<Vec<(u64, String)>>,
    counts: Mutex<BTreeMap<&'static str, u64>>,
    /// A fault of one node holds this lock shared. A fault that needs all other nodes healthy holds
    /// it exclusively.
    healthy: RwLock<()>,
    ends: Instant,
    kills: bool,
}

pub async fn run(options: &Options) -> Report {
    let nodes: Vec<_> =
        futures::future::join_all((0..NODES).map(|_| Node::start())).await.into_iter().map(Arc::new).collect();
    let (storage, port) = Storage::start(NAMES.len()).await;
    let workers = Workers::start(WORKERS, options.seed, &nodes, port, options.python);
    let chaos = Arc::new(Chaos {
        nodes,
        spare: Server::start().await,
        workers,
        busy: Mutex::default(),
        deck: Mutex::default(),
        log: Mutex::default(),
        counts: Mutex::default(),
        healthy: RwLock::default(),
        ends: Instant::now() + Duration::from_secs(options.seconds),
        kills: !options.soak,
    });
    let began = chaos.until_all_progress(clock()).await.expect("healthy nodes grant locks");
    let mut random = SmallRng::seed_from_u64(options.seed);
    let mut fork = || SmallRng::from_rng(&mut random).unwrap();
    let mut tasks = vec![tokio::spawn(chaos.clone().trouble_workers(fork()))];
    tasks.push(tokio::spawn(chaos.clone().swap_minorities(fork())));
    tasks.push(tokio::spawn(chaos.clone().trouble_agents(fork())));
    tasks.extend((0..MINORITY).map(|_| tokio::spawn(chaos.clone().trouble_nodes(fork()))));
    for task in tasks {
        task.await.expect("no fault fails to be made");
    }
    let healed = clock();
    let recovered = chaos.until_all_progress(healed).await;
    let ended = clock();
    chaos.workers.end().await;
    let left = chaos.left_behind().await;
    chaos.report(options, &storage, [began, healed, ended], recovered, left)
}

impl Chaos {
    /// Waits until every worker has acquired a lock after `since`.
    async fn until_all_progress(&self, since: u64) -> Option<u64> {
        let limit = Instant::now() + STALL;
        let progressed = |index| self.workers.record.lock().unwrap().busy(self.workers.process(index), since);
        while !(0..WORKERS).all(progressed) {
            if Instant::now() > limit {
                return None;
            }
            sleep(Duration::from_millis(100)).await;
        }
        Some(clock())
    }

    /// Applies one fault after the other to random nodes.
    async fn trouble_nodes(self: Arc<Self>, mut random: SmallRng) {
        while Instant::now() < self.ends {
            let shared = self.healthy.read().await;
            let fault = self.deal(&mut random);
            let index = self.pick(&mut random);
            let node = &self.nodes[index];
            let length = fault.length(&mut random);
            self.note(format!("{} begins on node {index} for {length:?}", fault.name()));
            fault.begin(node, self.spare.port()).await;
            self.count(fault.name());
            sleep(length).await;
            fault.end(node).await;
            self.note(format!("{} ended on node {index}", fault.name()));
            // In most cases, wait until the node votes again. In the other cases, a majority may be
            // missing for a while.
            if random.gen_bool(0.8) {
                sleep(fault.quarantine()).await;
            }
            self.busy.lock().unwrap().remove(&index);
            drop(shared);
            sleep(Duration::from_millis(random.gen_range(0..500))).await;
        }
    }

    /// Tests the quarantine. Two nodes are unreachable while locks are acquired. These nodes come
    /// back, and then a third node forgets. If the third node voted at once, the three would be a
    /// majority without any of these locks.
    async fn swap_minorities(self: Arc<Self>, mut random: SmallRng) {
        while Instant::now() < self.ends {
            sleep(Duration::from_millis(random.gen_range(5_000..10_000))).await;
            let _alone = self.healthy.write().await;
            sleep(Fault::KillAndRestartEmpty.quarantine()).await;
            let mut nodes: Vec<_> = (0..NODES).collect();
            nodes.shuffle(&mut random);
            let (away, third) = (&nodes[..MINORITY], &self.nodes[nodes[MINORITY]]);
            let absence = if random.gen_bool(0.7) { Fault::Refuse } else { Fault::Blackhole };
            self.note(format!("{} begins on nodes {away:?}, then node {} forgets", absence.name(), nodes[MINORITY]));
            self.count("swapped_minority");
            for &index in away {
                absence.begin(&self.nodes[index], self.spare.port()).await;
            }
            sleep(TTL.mul_f64(random.gen_range(0.5..1.5))).await;
            futures::future::join_all(away.iter().map(|&index| absence.end(&self.nodes[index]))).await;
            // Now clients connect to the two nodes again. Only renewed locks are on these nodes.
            sleep(TTL.mul_f64(random.gen_range(0.05..0.4))).await;
            Fault::KillAndRestartEmpty.begin(third, self.spare.port()).await;
            Fault::KillAndRestartEmpty.end(third).await;
            self.note("the swap is over".to_owned());
        }
    }

    /// Stops one worker after the other for a while, or kills and replaces it.
    async fn trouble_workers(self: Arc<Self>, mut random: SmallRng) {
        while Instant::now() < self.ends {
            sleep(Duration::from_millis(random.gen_range(300..3_000))).await;
            let index = random.gen_range(0..WORKERS);
            if self.kills && random.gen_bool(0.3) {
                self.note(format!("worker {index} killed"));
                self.count("worker_kill");
                self.workers.replace(index, random.next_u64());
                continue;
            }
            self.note(format!("worker {index} stopped"));
            self.count("worker_stop");
            self.workers.signal(index, Signal::STOP);
            sleep(TTL.mul_f64(random.gen_range(0.1..2.0))).await;
            self.workers.signal(index, Signal::CONT);
            self.note(format!("worker {index} goes on"));
        }
    }

    /// Stops one agent after the other for a while, or kills and replaces it.
    async fn trouble_agents(self: Arc<Self>, mut random: SmallRng) {
        let Some(agents) = &self.workers.agents else { return };
        while Instant::now() < self.ends {
            sleep(Duration::from_millis(random.gen_range(1_000..8_000))).await;
            let agent = random.gen_range(0..AGENTS);
            if self.kills && random.gen_bool(0.4) {
                self.note(format!("agent {agent} killed"));
                self.count("agent_kill");
                agents.replace(agent);
                continue;
            }
            self.note(format!("agent {agent} stopped"));
            self.count("agent_stop");
            agents.signal(agent, Signal::STOP);
            sleep(TTL.mul_f64(random.gen_range(0.1..2.0))).await;
            agents.signal(agent, Signal::CONT);
            self.note(format!("agent {agent} goes on"));
        }
    }

    /// Returns the next fault. Each kind of fault comes once before any kind comes again.
    fn deal(&self, random: &mut SmallRng) -> Fault {
        let mut deck = self.deck.lock().unwrap();
        if deck.is_empty() {
            deck.extend(Fault::ALL);
            deck.shuffle(random);
        }
        deck.pop().unwrap()
    }

    fn pick(&self, random: &mut SmallRng) -> usize {
        let mut busy = self.busy.lock().unwrap();
        let free: Vec<_> = (0..NODES).filter(|index| !busy.contains(index)).collect();
        let index = free[random.gen_range(0..free.len())];
        busy.insert(index);
        index
    }

    fn note(&self, what: String) {
        self.log.lock().unwrap().push((clock(), what));
    }

    fn count(&self, what: &'static str) {
        *self.counts.lock().unwrap().entry(what).or_default() += 1;
    }

    /// The locks that nodes still hold one ttl after the last worker has ended.
    async fn left_behind(&self) -> Vec<String> {
        sleep(TTL + TTL / 20).await;
        let holder = |node: &Arc<Node>, name: &str| {
            let key = format!("quorumlock:{{{name}}}");
            let holder = ask(node.port, &["EVAL", HOLDER, "1", &key], Duration::from_secs(5))
                .unwrap_or_else(|error| error.to_string());
            (!holder.is_empty()).then(|| format!("port {} still holds {name} for {holder}", node.port))
        };
        self.nodes.iter().flat_map(|node| NAMES.iter().filter_map(|name| holder(node, name))).collect()
    }

    fn report(
        &self,
        options: &Options,
        storage: &Storage,
        [began, healed, ended]: [u64; 3],
        recovered: Option<u64>,
        left: Vec<String>,
    ) -> Report {
        let record = std::mem::take(&mut *self.workers.record.lock().unwrap());
        let (counts, writes) = (record.counts, storage.writes());
        let history = record.history(&writes);
        let Judgement { tally, violations: broken } = judge(&history.events, None);
        let (pause, at) = longest_pause(&history, micros(began), micros(ended));
        let mut violations: Vec<_> = broken.iter().map(|one| format!("{}: {}", one.rule.name(), one.why)).collect();
        // One broken promise breaks others, so show only the events around the first violation.
        if let Some((said, first)) = violations.first_mut().zip(broken.first()) {
            history.around(first.event).for_each(|line| *said += &format!("\n    {line}"));
        }
        violations.extend(left);
        if pause > STALL.as_micros() as Micros || recovered.is_none() {
            violations.push(format!("no progress for {} s until {}", seconds(pause), seconds(at)));
        }
        let usage = self.usage(began, ended);
        if options.soak && usage.grew() {
            violations.push("memory or tasks grew".to_owned());
        }
        if !violations.is_empty() {
            self.log.lock().unwrap().iter().for_each(|(at, what)| eprintln!("{} {what}", seconds(micros(*at))));
        }
        let Counts { released, expired, refused, missed } = counts;
        let json = json!({
            "seconds": options.seconds,
            "seed": options.seed,
            "ttl_seconds": TTL.as_secs_f64(),
            "max_ttl_seconds": MAX_TTL.as_secs_f64(),
            "workers": WORKERS,
            "python": options.python,
            "faults": *self.counts.lock().unwrap(),
            "sections": tally.acquired,
            "released": released,
            "lost_by_deadline": expired,
            "lost_otherwise": refused,
            "missed": missed,
            "writes": writes.len() as u64 - tally.rejected_writes,
            "old_writes_refused": tally.rejected_writes,
            "longest_seconds_without_progress": in_seconds(pause),
            "recovered_after_seconds": recovered.map(|at| in_seconds(micros(at - healed))),
            "memory_kb_of_a_worker": usage.memory,
            "tasks_of_a_worker": usage.tasks,
            "violations": violations.len(),
        });
        Report { json, violations }
    }

    fn usage(&self, began: u64, ended: u64) -> Usage {
        let usage = self.workers.usage.lock().unwrap();
        let tenth = |at: u64| (at.clamp(began, ended - 1) - began) * 10 / (ended - began);
        let most = |part: u64, of: fn(&(u64, u32, u64, u64)) -> u64| {
            usage.iter().filter(|entry| tenth(entry.0) == part).map(of).max().unwrap_or_default()
        };
        Usage {
            memory: std::array::from_fn(|part| most(part as u64, |entry| entry.2)),
            tasks: std::array::from_fn(|part| most(part as u64, |entry| entry.3)),
        }
    }
}

/// The most that any worker used in each tenth of the time.
struct Usage {
    memory: [u64; 10],
    tasks: [u64; 10],
}

impl Usage {
    /// Whether usage grew from the second tenth to the last by more than 10 %, plus some room for
    /// queued operations.
    fn grew(&self) -> bool {
        let grown = |[_, early, .., late]: [u64; 10], spare| late > early + early / 10 + spare;
        grown(self.memory, 2_048) || grown(self.tasks, 8)
    }
}

/// The longest time in which no worker acquired a lock, and when this time ended.
fn longest_pause(history: &History, from: Micros, until: Micros) -> (Micros, Micros) {
    let acquired = history.events.iter().filter(|event| matches!(event.what, What::Acquired { .. }));
    let within = acquired.map(|event| event.at).filter(|at| (from..=until).contains(at));
    let moments: Vec<_> = std::iter::once(from).chain(within).chain([until]).collect();
    moments.windows(2).map(|pair| (pair[1] - pair[0], pair[1])).max().unwrap_or_default()
}

const fn micros(nanos: u64) -> Micros {
    nanos / 1_000
}

/// Seconds, rounded down to milliseconds.
fn in_seconds(micros: Micros) -> f64 {
    (micros / 1_000) as f64 / 1_000.0
}
