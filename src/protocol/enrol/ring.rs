//! The nodes that one round of enrolling asks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::host::before;
use crate::node::{Fault, FaultKind, Member, NodeState, Operation, Outcome, Reply};
use crate::protocol::round::{Count, Round};
use crate::protocol::voters::Voters;
use crate::rules::roster::{Common, EVERY, Enrolment, LASTS, Roster, Server, Standing, of, vouched};
use crate::rules::{NodeSet, Tick};

/// For how long answers are waited for at least, and at most: longer than that nodes may take for
/// an answer.
const PATIENCE: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(4);
/// For how long entries keep others out that are not enrolled yet: longer than it takes to write
/// them again.
pub(super) const RESERVED: Duration = Duration::from_secs(5);
/// How much longer than a quorum the others may take where this client is vouched for.
const OTHERS: Duration = Duration::from_millis(250);

/// What nodes said: whether they took the servers, and their rosters as they were before.
pub(super) type Answers = Vec<Option<(bool, Roster)>>;

/// What entries mean that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lasting {
    /// They keep others out, while it is not known yet whether other nodes take them. No ttl is
    /// told with them, so they vouch for nobody.
    Reserved,
    /// Votes may rest on them.
    Enrolled,
}

/// What nodes said, in the order in which it came, until it is heard: also where nobody waits for
/// it any more.
#[derive(Debug, Default)]
pub(super) struct Unheard(Mutex<Vec<Said>>);

/// What one node said, and when it was asked.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) node: usize,
    pub(super) answer: (bool, Roster),
    pub(super) asked: Tick,
}

impl Unheard {
    /// What came since this was called last.
    pub(super) fn take(&self) -> Vec<Said> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn push(&self, said: Said) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(said);
    }
}

/// One round.
pub(super) struct Ring<'a> {
    pub(super) voters: &'a Arc<Voters>,
    pub(super) members: Vec<Option<Member>>,
    pub(super) servers: Vec<Option<Server>>,
    pub(super) connected: NodeSet,
    /// The longest ttl that this client guards against or uses.
    pub(super) longest: Duration,
    /// Who answered with an error.
    rejecting: Mutex<NodeSet>,
    unheard: Arc<Unheard>,
}

impl<'a> Ring<'a> {
    pub(super) fn new(
        voters: &'a Arc<Voters>,
        members: Vec<Option<Member>>,
        servers: Vec<Option<Server>>,
        unheard: Arc<Unheard>,
    ) -> Self {
        let connected = (0..members.len()).filter(|&node| members[node].is_some()).collect();
        let (longest, rejecting) = (voters.members.longest(), Mutex::default());
        Self { voters, members, servers, connected, longest, rejecting, unheard }
    }

    /// What this client has in common with those that it may vote with.
    pub(super) fn common(&self) -> Common {
        Common { size: self.voters.size, protocol: self.voters.members.protocol }
    }

    /// Whether a node is being connected to for the first time.
    pub(super) fn others_come(&self) -> bool {
        let comes = |(node, member): (usize, &Option<Member>)| {
            member.is_none() && self.voters.nodes[node].status().state == NodeState::Connecting
        };
        self.members.iter().enumerate().any(comes)
    }

    /// The nodes from which nothing was heard, though they may have something to say.
    pub(super) fn missing(&self, answers: &Answers) -> NodeSet {
        let nodes = &self.voters.nodes;
        let is =
            |&node: &usize| answers[node].is_none() && nodes[node].enrols() && !nodes[node].status().state.is_unfit();
        (0..nodes.len()).filter(is).collect::<NodeSet>().without(self.rejecting())
    }

    /// Whether so many answered that could vote that they may elect.
    pub(super) fn is_quorum(&self, answers: &Answers) -> bool {
        let voters = answered(answers).without(retirees(answers)).without(self.rejecting());
        voters.len() >= self.voters.size.quorum()
    }

    /// The nodes that are to be written, as far as they can be.
    pub(super) fn wanted(&self, answers: &Answers) -> NodeSet {
        self.connected.without(self.rejecting()).without(retirees(answers))
    }

