//! What a server has done so far, by its own counters.

use std::collections::BTreeMap;
use std::io;
use std::ops::{AddAssign, Sub};
use std::time::Duration;

use super::super::probe::{Probe, field};

/// Asked by this benchmark, and by the library once in a while whatever its callers do: no part of
/// a pair.
const LOOKING: &str = "info";

/// Of one server.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Counts {
    /// How often each command was carried out. A script's own call counts, and so does each command
    /// that the script calls.
    pub(super) commands: BTreeMap<String, u64>,
    /// The CPU time of the thread that carries commands out.
    pub(super) cpu: Duration,
}

impl Counts {
    pub(super) fn read(probe: &mut Probe) -> io::Result<Self> {
        let commands = probe.info("commandstats")?.lines().filter_map(calls).collect();
        Ok(Self { commands, cpu: cpu(&probe.info("cpu")?).unwrap_or_default() })
    }

    pub(super) fn total(&self) -> u64 {
        self.commands.values().sum()
    }
}

/// `cmdstat_set:calls=12,usec=34,..`
fn calls(line: &str) -> Option<(String, u64)> {
    let (command, figures) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
    let count = figures.split(',').next()?.parse().ok()?;
    (command != LOOKING).then(|| (command.to_owned(), count))
}

/// In user and in kernel space. Servers that do not tell it of one thread tell it of all.
fn cpu(info: &str) -> Option<Duration> {
    let seconds = |name: &str| {
        let thread = field(info, &format!("{name}_main_thread"));
        thread.or_else(|| field(info, name))?.parse::<f64>().ok()
    };
    Duration::try_from_secs_f64(seconds("used_cpu_user")? + seconds("used_cpu_sys")?).ok()
}

impl Sub<&Self> for Counts {
    type Output = Self;

    /// What was done since `before`. A command that was not is not listed.
    fn sub(self, before: &Self) -> Self {
        let since = |(name, count): (String, u64)| {
            let grown = count - before.commands.get(&name).copied().unwrap_or_default().min(count);
            (grown > 0).then_some((name, grown))
        };
        Self {
            commands: self.commands.into_iter().filter_map(since).collect(),
            cpu: self.cpu.saturating_sub(before.cpu),
        }
    }
}

impl AddAssign<&Self> for Counts {
    fn add_assign(&mut self, other: &Self) {
        for (name, count) in &other.commands {
            *self.commands.entry(name.clone()).or_default() += count;
        }
        self.cpu += other.cpu;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_to_look_does_not_count() {
        let lines = ["cmdstat_set:calls=12,usec=3", "cmdstat_script|load:calls=1,usec=9", "cmdstat_info:calls=5", "#"];
        let read: Vec<_> = lines.into_iter().filter_map(calls).collect();
        assert_eq!(read, [("set".to_owned(), 12), ("script|load".to_owned(), 1)]);
    }

    #[test]
    fn the_time_of_the_thread_that_carries_commands_out_is_preferred() {
        let all = "used_cpu_sys:1.5\r\nused_cpu_user:2.5\r\nused_cpu_sys_children:9\r\n";
        assert_eq!(cpu(all), Some(Duration::from_secs(4)));
        let one = format!("{all}used_cpu_sys_main_thread:1.0\r\nused_cpu_user_main_thread:2.0\r\n");
        assert_eq!(cpu(&one), Some(Duration::from_secs(3)));
        assert_eq!(cpu(""), None);
    }

    #[test]
    fn only_what_grew_is_listed() {
        let counts = |set, get, cpu| Counts {
            commands: [("set".to_owned(), set), ("get".to_owned(), get)].into(),
            cpu: Duration::from_micros(cpu),
        };
        let mut grown = counts(5, 7, 90) - &counts(2, 7, 40);
        assert_eq!(grown, Counts { commands: [("set".to_owned(), 3)].into(), cpu: Duration::from_micros(50) });
        grown += &counts(1, 1, 10);
        assert_eq!((grown.total(), grown.cpu), (5, Duration::from_micros(60)));
    }
}
