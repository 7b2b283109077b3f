//! What was asked of nodes for each owner and name, what a quorum of them allows it, and whether all
//! of it was given back: of several names that one owner asked for, each by itself.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use super::Configured;
use super::history::{Answer, Micros, Op, Owner, SECOND, Told, Verb};
use super::processes::Processes;
use super::rule::{Rule, Verdict};

/// One try to hold a name: whose, and which name.
pub type Try = (Owner, u8);

/// How much later than its holder gave it up all nodes have been asked to release it. One that is lost
/// by its deadline is released by a timer, of whole milliseconds, at that.
const SOON: Micros = 3_000;

/// How often a node calls one ballot stale before its owner asks with another: answers may be on their
/// way when it asks again.
const IN_VAIN: u32 = 3;

/// The longest round that is not set. It may be shorter by what takes off the drift: less than a
/// fiftieth and a millisecond.
const ROUND: Micros = 2 * SECOND;
const DRIFT: Micros = 1_000;

/// How late timers of whole milliseconds may end a wait.
const TIMERS: Micros = 10_000;

/// What is known of one try to hold a name.
#[derive(Debug, Default)]
struct Claimed {
    process: u16,
    /// The nodes that extended in each renewal: what was sent at one time.
    renewals: BTreeMap<Micros, u64>,
    /// The last vote for a claim of each node, by a reply or a push.
    votes: BTreeMap<u8, Vote>,
    /// When the last claim was sent that each node has refused and that waits.
    registered: BTreeMap<u8, Micros>,
    /// When its first claim was sent.
    first: Option<Micros>,
    /// When its first claim was sent that waits: nothing can have been handed over to it before.
    first_wait: Option<Micros>,
    /// What nodes have handed over to it before it was heard that they refused that claim.
    early: BTreeMap<u8, Op>,
    /// When nodes refused its claims, by when those were sent, and handed the name over to it: as
    /// parts of the history.
    refused: BTreeMap<(u8, Micros), usize>,
    handed: BTreeMap<u8, usize>,
    /// The ballot that each node called stale last, and how often.
    stale: BTreeMap<u8, (u64, u32)>,
    /// Until when its quorum lets it believe.
    deadline: Option<Micros>,
    /// The lease by which it holds the lock, or has: only renewals let it believe for longer.
    lease: Option<u32>,
    /// With which ballots nodes granted it, and up to which ballots it was withdrawn there.
    granted: BTreeMap<u8, u64>,
    withdrawn: BTreeMap<u8, u64>,
    released: u64,
    /// The nodes that have carried a release out.
    freed: u64,
    /// When its first release with a token was sent, and what each node answered to that try: whether
    /// it had held the name, and when the answer came.
    given_back: Option<Micros>,
    answered: BTreeMap<u8, (bool, Micros)>,
    /// The nodes that have not replied to that try, not even that they were not asked.
    silent: u64,
    /// When its holder let go of it last, and how long its process had stood still by then.
    let_go: Option<(Micros, Micros)>,
    /// The nodes that have had it at some time, and those whose clock was set forward since it
    /// asked.
    had: u64,
    set_forward: u64,
    /// Nodes are to hold what they granted it until its period is over.
    keeps: bool,
    ended: bool,
}

#[derive(Clone, Copy, Debug)]
struct Vote {
    ballot: u64,
    /// When the ask was sent that the node granted, or confirmed before its push.
    sent: Micros,
    ends: Micros,
}

impl Claimed {
    /// Whether a node may hold it that was not asked to release it, and is not to keep it.
    fn is_kept(&self, processes: &Processes) -> bool {
        self.never_undone() != 0 && !self.keeps && !processes.is_dead(self.process)
    }

    /// Whether the node has called this ballot stale so often that its owner knows. It is told once.
    fn is_stale(&mut self, op: Op) -> bool {
        let known = self.stale.get_mut(&op.node).filter(|known| known.0 == op.ballot && known.1 >= IN_VAIN);
        known.is_some_and(|known| std::mem::take(&mut known.1) > 0)
    }

