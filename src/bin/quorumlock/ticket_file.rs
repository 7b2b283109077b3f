//! Files with tickets. A ticket is a secret, so no message contains a ticket's text.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::time::SystemTime;

use quorumlock::Ticket;

use crate::failure::Failure;
use crate::whole_file::WholeFile;

/// A longer file is no ticket.
const LONGEST: u64 = 1 << 16;
/// Only the file's owner may read it.
const MODE: u32 = 0o600;

/// The file of `run --ticket`.
pub(crate) struct TicketFile(WholeFile);

impl TicketFile {
    /// Checks that the file can be written. Refuses a path such as /dev/stdout, which the rename
    /// would replace, and a file that must not be removed: one without a ticket, or with the good
    /// ticket of another lock than `name`.
    pub(crate) fn check(path: &Path, name: &str) -> Result<Self, Failure> {
        let refused = |why: &str| Err(Failure::usage(format!("--ticket {}: {why}", path.display())));
        if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return refused("this is a folder; give the path of a file");
        }
        if path == Path::new("-") {
            return refused("give a file: standard output is the command's (for a file of this name, write ./-)");
        }
        if fs::symlink_metadata(path).is_ok_and(|file| !file.is_file()) {
            return refused("this is not a regular file; give the path of a file, or of none");
        }
        let mut older = Vec::new();
        let _ = File::open(path).and_then(|file| file.take(LONGEST).read_to_end(&mut older));
        match String::from_utf8_lossy(&older).parse::<Ticket>() {
            Err(_) if !older.is_empty() => {
                return refused(
                    "this file has no ticket, and would be removed; give a file with a ticket, or a new one",
                );
            }
            Ok(older) if older.name() != name && older.until() > SystemTime::now() => {
                let other = older.name();
                return refused(&format!(
                    "this file has the ticket of {other:?}; give another file, or release it first"
                ));
            }
            _ => {}
        }
        WholeFile::check(path).map(Self).or_else(|why| refused(&why))
    }

    /// Removes an older ticket. So while the command runs, and after it has failed, there is no
    /// file.
    pub(crate) fn clear(&self) -> Result<(), Failure> {
        match fs::remove_file(self.path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::usage(format!(
                "--ticket {}: this file cannot be replaced: {error}; give another file. The command is not run",
                self.path().display()
            ))),
            _ => Ok(()),
        }
    }

    /// Fails if there is a file: another `run` has made it since [`clear`](Self::clear).
    pub(crate) fn write(&self, ticket: &Ticket) -> io::Result<()> {
        self.0.make(MODE, &format!("{ticket}\n"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Reads the ticket in the file that `option` names.
pub(crate) fn read(option: &str, path: &Path) -> Result<Ticket, Failure> {
    let refused = |why: &str| {
        let advice = "give a file that `quorumlock run --ticket` wrote";
        Failure::usage(format!("{option} {}: {why}; {advice}", path.display()))
    };
    if path == Path::new("-") {
        return Err(refused("no ticket is read from standard input"));
    }
    let mut text = String::new();
    let file = File::open(path).map_err(|error| refused(&error.to_string()))?;
    match file.take(LONGEST).read_to_string(&mut text) {
        Err(error) if error.kind() != io::ErrorKind::InvalidData => return Err(refused(&error.to_string())),
        _ => {}
    }
    text.parse().map_err(|error: quorumlock::Error| refused(&error.to_string()))
}
