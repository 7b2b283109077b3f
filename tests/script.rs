//! The scripts and the memory node do the same: random sequences of operations give the same
//! replies on both.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

mod common;
#[path = "script/records.rs"]
mod records;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::asked::Asked;
use common::clockwork::Clockwork;
use common::eventually;
use common::node::{Recorder, ask, ask_all, heard};
use common::server::Server;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use quorumlock::node::memory::Store;
use quorumlock::node::operation::{Hello, Intent, Predecessor};
use quorumlock::node::redis::RedisNode;
use quorumlock::node::{HandedOver, Hint, Inspection, Kind, Name, Note, Operation, Outcome, Queued, Verb, Waiter};
use quorumlock::rules::handover::Stamp;
use quorumlock::rules::list::List;

/// A ttl that ends within the test.
const SHORT: Duration = Duration::from_millis(100);
/// By how much a remaining ttl may differ, since the server's time goes on between cases. Different
/// ttls differ by much more.
const TOLERANCE: Duration = Duration::from_secs(60);
const CASES: u32 = 384;
/// The client of all operations except those of one owner. That owner belongs to `DEAF`, which has
/// not subscribed.
const CLIENT: &str = "host/1/uuid";
const DEAF: &str = "host/2000/uuid";

/// An operation, before it gets the names of the case.
#[derive(Clone, Debug)]
struct Sketch {
    verb: Verb,
    names: Vec<usize>,
    owner: u8,
    ttl: Duration,
    ballot: u64,
    count: u32,
    next: u64,
    /// The arrival, and when the waiter asks again.
    waits: Option<(u64, Duration)>,
    /// How long a hand-over lasts; for a note, its age.
    lasts: Duration,
    /// Whether a claim names a gate, which is the first of the other names.
    looks: bool,
}

fn sketch() -> impl Strategy<Value = Sketch> {
    let verb = prop_oneof![
        6 => Just(Verb::Claim),
        4 => Just(Verb::Renew),
        3 => Just(Verb::Release),
        2 => Just(Verb::Withdraw),
        1 => Just(Verb::Inspect),
        1 => Just(Verb::Revoke),
    ];
    // In rare cases, the node is synced to a ballot that is above most later ballots.
    let verb = prop_oneof![40 => verb, 1 => Just(Verb::Hello)];
    let ttl = prop_oneof![
        1 => Just(SHORT),
        8 => Just(Duration::from_secs(600)),
        8 => Just(Duration::from_secs(1_200)),
        2 => Just(Duration::from_nanos(1_800_000_999_999)),
    ];
    // Ballots are close together, or of different lengths: digits must not be compared as texts.
    // The last two are neighbours below 2^53: doubles must be exact.
    let ballot = prop_oneof![
        8 => 0u64..12,
        2 => 98u64..102,
        // Some ballots are above the 250,000 by which `high` is ahead of a ballot.
        2 => (1u64..8).prop_map(|times| times * 125_000),
        1 => Just((1 << 53) - 2),
        1 => Just((1 << 53) - 1),
    ];
    let names = proptest::sample::subsequence(vec![0, 1, 2], 1..=3).prop_shuffle();
    // There are few arrivals, so that some are equal. A waiter asks again soon, or after the case
    // has ended.
    let again = || prop_oneof![8 => Just(Duration::from_secs(600)), 1 => Just(SHORT / 4)];
    let waits = prop_oneof![2 => Just(None), 3 => (1u64..4, again()).prop_map(Some)];
    // The ballot of a hand-over is mostly above the operation's ballot.
    let next = prop_oneof![2 => Just(0), 3 => 0u64..14, 3 => 98u64..104, 1 => Just((1 << 53) - 1)];
    let lasts = prop_oneof![1 => Just(SHORT), 6 => Just(Duration::from_secs(600))];
    // Owners from 4 on are readers, with the numbers of owners 0 to 3.
    (verb, names, 0u8..8, ttl, ballot, 1u32..5, next, waits, (lasts, any::<bool>())).prop_map(
        |(verb, names, owner, ttl, ballot, count, next, waits, (lasts, looks))| Sketch {
            verb,
            names,
            owner,
            ttl,
            ballot,
            count,
            next,
            waits,
            lasts,
            looks,
        },
    )
}