    /// The nodes that granted it what was neither withdrawn nor released.
    fn never_undone(&self) -> u64 {
        let withdrawn = |node| self.withdrawn.get(node).copied().unwrap_or(0);
        let kept = self.granted.iter().filter(|(node, ballot)| **ballot > withdrawn(node));
        kept.fold(0, |nodes, (node, _)| nodes | 1 << node) & !self.released
    }

    /// The highest ballot that was withdrawn, at whatever node: no vote up to it counts.
    fn void(&self) -> u64 {
        self.withdrawn.values().copied().max().unwrap_or(0)
    }

    fn never_released(&self, (owner, _): Try) -> String {
        let nodes = listed(self.never_undone());
        format!("owner number {owner} was granted by n{nodes:?} what it never released")
    }

    /// Until when a quorum of votes with this ballot lasts, if there is one.
    fn carried(&self, ballot: u64, quorum: usize) -> Option<Micros> {
        let mut ends: Vec<_> = self.votes.values().filter(|vote| vote.ballot == ballot).map(|vote| vote.ends).collect();
        ends.sort_unstable_by(|one, other| other.cmp(one));
        ends.get(quorum - 1).copied()
    }

    /// How many nodes have told that they had it, or that they had not, before then.
    fn answers(&self, wanted: bool, before: Micros) -> usize {
        self.answered.values().filter(|&&(held, at)| held == wanted && at < before).count()
    }

    /// It may believe until then, if it did not have to end before.
    fn believes(&mut self, now: Micros, deadline: Micros) {
        let alive = self.deadline.is_none_or(|known| now <= known);
        if now < deadline && alive {
            self.deadline = Some(self.deadline.map_or(deadline, |known| known.max(deadline)));
        }
    }
}

#[derive(Debug)]
pub struct Rounds {
    clients: Vec<Configured>,
    tries: HashMap<Try, Claimed>,
    /// What has ended a moment ago, and when.
    leaving: VecDeque<(Micros, Try)>,
    /// Whose a ballot is, and when it was first asked for with it, or handed over.
    by_ballot: HashMap<(u16, u8, u64), (Owner, Micros)>,
    /// When a quorum has last been known to have one owner, by name; or to have readers: the nodes
    /// that have had some.
    had: HashMap<u8, Micros>,
    read: HashMap<u8, u64>,
    /// The names that somebody has waited for.
    waited: HashSet<u8>,
    /// Whether some node's clock was set back: it may have held for any time.
    set_back: bool,
}

impl Rounds {
    pub fn new(clients: Vec<Configured>) -> Self {
        let (tries, by_ballot, leaving) = (HashMap::new(), HashMap::new(), VecDeque::new());
        Self {
            clients,
            tries,
            leaving,
            by_ballot,
            had: HashMap::new(),
            read: HashMap::new(),
            waited: HashSet::new(),
            set_back: false,
        }
    }

    /// The number of the name of a process's list.
    pub fn team(&self, process: u16) -> u8 {
        self.clients[usize::from(process)].team
    }

    /// Whether all clients have one list.
    pub fn has_one_list(&self) -> bool {
        self.clients.windows(2).all(|two| two[0].list == two[1].list)
    }

    fn quorum(&self, process: u16) -> usize {
        self.clients[usize::from(process)].nodes / 2 + 1
    }

    /// How many nodes keep a quorum from what they do not say.
    fn blocking(&self, process: u16) -> usize {
        self.clients[usize::from(process)].nodes - self.quorum(process) + 1
    }

    /// Who claimed a name with a token.
    pub fn owner(&self, process: u16, name: u8, token: u64) -> Option<Owner> {
        self.by_ballot.get(&(process, name, token)).map(|&(owner, _)| owner)
    }

    /// When a name was first asked for with that token, or handed over.
    pub fn dealt(&self, process: u16, name: u8, token: u64) -> Option<Micros> {
        self.by_ballot.get(&(process, name, token)).map(|&(_, at)| at)
    }

    pub fn deadline(&self, of: Try) -> Option<Micros> {
        self.tries.get(&of)?.deadline
    }

    pub fn acquired(&mut self, of: Try, lease: u32) {
        if let Some(claimed) = self.tries.get_mut(&of) {
            claimed.lease = Some(lease);
        }
    }

