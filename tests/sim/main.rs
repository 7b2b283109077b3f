//! A deterministic simulation: the real client over simulated nodes, networks, clocks and processes, and a judge who knows nothing of the client.
//!
//! `cargo test --release --test sim -- --seeds 2000 --json` runs many seeds; `--seed S` replays one, readably.
#![allow(unreachable_pub, missing_debug_implementations, reason = "each file is a part of one program")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "this is a test")]

mod clients;
mod dice;
mod exec;
mod faults;
#[path = "../judge/mod.rs"]
mod judge;
mod link;
mod plan;
mod process;
mod report;
mod run;
mod server;
mod storage;
mod world;

use std::process::ExitCode;

use report::Summary;

/// What the command line asks for.
struct Args {
    seeds: u64,
    first: u64,
    one: Option<u64>,
    json: bool,
    twice: u64,
    until_found: bool,
}

fn main() -> ExitCode {
    let args = match parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(said) => {
            eprintln!("{said}");
            return ExitCode::from(64);
        }
    };
    if let Some(seed) = args.one {
        return report::replay(seed, args.json);
    }
    judge::judge_the_judge();
    let mut summary = Summary::run(args.first, args.seeds, args.until_found);
    summary.differing = differing(args.first, args.twice);
    summary.print(args.json);
    if summary.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Seeds that did not give the same history twice, byte for byte.
fn differing(first: u64, count: u64) -> Vec<u64> {
    let again = |seed: &u64| run::run(*seed).history.text() != run::run(*seed).history.text();
    (first..first + count).filter(again).collect()
}

/// With no arguments, as plain `cargo test` runs it: a moderate number of seeds, some of them twice.
fn parse(args: impl Iterator<Item = String>) -> Result<Args, String> {
    let seeds = if cfg!(debug_assertions) { 60 } else { 400 };
    let mut parsed = Args { seeds, first: 0, one: None, json: false, twice: 6, until_found: false };
    let mut args = args;
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|text| text.parse().ok()).ok_or(format!("{arg} takes a number"));
        match arg.as_str() {
            "--seeds" => parsed.seeds = number()?,
            "--first" => parsed.first = number()?,
            "--seed" => parsed.one = Some(number()?),
            "--twice" => parsed.twice = number()?,
            "--json" => parsed.json = true,
            "--until-found" => parsed.until_found = true,
            // What is said to all test programs at once.
            "--quiet" | "-q" | "--nocapture" | "--no-capture" => {}
            other if other.starts_with("--test-threads") => {}
            other if other.starts_with('-') => {
                return Err(format!(
                    "sim: what is {other}? --seeds N, --first N, --seed S, --twice N, --until-found, --json"
                ));
            }
            _ => {}
        }
    }
    Ok(parsed)
}
