//! Prepares the terminal for `watch`, and restores it at the end, even after a panic.

use std::io::{self, Write};
use std::mem::{self, ManuallyDrop};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::cursor::Show;
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::{Rect, Size};
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};

use crate::output;
use crate::output_queue::OutputQueue;

/// The largest part of a terminal that is drawn on. This limits memory: a cell is stored twice.
const LARGEST: Size = Size { width: 1_000, height: 500 };

/// The queue of frames. At most one frame waits. No frame may be dropped, because the next frame
/// has only the cells that changed.
static FRAMES: OutputQueue = OutputQueue::new(usize::MAX, output::to_stdout, |_| {});

static PANICKED: AtomicBool = AtomicBool::new(false);

/// The whole terminal. Dropping this value restores the terminal. A panic restores the terminal
/// before the panic's message is written.
///
/// Ratatui's own drop must not run: it writes to standard error, and panics if that fails.
pub(super) struct Screen(ManuallyDrop<Terminal<CrosstermBackend<Frames>>>);

impl Screen {
    pub(super) fn enter() -> io::Result<Self> {
        give_back_on_panic();
        // If a step fails, `give_back` undoes the steps before.
        let entered = || {
            enable_raw_mode()?;
            let mut frames = Frames::default();
            execute!(frames, EnterAlternateScreen)?;
            let viewport = Viewport::Fixed(room(crossterm::terminal::size()?.into()));
            Terminal::with_options(CrosstermBackend::new(frames), TerminalOptions { viewport })
        };
        entered().map(ManuallyDrop::new).map(Self).inspect_err(|_| give_back())
    }

    /// Draws a frame in the terminal's present size. Draws nothing until the previous frame is
    /// written.
    pub(super) fn draw(&mut self, content: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        if PANICKED.load(Ordering::Relaxed) {
            return Err(io::Error::other("a part of watch panicked; the message is above"));
        }
        if !FRAMES.is_written()? {
            return Ok(());
        }
        let room = room(self.0.size()?);
        if self.0.get_frame().area() != room {
            self.0.resize(room)?;
        }
        self.0.draw(content).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Collects output for the screen. Each flush queues the output as a frame, or as a part of a
/// frame.
#[derive(Debug, Default)]
struct Frames(Vec<u8>);

impl Write for Frames {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        FRAMES.push(&mem::take(&mut self.0));
        Ok(())
    }
}

fn room(size: Size) -> Rect {
    Rect::new(0, 0, size.width.min(LARGEST.width), size.height.min(LARGEST.height))
}

/// Restores the terminal. Errors are ignored, because the terminal may be closed already.
fn give_back() {
    let mut frames = Frames::default();
    let _ = execute!(frames, LeaveAlternateScreen, Show);
    FRAMES.wait();
    let _ = disable_raw_mode();
}

/// Restores the terminal before a panic writes its message, so that the message stays visible.
fn give_back_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let told = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            // Nothing may be drawn after a panic, even if the panic is caught.
            PANICKED.store(true, Ordering::Relaxed);
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
    use tokio::runtime::Runtime;
    use tokio::signal::unix::{SignalKind, signal};

    use super::*;

    #[test]
    fn a_huge_terminal_takes_little_memory() {
        let drawn = room(Size::new(u16::MAX, u16::MAX));
        assert_eq!((drawn.width, drawn.height), (1_000, 500));
        assert_eq!(room(Size::new(80, 24)), Rect::new(0, 0, 80, 24));
    }

    #[test]
    #[ignore = "another test runs it, in a terminal"]
    fn panics_while_it_draws() {
        let mut screen = Screen::enter().unwrap();
        // `draw` does nothing until the previous frame is written.
        while screen.draw(|_| panic!("something is wrong")).is_ok() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_panic_is_told_on_a_terminal_that_was_given_back() {
        // The parent process may have set SIGCHLD to be ignored. Then exit statuses are lost
        // without this handler.
        let _heard = Runtime::new().unwrap().block_on(async { signal(SignalKind::child()) }).unwrap();
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
        assert!(!status.success(), "the inner test panics");
        let modes = tcgetattr(&terminal).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO), "{modes:?}");
        // All writers are closed, so the reading ends. A pty reports this end as an error.
        drop((command, terminal));
        let (mut written, mut keyboard) = (Vec::new(), File::from(keyboard));
        let _ = keyboard.read_to_end(&mut written);
        let written = String::from_utf8_lossy(&written);
        let (before, after) = written.split_once("\u{1b}[?1049l").expect("the other screen is left");
        assert!(before.contains("\u{1b}[?1049h") && after.contains("something is wrong"), "{written:?}");
    }
}
