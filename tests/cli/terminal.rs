//! A pseudo-terminal for commands that ask questions. The test answers at the other end.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::Command;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::Background;

/// A command whose standard input is a terminal.
pub(super) struct Asked {
    command: Background,
    keyboard: File,
}

impl Asked {
    pub(super) fn start(command: &mut Command) -> Self {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let terminal = ptsname(&keyboard, Vec::new()).unwrap();
        let terminal: OwnedFd = open(terminal, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        Self { command: Background::start(command.stdin(terminal)), keyboard: File::from(keyboard) }
    }

    /// Types an answer. `\u{4}` at the start of a line ends the input.
    pub(super) fn answers(&mut self, answer: &str) {
        self.keyboard.write_all(answer.as_bytes()).unwrap();
    }

    pub(super) fn done(self) -> (i32, String, String) {
        self.command.done()
    }
}
