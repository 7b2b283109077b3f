//! All leases: which process believed that it holds which name, from when until when.

use std::collections::BTreeMap;

use super::history::{Micros, Owner};
use super::processes::Processes;
use super::promises::Promises;
use super::rounds::Try;
use super::rule::{Rule, Verdict};
use super::tokens::{Clocks, Dealt, Tokens};

/// Clocks are read in whole microseconds.
const ROUNDING: Micros = 5;

#[derive(Debug)]
pub struct Lease {
    pub process: u16,
    /// The number of the list's name. Leases of two teams have nothing in common.
    team: u8,
    pub name: u8,
    /// The owner whose claims won the lease, if the history contains the nodes' operations.
    pub owner: Option<Owner>,
    pub token: u64,
    /// Whether the holder is a reader.
    pub shared: bool,
    /// How many permits the semaphore has in the holder's configuration; 0 if the lease is a lock.
    permits: u32,
    /// When the lease was acquired, and the number of this event.
    pub from: Micros,
    pub event: usize,
    /// From when the lease keeps writers out, and the number of this event. After a downgrade, this
    /// is the end of the reader's lease as a writer.
    alone: (Micros, usize),
    /// The last time at which the holder certainly believed in the lease, or still worked under the
    /// lost lease.
    certain: Micros,
    /// Until when the lease keeps others out: the deadline that it last reported, or the time at
    /// which its holder let go.
    pub until: Micros,
    /// When the lease ended, and the number of this event.
    over: Option<(Micros, usize)>,
    /// False once the lease has reported a loss. Reports after the lease was given up do not count.
    held: bool,
    /// Whether a violation was recorded because the holder learned of the loss too late.
    late: bool,
    /// Whether its token is below a token that nodes forgot: see [`Tokens`].
    pub fell: bool,
    /// Whether this lease was held beside another lease in a case in which nothing is promised.
    pub apart: bool,
}

impl Lease {
    pub const fn new(process: u16, name: u8, token: u64, from: Micros, until: Micros) -> Self {
        Self {
            process,
            team: 0,
            name,
            owner: None,
            token,
            shared: false,
            permits: 0,
            from,
            event: 0,
            alone: (from, 0),
            certain: from,
            until,
            over: None,
            held: true,
            late: false,
            fell: false,
            apart: false,
        }
    }

    pub const fn by(self, owner: Option<Owner>, shared: bool) -> Self {
        Self { owner, shared, ..self }
    }

    pub const fn in_team(self, team: u8) -> Self {
        Self { team, ..self }
    }

    /// The team and the name of the lease.
    pub const fn of(&self) -> (u8, u8) {
        (self.team, self.name)
    }

    /// The owner and the name by which nodes know the lease.
    pub fn of_nodes(&self) -> Option<Try> {
        Some((self.owner?, self.name))
    }
}

/// For each process, its lease with the latest `certain`, and the number of this lease.
type Longest<'a> = BTreeMap<u16, (u32, &'a Lease)>;

/// All leases by their numbers.
#[derive(Debug, Default)]
pub struct Beliefs {
    leases: BTreeMap<u32, Lease>,
    live: Vec<u32>,
    tokens: Tokens,
    /// The ballot with which a process revokes a name.
    revoking: BTreeMap<(u16, u8), u64>,
    revoked: Vec<Revoked>,
    /// When nodes forgot.
    forgot: Vec<Micros>,
}

/// A revocation of a name. The revocation ends leases that were acquired before the revocation
/// `began`, and leases with a token below `below`.
#[derive(Debug)]
struct Revoked {
    /// The process that revoked the name.
    process: u16,
    name: u8,
    began: Micros,
    below: u64,
    /// When these leases must have ended.
    by: Micros,
    /// The time of a clock step that the revoker cannot know of, if any. Leases that were acquired
    /// before this step may go on.
    unknown: Option<Micros>,
}

impl Revoked {
    /// Whether this revocation must end the lease. A node that forgets after the revocation also
    /// forgets the revocation, so it may grant lower tokens again.
    fn concerns(&self, lease: &Lease, forgot: &[Micros]) -> bool {
        let forgotten = forgot.iter().any(|&at| self.began <= at && at < lease.from);
        let left_out = self.unknown.is_some_and(|stepped| lease.from < stepped);
        self.name == lease.name && !left_out && (lease.from < self.began || lease.token < self.below && !forgotten)
    }
}

impl Beliefs {
    /// See [`Tokens`].
    pub fn new(clocks: Option<Clocks>) -> Self {
        Self { tokens: Tokens::new(clocks), ..Self::default() }
    }

    pub fn get(&self, number: u32) -> Option<&Lease> {
        self.leases.get(&number)
    }

