//! TLS: certificates that expire, the servers' and this client's, and connections without it.

use super::super::finding::{Finding, Level};
use super::super::seen::Node;
use crate::direct::login::Kind;

/// How many days before the end a certificate should be renewed.
const RENEW: u32 = 14;

pub(super) fn findings(node: Node<'_>) -> Vec<Finding> {
    let client = node.papers.client.filter(|days| *days < i64::from(RENEW)).map(|days| client(node, days));
    let authority = node.papers.authority.filter(|days| *days < i64::from(RENEW)).map(authority);
    server(node).into_iter().chain(client).chain(authority).collect()
}

fn server(node: Node<'_>) -> Option<Finding> {
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

/// This client's own.
fn client(node: Node<'_>, days: i64) -> Finding {
    let asked = node.exam.as_ref().is_err_and(|failed| failed.kind == Kind::Client);
    let level = if asked && days < 0 { Level::Unsafe } else { Level::Warning };
    Finding::new(level, "client-certificate", format!("This client's certificate {}.", ends(days)))
        .why("A node that asks for certificates does not let this client in with one that has expired.")
        .mend("Renew it (tls_cert; --tls-cert).")
}

fn authority(days: i64) -> Finding {
    Finding::new(Level::Warning, "authority", format!("An authority in tls_ca {}.", ends(days)))
        .why("Servers and other clients refuse what it signed once it has expired; this client does not look at its dates.")
        .mend("Make a new authority, name it beside the old one (tls_ca; --tls-ca), and have certificates signed by it.")
}

fn ends(days: i64) -> String {
    match days {
        ..0 => "has expired".to_owned(),
        0 => "expires within a day".to_owned(),
        1 => "expires in 1 day".to_owned(),
        days => format!("expires in {days} days"),
    }
}
