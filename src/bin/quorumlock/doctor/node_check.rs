//! Examines one server over the doctor's own connection. The commands change no data.

use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::clock::Sample;
use crate::raw_connection::connection::{Connection, Reply};
use crate::raw_connection::login::{Failed, Open, said};
use crate::raw_connection::remedies::refuses_connection;
use crate::raw_connection::rights::{Lacks, Names};
use crate::raw_connection::target::Target;
use crate::words::harmless;

/// How many readings of the clock are taken, and the pause between two readings.
const READINGS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);

/// The results of one server's examination.
#[derive(Debug)]
pub(super) struct NodeCheck {
    /// The reply to INFO, or why there is none.
    pub(super) info: Result<String, String>,
    /// Readings of the server's clock, or why there are none.
    pub(super) clock: Result<Vec<Sample>, String>,
    pub(super) lacks: Result<Lacks, String>,
    /// For how many days the server's certificates will be accepted; `None` without TLS.
    pub(super) days: Option<u32>,
    /// Whether the server requires no password, although the settings give one.
    pub(super) unguarded: bool,
}

impl NodeCheck {
    /// Examines a server. Waits for each reply for `step` at most. Blocks the thread.
    pub(super) fn of(target: &Target, names: &Names, step: Duration) -> Result<Self, Failed> {
        let Open { mut connection, days, unguarded } = Open::to(target, step)?;
        let failed = |error: io::Error| Failed::asking(target, &error);
        let info = connection.ask(&["INFO"]).map_err(failed)?.text();
        if let Err(why) = &info
            && refuses_connection(why)
        {
            return Err(Failed::refused("INFO", why.clone()));
        }
        let info = info.map(|info| info.lines().map(harmless).collect::<Vec<_>>().join("\n"));
        let clock = readings(&mut connection).map_err(failed)?;
        // Ask for rights last: `Lacks::ask` subscribes, and a subscribed connection accepts few
        // commands.
        let lacks = Lacks::ask(&mut connection, names).map_err(|error| said(&error));
        Ok(Self { info, clock, lacks, days, unguarded })
    }

    /// The value of a field of INFO.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.info.as_deref().ok()?.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.field(name)?.parse().ok()
    }

    /// The median round trip of all readings.
    pub(super) fn trip(&self) -> Option<Duration> {
        let mut trips: Vec<_> = self.clock.as_ref().ok()?.iter().map(Sample::trip).collect();
        trips.sort_unstable();
        trips.get(trips.len() / 2).copied()
    }
}

fn readings(connection: &mut Connection) -> io::Result<Result<Vec<Sample>, String>> {
    let mut samples = Vec::new();
    for index in 0..READINGS {
        sleep(PAUSE * u32::from(index > 0));
        let sent = Instant::now();
        match connection.ask(&["TIME"])? {
            Reply::Refused(why) => return Ok(Err(why)),
            reply => {
                samples.push(Sample::taken(sent, time(&reply).ok_or_else(|| io::Error::other("reply has no time"))?))
            }
        }
    }
    Ok(Ok(samples))
}

/// The time in a reply to TIME: seconds and microseconds.
fn time(reply: &Reply) -> Option<Duration> {
    let Reply::Array(parts) = reply else { return None };
    let number = |part: &Reply| match part {
        Reply::Text(text) => text.parse().ok(),
        _ => None,
    };
    let [seconds, micros] = parts.as_slice() else { return None };
    Some(Duration::from_secs(number(seconds)?) + Duration::from_micros(number(micros)?))
}

#[cfg(test)]
impl NodeCheck {
    /// The results of a server that replied only to INFO, with this text.
    pub(super) fn told(info: &str) -> Self {
        let nothing = || "not asked".to_owned();
        Self { info: Ok(info.to_owned()), clock: Err(nothing()), lacks: Err(nothing()), days: None, unguarded: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_and_microseconds() {
        let text = |text: &str| Reply::Text(text.to_owned());
        assert_eq!(time(&Reply::Array(vec![text("7"), text("250000")])), Some(Duration::from_millis(7_250)));
        assert_eq!(time(&Reply::Array(vec![text("7")])), None);
        assert_eq!(time(&text("7")), None);
    }

    #[test]
    fn fields_of_info_are_found() {
        let check = NodeCheck::told("# Memory\r\nused_memory:12\r\nmaxmemory_policy:noeviction\r\n");
        assert_eq!((check.number("used_memory"), check.number("maxmemory_policy")), (Some(12), None));
        assert_eq!((check.field("maxmemory_policy"), check.field("used")), (Some("noeviction"), None));
    }
}