    /// Adds a lease. Its token was first asked for, or handed over, at `asked`.
    pub fn acquired(&mut self, number: u32, lease: Lease, asked: Micros, promises: &Promises, verdict: &mut Verdict) {
        let (process, now) = (lease.process, lease.from);
        let apart = self.stand_apart(&lease, promises);
        let dealt = self.tokens.dealt(lease.of(), lease.shared, (lease.token, process), asked, now);
        let fell = match dealt {
            Dealt::Above => false,
            Dealt::BelowForgotten => true,
            Dealt::Below(highest, whose) => {
                let covered = promises.clocks_alone(process, whose) || promises.covers(process, whose, now);
                if !covered {
                    verdict.broken(Rule::TokenOrder, format!("token {} comes after {highest}", lease.token));
                }
                covered
            }
        };
        let (event, alone) = (verdict.at, (lease.from, verdict.at));
        self.leases.insert(number, Lease { event, alone, fell, apart, ..lease });
        self.live.push(number);
    }

    /// Whether other processes hold the same name at this moment, and nothing is promised for this
    /// case. Marks their leases.
    fn stand_apart(&mut self, lease: &Lease, promises: &Promises) -> bool {
        let mut apart = false;
        for number in &self.live {
            let Some(other) = self.leases.get_mut(number) else { continue };
            let together = other.of() == lease.of() && other.until > lease.from && other.process != lease.process;
            if together && promises.covers(lease.process, other.process, lease.from) {
                (other.apart, apart) = (true, true);
            }
        }
        apart
    }

    /// The owner and the name by which nodes know a lease, if the history shows them.
    pub fn of_nodes(&self, number: u32) -> Option<Try> {
        self.leases.get(&number)?.of_nodes()
    }

    /// Another caller of the same session got the name, which the session holds by this lease.
    pub fn shared(&self, number: u32, verdict: &mut Verdict) {
        if self.leases.get(&number).is_none_or(|lease| lease.over.is_some()) {
            verdict
                .broken(Rule::HeldAmiss, format!("lease {number} is over, and another caller was told that it has it"));
        }
    }

    /// This writer became the reader by a downgrade. Nobody else may have written since the
    /// writer's lease ended.
    pub fn follows(&mut self, reader: u32, writer: u32) {
        let ended = self.leases.get(&writer).and_then(|lease| lease.over);
        if let (Some((at, event)), Some(reader)) = (ended, self.leases.get_mut(&reader)) {
            reader.alone = (at + 1, event);
        }
    }

    /// The lease is a permit of a semaphore that has this many permits.
    pub fn counted(&mut self, number: u32, permits: u32) {
        self.leases.get_mut(&number).into_iter().for_each(|lease| lease.permits = permits);
    }

    /// The lease reported that it is held.
    pub fn held(
        &mut self,
        now: Micros,
        number: u32,
        until: Micros,
        (processes, promises): (&Processes, &Promises),
        verdict: &mut Verdict,
    ) {
        let Some(lease) = self.leases.get_mut(&number) else { return };
        if lease.over.is_some() {
            return verdict.broken(Rule::NotFinal, format!("lease {number} had ended and is held again"));
        }
        lease.until = until;
        if now + ROUNDING < until && processes.awake(lease.process).is_some() {
            lease.certain = now;
        }
        // If two clients of different lists need not notice each other, neither can revoke the
        // other's locks.
        let is_covered = |revoked: &Revoked| promises.covers(revoked.process, lease.process, revoked.began);
        let lasts = |revoked: &&Revoked| {
            revoked.concerns(lease, &self.forgot) && revoked.by < lease.certain && !is_covered(revoked)
        };
        if let Some(Revoked { by, .. }) = self.revoked.iter().find(lasts) {
            let long = lease.certain - by;
            verdict.broken(Rule::RevokedGoesOn, format!("lease {number} was revoked, and is held {long} us too long"));
        }
    }

    /// The lease reported that it is not held.
    pub fn denied(&mut self, number: u32) {
        if let Some(lease) = self.leases.get_mut(&number).filter(|lease| lease.over.is_none()) {
            lease.held = false;
        }
    }

    /// Whether the lease reported no loss until it was given up.
    pub fn was_held(&self, number: u32) -> bool {
        self.leases.get(&number).is_some_and(|lease| lease.held)
    }

    pub fn forgot(&mut self, now: Micros) {
        self.forgot.push(now);
        self.tokens.forgot(now);
    }

    pub fn revoking(&mut self, process: u16, name: u8, ballot: u64) {
        self.revoking.insert((process, name), ballot);
    }

    pub fn revoked(&mut self, process: u16, name: u8, began: Micros, by: Micros, unknown: Option<Micros>) {
        let below = self.revoking.get(&(process, name)).copied().unwrap_or(0);
        self.revoked.push(Revoked { process, name, began, below, by, unknown });
    }

    /// The work under the lease has ended, even if the lease was already lost. Until now, or until
    /// its deadline if that was earlier, the lease kept others out.
    pub fn let_go(&mut self, now: Micros, number: u32) {
        let Some(lease) = self.leases.get_mut(&number) else { return };
        lease.until = lease.until.min(now);
        lease.certain = lease.certain.max(lease.until);
    }

    /// A release of the lease is sent to a node. At this time, the lease must not keep others out
    /// any more.
    pub fn given_back(&self, now: Micros, number: u32, verdict: &mut Verdict) {
        if let Some(lease) = self.leases.get(&number).filter(|lease| lease.until > now + ROUNDING) {
            let early = lease.until - now;
            verdict.broken(Rule::LetInEarly, format!("lease {number} is released {early} us early"));
        }
    }

