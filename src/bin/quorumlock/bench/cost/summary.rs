//! What a benchmark of costs came to.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::super::rounded;
use super::counts::Counts;
use super::spent::{Phase, Round, Spent};
use crate::failure::Failure;
use crate::output::{self, grouped, table};

const HEADING: [&str; 9] =
    ["phase", "pairs a second", "p50", "p99", "node CPU", "of plain", "commands a node", "client CPU", "of plain"];

/// One figure of what was spent.
type Figure = fn(&Spent) -> f64;

/// What transports are compared by.
const FIGURES: [(&str, Figure); 4] = [
    ("p50", |spent| spent.latency(0.5)),
    ("p99", |spent| spent.latency(0.99)),
    ("client CPU", Spent::client_cpu),
    ("node CPU", Spent::node_cpu),
];
const COMPARED: [&str; 5] = ["of fred", FIGURES[0].0, FIGURES[1].0, FIGURES[2].0, FIGURES[3].0];

pub(super) struct Summary {
    pub(super) rounds: Vec<Round>,
    pub(super) nodes: usize,
    pub(super) tasks: u32,
    /// Of the hand-written crowd to each node.
    pub(super) connections: usize,
}

impl Summary {
    pub(super) async fn told(&self, as_json: bool) -> Result<(), Failure> {
        if as_json {
            return Ok(output::say(&self.json().to_string()).await?);
        }
        Ok(output::say(&self.lines().join("\n")).await?)
    }

    fn total(&self) -> Round {
        let mut total = Round::default();
        self.rounds.iter().for_each(|round| total += round);
        total
    }

    fn lines(&self) -> Vec<String> {
        let total = self.total();
        let rows: Vec<_> = total.0.iter().map(|(phase, spent)| self.row(*phase, spent, &total)).collect();
        let mut lines = table(&HEADING, &rows);
        lines.push(String::new());
        lines.extend(self.explained());
        let others: Vec<_> = Phase::all().into_iter().filter_map(|phase| self.compared(phase, &total)).collect();
        if !others.is_empty() {
            lines.push(String::new());
            lines.extend(table(&COMPARED, &others));
        }
        lines
    }

    /// A phase over another transport than the default one, as multiples of the same over that.
    fn compared(&self, phase: Phase, total: &Round) -> Option<Vec<String>> {
        let other = phase.by_default()?;
        let figures = FIGURES.map(|(_, figure)| self.spread(|round| round.to(phase, other, figure), total));
        Some([phase.name()].into_iter().chain(figures).collect())
    }

    fn explained(&self) -> [String; 3] {
        let (nodes, rounds, tasks) = (self.nodes, self.rounds.len(), grouped(self.tasks.into()));
        let connections = match self.connections {
            1 => "1 connection".to_owned(),
            many => format!("{} connections", grouped(many as u64)),
        };
        [
            "Per pair: one acquisition and its release. Times in microseconds; CPU of this process and of all nodes together.".to_owned(),
            format!("A crowd is {tasks} tasks with a name each; the plain one has {connections} to each of {nodes} nodes."),
            format!("In brackets: lowest and highest of {rounds} rounds. Commands include those that scripts call."),
        ]
    }

    fn row(&self, phase: Phase, spent: &Spent, total: &Round) -> Vec<String> {
        vec![
            phase.name(),
            grouped(spent.rate() as u64),
            format!("{:.0}", spent.latency(0.5)),
            format!("{:.0}", spent.latency(0.99)),
            format!("{:.1}", spent.node_cpu()),
            self.multiple(phase, total, Spent::node_cpu),
            format!("{:.2}", spent.commands()),
            format!("{:.1}", spent.client_cpu()),
            self.multiple(phase, total, Spent::client_cpu),
        ]
    }

    fn multiple(&self, phase: Phase, total: &Round, figure: Figure) -> String {
        self.spread(|round| round.to_floor(phase, figure), total)
    }

    /// A ratio of all rounds together, and the lowest and the highest of one.
    fn spread(&self, ratio: impl Fn(&Round) -> Option<f64>, total: &Round) -> String {
        let Some(all) = ratio(total) else { return String::new() };
        let rounds = self.rounds.iter().filter_map(ratio);
        let (least, most) = rounds.fold((f64::MAX, 0.0_f64), |(least, most), one| (least.min(one), most.max(one)));
        format!("{all:.2} ({least:.2} to {most:.2})")
    }

    fn by_round(&self, phase: Phase, figure: Figure) -> Vec<f64> {
        self.rounds.iter().filter_map(|round| round.to_floor(phase, figure)).collect()
    }

