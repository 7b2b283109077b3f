//! What workers tell of what they do: one line an event, with one clock for the whole machine.

use std::io::Write;
use std::str::FromStr;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the machine's monotonic clock, the same in every process.
pub fn clock() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}

/// One event of one task. Every `at` was read before what it vouches for was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The lock was acquired, and held at `at`; held until `deadline` unless renewed or told
    /// otherwise.
    Believed { name: usize, token: u64, at: u64, deadline: u64 },
    /// It was still held at `at`, now until `deadline`.
    Still { at: u64, deadline: u64 },
    /// It was lost, by its deadline or earlier, as its holder knew by `at`.
    Told { expired: bool, at: u64 },
    /// It was held until the last `Still`, and is released now.
    Released { at: u64 },
    /// The process stops itself now.
    Stopping,
    /// An acquisition ended without the lock.
    Missed,
    /// What the process uses: kilobytes of memory, tasks.
    Uses { memory: u64, tasks: u64 },
}

/// Writes one line to standard output, whole.
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
    // A runner that is gone is noticed by standard input.
    let _ = std::io::stdout().lock().write_all(line.as_bytes());
}

/// Reads one line: which task, and what. A line that a kill cut short is none.
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