    /// The lease of whose claims an operation is, if they came to one.
    pub fn lease(&self, op: Op) -> Option<u32> {
        self.tries.get(&of(op))?.lease
    }

    /// Its holder was told that it is lost. It keeps others out until its guard is dropped, or until
    /// its deadline: nodes need not be asked to release it now.
    pub fn lost(&mut self, of: Try) {
        if let Some(claimed) = self.tries.get_mut(&of) {
            claimed.ended = true;
        }
    }

    /// Its holder lets go of it, be it that it was lost.
    pub fn let_go(&mut self, now: Micros, of: Try, processes: &Processes) {
        if let Some(claimed) = self.tries.get_mut(&of) {
            claimed.ended = true;
            claimed.let_go = Some((now, processes.stood_still(claimed.process)));
            self.leaving.push_back((now, of));
        }
    }

    /// Whoever ends asks all nodes at once to release what they may hold, whether or not it waits for
    /// what comes of that.
    pub fn left(&mut self, now: Micros, processes: &Processes, verdict: &mut Verdict) {
        while let Some(&(ended, of)) = self.leaving.front()
            && ended + SOON < now
        {
            self.leaving.pop_front();
            let Some(claimed) = self.tries.get(&of).filter(|claimed| claimed.is_kept(processes)) else { continue };
            verdict.broken(Rule::NeverReleased, claimed.never_released(of));
        }
    }

    /// Its holder was told that a quorum of nodes has freed it.
    pub fn freed(&self, of: Try, verdict: &mut Verdict) {
        let Some(claimed) = self.tries.get(&of) else { return };
        if !self.is_quorum(claimed, claimed.freed) {
            let nodes = listed(claimed.freed);
            let why = format!("its holder was told that it is free, and only n{nodes:?} have released it");
            verdict.broken(Rule::NotFreed, why);
        }
    }

    /// A node has carried a release out.
    pub fn released(&mut self, op: Op) {
        if let Some(claimed) = self.tries.get_mut(&of(op)) {
            claimed.freed |= bit(op);
        }
    }

    /// The release of these names, in one call, has returned `told`. `held`: the holder believed that it
    /// held them all when it began the release. `round`: for how long it waits at most.
    pub fn told(
        &self,
        now: Micros,
        of: &[Try],
        (told, held, round): (Told, bool, Micros),
        processes: &Processes,
        verdict: &mut Verdict,
    ) {
        let all: Option<Vec<&Claimed>> = of.iter().map(|of| self.tries.get(of)).collect();
        let Some(all) = all else { return };
        let quorum = |claimed: &Claimed| self.quorum(claimed.process);
        // What is to stay with the nodes is held, and no node is asked.
        let stays = |claimed: &Claimed| claimed.keeps && claimed.given_back.is_none();
        let was_held = |claimed: &Claimed, before| stays(claimed) || claimed.answers(true, before) >= quorum(claimed);
        let was_gone = |claimed: &Claimed, before| claimed.answers(false, before) >= self.blocking(claimed.process);
        let why = match told {
            Told::Expired if !held => None,
            _ if !held => Some("it had ended before it was given up, and its holder was told otherwise"),
            Told::Released => {
                let held = all.iter().all(|claimed| was_held(claimed, now + 1));
                (!held).then_some("its holder was told that it was held until then, and no quorum has said so")
            }
            Told::Expired => {
                let gone = all.iter().any(|claimed| was_gone(claimed, now + 1));
                (!gone).then_some("its holder was told that it had ended before, and a quorum may have held it")
            }
            // An answer at that very moment may come too late.
            Told::Unconfirmed => {
                let gone = all.iter().any(|claimed| was_gone(claimed, now));
                let clear = gone || all.iter().all(|claimed| was_held(claimed, now));
                let early = || all.iter().any(|claimed| self.waits(now, claimed, round));
                if clear {
                    Some("its holder was told that nobody knows, and enough nodes had answered")
                } else {
                    early().then_some("its holder was told that nobody knows, and answers could still tell in time")
                }
            }
        };
        let late = all.iter().any(|claimed| self.is_late(now, claimed, round, processes));
        let why = why.or(late.then_some("its holder was told long after the release was to return"));
        why.into_iter().for_each(|why| verdict.broken(Rule::ToldAmiss, why));
    }

