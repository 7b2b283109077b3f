//! Judges a history. Knows nothing of clients and nodes: only who believed what, when, with which token.

use std::collections::{BTreeMap, HashMap};

use crate::history::Event;

/// A task of a process.
pub type Who = (u32, usize);

/// From when until when a task certainly believed that it held a name.
#[derive(Clone, Debug)]
struct Belief {
    who: Who,
    token: u64,
    from: u64,
    until: u64,
    /// What it was told last of when it would end.
    deadline: u64,
    /// A write within it was refused, and it is not known yet whether it was held still.
    refused: bool,
}

/// The history so far.
#[derive(Debug, Default)]
pub struct Judge {
    open: HashMap<Who, (usize, Belief)>,
    ended: BTreeMap<usize, Vec<Belief>>,
    pub counts: Counts,
    violations: Vec<String>,
}

/// What happened how often.
#[derive(Debug, Default)]
pub struct Counts {
    pub sections: u64,
    pub released: u64,
    pub expired: u64,
    pub refused: u64,
    pub missed: u64,
    pub writes: u64,
    pub old_writes: u64,
}

impl Judge {
    /// Takes note of one event.
    pub fn note(&mut self, who: Who, event: &Event) {
        match *event {
            Event::Believed { name, token, at, deadline } => {
                self.counts.sections += 1;
                self.end(who);
                let belief = Belief { who, token, from: at, until: at, deadline, refused: false };
                self.open.insert(who, (name, belief));
            }
            Event::Still { at, deadline } => self.still(who, at, deadline),
            Event::Told { expired } => {
                // A lease that ran out was believed until then; one that was taken away, at least until it was looked at last.
                if let Some((_, belief)) = self.open.get_mut(&who).filter(|_| expired) {
                    belief.until = belief.until.max(belief.deadline);
                }
                *if expired { &mut self.counts.expired } else { &mut self.counts.refused } += 1;
                self.end(who);
            }
            Event::Released => {
                self.counts.released += 1;
                self.end(who);
            }
            Event::Wrote { taken } => {
                *if taken { &mut self.counts.writes } else { &mut self.counts.old_writes } += 1;
                if let Some((_, belief)) = self.open.get_mut(&who) {
                    belief.refused |= !taken;
                }
            }
            Event::Missed => self.counts.missed += 1,
            Event::Stopping | Event::Uses { .. } => {}
        }
    }

    /// The process is gone: it believes nothing any more.
    pub fn died(&mut self, process: u32) {
        let tasks: Vec<_> = self.open.keys().copied().filter(|who| who.0 == process).collect();
        tasks.into_iter().for_each(|who| self.end(who));
    }

    /// Which processes have acquired something since `since`.
    pub fn busy(&self, process: u32, since: u64) -> bool {
        let open = self.open.values().map(|(_, belief)| belief);
        open.chain(self.ended.values().flatten()).any(|belief| belief.who.0 == process && belief.from >= since)
    }

    /// Everything that must never happen and did.
    pub fn verdict(mut self, storage: &[Vec<u64>]) -> Vec<String> {
        let left: Vec<_> = self.open.keys().copied().collect();
        left.into_iter().for_each(|who| self.end(who));
        for (name, mut beliefs) in std::mem::take(&mut self.ended) {
            beliefs.sort_by_key(|belief| belief.from);
            self.violations.extend(two_believers(name, &beliefs));
            self.violations.extend(tokens_fell(name, &beliefs));
        }
        for (name, tokens) in storage.iter().enumerate().filter(|(_, tokens)| !tokens.is_sorted()) {
            self.violations.push(format!("the storage of name {name} took an older write: {} writes", tokens.len()));
        }
        self.violations
    }

    /// The longest time in which nobody acquired anything, and when it ended.
    pub fn longest_pause(&self, from: u64, until: u64) -> (u64, u64) {
        let open = self.open.values().map(|(_, belief)| belief.from);
        let ended = self.ended.values().flatten().map(|belief| belief.from);
        let mut moments: Vec<_> =
            open.chain(ended).chain([from, until]).filter(|at| (from..=until).contains(at)).collect();
        moments.sort_unstable();
        moments.windows(2).map(|pair| (pair[1] - pair[0], pair[1])).max().unwrap_or_default()
    }

    fn still(&mut self, who: Who, at: u64, deadline: u64) {
        let Some((name, belief)) = self.open.get_mut(&who) else { return };
        belief.until = at;
        belief.deadline = deadline;
        if std::mem::take(&mut belief.refused) {
            self.violations.push(format!("a write to name {name} was refused while its writer held it: {belief:?}"));
        }
    }

    fn end(&mut self, who: Who) {
        if let Some((name, belief)) = self.open.remove(&who) {
            self.ended.entry(name).or_default().push(belief);
        }
    }
}

fn two_believers(name: usize, beliefs: &[Belief]) -> Vec<String> {
    let mut found = Vec::new();
    let mut longest: Option<&Belief> = None;
    for belief in beliefs {
        if let Some(before) = longest.filter(|before| before.until > belief.from) {
            found
                .push(format!("two believed that they held name {name} at {}: {before:?} and {belief:?}", belief.from));
        }
        if longest.is_none_or(|before| before.until < belief.until) {
            longest = Some(belief);
        }
    }
    found
}

fn tokens_fell(name: usize, beliefs: &[Belief]) -> Vec<String> {
    let fell = beliefs.windows(2).filter(|pair| pair[0].token >= pair[1].token);
    fell.map(|pair| format!("tokens of name {name} did not grow: {:?}, then {:?}", pair[0], pair[1])).collect()
}

/// Histories that the judge must condemn, and some that it must not. Run before every chaos: a judge that cannot find anything finds nothing.
pub fn judge_the_judge() {
    let believed = |token, at| Event::Believed { name: 0, token, at, deadline: at + 100 };
    let still = |at| Event::Still { at, deadline: at + 100 };
    let (a, b) = ((1, 0), (2, 0));
    let verdict = |events: &[(Who, Event)]| {
        let mut judge = Judge::default();
        events.iter().for_each(|(who, event)| judge.note(*who, event));
        judge.verdict(&[]).len()
    };
    let expired = Event::Told { expired: true };
    let refused = Event::Told { expired: false };
    let wrote = Event::Wrote { taken: false };
    assert_eq!(verdict(&[(a, believed(1, 0)), (a, still(50)), (a, Event::Released), (b, believed(2, 60))]), 0);
    assert_eq!(verdict(&[(a, believed(1, 0)), (b, believed(2, 60)), (a, still(70))]), 1, "two believers");
    assert_eq!(verdict(&[(a, believed(1, 0)), (b, believed(2, 60)), (a, expired.clone())]), 1, "held to the deadline");
    assert_eq!(verdict(&[(a, believed(1, 0)), (b, believed(2, 110)), (a, expired)]), 0, "after the deadline");
    assert_eq!(verdict(&[(a, believed(1, 0)), (b, believed(2, 60)), (a, refused)]), 0, "told lost in time");
    assert_eq!(verdict(&[(a, believed(2, 0)), (a, Event::Released), (b, believed(1, 60))]), 1, "tokens fell");
    assert_eq!(verdict(&[(a, believed(1, 0)), (a, wrote.clone()), (a, still(9))]), 1, "a holder's write refused");
    assert_eq!(verdict(&[(a, believed(1, 0)), (a, wrote), (a, Event::Told { expired: false })]), 0);
    assert_eq!(Judge::default().verdict(&[vec![2, 1]]).len(), 1, "the storage took an older write");
}
