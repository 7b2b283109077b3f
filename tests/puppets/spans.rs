//! The spans of acquisitions, renewals and releases, as a subscriber of `tracing` sees them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use quorumlock::LockOptions;
use quorumlock::node::{FaultKind, Outcome, Verb};
use tokio::time::sleep;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::answers::{Answer, fault, held, released};
use crate::beside::listens;
use crate::stage::{MS, SECOND, Stage};

#[derive(Clone, Debug)]
struct Seen {
    name: &'static str,
    parent: Option<usize>,
    fields: BTreeMap<&'static str, String>,
    handles: usize,
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }
}

/// Keeps all spans of the library, and panics at one kind of event if a test asks for that.
#[derive(Clone)]
struct Spans(Arc<Mutex<Book>>, LevelFilter);

#[derive(Default)]
struct Book {
    spans: Vec<Seen>,
    entered: Vec<usize>,
    panics_at: Option<&'static str>,
}

impl Spans {
    fn up_to(level: LevelFilter) -> Self {
        Self(Arc::default(), level)
    }

    fn seen(&self) -> Vec<Seen> {
        self.0.lock().unwrap().spans.clone()
    }

    fn named(&self, name: &str) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.name == name).collect()
    }

    /// The value of this field in the only span of that name.
    fn field(&self, name: &str, field: &str) -> Option<String> {
        let [seen] = &*self.named(name) else { panic!("{:#?}", self.seen()) };
        seen.fields.get(field).cloned()
    }

    fn panics_at(&self, what: &'static str) {
        self.0.lock().unwrap().panics_at = Some(what);
    }

    /// Panics outside of the lock: a panic under the lock would poison it.
    fn passes(&self, what: &str) {
        let panics = self.0.lock().unwrap().panics_at == Some(what);
        assert!(!panics, "{what}");
    }
}

fn index(id: &Id) -> usize {
    usize::try_from(id.into_u64()).unwrap() - 1
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("quorumlock") && *metadata.level() <= self.1
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.1)
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let metadata = attributes.metadata();
        self.passes(metadata.name());
        let mut book = self.0.lock().unwrap();
        let within = if attributes.is_contextual() { book.entered.last().copied() } else { None };
        let parent = attributes.parent().map(index).or(within);
        let mut seen = Seen { name: metadata.name(), parent, fields: BTreeMap::new(), handles: 1 };
        attributes.record(&mut seen);
        book.spans.push(seen);
        Id::from_u64(book.spans.len() as u64)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        self.passes("record");
        values.record(&mut self.0.lock().unwrap().spans[index(id)]);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, id: &Id) {
        self.0.lock().unwrap().entered.push(index(id));
    }

    fn exit(&self, _: &Id) {
        self.0.lock().unwrap().entered.pop();
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.0.lock().unwrap().spans[index(id)].handles += 1;
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        self.passes("close");
        let mut book = self.0.lock().unwrap();
        book.spans[index(&id)].handles -= 1;
        book.spans[index(&id)].handles == 0
    }
}

fn extended() -> Answer {
    Some(Ok(Outcome::Extended))
}

/// A quorum of three, whose locks have a ttl of 3 s.
fn stage(options: LockOptions) -> Stage {
    Stage::with(3, true, |builder| builder.name("orders").options(options.ttl(3 * SECOND)))
}

/// Acquires, renews and releases a lock.
async fn section(stage: &Stage) -> u64 {
    let (guard, _) = stage.won().await;
    let token = guard.token();
    stage.round(Verb::Renew, |_, _| extended()).await;
    sleep(MS).await;
    assert!(guard.remaining() > 2 * SECOND, "it is renewed: {:?}", guard.remaining());
    let releasing = tokio::spawn(guard.release());
    stage.round(Verb::Release, |_, _| released()).await;
    releasing.await.unwrap().unwrap();
    sleep(MS).await;
    token
}

