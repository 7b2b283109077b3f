//! What was asked of nodes for each owner, what a quorum of them allows it, and whether all of it was given back.

use std::collections::{BTreeMap, HashMap};

use super::history::{Answer, Micros, Op, Owner, Verb};
use super::processes::Processes;
use super::rule::{Rule, Verdict};

/// What is known of an owner: one try to hold a name.
#[derive(Debug, Default)]
struct Claimed {
    process: u16,
    /// The nodes that voted in each round: what was sent at one time.
    rounds: BTreeMap<(Micros, u8), u64>,
    /// Until when its quorum lets it believe.
    deadline: Option<Micros>,
    granted: u64,
    released: u64,
    ended: bool,
}

#[derive(Debug)]
pub struct Rounds {
    quorum: u32,
    /// Parts per million of true time, by process.
    rates: Vec<u64>,
    owners: HashMap<Owner, Claimed>,
    by_ballot: HashMap<(u16, u8, u64), Owner>,
}

impl Rounds {
    pub fn new(nodes: usize, rates: Vec<u64>) -> Self {
        Self { quorum: nodes as u32 / 2 + 1, rates, owners: HashMap::new(), by_ballot: HashMap::new() }
    }

    /// Who claimed a name with a token.
    pub fn owner(&self, process: u16, name: u8, token: u64) -> Option<Owner> {
        self.by_ballot.get(&(process, name, token)).copied()
    }

    pub fn deadline(&self, owner: Owner) -> Option<Micros> {
        self.owners.get(&owner)?.deadline
    }

    pub fn ended(&mut self, owner: Owner) {
        if let Some(claimed) = self.owners.get_mut(&owner) {
            claimed.ended = true;
        }
    }

    pub fn submitted(&mut self, op: Op, verdict: &mut Verdict) {
        let claimed = self.owners.entry(op.owner).or_default();
        claimed.process = op.process;
        match op.verb {
            Verb::Claim | Verb::Pass => {
                self.by_ballot.insert((op.process, op.name, op.ballot), op.owner);
                if claimed.ended {
                    verdict.broken(Rule::NotFinal, "it claims what it had given up");
                }
            }
            Verb::Renew if claimed.ended => verdict.broken(Rule::NotFinal, "it renews what it had lost or released"),
            Verb::Release => claimed.released |= bit(op),
            Verb::Renew | Verb::Other => {}
        }
    }

    pub fn granted(&mut self, op: Op) {
        if let Some(claimed) = self.owners.get_mut(&op.owner) {
            claimed.granted |= bit(op);
        }
    }

    /// The node has nothing of it any more.
    pub fn freed(&mut self, owner: Owner, op: Op) {
        if let Some(claimed) = self.owners.get_mut(&owner) {
            claimed.granted &= !bit(op);
        }
    }

    pub fn forgot(&mut self, node: u8) {
        self.owners.values_mut().for_each(|claimed| claimed.granted &= !(1 << node));
    }

    /// A vote reached its process: a quorum of them within the validity lets it believe.
    pub fn delivered(&mut self, now: Micros, op: Op, answer: Answer) {
        let counts =
            matches!((op.verb, answer), (Verb::Claim | Verb::Pass, Answer::Granted) | (Verb::Renew, Answer::Extended));
        if !counts {
            return;
        }
        let Some(claimed) = self.owners.get_mut(&op.owner) else { return };
        let votes = claimed.rounds.entry((op.sent, op.verb as u8)).or_default();
        *votes |= bit(op);
        let ttl = u64::from(op.ttl) * 1_000;
        let deadline = op.sent + (ttl - ttl / 100 - 2_000) * 1_000_000 / self.rates[op.process as usize];
        let alive = claimed.deadline.is_none_or(|known| now <= known);
        if votes.count_ones() == self.quorum && now < deadline && alive {
            claimed.deadline = Some(claimed.deadline.map_or(deadline, |known| known.max(deadline)));
        }
    }

    /// At the end: whatever was granted has been released.
    pub fn never_released(&self, processes: &Processes, verdict: &mut Verdict) {
        let kept = |(_, claimed): &(&Owner, &Claimed)| {
            claimed.granted & !claimed.released != 0 && !processes.is_dead(claimed.process)
        };
        let mut forgotten: Vec<_> = self.owners.iter().filter(kept).collect();
        forgotten.sort_unstable_by_key(|(owner, _)| **owner);
        for (owner, Claimed { granted, released, .. }) in forgotten {
            let nodes: Vec<_> = (0..64).filter(|node| granted & !released & 1 << node != 0).collect();
            let why = format!("owner number {owner} was granted by n{nodes:?} what it never released");
            verdict.broken(Rule::NeverReleased, why);
        }
    }
}

const fn bit(op: Op) -> u64 {
    1 << op.node
}