    /// Whether its release is to wait still: there is time, and nodes that are silent can decide.
    fn waits(&self, now: Micros, claimed: &Claimed, round: Micros) -> bool {
        let least = round.min(ROUND);
        let limit = |began: Micros| began + (least - least / 50).saturating_sub(DRIFT);
        let in_time = claimed.let_go.is_some_and(|(began, _)| claimed.given_back == Some(began) && now < limit(began));
        let (quorum, blocking) = (self.quorum(claimed.process), self.blocking(claimed.process));
        let (held, gone) = (claimed.answers(true, now + 1), claimed.answers(false, now + 1));
        let silent = claimed.silent.count_ones() as usize;
        in_time && held < quorum && gone < blocking && (held + silent >= quorum || gone + silent >= blocking)
    }

    /// Whether its release returns later than its time limit, by the clock of its process.
    fn is_late(&self, now: Micros, claimed: &Claimed, round: Micros, processes: &Processes) -> bool {
        let limit = round * 1_000_000 / self.clients[usize::from(claimed.process)].rate + TIMERS;
        claimed.let_go.is_some_and(|(began, stood_still)| {
            let pauses = processes.stood_still(claimed.process) - stood_still;
            now > began + limit + Processes::lateness(pauses)
        })
    }

    pub fn submitted(&mut self, op: Op, verdict: &mut Verdict) {
        if op.verb == Verb::Claim || op.verb == Verb::Renew {
            self.asked_with(op, op.sent);
        }
        if op.verb == Verb::Claim {
            self.waited.extend(op.waits.then_some(op.name));
        }
        // Who takes a name away from an owner is another process.
        if op.verb == Verb::Revoke {
            return;
        }
        let quorum = self.quorum(op.process);
        let claimed = self.tries.entry(of(op)).or_default();
        claimed.process = op.process;
        match op.verb {
            Verb::Claim => {
                claimed.first.get_or_insert(op.sent);
                if op.waits {
                    claimed.first_wait.get_or_insert(op.sent);
                }
                if claimed.is_stale(op) {
                    verdict.broken(Rule::AskedInVain, format!("n{} has called this ballot stale often", op.node));
                }
                if claimed.ended {
                    verdict.broken(Rule::NotFinal, "it claims what it had lost or given up");
                }
            }
            // For no longer than its period.
            Verb::Renew if claimed.ended && !claimed.keeps => {
                verdict.broken(Rule::NotFinal, "it renews what it had lost or released")
            }
            Verb::Release => {
                claimed.released |= bit(op);
                if op.token > 0 && *claimed.given_back.get_or_insert(op.sent) == op.sent {
                    claimed.silent |= bit(op);
                }
            }
            Verb::Withdraw => {
                let before = claimed.void();
                let withdrawn = claimed.withdrawn.entry(op.node).or_default();
                *withdrawn = op.ballot.max(*withdrawn);
                let void = claimed.void();
                // One that is sent again takes nothing from what was granted since.
                if void > before {
                    claimed.votes.retain(|_, vote| vote.ballot > void);
                    // Pushes with a higher ballot may have come just before.
                    let left = claimed.votes.values().filter_map(|vote| claimed.carried(vote.ballot, quorum)).max();
                    claimed.deadline = claimed.deadline.filter(|_| claimed.lease.is_some()).or(left);
                }
            }
            Verb::Renew | Verb::Revoke | Verb::Other => {}
        }
    }

    /// Two processes may come to the same ballot: of two owners of one, it is the later one's.
    fn asked_with(&mut self, op: Op, at: Micros) {
        let (owner, _) = self.by_ballot.entry((op.process, op.name, op.ballot)).or_insert((op.owner, at));
        *owner = op.owner.max(*owner);
    }

    /// The node has refused it, for another: it holds nothing there.
    pub fn refused(&mut self, op: Op, event: usize) {
        if let Some(claimed) = self.tries.get_mut(&of(op)) {
            claimed.granted.remove(&op.node);
            claimed.refused.insert((op.node, op.sent), event);
        }
    }

