//! What a client knows of one node: the node's last answer to a hello, its record, and another list
//! in force there.

use std::sync::Arc;
use std::time::Duration;

use super::Known;
use crate::rules::doubt::LATE;
use crate::rules::list::{InForce, Intent, List, Record, difference};
use crate::rules::tick::Tick;

/// Another list that was found on a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Other {
    /// When the other list lapses, by this client's clock, if no client extends it.
    pub(super) until: Tick,
    /// Whether the other list has the name of this client's list.
    pub(super) same_name: bool,
    /// Whether the other list's clients begin anew first if the two lists keep each other out.
    pub(super) goes_first: bool,
    /// How the two lists differ, and what to do.
    pub(super) why: Arc<str>,
}

impl Other {
    fn new(mine: &List, in_force: &InForce, now: Tick) -> Self {
        let name = in_force.says.split_ascii_whitespace().next();
        Self {
            until: now + in_force.left,
            same_name: name.is_none_or(|name| name == mine.name()),
            goes_first: in_force.hash < *mine.hash(),
            why: difference(mine, &in_force.says, None).into(),
        }
    }
}

/// The finding that a node's name leads clients to two servers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Twins {
    /// When clients last reported another id, or when this client last could read no reports.
    pub(super) seen: Tick,
    pub(super) why: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) name: Arc<str>,
    known: Option<Known>,
    /// The id of the last record that this client saw on this node, over any connection. A known
    /// id is not replaced by the id of a record with a `word`: see `heard`.
    pub(super) id: Option<Arc<str>>,
    other: Option<Other>,
    /// Is set if the node's name leads clients to two servers, by the last plan.
    pub(super) twins: Option<Twins>,
    /// When the first hello that is still unanswered was sent.
    owes: Option<Tick>,
    /// When the last hello was sent. `None` after its answer, or if it was not carried out.
    sent: Option<Tick>,
    /// When the next regular hello is due.
    next: Tick,
    /// The intent of the last hello, and a moment. Before this moment, only the regular hello, or a
    /// hello with a higher intent, is sent.
    last: (Intent, Tick),
    /// How many hellos in a row failed.
    failures: u32,
}

impl Node {
    /// A node that the client is connecting to.
    pub(super) fn new(name: Arc<str>) -> Self {
        let known = Some(Known { connecting: true, ..Known::default() });
        let last = (Intent::Look, Tick::default());
        let next = Tick::default();
        Self { name, known, id: None, other: None, twins: None, owes: None, sent: None, next, last, failures: 0 }
    }

    pub(super) fn heard(&mut self, list: &List, known: Option<Known>, now: Tick) {
        let before = std::mem::replace(&mut self.known, known).filter(|known| !known.connecting);
        let Some(answer) = self.known.as_ref().filter(|known| !known.connecting) else {
            (self.owes, self.sent) = (None, None);
            return;
        };
        match before {
            Some(before) if (before.at, &before.record) == (answer.at, &answer.record) => return,
            Some(_) => {}
            // The first answer on a new connection answers the greeting, a hello that writes
            // nothing.
            None => (self.next, self.last) = (answer.at + list.every() / 10 * 9, (Intent::Look, answer.at)),
        }
        let at = answer.at;
        self.failures = 0;
        // If this client knew another record of this node, the node must not vote at once with a
        // new record. So keep the known id: the next hello carries this id, and the node then sets
        // the record's age to zero.
        if let Some(record) = answer.record.as_ref().filter(|record| record.word.is_none() || self.id.is_none()) {
            self.id = Some(record.id.clone());
        }
        self.sent = self.sent.filter(|&sent| at < sent);
        self.owes = self.owes.filter(|&owes| at < owes).or(self.sent);
        self.other = self.meets(list, now);
    }

    /// The other list in force on the node. If a doubted node shows no other list, the node may
    /// have forgotten one. So the list that this client knew there stays until that list lapses.
    fn meets(&self, list: &List, now: Tick) -> Option<Other> {
        let in_force = self.record().and_then(|record| record.in_force.as_ref());
        match in_force.filter(|in_force| in_force.hash != *list.hash()) {
            Some(in_force) => Some(Other::new(list, in_force, now)),
            None => self.other.clone().filter(|other| now < other.until && self.is_doubted(now)),
        }
    }

    fn is_doubted(&self, now: Tick) -> bool {
        self.answer().is_none_or(|known| now < known.free_at) || !self.is_current()
    }

    /// The result of the last hello on the present connection.
    pub(super) fn answer(&self) -> Option<&Known> {
        self.known.as_ref().filter(|known| !known.connecting)
    }

    /// The result of the last hello on the present connection, if the hello was sent less than
    /// `age` ago.
    pub(super) fn fresh(&self, age: Duration, now: Tick) -> Option<&Known> {
        self.answer().filter(|known| now < known.at + age)
    }

    pub(super) fn record(&self) -> Option<&Record> {
        self.answer()?.record.as_ref()
    }

    pub(super) fn is_connecting(&self) -> bool {
        self.known.as_ref().is_some_and(|known| known.connecting)
    }

    /// Whether the node's record belongs to its present process.
    fn is_current(&self) -> bool {
        self.answer().is_some_and(|known| known.record.as_ref().is_some_and(|record| record.is_of(&known.process)))
    }

    /// Whether the node's record has a `word`, although this client knew another record of the
    /// node. If so, a hello makes the node correct the record.
    fn is_to_be_taken_back(&self) -> bool {
        self.record().is_some_and(|record| record.word.is_some() && self.id.as_ref() != Some(&record.id))
    }

