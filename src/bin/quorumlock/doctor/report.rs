//! Findings as text and as JSON.

use console::measure_text_width;
use serde_json::{Value, json};

use super::finding::{Finding, Level, code};
use super::seen::{Node, Seen};
use crate::output::{bold, green, milliseconds, red, yellow};
use crate::status::word;

/// The lines of the report. `all` is the number of nodes. The worst finding comes last, because a
/// terminal shows the end of a long output. Findings of the level `Fine` are shown only if
/// `verbose` is set.
pub(super) fn lines(findings: &[Finding], all: usize, verbose: bool, columns: Option<usize>) -> Vec<String> {
    let found = findings.iter().rev().filter(|finding| verbose || finding.level != Level::Fine);
    let mut lines: Vec<_> = found.flat_map(|finding| shown(finding, all, columns)).collect();
    if !lines.is_empty() {
        lines.push(String::new());
    }
    lines.push(summary(findings, verbose));
    lines
}

/// The lines of one finding. A fine finding takes one line.
fn shown(finding: &Finding, all: usize, columns: Option<usize>) -> Vec<String> {
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
    let sentences = [&*finding.what, finding.why, &*finding.mend].into_iter().filter(|sentence| !sentence.is_empty());
    let width = columns.map_or(usize::MAX, |columns| columns.saturating_sub(INDENT.len()));
    let sentences = sentences.flat_map(|sentence| wrapped(sentence, width)).map(|line| format!("{INDENT}{line}"));
    [format!("{heading}{nodes}")].into_iter().chain(sentences).collect()
}

const INDENT: &str = "    ";

/// Wraps a sentence to lines of `width` columns. Never breaks a word.
fn wrapped(sentence: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in sentence.split(' ') {
        match lines.last_mut() {
            Some(line) if measure_text_width(line) + 1 + measure_text_width(word) <= width => line.extend([" ", word]),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

const fn coloured(level: Level) -> fn(&str) -> String {
    match level {
        Level::Unsafe => red,
        Level::Warning | Level::Unknown => yellow,
        Level::Hint => bold,
        Level::Fine => green,
    }
}

fn summary(findings: &[Finding], verbose: bool) -> String {
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let problems = Level::ALL.into_iter().filter(|level| *level != Level::Fine);
    let counted = problems.map(|level| (count(level), level.word())).filter(|(count, _)| *count > 0);
    let mut counted: Vec<_> = counted.map(|(count, word)| format!("{count} {}", plural(count, word))).collect();
    let hint = if verbose { "" } else { " (-v shows them)" };
    let fine = count(Level::Fine);
    counted.push(format!("{fine} {} fine{hint}", plural(fine, "check")));
    counted.join(", ")
}

fn plural(count: usize, word: &str) -> String {
    if count != 1 && ["warning", "hint", "check"].contains(&word) { format!("{word}s") } else { word.to_owned() }
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

/// The measured values of a node, for programs that judge nodes by their own rules.
fn measured(node: Node<'_>, seen: &Seen) -> Value {
    let told = node.told();
    json!({
        "node": node.label(),
        "state": word(&node.status.state),
        "domain": seen.domains.of_node(node.index),
        "version": node.status.version,
        "uptime_seconds": node.status.uptime.map(|time| time.as_secs()),
        "round_trip_ms": told.and_then(|check| check.trip()).map(milliseconds),
        "used_memory": told.and_then(|check| check.number("used_memory")),
        "maxmemory": told.and_then(|check| check.number("maxmemory")),
        "certificates_accepted_for_days": told.and_then(|check| check.days),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_is_last_and_no_word_is_broken() {
        let found = |level, what| Finding::new(level, "memory", what).why("why").mend("mend it");
        let findings =
            [found(Level::Unsafe, "some words that are long"), found(Level::Warning, "w"), Finding::fine("a", "b")];
        let shown = lines(&findings, 3, false, Some(20));
        let texts: Vec<_> = shown.iter().map(|line| console::strip_ansi_codes(line).into_owned()).collect();
        let expected = [
            "warning  memory",
            "    w",
            "    why",
            "    mend it",
            "unsafe  memory",
            "    some words that",
            "    are long",
        ];
        assert_eq!(texts[..7], expected);
        assert_eq!(texts.last().unwrap(), "1 unsafe, 1 warning, 1 check fine (-v shows them)");
    }
}
