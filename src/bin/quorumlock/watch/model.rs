//! The model of the screen: the last observation, the events, and the user's selection. This module
//! is pure: callers pass observations and their times.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::changes;
use super::event::{Event, Kind, Log};
use super::keys::Controls;
use super::seen::{Hold, Mood, Names, Node, Seen};

/// If nodes disagree for this long, and for two polls, that is an event. Nodes are not asked at the
/// same moment, so they disagree for a moment whenever a lock gets another holder.
const UNSURE: Duration = Duration::from_secs(3);

pub(super) struct Model {
    /// The name that is watched; `None` for all names.
    pub(super) name: Option<String>,
    pub(super) every: Duration,
    pub(super) controls: Controls,
    pub(super) seen: Option<(Instant, Seen)>,
    pub(super) names: Option<(Instant, Names)>,
    pub(super) log: Log,
    /// Whether a quorum of nodes voted, when that was known last.
    votes: Option<bool>,
    /// When an observation last showed that fewer than a quorum of nodes had kept their records.
    forgot: Option<Instant>,
    sure: Option<Sure>,
}

/// The hold on which a quorum of nodes last agreed, and since when no quorum agrees.
struct Sure {
    at: Instant,
    hold: Hold,
    unsure: Option<Instant>,
    told: bool,
}

impl Model {
    pub(super) fn new(name: Option<String>, every: Duration) -> Self {
        Self {
            name,
            every,
            controls: Controls::default(),
            seen: None,
            names: None,
            log: Log::default(),
            votes: None,
            forgot: None,
            sure: None,
        }
    }

    /// Stores an observation of the nodes and the name, and logs the changes.
    pub(super) fn see(&mut self, now: Instant, seen: Seen) {
        self.compare_nodes(now, &seen);
        if let Some(quorum) = &seen.quorum {
            let before = self.votes.replace(quorum.votes);
            changes::of_quorum(before, quorum, seen.mood).into_iter().for_each(|event| self.log.add(now, event));
        }
        if let Some(hold) = &seen.hold {
            self.compare_hold(now, hold);
        }
        self.seen = Some((now, seen));
    }

    /// Stores the names that are held, and logs the changes. The search for names began at `began`.
    pub(super) fn see_names(&mut self, now: Instant, mut names: Names, began: Instant) {
        if let Some((then, before)) = &self.names {
            for event in between(before, &names, self.since(*then, now)) {
                self.log.add(now, event);
            }
            go_on(before, &mut names, began.saturating_duration_since(*then));
        }
        self.names = Some((began, names));
    }

    /// The state of the nodes, in one line.
    pub(super) fn verdict(&self) -> (String, Mood) {
        match &self.seen {
            None => ("looking at the nodes".to_owned(), Mood::Doubtful),
            Some((_, seen)) => (seen.verdict.clone(), seen.mood),
        }
    }

    fn compare_nodes(&mut self, now: Instant, seen: &Seen) {
        let Some((_, before)) = &self.seen else { return };
        let remembers = |(before, now): &(&Node, &Node)| !now.memory.is_empty() && before.memory == now.memory;
        let remember = before.nodes.iter().zip(&seen.nodes).filter(remembers).count();
        if !seen.nodes.is_empty() && remember <= seen.nodes.len() / 2 {
            self.forgot = Some(now);
        }
        for event in before.nodes.iter().zip(&seen.nodes).flat_map(|(before, now)| changes::of_node(before, now)) {
            self.log.add(now, event);
        }
    }

    /// How long ago `then` was. If fewer nodes than a quorum kept their records since then, it is
    /// unknown how a hold ended. In this case, returns a very long time, so every hold counts as
    /// over.
    fn since(&self, then: Instant, now: Instant) -> Duration {
        let forgot = self.forgot.is_some_and(|forgot| forgot >= then);
        if forgot { Duration::MAX } else { now.saturating_duration_since(then) }
    }

    fn compare_hold(&mut self, now: Instant, hold: &Hold) {
        let name = self.name.clone().unwrap_or_default();
        let elapsed = self.sure.as_ref().map(|sure| self.since(sure.at, now)).unwrap_or_default();
        let Some(sure) = &mut self.sure else {
            // The first observation is no event.
            self.sure = hold.agreed.then(|| Sure { at: now, hold: hold.clone(), unsure: None, told: false });
            return;
        };
        if hold.agreed {
            let events = changes::of_hold(&name, &sure.hold, hold, elapsed);
            events.into_iter().for_each(|event| self.log.add(now, event));
            let hold = changes::goes_on(&sure.hold, hold.clone());
            self.sure = Some(Sure { at: now, hold, unsure: None, told: false });
            return;
        }
        let since = now.saturating_duration_since(*sure.unsure.get_or_insert(now));
        if since >= UNSURE.max(2 * self.every) && !sure.told {
            sure.told = true;
            self.log.add(now, changes::unsure(&name, since));
        }
    }
}

