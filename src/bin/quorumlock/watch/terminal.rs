//! The terminal while it is drawn on: taken over at the beginning, and given back however that ends.

use std::io::{self, Stdout, stdout};
use std::panic;
use std::sync::Once;

use crossterm::cursor::Show;
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::backend::CrosstermBackend;
use ratatui::{Frame, Terminal};

/// The whole terminal. Dropping it gives the terminal back, and so does a panic before it tells of
/// itself.
pub(super) struct Screen(Terminal<CrosstermBackend<Stdout>>);

impl Screen {
    pub(super) fn enter() -> io::Result<Self> {
        give_back_on_panic();
        // Whatever of this fails, what was done is undone.
        let entered = || {
            enable_raw_mode()?;
            execute!(stdout(), EnterAlternateScreen)?;
            Terminal::new(CrosstermBackend::new(stdout()))
        };
        entered().map(Self).inspect_err(|_| give_back())
    }

    pub(super) fn draw(&mut self, content: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.0.draw(content).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// A terminal that has gone needs nothing back.
fn give_back() {
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// What a panic says must be seen on the screen that stays.
fn give_back_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let told = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            give_back();
            told(what);
        }));
    });
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::OwnedFd;
    use std::process::{Command, Stdio};

    use rustix::fs::{Mode, OFlags, open};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, tcgetattr};

    use super::*;

    #[test]
    #[ignore = "another test runs it, in a terminal"]
    fn panics_while_it_draws() {
        let mut screen = Screen::enter().unwrap();
        let _ = screen.draw(|_| panic!("something is wrong"));
    }

    #[test]
    fn a_panic_is_told_on_a_terminal_that_was_given_back() {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let path = ptsname(&keyboard, Vec::new()).unwrap();
        let terminal: OwnedFd = open(path, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let end = || Stdio::from(terminal.try_clone().unwrap());
        let mut command = Command::new("setsid");
        command.arg("-c").arg(std::env::current_exe().unwrap()).args(["--ignored", "--nocapture", "--exact"]);
        command.arg("watch::terminal::tests::panics_while_it_draws").env("RUST_BACKTRACE", "0");
        let status = command.stdin(end()).stdout(end()).stderr(end()).status().unwrap();
        assert!(!status.success(), "the test in it panics");
        let modes = tcgetattr(&terminal).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO), "{modes:?}");
        let mut written = [0; 4096];
        let length = File::from(keyboard).read(&mut written).unwrap();
        let written = String::from_utf8_lossy(&written[..length]);
        let (before, after) = written.split_once("\u{1b}[?1049l").expect("the other screen is left");
        assert!(before.contains("\u{1b}[?1049h") && after.contains("something is wrong"), "{written:?}");
    }
}
