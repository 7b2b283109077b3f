//! Whose votes count: all clients that can reach a common node must count votes of at most N
//! servers between them, so that any two of their quorums share one.
//!
//! Each node keeps a *roster*: the run ids of at most N servers, each for a while. A client counts
//! the votes of a server only while all nodes that it is connected to have lately taken that server
//! into their rosters, or had it there. `docs/protocol.md`, "Rosters", says why that is enough.

mod agreement;
mod counted;
mod listing;
mod words;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

pub use agreement::{Agreement, agreement};
pub use counted::{Counted, Seen, counted};
pub use listing::{Electorate, Listing, Standing};
pub use words::{conflict, retired};

use super::node_set::NodeSet;
use super::tally::Size;

/// The protocol of this build.
pub const PROTOCOL: u32 = 3;

/// What clients must have in common, beside servers, to vote together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Common {
    /// How many nodes their list has.
    pub size: Size,
    /// Their protocol.
    pub protocol: u32,
}

impl Common {
    /// Clients of this build.
    #[must_use]
    pub const fn of(size: Size) -> Self {
        Self { size, protocol: PROTOCOL }
    }
}

/// For how long an enrolment lets votes count, from before it was sent, by the client's clock.
pub const FRESH: Duration = Duration::from_secs(10);
/// By how much longer than the longest ttl nodes keep an entry. A vote that was counted lets a lock
/// be held for a ttl more: `FRESH`, and what clocks may run apart in the meantime.
pub const LASTS: Duration = Duration::from_secs(15);
/// How much longer an entry is written for, so that of many clients one writes it and the others
/// find it there.
pub const SPARE: Duration = EVERY;
/// The longest ttl of a client that nodes enrol: for so long is a node that restarts kept out by
/// all of them, whoever told it. Locks that are held for longer are renewed.
pub const LONGEST: Duration = Duration::from_secs(24 * 3_600);
/// How often servers are enrolled.
pub const EVERY: Duration = Duration::from_secs(5);
/// A server that is younger may have had a roster before, whose clients have not come again yet.
pub const YOUNG: Duration = Duration::from_secs(10);

/// For how long a client with this `max_ttl` waits for clients that may come again to a young
/// server: such a server votes on no claim for `max_ttl` anyway.
#[must_use]
pub fn young(max_ttl: Duration) -> Duration {
    YOUNG.min(max_ttl)
}

/// A server of a client's list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Server {
    /// Its run id.
    pub run: String,
    /// Those that this client saw at its address before: it may have their room.
    pub before: Vec<String>,
}

impl Server {
    /// Between its run id and each of those before it.
    const AFTER: char = '<';

    /// Reads what it is written as.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut runs = text.split(Self::AFTER).map(str::to_owned);
        Self { run: runs.next().unwrap_or_default(), before: runs.collect() }
    }

    /// Whether the roster has it, or one before it.
    fn is_in(&self, roster: &Roster) -> bool {
        roster.has(&self.run) || self.before.iter().any(|run| roster.has(run))
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.run)?;
        self.before.iter().try_for_each(|run| write!(f, "{}{run}", Self::AFTER))
    }
}

/// What a client asks nodes to write into their rosters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Enrolment {
    /// How many nodes its list has.
    pub nodes: u32,
    /// Its protocol.
    pub protocol: u32,
    /// The longest ttl that it guards against or uses.
    pub max_ttl: Duration,
    /// For how long an entry lasts at least; zero where nothing is to be written.
    pub lasts: Duration,
    /// Its servers.
    pub servers: Vec<Server>,
}

/// What a node's roster holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
// Simulated nodes make them up, and take them apart.
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct Roster {
    /// How many nodes the list of its clients has; zero where it is empty.
    pub nodes: u32,
    /// Their protocol.
    pub protocol: u32,
    /// The largest `max_ttl` of those that told one lately.
    pub max_ttl: Duration,
    /// For how long its last entry lasts still, if nobody writes it again; zero where it is empty.
    pub lasts: Duration,
    /// For how long the node has been retired, if it was: then no vote of it counts.
    pub retired: Option<Duration>,
    /// The run ids of the servers, in their order.
    pub servers: Vec<String>,
}

impl Roster {
    /// For how long entries of its clients last at most, whenever those come.
    #[must_use]
    pub fn binds(&self) -> Duration {
        self.max_ttl + LASTS + SPARE
    }

    fn has(&self, run: &str) -> bool {
        self.servers.iter().any(|server| server == run)
    }

    /// Whether its clients have that in common with these.
    fn is_of(&self, common: Common) -> bool {
        self.servers.is_empty() || (self.nodes, self.protocol) == (common.size.nodes(), common.protocol)
    }

