//! Enrols the servers of this client's list in the nodes' rosters: only while all nodes that it is
//! connected to have taken a server lately do that server's votes count.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::hints::Doubts;
use super::round::{Count, Round};
use super::voters::Voters;
use crate::host::{Host, before, sleep_until};
use crate::node::{Member, NodeState, Operation, Outcome, Reply};
use crate::quorum::roster::{
    ADOPTED, Answer, EVERY, Enrolment, FRESH, LASTS, PROTOCOL, Roster, Standing, Verdict, YOUNG, conflict, decide,
};
use crate::quorum::{NodeSet, Tick};

/// For how long answers are waited for, where votes count still and must go on to do so; and where none does.
const BRIEF: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(2);
/// For how long nodes are waited for that are being connected to for the first time.
const TRIED: Duration = Duration::from_secs(5);
/// When a round that failed is made again.
const AGAIN: Duration = Duration::from_secs(1);
/// How often nodes are asked in one round at most.
const TRIES: u32 = 6;
/// How many servers are remembered at most that one node was before.
const GONE: usize = 16;

/// What this client tells rosters, and what they told it.
#[derive(Debug)]
pub(crate) struct Members {
    /// Its own; zero where it has no restart guard.
    max_ttl: Duration,
    /// It only looks, and acquires nothing.
    pub(crate) onlooker: bool,
    /// Milliseconds: the longest ttl of its locks.
    longest: AtomicU64,
    /// Milliseconds: up to this ttl others know of its locks; and until when longer ones wait.
    theirs: AtomicU64,
    until: AtomicU64,
}

impl Members {
    pub(crate) fn new(max_ttl: Duration, ttl: Duration, onlooker: bool) -> Self {
        let longest = AtomicU64::new(millis(max_ttl.max(ttl)));
        Self { max_ttl, onlooker, longest, theirs: AtomicU64::new(0), until: AtomicU64::new(0) }
    }

    /// A lock of this client has that ttl.
    pub(crate) fn use_ttl(&self, ttl: Duration) {
        self.longest.fetch_max(millis(ttl), Ordering::Relaxed);
    }

    /// From when on a lock of that ttl may be acquired, where that is not yet: by then all others know
    /// how long this client's locks last.
    pub(crate) fn held_back(&self, ttl: Duration, now: Tick) -> Option<Tick> {
        let until = Tick::new(Duration::from_millis(self.until.load(Ordering::Acquire)));
        (now < until && millis(ttl) > self.theirs.load(Ordering::Acquire)).then_some(until)
    }

