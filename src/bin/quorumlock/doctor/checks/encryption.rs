//! TLS: certificates that expire, and connections without it.

use super::super::finding::{Finding, Level};
use super::super::seen::Node;

/// How many days before the end a certificate should be renewed.
const RENEW: u32 = 14;

pub(super) fn findings(node: Node<'_>) -> Option<Finding> {
    if let Some(days) = node.told().and_then(|exam| exam.days) {
        return Some(expiry(days));
    }
    node.target.is_readable().then(|| {
        Finding::new(Level::Hint, "plain-text", "It is reached without TLS.")
            .why("Who can read the network can read the password, and who can change it can grant locks.")
            .mend("Use rediss://, unless the network is yours alone.")
    })
}

fn expiry(days: u32) -> Finding {
    if days >= RENEW {
        return Finding::fine("tls", "Its certificates are trusted.");
    }
    Finding::new(Level::Warning, "tls-expiry", format!("Its certificates expire in {days} days."))
        .why("Once they have, the node has no vote, and perhaps no other node either.")
        .mend("Renew its certificate, or that of the authority which expires first.")
}
