//! The events that workers report, one line for each. All times come from one clock of the machine.

use std::io::Write;
use std::str::FromStr;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the machine's monotonic clock, which is the same for all processes.
pub fn clock() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}

/// One event of one task. Each `at` was read before the state that the event reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The lock was acquired, and was held at `at`. Without a later event, the lock is held until
    /// `deadline`.
    Believed { name: usize, token: u64, at: u64, deadline: u64 },
    /// The lock was still held at `at`, and is now held until `deadline`.
    Still { at: u64, deadline: u64 },
    /// The lock was lost, at its deadline (`expired`) or before. The holder knew this at `at`.
    Told { expired: bool, at: u64 },
    /// The lock was held until the last `Still`, and is released now.
    Released { at: u64 },
    /// The process stops itself now.
    Stopping,
    /// An acquisition ended without the lock.
    Missed,
    /// The memory of the process in kilobytes, and the number of its tasks.
    Uses { memory: u64, tasks: u64 },
}

/// Writes one line to standard output, in one piece.
pub fn tell(task: usize, event: &Event) {
    let text = match event {
        Event::Believed { name, token, at, deadline } => format!("believed {name} {token} {at} {deadline}"),
        Event::Still { at, deadline } => format!("still {at} {deadline}"),
        Event::Told { expired, at } => format!("told {} {at}", u8::from(*expired)),
        Event::Released { at } => format!("released {at}"),
        Event::Stopping => "stopping".to_owned(),
        Event::Missed => "missed".to_owned(),
        Event::Uses { memory, tasks } => format!("uses {memory} {tasks}"),
    };
    let line = format!("{task} {text}\n");
    // Ignore errors: if the parent process has ended, the worker notices this by standard input.
    let _ = std::io::stdout().lock().write_all(line.as_bytes());
}

/// Parses one line: the task and its event. `None` if a kill cut the line short.
pub fn parse(line: &str) -> Option<(usize, Event)> {
    let words: Vec<_> = line.split(' ').collect();
    let [task, verb, rest @ ..] = words.as_slice() else { return None };
    let event = match (*verb, rest) {
        ("believed", [name, token, at, deadline]) => {
            Event::Believed { name: number(name)?, token: number(token)?, at: number(at)?, deadline: number(deadline)? }
        }
        ("still", [at, deadline]) => Event::Still { at: number(at)?, deadline: number(deadline)? },
        ("told", [expired, at]) => Event::Told { expired: *expired == "1", at: number(at)? },
        ("released", [at]) => Event::Released { at: number(at)? },
        ("stopping", []) => Event::Stopping,
        ("missed", []) => Event::Missed,
        ("uses", [memory, tasks]) => Event::Uses { memory: number(memory)?, tasks: number(tasks)? },
        _ => return None,
    };
    Some((number(task)?, event))
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}
