//! When a node publishes a message for observers of a name.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use quorumlock::node::{Kind, MemoryNode, Name, Node, Note, Operation, Outcome, Verb};

use crate::common::asked::Asked;
use crate::common::eventually;
use crate::common::node::{Recorder, ask, heard};
use crate::common::server::Server;

/// One node, and a recorder of its news.
struct Bench {
    node: Arc<dyn Node>,
    recorder: Arc<Recorder>,
    marks: AtomicU32,
}

fn name(text: &str) -> Name {
    Name::new("p:", text).unwrap()
}

/// An operation of an owner whose hold may have a note.
fn asked(verb: Verb, text: &str, owner: &str) -> Asked {
    let (ttl, kind) = (Duration::from_secs(60), Kind::Noted);
    Asked { verb, owner: owner.into(), kind, ttl, ballot: 5, count: 1, ..Asked::inspect([name(text)].into()) }
}

/// A renewal with a note that has this number.
fn said(text: &str, owner: &str, number: u32) -> Asked {
    let note = Some(Note { number, age: Duration::ZERO, says: "why".into() });
    Asked { note, ..asked(Verb::Renew, text, owner) }
}

impl Bench {
    fn new(node: impl Node, recorder: Arc<Recorder>) -> Self {
        Self { node: Arc::new(node), recorder, marks: AtomicU32::new(0) }
    }

    async fn ask(&self, operation: &(impl Clone + Into<Operation>)) -> Outcome {
        ask(&*self.node, operation).await.unwrap()
    }

    /// How often news of `a` came since the last call. Messages come in order, so all earlier news
    /// has come when the news of `mark` comes.
    async fn told(&self) -> usize {
        self.ask(&asked(Verb::Claim, "mark", "it/1")).await;
        self.ask(&said("mark", "it/1", self.marks.fetch_add(1, Ordering::Relaxed))).await;
        let seen = RefCell::new(Vec::new());
        eventually("the mark comes", async || {
            seen.borrow_mut().extend(self.recorder.news());
            seen.borrow().last() == Some(&name("mark"))
        })
        .await;
        let seen = seen.into_inner();
        assert!(seen.iter().all(|it| [name("a"), name("mark")].contains(it)), "{seen:?}");
        seen.len() - 1
    }
}

async fn news_is_of_notes_that_are_new_and_go_with_their_hold(bench: Bench) {
    for (operation, told) in [
        (asked(Verb::Claim, "a", "me/1"), 0),
        (said("a", "me/1", 0), 1),
        (said("a", "me/1", 0), 0),
        (asked(Verb::Renew, "a", "me/1"), 0),
        (said("a", "me/1", 3), 1),
        (said("a", "me/1", 2), 0),
        (said("a", "other/1", 9), 0),
        (asked(Verb::Release, "a", "me/1"), 1),
        (asked(Verb::Release, "a", "me/1"), 0),
    ] {
        bench.ask(&operation).await;
        assert_eq!(bench.told().await, told, "{operation:?}");
    }
}

async fn holders_without_a_note_are_no_news(bench: Bench) {
    for (owner, kind) in [("me/1", Kind::Lock), ("me/2", Kind::Noted)] {
        for verb in [Verb::Claim, Verb::Renew, Verb::Release] {
            bench.ask(&Asked { ballot: 9, kind, ..asked(verb, "a", owner) }).await;
        }
    }
    for verb in [Verb::Claim, Verb::Release] {
        bench.ask(&Asked { ballot: 10, kind: Kind::Lock, ..asked(verb, "a", "me/3") }).await;
        bench.ask(&Asked { ballot: 10, kind: Kind::Lock, ..said("a", "me/3", 0) }).await;
    }
    assert_eq!(bench.told().await, 0);
}

#[tokio::test]
async fn names_that_are_not_followed_any_more_are_no_news() {
    let (_server, bench) = real().await;
    bench.node.follow(&name("a"), false);
    bench.node.follow(&name("other"), true);
    eventually("the other is followed", async || bench.recorder.news().contains(&name("other"))).await;
    bench.ask(&asked(Verb::Claim, "a", "me/1")).await;
    bench.ask(&said("a", "me/1", 0)).await;
    assert_eq!(bench.told().await, 0);
}

#[tokio::test]
async fn a_lock_without_a_note_publishes_nothing() {
    let (server, bench) = real().await;
    let published = || server.command(&["INFO", "commandstats"]).contains("cmdstat_publish:");
    for (owner, kind) in [("me/1", Kind::Lock), ("me/s2", Kind::Noted), ("me/3", Kind::Noted)] {
        for verb in [Verb::Claim, Verb::Renew, Verb::Inspect, Verb::Release] {
            bench.ask(&Asked { ballot: 9, kind, ..asked(verb, "a", owner) }).await;
        }
    }
    assert!(!published());
    bench.told().await;
    assert!(published());
}

/// News may be missed while the connection is down. So the end and the beginning of a connection
/// count as news.
#[tokio::test]
async fn a_subscription_survives_the_end_of_its_connection() {
    let (server, bench) = real().await;
    for _ in 0..2 {
        eventually("no news is left", async || bench.told().await == 0).await;
        assert_ne!(server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]), "0");
        eventually("there may be news", async || bench.recorder.news().contains(&name("a"))).await;
        // The connection for operations may have ended too, and the client may notice that a little
        // later.
        eventually("it answers", async || ask(&*bench.node, &Asked::inspect([name("a")].into())).await.is_ok()).await;
    }
}

/// A node that follows both names.
async fn real() -> (Server, Bench) {
    let (server, recorder) = (Server::start().await, Recorder::of("host/1/uuid"));
    let node = heard(&server.url(), recorder.clone()).await;
    ["a", "mark"].iter().for_each(|text| node.follow(&name(text), true));
    let missing = RefCell::new(vec![name("a"), name("mark")]);
    eventually("they are followed", async || {
        let news = recorder.news();
        missing.borrow_mut().retain(|it| !news.contains(it));
        missing.borrow().is_empty()
    })
    .await;
    (server, Bench::new(node, recorder))
}

macro_rules! both {
    ($($scenario:ident;)*) => {
        mod memory {
            use super::*;
            $(
                #[tokio::test(start_paused = true)]
                async fn $scenario() {
                    let host = Arc::new(quorumlock::host::TokioTime::new(tokio::runtime::Handle::current()));
                    let (node, recorder) = (MemoryNode::new("memory://0", host), Recorder::of("host/1/uuid"));
                    node.listen(0, recorder.clone());
                    super::$scenario(Bench::new(node, recorder)).await;
                }
            )*
        }
        mod redis {
            use super::*;
            $(
                #[tokio::test]
                async fn $scenario() {
                    let (_server, bench) = real().await;
                    super::$scenario(bench).await;
                }
            )*
        }
    };
}

both! {
    news_is_of_notes_that_are_new_and_go_with_their_hold;
    holders_without_a_note_are_no_news;
}
