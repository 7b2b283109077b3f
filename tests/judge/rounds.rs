//! For each owner and name: the requests to nodes, the deadline that a quorum's answers allow, and
//! whether each grant was released. Each name of a set is judged by itself.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use super::Configured;
use super::history::{Answer, Micros, Op, Owner, SECOND, Told, Verb};
use super::processes::Processes;
use super::rule::{Rule, Verdict};

/// One try to hold a name: the owner, and the name.
pub type Try = (Owner, u8);

/// Within this time after a holder gave its lock up, all nodes must have been asked to release it.
/// When a lock expires, a timer sends its release. Timers round to whole milliseconds, so this
/// release may be a millisecond or two late.
const SOON: Micros = 3_000;

/// How often a node may reply `stale` to one ballot before the owner must ask with another ballot.
/// When the owner asks again, the first reply may still be on its way.
const IN_VAIN: u32 = 3;

/// The longest default round. The drift may make a round shorter, by less than a fiftieth and a
/// millisecond.
const ROUND: Micros = 2 * SECOND;
const DRIFT: Micros = 1_000;

/// How much later than its limit a round may end: timers round to whole milliseconds.
const TIMERS: Micros = 10_000;

/// The state of one try to hold a name.
#[derive(Debug, Default)]
struct Claimed {
    process: u16,
    /// For each renewal, by the time at which it was sent: the nodes that replied `extended`.
    renewals: BTreeMap<Micros, u64>,
    /// Each node's last vote for a claim: a grant or a push.
    votes: BTreeMap<u8, Vote>,
    /// By node: when the last claim was sent that waits and that the node refused.
    registered: BTreeMap<u8, Micros>,
    /// When the first claim was sent.
    first: Option<Micros>,
    /// When the first claim that waits was sent. Before this time, no node can have handed the name
    /// over.
    first_wait: Option<Micros>,
    /// Pushes that arrived before the node's refusal of the first claim that waits.
    early: BTreeMap<u8, Op>,
    /// The number of the event at which a node refused a claim, by node and by the time at which
    /// the claim was sent.
    refused: BTreeMap<(u8, Micros), usize>,
    /// The number of the event at which each node last handed the name over to this owner.
    handed: BTreeMap<u8, usize>,
    /// The last ballot to which each node replied `stale`, and how often.
    stale: BTreeMap<u8, (u64, u32)>,
    /// Until when a quorum lets the owner believe that it holds the name.
    deadline: Option<Micros>,
    /// The lease that the owner got, and its token, if any. Once there is a lease, only renewals
    /// move the deadline.
    lease: Option<(u32, u64)>,
    /// The highest ballot that each node granted.
    granted: BTreeMap<u8, u64>,
    /// The ballot up to which claims were withdrawn on each node.
    withdrawn: BTreeMap<u8, u64>,
    released: u64,
    /// The nodes that have carried out a release.
    freed: u64,
    /// When the first release with a token was sent.
    given_back: Option<Micros>,
    /// Each node's answer to the release that was sent at `given_back`: whether the owner held the
    /// name, and when the answer came.
    answered: BTreeMap<u8, (bool, Micros)>,
    /// The nodes whose reply to this release is missing. A fault counts as a reply.
    silent: u64,
    /// When the holder last let go of the lock, and how long its process had stood still in total
    /// up to this time.
    let_go: Option<(Micros, Micros)>,
    /// The nodes that have held the name for this owner at some time.
    had: u64,
    /// The nodes whose clocks were set forward since the owner asked.
    set_forward: u64,
    /// Whether nodes are to keep the name for this owner until its period is over.
    keeps: bool,
    ended: bool,
}

#[derive(Clone, Copy, Debug)]
struct Vote {
    ballot: u64,
    /// For a grant: when the granted ask was sent. For a push: when the last ask was sent whose
    /// place the node had confirmed.
    sent: Micros,
    ends: Micros,
}

impl Claimed {
    /// Whether a node without a release or withdrawal may hold the name, and need not keep the name
    /// for a period.
    fn is_kept(&self, processes: &Processes) -> bool {
        self.never_undone() != 0 && !self.keeps && !processes.is_dead(self.process)
    }

    /// Whether the node has replied `stale` to this ballot so often that the owner must know. If
    /// so, begins to count anew.
    fn is_stale(&mut self, op: Op) -> bool {
        let known = self.stale.get_mut(&op.node).filter(|known| known.0 == op.ballot && known.1 >= IN_VAIN);
        known.is_some_and(|known| std::mem::take(&mut known.1) > 0)
    }