    fn hold_back(&self, theirs: Duration, until: Tick) {
        self.theirs.store(millis(theirs), Ordering::Release);
        self.until.store(millis(until.since_origin()), Ordering::Release);
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Enrols whenever a node was connected to or has gone, and every few seconds, until `closing`.
pub(crate) async fn run(host: Arc<dyn Host>, voters: Weak<Voters>, news: Arc<Doubts>, closing: CancellationToken) {
    let (mut book, mut due) = (Book::default(), Tick::NEVER);
    loop {
        tokio::select! {
            biased;
            () = closing.cancelled() => return,
            _ = news.next() => {}
            () = sleep_until(&host, due), if due != Tick::NEVER => {}
        }
        let Some(voters) = voters.upgrade() else { return };
        match closing.run_until_cancelled(book.round(&voters)).await {
            Some(next) => due = next,
            None => return,
        }
    }
}

/// What is remembered from round to round.
#[derive(Debug, Default)]
struct Book {
    /// Which server each node was when it was connected to last, and before.
    last: Vec<Option<String>>,
    gone: Vec<Vec<String>>,
    /// Since when each is another one than before.
    since: Vec<Option<Tick>>,
    /// The rosters of nodes that refused, until their entries have expired. They count also while
    /// such a node cannot be reached: it may be restarting.
    refusals: Vec<Option<(Roster, Tick)>>,
    /// When the last enrolment began that all nodes took.
    listed: Option<Tick>,
    /// Since when this client waits for nodes that it has not connected to, with nothing enrolled.
    tries: Option<Tick>,
    /// Since when this client waits for a young server, with nothing enrolled.
    waits: Option<Tick>,
    /// The largest `max_ttl` that was told, and the least that is less than this client's own.
    told: Duration,
    theirs: Option<Duration>,
}

/// One round.
struct Ring<'a> {
    voters: &'a Arc<Voters>,
    members: Vec<Option<Member>>,
    runs: Vec<Option<String>>,
    connected: NodeSet,
    lasts: Duration,
    patience: Duration,
}

type Answers = Vec<Option<(bool, Roster)>>;

impl Book {
    /// Enrols what is connected. When to do so again.
    async fn round(&mut self, voters: &Arc<Voters>) -> Tick {
        let now = voters.host.now();
        let ring = self.ring(voters, now);
        if ring.connected.is_empty() {
            return Tick::NEVER;
        }
        if voters.members.onlooker {
            ring.look().await;
            return now + EVERY;
        }
        if !self.is_fresh(now) {
            // Whoever has nothing enrolled must not count a quorum's votes before it has asked the others too.
            let until = *self.tries.get_or_insert(now) + TRIED;
            if ring.others_come() && now < until {
                return until;
            }
            if let Some(until) = self.newcomer(&ring, now) {
                ring.tell_all(&Standing::Newcomer(until));
                return until;
            }
        }
        let listed = self.enrol(&ring, now).await;
        if listed {
            (self.waits, self.tries) = (None, None);
        }
        let pause = if listed { EVERY } else { AGAIN };
        let spread = u32::try_from(voters.host.random() % 200).unwrap_or(0);
        now + pause * (1_000 - spread) / 1_000
    }

