//! Healthy nodes on loopback: one task, and a crowd.

use super::part;
use crate::contender::{Kind, Result};
use crate::stage::Stage;
use crate::table::Report;
use crate::turn::Work;

const NODES: usize = 5;
const ROUNDS: usize = 7;
const PAIRS: u32 = 700;
const TASKS: u32 = 256;

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
    one_task("alone", kinds, Work::Fresh { pairs: part(PAIRS, share) }, report).await
}

pub async fn again(kinds: &[Kind], share: f64, report: &mut Report) -> Result<()> {
    println!("Again: one task acquires and releases one name");
    one_task("again", kinds, Work::Again { pairs: part(PAIRS, share) }, report).await
}

async fn one_task(name: &str, kinds: &[Kind], work: Work, report: &mut Report) -> Result<()> {
    let turns = Stage::set(NODES)?.compare(kinds, ROUNDS, |_| work).await?;
    report.add(name, None, &turns);
    report.show(name, None, &COLUMNS);
    Ok(())
}

pub async fn crowd(kinds: &[Kind], share: f64, report: &mut Report) -> Result<()> {
    println!("Crowd: {TASKS} tasks, each with a name of its own");
    let work = Work::Crowd { tasks: TASKS, each: part(24, share) };
    let turns = Stage::set(NODES)?.compare(kinds, ROUNDS, |_| work).await?;
    report.add("crowd", None, &turns);
    let mut columns = COLUMNS;
    columns[0] = ("pairs a second", "pairs_per_second");
    report.show("crowd", None, &columns);
    Ok(())
}
