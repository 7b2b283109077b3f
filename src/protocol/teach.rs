//! Teaches nodes that may have forgotten below which ballots they must grant nothing.
//!
//! Every client does it for itself: what is told twice changes nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::join_all;
use tokio_util::sync::CancellationToken;

use super::doubts::Doubts;
use super::inspect::listed;
use super::round::{Count, Round};
use super::voters::Voters;
use crate::host::{Host, before, sleep_until};
use crate::node::{Node, Operation, Outcome, Reply};
use crate::rules::doubt::Lesson;
use crate::rules::teaching::{Advice, Records};
use crate::rules::{Backoff, NodeSet, Tick};

/// For how long answers are waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pauses between tries, as long as some node is not taught.
const PAUSES: Backoff = Backoff { min: Duration::from_secs(1), max: Duration::from_secs(60) };

/// Teaches whoever needs it, until `closing`.
pub(crate) async fn run(host: Arc<dyn Host>, voters: Weak<Voters>, doubts: Arc<Doubts>, closing: CancellationToken) {
    let (mut due, mut failures, mut rumours) = (Tick::NEVER, 0u32, Rumours::default());
    loop {
        tokio::select! {
            biased;
            () = closing.cancelled() => return,
            _ = doubts.next() => failures = 0,
            () = sleep_until(&host, due), if due != Tick::NEVER => failures = failures.saturating_add(1),
        }
        let Some(voters) = voters.upgrade() else { return };
        match closing.run_until_cancelled(teach(&voters, failures, &mut rumours)).await {
            Some(next) => due = next,
            None => return,
        }
    }
}

/// Teaches all nodes whose time has come. When to try again.
async fn teach(voters: &Arc<Voters>, failures: u32, rumours: &mut Rumours) -> Tick {
    let asked = voters.host.now();
    let pupils = pupils(voters, asked);
    if !pupils.is_empty() {
        let last = !others_come(voters);
        let records = records(voters, pupils.iter().map(|(pupil, _)| *pupil)).await;
        let free = voters.nodes.iter().all(|node| node.lesson().is_none_or(|lesson| lesson.ends <= asked));
        // Others may know by now what they did not tell before the quarantine ended.
        let over = |lesson: Lesson| lesson.ends <= asked;
        let advised = pupils.iter().map(|&(pupil, lesson)| {
            let advice = rumours.sifted(pupil, lesson, &records, free);
            // Where it is not listed, no vote waits for it, and others may come that know.
            let last = last && over(lesson) && (records.is_listed(pupil) || voters.members.onlooker);
            advise(voters, pupil, lesson, advice, last)
        });
        // All at once: one that hangs must not use up the time of the others.
        let took = join_all(advised).await;
        let voting = pupils.into_iter().zip(took).filter(|&((_, lesson), took)| took && over(lesson));
        voting.for_each(|((pupil, lesson), _)| rumours.note(pupil, lesson, records.heard()));
    }
    next(voters, failures, asked)
}

/// Whether a node is being connected to: it may know.
fn others_come(voters: &Voters) -> bool {
    let comes = |node: &Arc<dyn Node>| node.lesson().is_none() && node.status().state.is_connecting();
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
    // What became due, or ended, while others were taught was not tried.
    let soonest = |of: Tick| if of > began { of.min(now + pause) } else { now + pause };
    lessons
        .map(|lesson| if lesson.from > began { lesson.from } else { soonest(lesson.ends) })
        .min()
        .unwrap_or(Tick::NEVER)
}

/// Does for a node what is to be done. Whether it took that.
///
/// Where too few know, that was the `last` word if nobody comes. Who did not take what it was told
/// is told again, and its votes wait for that, but no longer than for any lesson.
async fn advise(voters: &Arc<Voters>, pupil: usize, lesson: Lesson, advice: Advice, last: bool) -> bool {
    let (tells, taught) = match advice {
        Advice::Nothing => (None, true),
        Advice::Teach(high) => (Some(Operation::teach(high, lesson.number)), true),
        Advice::NobodyKnows(0) => (None, false),
        Advice::NobodyKnows(high) => (Some(Operation::teach_by_hand(high, lesson.number)), false),
    };
    let took = match tells {
        Some(teach) => told(voters, pupil, teach).await,
        None => true,
    };
    if took && (taught || last) {
        voters.nodes[pupil].lesson_given(lesson, taught);
    }
    took
}

/// Tells one node. Whether it took it.
///
/// The client's own ballots are not raised by what it tells: a node's `high` is ahead of what was
/// dealt, and asked again and again they would follow the node's clock, however far it was stepped
/// (seed 247979986 of ec7c8d6).
async fn told(voters: &Arc<Voters>, pupil: usize, teach: Operation) -> bool {
    let round = Round::new(voters.nodes.len(), 0, Told(None));
    voters.ask(NodeSet::of(pupil), &Arc::new(teach), &round);
    before(&voters.host, voters.host.now() + PATIENCE, round.verdict()).await.unwrap_or(false)
}

async fn records(voters: &Arc<Voters>, of: impl Iterator<Item = usize>) -> Records {
    let mut pupils = NodeSet::default();
    of.for_each(|pupil| pupils.insert(pupil));
    let asked = Asked { pupils, records: Records::new(voters.size).of_listed(school(voters)) };
    let round = Round::new(voters.nodes.len(), 0, asked);
    voters.ask(voters.everyone(), &Arc::new(Operation::Record), &round);
    let _ = before(&voters.host, voters.host.now() + PATIENCE, round.verdict()).await;
    round.look(|asked| asked.records)
}

/// Of which nodes' records each node was told that votes though nobody could teach it.
///
/// Before it votes it is told with each try. From then on it is told again once another node says
/// what it knows: whoever is about to claim with a lower ballot must ask twice.
#[derive(Debug, Default)]
struct Rumours(BTreeMap<usize, (u32, NodeSet)>);

impl Rumours {
    /// What is to be done about a node, without what it was told before.
    fn sifted(&self, pupil: usize, lesson: Lesson, records: &Records, free: bool) -> Advice {
        let known = self.0.get(&pupil).filter(|(number, _)| *number == lesson.number);
        match (records.advise(pupil, free), known) {
            (Advice::NobodyKnows(_), Some((_, of))) if records.heard().without(*of).is_empty() => {
                Advice::NobodyKnows(0)
            }
            (advice, _) => advice,
        }
    }

    fn note(&mut self, pupil: usize, lesson: Lesson, heard: NodeSet) {
        let known = self.0.entry(pupil).or_default();
        if known.0 != lesson.number {
            *known = (lesson.number, NodeSet::default());
        }
        known.1 = known.1.or(heard);
    }
}

/// The nodes that teach and are taught: those whose votes clients count. Who only looks may have
/// another list than they, so it goes by what rosters have: where they are empty it tells what is
/// known, which only refuses more, and marks nobody as taught.
fn school(voters: &Arc<Voters>) -> NodeSet {
    let in_a_roster = |&node: &usize| {
        let status = voters.nodes[node].status();
        // In memory, nodes have no rosters.
        !voters.members.onlooker || status.run.is_none() || status.listed == Some(true)
    };
    listed(voters).iter().filter(in_a_roster).collect()
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
