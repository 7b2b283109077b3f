//! Places in nodes' queues. An owner that took a place must give it up on the same node. If a late
//! message takes the place again, this place ends by itself.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{Answer, Micros, Op, Owner, Verb};
use super::processes::Processes;
use super::rule::{Rule, Verdict};

/// A place in a node's queue.
#[derive(Clone, Copy, Debug, Default)]
struct Stand {
    process: u16,
    /// When the last message that took the place was sent.
    taken: Option<Micros>,
    /// When the last message that gives the place up was sent: a release, or a granted claim.
    left: Micros,
}

#[derive(Debug, Default)]
pub struct Line {
    /// The places, by owner, name and node.
    stands: BTreeMap<(Owner, u8, u8), Stand>,
    /// The owners and names of locks that became tickets.
    handed_on: BTreeSet<(Owner, u8)>,
}

impl Line {
    pub fn submitted(&mut self, op: Op) {
        if op.verb == Verb::Release {
            self.stand(op).left = op.sent;
        }
    }

    /// A refused claim that waits takes a place, and a granted claim gives the place up.
    pub fn did(&mut self, op: Op, answer: Answer) {
        // A revocation comes from another process, and removes no place.
        if op.verb == Verb::Revoke {
            return;
        }
        let stand = self.stand(op);
        match answer {
            Answer::Refused if op.waits => stand.taken = stand.taken.max(Some(op.sent)),
            Answer::Granted => stand.left = op.sent.max(stand.left),
            _ => {}
        }
    }

    /// A node forgot its places. `left` stays, so that a place which an older message takes again
    /// counts as given up.
    pub fn forgot(&mut self, node: u8) {
        self.stands.iter_mut().filter(|((.., at), _)| *at == node).for_each(|(_, stand)| stand.taken = None);
    }

    /// The owner's lock became a ticket. Its places end by themselves: nobody releases the lock.
    pub fn handed_on(&mut self, owner: Owner, name: u8) {
        self.handed_on.insert((owner, name));
    }

    /// At the end: each owner of a live process must have given its places up.
    pub fn never_left(&self, processes: &Processes, verdict: &mut Verdict) {
        for ((owner, name, node), stand) in &self.stands {
            let ends_by_itself = self.handed_on.contains(&(*owner, *name));
            if !ends_by_itself
                && !processes.is_dead(stand.process)
                && stand.taken.is_some_and(|taken| taken > stand.left)
            {
                let why = format!("owner number {owner} never left the line of n{node}");
                verdict.broken(Rule::LeftBehind, why);
            }
        }
    }

    fn stand(&mut self, op: Op) -> &mut Stand {
        let new = Stand { process: op.process, ..Stand::default() };
        self.stands.entry((op.owner, op.name, op.node)).or_insert(new)
    }
}