/// Batches, each of which the adapter sends in one script call.
fn batches() -> impl Strategy<Value = Vec<Vec<Sketch>>> {
    let any = proptest::collection::vec(sketch(), 1..6).prop_map(|batch| vec![batch]);
    let several = proptest::collection::vec(prop_oneof![8 => any, 2 => contended(), 1 => described()], 1..12);
    several.prop_map(|batches| batches.concat())
}

/// An owner holds a name, others wait for it, and the holder releases it. Some waiters have not
/// subscribed. The operations go in one call or in several.
fn contended() -> impl Strategy<Value = Vec<Vec<Sketch>>> {
    // Some ballots are above the 250,000 by which `high` is ahead of a ballot.
    let above = prop_oneof![6 => 0u64..4, 1 => Just(300_000)];
    let waiters = proptest::collection::vec(1u8..8, 2..6);
    // Sometimes an owner that does not hold the name releases it: the node remembers this release.
    let stray = proptest::option::of(0u8..8);
    (98u64..104, 0u64..3, above, waiters, stray, 1usize..5).prop_map(|(ballot, raised, above, waiters, stray, size)| {
        let mut all = contention(ballot, above, &waiters);
        all.last_mut().unwrap().ballot += raised;
        if let Some(owner) = stray {
            let released = Sketch { verb: Verb::Release, owner, ..all[0].clone() };
            all.insert(1, released);
        }
        all.chunks(size).map(<[_]>::to_vec).collect()
    })
}

/// An owner holds a name and stores notes. Then this owner or another one releases the name.
fn described() -> impl Strategy<Value = Vec<Vec<Sketch>>> {
    let holder = prop_oneof![3 => Just(2u8), 1 => Just(0)];
    (98u64..104, holder, 0u64..3, 0u8..4, 1usize..6).prop_map(|(ballot, holder, number, releases, size)| {
        let asked = |verb, owner| Sketch { verb, owner, ..contention(ballot, 0, &[1]).swap_remove(0) };
        let said = |number| Sketch { next: number, ..asked(Verb::Renew, holder) };
        let all = [asked(Verb::Claim, holder), said(number), said(1), asked(Verb::Release, releases)];
        all.chunks(size).map(<[_]>::to_vec).collect()
    })
}

fn contention(ballot: u64, above: u64, waiters: &[u8]) -> Vec<Sketch> {
    let minutes = Duration::from_secs(600);
    let holds = Sketch {
        verb: Verb::Claim,
        names: vec![0],
        owner: 0,
        ttl: minutes,
        ballot,
        count: 1,
        next: 0,
        waits: None,
        lasts: minutes,
        looks: false,
    };
    let waits = |(arrival, &owner)| Sketch { owner, waits: Some((arrival, minutes)), ..holds.clone() };
    let release = Sketch { verb: Verb::Release, next: ballot + above, ..holds.clone() };
    [holds.clone()].into_iter().chain((1..).zip(waiters).map(waits)).chain([release]).collect()
}

fn operation(sketch: Sketch, names: &[Name; 3]) -> Operation {
    if sketch.verb == Verb::Hello {
        // Use low ballots: a ballot a day ahead is cut by the clock, and the two clocks differ
        // here.
        return Hello { sync: Some(sketch.ballot.min(101)), ..hello(Intent::Keep) }.into();
    }
    Asked {
        verb: sketch.verb,
        names: sketch.names.iter().map(|&name| names[name].clone()).collect(),
        owner: owner(sketch.owner),
        list: "".into(),
        ttl: if sketch.owner < 4 { sketch.ttl } else { readers_ttl(&sketch) },
        ballot: sketch.ballot,
        count: sketch.count,
        waiter: sketch.waits.map(|(arrival, again)| Waiter { arrival, lasts: handed_for(&sketch), again }),
        next: sketch.next,
        token: sketch.next.min(sketch.ballot),
        follows: (sketch.verb == Verb::Claim && sketch.count > 2)
            .then(|| Predecessor { owner: owner((sketch.owner + 1) % 4), token: sketch.next.min(sketch.ballot) }),
        kind: Kind::of(u64::from(sketch.owner % 4)),
        gate: gate(&sketch, names),
        note: Some(note(&sketch)).filter(|_| sketch.verb == Verb::Renew && sketch.next < 100),
        hello: None,
    }
    .into()
}

