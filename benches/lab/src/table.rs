//! The measurements, as rows: for people, as JSON, and for plots and pages.

use serde::{Deserialize, Serialize};

use crate::stage::Turns;

/// One figure over all rounds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figure {
    pub median: f64,
    pub lowest: f64,
    pub highest: f64,
    /// The figure as a multiple of the floor's figure of the same round: the median of all rounds.
    pub to_floor: Option<f64>,
}

/// The figures of one contender in one scenario.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    pub scenario: String,
    /// The number that was varied: of nodes, tasks, names or waiters.
    pub at: Option<f64>,
    pub contender: String,
    pub figures: std::collections::BTreeMap<String, Figure>,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    pub rows: Vec<Row>,
}

impl Report {
    /// Adds the turns of all contenders in one scenario. The first contender is the floor.
    pub fn add(&mut self, scenario: &str, at: Option<f64>, turns: &[Turns]) {
        self.rows.extend(turns.iter().map(|one| row(scenario, at, one, turns.first())));
    }

    /// Adds figures that are measured once.
    pub fn add_once(&mut self, scenario: &str, at: Option<f64>, contender: &str, figures: &[(&str, f64)]) {
        let figure = |value: f64| Figure { median: value, lowest: value, highest: value, to_floor: None };
        let figures = figures.iter().map(|&(name, value)| (name.to_owned(), figure(value))).collect();
        let (scenario, contender) = (scenario.to_owned(), contender.to_owned());
        self.rows.push(Row { scenario, at, contender, figures, failed: None });
    }

    /// Adds a row for a failed measurement, with the reason.
    pub fn add_failed(&mut self, scenario: &str, at: Option<f64>, contender: &str, why: &str) {
        let (scenario, contender, failed) = (scenario.to_owned(), contender.to_owned(), Some(why.to_owned()));
        self.rows.push(Row { scenario, at, contender, figures: Default::default(), failed });
    }

    fn row(&self, scenario: &str, at: Option<f64>, contender: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.scenario == scenario && row.at == at && row.contender == contender)
    }

    /// A figure, if it was measured.
    pub fn figure(&self, scenario: &str, at: Option<f64>, contender: &str, name: &str) -> Option<f64> {
        let median = self.row(scenario, at, contender)?.figures.get(name)?.median;
        median.is_finite().then_some(median)
    }

    /// Why there are no figures, if there are none.
    pub fn failed(&self, scenario: &str, at: Option<f64>, contender: &str) -> Option<String> {
        self.row(scenario, at, contender)?.failed.clone()
    }

    /// A figure as a multiple of the floor's: see [`Figure::to_floor`].
    pub fn to_floor(&self, scenario: &str, at: Option<f64>, contender: &str, name: &str) -> Option<f64> {
        self.row(scenario, at, contender)?.figures.get(name)?.to_floor
    }

    /// A scenario's points for one contender, in order.
    pub fn series(&self, scenario: &str, contender: &str, name: &str) -> Vec<(f64, f64)> {
        self.points(scenario, contender, name, |figure| figure.median)
    }

    /// As `series`, but each point is the least of all rounds: other load disturbed it least.
    pub fn least(&self, scenario: &str, contender: &str, name: &str) -> Vec<(f64, f64)> {
        self.points(scenario, contender, name, |figure| figure.lowest)
    }

    /// As `series`, but each point is the highest of all rounds.
    pub fn most(&self, scenario: &str, contender: &str, name: &str) -> Vec<(f64, f64)> {
        self.points(scenario, contender, name, |figure| figure.highest)
    }

    fn points(&self, scenario: &str, contender: &str, name: &str, of: fn(&Figure) -> f64) -> Vec<(f64, f64)> {
        let wanted = |row: &&Row| row.scenario == scenario && row.contender == contender;
        let point = |row: &Row| Some((row.at?, of(row.figures.get(name)?)));
        self.rows.iter().filter(wanted).filter_map(point).filter(|(_, value)| value.is_finite()).collect()
    }

    /// Prints the rows of a scenario: a column for each figure, with its multiple of the floor's.
    pub fn show(&self, scenario: &str, at: Option<f64>, columns: &[(&str, &str)]) {
        let rows = self.rows.iter().filter(|row| row.scenario == scenario && row.at == at);
        let cell = |figure: &Figure| {
            let ratio = figure.to_floor.map(|ratio| format!(" ({ratio:.2})")).unwrap_or_default();
            short(figure.median) + &ratio
        };
        let line = |row: &Row| {
            let figures =
                columns.iter().map(|(_, name)| row.figures.get(*name).map(cell).unwrap_or_else(|| "-".to_owned()));
            let failed = row.failed.clone().unwrap_or_default();
            [row.contender.clone()].into_iter().chain(figures).chain([failed]).collect()
        };
        let rows: Vec<Vec<_>> = rows.map(line).collect();
        let heading: Vec<_> =
            ["contender"].into_iter().chain(columns.iter().map(|(title, _)| *title)).chain([""]).collect();
        print(&heading, &rows);
    }
}

fn row(scenario: &str, at: Option<f64>, turns: &Turns, floor: Option<&Turns>) -> Row {
    let names: Vec<_> = turns.rounds.first().map(|first| first.keys().copied().collect()).unwrap_or_default();
    let figures = names.into_iter().filter_map(|name| Some((name.to_owned(), figure(name, turns, floor)?))).collect();
    Row {
        scenario: scenario.to_owned(),
        at,
        contender: turns.kind.name().to_owned(),
        figures,
        failed: turns.failed.clone(),
    }
}

fn figure(name: &str, turns: &Turns, floor: Option<&Turns>) -> Option<Figure> {
    let all = sorted(turns.rounds.iter().filter_map(|round| round.get(name).copied()));
    let pairs = floor.into_iter().flat_map(|floor| turns.rounds.iter().zip(&floor.rounds));
    let ratio = |(of, floor): (&crate::turn::Figures, &crate::turn::Figures)| Some(of.get(name)? / floor.get(name)?);
    let ratios = sorted(pairs.filter_map(ratio));
    Some(Figure {
        median: median(&all)?,
        lowest: *all.first()?,
        highest: *all.last()?,
        to_floor: median(&ratios).filter(|ratio| ratio.is_finite()),
    })
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut all: Vec<_> = values.collect();
    all.sort_by(f64::total_cmp);
    all
}

fn median(sorted: &[f64]) -> Option<f64> {
    sorted.get(sorted.len() / 2).copied()
}

/// Prints columns that are as wide as their widest cell.
pub fn print(heading: &[&str], rows: &[Vec<String>]) {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([heading[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..heading.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        println!("{}", padded.collect::<Vec<_>>().join("  ").trim_end());
    };
    line(&heading.iter().map(|&cell| cell.to_owned()).collect::<Vec<_>>());
    rows.iter().for_each(|row| line(row));
    println!();
}

/// A figure with three significant digits.
pub fn short(value: f64) -> String {
    match value.abs() {
        value if !value.is_finite() => "-".to_owned(),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Rounds to three digits after the point.
pub fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
