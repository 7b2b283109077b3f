//! Reports a node's state, and whether the node can be reached.

use quorumlock::{Doubt, NodeState};

use super::super::finding::{Finding, Level};
use super::super::seen::Node;
use super::refused;
use crate::duration::left;
use crate::failure::{Login, refuses_login};
use crate::raw_connection::login::{Kind, TO_TLS};
use crate::raw_connection::remedies;
use crate::status::{has_restarted_unseen, is_idle, is_unused};

/// The remedy if the doctor reached the node and the library did not.
const REACHED: &str = "Run the doctor again. The library did not reach the node, but the doctor did.";
/// The remedy if the node was reached a moment ago, but not now.
const GONE: &str = "Check whether the server still runs, and see its log.";
/// The remedy for a replica whose master is itself a node of the list.
const DETACH: &str = "Make it a master (REPLICAOF NO ONE), or name another server instead.";
/// The remedy if no other remedy is known.
const CHECK: &str = "Start the server, and check its address, the network and firewalls.";

/// TLS errors about this client's own certificate have this text.
const OWN_CERTIFICATE: &str = "this client's certificate";

pub(super) fn findings(node: Node<'_>) -> Vec<Finding> {
    // Other checks report missing rights and refused writes.
    let unread = node.status.unreadable.as_deref().filter(|_| !node.is_limited());
    let state = match &node.status.state {
        NodeState::Down { why } if unread == Some(why.as_str()) => None,
        _ => state(node),
    };
    let explained = |why: &str| why.starts_with("MISCONF") && node.refuses_writes().is_some();
    let silent = node
        .status
        .no_wake_ups
        .as_ref()
        .filter(|why| !node.is_limited() && !node.lacks_channels() && !explained(why))
        .map(|why| silent(why));
    let unguarded = node.told().filter(|check| check.unguarded).map(|_| unguarded());
    state.into_iter().chain(unguarded).chain(unread.map(unreadable)).chain(silent).collect()
}

fn state(node: Node<'_>) -> Option<Finding> {
    let state = &node.status.state;
    Some(match state {
        _ if is_unused(node.status) && node.forgot.is_some() => {
            without_record(node.forgot.unwrap_or_default(), node.times.max_ttl)
        }
        _ if is_unused(node.status) || is_idle(node.status) => Finding::fine("reachable", "It answers as a master."),
        NodeState::Up => Finding::fine("reachable", "It answers as a master."),
        NodeState::Quarantined { doubt: Doubt::ClockStepped, .. } => stepped(state),
        NodeState::Quarantined { doubt: Doubt::Forgot, left } => forgot(&format!("It is {state}."), *left),
        NodeState::Quarantined { left: time, .. } if node.forgot.is_some() => forgot(
            &format!("It perhaps forgot locks ({}), and votes in {}.", node.forgot.unwrap_or_default(), left(*time)),
            *time,
        ),
        NodeState::Quarantined { left, .. } if has_restarted_unseen(node.status) => unseen(*left),
        NodeState::Quarantined { left, .. } => quarantined(state, *left),
        NodeState::Down { why } => return down(node, why),
        NodeState::Replica => match node.master {
            Some(master) => unfit("replica", &format!("It is a replica of {master}."), DETACH),
            None => unfit("replica", "It is a replica.", "Name its master in the list instead."),
        },
        NodeState::Cluster => unfit("cluster", "It runs in cluster mode.", "Set cluster-enabled no."),
        NodeState::Duplicate { of } => duplicate(of),
        // `lists.rs` reports these states.
        NodeState::OtherList { .. } | NodeState::Twins { .. } => return None,
        NodeState::Unclear => two_servers_reported(),
        // The doctor's own attempt to connect may show why the library has not reached the node.
        _ => {
            return node.check.as_ref().err().map_or_else(
                || Some(unreachable("It has not answered yet.", REACHED)),
                |failed| down(node, &failed.why),
            );
        }
    })
}

