//! A terminal for commands that draw: a pseudo-terminal, and a parser that works out what its
//! screen shows.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::{Background, until};
use crate::common::{PATIENCE, program};

/// A command with a terminal of its own.
pub(super) struct Screen {
    command: Option<Background>,
    keyboard: File,
    terminal: OwnedFd,
    shown: Arc<Mutex<Shown>>,
    gone: Arc<AtomicBool>,
}

/// The bytes that were written, and the screen that they draw.
struct Shown {
    parser: vt100::Parser,
    written: Vec<u8>,
}

impl Screen {
    pub(super) fn start(command: &Command, columns: u16, rows: u16) -> Self {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let path = ptsname(&keyboard, Vec::new()).unwrap();
        let terminal: OwnedFd = open(path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        tcsetwinsize(&terminal, size(columns, rows)).unwrap();
        let shown = Shown { parser: vt100::Parser::new(rows, columns, 0), written: Vec::new() };
        let (keyboard, shown) = (File::from(keyboard), Arc::new(Mutex::new(shown)));
        let gone = Arc::new(AtomicBool::new(false));
        read(keyboard.try_clone().unwrap(), shown.clone(), gone.clone());
        let command = Some(Background::start(&mut with_terminal(command, &terminal)));
        Self { command, keyboard, terminal, shown, gone }
    }

    pub(super) fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Changes the terminal's size, as if a user dragged the corner of a window.
    pub(super) fn resize(&self, columns: u16, rows: u16) {
        self.shown.lock().unwrap().parser.screen_mut().set_size(rows, columns);
        tcsetwinsize(&self.terminal, size(columns, rows)).unwrap();
    }

    pub(super) fn send(&mut self, signal: Signal) {
        self.command.as_mut().unwrap().send(signal);
    }

    pub(super) fn text(&self) -> String {
        self.shown.lock().unwrap().parser.screen().contents()
    }

    /// All text that was written to the terminal.
    pub(super) fn written(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap().written).into_owned()
    }

    pub(super) fn shows(&self, what: &str) {
        self.comes_to(what, |text| text.contains(what));
    }

    /// Waits until the text on the screen is `right`.
    pub(super) fn comes_to(&self, what: &str, right: impl Fn(&str) -> bool) {
        let began = Instant::now();
        while !right(&self.text()) {
            assert!(began.elapsed() < PATIENCE, "never shown: {what}\n{}", self.text());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Waits until the command has ended and the terminal is as before. Returns the exit code.
    pub(super) fn ends(mut self) -> i32 {
        let (code, ..) = self.command.take().unwrap().done();
        until("the terminal is given back", || {
            let shown = self.shown.lock().unwrap();
            let screen = shown.parser.screen();
            !screen.alternate_screen() && !screen.hide_cursor()
        });
        let modes = tcgetattr(&self.terminal).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG), "{modes:?}");
        code
    }

    /// Closes the terminal, as if a user closed its window. Returns the command's exit code.
    pub(super) fn goes(mut self) -> i32 {
        let command = self.command.take().unwrap();
        self.gone.store(true, Ordering::Relaxed);
        drop(self);
        command.done().0
    }

    /// Whether the command draws on the whole screen (and does not just write lines).
    pub(super) fn is_taken_over(&self) -> bool {
        let raw = !tcgetattr(&self.terminal).unwrap().local_modes.contains(LocalModes::ICANON);
        raw && self.shown.lock().unwrap().parser.screen().alternate_screen()
    }
}

pub(super) const fn size(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Runs the command with `terminal` as its controlling terminal. Only a controlling terminal sends
/// SIGWINCH when its size changes.
fn with_terminal(command: &Command, terminal: &OwnedFd) -> Command {
    let mut own = program::command("setsid");
    own.arg("-c").arg(command.get_program()).args(command.get_args()).env("TERM", "xterm-256color");
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => own.env(name, value),
            None => own.env_remove(name),
        };
    }
    let end = || Stdio::from(terminal.try_clone().unwrap());
    own.stdin(end()).stdout(end()).stderr(end());
    own
}

/// Starts a thread that reads the terminal's output until the terminal is gone.
fn read(mut terminal: File, shown: Arc<Mutex<Shown>>, gone: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        let (mut bytes, now_and_then) = ([0; 4096], Timespec { tv_sec: 0, tv_nsec: 20_000_000 });
        while !gone.load(Ordering::Relaxed) {
            if let Ok(0) = poll(&mut [PollFd::new(&terminal, PollFlags::IN)], Some(&now_and_then)) {
                continue;
            }
            let Ok(count @ 1..) = terminal.read(&mut bytes) else { return };
            let mut shown = shown.lock().unwrap();
            shown.written.extend_from_slice(&bytes[..count]);
            shown.parser.process(&bytes[..count]);
        }
    });
}