    fn json(&self) -> Value {
        let total = self.total();
        let phases = total
            .0
            .iter()
            .map(|(phase, spent)| (phase.name().replace([' ', '-'], "_"), self.phase_json(*phase, spent, &total)));
        json!({
            "nodes": self.nodes,
            "tasks": self.tasks,
            "plain_connections": self.connections,
            "rounds": self.rounds.len(),
            "phases": phases.collect::<Map<_, _>>(),
        })
    }

    fn phase_json(&self, phase: Phase, spent: &Spent, total: &Round) -> Value {
        let to_default = |figure| phase.by_default().and_then(|other| total.to(phase, other, figure)).map(rounded);
        let compared = FIGURES.map(|(name, figure)| (name.to_lowercase().replace(' ', "_"), to_default(figure)));
        let rounds = |figure| self.by_round(phase, figure).into_iter().map(rounded).collect::<Vec<_>>();
        json!({
            "pairs": spent.pairs,
            "seconds": rounded(spent.took.as_secs_f64()),
            "pairs_per_second": rounded(spent.rate()),
            "p50_us": rounded(spent.latency(0.5)),
            "p99_us": rounded(spent.latency(0.99)),
            "to_fred": phase.by_default().map(|_| compared.into_iter().collect::<BTreeMap<_, _>>()),
            "node_cpu_us": rounded(spent.node_cpu()),
            "node_cpu_to_plain": total.to_floor(phase, Spent::node_cpu).map(rounded),
            "node_cpu_to_plain_by_round": rounds(Spent::node_cpu),
            "commands": rounded(spent.commands()),
            "client_cpu_us": rounded(spent.client_cpu()),
            "client_cpu_to_plain": total.to_floor(phase, Spent::client_cpu).map(rounded),
            "client_cpu_to_plain_by_round": rounds(Spent::client_cpu),
            "by_node": spent.nodes.iter().map(|node| node_json(spent, node)).collect::<Vec<_>>(),
        })
    }
}

fn node_json(spent: &Spent, node: &Counts) -> Value {
    let each = node.commands.iter().map(|(name, &count)| (name, rounded(spent.each(count))));
    json!({
        "cpu_us": rounded(spent.micros(node.cpu)),
        "commands": rounded(spent.each(node.total())),
        "by_command": each.collect::<BTreeMap<_, _>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use quorumlock::Transport;

    fn spent(pairs: u64, cpu: u64) -> Spent {
        let node = Counts { commands: [("get".to_owned(), 4 * pairs)].into(), cpu: Duration::from_micros(cpu) };
        let (took, client, nodes) = (Duration::from_secs(1), Duration::from_micros(2 * cpu), vec![node; 5]);
        Spent { pairs, took, client, nodes, ..Spent::default() }
    }

    fn round(alone: u64, plain: u64) -> Round {
        let mut round = Round::default();
        for (phase, cost) in &mut round.0 {
            *cost = match phase {
                Phase::Alone(Transport::Fred) => spent(10, alone),
                Phase::Plain => spent(10, plain),
                // All that is over another transport, and crowds.
                _ => spent(10, 2 * alone),
            };
        }
        round
    }

    #[test]
    fn costs_are_summed_over_rounds_before_they_are_compared() {
        let summary = Summary { rounds: vec![round(300, 100), round(100, 100)], nodes: 5, tasks: 1, connections: 1 };
        let said = &summary.json()["phases"]["alone"];
        assert_eq!((&said["node_cpu_us"], &said["commands"]), (&json!(100.0), &json!(4.0)), "of 20 pairs: {said}");
        assert_eq!((&said["node_cpu_to_plain"], &said["client_cpu_to_plain"]), (&json!(2.0), &json!(2.0)));
        assert_eq!(said["node_cpu_to_plain_by_round"], json!([3.0, 1.0]));
    }

    #[cfg(feature = "redis-rs")]
    #[test]
    fn what_another_transport_costs_is_told_as_a_multiple_of_the_default_one() {
        let summary = Summary { rounds: vec![round(300, 100), round(100, 100)], nodes: 5, tasks: 1, connections: 1 };
        let said = &summary.json()["phases"]["alone_redis_rs"];
        assert_eq!((&said["to_fred"]["client_cpu"], &said["to_fred"]["p50"]), (&json!(2.0), &Value::Null), "{said}");
        assert_eq!(summary.json()["phases"]["alone"]["to_fred"], Value::Null);
        let lines = summary.lines();
        assert!(lines.iter().any(|line| line.starts_with("alone redis-rs") && line.contains("2.00 (2.00 to 2.00)")));
    }

    #[test]
    fn a_phase_that_cost_nothing_has_no_multiples() {
        let summary = Summary { rounds: vec![round(300, 0)], nodes: 5, tasks: 1, connections: 1 };
        assert_eq!(summary.json()["phases"]["alone"]["node_cpu_to_plain"], Value::Null);
        assert_eq!(summary.json()["phases"]["plain"]["node_cpu_to_plain"], Value::Null);
    }
}