/// A hello of a client that puts no list in force.
fn hello(intent: Intent) -> Hello {
    let list = Arc::new(List::new("default", ["node"], Duration::from_secs(60)));
    let (new, process) = ("id".into(), "process".into());
    Hello { intent, new, process, list, old: None, knew: None, sync: None, seen: Vec::new() }
}

/// The gate that a claim names, if any. Claims of readers name none.
fn gate(sketch: &Sketch, names: &[Name; 3]) -> Option<Name> {
    let looks = sketch.looks && sketch.verb == Verb::Claim && sketch.owner < 3;
    let other = (0..names.len()).find(|name| !sketch.names.contains(name))?;
    looks.then(|| names[other].clone())
}

/// The note of a renewal. Some notes are older than the stored note.
fn note(sketch: &Sketch) -> Note {
    let says = ["", "deploy #812", "two\nlines: 7 5 !"][sketch.names.len() - 1].into();
    Note { number: u32::try_from(sketch.next % 3).unwrap(), age: sketch.lasts, says }
}

/// The ttl of a reader. Replies name the reader whose hold ends last, so no two holds may end at
/// the same time.
fn readers_ttl(sketch: &Sketch) -> Duration {
    let owner = u32::from(sketch.owner);
    if sketch.ttl == SHORT {
        SHORT - Duration::from_millis(1) * owner
    } else {
        sketch.ttl + Duration::from_secs(20) * owner
    }
}

fn handed_for(sketch: &Sketch) -> Duration {
    if sketch.owner < 4 { sketch.lasts } else { readers_ttl(&Sketch { ttl: sketch.lasts, ..sketch.clone() }) }
}

fn owner(number: u8) -> Arc<str> {
    let (client, shared) = (if number % 4 == 3 { DEAF } else { CLIENT }, if number < 4 { "" } else { "s" });
    format!("{client}/{shared}{}", number % 4).into()
}

fn near(one: Option<Duration>, other: Option<Duration>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.abs_diff(other) < TOLERANCE && (one <= SHORT) == (other <= SHORT),
        (None, None) => true,
        _ => false,
    }
}

fn same_entry(one: &Inspection, other: &Inspection) -> bool {
    let described = |entry: &Inspection| {
        let told = entry.description.as_ref()?;
        Some((told.says.clone(), told.token, told.number))
    };
    let since = |entry: &Inspection| entry.description.as_ref().map(|told| told.since);
    (&one.holder, one.kind, one.ballot, one.count) == (&other.holder, other.kind, other.ballot, other.count)
        && (one.fence, one.over, one.waiting) == (other.fence, other.over, other.waiting)
        && near(one.remaining, other.remaining)
        && described(one) == described(other)
        && since(one).zip(since(other)).is_none_or(|(one, other)| one.abs_diff(other) < TOLERANCE)
}

fn rank(queued: &Option<Queued>) -> Option<u32> {
    queued.map(|queued| queued.rank)
}

/// The hints without their times, and without whether they count.
fn told(hints: &[Hint]) -> Vec<Hint> {
    let told = |hint: &Hint| {
        let granted =
            hint.granted.clone().map(|granted| HandedOver { stamp: Stamp::default(), counts: true, ..granted });
        // A real node's hint has only the owner's number, which does not say whether the owner is a
        // reader.
        let acquisition = hint.address().map(|(client, number)| format!("{client}/{number}").into()).unwrap();
        Hint { granted, acquisition, ..hint.clone() }
    };
    hints.iter().map(told).collect()
}

