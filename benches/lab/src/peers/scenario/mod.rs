//! What is measured. Each scenario adds its rows to the report and prints a table.

mod alone;
mod contention;
mod far;
mod faults;
mod growth;
mod start;

use clap::ValueEnum;

use crate::contender::{Kind, Result};
use crate::table::Report;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// One task: another name each time
    Alone,
    /// One task: the same name again and again
    Again,
    /// One task: another name each time, over nodes that are 0.5 ms away
    Near,
    /// 256 tasks, each with a name of its own
    Crowd,
    /// The first lock of a new process, over healthy and failing nodes
    Start,
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
    pub const ALL: [Self; 11] = [
        Self::Alone,
        Self::Again,
        Self::Near,
        Self::Crowd,
        Self::Start,
        Self::Far,
        Self::Faults,
        Self::Nodes,
        Self::Tasks,
        Self::Contention,
        Self::Growth,
    ];

    /// Measures this scenario, with `share` of the usual number of pairs.
    pub async fn measure(self, kinds: &[Kind], share: f64, report: &mut Report) -> Result<()> {
        match self {
            Self::Alone => alone::fresh(kinds, share, report).await,
            Self::Again => alone::again(kinds, share, report).await,
            Self::Near => alone::near(kinds, share, report).await,
            Self::Crowd => alone::crowd(kinds, share, report).await,
            Self::Start => start::measure(kinds, share, report).await,
            Self::Far => far::measure(kinds, share, report).await,
            Self::Faults => faults::measure(kinds, share, report).await,
            Self::Nodes => growth::nodes(kinds, share, report).await,
            Self::Tasks => growth::tasks(kinds, share, report).await,
            Self::Contention => contention::measure(kinds, share, report).await,
            Self::Growth => growth::of_ours(share, report).await,
        }
    }
}

/// `share` of `many`, but at least one.
fn part(many: u32, share: f64) -> u32 {
    ((f64::from(many) * share) as u32).max(1)
}
