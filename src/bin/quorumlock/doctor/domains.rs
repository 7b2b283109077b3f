//! The nodes' failure domains, and how many domains must fail until no quorum is left.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::raw_connection::login::resolved;
use crate::raw_connection::target::{Place, Target, is_loopback};

/// The domain of all nodes with a loopback address or a Unix socket: they run on this machine.
const HERE: &str = "this machine";

/// The domain of each node, in the nodes' order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Domains(Vec<String>);

impl Domains {
    /// The domains that the user gave. If there are none, each node's domain is its host. Blocks
    /// while it resolves names of hosts.
    pub(super) fn of(told: &[String], targets: &[Target]) -> Self {
        Self::with(told, targets, resolved)
    }

    /// Like `of`, but does not resolve the names of hosts.
    pub(super) fn by_name(told: &[String], targets: &[Target]) -> Self {
        Self::with(told, targets, |_| Vec::new())
    }

    fn with(told: &[String], targets: &[Target], resolved: fn(&str) -> Vec<IpAddr>) -> Self {
        match told {
            [] => Self(targets.iter().map(|target| host(&target.place, resolved)).collect()),
            told => Self(told.to_vec()),
        }
    }

    pub(super) fn of_node(&self, node: usize) -> &str {
        self.0.get(node).map_or("", |domain| domain)
    }

    pub(super) fn count(&self) -> usize {
        self.sizes().len()
    }

    /// The smallest number of domains whose failure leaves no quorum.
    pub(super) fn to_fail(&self) -> usize {
        let (quorum, mut left) = (self.0.len() / 2 + 1, self.0.len());
        let mut failed = 0;
        for size in self.sizes() {
            if left < quorum {
                break;
            }
            (failed, left) = (failed + 1, left - size);
        }
        failed
    }

    /// The number of nodes in each domain, the largest number first.
    fn sizes(&self) -> Vec<usize> {
        let mut sizes = BTreeMap::new();
        self.0.iter().for_each(|domain| *sizes.entry(domain).or_insert(0) += 1);
        let mut sizes: Vec<_> = sizes.into_values().collect();
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        sizes
    }
}

/// The host of a node, as its lowest IP address, so that different names of one machine give the
/// same host. If the name does not resolve, the host is the name itself.
fn host(place: &Place, resolved: fn(&str) -> Vec<IpAddr>) -> String {
    match place {
        Place::Unix(_) => HERE.to_owned(),
        Place::Tcp { host, .. } if is_loopback(host) => HERE.to_owned(),
        Place::Tcp { host, .. } => match resolved(host).into_iter().min() {
            Some(address) if address.is_loopback() => HERE.to_owned(),
            address => address.as_ref().map_or_else(|| host.clone(), IpAddr::to_string),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domains(told: &str) -> Domains {
        Domains(told.split_whitespace().map(str::to_owned).collect())
    }

    #[test]
    fn domains_to_fail_are_the_fewest_that_leave_no_quorum() {
        for (told, fail) in
            [("a", 1), ("a a a", 1), ("a a b", 1), ("a b c", 2), ("a b c d", 2), ("a a b b c", 2), ("a b c d e", 3)]
        {
            assert_eq!(domains(told).to_fail(), fail, "{told}");
        }
    }

    #[test]
    fn addresses_of_this_machine_are_one_domain_unless_configured() {
        let targets =
            ["redis://127.0.0.1", "redis://127.0.0.2", "redis://localhost", "redis://[::1]", "redis+unix:///s"];
        let targets = targets.map(|address| Target::parse(address, &crate::tls::Tls::new()).unwrap());
        assert_eq!(Domains::of(&[], &targets).count(), 1);
        assert_eq!(Domains::of(&["eu".into(), "us".into()], &targets[..2]).count(), 2);
    }
}
