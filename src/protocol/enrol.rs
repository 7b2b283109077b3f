//! Enrols the servers of this client's list in the nodes' rosters: only while all nodes that it is
//! connected to have taken a server lately do that server's votes count.

mod choosing;
mod first;
mod history;
mod ring;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use self::choosing::Choice;
use self::first::{First, is_late};
use self::history::History;
use self::ring::{Answers, Lasting, RESERVED, Ring, Said, Unheard, answered, retirees};
use super::doubts::Doubts;
use super::voters::Voters;
use crate::host::{Host, sleep_until};
use crate::node::Member;
use crate::rules::roster::{
    Answer, EVERY, FRESH, LASTS, Roster, SPARE, Standing, Verdict, conflict, decide, of, retired, young,
};
use crate::rules::{NodeSet, Tick};

/// When a round that failed is made again, and when rosters are looked at again while clients of
/// another list may come.
const AGAIN: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_millis(250);
/// How often one round writes at most.
const WRITES: u32 = 3;

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
        match closing.run_until_cancelled(book.rounds(&voters, &news)).await {
            Some(next) => due = next,
            None => return,
        }
        voters.members.tell();
    }
}

/// What is remembered from round to round.
#[derive(Debug, Default)]
struct Book {
    nodes: Vec<History>,
    unheard: Arc<Unheard>,
    /// When the last enrolment began that all nodes took.
    listed: Option<Tick>,
    first: First,
    /// What was enrolled last, as a roster has it: for as long as its entries last this client
    /// vouches for itself.
    own: Option<(Roster, Tick)>,
    /// How many listings in a row somebody did not answer to.
    silent: u32,
    /// The nodes that were retired when this round began.
    were_retired: NodeSet,
    /// The longest ttl that was told, and until when it may be somebody's.
    told: Option<(Duration, Tick)>,
}

/// Which server each node is, where it is connected to.
fn runs(voters: &Voters) -> Vec<Option<String>> {
    voters.nodes.iter().map(|node| node.member().map(|member| member.run)).collect()
}

/// The nodes that are connected now, and were not, or were other servers.
fn came(before: &[Option<String>], now: &[Option<String>]) -> NodeSet {
    let came = |&node: &usize| now[node].is_some() && now[node] != before[node];
    (0..now.len().min(before.len())).filter(came).collect()
}

impl Book {
    /// Enrols what is connected; begins anew where a node is connected to meanwhile, whose roster
    /// may be another list's: a round that waits for a silent node must not keep that from being
    /// asked. Once for each node, so that one which comes and goes holds up nothing. When to do so
    /// again.
    async fn rounds(&mut self, voters: &Arc<Voters>, news: &Doubts) -> Tick {
        let mut met = NodeSet::default();
        loop {
            let (asked, more) = (runs(voters), AtomicBool::new(false));
            let comes = async {
                loop {
                    let _ = news.next().await;
                    more.store(true, Ordering::Relaxed);
                    let came = came(&asked, &runs(voters)).without(met);
                    if !came.is_empty() {
                        return came;
                    }
                }
            };
            tokio::select! {
                biased;
                due = self.round(voters) => return if more.into_inner() { voters.host.now() } else { due },
                came = comes => met = met.or(came),
            }
        }
    }

    /// Enrols what is connected. When to do so again.
    async fn round(&mut self, voters: &Arc<Voters>) -> Tick {
        self.catch_up();
        let now = voters.host.now();
        let ring = self.ring(voters, now);
        if ring.connected.is_empty() {
            self.first.begin_anew();
            return Tick::NEVER;
        }
        if voters.members.onlooker {
            self.look(&ring, now).await;
            return now + EVERY;
        }
        self.were_retired = self.retired();
        let listed = match self.choice(&ring, now).await {
            Ok(choice) => Ok(self.enrol(&ring, choice, now).await),
            Err(again) => Err(again),
        };
        self.tell_retired(&ring);
        let listed = match listed {
            Err(Some(again)) => return again,
            Err(None) => false,
            // They may be enrolled again.
            Ok(true) if !self.were_retired.without(self.retired()).is_empty() => return now + SOON,
            Ok(listed) => listed,
        };
        voters.members.may_enrol_from(self.early(&ring, now, listed));
        let spread = u32::try_from(voters.host.random() % 200).unwrap_or(0);
        // Who does not answer is asked again soon, and less and less often.
        let soon = AGAIN * 2u32.pow(self.silent.saturating_sub(1).min(4));
        let pause = match listed {
            true if self.silent == 0 => ring.every(),
            true => soon.min(ring.every()),
            false => AGAIN,
        };
        now + pause * (1_000 - spread) / 1_000
    }