    fn ring<'a>(&mut self, voters: &'a Arc<Voters>, now: Tick) -> Ring<'a> {
        let members: Vec<_> = voters.nodes.iter().map(|node| node.member()).collect();
        self.last.resize(members.len(), None);
        self.gone.resize(members.len(), Vec::new());
        self.refusals.resize(members.len(), None);
        self.since.resize(members.len(), None);
        let mut connected = NodeSet::default();
        for (node, member) in members.iter().enumerate() {
            let Some(member) = member else { continue };
            connected.insert(node);
            let before = self.last[node].replace(member.run.clone());
            if let Some(before) = before.filter(|before| *before != member.run) {
                self.gone[node].push(before);
                self.since[node] = Some(now);
                let too_many = self.gone[node].len().saturating_sub(GONE);
                self.gone[node].drain(..too_many);
            }
        }
        let patience = if self.is_fresh(now) { BRIEF } else { PATIENCE };
        let runs = members.iter().map(|member| member.as_ref().map(|member| member.run.clone())).collect();
        let lasts = self.told.max(Duration::from_millis(voters.members.longest.load(Ordering::Relaxed))) + LASTS;
        Ring { voters, members, runs, connected, lasts, patience }
    }

    fn is_fresh(&self, now: Tick) -> bool {
        self.listed.is_some_and(|listed| now < listed + FRESH)
    }

    /// Until when to wait, because a server is so young that others may come again.
    fn newcomer(&mut self, ring: &Ring<'_>, now: Tick) -> Option<Tick> {
        if ring.voters.members.max_ttl.is_zero() {
            return None;
        }
        // One that loads its data for long is old when it answers.
        let age = |(member, since): (&Option<Member>, &Option<Tick>)| {
            let known = since.map_or(Duration::MAX, |since| now.since(since));
            Some(member.as_ref()?.age.min(known))
        };
        let youngest = ring.members.iter().zip(&self.since).filter_map(age).min()?;
        let left = YOUNG.checked_sub(youngest).filter(|left| !left.is_zero())?;
        // One that restarts again and again delays a start by so long once, but for those who were refused.
        let limit = if self.was_refused(now) { Tick::NEVER } else { *self.waits.get_or_insert(now) + YOUNG };
        let until = (now + left).min(limit);
        (now < until).then_some(until)
    }

    /// Whether some node has refused lately.
    fn was_refused(&self, now: Tick) -> bool {
        self.refusals.iter().flatten().any(|(_, until)| now < *until)
    }

    /// Asks until it is known which servers all nodes take. Whether any.
    async fn enrol(&mut self, ring: &Ring<'_>, now: Tick) -> bool {
        let (mut chosen, mut insisted) = (ring.connected, self.is_fresh(now));
        // Where somebody has refused lately, nothing is written before all would take it: half of a list
        // in some rosters keeps others out for nothing.
        let mut writes = !self.was_refused(now);
        for _ in 0..TRIES {
            let began = ring.voters.host.now();
            let answers = ring.ask(chosen, &self.gone_from(ring, chosen), writes).await;
            self.learn(ring, &answers, began);
            let all = chosen == ring.connected;
            let silent = ring.connected.iter().any(|node| answers[node].is_none());
            // This process may have stood still: then the answers are there, and were not read.
            if silent && !std::mem::replace(&mut insisted, true) {
                continue;
            }
            match self.verdict(ring, chosen, &answers, began, all) {
                Verdict::Listed(_) if !writes => writes = true,
                Verdict::Listed(listed) if listed.len() < ring.voters.size.quorum() => {
                    // What was listed before is so until its time is over.
                    if !self.is_fresh(began) {
                        listed.iter().for_each(|node| ring.tell(node, Standing::Few, &answers));
                    }
                    return false;
                }
                Verdict::Listed(listed) => {
                    self.take(ring, listed, chosen, began, &answers);
                    return true;
                }
                Verdict::Fit(fit) if fit != chosen => (chosen, writes) = (fit, true),
                Verdict::Fit(_) => {}
                Verdict::Nobody(node) => {
                    self.listed = None;
                    ring.tell_all(&Standing::Unlisted(self.why(ring, node, &answers).into()));
                    return false;
                }
            }
        }
        false
    }

    /// Which of the servers have been replaced by one that is chosen.
    fn gone_from(&self, ring: &Ring<'_>, chosen: NodeSet) -> Vec<String> {
        let lives = |run: &&String| !ring.runs.iter().flatten().any(|other| other == *run);
        chosen.iter().filter_map(|node| self.gone.get(node)).flatten().filter(lives).cloned().collect()
    }

    /// Takes note of what rosters tell of `max_ttl`.
    fn learn(&mut self, ring: &Ring<'_>, answers: &Answers, began: Tick) {
        let own = ring.voters.members.max_ttl;
        let told = || answers.iter().flatten().map(|(_, roster)| roster.max_ttl);
        let less = told().filter(|told| !told.is_zero() && *told < own).min();
        self.theirs = [self.theirs, less].into_iter().flatten().min();
        let most = told().max().unwrap_or_default();
        if most > self.told.max(own) {
            // Whoever is in the rosters at present was told of all that is longer.
            let since = self.listed.filter(|_| self.is_fresh(began));
            ring.voters.nodes.iter().for_each(|node| node.raise(most, since));
        }
        self.told = self.told.max(most);
    }

    fn verdict(&mut self, ring: &Ring<'_>, chosen: NodeSet, answers: &Answers, now: Tick, all: bool) -> Verdict {
        for (node, answer) in answers.iter().enumerate().filter(|_| all) {
            match answer {
                Some((true, _)) => self.refusals[node] = None,
                Some((false, roster)) => {
                    let lasts = ring.lasts.max(roster.max_ttl + LASTS);
                    self.refusals[node] = Some((roster.clone(), now + lasts));
                }
                None => {}
            }
        }
        let known = |node: usize| self.refusals[node].as_ref().filter(|(_, until)| now < *until);
        let said = answers.iter().enumerate().filter_map(|(node, answer)| match answer {
            Some((true, _)) => Some((node, Answer::Listed)),
            Some((false, roster)) => Some((node, Answer::Unlisted(roster))),
            None => known(node).map(|(roster, _)| (node, Answer::Remembered(roster))),
        });
        let said: Vec<_> = said.collect();
        decide(ring.voters.size, &ring.runs, chosen, &self.gone_from(ring, ring.connected), &said)
    }

    /// All nodes that answered took the servers of `chosen`.
    fn take(&mut self, ring: &Ring<'_>, listed: NodeSet, chosen: NodeSet, began: Tick, answers: &Answers) {
        let members = &ring.voters.members;
        if let Some(theirs) = self.theirs.take() {
            members.hold_back(theirs, ring.voters.host.now() + ADOPTED);
        }
        self.listed = Some(began);
        for node in ring.connected.iter() {
            if listed.contains(node) {
                ring.tell(node, Standing::Listed(began + FRESH), answers);
            } else if !chosen.contains(node) {
                let refused = self.refusals.iter().position(Option::is_some).unwrap_or(node);
                ring.tell(node, Standing::Unlisted(self.why(ring, refused, answers).into()), answers);
            }
        }
    }

    fn why(&self, ring: &Ring<'_>, node: usize, answers: &Answers) -> String {
        let remembered = self.refusals[node].as_ref().map(|(roster, _)| roster);
        let roster = remembered.or_else(|| answers[node].as_ref().map(|(_, roster)| roster));
        let lasts = ring.lasts.max(roster.map_or(Duration::ZERO, |roster| roster.max_ttl + LASTS));
        let label = ring.voters.nodes[node].label();
        conflict(ring.voters.size, &ring.runs, label, roster.unwrap_or(&Roster::default()), lasts)
    }
}

