//! How a client enrols: `Book` of `src/protocol/enrol.rs` and `enrol/choosing.rs` once more, as
//! steps between which others take theirs. Nobody stands still within a step, so what guards against
//! that is not here.

use std::time::Duration;

use quorumlock::node::Member;
use quorumlock::rules::roster::{
    Answer, Common, Enrolment, FRESH, LASTS, Roster, SPARE, Server, Standing, Verdict, decide, of, vouched, young,
};
use quorumlock::rules::{NodeSet, Size, Tick};

use super::LIST;
use super::client::Client;
use super::first::First;
use super::nodes::{Nodes, TICK, TTL, tick, time};
use crate::scope::Ticks;

/// For how long entries keep others out that are not enrolled yet: a little more than a tick.
const RESERVED: Duration = Duration::from_secs(5);
/// How often one round writes at most.
const WRITES: u8 = 3;

/// What nodes said: whether they took the servers, and their rosters as they were before.
pub type Answers = [Option<(bool, Roster)>; LIST];

/// What a client wrote, and waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Writing {
    pub began: Ticks,
    servers: Vec<Option<Server>>,
    connected: NodeSet,
    chosen: NodeSet,
    /// Whose answers are waited for.
    answer: NodeSet,
    pub pending: NodeSet,
    answers: Answers,
    /// How often more it may write.
    left: u8,
    /// Whether nothing is enrolled, nor does anybody vouch for this list.
    first: bool,
    /// Then the entries that are written first only keep others out.
    reserves: bool,
}

/// What is connected when a round begins.
struct Ring {
    members: Vec<Option<Member>>,
    servers: Vec<Option<Server>>,
    connected: NodeSet,
}

pub fn common() -> Common {
    Common::of(Size::of(LIST as u32))
}

fn enrolment(servers: &[Option<Server>], chosen: NodeSet, lasts: Duration) -> Enrolment {
    let Common { size, protocol } = common();
    let servers = of(servers, chosen).into_iter().cloned().collect();
    Enrolment { nodes: size.nodes(), protocol, max_ttl: time(TTL), lasts, servers }
}

fn answered(answers: &Answers) -> NodeSet {
    (0..LIST).filter(|&node| answers[node].is_some()).collect()
}

impl Client {
    /// Begins a round of enrolling. What an earlier one was told is heard.
    pub fn enrol(&mut self, nodes: &mut Nodes) {
        self.due = false;
        self.catch_up();
        let now = tick(nodes.now);
        let ring = self.ring(nodes);
        if ring.connected.is_empty() {
            return self.first.begin_anew();
        }
        let known = self.listing.has_all(&ring.servers, ring.connected, now);
        if known && self.is_fresh(now) && self.refused(now).is_empty() {
            let all = ring.connected;
            self.write(nodes.now, ring, (all, all), false);
            // What all have already is written again in one step.
            return all.without(self.silent()).iter().for_each(|node| self.written(nodes, node));
        }
        self.look(nodes, ring);
    }

    /// A round that began anew hears what came.
    pub fn catch_up(&mut self) {
        if let Some(writing) = self.writing.take() {
            self.hear(&writing.answers, tick(writing.began), false);
        }
    }

    fn ring(&mut self, nodes: &Nodes) -> Ring {
        let now = tick(nodes.now);
        let connected = self.connected();
        let member = |node| connected.contains(node).then(|| nodes.member(self.list[node]));
        let members: Vec<_> = (0..LIST).map(member).collect();
        for (history, member) in self.histories.iter_mut().zip(&members) {
            member.iter().for_each(|member| history.meet(member, time(TTL), now));
        }
        let lives = |run: &str| members.iter().flatten().any(|member| member.run == run);
        let server =
            |(node, member): (usize, &Option<Member>)| Some(self.histories[node].server(member.as_ref()?, now, lives));
        let servers = members.iter().enumerate().map(server).collect();
        Ring { members, servers, connected }
    }

    fn is_fresh(&self, now: Tick) -> bool {
        self.listed.is_some_and(|listed| now < listed + FRESH)
    }

    /// The nodes that refused lately.
    pub fn refused(&self, now: Tick) -> NodeSet {
        (0..LIST).filter(|&node| self.histories[node].refused(now).is_some()).collect()
    }

