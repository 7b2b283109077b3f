//! Handles the keys that the user presses.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::event::{Event, Kind};

/// The most characters of a filter.
const LONGEST: usize = 64;
/// How many rows the page keys scroll.
const PAGE: usize = 10;

/// What the user has selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Controls {
    /// Whether a filter is being typed.
    pub(super) typing: bool,
    /// The text that names and events must contain. Upper and lower case are the same.
    pub(super) text: String,
    /// Which events are shown; `None` for all.
    pub(super) kind: Option<Kind>,
    /// How many rows of the list are above the screen.
    pub(super) scrolled: usize,
}

/// What the loop does after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Stay,
    Quit,
}

impl Controls {
    pub(super) fn pressed(&mut self, key: KeyEvent) -> Next {
        if key.kind == KeyEventKind::Release {
            return Next::Stay;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Next::Quit } else { Next::Stay };
        }
        if self.typing {
            self.types(key.code);
            return Next::Stay;
        }
        self.selects(key.code)
    }

    fn types(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => (self.typing, self.text) = (false, String::new()),
            KeyCode::Backspace => drop(self.text.pop()),
            KeyCode::Char(typed) if self.text.chars().count() < LONGEST => self.text.push(typed),
            _ => {}
        }
        self.scrolled = 0;
    }

    fn selects(&mut self, key: KeyCode) -> Next {
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return Next::Quit,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('e') => (self.kind, self.scrolled) = (Kind::after(self.kind), 0),
            KeyCode::Down | KeyCode::Char('j') => self.scrolled = self.scrolled.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => self.scrolled = self.scrolled.saturating_sub(1),
            KeyCode::PageDown => self.scrolled = self.scrolled.saturating_add(PAGE),
            KeyCode::PageUp => self.scrolled = self.scrolled.saturating_sub(PAGE),
            KeyCode::Home => self.scrolled = 0,
            _ => {}
        }
        Next::Stay
    }

    pub(super) fn shows_name(&self, name: &str) -> bool {
        self.text.is_empty() || name.to_lowercase().contains(&self.text.to_lowercase())
    }

    pub(super) fn shows(&self, event: &Event) -> bool {
        let found = || self.shows_name(&event.subject) || self.shows_name(&event.text);
        self.kind.is_none_or(|kind| kind == event.kind) && found()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::seen::Mood;

    fn press(controls: &mut Controls, codes: &[KeyCode]) -> Next {
        codes.iter().fold(Next::Stay, |_, &code| controls.pressed(KeyEvent::new(code, KeyModifiers::NONE)))
    }

    #[test]
    fn q_escape_and_control_c_quit() {
        let mut controls = Controls::default();
        for code in [KeyCode::Char('q'), KeyCode::Esc] {
            assert_eq!(press(&mut controls, &[code]), Next::Quit, "{code:?}");
        }
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(controls.pressed(control_c), Next::Quit);
        assert_eq!(press(&mut controls, &[KeyCode::Char('c'), KeyCode::Char('x')]), Next::Stay);
        let released = KeyEvent::new_with_kind(KeyCode::Char('q'), KeyModifiers::NONE, KeyEventKind::Release);
        assert_eq!(controls.pressed(released), Next::Stay);
        press(&mut controls, &[KeyCode::Char('/')]);
        assert_eq!(controls.pressed(control_c), Next::Quit, "while a filter is typed too");
    }

    #[test]
    fn a_filter_is_typed_kept_and_cleared() {
        let mut controls = Controls::default();
        let typed = [KeyCode::Char('/'), KeyCode::Char('q'), KeyCode::Char('x'), KeyCode::Backspace, KeyCode::Enter];
        assert_eq!(press(&mut controls, &typed), Next::Stay, "q is a letter there");
        assert_eq!((controls.typing, controls.text.as_str()), (false, "q"));
        assert!(controls.shows_name("Queue") && !controls.shows_name("job"));
        assert_eq!(press(&mut controls, &[KeyCode::Char('/'), KeyCode::Esc]), Next::Stay);
        assert!(controls.shows_name("job") && !controls.typing);
    }

    #[test]
    fn a_filter_is_no_longer_than_it_may_be() {
        let mut controls = Controls { typing: true, ..Controls::default() };
        press(&mut controls, &[KeyCode::Char('x'); 2 * LONGEST]);
        assert_eq!(controls.text.len(), LONGEST);
    }

    #[test]
    fn events_are_selected_by_kind_and_text() {
        let (subject, text) = ("job".to_owned(), "taken by a".to_owned());
        let event = Event { kind: Kind::Lock, subject, text, mood: Mood::Good };
        let mut controls = Controls::default();
        let shown: Vec<_> = (0..4)
            .map(|_| {
                let shown = controls.shows(&event);
                press(&mut controls, &[KeyCode::Char('e')]);
                shown
            })
            .collect();
        assert_eq!(shown, [true, true, false, false]);
        for (text, shown) in [("JOB", true), ("by A", true), ("other", false)] {
            controls.text = text.to_owned();
            assert_eq!(controls.shows(&event), shown, "{text}");
        }
    }

    #[test]
    fn scrolling_stops_at_the_top() {
        let mut controls = Controls::default();
        press(&mut controls, &[KeyCode::Down, KeyCode::PageDown, KeyCode::Up, KeyCode::PageUp, KeyCode::Up]);
        assert_eq!(controls.scrolled, 0);
    }
}
