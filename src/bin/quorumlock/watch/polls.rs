//! Asks the nodes. Each node has a task of its own, so that a slow node delays no other node. This
//! task asks again only after the node has answered, or the request has failed. Other tasks ask for
//! rights, and search for names.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt};
use quorumlock::{Inspected, Inspection, Leadership, Quorum};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::convert::{self, SLOW};
use super::seen::Names;
use crate::failure::Failure;
use crate::raw_connection::rights::{Asked, asked};
use crate::settings::Settings;
use crate::status::{NODE_TIMEOUT, PROBE, gather, is_unused};

/// How long nodes get to connect before they are asked.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often to check whether the nodes are connected.
const LOOK: Duration = Duration::from_millis(20);
/// The most answers that may wait to be read.
const ANSWERS: usize = 256;
/// The shortest pause between two requests to a node, even if nodes push many changes.
const REST: Duration = Duration::from_millis(50);
/// How often to look for nodes that came up, to ask them which rights are missing.
const RIGHTS: Duration = Duration::from_millis(500);
/// How often to ask all nodes that are up again, because an administrator may change rights.
const AGAIN: Duration = Duration::from_secs(10);
/// The least pause between two searches for all names.
const SEARCHES: Duration = Duration::from_secs(5);
/// The pause after a search is at least this many times as long as the nodes' work on the search.
const RESTS: u32 = 10;
/// The most time that a node works on a key, in microseconds. If the key is a name, the node spends
/// most of this time on inspecting the name.
const PER_KEY: u64 = 30;
/// How many names are shown at most: as many as `status --all` shows.
const LIMIT: usize = 1_000;

pub(super) enum Answer {
    /// A request was sent to a node.
    Asked { node: usize },
    /// The node answered, or the request failed.
    Told { node: usize, said: Result<Inspection, String>, took: Duration },
    /// The answers of all nodes to the one request that goes to all nodes together.
    All(Box<Inspected>),
    /// The missing rights that acquiring needs, node by node.
    Rights(Vec<Asked>),
    /// The names that are held.
    Names { names: Names, began: Instant },
}

/// The tasks that ask the nodes. Dropping this value ends the tasks.
pub(super) struct Polls {
    answers: mpsc::Receiver<Answer>,
    _tasks: JoinSet<()>,
}

impl Polls {
    /// Starts to ask about `name`, or about all names. Asks whenever `every` has passed, and
    /// when nodes push that the name changed.
    pub(super) fn begin(
        settings: &Settings,
        quorum: &Quorum,
        name: Option<&str>,
        every: Duration,
    ) -> Result<Self, Failure> {
        let ((told, answers), (round, rounds)) = (mpsc::channel(ANSWERS), watch::channel(()));
        let (mut tasks, round) = (JoinSet::new(), Arc::new(round));
        let asked = name.unwrap_or(PROBE).to_owned();
        for (node, address) in settings.nodes.iter().enumerate() {
            // Each node gets a `Quorum` of its own: a request to a `Quorum` of several nodes would
            // wait for the slowest node.
            let alone = Settings { nodes: vec![address.clone()], ..settings.clone() }.onlooker()?.open()?;
            tasks.spawn(ask(alone, node, asked.clone(), rounds.clone(), told.clone()));
        }
        tasks.spawn(rights(settings.clone(), quorum.clone(), told.clone()));
        tasks.spawn(tick(round.clone(), every));
        tasks.spawn(together(quorum.clone(), asked, told.clone()));
        match name {
            Some(name) => drop(tasks.spawn(pushed(quorum.election(name).observe()?, round))),
            None => drop(tasks.spawn(search(searching(settings)?, every, told))),
        }
        Ok(Self { answers, _tasks: tasks })
    }

