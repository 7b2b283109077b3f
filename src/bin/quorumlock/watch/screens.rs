//! Tests of the drawing on screens of several sizes.

use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::draw::draw;
use super::event::{Event, Kind};
use super::model::Model;
use super::seen::{Hold, Mood, Names, Node, Seen};

const SECOND: Duration = Duration::from_secs(1);

pub(super) fn node(number: u16, word: &'static str, state: &str, mood: Mood) -> Node {
    let is_up = word != "down";
    Node {
        label: format!("10.0.{number}.7:6379"),
        word,
        state: state.to_owned(),
        mood,
        why: None,
        round_trip: is_up.then_some(Duration::from_millis(12)),
        slow: number == 2,
        fails: false,
        memory: if is_up { format!("{number}") } else { String::new() },
        record: if is_up { "5 nodes".to_owned() } else { "-".to_owned() },
        holder: if is_up { "host-a..21b4/7.0".to_owned() } else { "?".to_owned() },
        left: is_up.then_some(27 * SECOND),
    }
}

fn held() -> Hold {
    Hold {
        agreed: true,
        holder: Some("host-a/4711/0b9c77e2-21b4/7.0".to_owned()),
        note: "deploy #812".to_owned(),
        held_for: Some(3 * SECOND),
        fence: 41,
        left: Some(27 * SECOND),
        waiting: 2,
        ..Hold::default()
    }
}

fn seen(hold: Option<Hold>) -> Seen {
    let nodes = vec![
        node(1, "up", "up", Mood::Good),
        node(2, "up", "up", Mood::Good),
        node(3, "quarantined", "quarantined 58 s", Mood::Doubtful),
        node(4, "down", "down", Mood::Bad),
        node(5, "up", "up", Mood::Good),
    ];
    Seen {
        nodes,
        verdict: "3 of 5 nodes vote; a quorum is 3: the next failure stops all locks".to_owned(),
        mood: Mood::Doubtful,
        quorum: None,
        hold,
    }
}

fn event(kind: Kind, subject: &str, text: &str) -> Event {
    Event { kind, subject: subject.to_owned(), text: text.to_owned(), mood: Mood::Good }
}

/// A watched name, five nodes and two events, ten seconds after the command began.
fn of_a_name() -> (Model, Instant) {
    let (began, mut model) = (Instant::now(), Model::new(Some("job".to_owned()), SECOND));
    model.see(began + 10 * SECOND, seen(Some(held())));
    model.log.add(began, event(Kind::Node, "10.0.4.7:6379", "down: Connection refused"));
    model.log.add(began + 7 * SECOND, event(Kind::Lock, "job", "taken by host-a/4711/0b9c77e2-21b4/7.0"));
    (model, began + 10 * SECOND)
}

fn of_all_names() -> (Model, Instant) {
    let (began, mut model) = (Instant::now(), Model::new(None, SECOND));
    model.see(began, seen(None));
    let names = (0..30).map(|number| (format!("orders/{number:02}"), held())).collect();
    model.see_names(began, Names { held: names, whole: true, complete: true }, began);
    (model, began + 2 * SECOND)
}

/// The lines of the screen, without blanks at their ends.
fn drawn((model, now): &mut (Model, Instant), width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, model, *now)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |row| (0..width).map(|column| buffer[(column, row)].symbol()).collect::<String>();
    (0..height).map(|row| line(row).trim_end().to_owned()).collect()
}

