//! Whose votes the clients of a node count: the script's `enrol`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::millis;
use crate::node::reply::Outcome;
use crate::rules::roster::{Enrolment, LASTS, LONGEST, Roster, SPARE, Server};

/// What is stored of it. It may hold what has expired.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Rostered {
    nodes: u32,
    protocol: u32,
    /// Until when each server is in it.
    servers: BTreeMap<String, Duration>,
    /// The longest ttl of some client, and until when that counts.
    told: BTreeMap<Duration, Duration>,
    /// Since when the node is retired.
    retired: Option<Duration>,
}

impl Rostered {
    /// Writes the servers of a client's list, if they fit, and tells what it held before.
    pub(super) fn enrol(&mut self, enrol: &Enrolment, now: Duration) -> Outcome {
        let till = now + millis(enrol.lasts);
        let mut it = self.unexpired(now);
        let (told, known, ends) = (it.roster(now), !self.outlasts(&it) && it.has_all(enrol, till), till + SPARE);
        if millis(enrol.max_ttl) > LONGEST || !it.enter(enrol, ends) {
            return Outcome::Unlisted(told);
        }
        if till > now && !enrol.servers.is_empty() && !known {
            (it.nodes, it.protocol) = (enrol.nodes, enrol.protocol);
            it.tell(millis(enrol.max_ttl), ends);
            *self = it;
        }
        Outcome::Listed(told)
    }

    /// From now on its clients count no vote of it. The roster goes on.
    pub(super) fn retire(&mut self, now: Duration) -> Outcome {
        self.retired.get_or_insert(now);
        Outcome::Retired(self.unexpired(now).roster(now))
    }

    /// Takes that back, and tells the roster as it was before.
    pub(super) fn reset(&mut self, now: Duration) -> Outcome {
        let it = self.unexpired(now);
        self.retired = None;
        Outcome::Reset(it.roster(now))
    }

    /// The node is another process now: the clients of the one before come again, or have gone.
    pub(super) fn restarted(&mut self) {
        self.servers.clear();
    }

    /// Without what has expired. Nothing lasts longer than it was told to last: where it does, the
    /// clock was set back since.
    fn unexpired(&self, now: Duration) -> Self {
        let lives = |(_, ends): &(_, &Duration)| **ends > now;
        let told = self.told.iter().filter(|(_, ends)| **ends > now);
        let told: BTreeMap<_, _> = told.map(|(&ttl, &ends)| (ttl, ends.min(now + ttl + LASTS + SPARE))).collect();
        let longest = now + told.keys().next_back().copied().unwrap_or_default() + LASTS + SPARE;
        let servers = self.servers.iter().filter(lives);
        let servers: BTreeMap<_, _> = servers.map(|(run, &ends)| (run.clone(), ends.min(longest))).collect();
        let (nodes, protocol) = if servers.is_empty() { (0, 0) } else { (self.nodes, self.protocol) };
        Self { nodes, protocol, servers, told, retired: self.retired }
    }

    fn roster(&self, now: Duration) -> Roster {
        Roster {
            nodes: self.nodes,
            protocol: self.protocol,
            max_ttl: self.told.keys().next_back().copied().unwrap_or_default(),
            lasts: self.servers.values().max().map_or(Duration::ZERO, |ends| ends.saturating_sub(now)),
            retired: self.retired.map(|since| now.saturating_sub(since)),
            servers: self.servers.keys().cloned().collect(),
        }
    }

    /// Whether it has something for longer than `it`: a clock that was set back must not keep what
    /// it let in.
    fn outlasts(&self, it: &Self) -> bool {
        let servers = it.servers.iter().any(|(run, ends)| self.servers.get(run).is_some_and(|stored| stored > ends));
        servers || it.told.iter().any(|(ttl, ends)| self.told.get(ttl).is_some_and(|stored| stored > ends))
    }

    /// Whether all that is to be written is there until then, and nothing is to go.
    fn has_all(&self, enrol: &Enrolment, till: Duration) -> bool {
        let has = |run: &str| self.servers.get(run).is_some_and(|&ends| ends >= till);
        let servers = &enrol.servers;
        let goes = servers.iter().any(|server| server.before.iter().any(|run| self.servers.contains_key(run)));
        let ttl = millis(enrol.max_ttl);
        let told = ttl.is_zero() || self.told.iter().any(|(&known, &ends)| known >= ttl && ends >= till);
        told && !goes && servers.iter().all(|server| has(&server.run))
    }

    /// Puts the servers of a list in, each in the room of those before it, and for as long as those
    /// had it: votes may rest on them. Whether they fit.
    fn enter(&mut self, enrol: &Enrolment, ends: Duration) -> bool {
        let fits = self.servers.is_empty() || (self.nodes, self.protocol) == (enrol.nodes, enrol.protocol);
        let had = |server: &Server| {
            let runs = server.before.iter().chain([&server.run]);
            runs.filter_map(|run| self.servers.get(run)).copied().max().unwrap_or_default()
        };
        let lasts: Vec<_> = enrol.servers.iter().map(|server| (server.run.clone(), had(server).max(ends))).collect();
        enrol.servers.iter().flat_map(|server| &server.before).for_each(|run| _ = self.servers.remove(run));
        self.servers.extend(lasts);
        fits && self.servers.len() <= enrol.nodes as usize
    }

    /// Takes note of a client's longest ttl. Smaller ones that end sooner tell nothing more.
    fn tell(&mut self, ttl: Duration, ends: Duration) {
        self.told.retain(|&known, &mut till| known > ttl || till > ends);
        let needed = !self.told.iter().any(|(&known, &till)| known >= ttl && till >= ends);
        if needed && !ttl.is_zero() {
            self.told.insert(ttl, ends);
        }
    }
}