    /// Whether a node with this roster takes these servers of a client whose longest ttl is not
    /// above [`LONGEST`]: the rule of the script.
    #[must_use]
    pub(crate) fn takes(&self, common: Common, servers: &[&Server]) -> bool {
        let mut runs: BTreeSet<&str> = self.servers.iter().map(String::as_str).collect();
        servers.iter().flat_map(|server| &server.before).for_each(|run| _ = runs.remove(run.as_str()));
        runs.extend(servers.iter().map(|server| server.run.as_str()));
        self.is_of(common) && runs.len() <= common.size.nodes() as usize
    }

    /// Whether a client of the same list was enrolled here: then that one made sure that no client
    /// of another list counts votes. Who has not done that yet tells no ttl.
    #[must_use]
    pub(crate) fn vouches(&self, common: Common, servers: &[Option<Server>]) -> bool {
        let known = servers.iter().flatten().filter(|server| server.is_in(self)).count();
        self.is_of(common) && known >= common.size.quorum() as usize && !self.max_ttl.is_zero()
    }
}

/// Which of the servers some roster has that vouches for this client's list: whoever had them
/// enrolled knows that no clients of another list come back to them. `None` where no roster does.
#[must_use]
pub fn vouched<'a>(
    common: Common,
    servers: &[Option<Server>],
    rosters: impl Iterator<Item = &'a Roster>,
) -> Option<NodeSet> {
    let known = |roster: &Roster| -> NodeSet {
        let has = |server: &Option<Server>| server.as_ref().is_some_and(|server| server.is_in(roster));
        (0..servers.len()).filter(|&node| has(&servers[node])).collect()
    };
    rosters.filter(|roster| roster.vouches(common, servers)).map(known).reduce(NodeSet::or)
}

/// What a node said of an enrolment, with its roster as it was before.
#[derive(Clone, Copy, Debug)]
pub enum Answer<'a> {
    /// The servers are in its roster.
    Listed(&'a Roster),
    /// They do not fit into its roster.
    Unlisted(&'a Roster),
    /// It does not answer, and this was its roster when it refused not long ago.
    Remembered(&'a Roster),
}

impl<'a> Answer<'a> {
    const fn roster(self) -> &'a Roster {
        let (Self::Listed(roster) | Self::Unlisted(roster) | Self::Remembered(roster)) = self;
        roster
    }
}

/// What follows from all answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The servers of these nodes are listed everywhere.
    Listed(NodeSet),
    /// Those of these nodes fit into all rosters that were told; ask again with them.
    Fit(NodeSet),
    /// No quorum fits, because of this node.
    Nobody(usize),
}

/// What follows from the answers to an enrolment of the servers of `asked`.
#[must_use]
pub fn decide(common: Common, servers: &[Option<Server>], asked: NodeSet, answers: &[(usize, Answer<'_>)]) -> Verdict {
    let takes = |roster: &Roster| roster.takes(common, &of(servers, asked));
    let refuses = |answer: Answer<'_>| match answer {
        Answer::Listed(_) => false,
        Answer::Unlisted(_) => true,
        Answer::Remembered(roster) => !takes(roster),
    };
    let refused = || answers.iter().filter(|(_, answer)| refuses(*answer));
    if let Some((node, _)) = refused().find(|(_, answer)| !answer.roster().is_of(common)) {
        return Verdict::Nobody(*node);
    }
    let Some((first, _)) = refused().next() else {
        let took = answers.iter().filter(|(_, answer)| matches!(answer, Answer::Listed(_)));
        return Verdict::Listed(took.map(|(node, _)| *node).collect::<NodeSet>().and(asked));
    };
    let rosters: Vec<_> = answers.iter().map(|(_, answer)| answer.roster()).collect();
    let fit = fitting(common, servers, asked, &rosters);
    if fit.len() >= common.size.quorum() { Verdict::Fit(fit) } else { Verdict::Nobody(*first) }
}

/// The servers of these nodes.
#[must_use]
pub fn of(servers: &[Option<Server>], nodes: NodeSet) -> Vec<&Server> {
    nodes.iter().filter_map(|node| servers.get(node)?.as_ref()).collect()
}

/// As many of the servers as fit into all rosters: first those that most have already, since
/// clients of one list should choose the same.
fn fitting(common: Common, servers: &[Option<Server>], asked: NodeSet, rosters: &[&Roster]) -> NodeSet {
    let lacking = |server: &Server| rosters.iter().filter(|roster| !server.is_in(roster)).count();
    let known = |node: usize| Some((lacking(servers.get(node)?.as_ref()?), node));
    let mut candidates: Vec<_> = asked.iter().filter_map(known).collect();
    candidates.sort_unstable();
    let fits = |nodes| rosters.iter().all(|roster| roster.takes(common, &of(servers, nodes)));
    let more = |fit: NodeSet, (_, node)| Some(fit.or(NodeSet::of(node))).filter(|&more| fits(more)).unwrap_or(fit);
    candidates.into_iter().fold(NodeSet::default(), more)
}

#[cfg(test)]
mod tests;
