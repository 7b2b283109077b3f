//! Finds the events between two observations. This module is pure: it uses no clock and no I/O.

use std::time::Duration;

use super::event::{Event, Kind};
use super::seen::{Hold, Mood, Node, Quorum};
use crate::duration::show;

/// A hold has little time left if its remaining time is less than a fourth of the longest remaining
/// time that was reported for this hold. A holder that renews in time always has more time left.
const LITTLE: u32 = 4;
/// If two observations of a name are this far apart, the name may have been free in between.
const HANDED_OVER: Duration = Duration::from_secs(2);

/// The events of a node between two observations.
pub(super) fn of_node(before: &Node, now: &Node) -> Vec<Event> {
    let event = |text: String, mood| Event { kind: Kind::Node, subject: now.label.clone(), text, mood };
    let mut events = Vec::new();
    // The first connection is no event: the state before it was unknown.
    let is_first = before.word == "connecting" && now.word == "up";
    let is_news = before.word != now.word || refuses_anew(before, now);
    if is_news && !is_first && !is_old(before, now) {
        events.push(event(turned(before, now), now.mood));
    }
    if before.slow != now.slow && before.word == now.word {
        events.push(match now.slow {
            true => event("slow to answer".to_owned(), Mood::Doubtful),
            false => event("answers in time again".to_owned(), Mood::Good),
        });
    }
    events
}

/// The event that a quorum of nodes votes again, or that no quorum votes. `before` is whether a
/// quorum voted when that was known last.
pub(super) fn of_quorum(before: Option<bool>, now: &Quorum, mood: Mood) -> Option<Event> {
    let is_news = before.is_some_and(|votes| votes != now.votes);
    // Make this an event of nodes, so that it stays on the screen.
    is_news.then(|| Event { kind: Kind::Node, subject: String::new(), text: now.news.clone(), mood })
}

/// Whether the node had no vote before, and now refuses for another reason. Only the part of the
/// text behind ", but " counts: the part before it has times that change.
fn refuses_anew(before: &Node, now: &Node) -> bool {
    let refusal = |node: &Node| node.why.as_deref()?.split_once(", but ").map(|(_, refusal)| refusal.to_owned());
    before.word == "no vote" && now.word == "no vote" && !now.fails && refusal(before) != refusal(now)
}

/// Whether the node is connected again, and has not answered since its last failure. This is no
/// event: the node has not failed again. The next event comes when the node answers.
fn is_old(before: &Node, now: &Node) -> bool {
    before.word != "up" && now.word == "no vote" && now.fails
}

/// The text about a change of a node's state.
fn turned(before: &Node, now: &Node) -> String {
    match (before.word, now.word, &now.why) {
        // The quarantine of a node without a record has not begun.
        ("quarantined", "up", _) if !before.memory.is_empty() => "up: its quarantine is over".to_owned(),
        (_, "up", _) => "up".to_owned(),
        (_, word, Some(why)) if why.starts_with(word) => why.clone(),
        (_, word, Some(why)) => format!("{word}: {why}"),
        (_, word, None) => word.to_owned(),
    }
}

/// The events of a name between two moments, which are `elapsed` apart. A quorum agrees on the
/// holder in `now`. A quorum agreed on the holder in `before`, at that moment or earlier (see
/// [`ages`]).
pub(super) fn of_hold(name: &str, before: &Hold, now: &Hold, elapsed: Duration) -> Vec<Event> {
    let event = |kind, text: String, mood| Event { kind, subject: name.to_owned(), text, mood };
    let passed = passed(before, now, elapsed).into_iter();
    let mut events: Vec<_> = passed.map(|(text, mood)| event(Kind::Lock, text, mood)).collect();
    if events.is_empty() && now.holder.is_some() {
        if now.revoked && !before.revoked {
            events.push(event(Kind::Lock, "revoked: it is not renewed any more".to_owned(), Mood::Bad));
        }
        if now.note != before.note && !now.note.is_empty() {
            events.push(event(Kind::Lock, format!("its holder says {:?}", now.note), Mood::Good));
        }
    }
    if now.waiting != before.waiting {
        events.push(event(Kind::Queue, queue(now.waiting), Mood::Good));
    }
    events
}

