//! What a holder says of itself, on its way to the nodes.

use std::sync::Arc;
use std::time::Duration;

use super::round::{Count, Round};
use super::voters::Voters;
use crate::error::NodeReport;
use crate::host::before;
use crate::node::{Claim, Description, Inspection, Name, Note, Operation, Outcome, Reply};
use crate::rules::tally::Size;
use crate::rules::{NodeSet, Tick};

/// How long whoever was refused waits for what the holder says of itself.
const PATIENCE: Duration = Duration::from_millis(500);

/// What a holder says of itself.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    pub(crate) says: Arc<str>,
    /// How many others it said before.
    pub(crate) number: u32,
    /// Since when it holds the names.
    pub(crate) since: Tick,
}

/// These on their way. They keep the round alive, and not the nodes.
#[derive(Clone, Debug)]
pub(crate) struct Telling {
    round: Arc<Round<Noted>>,
    sent: Tick,
}

impl Telling {
    /// Tells `whom` what the owner says whom `claim` was granted to with `token`.
    pub(super) fn start(voters: &Voters, claim: &Claim, token: u64, words: &Words, whom: NodeSet) -> Self {
        let sent = voters.host.now();
        let (names, owner, says) = (claim.names.clone(), claim.owner.clone(), words.says.clone());
        let note = Note { names, owner, token, number: words.number, age: sent.since(words.since), says };
        let nobody = NodeSet::default();
        let tally = Noted { size: voters.size, told: nobody, open: whom };
        let round = Round::new(voters.nodes.len(), 0, tally);
        voters.ask(whom, &Arc::new(note.into()), &round);
        Self { round, sent }
    }

    /// When it was sent.
    pub(crate) const fn sent(&self) -> Tick {
        self.sent
    }

    /// The nodes that have stored it so far.
    pub(crate) fn stored(&self) -> NodeSet {
        self.round.look(|noted| noted.told)
    }

    /// Whether a quorum has stored it.
    pub(crate) async fn confirmed(&self) -> bool {
        self.round.verdict().await
    }

    /// What each node said.
    pub(crate) fn reports(&self, voters: &Voters) -> Vec<NodeReport> {
        self.round.reports(voters, None)
    }
}

/// Counts the nodes that have stored it.
#[derive(Debug)]
struct Noted {
    size: Size,
    told: NodeSet,
    open: NodeSet,
}

impl Count for Noted {
    type Verdict = bool;

    fn count(&mut self, node: usize, reply: &Reply, _: u64) {
        self.open.remove(node);
        if matches!(reply, Ok(Outcome::Noted)) {
            self.told.insert(node);
        }
    }

    fn verdict(&self) -> Option<bool> {
        let stored = self.told.len() >= self.size.quorum();
        (stored || self.open.is_empty()).then_some(stored)
    }
}

/// What `owner` says of itself, who holds one of the names: the first that any node tells soon.
pub(crate) async fn described(voters: &Arc<Voters>, names: &Arc<[Name]>, owner: &str) -> Option<Description> {
    let hearsay = Hearsay { owner: owner.to_owned(), open: voters.nodes.len(), told: None };
    let round = Round::new(voters.nodes.len(), 0, hearsay);
    voters.ask(voters.everyone(), &Arc::new(Operation::Inspect(names.clone())), &round);
    before(&voters.host, voters.host.now() + PATIENCE, round.verdict()).await.flatten()
}

/// Waits for a node that knows what an owner says of itself.
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
