//! The result of the demo.

use std::time::Duration;

use quorumlock::NodeStatus;
use serde_json::{Value, json};

use super::worker::Report;
use crate::cli::Demo;
use crate::duration::show;
use crate::failure::Failure;
use crate::output::{self, aligned_rows, bold, green, grouped, milliseconds, red, table};
use crate::status::{state, word};

pub(super) struct Summary {
    report: Report,
    nodes: Vec<NodeStatus>,
    took: Duration,
    /// The value of the counter at the end.
    counted: u64,
    killed: u32,
    restarted: u32,
    workers: u32,
    processes: u32,
}

impl Summary {
    pub(super) fn new(
        args: &Demo,
        report: Report,
        nodes: Vec<NodeStatus>,
        took: Duration,
        counted: u64,
        (killed, restarted): (u32, u32),
    ) -> Self {
        let processes = args.processes.min(args.workers);
        Self { report, nodes, took, counted, killed, restarted, workers: args.workers, processes }
    }

    /// Whether the lock worked: no two sections overlapped, and no increment was lost.
    pub(super) fn is_safe(&self) -> bool {
        self.report.overlaps == 0 && self.lost_updates() == 0
    }

    pub(super) async fn told(&self, as_json: bool) -> Result<(), Failure> {
        if as_json {
            return Ok(output::say(&self.json().to_string()).await?);
        }
        Ok(output::say(&self.lines().join("\n")).await?)
    }

    fn lost_updates(&self) -> u64 {
        self.report.sections.saturating_sub(self.counted)
    }

    fn rate(&self) -> f64 {
        self.report.sections as f64 / self.took.as_secs_f64().max(0.001)
    }

    fn percentile(&self, share: f64) -> Duration {
        self.report.latencies.percentile(share)
    }

    fn json(&self) -> Value {
        let report = &self.report;
        json!({
            "sections": report.sections,
            "overlaps": report.overlaps,
            "rejected_tokens": report.rejected_tokens,
            "lost_updates": self.lost_updates(),
            "nodes_killed": self.killed,
            "nodes_restarted": self.restarted,
            "handed_over": report.handovers,
            "lost": report.lost,
            "failed": report.failed,
            "acquire_p50_ms": milliseconds(self.percentile(0.5)),
            "acquire_p99_ms": milliseconds(self.percentile(0.99)),
            "acquire_max_ms": milliseconds(self.percentile(1.0)),
            "acquire_samples": report.latencies.samples(),
            "sections_per_second": self.rate().round(),
            "seconds": (self.took.as_secs_f64() * 10.0).round() / 10.0,
            "workers": self.workers,
            "processes": self.processes,
            "nodes": self.nodes.iter().map(|node| self.node_json(node)).collect::<Vec<_>>(),
        })
    }

    fn node_json(&self, node: &NodeStatus) -> Value {
        let votes = self.report.votes.get(&*node.node).copied().unwrap_or_default();
        json!({
            "node": &*node.node,
            "state": word(&node.state),
            "granted": votes.granted,
            "refused": votes.refused,
            "no_vote": votes.missing,
        })
    }

    fn lines(&self) -> Vec<String> {
        let report = &self.report;
        let none = |count: u64| if count == 0 { green("0") } else { red(&grouped(count)) };
        let per_second = grouped(self.rate().round() as u64);
        let who = format!("{} workers in {} processes, {}", self.workers, self.processes, show(self.took));
        let acquire = [0.5, 0.99, 1.0].map(|share| show(self.percentile(share)));
        let rows = [
            ("sections", bold(&grouped(report.sections)), format!("{per_second} a second; {who}")),
            ("handed over", grouped(report.handovers), "of them to the next waiter, without claims".to_owned()),
            ("overlaps", none(report.overlaps), "times that two workers were in their sections at once".to_owned()),
            ("lost updates", none(self.lost_updates()), format!("the file's counter is {}", grouped(self.counted))),
            ("rejected tokens", none(report.rejected_tokens), "writes that the counter refused as outdated".to_owned()),
            ("lost", none(report.lost), "locks that ended before they were released".to_owned()),
            ("failed", grouped(report.failed), "acquisitions that timed out, or found no quorum".to_owned()),
            ("nodes killed", self.killed.to_string(), format!("and {} started again", self.restarted)),
            ("acquire", acquire[0].clone(), format!("p50; p99 {}, longest {}", acquire[1], acquire[2])),
        ];
        let rows: Vec<_> = rows.into_iter().map(|(name, value, what)| vec![name.to_owned(), value, what]).collect();
        let mut lines = vec![String::new()];
        lines.extend(aligned_rows(&rows));
        lines.push(String::new());
        lines.extend(self.node_table());
        lines
    }

    fn node_table(&self) -> Vec<String> {
        let row = |node: &NodeStatus| {
            let votes = self.report.votes.get(&*node.node).copied().unwrap_or_default();
            let counts = [votes.granted, votes.refused, votes.missing].map(grouped);
            [vec![node.node.to_string()], counts.to_vec(), vec![state(node)]].concat()
        };
        table(&["node", "granted", "refused", "no vote", "state"], &self.nodes.iter().map(row).collect::<Vec<_>>())
    }
}
