//! The holds of each node, as its answers show them. If a node forgets, or its clock is stepped,
//! the node may end holds early: the clients' rules must deal with that.

use std::collections::{HashMap, HashSet};

use super::history::{Answer, Micros, Op, Owner, Verb};
use super::rule::{Rule, Verdict};

#[derive(Clone, Copy, Debug)]
struct Hold {
    owner: Owner,
    ballot: u64,
    /// The node holds the name until this time at least, even if its clock runs fast.
    until: Micros,
}

/// A reader's ballot, and until when its hold lasts at least.
type Reads = (u64, Micros);

#[derive(Debug, Default)]
pub struct Nodes {
    holds: HashMap<(u8, u8), Hold>,
    reads: HashMap<(u8, u8, Owner), Reads>,
    /// The ballot up to which an owner's claims of a name were withdrawn; `u64::MAX` once the owner
    /// has ended. Readers have no entry: beside other readers, their late claims may be granted.
    tombs: HashMap<(u8, u8, Owner), u64>,
    /// The owners that have ended: they have sent a release to some node.
    ended: HashSet<(u8, Owner)>,
    /// By node, name, owner and ballot: when a push reached its process, if the owner had ended
    /// before. The process answers such a push by a release.
    pushed: HashMap<(u8, u8, Owner, u64), Micros>,
    /// The token up to which an owner's locks were released.
    over: HashMap<(u8, u8, Owner), u64>,
    /// The owner to which a node granted a name with a ballot.
    ballots: HashMap<(u8, u8, u64), Owner>,
    /// The token up to which a name was revoked.
    revoked: HashMap<(u8, u8), u64>,
    /// The highest ballot with which any node granted a name to an owner.
    won: HashMap<(u8, Owner), u64>,
}

impl Nodes {
    pub fn did(&mut self, now: Micros, op: Op, answer: Answer, alone: bool, verdict: &mut Verdict) {
        let until = now + lasts(op.ttl);
        if op.verb == Verb::Revoke && !matches!(answer, Answer::Fault | Answer::Forgot) {
            let revoked = self.revoked.entry((op.server, op.name)).or_default();
            *revoked = op.ballot.max(*revoked);
        }
        match answer {
            Answer::Granted => {
                self.late_claim(op, verdict);
                self.granted(op, until, verdict);
            }
            Answer::Extended | Answer::Healed => {
                self.late_renewal(op, verdict);
                self.hold(op, until);
            }
            Answer::Released(held) => {
                // If a release has several names, the node may have held only some of them.
                let kept = alone && !held && op.verb == Verb::Release && self.holds_until(op) > now;
                if kept {
                    let why = format!("n{} holds it still for an owner that has ended", op.server);
                    verdict.broken(Rule::KeptOnNode, why);
                }
                self.released(op, held, verdict);
            }
            Answer::Refused | Answer::Stale | Answer::Forgot | Answer::Fault | Answer::Other => {}
        }
    }

    pub fn forgot(&mut self, node: u8) {
        self.holds.retain(|&(at, _), _| at != node);
        self.reads.retain(|&(at, ..), _| at != node);
        self.tombs.retain(|&(at, ..), _| at != node);
        self.over.retain(|&(at, ..), _| at != node);
        self.ballots.retain(|&(at, ..), _| at != node);
        self.revoked.retain(|&(at, _), _| at != node);
    }

    /// A node's clock was stepped: it is no longer known when the node's holds end.
    pub fn stepped(&mut self, node: u8) {
        self.holds.iter_mut().filter(|((at, _), _)| *at == node).for_each(|(_, hold)| hold.until = 0);
        self.reads.iter_mut().filter(|((at, ..), _)| *at == node).for_each(|(_, (_, until))| *until = 0);
    }

    pub fn submitted(&mut self, op: Op) {
        if op.verb == Verb::Release {
            self.ended.insert((op.name, op.owner));
        }
    }

    /// A push reached its process.
    pub fn pushed(&mut self, now: Micros, op: Op) {
        if self.ended.contains(&(op.name, op.owner)) {
            self.pushed.entry((op.server, op.name, op.owner, op.ballot)).or_insert(now);
        }
    }

    pub fn handed_over(&mut self, now: Micros, op: Op, verdict: &mut Verdict) {
        self.granted(op, now + lasts(op.hand), verdict);
    }

