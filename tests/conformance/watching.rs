//! Whom one node tells that a name is worth looking at: the rules of docs/protocol.md.

use std::sync::Arc;
use std::time::Duration;

use quorumlock::node::{Hint, Inspection, MemoryNode, Name, Node, Note, Operation, Outcome, Verb, Watch};

use crate::common::asked::Asked;
use crate::common::eventually;
use crate::common::node::{Recorder, ask, ask_all, heard};
use crate::common::server::Server;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
/// Who hears what the node publishes. Nobody hears what it publishes to others.
const HEARS: &str = "host/1/uuid";

/// One node, and what it publishes.
struct Bench {
    node: Arc<dyn Node>,
    hints: Arc<Recorder>,
}

fn name(text: &str) -> Name {
    Name::new("p:", text).unwrap()
}

fn asked(verb: Verb, text: &str, owner: &str) -> Asked {
    let ttl = 60 * SECOND;
    Asked { verb, owner: owner.into(), ttl, ballot: 5, count: 1, ..Asked::inspect([name(text)].into()) }
}

/// A renewal with a note of that number.
fn said(text: &str, owner: &str, number: u32) -> Asked {
    let note = Some(Note { number, age: Duration::ZERO, says: "why".into() });
    Asked { note, ..asked(Verb::Renew, text, owner) }
}

fn watch(text: &str, client: &str, lasts: Duration) -> Asked {
    Asked { ttl: lasts, ..asked(Verb::Watch, text, client) }
}

impl Bench {
    async fn ask(&self, operation: &(impl Clone + Into<Operation>)) -> Outcome {
        ask(&*self.node, operation).await.unwrap()
    }

    /// Whether the node will tell.
    async fn watches(&self, text: &str, client: &str, lasts: Duration) -> bool {
        match self.ask(&watch(text, client, lasts)).await {
            Outcome::Watched { registered, .. } => registered,
            other => panic!("a question was answered with {other:?}"),
        }
    }

    /// As many others as there is room for, of which nobody hears.
    async fn crowd(&self, text: &str, lasts: Duration) {
        let others: Vec<_> = (0..Watch::MOST).map(|other| watch(text, &format!("x/{other}/y"), lasts)).collect();
        for reply in ask_all(&*self.node, &others).await {
            assert!(matches!(reply.unwrap(), Outcome::Watched { registered: true, .. }));
        }
    }

    /// What was published since the last time: a node answers behind what it published before.
    async fn told(&self) -> Vec<Hint> {
        self.ask(&Operation::Record).await;
        self.hints.take()
    }

    async fn told_once(&self, text: &str, of: &str) {
        assert_eq!(self.told().await, [Hint::changed(HEARS, name(text))], "{of}");
    }
}

async fn whoever_watches_is_told_of_notes_that_are_stored_or_go_with_their_hold(bench: Bench) {
    assert!(bench.watches("a", HEARS, 30 * SECOND).await);
    bench.ask(&asked(Verb::Claim, "a", "me/1.00")).await;
    for told in [true, false] {
        bench.ask(&said("a", "me/1.00", 0)).await;
        assert_eq!(bench.told().await.len(), usize::from(told), "{told}");
    }
    bench.ask(&asked(Verb::Release, "a", "me/1.00")).await;
    bench.told_once("a", "its release").await;
    bench.ask(&asked(Verb::Release, "a", "me/1.00")).await;
    assert_eq!(bench.told().await, [], "nothing was held");
}

async fn nobody_is_told_of_other_names_or_of_holders_without_a_note(bench: Bench) {
    assert!(bench.watches("a", HEARS, 30 * SECOND).await);
    for asked in [asked(Verb::Claim, "b", "me/1.00"), said("b", "me/1.00", 0), asked(Verb::Release, "b", "me/1.00")] {
        bench.ask(&asked).await;
    }
    for owner in ["me/1.0", "me/2.00"] {
        bench.ask(&Asked { ballot: 9, ..asked(Verb::Claim, "a", owner) }).await;
        bench.ask(&Asked { ballot: 9, ..asked(Verb::Release, "a", owner) }).await;
    }
    assert_eq!(bench.told().await, []);
}