/// The events if the name now has another holder, or no holder.
fn passed(before: &Hold, now: &Hold, elapsed: Duration) -> Vec<(String, Mood)> {
    let taken = || (format!("taken by {}", taker(now)), Mood::Good);
    match (who(before), who(now)) {
        (from, to) if from == to => Vec::new(),
        (_, None) => vec![ended(before, elapsed)],
        (None, Some(_)) => vec![taken()],
        (Some(_), Some(readers)) if before.readers.is_some() && now.readers.is_some() => {
            vec![(format!("held by {readers}"), Mood::Good)]
        }
        (Some(from), Some(_)) if was_handed_over(before, elapsed) => {
            vec![(format!("handed over by {from} to {}", taker(now)), Mood::Good)]
        }
        (Some(_), Some(_)) => vec![ended(before, elapsed), taken()],
    }
}

/// Whether a hold was handed over to the holder that was observed `elapsed` later. A hand-over
/// needs a waiter, and a hold whose time is not over. If the two observations are `HANDED_OVER` or
/// more apart, the name may have been free in between, so this returns false. (The distance
/// includes the age of the earlier answers.)
fn was_handed_over(before: &Hold, elapsed: Duration) -> bool {
    let age = before.told.zip(before.left).map_or(Duration::ZERO, |(told, left)| told.saturating_sub(left));
    let kept = matches!(fate(before, elapsed), Fate::Kept);
    kept && before.waiting > 0 && elapsed.saturating_add(age) < HANDED_OVER
}

fn ended(before: &Hold, elapsed: Duration) -> (String, Mood) {
    let from = who(before).unwrap_or_default();
    match fate(before, elapsed) {
        _ if before.revoked => (format!("no longer held by {from}, from whom it was revoked"), Mood::Doubtful),
        Fate::Lost => (format!("lost by {from}: it was not renewed in time"), Mood::Bad),
        Fate::Unknown => (format!("no longer held by {from}"), Mood::Doubtful),
        Fate::Kept => (format!("released by {from}"), Mood::Good),
    }
}

/// How a hold ended.
enum Fate {
    /// The hold ended before its time was over, so it was released.
    Kept,
    /// The hold was not renewed, and its time was over.
    Lost,
    /// The hold's time is unknown, or was over although no report showed that little time was left.
    /// The hold may have been renewed and then released.
    Unknown,
}

/// A holder that renews does so before half of the ttl is over. So the hold was lost only if nodes
/// reported that little time was left.
fn fate(before: &Hold, elapsed: Duration) -> Fate {
    match (before.left, before.told, before.most) {
        (Some(left), ..) if left > elapsed => Fate::Kept,
        (Some(_), Some(told), Some(most)) if told < most / LITTLE => Fate::Lost,
        _ => Fate::Unknown,
    }
}

/// The hold `now`, with the longest time left that was reported for this holder so far.
pub(super) fn goes_on(before: &Hold, now: Hold) -> Hold {
    let same = before.holder.is_some() && before.holder == now.holder;
    Hold { most: if same { before.most.max(now.told) } else { now.told }, ..now }
}

/// The hold `before`, as it is `elapsed` later if no quorum agrees any more. Its time left is
/// shorter by `elapsed`.
pub(super) fn ages(before: &Hold, elapsed: Duration) -> Hold {
    Hold { agreed: false, left: before.left.map(|left| left.saturating_sub(elapsed)), ..before.clone() }
}

/// The holder, or the number of readers. A node names only one of its readers, and not always the
/// same one.
fn who(hold: &Hold) -> Option<String> {
    let readers = |readers| if readers == 1 { "1 reader".to_owned() } else { format!("{readers} readers") };
    hold.readers.map(readers).or_else(|| hold.holder.clone())
}

