//! What each node holds, as far as its answers tell. One that forgets or whose clock is stepped may do what it likes; the guard must deal with that.

use std::collections::HashMap;

use super::history::{Answer, Micros, Op, Owner};
use super::rule::{Rule, Verdict};

#[derive(Clone, Copy, Debug)]
struct Hold {
    owner: Owner,
    claimed: Micros,
}

#[derive(Debug, Default)]
pub struct Nodes {
    holds: HashMap<(u8, u8), Hold>,
    /// The ballot up to which an owner's claims were released.
    tombs: HashMap<(u8, Owner), u64>,
}

impl Nodes {
    pub fn holds(&self, op: Op, owner: Owner) -> bool {
        self.holds.get(&(op.node, op.name)).is_some_and(|hold| hold.owner == owner)
    }

    pub fn did(&mut self, op: Op, answer: Answer, verdict: &mut Verdict) {
        match answer {
            Answer::Granted => {
                self.late_claim(op, verdict);
                self.hold(op);
            }
            Answer::Healed => {
                // A renewal that comes after the release takes the name again until it expires.
                self.tombs.remove(&(op.node, op.owner));
                self.hold(op);
            }
            Answer::Extended => self.hold(op),
            Answer::Released(held) => {
                let tomb = self.tombs.entry((op.node, op.owner)).or_default();
                *tomb = op.ballot.max(*tomb);
                if held {
                    self.freed(op, verdict);
                }
            }
            Answer::Refused | Answer::Stale | Answer::Fault | Answer::Other => {}
        }
    }

    pub fn forgot(&mut self, node: u8) {
        self.holds.retain(|&(at, _), _| at != node);
        self.tombs.retain(|&(at, _), _| at != node);
    }

    fn hold(&mut self, op: Op) {
        self.holds.insert((op.node, op.name), Hold { owner: op.owner, claimed: op.sent });
    }

    fn late_claim(&self, op: Op, verdict: &mut Verdict) {
        if self.tombs.get(&(op.node, op.owner)).is_some_and(|ballot| op.ballot <= *ballot) {
            verdict.broken(Rule::LateClaim, format!("n{} granted a claim whose release it had seen", op.node));
        }
    }

    fn freed(&mut self, op: Op, verdict: &mut Verdict) {
        let Some(hold) = self.holds.remove(&(op.node, op.name)) else { return };
        if hold.owner != op.owner {
            verdict.broken(Rule::StolenOnNode, format!("n{} released what another holds", op.node));
        } else if hold.claimed > op.sent {
            verdict.broken(Rule::NewerUndone, format!("n{} undid a grant newer than the release", op.node));
        }
    }
}
