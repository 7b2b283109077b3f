//! What a round writes, and whether it writes at all: by what nodes say when they are asked.

use super::first::is_late;
use super::ring::{Answers, Ring, answered};
use super::{Book, SOON};
use crate::rules::roster::{Roster, Standing, Verdict, vouched, young};
use crate::rules::{NodeSet, Tick};

/// What to write, and which nodes to wait for.
pub(super) struct Choice {
    pub(super) servers: NodeSet,
    pub(super) answer: NodeSet,
    /// Whether nothing is enrolled, nor does anybody vouch for this list.
    pub(super) first: bool,
}

/// What nodes said when they were asked what they would take.
struct Looked {
    answers: Answers,
    /// The nodes whose servers are to be written.
    wanted: NodeSet,
    /// The nodes that answered once.
    answer: NodeSet,
    first: bool,
}

impl Book {
    /// Which servers to write: what is enrolled already, or as many as all would take. Else when to
    /// look again, if that is known.
    pub(super) async fn choice(&mut self, ring: &Ring<'_>, now: Tick) -> Result<Choice, Option<Tick>> {
        let standing = ring.connected.without(self.retired());
        let known = ring.voters.members.has_all(&ring.servers, standing, now);
        if known && self.is_fresh(now) && self.refused(now).next().is_none() {
            return Ok(Choice { servers: standing, answer: ring.connected, first: false });
        }
        let looked = match self.is_fresh(now) {
            true => self.look_again(ring, standing, now).await?,
            false => self.look_first(ring, standing, now).await?,
        };
        self.hear(&looked.answers, now, true);
        self.chosen(ring, looked, now)
    }

    /// Of a client that has something enrolled. It writes soon: clients of another list may come to
    /// a node that has restarted. Then it waits for all, so that far nodes are not left out where
    /// nearer ones have changed.
    async fn look_again(&mut self, ring: &Ring<'_>, standing: NodeSet, now: Tick) -> Result<Looked, Option<Tick>> {
        // What was refused is forgiven only where it is asked and answered again.
        let may_vouch = self.refused(now).next().is_none();
        let answers = self.asked(ring, ring.look_for(standing, may_vouch)).await?;
        let is_brief = ring.voters.host.now() < now + ring.patience();
        let answer = if is_brief { ring.connected } else { answered(&answers) };
        let wanted = ring.wanted(&answers);
        Ok(Looked { answers, wanted, answer, first: false })
    }

    /// Of a client that has nothing enrolled.
    async fn look_first(&mut self, ring: &Ring<'_>, standing: NodeSet, now: Tick) -> Result<Looked, Option<Tick>> {
        // What is written for nothing keeps others out.
        let may_vouch = self.others_refuse(ring, now).next().is_none() && !self.first.has_written(now);
        self.first.looks(now, ring.patience() + SOON);
        let mut answers = self.asked(ring, ring.look_for(standing, may_vouch)).await?;
        let mut wanted = ring.wanted(&answers);
        let vouched = self.vouched(ring, &answers, now);
        if let Some((until, standing)) = self.waits(ring, &answers, vouched, now) {
            return Err(self.wait(ring, (until, standing), &answers, now));
        }
        let (first, mut answer) = (vouched.is_none(), answered(&answers));
        match vouched {
            // It is in quarantine anyway.
            Some(vouched) => wanted = wanted.without(self.young(ring, vouched, now)),
            // This process may have stood still: then the answers are there, and were not read.
            None if ring.is_silent(&answers) => {
                let few = !ring.is_quorum(&answers);
                self.first.looks(ring.voters.host.now(), ring.patience() + SOON);
                answers = self.asked(ring, ring.look_for(standing, false)).await?;
                answer = answer.or(answered(&answers));
                // Then it has waited for nobody yet.
                if few && ring.is_quorum(&answers) && !ring.missing(&answers).is_empty() {
                    self.hear(&answers, now, false);
                    return Err(Some(now + SOON));
                }
            }
            None => {}
        }
        Ok(Looked { answers, wanted, answer, first })
    }

    /// What all say. Who stood still meanwhile looks again: what was told may have ended, and what
    /// it has enrolled.
    async fn asked(&mut self, ring: &Ring<'_>, looks: impl Future<Output = Answers>) -> Result<Answers, Option<Tick>> {
        let began = ring.voters.host.now();
        let answers = looks.await;
        let now = ring.voters.host.now();
        if is_late(now, began + ring.patience()) {
            self.hear(&answers, began, false);
            return Err(Some(now));
        }
        Ok(answers)
    }