fn same(one: &Outcome, other: &Outcome) -> bool {
    match (one, other) {
        (
            Outcome::Held { holder: a, kind, remaining: left, fence: mark, queued: first },
            Outcome::Held { holder: b, kind: theirs, remaining: right, fence: other, queued: second },
        ) => (a, kind) == (b, theirs) && mark == other && rank(first) == rank(second) && near(*left, *right),
        (
            Outcome::Revoked { holder: one, ballot, left },
            Outcome::Revoked { holder: other, ballot: theirs, left: right },
        ) => one == other && ballot == theirs && near(Some(*left), Some(*right)),
        (Outcome::Inspected(one), Outcome::Inspected(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same_entry(one, other))
        }
        (one, other) => one == other,
    }
}

/// The memory node and the real node. The test moves both clocks only to let holds end.
struct Pair {
    clock: Clockwork,
    node: RedisNode,
    hints: Arc<Recorder>,
    /// Whether the real node's user may publish hints.
    publishes: bool,
}

impl Pair {
    async fn check(&self, case: u32, batches: Vec<Vec<Sketch>>) -> Result<(), TestCaseError> {
        let prefix = format!("case-{case}:");
        let names = ["a", "a/7", "{a}:queue"].map(|text| Name::new(&prefix, text).unwrap());
        let (mut store, mut now) = (Store::default(), Duration::from_secs(1));
        // Drop the hints of an earlier case that failed.
        self.hints.take();
        // Delete the record, since all cases share it.
        self.clock.server.command(&["DEL", "node", "node:seen"]);
        let made: Operation = hello(Intent::Make).into();
        let (real, memory) = (ask(&self.node, &made).await.unwrap(), store.apply(&made, now));
        prop_assert_eq!(real, memory, "the record is made");
        for batch in batches {
            let batch: Vec<_> = batch.into_iter().map(|sketch| operation(sketch, &names)).collect();
            let mut real: Vec<_> = ask_all(&self.node, &batch).await.into_iter().map(Some).collect();
            for number in RedisNode::order(&batch.iter().cloned().map(Arc::new).collect::<Vec<_>>()) {
                let hears = |client: &str| self.publishes && client == CLIENT;
                let operation = &batch[number];
                let real = real[number].take().unwrap();
                let (real, memory) = (real.unwrap(), store.apply_heard(operation, now, &hears));
                prop_assert!(same(&real, &memory), "{operation:?}\n  script: {real:?}\n  memory: {memory:?}");
            }
            let mut expected = store.hints();
            expected.retain(|hint| self.publishes && hint.address().is_some_and(|(client, _)| client == CLIENT));
            let told = Mutex::new(Vec::new());
            eventually("as many hints come as in memory", async || {
                let mut told = told.lock().unwrap();
                told.extend(self.hints.take());
                told.len() >= expected.len()
            })
            .await;
            prop_assert_eq!(self::told(&told.into_inner().unwrap()), self::told(&expected), "hints");
            now = self.expire(&mut store, &names, now);
        }
        let questions: Vec<_> = names.iter().map(|name| Operation::Inspect([name.clone()].into())).collect();
        for (question, real) in questions.iter().zip(ask_all(&self.node, &questions).await) {
            let (real, memory) = (real.unwrap(), store.apply(question, now));
            prop_assert!(same(&real, &memory), "in the end\n  script: {real:?}\n  memory: {memory:?}");
        }
        Ok(())
    }

    /// If a hold ends soon, moves both clocks past its end. Returns the memory node's new time.
    fn expire(&self, store: &mut Store, names: &[Name; 3], now: Duration) -> Duration {
        let ends_soon = names.iter().any(|name| {
            let Outcome::Inspected(entries) = store.apply(&Operation::Inspect([name.clone()].into()), now) else {
                panic!("a question is answered");
            };
            entries[0].remaining.is_some_and(|left| left <= SHORT)
        });
        if !ends_soon {
            return now;
        }
        self.clock.pass(SHORT);
        now + SHORT
    }
}