fn taker(now: &Hold) -> String {
    let note = if now.note.is_empty() { String::new() } else { format!(" {:?}", now.note) };
    format!("{}{note}", who(now).unwrap_or_default())
}

fn queue(waiting: u32) -> String {
    match waiting {
        0 => "nobody waits in the queue".to_owned(),
        1 => "1 waits in the queue".to_owned(),
        many => format!("{many} wait in the queue"),
    }
}

/// The event that no quorum has agreed on a name's holder for the time `since`.
pub(super) fn unsure(name: &str, since: Duration) -> Event {
    let text = format!("no quorum of nodes has agreed on its holder for {}", show(since));
    Event { kind: Kind::Lock, subject: name.to_owned(), text, mood: Mood::Bad }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(holder: &str, left: u64) -> Hold {
        let (left, most) = (Some(Duration::from_secs(left)), Some(Duration::from_secs(10)));
        Hold { agreed: true, holder: Some(holder.to_owned()), left, told: left, most, ..Hold::default() }
    }

    /// Like `held`, with a waiter.
    fn queued(holder: &str, left: u64) -> Hold {
        Hold { waiting: 1, ..held(holder, left) }
    }

    fn free() -> Hold {
        Hold { agreed: true, ..Hold::default() }
    }

    fn told(before: &Hold, now: &Hold) -> Vec<String> {
        of_hold("job", before, now, Duration::from_secs(1)).into_iter().map(|event| event.text).collect()
    }

    #[test]
    fn a_name_is_taken_handed_over_released_and_lost() {
        let noted = Hold { note: "deploy".to_owned(), ..held("a", 9) };
        assert_eq!(told(&free(), &noted), ["taken by a \"deploy\""]);
        assert_eq!(told(&queued("a", 9), &queued("b", 9)), ["handed over by a to b"]);
        assert_eq!(told(&held("a", 9), &free()), ["released by a"]);
        let lost = "lost by a: it was not renewed in time";
        assert_eq!(told(&held("a", 1), &free()), [lost]);
        assert_eq!(told(&queued("a", 1), &queued("b", 9)), [lost, "taken by b"]);
        assert_eq!(told(&held("a", 9), &held("a", 7)), Vec::<String>::new(), "a renewal is no event");
    }

    #[test]
    fn name_that_may_have_been_free_meanwhile_was_not_handed_over() {
        let apart = ["released by a", "taken by b"];
        assert_eq!(told(&held("a", 9), &held("b", 9)), apart, "nobody waited");
        let old = Hold { told: Some(Duration::from_secs(11)), ..queued("a", 9) };
        assert_eq!(told(&old, &queued("b", 9)), apart, "the reports were 2 s old");
        let later = of_hold("job", &queued("a", 9), &queued("b", 9), HANDED_OVER);
        assert_eq!(later.into_iter().map(|event| event.text).collect::<Vec<_>>(), apart);
    }

    /// After a long time without an observation, the lock may have been renewed and then released.
    #[test]
    fn hold_unseen_until_its_end_is_not_reported_lost() {
        let unseen = Hold { left: Some(Duration::ZERO), ..held("a", 9) };
        assert_eq!(told(&unseen, &free()), ["no longer held by a"]);
        assert_eq!(told(&unseen, &held("b", 9)), ["no longer held by a", "taken by b"]);
        let first = Hold { most: Some(Duration::from_secs(1)), ..held("a", 1) };
        assert_eq!(told(&first, &free()), ["no longer held by a"], "it may have a short ttl");
    }

    #[test]
    fn hold_without_an_end_is_not_said_to_be_released() {
        let endless = Hold { left: None, ..held("a", 9) };
        assert_eq!(told(&endless, &free()), ["no longer held by a"]);
    }

    #[test]
    fn the_longest_time_that_a_holder_had_is_kept_while_it_holds() {
        let most = |before: &Hold, now| goes_on(before, now).most.unwrap().as_secs();
        assert_eq!(most(&held("a", 9), held("a", 3)), 10);
        assert_eq!(most(&held("a", 9), held("b", 3)), 3);
        assert_eq!(most(&free(), held("b", 3)), 3);
    }

    #[test]
    fn a_revocation_is_told_and_so_is_its_end() {
        let revoked = Hold { revoked: true, ..held("a", 9) };
        assert_eq!(told(&held("a", 9), &revoked), ["revoked: it is not renewed any more"]);
        assert_eq!(told(&revoked, &free()), ["no longer held by a, from whom it was revoked"]);
    }

    #[test]
    fn readers_are_told_by_number_whichever_of_them_is_named() {
        let readers = |name, count| Hold { readers: Some(count), ..held(name, 9) };
        assert_eq!(told(&readers("a", 2), &readers("b", 2)), Vec::<String>::new());
        assert_eq!(told(&free(), &readers("b", 1)), ["taken by 1 reader"]);
        assert_eq!(told(&readers("b", 2), &free()), ["released by 2 readers"]);
        assert_eq!(told(&readers("a", 1), &readers("a", 2)), ["held by 2 readers"]);
        assert_eq!(told(&readers("a", 2), &held("w", 9)), ["released by 2 readers", "taken by w"]);
    }

    #[test]
    fn the_queue_and_a_new_note_are_told() {
        let queued = Hold { waiting: 2, note: "on 10.0.0.7".to_owned(), ..held("a", 9) };
        assert_eq!(told(&held("a", 9), &queued), ["its holder says \"on 10.0.0.7\"", "2 wait in the queue"]);
        assert_eq!(told(&queued, &Hold { waiting: 0, ..queued.clone() }), ["nobody waits in the queue"]);
    }

    fn node(word: &'static str, why: Option<&str>) -> Node {
        let (label, state, mood) = ("n1".to_owned(), word.to_owned(), Mood::Good);
        let why = why.map(str::to_owned);
        let (record, holder) = (String::new(), String::new());
        Node {
            label,
            word,
            state,
            mood,
            why,
            round_trip: None,
            slow: false,
            fails: false,
            memory: String::new(),
            record,
            holder,
            left: None,
        }
    }

    #[test]
    fn a_node_goes_down_and_comes_back_by_way_of_its_quarantine() {
        let told = |before: &Node, now: &Node| -> Vec<_> {
            of_node(before, now).into_iter().map(|event| format!("{} {}", event.subject, event.text)).collect()
        };
        let (up, down) = (node("up", None), node("down", Some("down: Connection refused")));
        let unused = node("quarantined", Some("it has restarted"));
        let quarantined = Node { memory: "record".to_owned(), ..unused.clone() };
        assert_eq!(told(&up, &down), ["n1 down: Connection refused"]);
        assert_eq!(told(&down, &quarantined), ["n1 quarantined: it has restarted"]);
        assert_eq!(told(&quarantined, &up), ["n1 up: its quarantine is over"]);
        assert_eq!(told(&unused, &up), ["n1 up"], "`init` made its record");
        assert_eq!(told(&up, &up), Vec::<String>::new());
        assert_eq!(told(&node("connecting", None), &up), Vec::<String>::new());
        let hangs = Node { fails: true, ..node("no vote", Some("up, but does not answer: no answer in time")) };
        let refuses = node("no vote", Some("up, but grants this user no lock: the user lacks +pexpire"));
        let later = node("no vote", Some("quarantined 9 s, but grants this user no lock: the user lacks +pexpire"));
        assert_eq!(told(&hangs, &refuses), ["n1 no vote: up, but grants this user no lock: the user lacks +pexpire"]);
        assert_eq!((told(&refuses, &later), told(&refuses, &hangs)), (Vec::new(), Vec::new()));
        let slow = Node { slow: true, ..up.clone() };
        assert_eq!(told(&up, &slow), ["n1 slow to answer"]);
        assert_eq!(told(&slow, &up), ["n1 answers in time again"]);
    }
}