    /// The nodes with a grant that was neither withdrawn nor released.
    fn never_undone(&self) -> u64 {
        let withdrawn = |node| self.withdrawn.get(node).copied().unwrap_or(0);
        let kept = self.granted.iter().filter(|(node, ballot)| **ballot > withdrawn(node));
        kept.fold(0, |nodes, (node, _)| nodes | 1 << node) & !self.released
    }

    /// The highest ballot that was withdrawn on any node. A vote counts only if its ballot is above
    /// this one.
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

    /// How many nodes answered before the time `before` that the owner held the name (or did not
    /// hold it, if `wanted` is false).
    fn answers(&self, wanted: bool, before: Micros) -> usize {
        self.answered.values().filter(|&&(held, at)| held == wanted && at < before).count()
    }

    /// Moves the deadline forward, unless the present deadline has passed.
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
    /// Tries whose holder let go a moment ago, and when.
    leaving: VecDeque<(Micros, Try)>,
    /// By process, name and ballot: the owner that used the ballot, and when it first asked, or was
    /// handed the name, with this ballot.
    by_ballot: HashMap<(u16, u8, u64), (Owner, Micros)>,
    /// By name, once a quorum has held the name for one owner, or for readers: when a node last
    /// began or extended such a hold.
    had: HashMap<u8, Micros>,
    /// By name: the nodes that have held it for readers.
    read: HashMap<u8, u64>,
    /// The names that somebody has waited for.
    waited: HashSet<u8>,
    /// Whether some node's clock was set back: holds there may have lasted for any time.
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

    /// How many nodes are enough to prevent a quorum.
    fn blocking(&self, process: u16) -> usize {
        self.clients[usize::from(process)].nodes - self.quorum(process) + 1
    }

    /// The owner that claimed a name with this token.
    pub fn owner(&self, process: u16, name: u8, token: u64) -> Option<Owner> {
        self.by_ballot.get(&(process, name, token)).map(|&(owner, _)| owner)
    }

    /// When a name was first asked for, or handed over, with this token.
    pub fn dealt(&self, process: u16, name: u8, token: u64) -> Option<Micros> {
        self.by_ballot.get(&(process, name, token)).map(|&(_, at)| at)
    }

    pub fn deadline(&self, of: Try) -> Option<Micros> {
        self.tries.get(&of)?.deadline
    }

    pub fn acquired(&mut self, of: Try, lease: u32, token: u64) {
        if let Some(claimed) = self.tries.get_mut(&of) {
            claimed.lease = Some((lease, token));
        }
    }

    /// The lease of the owner of an operation, if the owner got one.
    pub fn lease(&self, op: Op) -> Option<u32> {
        self.tries.get(&of(op))?.lease.map(|(lease, _)| lease)
    }

    /// The holder learned that its lock is lost. The lock keeps others out until its guard is
    /// dropped, or until its deadline. So nodes need not be asked to release it now.
    pub fn lost(&mut self, of: Try) {
        if let Some(claimed) = self.tries.get_mut(&of) {
            claimed.ended = true;
        }
    }

    /// The holder lets go of its lock, even if the lock was already lost.
    pub fn let_go(&mut self, now: Micros, of: Try, processes: &Processes) {
        if let Some(claimed) = self.tries.get_mut(&of) {
            claimed.ended = true;
            claimed.let_go = Some((now, processes.stood_still(claimed.process)));
            self.leaving.push_back((now, of));
        }
    }

    /// Records a violation for each holder that let go, and did not soon ask all nodes that may
    /// hold the name to release it.
    pub fn left(&mut self, now: Micros, processes: &Processes, verdict: &mut Verdict) {
        while let Some(&(ended, of)) = self.leaving.front()
            && ended + SOON < now
        {
            self.leaving.pop_front();
            let Some(claimed) = self.tries.get(&of).filter(|claimed| claimed.is_kept(processes)) else { continue };
            verdict.broken(Rule::NeverReleased, claimed.never_released(of));
        }
    }

    /// The holder learned that a quorum of nodes has freed the name.
    pub fn freed(&self, of: Try, verdict: &mut Verdict) {
        let Some(claimed) = self.tries.get(&of) else { return };
        if !self.is_quorum(claimed, claimed.freed) {
            let nodes = listed(claimed.freed);
            let why = format!("its holder was told that it is free, and only n{nodes:?} have released it");
            verdict.broken(Rule::NotFreed, why);
        }
    }

