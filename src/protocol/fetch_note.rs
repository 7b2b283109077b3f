//! Fetches the note of a holder, for a caller that was refused.

use std::sync::Arc;
use std::time::Duration;

use super::round::{Count, Round};
use super::voters::Voters;
use crate::host::before;
use crate::node::{Description, Inspection, Name, Operation, Outcome, Reply};

/// How long a refused caller waits for the holder's note.
const PATIENCE: Duration = Duration::from_millis(500);

/// The note of `owner`, which holds one of the names: the first note of this owner that a node
/// returns.
pub(crate) async fn fetch_note(voters: &Arc<Voters>, names: &Arc<[Name]>, owner: &str) -> Option<Description> {
    let hearsay = Hearsay { owner: owner.to_owned(), open: voters.nodes.len(), told: None };
    let round = Round::new(voters, 0, hearsay, None);
    voters.ask(voters.everyone(), &Arc::new(Operation::Inspect(names.clone())), &round);
    before(&voters.host, voters.host.now() + PATIENCE, round.verdict()).await.flatten()
}

/// Counts replies until a node has returned the owner's note, or all nodes have replied.
#[derive(Debug)]
struct Hearsay {
    owner: String,
    open: usize,
    told: Option<Description>,
}

impl Count for Hearsay {
    type Verdict = Option<Description>;

    fn count(&mut self, _: usize, reply: &Reply, _: u64) {
        self.open -= 1;
        if let Ok(Outcome::Inspected(entries)) = reply {
            let theirs = |entry: &&Inspection| entry.holder.as_ref() == Some(&self.owner);
            let told = entries.iter().filter(theirs).find_map(|entry| entry.description.clone());
            self.told = self.told.take().or(told);
        }
    }

    fn verdict(&self) -> Option<Self::Verdict> {
        (self.open == 0 || self.told.is_some()).then(|| self.told.clone())
    }
}
