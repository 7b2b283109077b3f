//! Output: notes and the log on standard error, results on standard output, and tables.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::io::{self, BufRead, IsTerminal, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::panic;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use console::{Style, Term, measure_text_width, strip_ansi_codes};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;

use crate::output_queue::OutputQueue;

/// How many bytes of messages may wait to be written: as many as a pipe holds on Linux.
const ROOM: usize = 64 * 1024;

static MESSAGES: OutputQueue = OutputQueue::new(ROOM, |bytes| io::stderr().write_all(bytes), dropped);

/// Standard error. Each `write` is a message, which is written as a whole or dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stderr;

impl Write for Stderr {
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        MESSAGES.push(message);
        Ok(message.len())
    }

    /// Does nothing, because the queue's thread writes.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsRawFd for Stderr {
    fn as_raw_fd(&self) -> RawFd {
        io::stderr().as_raw_fd()
    }
}

/// Waits until all messages for standard error are written, for a second at most.
pub(crate) fn wait() {
    MESSAGES.wait();
}

/// Writes to standard output, and blocks until all bytes are written.
pub(crate) fn to_stdout(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// A command that waits for nodes for longer than this writes a note on the nodes that are missing.
const SILENCE: Duration = Duration::from_secs(1);
/// The note on missing nodes is written earlier if checks report for `CERTAIN` that the wait will
/// be long. `LOOK` is the pause between two checks.
const LOOK: Duration = Duration::from_millis(20);
pub(crate) const CERTAIN: Duration = Duration::from_millis(200);

/// The tracing target of notes. Notes are written at every log level.
const NOTES: &str = "quorumlock::note";

/// The format of standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Text,
    /// One object a line
    Json,
}

/// The format of standard error. It is set once, before the first note. It is global, because all
/// modules write notes.
static FORMAT: OnceLock<Format> = OnceLock::new();

/// Whether messages on standard error are JSON.
pub(crate) fn is_json() -> bool {
    FORMAT.get() == Some(&Format::Json)
}

/// From now on, messages of panics go through the queue: a direct write could block.
pub(crate) fn take_panics() {
    panic::set_hook(Box::new(|what| {
        let trace = Backtrace::capture();
        let trace = if trace.status() == BacktraceStatus::Captured { format!("{trace}\n") } else { String::new() };
        let _ = Stderr.write_all(format!("{what}\n{trace}").as_bytes());
        wait();
    }));
}

/// Writes one note on standard error. Ignores errors: there is no other place to report them.
pub(crate) fn note(text: &str) {
    if is_json() {
        tracing::info!(target: NOTES, "{}", strip_ansi_codes(text));
    } else {
        let _ = Stderr.write_all(format!("quorumlock: {text}\n").as_bytes());
    }
}

/// Writes the reason of a failure on standard error.
pub(crate) fn failed(text: &str) {
    if is_json() {
        tracing::error!(target: NOTES, "{}", strip_ansi_codes(text));
    } else {
        note(text);
    }
}

/// Writes a note about dropped messages.
fn dropped(messages: u64) {
    let what =
        if messages == 1 { "an earlier message was".to_owned() } else { format!("{messages} earlier messages were") };
    note(&format!("{what} dropped, because standard error accepted no more"));
}

/// Writes `what` and the question on standard error, and reads a line from the terminal. Every
/// answer except `y` and `yes` means no, and so does the end of the input. If standard input is no
/// terminal, the answer is no, and nothing is read: the input may be for another program, or may
/// never end.
pub(crate) async fn confirmed(what: &str, question: &str) -> io::Result<bool> {
    if !io::stdin().is_terminal() {
        note(&format!("{what}. {question} Standard input is no terminal: if the answer is yes, say --yes"));
        return Ok(false);
    }
    let prompt = format!("{what}. {question} [y/N] ");
    // Read in another thread, so that the runtime keeps the connections alive until the answer
    // comes.
    tokio::task::spawn_blocking(move || answered(&prompt)).await.map_err(io::Error::other)?
}

