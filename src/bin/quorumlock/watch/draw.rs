//! Draws the model on a screen of any size. This module is pure: callers pass the time.

use std::time::{Duration, Instant};

use ratatui::Frame;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::event::{Event, Kind};
use super::model::Model;
use super::seen::{Hold, Mood, Names, Node, Seen};
use super::text::{ago, bold, cells, coloured, end_of, faint, fit, width as wide, wrap};
use crate::duration::{exact, left, show};
use crate::status::{cut, shown};

/// The smallest screen, in columns and rows. Nothing useful fits on a smaller screen.
const LEAST: (usize, usize) = (36, 8);
/// From this height on, the verdict may take two lines.
const TALL: usize = 10;
/// From this height on, empty lines separate the sections.
const ROOMY: usize = 18;
/// How many rows describe the hold of the watched name.
const HOLD: usize = 3;
/// How many of the latest events of nodes stay on the screen, even if there are many newer events
/// of names. These events take at most half of the rows for events.
const PINNED: usize = 3;

/// Draws the model. Also limits scrolling to the end of the list, because the number of rows that
/// fit is known only here.
pub(super) fn draw(frame: &mut Frame<'_>, model: &mut Model, now: Instant) {
    let area = frame.area();
    let lines = screen(model, usize::from(area.width), usize::from(area.height), now);
    for (row, line) in (area.y..area.bottom()).zip(&lines) {
        frame.buffer_mut().set_line(area.x, row, line, area.width);
    }
}

fn screen(model: &mut Model, width: usize, height: usize, now: Instant) -> Vec<Line<'static>> {
    if width < LEAST.0 || height < LEAST.1 {
        return vec![Line::raw(fit(&format!("too small: {}x{} is the least", LEAST.0, LEAST.1), width))];
    }
    let (verdict, mood) = model.verdict();
    let verdict = if height < TALL { vec![fit(&verdict, width)] } else { wrap(&verdict, width) };
    let rooms = Rooms::of(model, height, verdict.len());
    let mut lines = vec![title(model, width)];
    lines.extend(verdict.into_iter().map(|line| Line::styled(line, coloured(mood))));
    let gap = |lines: &mut Vec<_>| {
        if rooms.gaps {
            lines.push(Line::raw(""))
        }
    };
    gap(&mut lines);
    lines.extend(model.seen.iter().flat_map(|(_, seen)| nodes(seen, model.name.is_some(), width, rooms.nodes)));
    gap(&mut lines);
    lines.extend(middle(model, width, rooms.middle, now));
    gap(&mut lines);
    lines.extend(events(model, width, rooms.events, now));
    lines.resize(height - 1, Line::raw(""));
    lines.push(help(model, width));
    lines
}

/// How many rows each section gets.
struct Rooms {
    nodes: usize,
    middle: usize,
    events: usize,
    gaps: bool,
}

impl Rooms {
    /// `verdict` is how many lines the verdict has.
    fn of(model: &Model, height: usize, verdict: usize) -> Self {
        let gaps = height >= ROOMY;
        // Two rows are for the title and the help.
        let room = height - 2 - verdict - if gaps { 3 } else { 0 };
        let wanted = model.seen.as_ref().map_or(0, |(_, seen)| seen.nodes.len() + 1);
        if model.name.is_some() {
            let semaphore = model.seen.iter().any(|(_, seen)| seen.hold.iter().any(|hold| hold.gate));
            let middle = HOLD + usize::from(semaphore && gaps);
            let nodes = wanted.min(room - middle - if gaps { 5 } else { 1 });
            // If fewer than three rows are left, one row only counts the nodes.
            let nodes = if nodes < 3 && nodes + 1 < wanted { nodes.min(1) } else { nodes };
            return Self { nodes, middle, events: room - middle - nodes, gaps };
        }
        let nodes = wanted.min((room * 2 / 5).max(2));
        // Names get two thirds of the remaining rows.
        let middle = ((room - nodes) * 2).div_ceil(3);
        Self { nodes, middle, events: room - nodes - middle, gaps }
    }
}

fn title(model: &Model, width: usize) -> Line<'static> {
    let of = model.name.as_deref().map_or_else(|| "all names".to_owned(), shown);
    let right = format!("every {}", exact(model.every));
    let left = fit(&format!("quorumlock watch: {of}"), width - right.len() - 2);
    Line::from(vec![Span::styled(left, bold()), Span::styled(format!("  {right}"), faint())])
}

