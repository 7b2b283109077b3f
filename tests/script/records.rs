//! Compares the record that the memory node keeps with the record that the scripts keep. Steps are
//! random hellos, claims of clients of several lists, clocks that are set forward and back, and
//! FLUSHALL. After each step, both records must be the same.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use quorumlock::node::memory::Store;
use quorumlock::node::operation::{Hello, Intent, OldAtOnce};
use quorumlock::node::redis::RedisNode;
use quorumlock::node::{Claim, Kind, Name, Operation, Outcome, Release, Renew, Revoke};
use quorumlock::rules::list::List;

use crate::common::clockwork::Clockwork;
use crate::common::node::{Recorder, ask, heard};

const CASES: u32 = 192;
const SECOND: Duration = Duration::from_secs(1);
const DAY: i64 = 86_400_000_000;

/// A step of a case.
#[derive(Clone, Debug)]
enum Step {
    Hello(Sketch),
    /// How far its ballot is ahead of the clock, in microseconds, and the number of the client's
    /// list.
    Claim(i64, Option<usize>),
    Renew(i64),
    Release(i64),
    Revoke(i64),
    /// Removes all keys. With `reset`, also resets the server's counts of commands.
    Flush {
        reset: bool,
    },
    /// Moves the clock forward.
    Forth(Duration),
    Back(Duration),
}

/// A hello, with numbers in place of ids, processes and lists.
#[derive(Clone, Debug)]
struct Sketch {
    intent: Intent,
    new: usize,
    process: usize,
    list: usize,
    old: Option<OldAtOnce>,
    knew: usize,
    sync: Option<i64>,
    seen: Vec<usize>,
}

fn sketch() -> impl Strategy<Value = Sketch> {
    let intent =
        prop_oneof![1 => Just(Intent::Look), 3 => Just(Intent::Keep), 1 => Just(Intent::Make), 3 => Just(Intent::Put)];
    let old = prop_oneof![2 => Just(None), 1 => Just(Some(OldAtOnce::Init)), 1 => Just(Some(OldAtOnce::FirstUse))];
    // Most hellos have the same process and list.
    let process = prop_oneof![1 => Just(0), 6 => Just(1), 1 => 2usize..4];
    let list = prop_oneof![4 => Just(0), 1 => 1usize..3];
    let sync = proptest::option::weighted(0.3, ballot());
    let seen = proptest::sample::subsequence(vec![0, 1, 2, 3], 0..=4);
    (intent, 0usize..3, process, list, old, 0usize..5, sync, seen).prop_map(
        |(intent, new, process, list, old, knew, sync, seen)| Sketch {
            intent,
            new,
            process,
            list,
            old,
            knew,
            sync,
            seen,
        },
    )
}

/// How far a ballot is ahead of the clock, in microseconds.
fn ballot() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => -1_000_000i64..1_000_000,
        2 => Just(-100_000_000),
        1 => Just(3_600_000_000),
        1 => DAY - 1_000..DAY + 1_000,
        1 => Just(2 * DAY),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    // Times around which ids expire, lists lapse and ballots rotate, and some other times.
    let time = || {
        let seconds = [0.001, 1.0, 4.9, 5.1, 6.0, 14.9, 15.1, 21.0, 34.9, 35.1, 70.1, 76.0, 400.0];
        proptest::sample::select(seconds.map(Duration::from_secs_f64).to_vec())
    };
    prop_oneof![
        10 => sketch().prop_map(Step::Hello),
        4 => (ballot(), proptest::option::of(0usize..3)).prop_map(|(ballot, list)| Step::Claim(ballot, list)),
        1 => ballot().prop_map(Step::Renew),
        1 => ballot().prop_map(Step::Release),
        1 => ballot().prop_map(Step::Revoke),
        1 => any::<bool>().prop_map(|reset| Step::Flush { reset }),
        6 => time().prop_map(Step::Forth),
        1 => time().prop_map(Step::Back),
    ]
}

/// The lists. The max_ttl of the last list is longer than any test server has been up.
fn lists() -> [Arc<List>; 3] {
    [("default", "a", 20), ("default", "b", 10), ("team", "a", 86_400)]
        .map(|(name, node, max_ttl)| Arc::new(List::new(name, [node], SECOND * max_ttl)))
}

impl Sketch {
    fn hello(self, now: Duration) -> Hello {
        let pairs = [("a", "id0"), ("a", "id1"), ("b", "id0"), ("b", "id2")];
        let knew = [None, Some("held"), Some("id0"), Some("id1"), Some("id2")][self.knew];
        Hello {
            intent: self.intent,
            new: ["id0", "id1", "id2"][self.new].into(),
            process: ["", "run", "run/promoted", "other"][self.process].into(),
            list: lists()[self.list].clone(),
            old: self.old,
            knew: knew.map(Into::into),
            sync: self.sync.map(|ahead| ahead_of(now, ahead)),
            seen: self.seen.into_iter().map(|at| (pairs[at].0.into(), pairs[at].1.into())).collect(),
        }
    }
}

fn ahead_of(now: Duration, ahead: i64) -> u64 {
    u64::try_from(now.as_micros()).unwrap().saturating_add_signed(ahead)
}

/// The memory node and the real node. Their clock moves only by steps of the test.
struct Twins {
    clock: Clockwork,
    node: RedisNode,
    /// Whether the server's counts show a FLUSHALL.
    flushed: Cell<bool>,
    /// How many names this test has used.
    names: Cell<u32>,
}

