//! Worker processes use locks over five real servers behind proxies, while servers, networks and
//! workers fail. The judge of the simulation looks for violations of the promises.
//!
//! `scripts/chaos` runs this program. `--seconds S` is the length of the run, and `--seed N`
//! chooses the faults. `--json` prints one object at the end. `--soak S` also checks that memory
//! and tasks do not grow. With `--python`, the workers are Python processes (`worker.py`) behind
//! two agents. The agents are also stopped and killed. `--ratios [FAULT]` measures how much slower
//! locks are while two nodes fail.
//!
//! To add a fault, add a variant to [`faults::Fault`], with its beginning and its end. After that,
//! all runs use and measure the fault. If nodes forget because of the fault, and clients cannot
//! notice that, the fault must last for a ttl. A shorter fault would itself cause a violation. To
//! see that a run can fail, set `Size::quorum` to `N / 2`, or the workers' `max_ttl` to zero.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "this is a test")]
#![allow(unreachable_pub, missing_debug_implementations, reason = "this is a test")]

mod agents;
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
/// The ttl is short, so that many locks expire in a minute.
const TTL: Duration = Duration::from_secs(2);
/// This is no longer than the ttl, so that the quarantine is short too.
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