    fn granted(&mut self, op: Op, until: Micros, verdict: &mut Verdict) {
        self.revoked(op, op.ballot, verdict);
        let won = self.won.entry((op.name, op.owner)).or_default();
        *won = op.ballot.max(*won);
        // Several readers may have one ballot. If this reader had a higher ballot, that hold has
        // ended: otherwise the node would have replied `stale`.
        if op.shared {
            // Remove the hold of a writer: the reader follows this writer, or the hold has expired.
            self.holds.remove(&(op.server, op.name));
            let (ballot, _) = self.reads.entry((op.server, op.name, op.owner)).or_default();
            *ballot = op.ballot;
            self.hold(op, until);
            return;
        }
        let held = self.holds.get(&(op.server, op.name)).is_some_and(|hold| hold.owner == op.owner);
        self.hold(op, until);
        // If the owner already holds the name, perhaps by a heal, the node only confirms the hold.
        // (If two clients choose the same ballot, the node refuses one of them.)
        if held {
            self.ballots.entry((op.server, op.name, op.ballot)).or_insert(op.owner);
            return;
        }
        let before = self.ballots.insert((op.server, op.name, op.ballot), op.owner);
        if before.is_some_and(|before| before != op.owner) {
            verdict.broken(Rule::GrantedTwice, format!("n{} granted ballot {} to two owners", op.server, op.ballot));
        }
    }

    /// The owner holds the name with this ballot, or with a higher ballot that it had before.
    /// Another ask never shortens the hold of a reader.
    fn hold(&mut self, op: Op, until: Micros) {
        let Op { server: node, name, owner, ballot, .. } = op;
        if op.shared {
            let (known, ends) = self.reads.entry((node, name, owner)).or_default();
            (*known, *ends) = (ballot.max(*known), until.max(*ends));
            return;
        }
        let had = self.holds.get(&(node, name)).filter(|hold| hold.owner == owner).map_or(0, |hold| hold.ballot);
        self.holds.insert((node, name), Hold { owner, ballot: ballot.max(had), until });
    }

    fn late_claim(&self, op: Op, verdict: &mut Verdict) {
        if self.tombs.get(&(op.server, op.name, op.owner)).is_some_and(|ballot| op.ballot <= *ballot) {
            verdict.broken(Rule::LateClaim, format!("n{} granted a claim whose release it had seen", op.server));
        }
    }

    fn late_renewal(&self, op: Op, verdict: &mut Verdict) {
        // A set renews all names with one ballot, but a revocation ends a name by the ballot with
        // which this name was won.
        let token = if op.token > 0 { op.token } else { op.ballot };
        let won = self.won.get(&(op.name, op.owner)).copied().unwrap_or(token);
        self.revoked(op, won.min(token), verdict);
        if self.over.get(&(op.server, op.name, op.owner)).is_some_and(|over| token <= *over) {
            verdict.broken(Rule::LateClaim, format!("n{} renewed a lock whose release it had seen", op.server));
        }
    }

    fn revoked(&self, op: Op, token: u64, verdict: &mut Verdict) {
        if self.revoked.get(&(op.server, op.name)).is_some_and(|revoked| token <= *revoked) {
            verdict.broken(Rule::RevokedGoesOn, format!("n{} granted what was revoked there", op.server));
        }
    }

    fn released(&mut self, op: Op, held: bool, verdict: &mut Verdict) {
        let key = (op.server, op.name, op.owner);
        if !op.shared {
            // An owner that has ended must be granted nothing more, with any ballot. But the answer
            // to a push covers only the pushed ballot: until the owner's own release comes, the
            // node may grant a late claim with a higher ballot.
            let pushed = self.pushed.get(&(op.server, op.name, op.owner, op.ballot));
            let answers_push = op.token == 0 && pushed.is_some_and(|&at| at <= op.sent);
            let ballot = if op.verb == Verb::Release && !answers_push { u64::MAX } else { op.ballot };
            let tomb = self.tombs.entry(key).or_default();
            *tomb = ballot.max(*tomb);
            let over = self.over.entry(key).or_default();
            *over = op.token.max(*over);
        }
        if held {
            self.freed(op, verdict);
        }
    }

    /// Until when the owner holds the name at least; 0 if the owner does not hold it.
    fn holds_until(&self, op: Op) -> Micros {
        if op.shared {
            return self.reads.get(&(op.server, op.name, op.owner)).map_or(0, |(_, until)| *until);
        }
        let hold = self.holds.get(&(op.server, op.name)).filter(|hold| hold.owner == op.owner);
        hold.map_or(0, |hold| hold.until)
    }

    fn freed(&mut self, op: Op, verdict: &mut Verdict) {
        let newer = |ballot: u64| op.verb == Verb::Withdraw && ballot > op.ballot;
        let ballot = match op.shared {
            true => self.reads.remove(&(op.server, op.name, op.owner)).map(|(ballot, _)| ballot),
            false => {
                let hold = self.holds.remove(&(op.server, op.name));
                if hold.is_some_and(|hold| hold.owner != op.owner) {
                    return verdict.broken(Rule::StolenOnNode, format!("n{} released what another holds", op.server));
                }
                hold.map(|hold| hold.ballot)
            }
        };
        if ballot.is_some_and(newer) {
            verdict.broken(Rule::NewerUndone, format!("n{} withdrew a grant with a higher ballot", op.server));
        }
    }
}

/// How long a hold of `ms` milliseconds lasts at least, if the node's clock runs fast. A node cuts
/// TIME to whole milliseconds, so a hold may be shorter by almost one.
fn lasts(ms: u32) -> Micros {
    Micros::from(ms.saturating_sub(1)) * 980
}
