//! What happened between two moments: pure.

use std::time::Duration;

use super::event::{Event, Kind};
use super::seen::{Hold, Mood, Node};
use crate::duration::show;

/// What happened to a node.
pub(super) fn of_node(before: &Node, now: &Node) -> Vec<Event> {
    let event = |text: String, mood| Event { kind: Kind::Node, subject: now.label.clone(), text, mood };
    let mut events = Vec::new();
    // That one could be connected to is no event: it was not known before.
    let is_first = before.word == "connecting" && now.word == "up";
    if before.word != now.word && !is_first {
        events.push(event(turned(before.word, now), now.mood));
    }
    if before.slow != now.slow && before.word == now.word {
        events.push(match now.slow {
            true => event("slow to answer".to_owned(), Mood::Doubtful),
            false => event("answers in time again".to_owned(), Mood::Good),
        });
    }
    events
}

/// How its state changed.
fn turned(before: &str, now: &Node) -> String {
    match (before, now.word, &now.why) {
        ("quarantined", "up", _) => "up: its quarantine is over".to_owned(),
        (_, "up", _) => "up".to_owned(),
        (_, word, Some(why)) if why.starts_with(word) => why.clone(),
        (_, word, Some(why)) => format!("{word}: {why}"),
        (_, word, None) => word.to_owned(),
    }
}

/// What happened to a name that nodes agreed on `elapsed` ago and agree on now.
pub(super) fn of_hold(name: &str, before: &Hold, now: &Hold, elapsed: Duration) -> Vec<Event> {
    let event = |kind, text: String, mood| Event { kind, subject: name.to_owned(), text, mood };
    let mut events = Vec::new();
    if let Some((text, mood)) = passed(before, now, elapsed) {
        events.push(event(Kind::Lock, text, mood));
    } else if now.holder.is_some() {
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

/// How it passed from one to the next, if it did.
fn passed(before: &Hold, now: &Hold, elapsed: Duration) -> Option<(String, Mood)> {
    if who(before) == who(now) {
        return None;
    }
    Some(match (who(before), who(now)) {
        (None, Some(_)) => (format!("taken by {}", taker(now)), Mood::Good),
        (Some(_), None) => ended(before, elapsed),
        (Some(from), Some(_)) if ran_out(before, elapsed) => {
            (format!("lost by {from}, whose time was over, and taken by {}", taker(now)), Mood::Bad)
        }
        (Some(from), Some(_)) => (format!("handed over by {from} to {}", taker(now)), Mood::Good),
        (None, None) => return None,
    })
}

/// How a hold ended that nobody took over.
fn ended(before: &Hold, elapsed: Duration) -> (String, Mood) {
    let from = who(before).unwrap_or_default();
    match (before.revoked, ran_out(before, elapsed)) {
        (true, _) => (format!("no longer held by {from}, from whom it was revoked"), Mood::Doubtful),
        (false, true) => (format!("lost by {from}: it was not renewed in time"), Mood::Bad),
        (false, false) => (format!("released by {from}"), Mood::Good),
    }
}

/// Whether its validity ended before anybody looked again.
fn ran_out(before: &Hold, elapsed: Duration) -> bool {
    before.left.is_some_and(|left| left <= elapsed)
}

/// Whom a hold belongs to. Nodes name one reader of all, and not always the same.
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

/// Nodes have not agreed on a name for so long.
pub(super) fn unsure(name: &str, since: Duration) -> Event {
    let text = format!("no quorum of nodes has agreed on its holder for {}", show(since));
    Event { kind: Kind::Lock, subject: name.to_owned(), text, mood: Mood::Bad }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(holder: &str, left: u64) -> Hold {
        let left = Some(Duration::from_secs(left));
        Hold { agreed: true, holder: Some(holder.to_owned()), left, ..Hold::default() }
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
        assert_eq!(told(&held("a", 9), &held("b", 9)), ["handed over by a to b"]);
        assert_eq!(told(&held("a", 9), &free()), ["released by a"]);
        assert_eq!(told(&held("a", 1), &free()), ["lost by a: it was not renewed in time"]);
        assert_eq!(told(&held("a", 1), &held("b", 9)), ["lost by a, whose time was over, and taken by b"]);
        assert_eq!(told(&held("a", 9), &held("a", 7)), Vec::<String>::new(), "a renewal is no event");
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
        Node { label, word, state, mood, why, round_trip: None, slow: false, record, holder, left: None }
    }

    #[test]
    fn a_node_goes_down_and_comes_back_by_way_of_its_quarantine() {
        let told = |before: &Node, now: &Node| -> Vec<_> {
            of_node(before, now).into_iter().map(|event| format!("{} {}", event.subject, event.text)).collect()
        };
        let (up, down) = (node("up", None), node("down", Some("down: Connection refused")));
        let quarantined = node("quarantined", Some("it has restarted"));
        assert_eq!(told(&up, &down), ["n1 down: Connection refused"]);
        assert_eq!(told(&down, &quarantined), ["n1 quarantined: it has restarted"]);
        assert_eq!(told(&quarantined, &up), ["n1 up: its quarantine is over"]);
        assert_eq!(told(&up, &up), Vec::<String>::new());
        assert_eq!(told(&node("connecting", None), &up), Vec::<String>::new());
        let slow = Node { slow: true, ..up.clone() };
        assert_eq!(told(&up, &slow), ["n1 slow to answer"]);
        assert_eq!(told(&slow, &up), ["n1 answers in time again"]);
    }
}
