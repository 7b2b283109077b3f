//! Whose votes the clients of a node count: the script's `enrol`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::millis;
use crate::node::operation::Operation;
use crate::node::reply::Outcome;
use crate::quorum::roster::{LASTS, Roster};

/// What is stored of it. It may hold what has expired.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Rostered {
    nodes: u32,
    protocol: u64,
    servers: BTreeMap<String, Duration>,
    /// The largest `max_ttl` that was told, and until when it counts.
    longest: Option<(Duration, Duration)>,
}

impl Rostered {
    /// Writes the servers of a client's list, if they fit, and tells what it held before.
    pub(super) fn enrol(&mut self, enrol: &Operation, now: Duration) -> Outcome {
        let (lasts, max_ttl) = (millis(enrol.grace), millis(enrol.ttl));
        let mut it = self.unexpired(lasts, now);
        let told = it.told();
        for gone in enrol.next.as_deref().unwrap_or_default().split_whitespace() {
            it.servers.remove(gone);
        }
        let fits = it.servers.is_empty() || (it.nodes, it.protocol) == (enrol.count, enrol.ballot);
        for server in enrol.owner.split_whitespace() {
            let until = it.servers.entry(server.to_owned()).or_default();
            *until = (*until).max(now + lasts);
        }
        if !fits || it.servers.len() > enrol.count as usize {
            return Outcome::Unlisted(told);
        }
        if !lasts.is_zero() && !enrol.owner.is_empty() {
            (it.nodes, it.protocol) = (enrol.count, enrol.ballot);
            it.tell(max_ttl, now + lasts);
            *self = it;
        }
        Outcome::Listed(told)
    }

    /// Without what has expired. No entry lasts longer than that of a client with the largest
    /// `max_ttl`: the clock was set back since.
    fn unexpired(&self, lasts: Duration, now: Duration) -> Self {
        let known = self.longest.filter(|(_, until)| *until > now);
        let longest = now + lasts.max(known.map_or(Duration::ZERO, |(most, _)| most) + LASTS);
        let lives = self.servers.iter().filter(|(_, until)| **until > now);
        let servers: BTreeMap<_, _> = lives.map(|(run, until)| (run.clone(), (*until).min(longest))).collect();
        let (nodes, protocol) = if servers.is_empty() { (0, 0) } else { (self.nodes, self.protocol) };
        Self { nodes, protocol, servers, longest: known.map(|(most, until)| (most, until.min(longest))) }
    }

    fn told(&self) -> Roster {
        Roster {
            nodes: self.nodes,
            protocol: u32::try_from(self.protocol).unwrap_or(u32::MAX),
            max_ttl: self.longest.map_or(Duration::ZERO, |(most, _)| most),
            servers: self.servers.keys().cloned().collect(),
        }
    }

    fn tell(&mut self, max_ttl: Duration, until: Duration) {
        if max_ttl.is_zero() {
            return;
        }
        self.longest = match self.longest {
            Some((most, known)) if most == max_ttl => Some((most, known.max(until))),
            Some((most, known)) if most > max_ttl => Some((most, known)),
            Some((_, known)) => Some((max_ttl, known.max(until))),
            None => Some((max_ttl, until)),
        };
    }
}