    /// With a release of another.
    pub fn handed_over(&mut self, now: Micros, op: Op, event: usize) {
        self.asked_with(op, now);
        self.granted(op);
        if let Some(claimed) = self.tries.get_mut(&of(op)) {
            claimed.handed.insert(op.node, event);
        }
    }

    pub fn granted(&mut self, op: Op) {
        if let Some(claimed) = self.tries.get_mut(&of(op)) {
            let granted = claimed.granted.entry(op.node).or_default();
            *granted = op.ballot.max(*granted);
        }
    }

    /// A node has the name for this owner from now on, or for longer.
    pub fn has(&mut self, now: Micros, op: Op) {
        let quorum = self.quorum(op.process);
        let Some(claimed) = self.tries.get_mut(&of(op)) else { return };
        claimed.had |= bit(op);
        // Each node names one reader of all: who looks takes them for one.
        let read = self.read.entry(op.name).or_default();
        *read |= if op.shared { bit(op) } else { 0 };
        let nodes = if op.shared { *read } else { claimed.had };
        if nodes.count_ones() as usize >= quorum {
            self.had.insert(op.name, now);
        }
    }

    /// Whether a quorum of nodes has had it, at one time or another.
    pub fn was_had(&self, of: Try) -> bool {
        self.tries.get(&of).is_some_and(|claimed| self.is_quorum(claimed, claimed.had))
    }

    /// Whether a quorum of nodes can have had the name for somebody at that time or later.
    pub fn somebody_had(&self, name: u8, since: Micros) -> bool {
        self.set_back || self.had.get(&name).is_some_and(|&last| last >= since)
    }

    /// Whether a quorum, as this process counts them, has ever had the name for somebody, or
    /// somebody has waited for it.
    pub fn is_in_use(&self, process: u16, name: u8) -> bool {
        let quorum = self.quorum(process);
        let had = |(of, claimed): (&Try, &Claimed)| of.1 == name && claimed.had.count_ones() as usize >= quorum;
        self.waited.contains(&name) || self.had.contains_key(&name) || self.tries.iter().any(had)
    }

    /// Whether a quorum of nodes knows of its grants still, and has seen no less time pass since.
    pub fn is_remembered(&self, of: Try) -> bool {
        let granted = |claimed: &Claimed| claimed.granted.keys().fold(0, |nodes, node| nodes | 1 << node);
        let known = |claimed: &Claimed| granted(claimed) & !claimed.set_forward;
        self.tries.get(&of).is_some_and(|claimed| self.is_quorum(claimed, known(claimed)))
    }

    fn is_quorum(&self, claimed: &Claimed, nodes: u64) -> bool {
        nodes.count_ones() as usize >= self.quorum(claimed.process)
    }

    /// When its first claim was sent.
    pub fn first_asked(&self, of: Try) -> Option<Micros> {
        self.tries.get(&of)?.first
    }

    /// A node's clock was stepped.
    pub fn stepped(&mut self, node: u8, by_ms: i64) {
        self.set_back |= by_ms < 0;
        if by_ms > 0 {
            self.tries.values_mut().for_each(|claimed| claimed.set_forward |= 1 << node);
        }
    }

    pub fn forgot(&mut self, node: u8) {
        self.tries.values_mut().for_each(|claimed| _ = claimed.granted.remove(&node));
    }

