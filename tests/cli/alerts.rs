//! Checks the alerts with promtool, which scripts/test fetches together with Prometheus.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;

use super::Background;
use crate::common::program::command;

const ALERTS: &str = "docker/prometheus/alerts.yml";
const TESTS: [&str; 2] = ["tests/prometheus/alerts.test.yml", "tests/prometheus/no-quorum.test.yml"];

fn promtool(words: &[&str]) -> (i32, String, String) {
    let mut promtool = command("promtool");
    promtool.args(words).current_dir(env!("CARGO_MANIFEST_DIR")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = promtool.spawn();
    Background::of(started.expect("promtool starts; ./scripts/test fetches it, or apt-get install prometheus")).done()
}

fn read(file: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

/// The values that follow `key` in the lines of a file.
fn values(file: &str, key: &str) -> BTreeSet<String> {
    read(file)
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix(key))
        .map(|value| value.trim().to_owned())
        .collect()
}

#[test]
fn alert_rules_are_valid_and_each_has_a_passing_test() {
    let (code, said, complained) = promtool(&["check", "rules", ALERTS]);
    assert_eq!(code, 0, "{said}{complained}");
    let (code, said, complained) = promtool(&["test", "rules", TESTS[0], TESTS[1]]);
    assert_eq!(code, 0, "{said}{complained}");
    // promtool has checked when alerts fire. Check here that each alert has a test case.
    let tested = TESTS.into_iter().flat_map(|file| values(file, "alertname: "));
    assert_eq!(values(ALERTS, "- alert: "), tested.collect());
}

/// GitHub's anchor of a heading is the heading in lower case.
#[test]
fn alerts_and_runbook_entries_match_one_to_one() {
    let alerts = values(ALERTS, "- alert: ");
    let links = alerts.iter().map(|alert| format!("docs/runbook.md#{}", alert.to_lowercase()));
    assert_eq!(values(ALERTS, "runbook_url: "), links.collect());
    assert_eq!(values("docs/runbook.md", "## "), alerts);
    assert_eq!(read("docs/runbook.md").matches("**What to do.**").count(), alerts.len());
}
