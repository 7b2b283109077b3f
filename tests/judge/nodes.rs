//! What each node holds, as far as its answers tell. One that forgets or whose clock is stepped may
//! do what it likes; the guard must deal with that.

use std::collections::{HashMap, HashSet, VecDeque};

use super::history::{Answer, Micros, Op, Owner, Verb};
use super::rule::{Rule, Verdict};

/// Of how many readers of a name a node remembers the release.
const RELEASED: usize = 128;
/// By a node's clock, which may be slow.
const MILLISECOND: Micros = 1_100;

#[derive(Clone, Copy, Debug)]
struct Hold {
    owner: Owner,
    claimed: Micros,
}

#[derive(Debug, Default)]
pub struct Nodes {
    holds: HashMap<(u8, u8), Hold>,
    /// When the claims were sent by which readers read.
    reads: HashMap<(u8, u8, Owner), Micros>,
    /// The ballot up to which an owner's claims of a name were released.
    tombs: HashMap<(u8, u8, Owner), u64>,
    /// Which readers of a name were released, the last of them last.
    gone: HashMap<(u8, u8), VecDeque<(Micros, Owner)>>,
    /// Who was granted a name with a ballot.
    ballots: HashMap<(u8, u8, u64), Owner>,
    /// From whom a name was taken away.
    revoked: HashSet<(u8, u8, Owner)>,
}

impl Nodes {
    pub fn did(&mut self, now: Micros, op: Op, answer: Answer, verdict: &mut Verdict) {
        if op.verb == Verb::Revoke && answer != Answer::Fault {
            self.revoked.insert((op.node, op.name, op.owner));
        }
        match answer {
            Answer::Granted => {
                self.late_claim(op, verdict);
                self.granted(op, verdict);
            }
            Answer::Healed => {
                // A renewal that comes after the release takes the name again until it expires.
                self.tombs.remove(&(op.node, op.name, op.owner));
                self.hold(op);
            }
            Answer::Extended | Answer::Apart => self.hold(op),
            Answer::Released(held) => {
                let tomb = self.tombs.entry((op.node, op.name, op.owner)).or_default();
                *tomb = op.ballot.max(*tomb);
                if op.shared {
                    self.reader_gone(now, op);
                }
                if held {
                    self.freed(op, verdict);
                }
            }
            Answer::Refused | Answer::Stale | Answer::Fault | Answer::Other => {}
        }
    }

    pub fn forgot(&mut self, node: u8) {
        self.holds.retain(|&(at, _), _| at != node);
        self.reads.retain(|&(at, ..), _| at != node);
        self.tombs.retain(|&(at, ..), _| at != node);
        self.gone.retain(|&(at, _), _| at != node);
        self.ballots.retain(|&(at, ..), _| at != node);
        self.revoked.retain(|&(at, ..)| at != node);
    }

    /// With a release, the node granted the name to the next.
    pub fn handed_over(&mut self, op: Op, verdict: &mut Verdict) {
        self.granted(op, verdict);
        // Who gives up may have sent its release before the one that handed over to it.
        self.holds.insert((op.node, op.name), Hold { owner: op.owner, claimed: 0 });
    }

    /// Forgets the releases of readers that a node may have forgotten by now: it goes by whole
    /// milliseconds.
    fn reader_gone(&mut self, now: Micros, op: Op) {
        let gone = self.gone.entry((op.node, op.name)).or_default();
        gone.retain(|(_, owner)| *owner != op.owner);
        gone.push_back((now, op.owner));
        let Some(&(oldest, _)) = gone.front().filter(|_| gone.len() > RELEASED) else { return };
        while let Some(&(at, owner)) = gone.front()
            && at <= oldest + MILLISECOND
        {
            gone.pop_front();
            self.tombs.remove(&(op.node, op.name, owner));
        }
    }

    fn granted(&mut self, op: Op, verdict: &mut Verdict) {
        if self.revoked.contains(&(op.node, op.name, op.owner)) {
            verdict.broken(Rule::RevokedGoesOn, format!("n{} granted it to an owner that was revoked there", op.node));
        }
        // Of readers, several may have one ballot.
        if op.shared {
            return self.hold(op);
        }
        let held = self.holds.get(&(op.node, op.name)).is_some_and(|hold| hold.owner == op.owner);
        self.hold(op);
        // Who holds it, by healing perhaps, is only told so. (Clients may choose the same ballot:
        // one of them is refused.)
        if held {
            self.ballots.entry((op.node, op.name, op.ballot)).or_insert(op.owner);
            return;
        }
        let before = self.ballots.insert((op.node, op.name, op.ballot), op.owner);
        if before.is_some_and(|before| before != op.owner) {
            verdict.broken(Rule::GrantedTwice, format!("n{} granted ballot {} to two owners", op.node, op.ballot));
        }
    }

    fn hold(&mut self, op: Op) {
        if op.shared {
            self.reads.insert((op.node, op.name, op.owner), op.sent);
            return;
        }
        self.holds.insert((op.node, op.name), Hold { owner: op.owner, claimed: op.sent });
    }

    fn late_claim(&self, op: Op, verdict: &mut Verdict) {
        if self.tombs.get(&(op.node, op.name, op.owner)).is_some_and(|ballot| op.ballot <= *ballot) {
            verdict.broken(Rule::LateClaim, format!("n{} granted a claim whose release it had seen", op.node));
        }
    }

    fn freed(&mut self, op: Op, verdict: &mut Verdict) {
        if op.shared {
            if self.reads.remove(&(op.node, op.name, op.owner)).is_some_and(|claimed| claimed > op.sent) {
                verdict.broken(Rule::NewerUndone, format!("n{} undid a grant newer than the release", op.node));
            }
            return;
        }
        let Some(hold) = self.holds.remove(&(op.node, op.name)) else { return };
        if hold.owner != op.owner {
            verdict.broken(Rule::StolenOnNode, format!("n{} released what another holds", op.node));
        } else if hold.claimed > op.sent {
            verdict.broken(Rule::NewerUndone, format!("n{} undid a grant newer than the release", op.node));
        }
    }
}