    /// An answer reached its process: a quorum of votes within the validity lets it believe.
    pub fn delivered(&mut self, now: Micros, op: Op, answer: Answer) {
        let Some(claimed) = self.tries.get_mut(&of(op)) else { return };
        match (op.verb, answer) {
            (Verb::Claim, Answer::Granted) => {
                claimed.registered.remove(&op.node);
                let ends = ends(&self.clients, op.process, op.sent, op.ttl);
                claimed.votes.insert(op.node, Vote { ballot: op.ballot, sent: op.sent, ends });
                self.counted(now, op);
            }
            // What it registered before stands, and so does a vote of a later ask: an older one
            // may come behind it.
            (Verb::Claim, Answer::Stale) => {
                claimed.votes.retain(|&node, vote| node != op.node || vote.sent > op.sent);
                let (ballot, often) = claimed.stale.entry(op.node).or_default();
                (*ballot, *often) = if *ballot == op.ballot { (op.ballot, *often + 1) } else { (op.ballot, 1) };
            }
            (Verb::Claim, Answer::Refused) => {
                // Of what was said before the name was handed over, and is heard of later, the last
                // word is the push.
                let before = claimed.refused.get(&(op.node, op.sent)) < claimed.handed.get(&op.node);
                if !before {
                    claimed.votes.remove(&op.node);
                }
                if op.waits {
                    claimed.registered.insert(op.node, op.sent);
                    let early =
                        claimed.early.remove(&op.node).filter(|_| before && claimed.first_wait == Some(op.sent));
                    early.into_iter().for_each(|push| self.pushed(now, push));
                }
            }
            (Verb::Renew, Answer::Extended) => self.extended(now, op),
            // Of a node that is asked again, only its answer to the first try tells.
            (Verb::Release, _) if op.token > 0 && claimed.given_back == Some(op.sent) => {
                claimed.silent &= !bit(op);
                if matches!(answer, Answer::Released(_) | Answer::Forgot) {
                    claimed.answered.insert(op.node, (answer == Answer::Released(true), now));
                }
            }
            _ => {}
        }
    }

    /// It was handed over: from when the last claim was sent that its node had refused by then, for
    /// as long as that says.
    pub fn pushed(&mut self, now: Micros, op: Op) {
        self.asked_with(op, now);
        let Some(claimed) = self.tries.get_mut(&of(op)) else { return };
        let Some(&sent) = claimed.registered.get(&op.node) else {
            claimed.early.insert(op.node, op);
            return;
        };
        let ends = ends(&self.clients, op.process, sent, op.hand);
        claimed.votes.insert(op.node, Vote { ballot: op.ballot, sent, ends });
        self.counted(now, op);
    }

    /// What a quorum of votes with one ballot carries.
    fn counted(&mut self, now: Micros, op: Op) {
        let quorum = self.quorum(op.process);
        let Some(claimed) = self.tries.get_mut(&of(op)) else { return };
        let void = claimed.void();
        let Some(last) = claimed.votes.get(&op.node).copied().filter(|vote| vote.ballot > void) else { return };
        let carried = claimed.carried(last.ballot, quorum);
        if let Some(deadline) = carried.filter(|&deadline| now < deadline && claimed.lease.is_none()) {
            claimed.deadline = claimed.deadline.max(Some(deadline));
        }
    }

    fn extended(&mut self, now: Micros, op: Op) {
        let deadline = ends(&self.clients, op.process, op.sent, op.ttl);
        let quorum = self.quorum(op.process);
        let Some(claimed) = self.tries.get_mut(&of(op)) else { return };
        let votes = claimed.renewals.entry(op.sent).or_default();
        *votes |= bit(op);
        if votes.count_ones() as usize >= quorum {
            claimed.believes(now, deadline);
        }
    }

    /// What it was granted is to stay with the nodes, or not any more.
    pub fn keeps(&mut self, of: Try, keeps: bool) {
        self.tries.entry(of).or_default().keeps = keeps;
    }

    /// At the end: whatever was granted has been released.
    pub fn never_released(&self, processes: &Processes, verdict: &mut Verdict) {
        let kept = |(_, claimed): &(&Try, &Claimed)| claimed.is_kept(processes);
        let mut forgotten: Vec<_> = self.tries.iter().filter(kept).collect();
        forgotten.sort_unstable_by_key(|(of, _)| **of);
        for (of, claimed) in forgotten {
            verdict.broken(Rule::NeverReleased, claimed.never_released(*of));
        }
    }
}

const fn of(op: Op) -> Try {
    (op.owner, op.name)
}

/// The nodes of a set.
fn listed(nodes: u64) -> Vec<u64> {
    (0..64).filter(|node| nodes >> node & 1 == 1).collect()
}

const fn bit(op: Op) -> u64 {
    1 << op.node
}

/// By true time, when a vote ends that was asked for at `sent`.
fn ends(clients: &[Configured], process: u16, sent: Micros, ttl: u32) -> Micros {
    let ttl = u64::from(ttl) * 1_000;
    sent + ttl.saturating_sub(ttl / 100 + 2_000) * 1_000_000 / clients[usize::from(process)].rate
}