    /// Whether this list stays in force on the node for longer than any lock that the node grants
    /// now.
    pub(super) fn has(&self, list: &List, now: Tick) -> bool {
        self.is_current() && self.outlasts(list).is_some_and(|at| now < at)
    }

    /// Until when grants may count. A lock that is granted by then ends before the list lapses, if
    /// clocks run apart by at most 1 %.
    fn outlasts(&self, list: &List) -> Option<Tick> {
        let known = self.answer()?;
        let in_force = known.record.as_ref()?.in_force.as_ref()?;
        let longer = in_force.left.saturating_sub(list.max_ttl());
        (in_force.hash == *list.hash()).then(|| known.at + longer * 99 / 100)
    }

    /// Until when the node's votes count, if this list is in force on the node.
    pub(super) fn counts_until(&self, list: &List, fresh: Duration) -> Option<Tick> {
        Some(self.outlasts(list)?.min(self.answer()?.at + fresh))
    }

    /// Whether this list lapses soon unless a hello extends it. (A connection's greeting writes
    /// nothing, so it extends no list.)
    fn lapses_soon(&self, list: &List) -> bool {
        let in_force = self.record().and_then(|record| record.in_force.as_ref());
        in_force.is_some_and(|known| known.hash == *list.hash() && known.left < list.max_ttl() + list.every())
    }

    /// Whether the node has no record, or no list in force.
    pub(super) fn lacks(&self) -> bool {
        self.answer().is_some() && self.record().is_none_or(|record| record.in_force.is_none())
    }

    /// Whether this list was in force on the node at its last answer.
    pub(super) fn showed(&self, list: &List) -> bool {
        let in_force = self.record().and_then(|record| record.in_force.as_ref());
        in_force.is_some_and(|in_force| in_force.hash == *list.hash())
    }

    /// The other list in force on the node. Once it has lapsed by this client's clock, it counts
    /// until the node has answered another hello: other clients may have renewed it. If the node
    /// cannot be reached, or does not answer for `patience`, the list does not count any more.
    pub(super) fn other(&self, patience: Duration, now: Tick) -> Option<&Other> {
        let is_asked = || self.answer().is_some() && !self.is_silent(patience, now);
        self.other.as_ref().filter(|other| now < other.until || is_asked())
    }

    /// Whether the node has answered a hello lately, and so has shown which list is in force there.
    pub(super) fn was_asked(&self, recent: Duration, now: Tick) -> bool {
        self.fresh(recent, now).is_some()
    }

    /// Whether the last hello was refused or not answered.
    pub(super) const fn fails(&self) -> bool {
        self.failures > 0
    }

    /// Whether a hello to the node has been unanswered for `patience`.
    pub(super) fn is_silent(&self, patience: Duration, now: Tick) -> bool {
        self.owes.is_some_and(|owes| now >= owes + patience)
    }

    /// Whether a hello is needed because the known state is outdated. If hellos write nothing
    /// (`looks`), ignores problems that only a writing hello can repair.
    pub(super) fn is_outdated(&self, list: &List, looks: bool, now: Tick) -> bool {
        let Some(known) = self.answer() else { return false };
        let replaced = known.record.is_some() && !self.is_current();
        let ended = self.other.as_ref().is_some_and(|other| now >= other.until);
        let lapses = self.lapses_soon(list);
        known.stale || ended || (!looks && (replaced || lapses || self.is_to_be_taken_back()))
    }

    /// Whether to send a hello now. A hello follows another one only after the answer to that one,
    /// or after `patience`. A hello with the same or a lower intent follows only after a pause,
    /// unless it is the regular hello.
    pub(super) fn is_due(&self, intent: Intent, urgent: bool, patience: Duration, now: Tick) -> bool {
        let free = self.answer().is_some() && self.sent.is_none_or(|sent| now >= sent + patience);
        let (last, again) = self.last;
        let at_once = urgent && (now >= again || intent > last);
        free && (at_once || now >= self.next)
    }

    /// Notes that a hello is sent now. The next regular hello follows at `next`. Before `again`,
    /// only this regular hello, or a hello with a higher intent, is sent.
    pub(super) fn asked(&mut self, intent: Intent, now: Tick, next: Tick, again: Tick) {
        self.sent = Some(now);
        self.owes = self.owes.or(self.sent);
        self.next = next;
        self.last = (intent, again);
    }

    /// Notes that the last hello failed. With each failure in a row, the pause before the next
    /// hello doubles, up to `longest`.
    pub(super) fn failed(&mut self, now: Tick, pause: Duration, longest: Duration) {
        let wait = longest.min(pause * (1 << self.failures.min(8)));
        self.failures = self.failures.saturating_add(1);
        self.sent = None;
        self.last.1 = self.last.1.max(now + wait);
    }

    /// The moments at which the plan may change without an answer of this node.
    pub(super) fn changes(&self, list: &List, urgent: bool, fresh: Duration, patience: Duration) -> [Option<Tick>; 10] {
        let known = self.answer();
        let asks = |at: Tick| known.filter(|_| self.sent.is_none()).map(|_| at);
        let unsynced = known.filter(|known| known.record.as_ref().is_some_and(|record| !record.synced));
        [
            asks(self.next),
            asks(self.last.1).filter(|_| urgent),
            self.sent.map(|sent| sent + patience),
            self.owes.map(|owes| owes + patience),
            self.other.as_ref().map(|other| other.until),
            self.outlasts(list),
            known.map(|known| known.at + fresh),
            self.twins.as_ref().map(|twins| twins.seen + list.spare()),
            unsynced.map(|known| known.settles_at),
            unsynced.map(|known| known.free_at + LATE),
        ]
    }
}