async fn a_note_that_was_overtaken_is_no_change(bench: Bench) {
    bench.ask(&asked(Verb::Claim, "a", "me/1.00")).await;
    assert!(bench.watches("a", HEARS, 30 * SECOND).await);
    for (number, told) in [(3, 1), (2, 0), (3, 0), (4, 1)] {
        bench.ask(&said("a", "me/1.00", number)).await;
        assert_eq!(bench.told().await.len(), told, "{number}");
    }
    bench.ask(&said("a", "other/1.00", 9)).await;
    assert_eq!(bench.told().await, [], "it does not hold the name");
}

async fn no_more_clients_watch_a_name_than_it_has_room_for_and_each_may_go_on(bench: Bench) {
    bench.crowd("a", 30 * SECOND).await;
    assert!(!bench.watches("a", HEARS, 30 * SECOND).await);
    assert!(bench.watches("b", HEARS, 30 * SECOND).await, "other names have room of their own");
    assert!(bench.watches("a", "x/7/y", 30 * SECOND).await);
}

async fn who_has_gone_is_forgotten_when_nobody_hears_what_it_is_told(bench: Bench) {
    bench.crowd("a", 30 * SECOND).await;
    bench.ask(&asked(Verb::Claim, "a", "me/1.00")).await;
    bench.ask(&said("a", "me/1.00", 0)).await;
    assert!(bench.watches("a", HEARS, 30 * SECOND).await);
    bench.ask(&asked(Verb::Release, "a", "me/1.00")).await;
    bench.told_once("a", "its release").await;
}

async fn who_does_not_ask_again_is_forgotten(bench: Bench) {
    bench.crowd("a", 100 * MS).await;
    eventually("there is room again", async || bench.watches("a", HEARS, 100 * MS).await).await;
    bench.ask(&asked(Verb::Claim, "a", "me/1.00")).await;
    tokio::time::sleep(200 * MS).await;
    bench.ask(&said("a", "me/1.00", 0)).await;
    assert_eq!(bench.told().await, []);
    for lasts in [100 * MS, 30 * SECOND, SECOND] {
        assert!(bench.watches("a", HEARS, lasts).await);
    }
    bench.ask(&said("a", "me/1.00", 1)).await;
    bench.told_once("a", "it watches again").await;
}

/// Each of five names is watched by as many as it has room for; nobody hears of all but the last of
/// them. A node publishes to the first thousand, in the order of the names.
async fn one_call_tells_so_many_watchers_at_most_and_forgets_those_alone_that_it_tried(bench: Bench) {
    let texts = ["a", "b", "c", "d", "e"];
    for text in texts {
        let others: Vec<_> = (1..Watch::MOST).map(|other| watch(text, &format!("x/{other}/y"), 30 * SECOND)).collect();
        ask_all(&*bench.node, &others).await;
        assert!(bench.watches(text, HEARS, 60 * SECOND).await);
    }
    let names = texts.map(name).into();
    let all = Asked { names, ..asked(Verb::Claim, "a", "me/1.00") };
    bench.ask(&all).await;
    const { assert!(Watch::MOST_TOLD / Watch::MOST == 3 && !Watch::MOST_TOLD.is_multiple_of(Watch::MOST)) };
    let noted = Asked { note: said("a", "", 0).note, ..all.with_verb(Verb::Renew) };
    for (asked, told) in [(noted, &texts[..3]), (all.with_verb(Verb::Release), &texts[..])] {
        bench.ask(&asked).await;
        let expected: Vec<_> = told.iter().map(|text| Hint::changed(HEARS, name(text))).collect();
        assert_eq!(bench.told().await, expected, "{asked:?}");
    }
}

