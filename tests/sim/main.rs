//! A deterministic simulation: the real client over simulated nodes, networks, clocks and
//! processes. A judge, which does not know the client's code, checks each history.
//!
//! `cargo test --release --test sim -- --seeds 2000 --json` runs many seeds, and each scene 200
//! times. `--seed S` replays one seed and prints its history. `--scene NAME --seed S` replays one
//! run of a scene.
#![allow(unreachable_pub, missing_debug_implementations, reason = "each file is a part of one program")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "this is a test")]

#[path = "../common/asked.rs"]
mod asked;
mod book;
mod calls;
mod changes;
mod clients;
mod commands;
mod cue;
mod dice;
mod directed;
mod downgrades;
mod elections;
mod exec;
mod faults;
mod idle;
mod in_turn;
#[path = "../judge/mod.rs"]
mod judge;
mod link;
mod lists;
mod once;
mod permits;
mod plan;
mod process;
mod recorder;
mod report;
mod revoke;
mod run;
mod scenes;
mod server;
mod sessions;
mod stops;
mod storage;
mod tickets;
mod transport;
mod twins;
mod world;

use std::process::ExitCode;

use report::{Item, Summary};
use scenes::{SCENES, Scene};

struct Args {
    seeds: u64,
    /// How often each scene is played.
    scenes: u64,
    first: u64,
    one: Option<u64>,
    scene: Option<&'static Scene>,
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
        return report::replay(Item { scene: args.scene, seed }, args.json);
    }
    judge::judge_the_judge();
    let mut summary = Summary::run(&items(&args), args.until_found);
    summary.differing = differing(&args);
    summary.print(args.json);
    if summary.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// All runs. Scenes are first, since they find most bugs in the least time. Each scene is played
/// once before any is played again, so that `--until-found` ends early.
fn items(args: &Args) -> Vec<Item> {
    let scenes = || SCENES.iter().filter(|scene| args.scene.is_none_or(|only| only.name == scene.name));
    let played = (args.first..args.first + args.scenes)
        .flat_map(|seed| scenes().map(move |scene| Item { scene: Some(scene), seed }));
    played.chain((args.first..args.first + args.seeds).map(|seed| Item { scene: None, seed })).collect()
}

/// Runs some seeds, and each scene, twice. Returns the runs whose two histories differ.
fn differing(args: &Args) -> Vec<Item> {
    let twice = args.twice;
    let some = Args { seeds: twice.min(args.seeds), scenes: twice.min(1).min(args.scenes), ..*args };
    let differs = |item: &Item| item.run().history.text() != item.run().history.text();
    items(&some).into_iter().filter(differs).collect()
}

/// Parses the arguments. Without arguments, as in a plain `cargo test`, some hundred seeds run, and
/// some run twice. Unoptimized code is ten times slower, so a debug build runs 16 seeds, one of
/// each kind.
fn parse(args: impl Iterator<Item = String>) -> Result<Args, String> {
    let (seeds, scenes, twice) = if cfg!(debug_assertions) { (16, 2, 0) } else { (400, 200, 6) };
    let mut parsed = Args { seeds, scenes, first: 0, one: None, scene: None, json: false, twice, until_found: false };
    let mut args = args;
    while let Some(arg) = args.next() {
        if arg == "--scene" {
            let name = args.next().unwrap_or_default();
            let known = SCENES.iter().map(|scene| scene.name).collect::<Vec<_>>().join(", ");
            parsed.scene = Some(scenes::named(&name).ok_or(format!("sim: no scene {name:?}; there are {known}"))?);
            parsed.seeds = 0;
            continue;
        }
        let mut number = || args.next().and_then(|text| text.parse().ok()).ok_or(format!("{arg} takes a number"));
        match arg.as_str() {
            "--seeds" => parsed.seeds = number()?,
            "--scenes" => parsed.scenes = number()?,
            "--first" => parsed.first = number()?,
            "--seed" => parsed.one = Some(number()?),
            "--twice" => parsed.twice = number()?,
            "--lists" => lists::draw_in(number()?.min(100) as u32),
            "--json" => parsed.json = true,
            "--until-found" => parsed.until_found = true,
            // Options that `cargo test` passes to all test programs.
            "--quiet" | "-q" | "--nocapture" | "--no-capture" => {}
            other if other.starts_with("--test-threads") => {}
            other if other.starts_with('-') => {
                return Err(format!(
                    "sim: what is {other}? --seeds N, --scenes N, --first N, --seed S, --scene NAME, --twice N, --lists PERCENT, --until-found, --json"
                ));
            }
            _ => {}
        }
    }
    Ok(parsed)
}
