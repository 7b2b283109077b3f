//! The resource that the lock protects: a counter in a file. In its section, a worker also locks a
//! second file with `flock`. So the kernel shows whether two workers are in their sections at once,
//! even if quorumlock has a bug.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// A counter that accepts only a token above all tokens that it has accepted before.
pub(super) struct Counter {
    file: PathBuf,
    scratch: PathBuf,
    inside: PathBuf,
}

/// The result of an increment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Increment {
    Done,
    /// The counter has seen this token or a greater one.
    OldToken,
}

impl Counter {
    /// The counter in `folder`. Each worker writes a scratch file of its own, with `worker` in its
    /// name.
    pub(super) fn new(folder: &Path, worker: &str) -> Self {
        let path = |name: &str| folder.join(name);
        Self { file: path("counter"), scratch: path(&format!("counter.{worker}")), inside: path("inside") }
    }

    /// Enters the critical section: takes the kernel's lock on the file `inside`. The kernel
    /// unlocks the file even if the process is killed. `None` if another worker is in its section.
    pub(super) fn enter(&self) -> io::Result<Option<Inside>> {
        let file = fs::File::options().create(true).append(true).open(&self.inside)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Inside(file))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the counter, checks the token, and writes the counter plus one. If two workers do this
    /// at once, one increment may get lost. The demo notices this, because the final count is then
    /// too low.
    pub(super) fn increment(&self, token: u64) -> io::Result<Increment> {
        let (value, highest) = self.read()?;
        if token <= highest {
            return Ok(Increment::OldToken);
        }
        // The rename is atomic, so a reader never sees half of a file.
        fs::write(&self.scratch, format!("{} {token}\n", value + 1))?;
        fs::rename(&self.scratch, &self.file)?;
        Ok(Increment::Done)
    }

    /// Returns the count and the highest token.
    pub(super) fn read(&self) -> io::Result<(u64, u64)> {
        let text = match fs::read_to_string(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((0, 0)),
            text => text?,
        };
        let mut numbers = text.split_whitespace().map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(value)), Some(Ok(token))) => Ok((value, token)),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the counter's file is damaged")),
        }
    }
}

/// Shows that a worker is in its section. Dropping this value closes the file, which unlocks it.
#[derive(Debug)]
pub(super) struct Inside(#[expect(dead_code, reason = "kept open")] fs::File);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_tokens_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let counter = Counter::new(folder.path(), "a");
        assert_eq!(counter.increment(5).unwrap(), Increment::Done);
        assert_eq!(counter.increment(5).unwrap(), Increment::OldToken);
        assert_eq!(counter.increment(4).unwrap(), Increment::OldToken);
        assert_eq!(counter.increment(6).unwrap(), Increment::Done);
        assert_eq!(counter.read().unwrap(), (2, 6));
    }

    #[test]
    fn a_second_one_inside_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (Counter::new(folder.path(), "a"), Counter::new(folder.path(), "b"));
        let inside = one.enter().unwrap();
        assert!(inside.is_some() && other.enter().unwrap().is_none());
        drop(inside);
        assert!(other.enter().unwrap().is_some());
    }
}
