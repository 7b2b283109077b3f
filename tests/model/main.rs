//! The protocol in small scope, exhausted: three nodes, two clients, one name, time in ticks, and
//! at most one fault. The rules and the memory node are the real ones; what is modelled is the
//! network, the clocks, and when things happen.
//!
//! `scripts/model` explores the most; a violation is printed as the shortest sequence of events
//! that leads to it. Options: `--size=small|medium|full`, `--only=SCOPE`, `--seconds=S` for each
//! scope.
#![allow(unreachable_pub, missing_debug_implementations, reason = "each file is a part of one program")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "this is a test")]

mod client;
mod scope;
mod server;
mod world;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model};

use scope::{Scope, Size, scopes};

const RULES: [&str; 2] = ["two_holders", "tokens_grow"];

fn main() -> ExitCode {
    let option = |name: &str| std::env::args().rev().find_map(|arg| arg.strip_prefix(name).map(str::to_owned));
    let size = match option("--size=").as_deref() {
        Some("full") => Size::Full,
        Some("medium") => Size::Medium,
        None if !cfg!(debug_assertions) => Size::Medium,
        _ => Size::Small,
    };
    let only = option("--only=");
    let seconds = option("--seconds=").and_then(|seconds| seconds.parse().ok());
    let named = |scope: &Scope| only.as_deref().is_none_or(|only| only == scope.name);
    let chosen: Vec<_> = scopes(size).into_iter().filter(named).collect();
    let bad = chosen.iter().filter(|scope| !exhaust(**scope, seconds.map(Duration::from_secs))).count();
    println!("{} passed, {bad} failed", chosen.len() - bad);
    if bad == 0 && !chosen.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Explores all of a scope. Returns whether nothing is wrong in it.
fn exhaust(scope: Scope, limit: Option<Duration>) -> bool {
    let began = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let builder = scope.checker().threads(threads).finish_when(HasDiscoveries::AnyFailures);
    let checker = match limit {
        Some(limit) => builder.timeout(limit),
        None => builder,
    };
    let checker = checker.spawn_bfs().join();
    let exhausted = limit.is_none_or(|limit| began.elapsed() < limit);
    let discoveries = checker.discoveries();
    let broken: Vec<_> = RULES.into_iter().filter(|name| discoveries.contains_key(name)).collect();
    let (states, depth, seconds) = (checker.unique_state_count(), checker.max_depth(), began.elapsed().as_secs());
    let name = scope.name;
    println!("model: {name}: {states} states, {depth} deep, {seconds} s, exhausted: {exhausted}, broken: {broken:?}");
    broken.iter().for_each(|name| println!("{name}:\n{}", discoveries[name]));
    let alive = discoveries.contains_key("both_got_it");
    if broken.is_empty() && exhausted && !alive {
        println!("nobody gets the lock after another in this scope: it shows nothing");
    }
    broken.is_empty() && exhausted && alive
}
