//! Shows the running demo: a live view on a terminal, otherwise one line per second.

use std::cell::Cell;
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use quorumlock::{NodeStatus, Quorum};

use super::votes::Votes;
use super::worker::Report;
use super::{MASTERS, TTL};
use crate::cli::Demo;
use crate::duration::show;
use crate::output::{self, bold, green, grouped, red, table};
use crate::status;

const NOBODY: &str = "nobody waits in the queue";

pub(super) struct View {
    bars: MultiProgress,
    progress: ProgressBar,
    lines: Vec<ProgressBar>,
    /// Whether to draw the live view: standard error is a terminal, and messages are not JSON.
    live: bool,
    told: Cell<u64>,
    quorum: usize,
}

impl View {
    pub(super) fn new(args: &Demo, quorum: &Quorum) -> Self {
        let live = std::io::stderr().is_terminal() && !output::is_json();
        let target = if live { ProgressDrawTarget::term(output::terminal(), 10) } else { ProgressDrawTarget::hidden() };
        let bars = MultiProgress::with_draw_target(target);
        let nodes = quorum.nodes().len();
        let add = |bar: ProgressBar, style: &str| {
            bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
            bars.add(bar)
        };
        let progress = add(ProgressBar::new(u64::from(args.seconds) * 1_000), "{bar:40.green/black} {msg}");
        // One line each for the figures, the queue, an empty line, the table's heading, and each
        // node.
        let lines = (0..nodes + 4).map(|_| add(ProgressBar::new_spinner(), "{wide_msg}")).collect();
        let view = Self { bars, progress, lines, live, told: Cell::new(0), quorum: nodes / 2 + 1 };
        view.note(&title(args, nodes));
        view
    }

    /// Writes a line that stays on the screen.
    pub(super) fn note(&self, text: &str) {
        if self.live {
            let _ = self.bars.println(text);
        } else {
            output::note(text);
        }
    }

    pub(super) fn draw(&self, elapsed: Duration, report: &Report, nodes: &[NodeStatus], line: Option<&str>) {
        if self.live {
            self.draw_live(elapsed, report, nodes, line);
        } else if elapsed.as_secs() > self.told.get() {
            self.told.set(elapsed.as_secs());
            let votes = nodes.iter().filter(|node| status::word(&node.state) == "up").count();
            let nodes = output::voting(votes, nodes.len());
            let line = line.unwrap_or(NOBODY);
            output::note(&format!("{:>3} s  {}   {nodes}   {line}", elapsed.as_secs(), figures(report)));
        }
    }

    pub(super) fn close(&self) {
        let _ = self.bars.clear();
    }

    fn draw_live(&self, elapsed: Duration, report: &Report, nodes: &[NodeStatus], line: Option<&str>) {
        self.progress.set_position(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
        let length = self.progress.length().unwrap_or_default() / 1_000;
        self.progress.set_message(format!("{:.1} of {length} s, quorum {}", elapsed.as_secs_f64(), self.quorum));
        let rows: Vec<_> = nodes.iter().map(|node| row(node, report)).collect();
        let table = table(&["node", "round trip", "granted", "refused", "no vote", "state"], &rows);
        let line = line.unwrap_or(NOBODY).to_owned();
        let text = [figures(report), line, String::new()].into_iter().chain(table);
        self.lines.iter().zip(text).for_each(|(line, text)| line.set_message(text));
    }
}

fn title(args: &Demo, nodes: usize) -> String {
    let (workers, processes) = (args.workers, args.processes.min(args.workers));
    let ours = if nodes == MASTERS { "" } else { " given" };
    bold(&format!(
        "{workers} workers in {processes} processes contend for one lock on {nodes}{ours} nodes, ttl {}",
        show(TTL)
    ))
}

fn figures(report: &Report) -> String {
    let bad = |count: u64| if count == 0 { green("0") } else { red(&count.to_string()) };
    format!(
        "{} sections  overlaps {}  rejected {}  lost {}  acquire p50 {} p99 {}",
        grouped(report.sections),
        bad(report.overlaps),
        bad(report.rejected_tokens),
        bad(report.lost),
        show(report.latencies.percentile(0.5)),
        show(report.latencies.percentile(0.99)),
    )
}

fn row(node: &NodeStatus, report: &Report) -> Vec<String> {
    let Votes { granted, refused, missing } = report.votes.get(&*node.node).copied().unwrap_or_default();
    let trip = node.round_trip.map_or_else(|| "-".to_owned(), show);
    let mut row = vec![node.node.to_string(), trip];
    row.extend([granted, refused, missing].map(grouped));
    row.push(status::state(node));
    row
}
