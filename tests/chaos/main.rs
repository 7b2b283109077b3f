//! Worker processes over five real servers behind proxies, while everything fails; and a judge.
//!
//! `scripts/chaos` runs it. `--seconds S` for how long, `--seed N` for which faults, `--json` for
//! one object at the end, `--soak S` to also hold memory and tasks at the end against those early
//! on, `--ratios [FAULT]` to measure instead how much slower locks are while two nodes fail.
//!
//! A new fault is a variant of [`faults::Fault`] with how it begins and how it ends; it is dealt
//! and measured by itself. If nodes forget by it and clients cannot see that, it must last for a
//! ttl: else the violation is the tester's.
//! The judge is that of the simulation. To see that a chaos can fail, set `Size::quorum` to
//! `N / 2`, or the workers' `max_ttl` to zero.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "this is a test")]
#![allow(unreachable_pub, missing_debug_implementations, reason = "this is a test")]

mod cluster;
#[path = "../common/mod.rs"]
mod common;
mod faults;
#[path = "../judge/mod.rs"]
#[allow(dead_code, reason = "nobody here sees what nodes do")]
mod judge;
mod ratios;
mod record;
mod run;
mod storage;
mod told;
mod worker;

use std::process::ExitCode;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// The locks that workers contend for.
const NAMES: [&str; 3] = ["orders", "stock", "mail"];
/// Short, so that much expires in a minute.
const TTL: Duration = Duration::from_secs(2);
/// The longest ttl in use, so that the restart guard's time is short as well.
const MAX_TTL: Duration = TTL;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let Some((word, orders)) = arguments.split_first()
        && word == "--worker"
    {
        runtime().block_on(worker::run(worker::Orders::parse(orders)));
        return ExitCode::SUCCESS;
    }
    let options = run::Options::parse(&arguments);
    if let Some(only) = &options.ratios {
        let held = runtime().block_on(ratios::run(only.as_deref(), options.json));
        return if held { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    judge::judge_the_judge();
    let report = runtime().block_on(run::run(&options));
    report.print(options.json);
    if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime starts")
}
