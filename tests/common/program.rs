//! Programs that tests start.

use std::ffi::OsStr;
use std::process::Command;
use std::sync::Once;

use rustix::process::Signal;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

/// A command for `program`, whose signals have their default actions: start every child through
/// this function.
///
/// A child inherits ignored signals from its parent, and `nohup` and some CI runners ignore a few.
/// But if the parent has a handler for a signal, this signal has its default action in the child.
/// So each signal that this process ignores gets a handler here that does nothing.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    static HANDLED: Once = Once::new();
    HANDLED.call_once(handle_ignored);
    Command::new(program)
}

fn handle_ignored() {
    let runtime = Builder::new_current_thread().enable_io().build().unwrap();
    let inside = runtime.enter();
    // The standard library ignores SIGPIPE itself, and restores the default action in children.
    let pipe = Signal::PIPE.as_raw();
    for number in ignored().filter(|number| *number != pipe) {
        // The handler stays installed after the listener is dropped.
        let _ = signal(SignalKind::from_raw(number));
    }
    drop(inside);
    runtime.shutdown_background();
}

/// The numbers of the signals that this process ignores, from /proc.
fn ignored() -> impl Iterator<Item = i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.map_or(0, |mask| u64::from_str_radix(mask.trim(), 16).unwrap());
    (1..=64).filter(move |number| mask >> (number - 1) & 1 == 1)
}