fn help(model: &Model, width: usize) -> Line<'static> {
    let controls = &model.controls;
    let text = if controls.typing {
        format!("filter: {}_  Enter keeps it, Esc clears it", controls.text)
    } else {
        let filter = if controls.text.is_empty() { String::new() } else { format!(" ({})", shown(&controls.text)) };
        let kind = controls.kind.map_or("all", Kind::word);
        format!("q quit  / filter{filter}  e events: {kind}  up/down scroll")
    };
    Line::styled(fit(&text, width), faint())
}

/// The table of nodes: a heading, and a row for each node. Nodes that do not fit are counted in the
/// last row.
fn nodes(seen: &Seen, named: bool, width: usize, rows: usize) -> Vec<Line<'static>> {
    let all = seen.nodes.len();
    if rows < all.min(3) {
        return if rows == 0 { Vec::new() } else { vec![rest("", &seen.nodes, width)] };
    }
    let columns = Columns::of(named, width, &seen.nodes);
    let fits = if all < rows { all } else { rows.saturating_sub(2).min(all) };
    let heading = columns.line("node", "trip", "holder", "left", "list", "state");
    let mut lines = vec![Line::styled(heading, bold())];
    lines.extend(seen.nodes[..fits].iter().map(|node| node_line(&columns, node)));
    if fits < all && lines.len() < rows {
        lines.push(rest("and ", &seen.nodes[fits..], width));
    }
    lines
}

fn node_line(columns: &Columns, node: &Node) -> Line<'static> {
    let trip = node.round_trip.map_or_else(|| "-".to_owned(), show);
    let remaining = node.left.map_or_else(|| "-".to_owned(), left);
    let state = state(node);
    let mood = if node.slow && node.mood == Mood::Good { Mood::Doubtful } else { node.mood };
    let label = end_of(&node.label, columns.label);
    Line::styled(columns.line(&label, &trip, &node.holder, &remaining, &node.record, &state), coloured(mood))
}

fn state(node: &Node) -> String {
    if node.slow { format!("{}, slow", node.state) } else { node.state.clone() }
}

/// A row that counts the nodes that do not fit.
fn rest(begins: &str, nodes: &[Node], width: usize) -> Line<'static> {
    let up = nodes.iter().filter(|node| node.word == "up").count();
    let mood = if up == nodes.len() { Mood::Good } else { Mood::Doubtful };
    Line::styled(
        fit(
            &format!("{begins}{} {}, {up} of them up", nodes.len(), if begins.is_empty() { "nodes" } else { "more" }),
            width,
        ),
        coloured(mood),
    )
}

/// How wide the columns of the table of nodes are. Columns that do not fit are left out: they have
/// no width.
struct Columns {
    label: usize,
    holder: usize,
    record: usize,
    state: usize,
}

const TRIP: usize = 7;
const HOLDER: usize = 18;
/// The least width of the holder's column.
const NARROW: usize = 6;
const LEFT: usize = 6;
const RECORD: usize = 10;

impl Columns {
    fn of(named: bool, width: usize, nodes: &[Node]) -> Self {
        let widest = |text: fn(&Node) -> usize| nodes.iter().map(text).max().unwrap_or(0);
        let state = widest(|node| wide(&state(node))).clamp(5, 22);
        let label = widest(|node| wide(&node.label)).max(4);
        let held = widest(|node| wide(&node.holder)).clamp(NARROW, HOLDER);
        let recorded = widest(|node| wide(&node.record)).clamp(4, RECORD);
        let mut holder = if named && width >= 68 { HOLDER } else { 0 };
        let least = if named { 80 } else { 60 };
        let mut record = if width >= least { RECORD } else { 0 };
        let left = if holder > 0 { LEFT + 4 } else { 0 };
        let gap = if record > 0 { 2 } else { 0 };
        let room = (width - TRIP - 4 - left - gap).saturating_sub(state);
        // Blanks go first, then the ends of holders. The addresses are cut last.
        let over = |holder: usize, record: usize| (label + holder + record).saturating_sub(room);
        holder -= over(holder, record).min(holder.saturating_sub(held));
        record -= over(holder, record).min(record.saturating_sub(recorded));
        holder -= over(holder, record).min(holder.saturating_sub(NARROW));
        Self { label: label.min(room.saturating_sub(holder + record)), holder, record, state }
    }