    /// Says that it waits. When to look again.
    fn wait(
        &mut self,
        ring: &Ring<'_>,
        (until, standing): (Tick, Standing),
        answers: &Answers,
        now: Tick,
    ) -> Option<Tick> {
        self.hear(answers, now, false);
        match self.verdict(ring, ring.wanted(answers), answers, now) {
            // Whoever does not answer would not give it a quorum soon.
            Verdict::Nobody(node) if standing == Standing::Waiting(until) && !ring.others_come() => {
                self.end(ring, node, answers, now);
                None
            }
            _ => {
                ring.tell_these(answered(answers), &standing);
                Some(until.min(now + SOON))
            }
        }
    }

    /// As many of those that are wanted as all would take.
    fn chosen(&mut self, ring: &Ring<'_>, looked: Looked, now: Tick) -> Result<Choice, Option<Tick>> {
        let Looked { answers, wanted, answer, first } = looked;
        match self.verdict(ring, wanted, &answers, now) {
            // Those of a quorum that are not wanted may answer sooner than others that are: who is
            // far answers when it is written.
            Verdict::Listed(_) if ring.is_quorum(&answers) => Ok(Choice { servers: wanted, answer, first }),
            // Others may be in rosters that nobody has told.
            Verdict::Fit(servers) if self.is_fresh(now) || ring.is_quorum(&answers) => {
                self.drop_out(ring, servers, &answers, now);
                Ok(Choice { servers, answer, first })
            }
            Verdict::Listed(listed) => {
                self.enough(ring, listed, &answers, now);
                Err(None)
            }
            Verdict::Fit(servers) => {
                ring.tell_these(answered(&answers).and(servers), &Standing::Few);
                self.leave_out(ring, servers, &answers, now);
                Err(None)
            }
            Verdict::Nobody(node) => {
                self.end(ring, node, &answers, now);
                Err(None)
            }
        }
    }

    /// Which servers a roster has that vouches for this list. Nobody vouches for who was refused by
    /// clients of another, nor for who has written there itself and was not enrolled.
    fn vouched(&self, ring: &Ring<'_>, answers: &Answers, now: Tick) -> Option<NodeSet> {
        let vouches = |roster: &Roster| roster.vouches(ring.common(), &ring.servers);
        let refuses = answers.iter().flatten().any(|(took, roster)| !took && !vouches(roster));
        let refused = refuses || self.others_refuse(ring, now).next().is_some();
        let own = self.own.iter().filter(|(_, until)| now < *until).map(|(roster, _)| roster);
        let rosters = answers.iter().flatten().map(|(_, roster)| roster).chain(own);
        vouched(ring.common(), &ring.servers, rosters).filter(|_| !refused && !self.first.has_written(now))
    }

    /// Until when nothing is written by a client that has nothing enrolled, and why: clients of
    /// another list may be found on nodes that it has not heard, or come back to a server that has
    /// just started.
    fn waits(
        &mut self,
        ring: &Ring<'_>,
        answers: &Answers,
        vouched: Option<NodeSet>,
        now: Tick,
    ) -> Option<(Tick, Standing)> {
        if !ring.is_quorum(answers) {
            self.first.begin_anew();
        } else if let Some(until) = self.tries(ring, answers, vouched, now).filter(|&until| now < until) {
            return Some((until, Standing::Waiting(until)));
        }
        let until = vouched.is_none().then(|| self.newcomer(ring, now)).flatten()?;
        Some((until, Standing::Newcomer(until)))
    }

    /// Until when to wait for nodes that did not answer.
    fn tries(&mut self, ring: &Ring<'_>, answers: &Answers, vouched: Option<NodeSet>, now: Tick) -> Option<Tick> {
        if vouched.is_some() {
            return self.first.tries_briefly(now, ring.others_come());
        }
        let missing = ring.missing(answers);
        self.first.tries(now, missing.iter().map(|node| self.nodes[node].heard()))
    }

    /// The young servers that nobody vouches for.
    fn young(&self, ring: &Ring<'_>, vouched: NodeSet, now: Tick) -> NodeSet {
        ring.connected.without(vouched).iter().filter(|&node| self.young_for(ring, node, now).is_some()).collect()
    }

    /// Until when to wait for a young server.
    fn newcomer(&mut self, ring: &Ring<'_>, now: Tick) -> Option<Tick> {
        let left = ring.connected.iter().filter_map(|node| self.young_for(ring, node, now)).max();
        let once = self.refused(now).next().is_none().then(|| young(ring.voters.members.max_ttl));
        self.first.young(now, left, once)
    }
}
