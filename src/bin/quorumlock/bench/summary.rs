//! The result of `bench contention`.

use std::time::Duration;

use serde_json::{Value, json};

use super::critical_sections::Course;
use super::rounded;
use super::worker::Report;
use crate::cli::bench::Contention;
use crate::duration::show;
use crate::failure::Failure;
use crate::output::{self, aligned_rows, bold, green, grouped, milliseconds, red};

pub(super) struct Summary {
    report: Report,
    course: Course,
    /// How many critical sections began in the measured time.
    sections: u64,
    took: Duration,
    /// How many scripts the servers ran in the measured time.
    calls: u64,
    round_trips: Vec<Duration>,
    processes: u32,
}

impl Summary {
    pub(super) fn new(
        args: &Contention,
        mut report: Report,
        took: Duration,
        calls: u64,
        round_trips: &[Duration],
    ) -> Self {
        let course = Course::new(std::mem::take(&mut report.sections));
        let sections = report.workers.iter().sum();
        let processes = args.processes.min(args.workers);
        Self { report, course, sections, took, calls, round_trips: round_trips.to_vec(), processes }
    }

    /// Whether no two sections overlapped.
    pub(super) fn is_safe(&self) -> bool {
        self.course.overlaps() == 0
    }

    pub(super) async fn told(&self, as_json: bool) -> Result<(), Failure> {
        if as_json {
            return Ok(output::say(&self.json().to_string()).await?);
        }
        Ok(output::say(&self.lines().join("\n")).await?)
    }

    fn rate(&self) -> f64 {
        self.sections as f64 / self.took.as_secs_f64()
    }

    fn each(&self, count: u64) -> f64 {
        count as f64 / self.sections.max(1) as f64
    }

    fn counted(&self, name: &str) -> u64 {
        self.report.counters.get(name).copied().unwrap_or_default()
    }

    /// The round trip to the node that completes a quorum.
    fn round_trip(&self) -> Duration {
        let mut sorted = self.round_trips.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    }

    /// The measured rate of sections, divided by an ideal rate. At the ideal rate, the gap between
    /// two sections takes `round_trips` round trips to a quorum.
    fn share(&self, round_trips: u32) -> f64 {
        self.rate() * (self.course.hold() + self.round_trip() * round_trips).as_secs_f64()
    }

    fn most(&self) -> u64 {
        self.report.workers.iter().copied().max().unwrap_or_default()
    }

    fn least(&self) -> u64 {
        self.report.workers.iter().copied().min().unwrap_or_default()
    }

    fn waited(&self, share: f64) -> Duration {
        self.report.latencies.percentile(share)
    }

    fn json(&self) -> Value {
        json!({
            "sections_per_second": rounded(self.rate()),
            "acquire_p50_ms": milliseconds(self.waited(0.5)),
            "acquire_p99_ms": milliseconds(self.waited(0.99)),
            "acquire_max_ms": milliseconds(self.waited(1.0)),
            "most_sections": self.most(),
            "least_sections": self.least(),
            "commands_per_section": rounded(self.each(self.calls)),
            "split_rounds_per_section": rounded(self.each(self.counted("quorumlock_split_rounds_total"))),
            "handover_p50_ms": milliseconds(self.course.handover(0.5)),
            "handover_p99_ms": milliseconds(self.course.handover(0.99)),
            "handover_max_ms": milliseconds(self.course.handover(1.0)),
            "overlaps": self.course.overlaps(),
            "lost": self.report.lost,
            "failed": self.report.failed,
            "sections": self.sections,
            "seconds": rounded(self.took.as_secs_f64()),
            "workers": self.report.workers.len(),
            "processes": self.processes,
            "hold_p50_ms": milliseconds(self.course.hold()),
            "round_trips_ms": self.round_trips.iter().copied().map(milliseconds).collect::<Vec<_>>(),
            "share_of_one_round_trip": rounded(self.share(1)),
            "share_of_two_round_trips": rounded(self.share(2)),
            "counters": self.report.counters,
        })
    }

    fn lines(&self) -> Vec<String> {
        let workers = self.report.workers.len();
        let waited = [0.5, 0.99, 1.0].map(|share| show(self.waited(share)));
        let handover = [0.5, 0.99].map(|share| show(self.course.handover(share)));
        let overlaps = self.course.overlaps();
        let overlaps = if overlaps == 0 { green("0") } else { red(&grouped(overlaps)) };
        let splits = self.each(self.counted("quorumlock_split_rounds_total"));
        let who = format!("a second; {workers} workers in {} processes, {}", self.processes, show(self.took));
        let ideal = format!("{:.2} of the rate with gaps of 1 round trip, {:.2} with 2", self.share(1), self.share(2));
        let rows = [
            ("sections", bold(&format!("{:.1}", self.rate())), who),
            ("", String::new(), ideal),
            ("overlaps", overlaps, "sections that began before another had ended".to_owned()),
            ("acquire", waited[0].clone(), format!("p50; p99 {}, longest {}", waited[1], waited[2])),
            ("handover", handover[0].clone(), format!("p50, from one section to the next; p99 {}", handover[1])),
            ("of a worker", grouped(self.most()), format!("sections at most, and {} at least", grouped(self.least()))),
            ("commands", format!("{:.1}", self.each(self.calls)), "a section, on all nodes together".to_owned()),
            ("split rounds", format!("{splits:.2}"), "a section".to_owned()),
        ];
        aligned_rows(&rows.map(|(name, value, what)| vec![name.to_owned(), value, what]))
    }
}
