//! Makes text as wide as its place on the screen, and replaces characters that move the cursor.

use std::time::Duration;

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

use super::seen::Mood;
use crate::duration::show;

/// Replaces a character that must not reach a terminal.
const REPLACED: char = '\u{fffd}';
const CUT: &str = "..";

/// Cuts the text at its end, or pads it, to exactly `columns` columns.
pub(super) fn fit(text: &str, columns: usize) -> String {
    let clean: String = text.chars().map(|it| if it.is_control() { REPLACED } else { it }).collect();
    let mut fitted = if width(&clean) <= columns { clean } else { cut(&clean, columns) };
    fitted.extend(std::iter::repeat_n(' ', columns.saturating_sub(width(&fitted))));
    fitted
}

/// Cuts the text so that it fits with `..` at its end.
fn cut(text: &str, columns: usize) -> String {
    let sign = &CUT[..CUT.len().min(columns)];
    let (mut kept, mut room) = (String::new(), columns - sign.len());
    for character in text.chars() {
        let wide = width(character.encode_utf8(&mut [0; 4]));
        if wide > room {
            break;
        }
        room -= wide;
        kept.push(character);
    }
    kept + sign
}

/// Cuts the beginning of the text if it is wider than `columns`: addresses differ at their ends.
pub(super) fn end_of(text: &str, columns: usize) -> String {
    let reversed = |text: &str| text.chars().rev().collect::<String>();
    if width(text) <= columns { text.to_owned() } else { reversed(&cut(&reversed(text), columns)) }
}

/// The text in one line, or in two lines if it is wider. The second line is cut at its end.
pub(super) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let spaces = text.match_indices(' ').map(|(at, _)| at);
    match spaces.take_while(|at| width(&text[..*at]) <= columns).last() {
        Some(at) if width(text) > columns => vec![fit(&text[..at], columns), fit(&text[at + 1..], columns)],
        _ => vec![fit(text, columns)],
    }
}

pub(super) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// A row of cells that have these widths, and two columns between them.
pub(super) fn cells<'a>(cells: impl IntoIterator<Item = (&'a str, usize)>) -> String {
    let fitted: Vec<_> = cells.into_iter().map(|(text, columns)| fit(text, columns)).collect();
    fitted.join("  ")
}

/// An age as text, in whole seconds.
pub(super) fn ago(time: Duration) -> String {
    show(Duration::from_secs(time.as_secs()))
}

pub(super) const fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

pub(super) const fn faint() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

pub(super) const fn coloured(mood: Mood) -> Style {
    Style::new().fg(match mood {
        Mood::Good => Color::Green,
        Mood::Doubtful => Color::Yellow,
        Mood::Bad => Color::Red,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_as_wide_as_its_place() {
        assert_eq!(fit("job", 5), "job  ");
        assert_eq!(fit("a long name", 6), "a lo..");
        assert_eq!(["job", "job", "job"].map(|it| fit(it, 2)), [".."; 3]);
        assert_eq!((fit("job", 1), fit("job", 0)), (".".to_owned(), String::new()));
    }

    #[test]
    fn text_is_cut_in_front_or_wrapped() {
        assert_eq!((end_of("n1:7914", 7), end_of("n1:7914", 5)), ("n1:7914".to_owned(), "..914".to_owned()));
        assert_eq!(end_of("n1:7914", 1), ".");
        assert_eq!(wrap("one two", 7), ["one two"]);
        assert_eq!(wrap("one two", 6), ["one   ", "two   "]);
        assert_eq!(wrap("one two three", 7), ["one two", "three  "]);
        assert_eq!(wrap("one two three four", 7), ["one two", "three.."]);
        assert_eq!(wrap("onetwothree", 7), ["onetw.."]);
    }

    #[test]
    fn wide_characters_are_counted_as_such() {
        assert_eq!(fit("錠前の名前", 7), "錠前.. ");
        assert_eq!(width(&fit("錠前の名前", 6)), 6);
    }

    #[test]
    fn control_characters_are_replaced_before_display() {
        assert_eq!(fit("a\u{1b}[2Jb\n", 8), "a\u{fffd}[2Jb\u{fffd} ");
    }
}
