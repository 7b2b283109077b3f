//! What a benchmark of costs came to.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::super::rounded;
use super::counts::Counts;
use super::spent::{Phase, Round, Spent};
use crate::failure::Failure;
use crate::output::{self, grouped, table};

const HEADING: [&str; 7] =
    ["phase", "pairs a second", "node CPU", "of plain", "commands a node", "client CPU", "of plain"];

pub(super) struct Summary {
    pub(super) rounds: Vec<Round>,
    pub(super) nodes: usize,
    pub(super) tasks: u32,
    /// Of the hand-written crowd to each node.
    pub(super) connections: usize,
}

impl Summary {
    pub(super) fn told(&self, as_json: bool) -> Result<(), Failure> {
        if as_json {
            return Ok(output::say(&self.json().to_string())?);
        }
        Ok(self.lines().iter().try_for_each(|line| output::say(line))?)
    }

    fn total(&self) -> Round {
        let mut total = Round::default();
        self.rounds.iter().for_each(|round| total += round);
        total
    }

    fn lines(&self) -> Vec<String> {
        let total = self.total();
        let mut lines = table(&HEADING, &Phase::ALL.map(|phase| self.row(phase, &total)));
        lines.push(String::new());
        lines.extend(self.explained());
        lines
    }

    fn explained(&self) -> [String; 3] {
        let (nodes, rounds, tasks) = (self.nodes, self.rounds.len(), grouped(self.tasks.into()));
        let connections = match self.connections {
            1 => "1 connection".to_owned(),
            many => format!("{} connections", grouped(many as u64)),
        };
        [
            "Per pair: one acquisition and its release. CPU in microseconds, of this process and of all nodes together.".to_owned(),
            format!("A crowd is {tasks} tasks with a name each; the plain one has {connections} to each of {nodes} nodes."),
            format!("In brackets: lowest and highest of {rounds} rounds. Commands include those that scripts call."),
        ]
    }

    fn row(&self, phase: Phase, total: &Round) -> Vec<String> {
        let spent = total.of(phase);
        vec![
            phase.name().to_owned(),
            grouped(spent.rate() as u64),
            format!("{:.1}", spent.node_cpu()),
            self.multiple(phase, total, Spent::node_cpu),
            format!("{:.2}", spent.commands()),
            format!("{:.1}", spent.client_cpu()),
            self.multiple(phase, total, Spent::client_cpu),
        ]
    }

    fn multiple(&self, phase: Phase, total: &Round, figure: fn(&Spent) -> f64) -> String {
        let Some(all) = total.to_floor(phase, figure) else { return String::new() };
        let (least, most) = self
            .by_round(phase, figure)
            .into_iter()
            .fold((f64::MAX, 0.0_f64), |(least, most), one| (least.min(one), most.max(one)));
        format!("{all:.2} ({least:.2} to {most:.2})")
    }

    fn by_round(&self, phase: Phase, figure: fn(&Spent) -> f64) -> Vec<f64> {
        self.rounds.iter().filter_map(|round| round.to_floor(phase, figure)).collect()
    }

    fn json(&self) -> Value {
        let total = self.total();
        let phases = Phase::ALL.map(|phase| (phase.name().replace(' ', "_"), self.phase_json(phase, &total)));
        json!({
            "nodes": self.nodes,
            "tasks": self.tasks,
            "plain_connections": self.connections,
            "rounds": self.rounds.len(),
            "phases": phases.into_iter().collect::<Map<_, _>>(),
        })
    }

    fn phase_json(&self, phase: Phase, total: &Round) -> Value {
        let spent = total.of(phase);
        let rounds = |figure| self.by_round(phase, figure).into_iter().map(rounded).collect::<Vec<_>>();
        json!({
            "pairs": spent.pairs,
            "seconds": rounded(spent.took.as_secs_f64()),
            "pairs_per_second": rounded(spent.rate()),
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

    fn spent(pairs: u64, cpu: u64) -> Spent {
        let node = Counts { commands: [("get".to_owned(), 4 * pairs)].into(), cpu: Duration::from_micros(cpu) };
        Spent { pairs, took: Duration::from_secs(1), client: Duration::from_micros(2 * cpu), nodes: vec![node; 5] }
    }

    fn round(alone: u64, plain: u64) -> Round {
        let mut round = Round::default();
        round.0[Phase::Alone as usize] = spent(10, alone);
        round.0[Phase::Plain as usize] = spent(10, plain);
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

    #[test]
    fn a_phase_that_cost_nothing_has_no_multiples() {
        let summary = Summary { rounds: vec![round(300, 0)], nodes: 5, tasks: 1, connections: 1 };
        assert_eq!(summary.json()["phases"]["alone"]["node_cpu_to_plain"], Value::Null);
        assert_eq!(summary.json()["phases"]["plain"]["node_cpu_to_plain"], Value::Null);
    }
}
