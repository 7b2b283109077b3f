//! How findings are told.

use serde_json::{Value, json};

use super::finding::{Finding, Level, code};
use super::seen::{Node, Seen};
use crate::output::{bold, green, milliseconds, red, yellow};
use crate::status::word;

/// `all` nodes were examined.
pub(super) fn lines(findings: &[Finding], all: usize) -> Vec<String> {
    let mut lines: Vec<_> = findings.iter().flat_map(|finding| shown(finding, all)).collect();
    lines.push(String::new());
    lines.push(summary(findings));
    lines
}

/// What is fine takes one line.
fn shown(finding: &Finding, all: usize) -> Vec<String> {
    let coloured = coloured(finding.level)(finding.level.word());
    let heading = format!("{coloured}  {}", bold(finding.id));
    let nodes = match finding.nodes.len() {
        0 => String::new(),
        count if count == all && all > 1 => "  all nodes".to_owned(),
        _ => format!("  {}", finding.nodes.join(", ")),
    };
    if finding.level == Level::Fine {
        return vec![format!("{heading}  {}{nodes}", finding.what)];
    }
    let sentences = [&*finding.what, finding.why, &*finding.mend].map(|sentence| format!("    {sentence}"));
    [format!("{heading}{nodes}")].into_iter().chain(sentences).collect()
}

const fn coloured(level: Level) -> fn(&str) -> String {
    match level {
        Level::Unsafe => red,
        Level::Warning | Level::Unknown => yellow,
        Level::Hint => bold,
        Level::Fine => green,
    }
}

fn summary(findings: &[Finding]) -> String {
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let counted = Level::ALL.map(|level| (count(level), level.word()));
    let counted = counted
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {}", plural(count, word)));
    counted.collect::<Vec<_>>().join(", ")
}

fn plural(count: usize, word: &str) -> String {
    if count > 1 && ["warning", "hint"].contains(&word) { format!("{word}s") } else { word.to_owned() }
}

pub(super) fn json(seen: &Seen, findings: &[Finding]) -> Value {
    json!({
        "exit_code": code(findings),
        "findings": findings.iter().map(Finding::json).collect::<Vec<_>>(),
        "nodes": seen.each().map(|node| measured(node, seen)).collect::<Vec<_>>(),
        "failure_domains": seen.domains.count(),
        "domains_to_fail": seen.domains.to_fail(),
    })
}

/// What was measured, for those who judge by themselves.
fn measured(node: Node<'_>, seen: &Seen) -> Value {
    let told = node.told();
    json!({
        "node": node.label(),
        "state": word(&node.status.state),
        "domain": seen.domains.of_node(node.index),
        "version": node.status.version,
        "uptime_seconds": node.status.uptime.map(|time| time.as_secs()),
        "round_trip_ms": told.and_then(|exam| exam.trip()).map(milliseconds),
        "used_memory": told.and_then(|exam| exam.number("used_memory")),
        "maxmemory": told.and_then(|exam| exam.number("maxmemory")),
        "certificates_accepted_for_days": told.and_then(|exam| exam.days),
    })
}
