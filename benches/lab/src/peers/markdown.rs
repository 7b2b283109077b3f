//! A report as a part of benches/README.md. It has ratios and plots, since absolute times depend on
//! the machine.

use std::fmt::Write;

use super::reach;
use crate::contender::Kind;
use crate::table::{Report, short};

/// Figures of the table: the title, the scenario, and the figure's name.
const FIGURES: [(&str, &str, &str); 11] = [
    ("alone, p50", "alone", "pair_p50_ms"),
    ("alone, p99", "alone", "pair_p99_ms"),
    ("same name again, p50", "again", "pair_p50_ms"),
    ("0.5 ms to each node, p50", "near", "pair_p50_ms"),
    ("alone, client CPU", "alone", "client_cpu_us"),
    ("same name again, client CPU", "again", "client_cpu_us"),
    ("0.5 ms to each node, client CPU", "near", "client_cpu_us"),
    ("alone, node CPU", "alone", "node_cpu_us"),
    ("256 tasks, pairs a second", "crowd", "pairs_per_second"),
    ("256 tasks, client CPU", "crowd", "client_cpu_us"),
    ("256 tasks, node CPU", "crowd", "node_cpu_us"),
];

/// As `FIGURES`, for figures that are ratios by themselves.
const RATIOS: [(&str, &str, &str); 5] = [
    ("far, acquire p50, to the third-smallest round trip", "far", "acquire_p50_to_trip"),
    ("one of five black-holed, acquire p50, to healthy", "1 black-holed after the start", "p50_to_healthy"),
    ("two of five, the same", "2 black-holed after the start", "p50_to_healthy"),
    (
        "one of five black-holed before the start: start-up, to healthy",
        "1 black-holed before the start",
        "start_to_healthy",
    ),
    ("two of five, the same", "2 black-holed before the start", "start_to_healthy"),
];

const PLOTS: [(&str, &str); 6] = [
    ("nodes", "Acquire and release alone, by the number of nodes"),
    ("tasks", "Pairs a second, by the number of tasks"),
    ("far", "Acquire over distant nodes"),
    ("throughput", "Sections a second of 16 tasks that want one name"),
    ("fairness", "How evenly these tasks are served"),
    ("longest-wait", "How long the unluckiest of them waits"),
];

/// The text between the marks in benches/README.md.
pub fn written(report: &Report, date: &str) -> String {
    let mut page = String::new();
    // Writing to a string does not fail.
    let _ =
        writeln!(page, "\nBy `./scripts/bench` on {date}, {}. A pair is an acquisition and its release.\n", machine());
    let heading: Vec<_> = Kind::ALL.into_iter().map(Kind::name).collect();
    let _ = writeln!(
        page,
        "| multiples of the floor by hand | {} |\n|---|{}",
        heading.join(" | "),
        "---|".repeat(heading.len())
    );
    for (title, scenario, name) in FIGURES {
        line(&mut page, title, |kind| report.to_floor(scenario, None, kind.name(), name), |_| None);
    }
    let _ = writeln!(page, "| **other ratios** |{}", " |".repeat(heading.len()));
    for (title, scenario, name) in RATIOS {
        let failed = |kind: Kind| report.failed(scenario, None, kind.name());
        line(&mut page, title, |kind| report.figure(scenario, None, kind.name(), name), failed);
    }
    for (name, title) in PLOTS {
        let _ = writeln!(page, "\n![{title}](plots/{name}.svg)");
    }
    let _ = writeln!(page, "\n{}", reach::markdown(report));
    page
}

fn line(page: &mut String, title: &str, figure: impl Fn(Kind) -> Option<f64>, failed: impl Fn(Kind) -> Option<String>) {
    let cell = |kind| figure(kind).map(short).or_else(|| failed(kind)).unwrap_or_default();
    let cells: Vec<_> = Kind::ALL.into_iter().map(cell).collect();
    let _ = writeln!(page, "| {title} | {} |", cells.join(" | "));
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').nth(1).unwrap_or("unknown").to_owned();
    format!("{cores} cores ({}, {}) with a load of {load} at the end", std::env::consts::ARCH, std::env::consts::OS)
}