/// The events between two searches for all names. A name makes no event if a search may have missed
/// it, or if no quorum named its holder before or now.
fn between(before: &Names, now: &Names, elapsed: Duration) -> Vec<Event> {
    let index = |names: &Names| -> BTreeMap<String, Hold> { names.held.iter().cloned().collect() };
    let (old, new) = (index(before), index(now));
    let missing = Hold { agreed: true, ..Hold::default() };
    // A hold on which no quorum agrees keeps the last holder that a quorum named.
    let is_known = |hold: &Hold| hold.agreed || hold.holder.is_some();
    let gone = old.iter().filter(|(name, hold)| is_known(hold) && !new.contains_key(*name));
    let gone = gone.filter(|_| now.whole && now.complete);
    let gone = gone.flat_map(|(name, hold)| changes::of_hold(name, hold, &missing, elapsed));
    let known = before.whole && before.complete;
    let others = new.iter().filter(|(_, hold)| hold.agreed).filter_map(|(name, hold)| {
        let before = old.get(name).map_or(known.then_some(&missing), |hold| is_known(hold).then_some(hold))?;
        Some(changes::of_hold(name, before, hold, elapsed))
    });
    // If a name is not held any more, the end of its queue is no event.
    gone.filter(|event| event.kind == Kind::Lock).chain(others.flatten()).collect()
}