/// What is seen is what a question tells, and nothing about the name is written.
async fn to_watch_a_name_is_to_look_at_it(bench: Bench) {
    let both = async |text: &str| {
        let Outcome::Inspected(seen) = bench.ask(&asked(Verb::Inspect, text, "-")).await else { panic!("it is seen") };
        match bench.ask(&watch(text, HEARS, 30 * SECOND)).await {
            Outcome::Watched { entries, registered: true } => (still(&seen), still(&entries)),
            other => panic!("a question was answered with {other:?}"),
        }
    };
    let (seen, watched) = both("a").await;
    assert_eq!(seen, watched);
    bench.ask(&asked(Verb::Claim, "a", "me/1.00")).await;
    bench.ask(&said("a", "me/1.00", 0)).await;
    let (seen, watched) = both("a").await;
    assert_eq!(seen, watched);
    assert_eq!(
        bench.ask(&Asked { ballot: 4, ..asked(Verb::Claim, "b", "me/1.0") }).await,
        Outcome::Granted { fence: 4 }
    );
}

/// Who holds a name, its fence, and the token and the number of a note: all but what time changes.
type Still = (Option<String>, u64, Option<(u64, u32)>);

fn still(entries: &[Inspection]) -> Vec<Still> {
    let noted = |seen: &Inspection| seen.description.as_ref().map(|told| (told.token, told.number));
    entries.iter().map(|seen| (seen.holder.clone(), seen.fence, noted(seen))).collect()
}

#[tokio::test]
async fn a_plain_lock_on_a_name_that_is_watched_calls_no_command_for_that() {
    let (server, hints) = (Server::start().await, Recorder::of(HEARS));
    let bench = Bench { node: Arc::new(heard(&server.url(), hints.clone()).await), hints };
    assert!(bench.watches("a", HEARS, 30 * SECOND).await);
    let called = |command: &str| server.command(&["INFO", "commandstats"]).contains(&format!("cmdstat_{command}:"));
    for owner in ["me/1.0", "me/s2.0", "me/3.00"] {
        for verb in [Verb::Claim, Verb::Renew, Verb::Inspect, Verb::Release] {
            bench.ask(&Asked { ballot: 9, ..asked(verb, "a", owner) }).await;
        }
    }
    assert!(!called("zrangebyscore") && !called("publish"), "nobody said anything");
    for asked in [asked(Verb::Claim, "a", "me/3.00"), said("a", "me/3.00", 0)] {
        bench.ask(&Asked { ballot: 10, ..asked }).await;
    }
    assert!(called("zrangebyscore") && called("publish"));
}

macro_rules! both {
    ($($scenario:ident;)*) => {
        mod memory {
            use super::*;
            $(
                #[tokio::test(start_paused = true)]
                async fn $scenario() {
                    let host = Arc::new(quorumlock::host::TokioTime::new(tokio::runtime::Handle::current()));
                    let (node, hints) = (MemoryNode::new("memory://0", host), Recorder::of(HEARS));
                    node.listen(0, hints.clone());
                    super::$scenario(Bench { node: Arc::new(node), hints }).await;
                }
            )*
        }
        mod redis {
            use super::*;
            $(
                #[tokio::test]
                async fn $scenario() {
                    let (server, hints) = (Server::start().await, Recorder::of(HEARS));
                    let node = Arc::new(heard(&server.url(), hints.clone()).await);
                    super::$scenario(Bench { node, hints }).await;
                }
            )*
        }
    };
}

both! {
    whoever_watches_is_told_of_notes_that_are_stored_or_go_with_their_hold;
    nobody_is_told_of_other_names_or_of_holders_without_a_note;
    a_note_that_was_overtaken_is_no_change;
    no_more_clients_watch_a_name_than_it_has_room_for_and_each_may_go_on;
    who_has_gone_is_forgotten_when_nobody_hears_what_it_is_told;
    who_does_not_ask_again_is_forgotten;
    one_call_tells_so_many_watchers_at_most_and_forgets_those_alone_that_it_tried;
    to_watch_a_name_is_to_look_at_it;
}