/// The finding about a node that is down. If the doctor's own connection failed as well, that
/// failure shows what to do.
fn down(node: Node<'_>, why: &str) -> Option<Finding> {
    let failed = node.check.as_ref().err();
    let (own, mend) = failed.map_or((why, REACHED), |failed| (&*failed.why, &*failed.mend));
    // If the library once had a connection without TLS, the port does not expect TLS.
    let mend = if mend == TO_TLS && node.status.version.is_some() { GONE } else { mend };
    let kind = failed.map_or(Kind::Reaching, |failed| failed.kind);
    match kind {
        _ if refuses_login(why) => Some(password(why)),
        Kind::Login => Some(password(own)),
        Kind::Select => Some(
            Finding::new(Level::Warning, "right-command", "The user lacks +select.")
                .why("Its address names a database, which needs this right. So the node is down.")
                .mend(mend),
        ),
        // `encryption.rs` reports that this client's own certificate has expired.
        Kind::Tls if node.certificates.client.is_some_and(|days| days < 0) && own.contains(OWN_CERTIFICATE) => None,
        Kind::Tls => Some(
            Finding::new(Level::Warning, "tls", format!("It cannot be reached over TLS: {own}."))
                .why("It has no vote.")
                .mend(mend),
        ),
        // `rights.rs` reports the missing right.
        Kind::Reaching if why.starts_with("NOPERM") && node.is_limited() => None,
        Kind::Reaching => Some(unreachable(&format!("It is down: {why}."), remedies::mend(why).unwrap_or(mend))),
    }
}

fn password(why: &str) -> Finding {
    Finding::new(Level::Warning, "password", format!("It refuses the login: {}.", why.trim_end_matches('.')))
        .why("It has no vote.")
        .mend(Login::refused(why).unwrap_or(Login::Wrong).mend())
}

fn unguarded() -> Finding {
    Finding::new(Level::Hint, "password", "The settings give a password, but the server asks for none.")
        .why("Anybody who reaches the server may take and release locks.")
        .mend("Set a password on the server (requirepass), or give none here.")
}

fn unreachable(what: &str, mend: &str) -> Finding {
    Finding::new(Level::Warning, "unreachable", what).why("It has no vote.").mend(if mend.is_empty() {
        CHECK
    } else {
        mend
    })
}

fn two_servers_reported() -> Finding {
    Finding::new(Level::Warning, "two-servers", "Another client reports another server behind its name.")
        .why("Until this client has read the node's record again, the node has no vote.")
        .mend("Run the doctor again: it then says whether there are two servers.")
}

fn unfit(id: &'static str, what: &str, mend: &str) -> Finding {
    Finding::new(Level::Warning, id, what).why("It has no vote.").mend(mend)
}

fn duplicate(of: &str) -> Finding {
    Finding::new(Level::Unsafe, "duplicate", format!("It is the same server as {of}."))
        .why("One server would have two votes, so clients with this list refuse to start.")
        .mend("Name each server once.")
}

fn quarantined(state: &NodeState, time: std::time::Duration) -> Finding {
    Finding::new(Level::Warning, "quarantine", format!("It is {state}."))
        .why("It does not vote on new locks until all locks that it may have forgotten have expired.")
        .mend(format!("Wait for {}. Restart one server at a time.", left(time)))
}

fn unseen(time: std::time::Duration) -> Finding {
    Finding::new(Level::Warning, "quarantine", "It has restarted or was promoted, and no client has used it since.")
        .why(
            "It does not vote on new locks until forgotten locks have expired. This time begins when a client uses it.",
        )
        .mend(format!("The first client waits for {}. Restart one server at a time.", left(time)))
}

fn without_record(how: &str, max_ttl: std::time::Duration) -> Finding {
    Finding::new(Level::Warning, "forgot", format!("It perhaps forgot locks ({how}), and has no record."))
        .why("Clients may still hold the forgotten locks, so it votes only max_ttl after a client has used it.")
        .mend(format!(
            "Find out who deletes keys on this server. Let a client run for {}, and do not run `quorumlock init`.",
            left(max_ttl)
        ))
}

fn forgot(what: &str, time: std::time::Duration) -> Finding {
    Finding::new(Level::Warning, "forgot", what)
        .why("It lost its record while it ran, and perhaps locks. Causes: FLUSHALL, a deleted key, or an old snapshot.")
        .mend(format!("Find out who deletes keys on this server, and wait for {}.", left(time)))
}

fn stepped(state: &NodeState) -> Finding {
    Finding::new(Level::Warning, "clock-step", format!("It is {state}."))
        .why("A clock that is stepped ends locks early.")
        .mend("Correct clocks slowly: let chrony slew, with maxslewrate at most 10000.")
}

fn unreadable(why: &str) -> Finding {
    Finding::new(Level::Warning, "record", format!("It cannot read its record: {why}."))
        .why("Without its record, it grants no lock.")
        .mend("Find out which program writes this key. Use a key prefix that no other program uses.")
}

fn silent(why: &str) -> Finding {
    Finding::new(Level::Warning, "wake-ups", format!("It does not notify waiters: {why}."))
        .why("Waiting for a lock takes longer.")
        .mend(refused(why, "+subscribe, +publish and the channels"))
}
