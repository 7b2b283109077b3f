//! Healthy nodes on loopback: one task, and a crowd.

use std::time::Duration;

use super::part;
use crate::contender::{Kind, Result};
use crate::stage::Stage;
use crate::table::Report;
use crate::turn::Work;

const NODES: usize = 5;
const ROUNDS: usize = 7;
const PAIRS: u32 = 700;
const TASKS: u32 = 256;
/// A round trip between machines of one data centre.
const NEAR: Duration = Duration::from_micros(500);

const COLUMNS: [(&str, &str); 6] = [
    ("pair p50, ms", "pair_p50_ms"),
    ("p99, ms", "pair_p99_ms"),
    ("client CPU, us", "client_cpu_us"),
    ("node CPU, us", "node_cpu_us"),
    ("commands a node", "commands_a_node"),
    ("script calls", "script_calls_a_node"),
];

pub async fn fresh(kinds: &[Kind], share: f64, report: &mut Report) -> Result<()> {
    println!(
        "Alone: one task acquires and releases, another name each time (in brackets: multiple of the floor by hand)"
    );
    let stage = Stage::set(NODES).await?;
    one_task("alone", stage, kinds, Work::Fresh { pairs: part(PAIRS, share) }, report).await
}

pub async fn again(kinds: &[Kind], share: f64, report: &mut Report) -> Result<()> {
    println!("Again: one task acquires and releases one name");
    let stage = Stage::set(NODES).await?;
    one_task("again", stage, kinds, Work::Again { pairs: part(PAIRS, share) }, report).await
}

pub async fn near(kinds: &[Kind], share: f64, report: &mut Report) -> Result<()> {
    println!("Near: as \"alone\", but each node is {NEAR:?} away");
    let stage = Stage::away(NODES, NEAR).await?;
    one_task("near", stage, kinds, Work::Fresh { pairs: part(PAIRS, share) }, report).await
}

async fn one_task(name: &str, mut stage: Stage, kinds: &[Kind], work: Work, report: &mut Report) -> Result<()> {
    let turns = stage.compare(kinds, ROUNDS, |_| work).await?;
    report.add(name, None, &turns);
    report.show(name, None, &COLUMNS);
    Ok(())
}

pub async fn crowd(kinds: &[Kind], share: f64, report: &mut Report) -> Result<()> {
    println!("Crowd: {TASKS} tasks, each with a name of its own");
    let work = Work::Crowd { tasks: TASKS, each: part(24, share) };
    let turns = Stage::set(NODES).await?.compare(kinds, ROUNDS, |_| work).await?;
    report.add("crowd", None, &turns);
    let mut columns = COLUMNS;
    columns[0] = ("pairs a second", "pairs_per_second");
    report.show("crowd", None, &columns);
    Ok(())
}