impl Ring<'_> {
    /// Whether a node is being connected to for the first time.
    fn others_come(&self) -> bool {
        let comes = |(node, member): (usize, &Option<Member>)| {
            member.is_none() && self.voters.nodes[node].status().state == NodeState::Connecting
        };
        self.members.iter().enumerate().any(comes)
    }

    /// Asks all nodes to take the servers of `chosen`. What those said that answered: whether they did,
    /// and their rosters.
    async fn ask(&self, chosen: NodeSet, gone: &[String], writes: bool) -> Answers {
        let servers = chosen.iter().filter_map(|node| self.runs[node].clone()).collect();
        self.put(Enrolment {
            nodes: self.voters.size.nodes(),
            protocol: PROTOCOL,
            max_ttl: self.voters.members.max_ttl,
            lasts: if writes { self.lasts } else { Duration::ZERO },
            servers,
            gone: gone.to_vec(),
        })
        .await
    }

    async fn look(&self) {
        let (nodes, protocol) = (self.voters.size.nodes(), PROTOCOL);
        let answers = self.put(Enrolment { nodes, protocol, ..Enrolment::default() }).await;
        self.connected.iter().for_each(|node| self.tell(node, Standing::Exempt, &answers));
    }

    async fn put(&self, enrolment: Enrolment) -> Answers {
        let host = &self.voters.host;
        let round = Round::new(self.voters.nodes.len(), 0, Open(self.connected.len()));
        self.voters.ask(self.connected, &Arc::new(Operation::enrol(&enrolment)), &round);
        let _ = before(host, host.now() + self.patience, round.verdict()).await;
        round.replies(|replies| replies.iter().map(answer).collect())
    }

    fn tell(&self, node: usize, standing: Standing, answers: &Answers) {
        if let Some(run) = &self.runs[node] {
            let roster = answers[node].as_ref().map(|(_, roster)| roster.clone());
            self.voters.nodes[node].enrolled(run, standing, roster);
        }
    }

    fn tell_all(&self, standing: &Standing) {
        let nobody = vec![None; self.runs.len()];
        self.connected.iter().for_each(|node| self.tell(node, standing.clone(), &nobody));
    }
}

fn answer(reply: &Option<Reply>) -> Option<(bool, Roster)> {
    match reply {
        Some(Ok(Outcome::Listed(roster))) => Some((true, roster.clone())),
        Some(Ok(Outcome::Unlisted(roster))) => Some((false, roster.clone())),
        _ => None,
    }
}

/// How many answers are still to come.
struct Open(u32);

impl Count for Open {
    type Verdict = ();

    fn count(&mut self, _: usize, _: &Reply, _: u64) {
        self.0 = self.0.saturating_sub(1);
    }

    fn verdict(&self) -> Option<()> {
        (self.0 == 0).then_some(())
    }
}