#[test]
fn random_operations_get_equal_replies_from_memory_and_script() {
    compare(CASES, true);
}

#[test]
fn user_without_publish_gets_the_same_replies_and_no_wakeups() {
    compare(CASES / 4, false);
}

#[test]
fn revoked_reader_hands_over_on_release() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let pair = pair(&runtime, true);
    let [_, first, second, _] = contention(98, 0, &[1, 2]).try_into().unwrap();
    let reads = Sketch { owner: 5, waits: None, ballot: 1, ..first.clone() };
    let revoked = Sketch { verb: Verb::Revoke, owner: 4, ballot: 0, ..reads.clone() };
    let lets_go = Sketch { verb: Verb::Release, next: 99, ..reads.clone() };
    let calls = [reads, revoked, first, second, lets_go].map(|asked| vec![asked]);
    runtime.block_on(pair.check(0, calls.to_vec())).unwrap();
}

#[test]
fn a_reader_that_comes_back_when_its_time_is_over_reads_again() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let pair = pair(&runtime, true);
    let short = Sketch { owner: 5, ttl: SHORT, count: 1, ..contention(98, 0, &[1, 2]).swap_remove(0) };
    // `check` moves the clocks after a call that leaves a hold which ends soon.
    let again = Sketch { ttl: SHORT * 6_000, ballot: 99, ..short.clone() };
    let other = Sketch { owner: 6, ..again.clone() };
    let renews = Sketch { verb: Verb::Renew, ..again.clone() };
    let handed = Sketch { waits: Some((1, SHORT * 6_000)), ballot: 99, lasts: SHORT, ..short.clone() };
    let writer = Sketch { owner: 0, ..again.clone() };
    let lets_go = Sketch { verb: Verb::Release, next: 100, ..writer.clone() };
    for (case, calls) in [
        vec![short.clone(), again.clone()],
        vec![short.clone(), renews],
        vec![other, short, again.clone()],
        vec![writer, handed, lets_go, Sketch { ballot: 101, ..again }],
    ]
    .into_iter()
    .enumerate()
    {
        let calls = calls.into_iter().map(|asked| vec![asked]).collect();
        runtime.block_on(pair.check(u32::try_from(case).unwrap(), calls)).unwrap();
    }
}

fn pair(runtime: &tokio::runtime::Runtime, publishes: bool) -> Pair {
    runtime.block_on(async {
        let clock = Clockwork::still().await;
        let (server, hints) = (&clock.server, Recorder::of(CLIENT));
        let channels = if publishes { "allchannels" } else { "resetchannels" };
        server.command(&["ACL", "SETUSER", "twin", "on", ">pw", "~*", channels, "+@all"]);
        let url = format!("redis://twin:pw@127.0.0.1:{}", server.port());
        let node = heard(&url, hints.clone()).await;
        Pair { clock, node, hints, publishes }
    })
}

fn compare(cases: u32, publishes: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let pair = pair(&runtime, publishes);
    let (before, case) = (calls(&pair.clock.server), AtomicU32::new(0));
    let operations = AtomicU32::new(0);
    let mut runner =
        TestRunner::new(Config { cases, failure_persistence: None, max_shrink_time: 10_000, ..Config::default() });
    let outcome = runner.run(&batches(), |batches| {
        let count = batches.iter().map(Vec::len).sum::<usize>();
        // Each case ends with three inspections.
        operations.fetch_add(3 + u32::try_from(count).unwrap(), Ordering::Relaxed);
        runtime.block_on(pair.check(case.fetch_add(1, Ordering::Relaxed), batches))
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    let sent = calls(&pair.clock.server) - before;
    assert!(sent < operations.into_inner(), "operations that were submitted together went into one call");
}

/// How many script calls the server has had.
fn calls(server: &Server) -> u32 {
    let stats = server.command(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}