    fn line(&self, label: &str, trip: &str, holder: &str, left: &str, record: &str, state: &str) -> String {
        let held = [(holder, self.holder), (left, LEFT)].into_iter().filter(|_| self.holder > 0);
        let record = [(record, self.record)].into_iter().filter(|_| self.record > 0);
        cells([(label, self.label), (trip, TRIP)].into_iter().chain(held).chain(record).chain([(state, self.state)]))
    }
}

/// The lines about the watched name's holder, or about all names that are held.
fn middle(model: &mut Model, width: usize, rows: usize, now: Instant) -> Vec<Line<'static>> {
    match &model.name {
        Some(name) => {
            let hold = model.seen.as_ref().and_then(|(_, seen)| Some((seen.hold.as_ref()?, seen.mood)));
            hold_lines(name, hold, width).into_iter().take(rows).collect()
        }
        None => names(model, width, rows, now),
    }
}

/// `hold` is the name's hold, and the mood of the verdict about the nodes.
fn hold_lines(name: &str, hold: Option<(&Hold, Mood)>, width: usize) -> Vec<Line<'static>> {
    let Some((hold, nodes)) = hold else { return vec![Line::raw(fit("waiting for the nodes' answers", width))] };
    let (first, mood) = who(name, hold, nodes);
    let permits = hold
        .gate
        .then(|| format!("the gate of a semaphore. Each of its permits is a name: watch {}/0 to see one", shown(name)));
    let others = [note(hold), figures(hold)].into_iter().chain(permits);
    let first = Line::styled(fit(&first, width), coloured(mood).patch(bold()));
    [first].into_iter().chain(others.map(|text| Line::raw(fit(&text, width)))).collect()
}

/// Who holds the name, in one sentence.
fn who(name: &str, hold: &Hold, nodes: Mood) -> (String, Mood) {
    let name = shown(name);
    let mood = if hold.revoked { Mood::Bad } else { Mood::Good };
    match (&hold.holder, hold.agreed) {
        (Some(_), _) if hold.readers.is_some_and(|count| count > 1) => {
            (format!("{name} is held by {} readers", hold.readers.unwrap_or_default()), mood)
        }
        (Some(holder), _) if hold.revoked => (format!("{name} is held by {}, but revoked", shown(holder)), mood),
        (Some(holder), _) => (format!("{name} is held by {}", shown(holder)), mood),
        (None, true) if nodes == Mood::Bad => (format!("{name} is free, but cannot be locked now"), Mood::Bad),
        (None, true) => (format!("{name} is free"), Mood::Good),
        (None, false) => (format!("{name}: no quorum of nodes agrees on its holder"), Mood::Bad),
    }
}

fn note(hold: &Hold) -> String {
    match (hold.note.as_str(), hold.held_for) {
        ("", None) => String::new(),
        ("", Some(since)) => format!("held for {}", ago(since)),
        (note, since) => {
            let since = since.map_or_else(String::new, |since| format!(", held for {}", ago(since)));
            format!("note \"{}\"{since}", shown(note))
        }
    }
}

/// Time left, tokens and the queue.
fn figures(hold: &Hold) -> String {
    let remaining = hold.left.filter(|_| hold.holder.is_some()).map(|time| format!("left {}", left(time)));
    let token = Some(format!("token at most {}", hold.fence));
    let queue = Some(format!("queue {}", hold.waiting));
    [remaining, queue, token].into_iter().flatten().collect::<Vec<_>>().join("  ")
}

/// The names that are held, from the scroll position on.
fn names(model: &mut Model, width: usize, rows: usize, now: Instant) -> Vec<Line<'static>> {
    let Some((at, names)) = &model.names else { return vec![Line::raw(fit("looking for names that are held", width))] };
    let shown: Vec<_> = names.held.iter().filter(|(name, _)| model.controls.shows_name(name)).collect();
    let age = now.saturating_duration_since(*at);
    model.controls.scrolled = model.controls.scrolled.min(shown.len().saturating_sub(rows.saturating_sub(2)));
    let mut lines = vec![Line::styled(fit(&found(names, age), width), names_style(names))];
    lines.push(Line::styled(name_cells("name", "holder", "left", "queue", "note", width), bold()));
    let rows = shown.iter().skip(model.controls.scrolled).take(rows.saturating_sub(2));
    lines.extend(rows.map(|(name, hold)| name_line(name, hold, age, width)));
    lines
}