    pub fn released(&mut self, op: Op) {
        if let Some(claimed) = self.tries.get_mut(&of(op)) {
            claimed.freed |= bit(op);
        }
    }

    /// One call has released these names, and returned `told`. `held`: whether the holder believed
    /// that it held all names when the call began. `round`: how long the call waits at most.
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
        // A name that nodes are to keep for a period counts as held, and no node gets a release.
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
            // An answer that comes at this very moment may be too late.
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

    /// Whether the release should still wait: there is time left, and missing replies can decide.
    fn waits(&self, now: Micros, claimed: &Claimed, round: Micros) -> bool {
        let least = round.min(ROUND);
        let limit = |began: Micros| began + (least - least / 50).saturating_sub(DRIFT);
        let in_time = claimed.let_go.is_some_and(|(began, _)| claimed.given_back == Some(began) && now < limit(began));
        let (quorum, blocking) = (self.quorum(claimed.process), self.blocking(claimed.process));
        let (held, gone) = (claimed.answers(true, now + 1), claimed.answers(false, now + 1));
        let silent = claimed.silent.count_ones() as usize;
        in_time && held < quorum && gone < blocking && (held + silent >= quorum || gone + silent >= blocking)
    }

    /// Whether the release of this try returns later than its time limit, by the clock of the
    /// process.
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
        // A revocation is sent by another process than the owner's.
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
            // While nodes keep a name for its period, the ended lease may still be renewed.
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
                // A withdrawal that is sent a second time takes back no vote that came after the
                // first time.
                if void > before {
                    claimed.votes.retain(|_, vote| vote.ballot > void);
                    // Pushes with a higher ballot may already have come. A quorum of such pushes
                    // keeps a deadline.
                    let left = claimed.votes.values().filter_map(|vote| claimed.carried(vote.ballot, quorum)).max();
                    claimed.deadline = claimed.deadline.filter(|_| claimed.lease.is_some()).or(left);
                }
            }
            Verb::Renew | Verb::Revoke | Verb::Other => {}
        }
    }

    /// Records the owner that uses a ballot. If two owners of one process use the same ballot, the
    /// ballot belongs to the later owner.
    fn asked_with(&mut self, op: Op, at: Micros) {
        let (owner, _) = self.by_ballot.entry((op.process, op.name, op.ballot)).or_insert((op.owner, at));
        *owner = op.owner.max(*owner);
    }

    /// The node refused this owner, because of another owner. So this owner holds nothing there.
    pub fn refused(&mut self, op: Op, event: usize) {
        if let Some(claimed) = self.tries.get_mut(&of(op)) {
            claimed.granted.remove(&op.node);
            claimed.refused.insert((op.node, op.sent), event);
        }
    }

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

    /// A withdrawal ended the owner's hold on this node. If the owner wins with a higher ballot, this
    /// node does not know of it. But an owner that has won must not withdraw its own token: this
    /// excuses nothing.
    pub fn withdrew(&mut self, op: Op) {
        let of = of(op);
        let claimed = self.tries.get_mut(&of);
        if let Some(claimed) = claimed.filter(|claimed| claimed.lease.is_none_or(|(_, token)| op.ballot < token)) {
            claimed.granted.retain(|&node, ballot| node != op.node || *ballot > op.ballot);
        }
    }

    /// A node has begun or extended a hold of the name for this owner.
    pub fn has(&mut self, now: Micros, op: Op) {
        let quorum = self.quorum(op.process);
        let Some(claimed) = self.tries.get_mut(&of(op)) else { return };
        claimed.had |= bit(op);
        // Each node names only one of its readers, so a client cannot tell readers apart. All
        // readers of a name count together.
        let read = self.read.entry(op.name).or_default();
        *read |= if op.shared { bit(op) } else { 0 };
        let nodes = if op.shared { *read } else { claimed.had };
        if nodes.count_ones() as usize >= quorum {
            self.had.insert(op.name, now);
        }
    }

    /// Whether each node of a quorum has held the name for this owner at some time.
    pub fn was_had(&self, of: Try) -> bool {
        self.tries.get(&of).is_some_and(|claimed| self.is_quorum(claimed, claimed.had))
    }

    /// Whether a quorum of nodes can have held the name for some owner at the time `since` or
    /// later.
    pub fn somebody_had(&self, name: u8, since: Micros) -> bool {
        self.set_back || self.had.get(&name).is_some_and(|&last| last >= since)
    }

    /// Whether a quorum has ever held the name for some owner, or some owner has waited for it. The
    /// size of the quorum is that of this process's list.
    pub fn is_in_use(&self, process: u16, name: u8) -> bool {
        let quorum = self.quorum(process);
        let had = |(of, claimed): (&Try, &Claimed)| of.1 == name && claimed.had.count_ones() as usize >= quorum;
        self.waited.contains(&name) || self.had.contains_key(&name) || self.tries.iter().any(had)
    }

    /// Whether a quorum of nodes still knows its grants to this owner. A node that carried out a
    /// withdrawal of its grant, or whose clock was set forward after the owner asked, does not count.
    pub fn is_remembered(&self, of: Try) -> bool {
        let granted = |claimed: &Claimed| claimed.granted.keys().fold(0, |nodes, node| nodes | 1 << node);
        let known = |claimed: &Claimed| granted(claimed) & !claimed.set_forward;
        self.tries.get(&of).is_some_and(|claimed| self.is_quorum(claimed, known(claimed)))
    }

    fn is_quorum(&self, claimed: &Claimed, nodes: u64) -> bool {
        nodes.count_ones() as usize >= self.quorum(claimed.process)
    }

    /// When the first claim of this try was sent.
    pub fn first_asked(&self, of: Try) -> Option<Micros> {
        self.tries.get(&of)?.first
    }

    pub fn stepped(&mut self, node: u8, by_ms: i64) {
        self.set_back |= by_ms < 0;
        if by_ms > 0 {
            self.tries.values_mut().for_each(|claimed| claimed.set_forward |= 1 << node);
        }
    }

    pub fn forgot(&mut self, node: u8) {
        self.tries.values_mut().for_each(|claimed| _ = claimed.granted.remove(&node));
    }

    /// An answer reached its process. A quorum of votes within the validity sets the deadline.
    pub fn delivered(&mut self, now: Micros, op: Op, answer: Answer) {
        let Some(claimed) = self.tries.get_mut(&of(op)) else { return };
        match (op.verb, answer) {
            (Verb::Claim, Answer::Granted) => {
                claimed.registered.remove(&op.node);
                let ends = ends(&self.clients, op.process, op.sent, op.ttl);
                claimed.votes.insert(op.node, Vote { ballot: op.ballot, sent: op.sent, ends });
                self.counted(now, op);
            }
            // The place from an earlier ask stays. The vote for a later ask stays too: this reply,
            // to an older ask, may arrive after that vote.
            (Verb::Claim, Answer::Stale) => {
                claimed.votes.retain(|&node, vote| node != op.node || vote.sent > op.sent);
                let (ballot, often) = claimed.stale.entry(op.node).or_default();
                (*ballot, *often) = if *ballot == op.ballot { (op.ballot, *often + 1) } else { (op.ballot, 1) };
            }
            (Verb::Claim, Answer::Refused) => {
                // If the node refused this claim before it handed the name over, the push counts,
                // even if the refusal arrives later.
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
            // If a release is sent several times, only the node's answer to the first release
            // counts.
            (Verb::Release, _) if op.token > 0 && claimed.given_back == Some(op.sent) => {
                claimed.silent &= !bit(op);
                if matches!(answer, Answer::Released(_) | Answer::Forgot) {
                    claimed.answered.insert(op.node, (answer == Answer::Released(true), now));
                }
            }
            _ => {}
        }
    }

    /// A push reached its process. The vote lasts for the time of the hand-over, counted from the
    /// sending of the last claim that this node refused.
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

    /// Sets the deadline if a quorum of nodes has voted with the ballot of this node's vote.
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

    /// Sets whether nodes are to keep the name for this owner until its period is over.
    pub fn keeps(&mut self, of: Try, keeps: bool) {
        self.tries.entry(of).or_default().keeps = keeps;
    }

    /// At the end: each grant must have been released.
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

/// The numbers of the nodes in a set.
fn listed(nodes: u64) -> Vec<u64> {
    (0..64).filter(|node| nodes >> node & 1 == 1).collect()
}

const fn bit(op: Op) -> u64 {
    1 << op.node
}

/// When the vote for a request that was sent at `sent` ends, in true time.
fn ends(clients: &[Configured], process: u16, sent: Micros, ttl: u32) -> Micros {
    let ttl = u64::from(ttl) * 1_000;
    sent + ttl.saturating_sub(ttl / 100 + 2_000) * 1_000_000 / clients[usize::from(process)].rate
}
