//! Finds whether a point of "What is not promised" (docs/guarantees.md) excuses two holders of one
//! name, or a token below an earlier token. In the simulation, this is possible only between
//! clients of different lists, or if a name leads to two servers.

use std::collections::BTreeMap;

use super::Configured;
use super::history::{Micros, SECOND, What};

/// Added to the time for two hellos, so that a lost connection is up again and late messages have
/// arrived.
const SLACK: Micros = 4 * SECOND;

/// A fault that keeps a client from hearing from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    Cut(u16, u8),
    /// The connection between this process and this node has ended.
    Apart(u16, u8),
    Down(u8),
    Hung(u8),
    Paused(u16),
    Weather,
}

/// When something began, and when it ended.
type Span = (Micros, Micros);

#[derive(Debug, Default)]
pub struct Promises {
    clients: Vec<Configured>,
    /// If true, nothing is excused: such a scene checks cases in which the protocol works although
    /// nothing is promised.
    strict: bool,
    troubles: BTreeMap<Trouble, Vec<Span>>,
    /// When a server forgot, or another server got its name.
    lost: BTreeMap<u8, Vec<Micros>>,
    /// When a name led to two servers.
    split: BTreeMap<u8, Vec<Span>>,
    /// The other servers to which a name has led.
    others: BTreeMap<u8, Vec<u8>>,
    /// When processes started.
    born: Vec<Micros>,
}

impl Promises {
    pub fn new(clients: Vec<Configured>, strict: bool) -> Self {
        Self { clients, strict, ..Self::default() }
    }

    pub fn look(&mut self, now: Micros, what: &What) {
        match *what {
            What::Started { .. } => self.born.push(now),
            What::Cut { process, node, there, back } => self.lasts(now, Trouble::Cut(process, node), there || back),
            What::Replaced { process, node } => self.lasts(now, Trouble::Apart(process, node), true),
            What::Connected { process, node } => self.lasts(now, Trouble::Apart(process, node), false),
            What::Hung { node, hung } => self.lasts(now, Trouble::Hung(node), hung),
            What::Paused { process, .. } => self.lasts(now, Trouble::Paused(process), true),
            What::Resumed { process } => self.lasts(now, Trouble::Paused(process), false),
            What::Weather { bad } => self.lasts(now, Trouble::Weather, bad),
            What::NodeDown { node, .. } => {
                self.lasts(now, Trouble::Down(node), true);
                self.lost.entry(node).or_default().push(now);
            }
            What::NodeUp { node } => self.lasts(now, Trouble::Down(node), false),
            What::Forgot { node, .. } => self.lost.entry(node).or_default().push(now),
            What::Moved { node, server } => {
                self.lost.entry(node).or_default().push(now);
                self.others.entry(node).or_default().push(server);
            }
            What::Split { node, server, split } => {
                let spans = self.split.entry(node).or_default();
                open_or_close(now, spans, split);
                self.others.entry(node).or_default().push(server);
            }
            _ => {}
        }
    }

    fn lasts(&mut self, now: Micros, trouble: Trouble, lasts: bool) {
        open_or_close(now, self.troubles.entry(trouble).or_default(), lasts);
    }

    /// Whether a point of "What is not promised" covers that both clients held one name at `at`, or
    /// that the later holder has a lower token.
    pub fn covers(&self, one: u16, other: u16, at: Micros) -> bool {
        let clients = self.clients.get(usize::from(one)).zip(self.clients.get(usize::from(other)));
        let Some((mine, theirs)) = clients.filter(|_| !self.strict) else { return false };
        let shared: Vec<u8> = (0..64).filter(|node| (mine.of & theirs.of) >> node & 1 == 1).collect();
        // Point 6: for one of the clients, each shared node was silent at some recent time.
        let long = mine.lasts().max(theirs.lasts()) + 2 * mine.max_ttl.max(theirs.max_ttl);
        let unknown = |client| shared.iter().all(|&node| self.is_unheard(client, node, at.saturating_sub(long), at));
        if mine.list != theirs.list && (unknown(one) || unknown(other)) {
            return true;
        }
        // Point 5: two servers behind one name, until clients find out, or if no other shared node
        // can tell the clients.
        let found = self.found(mine, theirs);
        let is_split =
            |node: u8, from| self.split.get(&node).is_some_and(|spans| spans.iter().any(|&span| meets(span, from, at)));
        let fresh = |&&node: &&u8| {
            self.split
                .get(&node)
                .is_some_and(|spans| spans.iter().any(|&(since, until)| since <= at && at < until.min(since + found)))
        };
        let telling = |&&node: &&u8| {
            let from = at.saturating_sub(found);
            !is_split(node, from) && ![one, other].iter().any(|&client| self.is_unheard(client, node, from, at))
        };
        let is_twin = shared.iter().any(|&node| is_split(node, at.saturating_sub(found)));
        is_twin && (shared.iter().any(|node| fresh(&node)) || !shared.iter().any(|node| telling(&node)))
    }