    /// Of a client that only looks: nodes are doubted for as long as for clients.
    async fn look(&mut self, ring: &Ring<'_>, now: Tick) {
        let answers = ring.look().await;
        self.raise(ring, &answers, now);
        ring.connected.iter().for_each(|node| ring.tell(node, Standing::Exempt, &answers));
    }

    /// From when on the next enrolment may be made before it is due: half the time, where nobody is
    /// missing.
    fn early(&self, ring: &Ring<'_>, began: Tick, listed: bool) -> Tick {
        let calm = listed && self.silent == 0 && self.refused(began).next().is_none();
        if calm { began + ring.every() / 2 } else { Tick::NEVER }
    }

    fn ring<'a>(&mut self, voters: &'a Arc<Voters>, now: Tick) -> Ring<'a> {
        let members: Vec<_> = voters.nodes.iter().map(|node| node.member()).collect();
        self.nodes.resize_with(members.len(), History::default);
        let longest = self.told(now).max(voters.members.longest());
        for (history, member) in self.nodes.iter_mut().zip(&members) {
            if let Some(member) = member {
                history.meet(member, longest, now);
            }
        }
        let lives = |run: &str| members.iter().flatten().any(|member| member.run == run);
        let server =
            |(history, member): (&History, &Option<Member>)| Some(history.server(member.as_ref()?, now, lives));
        let servers = self.nodes.iter().zip(&members).map(server).collect();
        Ring::new(voters, members, servers, self.unheard.clone())
    }

    fn is_fresh(&self, now: Tick) -> bool {
        self.listed.is_some_and(|listed| now < listed + FRESH)
    }

    /// Asks all to take these servers, or fewer where some refuse. Whether all that answered took
    /// some. What it rests on was asked `last`.
    async fn enrol(&mut self, ring: &Ring<'_>, choice: Choice, mut last: Tick) -> bool {
        let Choice { servers: mut chosen, mut answer, first } = choice;
        let (mut reserves, was_fresh) = (first, self.is_fresh(ring.voters.host.now()));
        for left in (0..WRITES + u32::from(first)).rev() {
            let began = ring.voters.host.now();
            // It stood still: what it has enrolled may have ended, or what vouched for it.
            if (was_fresh && !self.is_fresh(began)) || (!first && is_late(began, last + ring.patience())) {
                return false;
            }
            last = began;
            let lasting = if reserves { Lasting::Reserved } else { Lasting::Enrolled };
            if first {
                self.first.writes(began + ring.lasts(lasting) + SPARE + ring.patience());
            }
            let answers = ring.write(chosen, answer, lasting).await;
            self.hear(&answers, began, chosen == ring.connected.without(self.retired()));
            // Who did not answer a whole write is not waited for a second time.
            if !first && ring.voters.host.now() >= began + ring.patience() {
                answer = answer.and(answered(&answers));
            }
            let written = chosen;
            chosen = chosen.without(retirees(&answers));
            match self.verdict(ring, chosen, &answers, began) {
                Verdict::Listed(_) if first && self.one_went(ring, answer, &answers) => return false,
                // A reservation that has ended, while this process stood still, is made again.
                Verdict::Listed(listed) if reserves && self.enough(ring, listed, &answers, began) => {
                    reserves = ring.voters.host.now() >= began + RESERVED;
                }
                Verdict::Listed(listed) if self.enough(ring, listed, &answers, began) => {
                    self.take(ring, (chosen, listed), began, &answers);
                    return true;
                }
                Verdict::Listed(_) => return false,
                Verdict::Fit(fit) if fit != written && left > 0 => {
                    self.drop_out(ring, fit, &answers, began);
                    chosen = fit;
                }
                Verdict::Fit(_) => {
                    let node = self.refused(began).next().or_else(|| chosen.iter().next());
                    self.end(ring, node.unwrap_or_default(), &answers, began);
                    return false;
                }
                Verdict::Nobody(node) => {
                    self.end(ring, node, &answers, began);
                    return false;
                }
            }
        }
        false
    }

    /// Whether a node has gone since this client looked, which has nothing enrolled.
    fn one_went(&mut self, ring: &Ring<'_>, answer: NodeSet, answers: &Answers) -> bool {
        self.first.one_went(answer.without(answered(answers)).without(ring.rejecting()))
    }

    /// For how long a server is young still.
    fn young_for(&self, ring: &Ring<'_>, node: usize, now: Tick) -> Option<Duration> {
        let age = self.nodes[node].age(ring.members[node].as_ref()?, now);
        young(ring.voters.members.max_ttl).checked_sub(age).filter(|left| !left.is_zero())
    }

    /// The nodes that refused lately.
    fn refused(&self, now: Tick) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(move |&node| self.nodes[node].refused(now).is_some())
    }

    /// The nodes that were retired, as far as they told.
    fn retired(&self) -> NodeSet {
        (0..self.nodes.len()).filter(|&node| self.nodes[node].is_retired()).collect()
    }

    /// Their votes count no more, and they say why.
    fn tell_retired(&self, ring: &Ring<'_>) {
        let (now, nobody) = (ring.voters.host.now(), vec![None; self.nodes.len()]);
        ring.voters.members.keep(ring.voters.everyone().without(self.retired()));
        for node in ring.connected.iter() {
            let Some(age) = self.nodes[node].retired(now) else { continue };
            ring.tell(node, Standing::Unlisted(retired(ring.voters.nodes[node].label(), age).into()), &nobody);
        }
    }

    /// Those of them whose clients have another list.
    fn others_refuse(&self, ring: &Ring<'_>, now: Tick) -> impl Iterator<Item = usize> {
        let vouches = |roster: &Roster| roster.vouches(ring.common(), &ring.servers);
        let others = move |node: &usize| self.nodes[*node].refused(now).is_some_and(|(roster, _)| !vouches(roster));
        self.refused(now).filter(others)
    }

    /// Hears what came since, also what is not looked at any more: a round began anew, or ended
    /// without it.
    fn catch_up(&mut self) {
        for Said { node, answer, asked } in self.unheard.take() {
            self.nodes.get_mut(node).into_iter().for_each(|node| node.hear(&answer, asked, false));
        }
    }

    fn hear(&mut self, answers: &Answers, now: Tick, forgiven: bool) {
        self.catch_up();
        let heard = self.nodes.iter_mut().zip(answers);
        heard.for_each(|(node, answer)| _ = answer.as_ref().map(|answer| node.hear(answer, now, forgiven)));
    }

    /// What follows from the answers, and from what those told before that did not answer, or are
    /// not connected.
    fn verdict(&self, ring: &Ring<'_>, chosen: NodeSet, answers: &Answers, now: Tick) -> Verdict {
        let said = answers.iter().enumerate().filter_map(|(node, answer)| match answer {
            Some((true, roster)) if roster.retired.is_some() => Some((node, Answer::Remembered(roster))),
            Some((true, roster)) => Some((node, Answer::Listed(roster))),
            Some((false, roster)) => Some((node, Answer::Unlisted(roster))),
            None => self.nodes[node].told(now).map(|roster| (node, Answer::Remembered(roster))),
        });
        decide(ring.common(), &ring.servers, chosen, &said.collect::<Vec<_>>())
    }

    /// Whether so many answered that they may vote. If not, what was listed before is so until its
    /// time is over.
    fn enough(&self, ring: &Ring<'_>, listed: NodeSet, answers: &Answers, now: Tick) -> bool {
        let enough = listed.len() >= ring.voters.size.quorum();
        if !enough && !self.is_fresh(now) {
            listed.iter().for_each(|node| ring.tell(node, Standing::Few, answers));
        }
        enough
    }

    /// No vote counts any more, because of this node.
    fn end(&mut self, ring: &Ring<'_>, node: usize, answers: &Answers, now: Tick) {
        self.listed = None;
        self.first.begin_anew();
        ring.voters.members.unlisted();
        ring.tell_all(&Standing::Unlisted(self.why(ring, node, answers, now).into()));
    }

    /// Some do not take all: the others' votes do not count from now on.
    fn drop_out(&self, ring: &Ring<'_>, fit: NodeSet, answers: &Answers, now: Tick) {
        ring.voters.members.keep(fit);
        self.leave_out(ring, fit, answers, now);
    }

    /// Tells the nodes that are connected, and not among these, that they are left out, and why.
    fn leave_out(&self, ring: &Ring<'_>, fit: NodeSet, answers: &Answers, now: Tick) {
        let retired = self.were_retired.or(self.retired());
        for node in ring.connected.without(fit).without(ring.rejecting()).without(retired).iter() {
            let refused = self.refused(now).next();
            let young = self.young_for(ring, node, now).filter(|_| refused.is_none());
            let full = refused.or_else(|| self.full(ring, now));
            let standing = match (young, full) {
                (Some(left), _) => Standing::Newcomer(now + left),
                (None, Some(full)) => Standing::Unlisted(self.why(ring, full, answers, now).into()),
                // It is asked about again soon.
                (None, None) => Standing::Unknown,
            };
            ring.tell(node, standing, answers);
        }
    }

    /// A node whose roster had no room for all that are connected, when it told it.
    fn full(&self, ring: &Ring<'_>, now: Tick) -> Option<usize> {
        let all = of(&ring.servers, ring.connected);
        let is_full = |&node: &usize| self.nodes[node].told(now).is_some_and(|told| !told.takes(ring.common(), &all));
        (0..self.nodes.len()).find(is_full)
    }

    /// All nodes that answered took the servers of `chosen`; those of `listed` are among them.
    fn take(&mut self, ring: &Ring<'_>, (chosen, listed): (NodeSet, NodeSet), began: Tick, answers: &Answers) {
        (self.listed, self.first) = (Some(began), First::default());
        self.own = Some((ring.roster(chosen), began + ring.longest + LASTS));
        self.silent = if listed == chosen { 0 } else { self.silent.saturating_add(1) };
        // First: a node may have to be doubted for longer.
        self.raise(ring, answers, began);
        ring.voters.members.listed(&ring.servers, (chosen, listed), began, ring.longest);
        listed.iter().for_each(|node| ring.tell(node, Standing::Listed(began + FRESH), answers));
        self.leave_out(ring, chosen, answers, began);
    }

    /// Nodes are doubted for as long as the longest locks last that those told of that took the
    /// servers.
    fn raise(&mut self, ring: &Ring<'_>, answers: &Answers, now: Tick) {
        let told = answers.iter().flatten().map(|(_, roster)| roster.max_ttl).max().unwrap_or_default();
        if told >= self.told(now) {
            self.told = Some((told, now + told + LASTS));
        }
        let longest = self.told(now).max(ring.voters.members.max_ttl);
        ring.voters.nodes.iter().for_each(|node| node.raise(longest, now));
    }

    /// The longest ttl that was told, for as long as it may be somebody's.
    fn told(&self, now: Tick) -> Duration {
        self.told.filter(|(_, until)| now < *until).map_or(Duration::ZERO, |(told, _)| told)
    }

    fn why(&self, ring: &Ring<'_>, node: usize, answers: &Answers, now: Tick) -> String {
        let remembered = self.nodes[node].refused(now).map(|(roster, until)| (roster.clone(), until.since(now)));
        let told = || answers[node].as_ref().map(|(_, roster)| (roster.clone(), roster.binds()));
        let known = || self.nodes[node].told(now).map(|roster| (roster.clone(), roster.binds()));
        let (roster, lasts) = remembered.or_else(told).or_else(known).unwrap_or_default();
        conflict(ring.common(), &ring.servers, ring.voters.nodes[node].label(), &roster, lasts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two answers of one node, the later one comes in time. What the earlier one refused was
    /// said before, and is not forgiven by a node that is silent.
    #[test]
    fn what_comes_late_is_heard_before_anything_follows_from_the_others() {
        let mut book = Book { nodes: vec![History::default(), History::default()], ..Book::default() };
        let asked = Tick::new(Duration::from_secs(100));
        let roster = Roster { max_ttl: Duration::from_secs(30), ..Roster::default() };
        book.unheard.push(Said { node: 1, answer: (false, roster.clone()), asked });
        book.hear(&vec![Some((true, roster)), None], asked, true);
        assert_eq!(book.refused(asked).collect::<Vec<_>>(), [1]);
        assert!(book.nodes[0].told(asked).is_some(), "what was waited for is heard too");
    }
}