#[tokio::test(start_paused = true)]
async fn section_parts_are_spans_nested_in_their_operation() {
    let spans = Spans::up_to(LevelFilter::TRACE);
    let _seen = listens(spans.clone());
    let token = section(&stage(LockOptions::default())).await.to_string();
    assert_eq!(spans.field("acquire", "quorum").as_deref(), Some("orders"));
    assert_eq!(spans.field("round", "outcome").as_deref(), Some("won"));
    for (name, outcome) in [("acquire", "acquired"), ("renew", "extended"), ("release", "released")] {
        assert_eq!(spans.field(name, "outcome").as_deref(), Some(outcome), "{name}");
        assert_eq!(spans.field(name, "token"), Some(token.clone()), "{name}");
        assert_eq!(spans.field(name, "name"), None, "{name}: names may be secret");
    }
    let seen = spans.seen();
    let parent = |seen_: &Seen| seen_.parent.map(|parent| seen[parent].name);
    let parents = |name: &str| spans.named(name).iter().map(parent).collect::<Vec<_>>();
    assert_eq!(parents("acquire"), [None]);
    assert_eq!(parents("round"), [Some("acquire")]);
    assert_eq!(parents("renew"), [None]);
    for (operation, within, outcome) in
        [("claim", "round", "granted"), ("renew", "renew", "extended"), ("release", "release", "released")]
    {
        let calls: Vec<_> =
            spans.named("node_call").into_iter().filter(|call| call.fields["operation"] == operation).collect();
        assert!(calls.iter().all(|call| parent(call) == Some(within)), "{calls:#?}");
        assert!(calls.iter().all(|call| call.fields["outcome"] == outcome), "{calls:#?}");
        let nodes: Vec<_> = calls.iter().map(|call| call.fields["node"].as_str()).collect();
        assert_eq!(nodes, ["puppet://0", "puppet://1", "puppet://2"], "{operation}");
    }
    assert!(seen.iter().all(|seen| seen.handles == 0), "all have ended: {seen:#?}");
}

#[tokio::test(start_paused = true)]
async fn spans_carry_lock_names_if_trace_name_is_on() {
    let spans = Spans::up_to(LevelFilter::DEBUG);
    let _seen = listens(spans.clone());
    section(&stage(LockOptions::default().trace_name(true))).await;
    for name in ["acquire", "renew", "release"] {
        assert_eq!(spans.field(name, "name").as_deref(), Some("\"it\""), "{name}");
    }
    assert!(spans.named("node_call").is_empty(), "these are for TRACE");
}

#[tokio::test(start_paused = true)]
async fn a_span_says_how_an_acquisition_ended_and_ends_with_it() {
    let spans = Spans::up_to(LevelFilter::TRACE);
    let _seen = listens(spans.clone());
    let stage = stage(LockOptions::default());
    let trying = stage.try_acquire();
    stage.round(Verb::Claim, |node, _| if node == 0 { fault(FaultKind::Timeout) } else { held(60) }).await;
    assert!(trying.await.unwrap().unwrap().is_none());
    assert_eq!(spans.field("acquire", "outcome").as_deref(), Some("contended"));
    assert_eq!(spans.field("round", "outcome").as_deref(), Some("failed"));
    assert_eq!(spans.named("node_call")[0].fields["outcome"], "timeout");
    let acquiring = stage.acquire(SECOND);
    sleep(MS).await;
    acquiring.abort();
    assert!(acquiring.await.unwrap_err().is_cancelled());
    let last = spans.named("acquire").pop().unwrap();
    assert_eq!((last.fields["outcome"].as_str(), last.handles), ("cancelled", 0));
}

#[tokio::test(start_paused = true)]
async fn spans_are_absent_at_info_level() {
    let spans = Spans::up_to(LevelFilter::INFO);
    let _seen = listens(spans.clone());
    section(&stage(LockOptions::default())).await;
    assert!(spans.seen().is_empty(), "{:#?}", spans.seen());
}

/// A panic loses neither requests nor replies.
#[tokio::test(start_paused = true)]
async fn subscriber_panic_stops_no_renewal_and_no_request() {
    for what in ["renew", "release", "node_call", "record", "close"] {
        let spans = Spans::up_to(LevelFilter::TRACE);
        let _seen = listens(spans.clone());
        let stage = stage(LockOptions::default());
        let (guard, _) = stage.won().await;
        spans.panics_at(what);
        for _ in 0..3 {
            stage.round(Verb::Renew, |_, _| extended()).await;
            sleep(MS).await;
            assert!(guard.remaining() > 2 * SECOND, "{what}: {:?}", guard.remaining());
        }
        let releasing = tokio::spawn(guard.release());
        stage.round(Verb::Release, |_, _| released()).await;
        releasing.await.unwrap().unwrap();
    }
}
