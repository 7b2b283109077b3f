//! Teaches nodes that may have forgotten below which ballots they must grant nothing.
//!
//! Every client does it for itself: what is told twice changes nothing.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::hints::Doubts;
use super::round::{Count, Round};
use super::voters::Voters;
use crate::host::{Host, before, sleep_until};
use crate::node::{Operation, Outcome, Reply};
use crate::quorum::guard::Lesson;
use crate::quorum::teaching::{Advice, Records};
use crate::quorum::{Backoff, NodeSet, Tick};

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
        let records = records(voters, pupils.iter().map(|(pupil, _)| *pupil)).await;
        let free = voters.nodes.iter().all(|node| node.lesson().is_none_or(|lesson| lesson.ends <= now));
        for (pupil, lesson) in pupils {
            advise(voters, pupil, lesson, records.advise(pupil, free)).await;
        }
    }
    next(voters, failures)
}

fn pupils(voters: &Voters, now: Tick) -> Vec<(usize, Lesson)> {
    let lessons = voters.nodes.iter().enumerate().filter_map(|(node, of)| Some((node, of.lesson()?)));
    lessons.filter(|(_, lesson)| lesson.from <= now).collect()
}

/// When the first lesson is due, or may succeed at last.
fn next(voters: &Voters, failures: u32) -> Tick {
    let now = voters.host.now();
    let pause = PAUSES.pause(failures, Duration::ZERO, voters.host.random()).max(PAUSES.min);
    let lessons = voters.nodes.iter().filter_map(|node| node.lesson());
    let soonest = |of: Tick| if of > now { of.min(now + pause) } else { now + pause };
    lessons
        .map(|lesson| if lesson.from > now { lesson.from } else { soonest(lesson.ends) })
        .min()
        .unwrap_or(Tick::NEVER)
}

async fn advise(voters: &Arc<Voters>, pupil: usize, lesson: Lesson, advice: Advice) {
    // It may have restarted while others were asked: then it is too early to tell it.
    let same = voters.nodes[pupil].lesson().is_some_and(|now| now.number == lesson.number);
    let taught = match advice {
        Advice::Nothing => true,
        Advice::Teach(high) => same && told(voters, pupil, high).await,
        Advice::NobodyKnows => false,
    };
    voters.nodes[pupil].lesson_given(lesson, taught);
}

/// Tells one node. Whether it took it.
async fn told(voters: &Arc<Voters>, pupil: usize, high: u64) -> bool {
    let round = Round::new(voters.nodes.len(), high, Told(None));
    voters.ask(NodeSet::of(pupil), &Arc::new(Operation::teach(high)), &round);
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