fn answered(prompt: &str) -> io::Result<bool> {
    Stderr.write_all(prompt.as_bytes())?;
    let mut answer = String::new();
    if io::stdin().lock().read_line(&mut answer)? == 0 {
        Stderr.write_all(b"\n")?;
    }
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

/// Waits for `future`. Writes the note `what` if `future` takes longer than [`SILENCE`]. The note
/// does not delay the result.
pub(crate) async fn telling<F: Future>(future: F, what: impl Future<Output = String>) -> F::Output {
    telling_once(future, || false, what).await
}

/// As `telling`, but also writes the note if `certain` has been true for [`CERTAIN`].
pub(crate) async fn telling_once<F: Future>(
    future: F,
    certain: impl Fn() -> bool,
    what: impl Future<Output = String>,
) -> F::Output {
    let told = async {
        let (began, mut since) = (Instant::now(), None);
        while began.elapsed() < SILENCE && since.is_none_or(|since: Instant| since.elapsed() < CERTAIN) {
            since = certain().then(|| since.unwrap_or_else(Instant::now));
            tokio::time::sleep(LOOK).await;
        }
        note(&what.await);
        std::future::pending().await
    };
    tokio::select! {
        biased;
        output = future => output,
        never = told => never,
    }
}

/// In the text about a node, an explanation follows the first string of a pair. If the text about
/// an earlier node has the same explanation, the second string replaces the first string and the
/// explanation.
const EXPLAINED: [(&str, &str); 2] = [(" more: ", " more"), ("other list: ", "another list, as above")];

/// Shortens the texts of several nodes: omits an explanation that an earlier text has. The
/// explanation is the `why` in `quarantined for 58 s more: why` and in `other list: why`.
pub(crate) fn explained_once(said: impl IntoIterator<Item = String>) -> Vec<String> {
    explained_below("", said)
}

/// As `explained_once`, but also omits an explanation that is in `message`.
pub(crate) fn explained_below(message: &str, said: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut known = HashSet::new();
    let shortened = |said: String| {
        let parts = EXPLAINED.iter().find_map(|(sign, instead)| Some((said.split_once(*sign)?, *instead)));
        let Some(((what, why), instead)) = parts else { return said };
        let is_known = message.contains(why) || !known.insert(why.to_owned());
        if is_known { format!("{what}{instead}") } else { said }
    };
    said.into_iter().map(shortened).collect()
}

/// Merges equal texts of several nodes into one, with the names of these nodes.
pub(crate) fn same_once<'a>(said: impl IntoIterator<Item = (&'a str, String)>) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for (node, what) in said {
        match all.iter_mut().find(|(_, known)| *known == what) {
            Some((nodes, _)) => nodes.extend([", ", node]),
            None => all.push((node.to_owned(), what)),
        }
    }
    all
}

/// A text for JSON: why the command did nothing. The user did not confirm `what`, or there is no
/// terminal.
pub(crate) fn refused(what: &str) -> String {
    if io::stdin().is_terminal() { format!("{what}; the answer was no") } else { format!("{what}; say --yes") }
}

/// Writes one or more lines to standard output, after the notes on standard error. Writes in
/// another thread, so that renewals and signals go on even if nobody reads the output.
///
/// # Cancel safety
/// If the future is dropped, the text may be written later, or never.
pub(crate) async fn say(text: &str) -> io::Result<()> {
    let line = format!("{text}\n");
    let written = move || {
        wait();
        to_stdout(line.as_bytes())
    };
    tokio::task::spawn_blocking(written).await.map_err(io::Error::other)?
}

/// Standard error as a terminal, for progress bars.
pub(crate) fn terminal() -> Term {
    Term::read_write_pair(io::stdin(), Stderr)
}