    /// Asks all what they would take, and writes that.
    fn look(&mut self, nodes: &mut Nodes, ring: Ring) {
        let now = tick(nodes.now);
        // It looks again within a tick.
        self.first.looks(now, TICK);
        let asked = enrolment(&ring.servers, ring.connected, Duration::ZERO);
        let mut answers = Answers::default();
        for node in ring.connected.without(self.silent()).iter() {
            answers[node] = Some(nodes.enrol(self.list[node], &asked));
        }
        let (mut wanted, mut first) = (ring.connected, false);
        if !self.is_fresh(now) {
            let vouched = self.vouched(&ring, &answers, now);
            first = vouched.is_none();
            if let Some((until, standing)) = self.waits(&ring, &answers, vouched, now) {
                self.hear(&answers, now, false);
                return match self.verdict(&ring.servers, wanted, &answers, now) {
                    Verdict::Nobody(_) if standing == Standing::Waiting(until) && !self.others_come() => self.end(),
                    _ => self.standings = std::array::from_fn(|_| standing.clone()),
                };
            }
            wanted = vouched.map_or(wanted, |vouched| wanted.without(self.young(&ring, vouched, now)));
        }
        self.hear(&answers, now, true);
        let answer = answered(&answers);
        match self.verdict(&ring.servers, wanted, &answers, now) {
            Verdict::Fit(fit) if self.is_fresh(now) || answer.len() >= common().size.quorum() => {
                self.drop_out(ring.connected, fit);
                self.write(nodes.now, ring, (fit, answer), first);
            }
            Verdict::Listed(_) if answer.len() >= common().size.quorum() => {
                self.write(nodes.now, ring, (wanted, answer), first);
            }
            Verdict::Listed(_) | Verdict::Fit(_) => {}
            Verdict::Nobody(_) => self.end(),
        }
    }

    fn write(&mut self, began: Ticks, ring: Ring, (chosen, answer): (NodeSet, NodeSet), first: bool) {
        let Ring { servers, connected, .. } = ring;
        let (pending, answers, left) = (connected, Answers::default(), WRITES - 1 + u8::from(first));
        self.writing =
            Some(Writing { began, servers, connected, chosen, answer, pending, answers, left, first, reserves: first });
    }

    /// What it writes reaches a node.
    pub fn written(&mut self, nodes: &mut Nodes, node: usize) {
        let Some(writing) = &mut self.writing else { return };
        let enrolled = enrolment(&writing.servers, writing.chosen, time(TTL) + LASTS);
        let asked = match writing.reserves {
            true => Enrolment { max_ttl: Duration::ZERO, lasts: RESERVED, ..enrolled },
            false => enrolled,
        };
        if writing.first {
            self.first.writes(tick(writing.began) + asked.lasts + SPARE);
        }
        writing.pending.remove(node);
        writing.answers[node] = Some(nodes.enrol(self.list[node], &asked));
    }

    /// Whether all that is waited for has come, but for what does not come.
    pub fn may_conclude(&self) -> bool {
        let silent = self.silent();
        self.writing.as_ref().is_some_and(|writing| writing.pending.and(writing.connected).without(silent).is_empty())
    }

    /// What follows from what nodes said of what was written.
    pub fn conclude(&mut self, now: Ticks) {
        let Some(writing) = self.writing.take() else { return };
        let (chosen, began) = (writing.chosen, tick(writing.began));
        self.hear(&writing.answers, began, chosen == writing.connected);
        match self.verdict(&writing.servers, chosen, &writing.answers, began) {
            Verdict::Listed(_) if writing.first && self.one_went(&writing) => {}
            Verdict::Listed(listed) if listed.len() < common().size.quorum() => {}
            Verdict::Listed(_) if writing.reserves => {
                let reserves = tick(now) >= began + RESERVED;
                self.again(now, Writing { reserves, ..writing });
            }
            Verdict::Listed(listed) => self.enrolled(&writing, listed),
            Verdict::Fit(fit) if fit != chosen && writing.left > 0 => {
                self.drop_out(writing.connected, fit);
                self.again(now, Writing { chosen: fit, ..writing });
            }
            Verdict::Fit(_) | Verdict::Nobody(_) => self.end(),
        }
    }

    /// Writes once more.
    fn again(&mut self, now: Ticks, writing: Writing) {
        let (pending, left, answers) =
            (writing.connected.and(self.connected()), writing.left.saturating_sub(1), Answers::default());
        self.writing = Some(Writing { began: now, pending, left, answers, ..writing });
    }

    /// Whether a node has gone since this client looked, for the first time.
    fn one_went(&mut self, writing: &Writing) -> bool {
        self.first.one_went(writing.answer.without(answered(&writing.answers)))
    }

    /// Which servers a roster has that vouches for this list.
    fn vouched(&self, ring: &Ring, answers: &Answers, now: Tick) -> Option<NodeSet> {
        let vouches = |roster: &Roster| vouched(common(), &ring.servers, [roster].into_iter()).is_some();
        let refuses = answers.iter().flatten().any(|(took, roster)| !took && !vouches(roster));
        let told = self.histories.iter().filter_map(|history| history.refused(now));
        let refused = refuses || told.into_iter().any(|(roster, _)| !vouches(roster));
        let own = self.own.iter().filter(|(_, until)| now < *until).map(|(roster, _)| roster);
        let rosters = answers.iter().flatten().map(|(_, roster)| roster).chain(own);
        vouched(common(), &ring.servers, rosters).filter(|_| !refused && !self.first.has_written(now))
    }

