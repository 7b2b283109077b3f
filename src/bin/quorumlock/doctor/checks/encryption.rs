//! Checks TLS: which certificates expire soon, and which connections do not use TLS.

use super::super::finding::{Finding, Level};
use super::super::seen::Node;

/// A certificate should be renewed this many days before it expires.
const RENEW: i64 = 14;

pub(super) fn findings(node: Node<'_>) -> Vec<Finding> {
    let client = node.certificates.client.filter(|days| *days < RENEW).map(client);
    let authority = node.certificates.authorities.and_then(|(first, last)| authority(first, last));
    server(node).into_iter().chain(client).chain(authority).collect()
}

fn server(node: Node<'_>) -> Option<Finding> {
    if let Some(days) = node.told().and_then(|check| check.days) {
        return Some(expiry(days.into()));
    }
    // If the node was not reached, another finding says so.
    (node.target.is_readable() && node.check.is_ok()).then(|| {
        Finding::new(Level::Hint, "plain-text", "It is reached without TLS.")
            .why("Anybody who reads the traffic learns the password. Anybody who changes the traffic can grant locks.")
            .mend("Use rediss://, unless nobody else can use this network.")
    })
}

fn expiry(days: i64) -> Finding {
    if days >= RENEW {
        return Finding::fine("tls", "Its certificates are trusted.");
    }
    Finding::new(Level::Warning, "tls-expiry", format!("Its chain of certificates {}.", ends(days)))
        .why("Once a certificate expires, this node has no vote. Other nodes with this certificate have none either.")
        .mend("Renew the certificate that expires first: the node's, or an authority's.")
}

/// The finding about this client's own certificate.
fn client(days: i64) -> Finding {
    Finding::new(Level::Warning, "client-certificate", format!("This client's certificate {}.", ends(days)))
        .why("A node that asks for certificates refuses a client with an expired certificate.")
        .mend("Renew this certificate (tls_cert; --tls-cert).")
}

/// The finding about trusted authorities. If all authorities expire soon, the finding is a warning.
/// If only some expire soon, other authorities can replace them, so the finding is a hint.
fn authority(first: i64, last: i64) -> Option<Finding> {
    if last < RENEW {
        return Some(
            Finding::new(Level::Warning, "authority", format!("The last authority in tls_ca {}.", ends(last)))
                .why("Once this authority expires, other programs refuse the certificates that it signed. This client ignores authorities' dates.")
                .mend("Add a new authority to tls_ca (--tls-ca), and sign the certificates with the new authority."),
        );
    }
    (first < RENEW).then(|| {
        Finding::new(Level::Hint, "authority", format!("An authority in tls_ca {}; another lasts longer.", ends(first)))
            .why("Before this authority expires, replace its certificates by certificates of another authority.")
            .mend("Remove this authority from tls_ca once no certificate that it signed is in use.")
    })
}

fn ends(days: i64) -> String {
    match days {
        ..0 => "has expired".to_owned(),
        0 => "expires within a day".to_owned(),
        1 => "expires in 1 day".to_owned(),
        days => format!("expires in {days} days"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_warned_of_until_another_lasts_longer() {
        let of = |first, last| authority(first, last).map(|told| (told.level, told.what));
        assert_eq!(of(14, 14), None);
        let (warning, hint) = (of(-1, 13).unwrap(), of(-1, 14).unwrap());
        assert_eq!(warning, (Level::Warning, "The last authority in tls_ca expires in 13 days.".to_owned()));
        assert_eq!(hint, (Level::Hint, "An authority in tls_ca has expired; another lasts longer.".to_owned()));
    }

    #[test]
    fn the_end_of_a_servers_certificates_is_told_in_whole_days() {
        for (days, what) in [(0, "expires within a day"), (1, "expires in 1 day"), (13, "expires in 13 days")] {
            assert_eq!(expiry(days).what, format!("Its chain of certificates {what}."));
        }
        assert_eq!(expiry(14).level, Level::Fine);
    }
}
