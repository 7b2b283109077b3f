//! Who believed to hold what, from when until when.

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
    /// Of its list's name: leases of two teams have nothing in common.
    team: u8,
    pub name: u8,
    /// Whose claims it came from, where nodes were watched.
    pub owner: Option<Owner>,
    pub token: u64,
    /// Of a reader.
    pub shared: bool,
    /// Of how many permits it is one, as its holder knows; 0 where it is a lock.
    permits: u32,
    /// When it was acquired, and which event that was.
    pub from: Micros,
    pub event: usize,
    /// Since when it keeps writers out: of a reader that was the writer, from when it was that
    /// last.
    alone: (Micros, usize),
    /// When its holder certainly believed in it last, or worked under it still though it was lost.
    certain: Micros,
    /// Until when it keeps others out: what it said last of when it ends, or when its holder let go.
    pub until: Micros,
    /// When it ended, and which event that was.
    over: Option<(Micros, usize)>,
    /// Whether it has never said, before it was given up, that it is not held.
    held: bool,
    /// Known to have been told late.
    late: bool,
    /// Its token is below one that nodes forgot: see [`Tokens`].
    pub fell: bool,
    /// It was held beside another one, and nobody promised that it would not.
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

    /// Its team and its name.
    pub const fn of(&self) -> (u8, u8) {
        (self.team, self.name)
    }

    /// As nodes know it.
    pub fn of_nodes(&self) -> Option<Try> {
        Some((self.owner?, self.name))
    }
}

/// The lease of each process that was believed in for the longest time, and its number.
type Longest<'a> = BTreeMap<u16, (u32, &'a Lease)>;

/// All leases by their numbers.
#[derive(Debug, Default)]
pub struct Beliefs {
    leases: BTreeMap<u32, Lease>,
    live: Vec<u32>,
    tokens: Tokens,
    /// The ballot by which a process takes a name away.
    revoking: BTreeMap<(u16, u8), u64>,
    revoked: Vec<Revoked>,
    /// When nodes forgot.
    forgot: Vec<Micros>,
}

/// A name was taken away from whoever had it when that `began`, and from whoever has a token below
/// this.
#[derive(Debug)]
struct Revoked {
    /// Who revoked.
    process: u16,
    name: u8,
    began: Micros,
    below: u64,
    /// When that must be over.
    by: Micros,
    /// What was acquired before a step of a clock that the revoker cannot know of may be left out.
    unknown: Option<Micros>,
}

impl Revoked {
    /// A node that forgets after that forgets this as well: lower tokens may come again.
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

    /// A lease, of which the first claim was sent at `asked`.
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

    /// Whether others hold the same name at that moment, which is nobody's promise.
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

    /// As what nodes know a lease, if that is known.
    pub fn of_nodes(&self, number: u32) -> Option<Try> {
        self.leases.get(&number)?.of_nodes()
    }

    /// Another caller has it too.
    pub fn shared(&self, number: u32, verdict: &mut Verdict) {
        if self.leases.get(&number).is_none_or(|lease| lease.over.is_some()) {
            verdict
                .broken(Rule::HeldAmiss, format!("lease {number} is over, and another caller was told that it has it"));
        }
    }

    /// The reader was this writer, until that ended: nobody else writes since.
    pub fn follows(&mut self, reader: u32, writer: u32) {
        let ended = self.leases.get(&writer).and_then(|lease| lease.over);
        if let (Some((at, event)), Some(reader)) = (ended, self.leases.get_mut(&reader)) {
            reader.alone = (at + 1, event);
        }
    }

    /// What was acquired is one of so many permits.
    pub fn counted(&mut self, number: u32, permits: u32) {
        self.leases.get_mut(&number).into_iter().for_each(|lease| lease.permits = permits);
    }

    /// Asked whether it is held, it said so.
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
        // Clients of lists that need not know of each other take nothing away from each other.
        let is_covered = |revoked: &Revoked| promises.covers(revoked.process, lease.process, revoked.began);
        let lasts = |revoked: &&Revoked| {
            revoked.concerns(lease, &self.forgot) && revoked.by < lease.certain && !is_covered(revoked)
        };
        if let Some(Revoked { by, .. }) = self.revoked.iter().find(lasts) {
            let long = lease.certain - by;
            verdict.broken(Rule::RevokedGoesOn, format!("lease {number} was revoked, and is held {long} us too long"));
        }
    }

    /// Asked whether it is held, it said that it is not.
    pub fn denied(&mut self, number: u32) {
        if let Some(lease) = self.leases.get_mut(&number).filter(|lease| lease.over.is_none()) {
            lease.held = false;
        }
    }

    /// Whether it said that it is held when it was given up.
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

    /// Nothing works under it any more, be it that it was lost. Until now, or its deadline, nobody
    /// else was to enter.
    pub fn let_go(&mut self, now: Micros, number: u32) {
        let Some(lease) = self.leases.get_mut(&number) else { return };
        lease.until = lease.until.min(now);
        lease.certain = lease.certain.max(lease.until);
    }

    /// A node is asked to release it.
    pub fn given_back(&self, now: Micros, number: u32, verdict: &mut Verdict) {
        if let Some(lease) = self.leases.get(&number).filter(|lease| lease.until > now + ROUNDING) {
            let early = lease.until - now;
            verdict.broken(Rule::LetInEarly, format!("lease {number} is released {early} us early"));
        }
    }

    /// Its holder gave it up, or was told that it is lost; if because its time ran out, it was
    /// believed in until then.
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

    /// It keeps nobody out any more.
    pub fn shut_down(&mut self, now: Micros, process: u16) {
        let held = self.leases.values_mut().filter(|lease| lease.process == process);
        held.for_each(|lease| lease.until = lease.until.min(now));
    }

    /// Says that a lease is believed in for longer than the round allows from which it has its
    /// time.
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

    /// Whoever has not been told by its deadline is told late.
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

    /// At the end: nobody got a permit while so many were believed in that there were more than anybody
    /// knows of. There is one semaphore in a history.
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

    /// At the end: no two beliefs in one name have a moment in common, but for those of readers, and
    /// for those that nobody promised to keep apart.
    pub fn two_believers(&self, promises: &Promises, verdict: &mut Verdict) {
        // By team and name, of writers and of readers: the longest of each process.
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

/// Whether nobody promised that these two were not held together: but not for long where both hear of
/// a node that tells them.
fn is_covered(lease: &Lease, before: &Lease, promises: &Promises) -> bool {
    let (one, other) = (lease.process, before.process);
    let together = (lease.alone.0, before.certain.min(lease.certain));
    promises.covers(one, other, together.0) && !promises.must_know(one, other, together)
}