    /// Until when nothing is written by a client that has nothing enrolled, and why.
    fn waits(
        &mut self,
        ring: &Ring,
        answers: &Answers,
        vouched: Option<NodeSet>,
        now: Tick,
    ) -> Option<(Tick, Standing)> {
        if answered(answers).len() < common().size.quorum() {
            self.first.begin_anew();
        } else if let Some(until) = self.tries(answers, vouched, now).filter(|&until| now < until) {
            return Some((until, Standing::Waiting(until)));
        }
        let until = vouched.is_none().then(|| self.newcomer(ring, now)).flatten()?;
        Some((until, Standing::Newcomer(until)))
    }

    /// Until when to wait for nodes that did not answer.
    fn tries(&mut self, answers: &Answers, vouched: Option<NodeSet>, now: Tick) -> Option<Tick> {
        if vouched.is_some() {
            return self.first.tries_briefly(now, self.others_come());
        }
        let missing = (0..LIST).filter(|&node| answers[node].is_none());
        self.first.tries(now, missing.map(|node| self.histories[node].heard()))
    }

    /// For how long a server is young still.
    fn young_for(&self, ring: &Ring, node: usize, now: Tick) -> Option<Duration> {
        let age = self.histories[node].age(ring.members[node].as_ref()?, now);
        young(time(TTL)).checked_sub(age).filter(|left| !left.is_zero())
    }

    /// The young servers that nobody vouches for.
    fn young(&self, ring: &Ring, vouched: NodeSet, now: Tick) -> NodeSet {
        ring.connected.without(vouched).iter().filter(|&node| self.young_for(ring, node, now).is_some()).collect()
    }

    /// Until when to wait for a young server.
    fn newcomer(&mut self, ring: &Ring, now: Tick) -> Option<Tick> {
        let left = ring.connected.iter().filter_map(|node| self.young_for(ring, node, now)).max();
        let once = self.refused(now).is_empty().then(|| young(time(TTL)));
        self.first.young(now, left, once)
    }

    fn hear(&mut self, answers: &Answers, now: Tick, forgiven: bool) {
        let heard = self.histories.iter_mut().zip(answers);
        heard.for_each(|(node, answer)| _ = answer.as_ref().map(|answer| node.hear(answer, now, forgiven)));
    }

    /// What follows from the answers, and from what those told before that did not answer.
    fn verdict(&self, servers: &[Option<Server>], chosen: NodeSet, answers: &Answers, now: Tick) -> Verdict {
        let said = answers.iter().enumerate().filter_map(|(node, answer)| match answer {
            Some((true, roster)) => Some((node, Answer::Listed(roster))),
            Some((false, roster)) => Some((node, Answer::Unlisted(roster))),
            None => self.histories[node].told(now).map(|roster| (node, Answer::Remembered(roster))),
        });
        decide(common(), servers, chosen, &said.collect::<Vec<_>>())
    }

    /// No vote counts any more.
    fn end(&mut self) {
        self.listed = None;
        self.first.begin_anew();
        self.listing.clear();
        self.leave_out(NodeSet::first(LIST as u32));
    }

    /// Some do not take all: the others' votes do not count from now on.
    fn drop_out(&mut self, connected: NodeSet, fit: NodeSet) {
        self.listing.keep(fit);
        self.leave_out(connected.without(fit));
    }

    fn leave_out(&mut self, nodes: NodeSet) {
        nodes.iter().for_each(|node| self.standings[node] = Standing::Unlisted("refused".into()));
    }

    /// All nodes that answered took the servers that were chosen; those of `listed` are among them.
    fn enrolled(&mut self, writing: &Writing, listed: NodeSet) {
        let (chosen, began) = (writing.chosen, tick(writing.began));
        (self.listed, self.first) = (Some(began), First::default());
        let Enrolment { nodes, protocol, max_ttl, servers, .. } = enrolment(&writing.servers, chosen, TICK);
        let servers = servers.into_iter().map(|server| server.run).collect();
        let roster = Roster { nodes, protocol, max_ttl, servers, ..Roster::default() };
        self.own = Some((roster, began + time(TTL) + LASTS));
        self.listing.take(&writing.servers, (chosen, listed), began, time(TTL));
        listed.iter().for_each(|node| self.standings[node] = Standing::Listed(began + FRESH));
        self.leave_out(writing.connected.without(chosen));
    }
}