    /// Whether the tokens of these two clients rest on clocks alone (point 7).
    pub fn clocks_alone(&self, one: u16, other: u16) -> bool {
        let clients = self.clients.get(usize::from(one)).zip(self.clients.get(usize::from(other)));
        !self.strict && clients.is_some_and(|(mine, theirs)| mine.list != theirs.list)
    }

    /// Whether clients of different lists must have noticed each other. They must have, if both
    /// could hear from a shared node for long enough within this span.
    pub fn must_know(&self, one: u16, other: u16, (from, until): Span) -> bool {
        let clients = self.clients.get(usize::from(one)).zip(self.clients.get(usize::from(other)));
        let Some((mine, theirs)) = clients.filter(|(mine, theirs)| mine.list != theirs.list) else { return false };
        let (found, shared) = (self.found(mine, theirs), mine.of & theirs.of);
        let ends = |node: u8| self.ends(one, node).into_iter().chain(self.ends(other, node));
        (0..64u8).filter(|node| shared >> node & 1 == 1).any(|node| {
            let mut starts = std::iter::once(from).chain(ends(node)).filter(|at| (from..until).contains(at));
            let heard = |client, at| !self.is_unheard(client, node, at, at + found);
            starts.any(|at| at + found <= until && heard(one, at) && heard(other, at))
        })
    }

    /// How long it takes two clients to notice each other by a node from which both hear.
    fn found(&self, mine: &Configured, theirs: &Configured) -> Micros {
        2 * mine.every().max(theirs.every()) + SLACK
    }

    /// Whether at some time from `from` to `until` the client could not hear from the node. Also
    /// true if the client started in this time, or if the node forgot its data in this time.
    fn is_unheard(&self, client: u16, node: u8, from: Micros, until: Micros) -> bool {
        let born = self.born.get(usize::from(client)).is_some_and(|&born| (from..=until).contains(&born));
        let servers: Vec<u8> =
            std::iter::once(node).chain(self.others.get(&node).into_iter().flatten().copied()).collect();
        let of = servers.iter().flat_map(|&server| [Trouble::Down(server), Trouble::Hung(server)]);
        let mut of = of.chain([
            Trouble::Cut(client, node),
            Trouble::Apart(client, node),
            Trouble::Paused(client),
            Trouble::Weather,
        ]);
        let troubled = of.any(|trouble| self.spans(trouble).iter().any(|&span| meets(span, from, until)));
        let forgot =
            |server: &u8| self.lost.get(server).is_some_and(|all| all.iter().any(|at| (from..=until).contains(at)));
        born || troubled || servers.iter().any(forgot)
    }

    /// The times at which something ended that kept a client from hearing from a node.
    fn ends(&self, client: u16, node: u8) -> Vec<Micros> {
        let of = [
            Trouble::Cut(client, node),
            Trouble::Apart(client, node),
            Trouble::Paused(client),
            Trouble::Weather,
            Trouble::Down(node),
            Trouble::Hung(node),
        ];
        let born = self.born.get(usize::from(client)).copied();
        let lost = self.lost.get(&node).into_iter().flatten().map(|at| at + 1);
        of.into_iter()
            .flat_map(|trouble| self.spans(trouble).iter().map(|span| span.1.saturating_add(1)))
            .chain(born.map(|at| at + 1))
            .chain(lost)
            .collect()
    }

    fn spans(&self, trouble: Trouble) -> &[Span] {
        self.troubles.get(&trouble).map_or(&[], Vec::as_slice)
    }
}

impl Configured {
    /// The time from one hello of the client to the next.
    pub fn every(&self) -> Micros {
        (self.max_ttl / 5).min(5 * SECOND)
    }

    /// How long the client's list stays in force at most after the client has gone.
    pub fn lasts(&self) -> Micros {
        self.max_ttl + 3 * self.every()
    }
}

fn open_or_close(now: Micros, spans: &mut Vec<Span>, opens: bool) {
    let open = spans.last_mut().filter(|span| span.1 == Micros::MAX);
    match (opens, open) {
        (true, None) => spans.push((now, Micros::MAX)),
        (false, Some(span)) => span.1 = now,
        _ => {}
    }
}

const fn meets(span: Span, from: Micros, until: Micros) -> bool {
    span.0 <= until && from <= span.1
}