    /// The next answer.
    ///
    /// # Cancel safety
    /// Safe.
    pub(super) async fn next(&mut self) -> Answer {
        match self.answers.recv().await {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}

/// Begins a round whenever `every` has passed.
async fn tick(round: Arc<watch::Sender<()>>, every: Duration) {
    loop {
        sleep(every).await;
        round.send_replace(());
    }
}

/// Begins a round whenever nodes push that the name may have changed. If nodes cannot push,
/// only the regular rounds ask.
async fn pushed(changes: impl Stream<Item = Leadership> + Send, round: Arc<watch::Sender<()>>) {
    let mut changes = pin!(changes);
    while changes.next().await.is_some() {
        round.send_replace(());
    }
}

/// Asks one node, once in a round. Skips rounds that begin before the node has answered.
async fn ask(alone: Quorum, node: usize, name: String, mut rounds: watch::Receiver<()>, told: mpsc::Sender<Answer>) {
    let began = Instant::now();
    while alone.nodes()[0].run.is_none() && began.elapsed() < PATIENCE {
        sleep(LOOK).await;
    }
    loop {
        rounds.mark_unchanged();
        if told.send(Answer::Asked { node }).await.is_err() {
            return;
        }
        let began = Instant::now();
        let said = match alone.inspect(&name).await {
            Ok(mut inspected) => inspected.nodes.swap_remove(0).1,
            Err(error) => Err(error.to_string()),
        };
        let took = began.elapsed();
        if told.send(Answer::Told { node, said, took }).await.is_err() {
            return;
        }
        sleep(REST).await;
        if rounds.changed().await.is_err() {
            return;
        }
    }
}

/// Asks all nodes together, once.
async fn together(quorum: Quorum, name: String, told: mpsc::Sender<Answer>) {
    let _ = quorum.ready(PATIENCE).await;
    if let Ok(inspected) = quorum.inspect(&name).await {
        let _ = told.send(Answer::All(Box::new(inspected))).await;
    }
}

/// Asks all nodes that are up which of the user's rights are missing. Asks all these nodes again
/// when another node comes up, and after [`AGAIN`].
async fn rights(settings: Settings, quorum: Quorum, told: mpsc::Sender<Answer>) {
    let (step, mut known) = (settings.node_timeout.unwrap_or(NODE_TIMEOUT), Vec::new());
    let (mut rights, mut asked_at): (Vec<Asked>, _) = (Vec::new(), Instant::now());
    loop {
        let up: Vec<_> = quorum.nodes().iter().map(|node| node.state.is_admitted() || is_unused(node)).collect();
        let news = up.iter().enumerate().any(|(node, up)| *up && known.get(node) != Some(&true));
        if news || asked_at.elapsed() >= AGAIN {
            rights = updated(rights, asked(&settings, step, &up).await);
            asked_at = Instant::now();
            if told.send(Answer::Rights(rights.clone())).await.is_err() {
                return;
            }
        }
        known = up;
        sleep(RIGHTS).await;
    }
}

/// The new answers. If a node did not answer, its last answer stays: otherwise a node without rights
/// would seem to vote.
fn updated(before: Vec<Asked>, now: Vec<Asked>) -> Vec<Asked> {
    let before = before.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
    let newer = |(now, before): (Asked, Option<Asked>)| match (now, before) {
        (Err(_), Some(before @ Ok(Some(_)))) => before,
        (now, _) => now,
    };
    now.into_iter().zip(before).map(newer).collect()
}

/// A `Quorum` for searches. A search waits for a node for a third of the ttl of this `Quorum`, so
/// for about [`SLOW`] at most. The `Quorum` acquires nothing, so its ttl has no other effect.
fn searching(settings: &Settings) -> Result<Quorum, Failure> {
    let longest = settings.max_ttl.filter(|longest| !longest.is_zero());
    let ttl = longest.map_or(3 * SLOW, |longest| longest.min(3 * SLOW));
    Ok(Settings { ttl: Some(ttl), ..settings.clone() }.onlooker()?.open()?)
}

/// Looks for all names that are held, again and again.
async fn search(quorum: Quorum, every: Duration, told: mpsc::Sender<Answer>) {
    let _ = quorum.ready(PATIENCE).await;
    loop {
        let (began, mut names) = (Instant::now(), quorum.held_names());
        let Ok((held, whole)) = gather(&mut names, LIMIT, |_, _| ()).await else { return };
        let keys = names.looked_at();
        let names = convert::names(&names, &held, whole, &quorum.nodes());
        if told.send(Answer::Names { names, began }).await.is_err() {
            return;
        }
        sleep(pause(keys, began.elapsed(), every)).await;
    }
}

/// The pause after a search that took `took`, in which the nodes looked at `keys` keys. A wait
/// for a node that hangs is no work, so such a wait does not make the pause longer.
fn pause(keys: u64, took: Duration, every: Duration) -> Duration {
    let work = Duration::from_micros(keys.saturating_mul(PER_KEY));
    (work.min(took) * RESTS).max(every).max(SEARCHES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_after_a_search_grows_with_the_work_of_nodes() {
        let second = Duration::from_secs(1);
        assert_eq!(pause(5_000, 4 * second, second), SEARCHES, "a node hangs");
        assert_eq!(pause(1_000_000, 30 * second, second), 300 * second);
        assert_eq!(pause(1_000_000, 4 * second, second), 40 * second);
        assert_eq!(pause(5_000, 4 * second, 60 * second), 60 * second);
    }

    #[tokio::test]
    async fn search_fits_a_short_max_ttl() {
        for max_ttl in [None, Some(0), Some(100), Some(60_000)] {
            let nodes = vec!["redis://127.0.0.1:1".to_owned()];
            let max_ttl = max_ttl.map(Duration::from_millis);
            assert!(searching(&Settings { nodes, max_ttl, ..Settings::default() }).is_ok(), "{max_ttl:?}");
        }
    }
}