/// Logs the library's events to standard error. Never logs events of other crates, which do not
/// hide passwords.
pub(crate) fn log(format: Format, verbose: bool, default: LevelFilter) {
    let _ = FORMAT.set(format);
    let level = if verbose { LevelFilter::DEBUG } else { default };
    let filter = Targets::new().with_target("quorumlock", level).with_target(NOTES, LevelFilter::INFO);
    let colours = io::stderr().is_terminal() && console::colors_enabled_stderr();
    let layer = tracing_subscriber::fmt::layer().with_writer(|| Stderr).with_ansi(colours).with_target(false);
    let registry = tracing_subscriber::registry();
    let _ = match (format, verbose) {
        // Programs that read logs expect the fields on the same level as the message.
        (Format::Json, _) => registry.with(layer.json().flatten_event(true).with_filter(filter)).try_init(),
        (Format::Text, true) => registry.with(layer.with_filter(filter)).try_init(),
        (Format::Text, false) => registry.with(layer.event_format(Plain).with_filter(filter)).try_init(),
    };
}

/// Writes events in the form of the command's own notes.
struct Plain;

impl<S, N> FormatEvent<S, N> for Plain
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        write!(writer, "quorumlock: ")?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

pub(crate) fn bold(text: &str) -> String {
    Style::new().bold().apply_to(text).to_string()
}

pub(crate) fn green(text: &str) -> String {
    Style::new().green().apply_to(text).to_string()
}

pub(crate) fn yellow(text: &str) -> String {
    Style::new().yellow().apply_to(text).to_string()
}

pub(crate) fn red(text: &str) -> String {
    Style::new().red().apply_to(text).to_string()
}

/// Rows under a heading, with aligned columns. The last column is not padded.
pub(crate) fn table(heading: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let heading = heading.iter().map(|title| bold(title)).collect();
    aligned_rows(&[&[heading], rows].concat())
}

/// Pads the cells of the rows, so that columns are aligned.
pub(crate) fn aligned_rows(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| measure_text_width(cell)).max();
    let widths: Vec<_> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    rows.iter().map(|row| aligned(row, &widths)).collect()
}

fn aligned(row: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (index, cell) in row.iter().enumerate() {
        line += cell;
        if index + 1 < row.len() {
            line += &" ".repeat(widths[index].saturating_sub(measure_text_width(cell)) + 2);
        }
    }
    line
}

/// Groups digits: 12,345.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Milliseconds, for JSON.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    // Digits below a microsecond mean nothing.
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// The text `2 of 3 nodes vote`, with these numbers.
pub(crate) fn voting(votes: usize, nodes: usize) -> String {
    if nodes == 1 { format!("{votes} of 1 node votes") } else { format!("{votes} of {nodes} nodes vote") }
}

/// The text of an empty cell of a table.
pub(crate) fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn votes_of_one_node_are_no_plural() {
        assert_eq!([1, 3].map(|nodes| voting(1, nodes)), ["1 of 1 node votes", "1 of 3 nodes vote"]);
    }

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn an_explanation_is_given_once() {
        let said = ["quarantined for 58 s more: it is new", "down: it is new", "quarantined for 57 s more: it is new"];
        let shortened = explained_once(said.map(str::to_owned));
        assert_eq!(shortened, ["quarantined for 58 s more: it is new", "down: it is new", "quarantined for 57 s more"]);
        let said = ["a: other list: theirs is x", "b: other list: theirs is x", "c: down"];
        let shortened = explained_once(said.map(str::to_owned));
        assert_eq!(shortened, ["a: other list: theirs is x", "b: another list, as above", "c: down"]);
        let below = explained_below("no quorum: theirs is x", ["a: other list: theirs is x".to_owned()]);
        assert_eq!(below, ["a: another list, as above"]);
    }

    #[test]
    fn same_text_of_several_nodes_is_printed_once() {
        let said = [("a", "full"), ("b", "down"), ("c", "full")].map(|(node, what)| (node, what.to_owned()));
        assert_eq!(same_once(said), [("a, c", "full"), ("b", "down")].map(|(a, b)| (a.to_owned(), b.to_owned())));
    }

    #[test]
    fn columns_are_aligned_whatever_their_colour() {
        let red = Style::new().red().force_styling(true).apply_to("bad").to_string();
        let rows = vec![vec![red, "x".to_owned()], vec!["longer".to_owned(), "y".to_owned()]];
        let lines: Vec<_> =
            table(&["a", "b"], &rows).iter().map(|line| console::strip_ansi_codes(line).into_owned()).collect();
        assert_eq!(lines, ["a       b", "bad     x", "longer  y"]);
    }
}
