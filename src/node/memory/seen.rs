//! The record ids that clients have seen, by the names of nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::millis;
use super::record::Record;
use crate::node::operation::Hello;
use crate::rules::list::Sighting;

/// When each id was last stored. On a real node, this is a hash that also expires as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Seen {
    shown: BTreeMap<(Arc<str>, Arc<str>), Duration>,
    until: Duration,
}

impl Seen {
    pub(super) fn expire(&mut self, now: Duration) {
        if self.until < now {
            self.shown.clear();
        }
    }

    /// Renews the expiry of all ids, for a hello that changes the record or stores an id.
    pub(super) fn touch(&mut self, hello: &Hello, now: Duration) {
        self.until = now + millis(hello.list.spare());
    }

    /// If the hello's list is in force, drops the ids that are too old, and stores the ids that the
    /// hello reports. An id that was stored less than a quarter of `spare` ago keeps its time.
    pub(super) fn show(&mut self, hello: &Hello, record: &Record, now: Duration) {
        if !record.in_force(now).is_some_and(|list| list.is(hello.list.hash())) {
            return;
        }
        let spare = millis(hello.list.spare());
        self.shown.retain(|_, at| age(*at, now).is_some_and(|age| age < spare));
        for pair in &hello.seen {
            let at = self.shown.get(pair).and_then(|at| age(*at, now));
            if at.is_none_or(|age| age * 4 >= spare) {
                self.shown.insert(pair.clone(), now);
                self.touch(hello, now);
            }
        }
    }

    pub(super) fn fields(&self) -> BTreeMap<String, String> {
        let field =
            |((name, id), at): (&(Arc<str>, Arc<str>), &Duration)| (format!("{name} {id}"), at.as_millis().to_string());
        self.shown.iter().map(field).collect()
    }

    /// The ids that were stored less than `spare` ago.
    pub(super) fn told(&self, hello: &Hello, now: Duration) -> Vec<Sighting> {
        let spare = millis(hello.list.spare());
        let told = |((node, id), at): (&(Arc<str>, Arc<str>), &Duration)| {
            let age = age(*at, now).filter(|age| *age < spare)?;
            Some(Sighting { node: node.clone(), id: id.clone(), age })
        };
        self.shown.iter().filter_map(told).collect()
    }
}

/// How long ago `at` was; `None` if the clock was set back to before `at`.
fn age(at: Duration, now: Duration) -> Option<Duration> {
    now.checked_sub(at)
}