fn found(names: &Names, age: Duration) -> String {
    let held = names.held.len();
    let are = if held == 1 { "name is" } else { "names are" };
    let count = format!("{}{held} {are} held", if names.whole { "" } else { "more than " });
    let missing = if names.complete { "" } else { "; names may be missing: too few nodes know all names" };
    format!("{count}, {} ago{missing}", ago(age))
}

const fn names_style(names: &Names) -> Style {
    coloured(if names.complete && names.whole { Mood::Good } else { Mood::Doubtful })
}

fn name_line(name: &str, hold: &Hold, age: Duration, width: usize) -> Line<'static> {
    let holder = match (&hold.holder, hold.readers) {
        _ if !hold.agreed => "?".to_owned(),
        (_, Some(readers)) if readers > 1 => format!("{readers} readers"),
        (Some(holder), _) => cut(&shown(holder)),
        (None, _) => "?".to_owned(),
    };
    let remaining = hold.left.map_or_else(|| "-".to_owned(), |time| left(time.saturating_sub(age)));
    let text = name_cells(&shown(name), &holder, &remaining, &hold.waiting.to_string(), &shown(&hold.note), width);
    if hold.revoked { Line::styled(text, coloured(Mood::Bad)) } else { Line::raw(text) }
}

fn name_cells(name: &str, holder: &str, left: &str, queue: &str, note: &str, width: usize) -> String {
    if width < 60 {
        let room = width - HOLDER - 2;
        return cells([(name, room), (holder, HOLDER)]);
    }
    let room = width - HOLDER - LEFT - 5 - 8;
    let (name_room, note_room) = (room / 2, room - room / 2);
    cells([(name, name_room), (holder, HOLDER), (left, LEFT), (queue, 5), (note, note_room)])
}

/// The latest events that match the filter, latest first.
fn events(model: &mut Model, width: usize, rows: usize, now: Instant) -> Vec<Line<'static>> {
    let events: Vec<_> = model.log.iter().filter(|(_, event)| model.controls.shows(event)).collect();
    let headed = rows > 2;
    let rows = rows - usize::from(headed);
    let scrolls = model.name.is_some();
    if scrolls {
        model.controls.scrolled = model.controls.scrolled.min(events.len().saturating_sub(rows));
    }
    let skipped = if scrolls { model.controls.scrolled } else { 0 };
    let mut lines = Vec::new();
    if headed {
        lines.push(Line::styled(fit("events, latest first", width), bold()));
    }
    if events.is_empty() {
        lines.push(Line::styled(fit("nothing has happened yet", width), faint()));
    }
    let latest = pinned(&events[skipped..], rows);
    lines.extend(latest.map(|(at, event)| event_line(event, now.saturating_duration_since(*at), width)));
    lines
}

/// The latest events that fit. Some rows are reserved for the latest events of nodes.
fn pinned<'a>(events: &'a [&'a (Instant, Event)], rows: usize) -> impl Iterator<Item = &'a (Instant, Event)> {
    let of_nodes = events.iter().filter(|(_, event)| event.kind == Kind::Node).count();
    let mut pins = of_nodes.min(PINNED).min(rows / 2);
    let mut others = rows - pins;
    let shown = move |(_, event): &&(Instant, Event)| {
        let left = if event.kind == Kind::Node && pins > 0 { &mut pins } else { &mut others };
        let shown = *left > 0;
        *left = left.saturating_sub(1);
        shown
    };
    events.iter().copied().filter(shown)
}

fn event_line(event: &Event, age: Duration, width: usize) -> Line<'static> {
    let when = fit(&format!("{} ago", ago(age)), 10);
    let what = format!("{} {}", shown(&event.subject), event.text);
    let what = fit(what.trim_start(), width - 11);
    Line::from(vec![Span::styled(format!("{when} "), faint()), Span::styled(what, coloured(event.mood))])
}