    /// The holder gave the lease up, or learned that it is lost. If the lease `expired`, the holder
    /// believed in it until its deadline.
    pub fn ended(&mut self, now: Micros, event: usize, number: u32, expired: bool) {
        let Some(lease) = self.leases.get_mut(&number) else { return };
        lease.over.get_or_insert((now, event));
        if expired {
            lease.certain = lease.certain.max(lease.until.min(now));
        }
        self.live.retain(|&live| live != number);
    }

    pub fn killed(&mut self, process: u16) {
        let leases = &self.leases;
        self.live.retain(|lease| leases[lease].process != process);
    }

    /// A process shuts its quorum down. From now on its leases keep nobody out.
    pub fn shut_down(&mut self, now: Micros, process: u16) {
        let held = self.leases.values_mut().filter(|lease| lease.process == process);
        held.for_each(|lease| lease.until = lease.until.min(now));
    }

    /// Records a violation if the holder believes in its lease for longer than its last round or
    /// renewal allows.
    pub fn bounded(&self, now: Micros, number: u32, deadline: Option<Micros>, verdict: &mut Verdict) {
        let Some(lease) = self.leases.get(&number) else { return };
        match deadline {
            None => verdict.broken(Rule::BelievedTooLong, format!("no quorum has granted lease {number}")),
            Some(deadline) if lease.until > deadline + ROUNDING && lease.until > now => {
                let long = lease.until - deadline;
                verdict.broken(Rule::BelievedTooLong, format!("lease {number} is believed in {long} us too long"));
            }
            Some(_) => {}
        }
    }

    /// Records a violation for each lease whose deadline has passed before its holder learned of
    /// the loss.
    pub fn overdue(
        &mut self,
        now: Micros,
        processes: &Processes,
        deadline: impl Fn(Try) -> Option<Micros>,
        verdict: &mut Verdict,
    ) {
        for number in &self.live {
            let Some(lease) = self.leases.get_mut(number).filter(|lease| !lease.late) else { continue };
            let Some(deadline) = lease.of_nodes().and_then(&deadline) else { continue };
            if processes.awake(lease.process).is_some_and(|awake| now > deadline.max(awake)) {
                lease.late = true;
                let ago = now - deadline;
                verdict.broken(Rule::ToldLate, format!("lease {number} ended {ago} us ago, and nobody was told"));
            }
        }
    }

    /// Checks at the end that the permits held at one time never exceeded the largest number that
    /// any holder knows. A history has only one semaphore.
    pub fn too_many(&self, verdict: &mut Verdict) {
        let permits = || self.leases.iter().filter(|(_, lease)| lease.permits > 0);
        let most = permits().map(|(_, lease)| lease.permits).max().unwrap_or(0);
        for (number, lease) in permits() {
            let before = |other: &Lease| other.event <= lease.event && other.certain >= lease.from;
            let together = permits().filter(|(_, other)| before(other)).count();
            if together > most as usize {
                let why = format!("lease {number} is one of {most} permits, and {together} were held then");
                verdict.broken_at(lease.event, Rule::TooMany, why);
            }
        }
    }

    /// Checks at the end that no two processes believed in one name at the same time. Exceptions
    /// are two readers, and cases in which nothing is promised.
    pub fn two_believers(&self, promises: &Promises, verdict: &mut Verdict) {
        // The leases with the latest `certain` so far: by team, by name, and by whether their
        // holders are readers.
        let mut longest: BTreeMap<((u8, u8), bool), Longest<'_>> = BTreeMap::new();
        let mut leases: Vec<_> = self.leases.iter().collect();
        leases.sort_by_key(|(_, lease)| lease.alone.1);
        for (&number, lease) in leases {
            let others: &[bool] = if lease.shared { &[false] } else { &[false, true] };
            let before =
                others.iter().filter_map(|&shared| longest.get(&(lease.of(), shared))).flat_map(BTreeMap::values);
            let together = before.filter(|(_, before)| before.certain >= lease.alone.0);
            for (other, before) in together.filter(|(_, before)| !is_covered(lease, before, promises)) {
                let why = format!("lease {other} of p{} was believed in until {} too", before.process, before.certain);
                verdict.broken_at(lease.event, Rule::TwoBelievers, why);
            }
            let of = longest.entry((lease.of(), lease.shared)).or_default();
            let known = of.entry(lease.process).or_insert((number, lease));
            if known.1.certain < lease.certain {
                *known = (number, lease);
            }
        }
    }
}

/// Whether these two leases were held together in a case in which nothing is promised. If both
/// clients hear from a node that they share, this case must not last for long.
fn is_covered(lease: &Lease, before: &Lease, promises: &Promises) -> bool {
    let (one, other) = (lease.process, before.process);
    let together = (lease.alone.0, before.certain.min(lease.certain));
    promises.covers(one, other, together.0) && !promises.must_know(one, other, together)
}
