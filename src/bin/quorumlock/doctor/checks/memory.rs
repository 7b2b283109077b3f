//! Whether a server evicts keys, and how much memory it has left.

use super::super::finding::{Finding, Level};
use super::super::node_check::NodeCheck;
use super::super::seen::Node;

/// The share of `maxmemory` that a server should have left.
const HEAD_ROOM: f64 = 0.1;

pub(super) fn findings(node: Node<'_>, check: &NodeCheck) -> [Finding; 2] {
    [eviction(node, check), room(check)]
}

fn eviction(node: Node<'_>, check: &NodeCheck) -> Finding {
    let policy = check.field("maxmemory_policy").unwrap_or("noeviction");
    match &node.status.evicts {
        Some(policy) => evicts(Level::Unsafe, format!("Its maxmemory-policy is {policy}, and maxmemory is set.")),
        None if policy != "noeviction" && check.number("maxmemory") != Some(0) => {
            evicts(Level::Unsafe, format!("Its maxmemory-policy is {policy}, and maxmemory is set."))
        }
        None if policy != "noeviction" => {
            evicts(Level::Hint, format!("Its maxmemory-policy is {policy}, which takes effect once maxmemory is set."))
        }
        None => Finding::fine("eviction", "It evicts nothing."),
    }
}

fn evicts(level: Level, what: String) -> Finding {
    Finding::new(level, "eviction", what)
        .why("A server that has evicted a lock may grant it to a second client.")
        .mend("Set maxmemory-policy to noeviction.")
}

fn room(check: &NodeCheck) -> Finding {
    let (Some(used), Some(limit)) = (check.number("used_memory"), check.number("maxmemory")) else {
        return super::unknown("memory", "memory", "INFO does not show it", "Use Redis 6 or later, or Valkey.");
    };
    // The limit `maxmemory` does not include some buffers, such as those of replicas.
    let used = used.saturating_sub(check.number("mem_not_counted_for_evict").unwrap_or(0));
    if limit == 0 {
        return Finding::fine("memory", "maxmemory is not set: the machine's memory is the limit.");
    }
    let room = 1.0 - used as f64 / limit as f64;
    match room {
        room if room < 0.0 => low("It has no memory left", "It grants no lock, and has no vote."),
        room if room < HEAD_ROOM => {
            low(&format!("It has {:.0} % of its memory left", room * 100.0), "Without memory it grants no lock.")
        }
        room => Finding::fine("memory", format!("It has {:.0} % of its memory left.", room * 100.0)),
    }
}

fn low(what: &str, why: &'static str) -> Finding {
    Finding::new(Level::Warning, "memory", format!("{what}."))
        .why(why)
        .mend("Raise maxmemory, or delete other keys of that server.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_memory_is_a_warning_and_none_more_so() {
        let said = |used: u64, limit: u64, replicas: u64| {
            let fields = [("used_memory", used), ("maxmemory", limit), ("mem_not_counted_for_evict", replicas)];
            let finding = room(&NodeCheck::told(&fields.map(|(name, number)| format!("{name}:{number}\r\n")).concat()));
            (finding.level, finding.what)
        };
        assert_eq!(said(500, 1_000, 0), (Level::Fine, "It has 50 % of its memory left.".to_owned()));
        assert_eq!(said(950, 1_000, 0), (Level::Warning, "It has 5 % of its memory left.".to_owned()));
        assert_eq!(said(1_001, 1_000, 0), (Level::Warning, "It has no memory left.".to_owned()));
        assert_eq!(said(1_001, 1_000, 501).0, Level::Fine, "buffers of replicas do not count");
        assert_eq!(said(1_001, 0, 0).0, Level::Fine, "no limit is set");
        assert_eq!(room(&NodeCheck::told("")).level, Level::Unknown);
    }
}