impl Twins {
    async fn new() -> Self {
        let clock = Clockwork::still().await;
        let node = heard(&clock.server.url(), Recorder::of("c")).await;
        Self { clock, node, flushed: Cell::new(false), names: Cell::new(0) }
    }

    async fn check(&self, steps: Vec<Step>) -> Result<(), TestCaseError> {
        let mut store = Store::default();
        self.flush(&mut store, true);
        for step in steps {
            let told = format!("{step:?}");
            let now = self.make(step, &mut store).await?;
            let real = self.stored();
            // Remove expired fields in memory. On the real node, reading has just removed expired
            // keys.
            store.expire_all(now);
            prop_assert_eq!(store.stored_record(), real, "stored after {}", told);
        }
        Ok(())
    }

    /// Makes a step on both nodes. Returns the time after it.
    async fn make(&self, step: Step, store: &mut Store) -> Result<Duration, TestCaseError> {
        let now = self.now();
        let claim = |ahead| self.claim(ahead_of(now, ahead));
        let operation: Operation = match step {
            Step::Hello(sketch) => sketch.hello(now).into(),
            Step::Claim(ahead, list) => {
                let list = list.map_or_else(|| "".into(), |list| lists()[list].hash().clone());
                Claim { list, ..claim(ahead) }.into()
            }
            Step::Renew(ahead) => Renew::of(&claim(ahead), 1).into(),
            Step::Release(ahead) => Release::of(&claim(ahead)).into(),
            Step::Revoke(ahead) => {
                let Claim { names, ballot, .. } = claim(ahead);
                Revoke { names, ballot }.into()
            }
            Step::Flush { reset } => {
                self.flush(store, reset);
                return Ok(now);
            }
            Step::Forth(time) => {
                self.clock.pass(time);
                return Ok(self.now());
            }
            Step::Back(time) => {
                self.clock.set_back(time);
                return Ok(self.now());
            }
        };
        if let Operation::Hello(Hello { old: Some(OldAtOnce::FirstUse), list, .. }) = &operation {
            store.keeps_all(self.keeps_all(list.old()));
        }
        let real = ask(&self.node, &operation).await.map(sorted);
        let memory = store.apply(&operation, now);
        prop_assert_eq!(real.ok(), Some(memory), "{:?}", operation);
        Ok(now)
    }

    /// A claim of a name that was not used before.
    fn claim(&self, ballot: u64) -> Claim {
        self.names.set(self.names.get() + 1);
        let name = Name::new("", &self.names.get().to_string()).unwrap();
        Claim {
            names: [name].into(),
            list: "".into(),
            owner: "c/1".into(),
            kind: Kind::Lock,
            ttl: SECOND,
            ballot,
            follows: None,
            gate: None,
            waiter: None,
            next: 0,
        }
    }

    fn flush(&self, store: &mut Store, reset: bool) {
        *store = Store::default();
        self.clock.server.command(&["FLUSHALL"]);
        if reset {
            self.clock.server.command(&["CONFIG", "RESETSTAT"]);
        }
        self.flushed.set(!reset);
    }

    /// Whether the script concludes from INFO that no client can have used the server before.
    fn keeps_all(&self, age: Duration) -> bool {
        let info = self.clock.server.command(&["INFO", "server"]);
        let uptime = |line: &str| line.strip_prefix("uptime_in_seconds:")?.parse::<i64>().ok();
        let uptime = info.split_whitespace().find_map(uptime);
        let age = i64::try_from(age.as_millis()).unwrap();
        uptime.unwrap() * 1_000 - 1_000 > age && !self.flushed.get()
    }

    fn now(&self) -> Duration {
        let told = self.clock.server.command(&["TIME"]);
        let (seconds, micros) = told.split_once(' ').unwrap();
        Duration::from_secs(seconds.parse().unwrap()) + Duration::from_micros(micros.parse().unwrap())
    }

    /// The real node's record, and the ids that clients saw: two hashes.
    fn stored(&self) -> [BTreeMap<String, String>; 2] {
        const JOIN: &str = "local record, seen = redis.call('HGETALL', KEYS[1]), redis.call('HGETALL', KEYS[2])
            return table.concat(record, '|') .. '#' .. table.concat(seen, '|')";
        let told = self.clock.server.command(&["EVAL", JOIN, "2", "node", "node:seen"]);
        let (record, seen) = told.split_once('#').unwrap();
        [record, seen].map(|told| {
            let parts: Vec<_> = told.split('|').filter(|_| !told.is_empty()).collect();
            parts.chunks(2).map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect()
        })
    }
}

/// Sorts the ids in the reply, since a hash has no order.
fn sorted(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Hello(Some(mut record)) => {
            record.seen.sort_unstable_by_key(|seen| (seen.node.clone(), seen.id.clone()));
            Outcome::Hello(Some(record))
        }
        other => other,
    }
}

#[test]
fn random_hellos_leave_equal_records_in_memory_and_script() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let twins = runtime.block_on(Twins::new());
    let config = Config { cases: CASES, failure_persistence: None, max_shrink_time: 10_000, ..Config::default() };
    let outcome = TestRunner::new(config)
        .run(&proptest::collection::vec(step(), 1..40), |steps| runtime.block_on(twins.check(steps)));
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}
