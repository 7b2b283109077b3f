//! A model of the protocol, all of whose states are explored: three nodes, two clients, one name,
//! time in ticks, and at most one fault. A revoker may take the name away. The rules and the memory
//! node are real. The network, the clocks, and when things happen are modelled. [`hello`] is
//! another model, of records and lists, with up to five servers.
//!
//! `scripts/model` explores all scopes, also the largest ones. If there is a violation, the program
//! prints the shortest sequence of events that leads to it. Options: `--size=small|medium|full`,
//! `--only=SCOPE`, and `--seconds=S` for each scope.
#![allow(unreachable_pub, missing_debug_implementations, reason = "each file is a part of one program")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "this is a test")]

#[path = "../common/asked.rs"]
mod asked;
mod client;
mod hello;
mod revoker;
mod scope;
mod server;
mod world;

use std::fmt::Debug;
use std::hash::Hash;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model};

use scope::{Revokes, Scope, Size};

const RULES: [&str; 3] = ["two_holders", "tokens_grow", "revoked_goes_on"];

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
    let (named, limit) = (|name| only.as_deref().is_none_or(|only| only == name), seconds.map(Duration::from_secs));
    let locks = scope::scopes(size).into_iter().filter(|scope| named(scope.name));
    let lists = hello::scopes(size).into_iter().filter(|scope| named(scope.name));
    let locks = locks.map(|scope| exhaust(scope, scope.name, |shown| is_alive(&scope, shown), limit));
    let lists = lists.map(|scope| exhaust(scope, scope.name, |shown| scope.is_alive(shown), limit));
    let results: Vec<_> = locks.chain(lists).collect();
    let bad = results.iter().filter(|good| !**good).count();
    println!("{} passed, {bad} failed", results.len() - bad);
    if bad == 0 && !results.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether the exploration reached the cases that its scope is about.
fn is_alive(scope: &Scope, shown: &dyn Fn(&str) -> bool) -> bool {
    shown("both_got_it")
        && (shown("taken_away") || scope.revokes == Revokes::Never)
        && (shown("rests_on_nodes") || scope.ahead.is_zero())
}

/// Explores all states of a scope. Returns whether no rule was broken, all states were explored,
/// and the cases that the scope is about were reached.
fn exhaust<M>(scope: M, name: &str, is_alive: impl Fn(&dyn Fn(&str) -> bool) -> bool, limit: Option<Duration>) -> bool
where
    M: Model<State: Clone + Debug + Hash + PartialEq + Send + Sync, Action: Clone + Debug + PartialEq>
        + Send
        + Sync
        + 'static,
{
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
    println!("model: {name}: {states} states, {depth} deep, {seconds} s, exhausted: {exhausted}, broken: {broken:?}");
    broken.iter().for_each(|name| println!("{name}:\n{}", discoveries[name]));
    let alive = is_alive(&|name| discoveries.contains_key(name));
    if broken.is_empty() && exhausted && !alive {
        println!("nobody gets the lock as this scope is about: it shows nothing");
    }
    broken.is_empty() && exhausted && alive
}
