//! The terminal that controls this process.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;

use super::family;

/// Whether there is one, wherever standard input and error lead.
pub(super) fn exists() -> bool {
    let flags = (OFlags::NOCTTY | OFlags::NONBLOCK).bits();
    OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open("/dev/tty").is_ok()
}

/// Whether its keys send signals to this process. Elsewhere than on Linux that is taken for granted.
pub(super) fn reaches_us() -> bool {
    let stat = family::stat("self").unwrap_or_default();
    // Our group, and the one in the foreground.
    stat.get(2) == stat.get(5)
}