    /// The nodes that answered with an error.
    pub(super) fn rejecting(&self) -> NodeSet {
        *self.rejecting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a roster has where these were enrolled.
    pub(super) fn roster(&self, chosen: NodeSet) -> Roster {
        let servers = of(&self.servers, chosen).into_iter().map(|server| server.run.clone()).collect();
        Roster {
            nodes: self.voters.size.nodes(),
            protocol: self.voters.members.protocol,
            max_ttl: self.longest,
            servers,
            ..Roster::default()
        }
    }

    /// Whether some node did not answer.
    pub(super) fn is_silent(&self, answers: &Answers) -> bool {
        self.connected.iter().any(|node| answers[node].is_none())
    }

    /// How often servers are enrolled, so that a round that takes long is over in time.
    pub(super) fn every(&self) -> Duration {
        every(self.patience())
    }

    pub(super) fn patience(&self) -> Duration {
        patience(self.voters.members.node_timeout)
    }

    /// Asks all nodes whether they would take the servers of `wanted`. Where this client may be
    /// vouched for and is, those that take much longer than a quorum are not waited for.
    pub(super) async fn look_for(&self, wanted: NodeSet, may_vouch: bool) -> Answers {
        let is_vouched = |answers: &Answers| {
            let rosters = answers.iter().flatten().map(|(_, roster)| roster);
            may_vouch && self.is_quorum(answers) && vouched(self.common(), &self.servers, rosters).is_some()
        };
        self.told_soon(self.enrolment(wanted, Duration::ZERO), is_vouched).await
    }

    /// Asks all nodes to take the servers of `chosen`, and waits for these; for all, where too few
    /// of them take it, and nobody refuses it.
    pub(super) async fn write(&self, chosen: NodeSet, answer: NodeSet, lasting: Lasting) -> Answers {
        let end = self.voters.host.now() + self.patience();
        let enrolment = self.enrolment(chosen, self.lasts(lasting));
        let round = self.put(match lasting {
            Lasting::Enrolled => enrolment,
            Lasting::Reserved => Enrolment { max_ttl: Duration::ZERO, ..enrolment },
        });
        let answers = self.rest(&round, answer, end).await;
        // A far node is not among those that were waited for where a quorum without it vouched.
        let (took, said) = (took(&answers), answered(&answers));
        let few = took.and(chosen).without(retirees(&answers)).len() < self.voters.size.quorum()
            && said.without(took).is_empty();
        if few { self.rest(&round, self.connected, end).await } else { answers }
    }

    /// For how long entries last at least that are written.
    pub(super) fn lasts(&self, lasting: Lasting) -> Duration {
        match lasting {
            Lasting::Enrolled => self.longest + LASTS,
            Lasting::Reserved => RESERVED,
        }
    }

    fn enrolment(&self, chosen: NodeSet, lasts: Duration) -> Enrolment {
        let servers = of(&self.servers, chosen).into_iter().cloned().collect();
        Enrolment {
            nodes: self.voters.size.nodes(),
            protocol: self.voters.members.protocol,
            max_ttl: self.longest,
            lasts,
            servers,
        }
    }

    /// Asks all nodes for their rosters. Those that take much longer than a quorum are not waited
    /// for.
    pub(super) async fn look(&self) -> Answers {
        let (nodes, protocol) = (self.voters.size.nodes(), self.voters.members.protocol);
        self.told_soon(Enrolment { nodes, protocol, ..Enrolment::default() }, |_| true).await
    }

    /// What they answer to this. Where what a quorum says is `enough`, those that take much longer
    /// are not waited for.
    async fn told_soon(&self, enrolment: Enrolment, enough: impl Fn(&Answers) -> bool) -> Answers {
        let host = &self.voters.host;
        let began = host.now();
        let (round, end) = (self.put(enrolment), began + self.patience());
        let _ = before(host, end, round.verdict()).await;
        let soon = host.now() + (host.now().since(began) * 4).max(OTHERS);
        let end = if enough(&told(&round)) { end.min(soon) } else { end };
        self.rest(&round, self.connected, end).await
    }

    /// Asks all that are connected.
    fn put(&self, enrolment: Enrolment) -> Arc<Round<Answered>> {
        let answered = Answered {
            nodes: NodeSet::default(),
            voters: 0,
            quorum: self.voters.size.quorum(),
            all: self.connected.len(),
            asked: self.voters.host.now(),
            unheard: self.unheard.clone(),
        };
        let round = Round::new(self.voters.nodes.len(), 0, answered);
        self.voters.ask(self.connected, &Arc::new(Operation::Enrol(enrolment)), &round);
        round
    }

    /// Waits for these.
    async fn rest(&self, round: &Round<Answered>, nodes: NodeSet, end: Tick) -> Answers {
        let missing = |answered: &Answered| nodes.without(answered.nodes).is_empty().then_some(());
        let _ = before(&self.voters.host, end, round.until(missing)).await;
        self.note_faults(round);
        told(round)
    }

    /// A node that answers with an error says why its votes do not count.
    fn note_faults(&self, round: &Round<Answered>) {
        if self.voters.members.onlooker {
            return;
        }
        let fault = |reply: &Option<Reply>| reply.as_ref()?.as_ref().err().cloned();
        let faults: Vec<_> = round.replies(|replies| replies.iter().map(fault).collect());
        let faults = faults.into_iter().enumerate().filter_map(|(node, fault)| Some((node, fault?)));
        faults.for_each(|(node, fault)| self.note(node, &fault));
    }

    fn note(&self, node: usize, fault: &Fault) {
        let why = match fault.kind() {
            FaultKind::Rejected => {
                self.rejecting.lock().unwrap_or_else(PoisonError::into_inner).insert(node);
                format!("it does not let this client read and write its roster: {fault}")
            }
            // It is asked again as if it had not answered, and votes that count go on counting.
            FaultKind::Busy if self.voters.nodes[node].status().listed != Some(true) => {
                format!("it cannot take this client into its roster now: {fault}")
            }
            _ => return,
        };
        self.tell(node, Standing::Unlisted(why.into()), &vec![None; self.servers.len()]);
    }

    pub(super) fn tell(&self, node: usize, standing: Standing, answers: &Answers) {
        if let Some(server) = &self.servers[node] {
            let roster = answers[node].as_ref().map(|(_, roster)| roster.clone());
            self.voters.nodes[node].enrolled(&server.run, standing, roster);
        }
    }

    pub(super) fn tell_all(&self, standing: &Standing) {
        self.tell_these(self.connected, standing);
    }

    pub(super) fn tell_these(&self, nodes: NodeSet, standing: &Standing) {
        let nobody = vec![None; self.servers.len()];
        nodes.iter().for_each(|node| self.tell(node, standing.clone(), &nobody));
    }
}

/// How often to enrol where answers are waited for so long.
fn every(patience: Duration) -> Duration {
    EVERY.saturating_sub(patience.saturating_sub(PATIENCE))
}

/// For how long answers are waited for where nodes may take that long.
fn patience(node_timeout: Duration) -> Duration {
    node_timeout.clamp(PATIENCE, LONGEST)
}

fn answer(reply: &Reply) -> Option<(bool, Roster)> {
    match reply {
        Ok(Outcome::Listed(roster)) => Some((true, roster.clone())),
        Ok(Outcome::Unlisted(roster)) => Some((false, roster.clone())),
        _ => None,
    }
}

/// The nodes that answered.
pub(super) fn answered(answers: &Answers) -> NodeSet {
    (0..answers.len()).filter(|&node| answers[node].is_some()).collect()
}

/// The nodes that took what was asked.
fn took(answers: &Answers) -> NodeSet {
    (0..answers.len()).filter(|&node| answers[node].as_ref().is_some_and(|(took, _)| *took)).collect()
}

/// Who answered that it was retired: its roster binds, and its votes do not count.
pub(super) fn retirees(answers: &Answers) -> NodeSet {
    let is = |node: &usize| answers[*node].as_ref().is_some_and(|(_, roster)| roster.retired.is_some());
    (0..answers.len()).filter(is).collect()
}

fn told(round: &Round<Answered>) -> Answers {
    round.replies(|replies| replies.iter().map(|reply| answer(reply.as_ref()?)).collect())
}

/// Who has answered.
struct Answered {
    nodes: NodeSet,
    /// How many of them may vote.
    voters: u32,
    quorum: u32,
    /// How many are asked.
    all: u32,
    asked: Tick,
    unheard: Arc<Unheard>,
}

impl Count for Answered {
    type Verdict = ();

    fn count(&mut self, node: usize, reply: &Reply, _: u64) {
        self.nodes.insert(node);
        if let Some(answer) = answer(reply) {
            self.voters += u32::from(answer.1.retired.is_none());
            self.unheard.push(Said { node, answer, asked: self.asked });
        }
    }

    fn verdict(&self) -> Option<()> {
        (self.voters >= self.quorum || self.nodes.len() >= self.all).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::roster::FRESH;

    #[test]
    fn a_round_that_takes_as_long_as_it_may_is_over_while_the_one_before_counts() {
        for seconds in 0..20 {
            let patience = patience(Duration::from_secs(seconds));
            let begins = every(patience).max(patience);
            assert!(begins + patience < FRESH, "{begins:?} after the one before, for {patience:?}");
        }
    }
}
