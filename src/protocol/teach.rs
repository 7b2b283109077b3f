//! Teaches nodes that may have forgotten below which ballots they must grant nothing.
//!
//! Every client does it for itself: what is told twice changes nothing.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::join_all;
use tokio_util::sync::CancellationToken;

use super::doubts::Doubts;
use super::round::{Count, Round};
use super::voters::Voters;
use crate::host::{Host, before, sleep_until};
use crate::node::{Node, NodeState, Operation, Outcome, Reply};
use crate::rules::doubt::Lesson;
use crate::rules::teaching::{Advice, Records};
use crate::rules::{Backoff, NodeSet, Tick};

/// For how long answers are waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pauses between tries, as long as some node is not taught.
const PAUSES: Backoff = Backoff { min: Duration::from_secs(1), max: Duration::from_secs(60) };

/// Teaches whoever needs it, until `closing`.
pub(crate) async fn run(host: Arc<dyn Host>, voters: Weak<Voters>, doubts: Arc<Doubts>, closing: CancellationToken) {
    let (mut due, mut failures) = (Tick::NEVER, 0u32);
    loop {
        tokio::select! {
            biased;
            () = closing.cancelled() => return,
            _ = doubts.next() => failures = 0,
            () = sleep_until(&host, due), if due != Tick::NEVER => failures = failures.saturating_add(1),
        }
        let Some(voters) = voters.upgrade() else { return };
        match closing.run_until_cancelled(teach(&voters, failures)).await {
            Some(next) => due = next,
            None => return,
        }
    }
}

/// Teaches all nodes whose time has come. When to try again.
async fn teach(voters: &Arc<Voters>, failures: u32) -> Tick {
    let now = voters.host.now();
    let pupils = pupils(voters, now);
    if !pupils.is_empty() {
        let last = !others_come(voters);
        let records = records(voters, pupils.iter().map(|(pupil, _)| *pupil)).await;
        let free = voters.nodes.iter().all(|node| node.lesson().is_none_or(|lesson| lesson.ends <= now));
        // All at once: one that hangs must not use up the time of the others.
        let advised =
            pupils.into_iter().map(|(pupil, lesson)| advise(voters, pupil, lesson, records.advise(pupil, free), last));
        join_all(advised).await;
    }
    next(voters, failures, now)
}

/// Whether a node is being connected to: it may know.
fn others_come(voters: &Voters) -> bool {
    let comes = |node: &Arc<dyn Node>| node.lesson().is_none() && node.status().state == NodeState::Connecting;
    voters.nodes.iter().any(comes)
}

fn pupils(voters: &Voters, now: Tick) -> Vec<(usize, Lesson)> {
    let lessons = voters.nodes.iter().enumerate().filter_map(|(node, of)| Some((node, of.lesson()?)));
    lessons.filter(|(_, lesson)| lesson.from <= now).collect()
}

/// When the first lesson is due, or may succeed at last.
fn next(voters: &Voters, failures: u32, began: Tick) -> Tick {
    let now = voters.host.now();
    let pause = PAUSES.pause(failures, Duration::ZERO, voters.host.random()).max(PAUSES.min);
    let lessons = voters.nodes.iter().filter_map(|node| node.lesson());
    let soonest = |of: Tick| if of > now { of.min(now + pause) } else { now + pause };
    lessons
        // What became due while others were taught was not tried.
        .map(|lesson| if lesson.from > began { lesson.from } else { soonest(lesson.ends) })
        .min()
        .unwrap_or(Tick::NEVER)
}

/// Does for a node what is to be done. Where nobody knows, that was the `last` word if nobody
/// comes.
async fn advise(voters: &Arc<Voters>, pupil: usize, lesson: Lesson, advice: Advice, last: bool) {
    let taught = match advice {
        Advice::Nothing => true,
        Advice::Teach(high) => told(voters, pupil, Operation::teach(high, lesson.number)).await,
        Advice::NobodyKnows if last => false,
        Advice::NobodyKnows => return,
    };
    voters.nodes[pupil].lesson_given(lesson, taught);
}

/// Tells one node. Whether it took it.
async fn told(voters: &Arc<Voters>, pupil: usize, teach: Operation) -> bool {
    let round = Round::new(voters.nodes.len(), teach.ballot, Told(None));
    voters.ask(NodeSet::of(pupil), &Arc::new(teach), &round);
    before(&voters.host, voters.host.now() + PATIENCE, round.verdict()).await.unwrap_or(false)
}

async fn records(voters: &Arc<Voters>, of: impl Iterator<Item = usize>) -> Records {
    let mut pupils = NodeSet::default();
    of.for_each(|pupil| pupils.insert(pupil));
    let asked = Asked { pupils, records: Records::new(voters.size) };
    let round = Round::new(voters.nodes.len(), 0, asked);
    voters.ask(voters.everyone(), &Arc::new(Operation::record()), &round);
    let _ = before(&voters.host, voters.host.now() + PATIENCE, round.verdict()).await;
    round.look(|asked| asked.records)
}

struct Asked {
    pupils: NodeSet,
    records: Records,
}

impl Count for Asked {
    type Verdict = ();

    fn count(&mut self, node: usize, reply: &Reply, _: u64) {
        let record = match reply {
            Ok(Outcome::Record { high, taught, .. }) => Some((*high, *taught)),
            _ => None,
        };
        self.records.count(node, record);
    }

    fn verdict(&self) -> Option<()> {
        self.records.suffice(self.pupils).then_some(())
    }
}

struct Told(Option<bool>);

impl Count for Told {
    type Verdict = bool;

    fn count(&mut self, _: usize, reply: &Reply, _: u64) {
        self.0 = Some(matches!(reply, Ok(Outcome::Taught)));
    }

    fn verdict(&self) -> Option<bool> {
        self.0
    }
}
