//! What is measured. Each scenario adds its rows to the report and prints a table.

mod alone;
mod contention;
mod far;
mod faults;
mod growth;

use clap::ValueEnum;

use crate::contender::{Kind, Result};
use crate::table::{Report, print, short};

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// One task: another name each time
    Alone,
    /// One task: the same name again and again
    Again,
    /// 256 tasks, each with a name of its own
    Crowd,
    /// Nodes 80, 2, 160, 12 and 40 ms away
    Far,
    /// One and two of five nodes fail, before and after the start
    Faults,
    /// One task over 1, 3, 5, 7 and 9 nodes
    Nodes,
    /// 1 to 4,096 tasks, each with a name of its own
    Tasks,
    /// 16 tasks that want one name
    Contention,
    /// Sets of names, and many waiters on one name: this library alone
    Growth,
}

impl Scenario {
    pub const ALL: [Self; 9] = [
        Self::Alone,
        Self::Again,
        Self::Crowd,
        Self::Far,
        Self::Faults,
        Self::Nodes,
        Self::Tasks,
        Self::Contention,
        Self::Growth,
    ];

    /// With a share of the usual number of pairs.
    pub async fn measure(self, kinds: &[Kind], share: f64, report: &mut Report) -> Result<()> {
        match self {
            Self::Alone => alone::fresh(kinds, share, report).await,
            Self::Again => alone::again(kinds, share, report).await,
            Self::Crowd => alone::crowd(kinds, share, report).await,
            Self::Far => far::measure(kinds, share, report).await,
            Self::Faults => faults::measure(kinds, share, report).await,
            Self::Nodes => growth::nodes(kinds, share, report).await,
            Self::Tasks => growth::tasks(kinds, share, report).await,
            Self::Contention => contention::measure(kinds, share, report).await,
            Self::Growth => growth::of_ours(share, report).await,
        }
    }
}

/// `share` of `many`, and one at least.
fn part(many: u32, share: f64) -> u32 {
    ((f64::from(many) * share) as u32).max(1)
}

/// Prints the rows of a scenario: a column a figure, with its multiple of the floor's.
fn show(report: &Report, scenario: &str, at: Option<f64>, columns: &[(&str, &str)]) {
    let rows = report.rows.iter().filter(|row| row.scenario == scenario && row.at == at);
    let cell = |figure: &crate::table::Figure| {
        let ratio = figure.to_floor.map(|ratio| format!(" ({ratio:.2})")).unwrap_or_default();
        short(figure.median) + &ratio
    };
    let line = |row: &crate::table::Row| {
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