/// Adds facts from `before`, which is `elapsed` older, to names that are still held. To a hold on
/// which a quorum agrees, adds the longest time left. Replaces any other hold by the last known
/// one.
fn go_on(before: &Names, now: &mut Names, elapsed: Duration) {
    let old: BTreeMap<_, _> = before.held.iter().map(|(name, hold)| (name, hold)).collect();
    for (name, hold) in &mut now.held {
        if let Some(&before) = old.get(name) {
            *hold = match hold.agreed {
                true => changes::goes_on(before, std::mem::take(hold)),
                false => changes::ages(before, elapsed),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::screens::node;
    use super::super::seen::Quorum;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn held(holder: &str) -> Hold {
        Hold { agreed: true, holder: Some(holder.to_owned()), left: Some(9 * SECOND), ..Hold::default() }
    }

    fn free() -> Hold {
        Hold { agreed: true, ..Hold::default() }
    }

    fn seen(hold: Hold) -> Seen {
        Seen { nodes: Vec::new(), verdict: String::new(), mood: Mood::Good, quorum: None, hold: Some(hold) }
    }

    /// The events if these holds are observed one after the other, each a second later.
    fn told(holds: impl IntoIterator<Item = Hold>) -> Vec<String> {
        let (began, mut model) = (Instant::now(), Model::new(Some("job".to_owned()), SECOND));
        for (number, hold) in (0..).zip(holds) {
            model.see(began + SECOND * number, seen(hold));
        }
        model.log.iter().map(|(_, event)| event.text.clone()).collect()
    }

    #[test]
    fn first_observation_makes_no_event() {
        assert_eq!(told([held("a"), held("a")]), Vec::<String>::new());
    }

    #[test]
    fn lost_quorum_and_its_return_are_events_of_nodes() {
        let told = |quorums: &[Option<bool>]| -> Vec<_> {
            let (began, mut model) = (Instant::now(), Model::new(None, SECOND));
            for quorum in quorums {
                let quorum = quorum.map(|votes| Quorum { votes, news: votes.to_string() });
                model.see(began, Seen { quorum, ..seen(free()) });
            }
            assert!(model.log.iter().all(|(_, event)| event.kind == Kind::Node));
            model.log.iter().map(|(_, event)| event.text.clone()).collect()
        };
        let (lost, votes, unknown) = (Some(false), Some(true), None);
        assert_eq!(told(&[unknown, lost, lost, unknown, lost]), Vec::<String>::new(), "it begins so");
        assert_eq!(told(&[votes, unknown, lost, lost]), ["false"]);
        assert_eq!(told(&[votes, lost, unknown, votes, votes]), ["true", "false"]);
        assert_eq!(told(&[lost, votes]), ["true"]);
    }

    #[test]
    fn nodes_that_disagree_for_a_moment_make_no_event() {
        assert_eq!(told([held("a"), Hold::default(), held("b")]), ["taken by b", "released by a"]);
        assert_eq!(told([held("a"), Hold::default(), held("a")]), Vec::<String>::new());
    }

    #[test]
    fn nodes_that_go_on_disagreeing_are_told_of_once() {
        let holds = [held("a")].into_iter().chain((0..20).map(|_| Hold::default()));
        assert_eq!(told(holds), ["no quorum of nodes has agreed on its holder for 3 s"]);
    }

    #[test]
    fn hold_seen_running_out_is_lost_and_otherwise_just_ends() {
        let aged = |told: u64, age: u64| Hold {
            left: Some(SECOND * (told - age) as u32),
            told: Some(SECOND * told as u32),
            ..held("a")
        };
        let seen = (0..10).map(|age| aged(9 - age, 0)).chain([free()]);
        assert_eq!(told(seen), ["lost by a: it was not renewed in time"]);
        let unseen = (0..10).map(|age| aged(9, age)).chain([free()]);
        assert_eq!(told(unseen), ["no longer held by a"]);
    }

    #[test]
    fn hold_forgotten_by_a_quorum_is_not_reported_released() {
        let (began, mut model) = (Instant::now(), Model::new(Some("job".to_owned()), SECOND));
        let nodes =
            |ids: [&str; 3]| ids.map(|id| Node { memory: id.to_owned(), ..node(1, "up", "up", Mood::Good) }).to_vec();
        let looks = [
            (["1", "2", "3"], held("a")),
            (["1", "2", "4"], free()),
            (["1", "2", "4"], held("b")),
            (["", "6", "4"], Hold::default()),
            (["5", "6", "4"], free()),
        ];
        for (number, (ids, hold)) in (0..).zip(looks) {
            model.see(began + SECOND * number, Seen { nodes: nodes(ids), ..seen(hold) });
        }
        let told: Vec<_> = model.log.iter().map(|(_, event)| event.text.clone()).collect();
        assert_eq!(told, ["no longer held by b", "taken by b", "released by a"]);
    }

    fn names(held: &[(&str, &str)], whole: bool) -> Names {
        let hold = |holder: &str| Hold { waiting: 1, told: Some(9 * SECOND), ..self::held(holder) };
        let held = held.iter().map(|&(name, holder)| (name.to_owned(), hold(holder))).collect();
        Names { held, whole, complete: true }
    }

    #[test]
    fn names_come_and_go() {
        let told = |before: &Names, now: &Names| -> Vec<_> {
            let events = between(before, now, SECOND).into_iter().filter(|event| event.kind == Kind::Lock);
            events.map(|event| format!("{}: {}", event.subject, event.text)).collect()
        };
        let (one, other) = (names(&[("a", "x"), ("b", "y")], true), names(&[("b", "z"), ("c", "x")], true));
        let all = ["a: released by x", "b: handed over by y to z", "c: taken by x"];
        assert_eq!(told(&one, &other), all);
        assert_eq!(told(&one, &names(&[("b", "y")], false)), Vec::<String>::new(), "a may have been left out");
        assert_eq!(told(&names(&[("b", "y")], false), &one), Vec::<String>::new(), "a may have been held before");
    }

    #[test]
    fn name_that_no_quorum_agrees_on_is_not_said_to_be_released() {
        let told = |last: Names| -> Vec<_> {
            let (began, mut model) = (Instant::now(), Model::new(None, SECOND));
            let unknown = Names { held: vec![("a".to_owned(), Hold::default())], whole: true, complete: true };
            for (number, names) in (0..).zip([names(&[("a", "x")], true), unknown.clone(), unknown, last]) {
                let at = began + SECOND * number;
                model.see_names(at, names, at);
            }
            let locks = model.log.iter().filter(|(_, event)| event.kind == Kind::Lock);
            locks.map(|(_, event)| event.text.clone()).collect()
        };
        assert_eq!(told(names(&[("a", "x")], true)), Vec::<String>::new());
        assert_eq!(told(names(&[("a", "y")], true)), ["taken by y", "released by x"]);
        assert_eq!(told(names(&[], true)), ["released by x"]);
    }
}
