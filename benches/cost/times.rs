//! How long the core takes for the rules of a round, and for a pair over nodes in memory.

use std::hint::black_box;
use std::time::{Duration, Instant};

use quorumlock::Quorum;
use quorumlock::rules::{ClaimTally, Drift, Size, Tick, Validity, Vote};

use crate::{NODES, again};

const ROUNDS: u32 = 2_000_000;
const PAIRS: usize = 20_000;
/// How often to measure. The fastest counts: other load on the machine only adds time.
const TURNS: usize = 5;

/// Prints a line `NAME = N` for each measurement.
pub async fn told() {
    println!("round_ns = {:.1}", fastest(rounds).as_nanos() as f64 / f64::from(ROUNDS));
    let quorum = Quorum::in_memory(NODES).unwrap();
    let mut best = Duration::MAX;
    for _ in 0..TURNS {
        let began = Instant::now();
        again(&quorum, "memory", PAIRS).await;
        best = best.min(began.elapsed());
    }
    println!("memory_pair_us = {:.2}", best.as_secs_f64() * 1e6 / PAIRS as f64);
}

fn fastest(work: impl Fn()) -> Duration {
    let timed = |_| {
        let began = Instant::now();
        work();
        began.elapsed()
    };
    (0..TURNS).map(timed).min().unwrap()
}

/// Counts the votes of five nodes, with a verdict after each, and checks whether the lock is valid.
fn rounds() {
    let validity = Validity::new(Duration::from_secs(30), Drift::default());
    for round in 0..ROUNDS {
        let mut tally = ClaimTally::new(Size::of(black_box(5)));
        let asked = Tick::new(Duration::from_millis(round.into()));
        let mut won = false;
        for node in 0..5 {
            tally.count(black_box(node), black_box(Vote::Granted));
            won |= tally.verdict().is_some();
        }
        let valid = validity.suffices(asked, black_box(asked + Duration::from_millis(1)), Duration::ZERO);
        black_box((won, valid));
    }
}