#[test]
fn a_name_on_a_usual_terminal() {
    let lines = drawn(&mut of_a_name(), 80, 24);
    let expected = [
        "quorumlock watch: job                                                  every 1 s",
        "3 of 5 nodes vote; a quorum is 3: the next failure stops all locks",
        "",
        "node           trip     holder              left    list        state",
        "10.0.1.7:6379  12.0 ms  host-a..21b4/7.0    27 s    5 nodes     up",
        "10.0.2.7:6379  12.0 ms  host-a..21b4/7.0    27 s    5 nodes     up, slow",
        "10.0.3.7:6379  12.0 ms  host-a..21b4/7.0    27 s    5 nodes     quarantined 58 s",
        "10.0.4.7:6379  -        ?                   -       -           down",
        "10.0.5.7:6379  12.0 ms  host-a..21b4/7.0    27 s    5 nodes     up",
        "",
        "job is held by host-a/4711/0b9c77e2-21b4/7.0",
        "note \"deploy #812\", held for 3 s",
        "left 27 s  queue 2  token at most 41",
        "",
        "events, latest first",
        "3 s ago    job taken by host-a/4711/0b9c77e2-21b4/7.0",
        "10 s ago   10.0.4.7:6379 down: Connection refused",
        "",
        "",
        "",
        "",
        "",
        "",
        "q quit  / filter  e events: all  up/down scroll",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_name_on_a_small_terminal() {
    let lines = drawn(&mut of_a_name(), 40, 10);
    let expected = [
        "quorumlock watch: job          every 1 s",
        "3 of 5 nodes vote; a quorum is 3: the",
        "next failure stops all locks",
        "5 nodes, 3 of them up",
        "job is held by host-a/4711/0b9c77e2-21..",
        "note \"deploy #812\", held for 3 s",
        "left 27 s  queue 2  token at most 41",
        "3 s ago    job taken by host-a/4711/0b..",
        "10 s ago   10.0.4.7:6379 down: Connect..",
        "q quit  / filter  e events: all  up/do..",
    ];
    assert_eq!(lines, expected);
}

/// The screen if each node's address is `begins`, followed by a digit from 1 to 5.
fn with_addresses(begins: &str, width: u16) -> Vec<String> {
    let (mut model, mut seen) = (of_a_name(), seen(Some(held())));
    for (number, node) in (1..).zip(&mut seen.nodes) {
        node.label = format!("{begins}{number}");
    }
    model.0.see(model.1, seen);
    drawn(&mut model, width, 24)
}

#[test]
fn addresses_of_nodes_are_cut_last_and_in_front() {
    let lines = with_addresses("127.0.0.1:791", 80);
    assert_eq!(lines[4], "127.0.0.1:7911  12.0 ms  host-a..21b4/7.0   27 s    5 nodes     up");
    assert_eq!(lines[6], "127.0.0.1:7913  12.0 ms  host-a..21b4/7.0   27 s    5 nodes     quarantined 58 s");
    let lines = with_addresses("eu-central.example:791", 80);
    assert_eq!(lines[6], "eu-central.example:7913  12.0 ms  host-a..2..  27 s    5 nodes  quarantined 58 s");
    let lines = with_addresses("127.0.0.1:791", 37);
    assert_eq!(lines[5], "..0.1:7911  12.0 ms  up");
    assert_eq!(lines[7], "..0.1:7913  12.0 ms  quarantined 58 s");
}

#[test]
fn a_long_verdict_takes_two_lines() {
    let verdict =
        "3 of 5 nodes vote; a quorum is 3. Restart no other node: one more votes in 57 s, which is soon".to_owned();
    let mut model = of_a_name();
    model.0.see(model.1, Seen { verdict, ..seen(Some(held())) });
    let lines = drawn(&mut model, 80, 24);
    assert_eq!(lines[1], "3 of 5 nodes vote; a quorum is 3. Restart no other node: one more votes in 57 s,");
    assert_eq!(lines[2..4], ["which is soon", ""]);
    assert!(lines[23].starts_with("q quit"), "{lines:?}");
}

#[test]
fn screen_of_all_names_fits_a_usual_terminal() {
    let lines = drawn(&mut of_all_names(), 80, 24);
    let expected = [
        "quorumlock watch: all names                                            every 1 s",
        "3 of 5 nodes vote; a quorum is 3: the next failure stops all locks",
        "",
        "node           trip     list        state",
        "10.0.1.7:6379  12.0 ms  5 nodes     up",
        "10.0.2.7:6379  12.0 ms  5 nodes     up, slow",
        "10.0.3.7:6379  12.0 ms  5 nodes     quarantined 58 s",
        "10.0.4.7:6379  -        -           down",
        "10.0.5.7:6379  12.0 ms  5 nodes     up",
        "",
        "30 names are held, 2 s ago",
        "name                   holder              left    queue  note",
        "orders/00              host-a/4711..7.0    25 s    2      deploy #812",
        "orders/01              host-a/4711..7.0    25 s    2      deploy #812",
        "orders/02              host-a/4711..7.0    25 s    2      deploy #812",
        "orders/03              host-a/4711..7.0    25 s    2      deploy #812",
        "orders/04              host-a/4711..7.0    25 s    2      deploy #812",
        "orders/05              host-a/4711..7.0    25 s    2      deploy #812",
        "",
        "events, latest first",
        "nothing has happened yet",
        "",
        "",
        "q quit  / filter  e events: all  up/down scroll",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_large_terminal_shows_everything() {
    let text = drawn(&mut of_a_name(), 200, 60).join("\n");
    for part in
        ["10.0.5.7:6379", "host-a/4711/0b9c77e2-21b4/7.0", "note \"deploy #812\"", "Connection refused", "q quit"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = drawn(&mut of_all_names(), 200, 60).join("\n");
    assert!(text.contains("orders/00") && text.contains("orders/12"), "{text}");
}

#[test]
fn small_terminal_shows_the_least_size() {
    assert_eq!(drawn(&mut of_a_name(), 1, 1), ["."]);
    assert_eq!(drawn(&mut of_a_name(), 35, 24)[0], "too small: 36x8 is the least");
    assert_eq!(drawn(&mut of_a_name(), 80, 7)[0], "too small: 36x8 is the least");
}

/// Widths near the widths at which a column appears or disappears.
fn widths() -> impl Iterator<Item = u16> {
    (0..4).chain(33..44).chain(58..62).chain(66..70).chain([79, 80, 110])
}

#[test]
fn event_of_all_nodes_begins_like_the_others() {
    let mut model = of_a_name();
    model.0.log.add(model.1, event(Kind::Node, "", "no quorum of nodes votes: no lock can be acquired"));
    assert_eq!(drawn(&mut model, 80, 24)[15], "0 s ago    no quorum of nodes votes: no lock can be acquired");
}

/// Tries many sizes, with an empty model and with a full one.
#[test]
fn screen_of_any_size_does_not_panic() {
    let empty = |name: Option<&str>| (Model::new(name.map(str::to_owned), SECOND), Instant::now());
    for mut model in [of_a_name(), of_all_names(), empty(None), empty(Some("job"))] {
        model.0.controls.scrolled = usize::MAX;
        for (width, height) in widths().flat_map(|width| (0..26).map(move |height| (width, height))) {
            let lines = drawn(&mut model, width, height);
            assert!(width < 36 || height < 8 || lines[usize::from(height) - 1].starts_with("q quit"), "{lines:?}");
        }
    }
}

#[test]
fn event_of_a_node_stays_on_the_screen_while_a_name_is_busy() {
    let mut model = of_a_name();
    for number in 0..20 {
        model.0.log.add(model.1, event(Kind::Lock, "job", &format!("taken by owner {number}")));
    }
    let lines = drawn(&mut model, 80, 24);
    assert_eq!(lines[15], "0 s ago    job taken by owner 19");
    assert_eq!(lines[21], "0 s ago    job taken by owner 13");
    assert_eq!(lines[22], "10 s ago   10.0.4.7:6379 down: Connection refused");
}

#[test]
fn a_filter_leaves_out_names_and_events() {
    let mut model = of_a_name();
    model.0.controls.text = "REFUSED".to_owned();
    let text = drawn(&mut model, 80, 24).join("\n");
    assert!(text.contains("Connection refused") && !text.contains("taken by"), "{text}");
    assert!(text.contains("/ filter (REFUSED)"), "{text}");
    let mut model = of_all_names();
    model.0.controls.text = "s/07".to_owned();
    let text = drawn(&mut model, 80, 24).join("\n");
    assert!(text.contains("orders/07") && !text.contains("orders/08"), "{text}");
}

#[test]
fn the_list_scrolls_to_its_end_and_no_further() {
    let mut model = of_all_names();
    model.0.controls.scrolled = 1_000;
    let text = drawn(&mut model, 80, 24).join("\n");
    assert!(text.contains("orders/29") && !text.contains("orders/00"), "{text}");
    assert!(model.0.controls.scrolled < 30);
}

#[test]
fn holder_note_has_its_control_characters_escaped() {
    let mut model = of_a_name();
    model.0.see(model.1, seen(Some(Hold { note: "\u{1b}[2J\nx".to_owned(), ..held() })));
    let text = drawn(&mut model, 80, 24).join("");
    assert!(text.contains("\\u{1b}[2J\\nx") && !text.contains(char::is_control), "{text}");
}
