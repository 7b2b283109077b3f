//! Clocks and round trips.

use std::time::Duration;

use quorumlock::{Doubt, NodeState};

use super::super::clock::{Sample, ahead, step};
use super::super::finding::{Finding, Level};
use super::super::node_check::NodeCheck;
use super::super::seen::Node;
use super::{refused, unknown};
use crate::duration::{exact, show};
use crate::status::is_unused;

/// If clocks differ by more than this many seconds, fencing tokens may depend on clocks.
const DAY: f64 = 24.0 * 3_600.0;
/// The smallest difference that the doctor reports, in seconds.
const SECOND: f64 = 1.0;

pub(super) fn findings(node: Node<'_>, check: &NodeCheck) -> Vec<Finding> {
    match &check.clock {
        // `state.rs` reports a step that the library noticed.
        Ok(samples) => match node.status.state {
            NodeState::Quarantined { doubt: Doubt::ClockStepped, .. } if !is_unused(node.status) => {
                vec![differs(samples), trip(node, check)]
            }
            _ => vec![stepped(samples), differs(samples), trip(node, check)],
        },
        Err(why) if node.explains(why) => Vec::new(),
        Err(why) => vec![unknown("clock", "clock and round trip", why, &refused(why, "+time"))],
    }
}

fn stepped(samples: &[Sample]) -> Finding {
    match step(samples) {
        Some(by) => Finding::new(
            Level::Warning,
            "clock-step",
            format!("Its clock moved by {} against this machine's clock.", seconds(by)),
        )
        .why("A clock that is stepped, or runs more than 1 % too fast, ends locks early.")
        .mend("Correct clocks slowly: let chrony slew, with maxslewrate at most 10000."),
        None => Finding::fine("clock-step", "Its clock ran evenly for a second."),
    }
}

fn differs(samples: &[Sample]) -> Finding {
    let by = ahead(samples);
    let what = format!("Its clock is {} {} this machine's.", seconds(by), if by > 0.0 { "ahead of" } else { "behind" });
    let level = match by.abs() {
        difference if difference >= DAY => Level::Warning,
        difference if difference >= SECOND => Level::Hint,
        _ => return Finding::fine("clock-difference", "Its clock shows this machine's time."),
    };
    Finding::new(level, "clock-difference", what)
        .why("Locks do not need equal clocks. If clocks differ by more than a day, fencing tokens may depend on them.")
        .mend("Synchronise the clocks of all servers and clients.")
}

fn trip(node: Node<'_>, check: &NodeCheck) -> Finding {
    let (trip, times) = (check.trip().unwrap_or_default(), node.times);
    let limits = [("node_timeout", times.node_timeout, 2), ("ttl", times.ttl, 10), ("timeout", times.timeout, 10)];
    let over = limits.into_iter().find(|(_, time, part)| trip * *part > *time);
    match over {
        Some((name, time, part)) => slow(trip, name, time, part),
        None => Finding::fine("round-trip", "Its round trips are short enough for ttl and timeouts."),
    }
}

fn slow(trip: Duration, name: &str, time: Duration, part: u32) -> Finding {
    let what = format!("A round trip took {}, more than 1/{part} of {name} ({}).", show(trip), exact(time));
    Finding::new(Level::Warning, "round-trip", what)
        .why("Its votes arrive too late, or renewals have time for few attempts.")
        .mend(format!("Raise {name}, or use a node that is nearer or has less to do."))
}

fn seconds(time: f64) -> String {
    Duration::try_from_secs_f64(time.abs()).map_or_else(|_| format!("{time:.0} s"), show)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_told_with_as_many_digits_as_mean_something() {
        let told = [0.020_4, -1.26, 259_200.04, f64::INFINITY].map(seconds);
        assert_eq!(told, ["20.4 ms", "1.3 s", "3 days", "inf s"]);
    }
}
