//! What each node holds, as far as its answers tell. One that forgets or whose clock is stepped may
//! do what it likes; the guard must deal with that.

use std::collections::HashMap;

use super::history::{Answer, Micros, Op, Owner, Verb};
use super::rule::{Rule, Verdict};

#[derive(Clone, Copy, Debug)]
struct Hold {
    owner: Owner,
    ballot: u64,
    /// Until then at least, by a clock that runs fast.
    until: Micros,
}

/// A reader's ballot, and until when it reads at least.
type Reads = (u64, Micros);

#[derive(Debug, Default)]
pub struct Nodes {
    holds: HashMap<(u8, u8), Hold>,
    reads: HashMap<(u8, u8, Owner), Reads>,
    /// The ballot up to which an owner's claims of a name were withdrawn, or any once it has ended; but
    /// not of readers: others that read may have kept their fence from being the name's.
    tombs: HashMap<(u8, u8, Owner), u64>,
    /// The token up to which an owner's locks are over.
    over: HashMap<(u8, u8, Owner), u64>,
    /// Who was granted a name with a ballot.
    ballots: HashMap<(u8, u8, u64), Owner>,
    /// Up to which token a name was taken away.
    revoked: HashMap<(u8, u8), u64>,
    /// The highest ballot by which any node granted a name to an owner.
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
                // Of several names, a node may have held some.
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

    /// Its clock was stepped: when its holds end is not known any more.
    pub fn stepped(&mut self, node: u8) {
        self.holds.iter_mut().filter(|((at, _), _)| *at == node).for_each(|(_, hold)| hold.until = 0);
        self.reads.iter_mut().filter(|((at, ..), _)| *at == node).for_each(|(_, (_, until))| *until = 0);
    }

    /// With a release, the node granted the name to the next.
    pub fn handed_over(&mut self, now: Micros, op: Op, verdict: &mut Verdict) {
        self.granted(op, now + lasts(op.hand), verdict);
    }

    fn granted(&mut self, op: Op, until: Micros, verdict: &mut Verdict) {
        self.revoked(op, op.ballot, verdict);
        let won = self.won.entry((op.name, op.owner)).or_default();
        *won = op.ballot.max(*won);
        // Of readers, several may have one ballot. What it had with a higher one has ended: else the node
        // would have called this one stale.
        if op.shared {
            // Its own writer, which it follows, or one whose time is over.
            self.holds.remove(&(op.server, op.name));
            let (ballot, _) = self.reads.entry((op.server, op.name, op.owner)).or_default();
            *ballot = op.ballot;
            self.hold(op, until);
            return;
        }
        let held = self.holds.get(&(op.server, op.name)).is_some_and(|hold| hold.owner == op.owner);
        self.hold(op, until);
        // Who holds it, by healing perhaps, is only told so. (Clients may choose the same ballot:
        // one of them is refused.)
        if held {
            self.ballots.entry((op.server, op.name, op.ballot)).or_insert(op.owner);
            return;
        }
        let before = self.ballots.insert((op.server, op.name, op.ballot), op.owner);
        if before.is_some_and(|before| before != op.owner) {
            verdict.broken(Rule::GrantedTwice, format!("n{} granted ballot {} to two owners", op.server, op.ballot));
        }
    }

    /// It holds it with this ballot, or a higher one that it had. A reader loses no time by another ask.
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
        // Whatever ballot a set has for all of its names, a name ends by that by which it was won.
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
            // Whoever has ended is granted nothing any more, whatever it asked with.
            let ballot = if op.verb == Verb::Release { u64::MAX } else { op.ballot };
            let tomb = self.tombs.entry(key).or_default();
            *tomb = ballot.max(*tomb);
            let over = self.over.entry(key).or_default();
            *over = op.token.max(*over);
        }
        if held {
            self.freed(op, verdict);
        }
    }

    /// Until when its owner holds it at least; 0 if it does not.
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

/// For how long a node holds what lasts so many ms, if its clock runs fast.
fn lasts(ms: u32) -> Micros {
    Micros::from(ms) * 980
}
