//! The terminal that controls this process.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;
use rustix::process::Signal;

use super::process_tree;

/// Whether this process has a terminal, even if standard input and error are redirected.
pub(super) fn exists() -> bool {
    let flags = (OFlags::NOCTTY | OFlags::NONBLOCK).bits();
    OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open("/dev/tty").is_ok()
}

/// Whether the terminal sends this signal to all processes of our group: because of a key, or
/// because the group uses the terminal in the background. Also true if another process sent the
/// signal to this process alone: the two cases look the same.
pub(super) fn sends(signal: Signal) -> bool {
    let by_key = [Signal::INT, Signal::QUIT, Signal::TSTP].contains(&signal) && reaches_us();
    by_key || [Signal::TTIN, Signal::TTOU].contains(&signal)
}

/// Whether the terminal's keys send signals to this process. Always true outside of Linux.
fn reaches_us() -> bool {
    let stat = process_tree::stat("self").unwrap_or_default();
    // Keys send signals to the foreground group: compare our group with it.
    stat.get(2) == stat.get(5)
}
