//! Whose votes count: all clients that can reach a common node must count votes of at most N servers
//! between them, so that any two of their quorums share one.
//!
//! Each node keeps a *roster*: the run ids of at most N servers, each for a while. A client counts
//! the votes of a server only while all nodes that it is connected to have lately taken that server
//! into their rosters, or had it there. `docs/protocol.md`, "Members", says why that is enough.

use std::sync::Arc;
use std::time::Duration;

use super::node_set::NodeSet;
use super::tally::Size;
use super::tick::Tick;

/// The protocol of this build.
pub const PROTOCOL: u32 = 2;
/// For how long an enrolment lets votes count, from before it was sent, by the client's clock.
pub const FRESH: Duration = Duration::from_secs(10);
/// By how much longer than the longest ttl nodes keep an entry. A vote that was counted lets a lock be
/// held for a ttl more: `FRESH`, and what clocks may run apart in the meantime.
pub const LASTS: Duration = Duration::from_secs(15);
/// How often servers are enrolled.
pub const EVERY: Duration = Duration::from_secs(5);
/// A server that is younger may have had a roster before, whose clients have not come again yet.
pub const YOUNG: Duration = Duration::from_secs(10);
/// After a larger `max_ttl` was told to all nodes, every client that still counts votes knows it.
pub const ADOPTED: Duration = FRESH.saturating_add(Duration::from_secs(1));

/// What a client asks nodes to write into their rosters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Enrolment {
    /// How many nodes its list has.
    pub nodes: u32,
    /// Its protocol.
    pub protocol: u32,
    /// The longest ttl that it guards against; zero where it tells none.
    pub max_ttl: Duration,
    /// For how long an entry lasts; zero where nothing is to be written.
    pub lasts: Duration,
    /// The run ids of its servers.
    pub servers: Vec<String>,
    /// Those that this client saw replaced, at the address of one of these.
    pub gone: Vec<String>,
}

/// What a node's roster holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Roster {
    /// How many nodes the list of its clients has; zero where it is empty.
    pub nodes: u32,
    /// Their protocol.
    pub protocol: u32,
    /// The largest `max_ttl` of those that told one lately.
    pub max_ttl: Duration,
    /// The run ids of the servers, in their order.
    pub servers: Vec<String>,
}

impl Roster {
    fn has(&self, run: &str) -> bool {
        self.servers.iter().any(|server| server == run)
    }

    /// Whether its clients have lists like that of `size`.
    fn is_of(&self, size: Size) -> bool {
        self.servers.is_empty() || (self.nodes, self.protocol) == (size.nodes(), PROTOCOL)
    }
}

/// What a node said of an enrolment.
#[derive(Clone, Copy, Debug)]
pub enum Answer<'a> {
    /// The servers are in its roster.
    Listed,
    /// They do not fit into its roster.
    Unlisted(&'a Roster),
    /// It does not answer, and this was its roster when it refused not long ago.
    Remembered(&'a Roster),
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

/// What follows from the answers to an enrolment of the servers of `asked`. `runs` are the run ids by node,
/// and `gone` those that were replaced.
#[must_use]
pub fn decide<'a>(
    size: Size,
    runs: &[Option<String>],
    asked: NodeSet,
    gone: &[String],
    answers: &[(usize, Answer<'a>)],
) -> Verdict {
    let refused = || {
        answers.iter().filter_map(|(node, answer)| match answer {
            Answer::Unlisted(roster) => Some((*node, *roster)),
            Answer::Remembered(roster) if !takes(size, runs, asked, gone, roster) => Some((*node, *roster)),
            Answer::Listed | Answer::Remembered(_) => None,
        })
    };
    if let Some((node, _)) = refused().find(|(_, roster)| !roster.is_of(size)) {
        return Verdict::Nobody(node);
    }
    let Some((first, _)) = refused().next() else {
        let took = answers.iter().filter(|(_, answer)| matches!(answer, Answer::Listed));
        let mut listed = NodeSet::default();
        took.for_each(|(node, _)| listed.insert(*node));
        return Verdict::Listed(listed.and(asked));
    };
    let told = |(_, answer): &(usize, Answer<'a>)| match answer {
        Answer::Unlisted(roster) | Answer::Remembered(roster) => Some(*roster),
        Answer::Listed => None,
    };
    let rosters: Vec<_> = answers.iter().filter_map(told).collect();
    let fit = fitting(size, runs, asked, gone, &rosters);
    if fit.len() >= size.quorum() { Verdict::Fit(fit) } else { Verdict::Nobody(first) }
}

/// Whether a node would take the servers of `asked` whose roster is this.
fn takes(size: Size, runs: &[Option<String>], asked: NodeSet, gone: &[String], roster: &Roster) -> bool {
    roster.is_of(size) && fitting(size, runs, asked, gone, &[roster]) == asked
}

/// As many of the servers as fit into all rosters: first those that most have already, since clients
/// of one list should choose the same.
fn fitting(size: Size, runs: &[Option<String>], asked: NodeSet, gone: &[String], rosters: &[&Roster]) -> NodeSet {
    let left = |roster: &&Roster| roster.servers.iter().filter(|server| !gone.contains(server)).count();
    let mut room: Vec<_> = rosters.iter().map(|roster| (size.nodes() as usize).saturating_sub(left(roster))).collect();
    let lacking = |run: &str| rosters.iter().filter(|roster| !roster.has(run)).count();
    let mut candidates: Vec<_> = asked.iter().filter_map(|node| Some((node, runs.get(node)?.as_deref()?))).collect();
    candidates.sort_by_key(|&(node, run)| (lacking(run), node));
    let mut fit = NodeSet::default();
    for (node, run) in candidates {
        let new: Vec<_> = rosters.iter().map(|roster| !roster.has(run)).collect();
        if new.iter().zip(&room).all(|(new, room)| !new || *room > 0) {
            new.iter().zip(&mut room).filter(|(new, _)| **new).for_each(|(_, room)| *room -= 1);
            fit.insert(node);
        }
    }
    fit
}

/// Why a server's votes do not count, for people. `mine` are the run ids of this client's list.
#[must_use]
pub fn conflict(size: Size, mine: &[Option<String>], node: &str, roster: &Roster, lasts: Duration) -> String {
    let others: Vec<_> = roster
        .servers
        .iter()
        .filter(|run| !mine.iter().flatten().any(|mine| mine == *run))
        .map(|run| short(run))
        .collect();
    let theirs = if roster.protocol != PROTOCOL && roster.nodes > 0 {
        format!("another protocol ({}, here {PROTOCOL})", roster.protocol)
    } else {
        let (known, many) = (others.join(", "), others.len());
        let not = if many > 0 { format!(", {many} of them not in this client's ({known})") } else { String::new() };
        format!("another list: theirs has {} nodes{not}, this one {}", roster.nodes, size.nodes())
    };
    format!(
        "{node} is used by clients of {theirs}; give all the same list, or stop the others and wait {:.0?} after the last \
         has stopped (also where a server was replaced while no client ran)",
        lasts
    )
}

/// Enough of a run id to find the server by its `INFO`.
fn short(run: &str) -> String {
    run.chars().take(8).chain("..".chars()).collect()
}

/// Whether the votes of one server count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// They always do: it has no roster.
    Exempt,
    /// It was not enrolled yet.
    #[default]
    Unknown,
    /// They would, but no quorum of nodes answers.
    Few,
    /// They do until then, unless it is enrolled again.
    Listed(Tick),
    /// Not before then: some server is so young that others may come again which have another list.
    Newcomer(Tick),
    /// They do not, because of this.
    Unlisted(Arc<str>),
}

impl Standing {
    /// Whether a vote counts that came at `now`.
    #[must_use]
    pub fn counts(&self, now: Tick) -> bool {
        match self {
            Self::Exempt => true,
            Self::Listed(until) => now < *until,
            Self::Unknown | Self::Few | Self::Newcomer(_) | Self::Unlisted(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(text: &str) -> Vec<Option<String>> {
        text.split(' ').map(|run| Some(run.to_owned()).filter(|run| run != "-")).collect()
    }

    fn roster(text: &str) -> Roster {
        let servers = text.split_whitespace().map(str::to_owned).collect();
        Roster { nodes: 3, protocol: PROTOCOL, max_ttl: Duration::ZERO, servers }
    }

    fn set(nodes: &[usize]) -> NodeSet {
        let mut set = NodeSet::default();
        nodes.iter().for_each(|node| set.insert(*node));
        set
    }

    /// What three nodes with these rosters come to; `None` where one took the servers.
    fn verdict(mine: &str, gone: &[&str], told: &[Option<&str>]) -> Verdict {
        let rosters: Vec<_> = told.iter().map(|told| told.map(roster)).collect();
        let answer = |roster: &'_ Option<Roster>| roster.as_ref().map_or(Answer::Listed, |_| Answer::Listed);
        let mut answers: Vec<_> = rosters.iter().map(answer).enumerate().collect();
        for (node, roster) in rosters.iter().enumerate() {
            if let Some(roster) = roster {
                answers[node].1 = Answer::Unlisted(roster);
            }
        }
        let gone: Vec<_> = gone.iter().map(|&run| run.to_owned()).collect();
        decide(Size::of(3), &runs(mine), NodeSet::first(3), &gone, &answers)
    }

    #[test]
    fn all_that_took_them_are_listed() {
        assert_eq!(verdict("a b c", &[], &[None, None, None]), Verdict::Listed(set(&[0, 1, 2])));
        let two =
            decide(Size::of(3), &runs("a b c"), NodeSet::first(3), &[], &[(0, Answer::Listed), (2, Answer::Listed)]);
        assert_eq!(two, Verdict::Listed(set(&[0, 2])), "who did not answer is not");
    }

    #[test]
    fn two_lists_that_share_one_node_have_no_quorum_and_two_that_share_two_have_one() {
        assert_eq!(verdict("c d e", &[], &[Some("a b c"), None, None]), Verdict::Nobody(0));
        assert_eq!(verdict("b c d", &[], &[Some("a b c"), Some("a b c"), None]), Verdict::Fit(set(&[0, 1])));
        assert_eq!(verdict("b c d", &[], &[Some("a b c"), Some("b c d"), None]), Verdict::Fit(set(&[0, 1])));
    }

    #[test]
    fn what_there_is_room_for_fits() {
        assert_eq!(verdict("a b c", &[], &[Some("b x"), None, None]), Verdict::Fit(set(&[0, 1])));
        assert_eq!(verdict("a b c", &["x"], &[Some("b x"), None, None]), Verdict::Fit(set(&[0, 1, 2])));
        assert_eq!(verdict("a b c", &["x", "y"], &[Some("b x"), Some("y z"), None]), Verdict::Fit(set(&[0, 1])));
    }

    #[test]
    fn another_number_of_nodes_or_protocol_is_refused_whatever_the_servers() {
        for other in [Roster { nodes: 5, ..roster("a b c") }, Roster { protocol: 3, ..roster("a b c") }] {
            let answers = [(0, Answer::Listed), (1, Answer::Unlisted(&other)), (2, Answer::Listed)];
            let verdict = decide(Size::of(3), &runs("a b c"), NodeSet::first(3), &[], &answers);
            assert_eq!(verdict, Verdict::Nobody(1));
        }
    }

    #[test]
    fn a_conflict_is_told_with_what_to_do() {
        let told = conflict(Size::of(3), &runs("c d e"), "redis://c", &roster("aaaaaaaaaa bbbbbbbbbb c"), LASTS);
        for part in ["redis://c", "theirs has 3 nodes, 2 of them", "aaaaaaaa..", "same list", "wait 15s"] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let other = Roster { protocol: 3, ..roster("a") };
        assert!(conflict(Size::of(3), &runs("a"), "n", &other, LASTS).contains("another protocol (3, here 2)"));
    }

    #[test]
    fn votes_count_while_the_enrolment_is_fresh() {
        let at = |seconds| Tick::new(Duration::from_secs(seconds));
        let listed = Standing::Listed(at(10));
        assert!(listed.counts(at(9)) && !listed.counts(at(10)));
        assert!(Standing::Exempt.counts(at(99)));
        for other in [Standing::Unknown, Standing::Few, Standing::Newcomer(at(1)), Standing::Unlisted("why".into())] {
            assert!(!other.counts(at(5)), "{other:?}");
        }
    }

    /// A vote that comes at the last moment lets a lock be held for a ttl, less the drift.
    #[test]
    fn an_entry_outlasts_all_that_rests_on_it() {
        for (ttl, share) in [
            (Duration::from_millis(100), 0.01),
            (Duration::from_secs(60), 0.01),
            (Duration::from_secs(86_400 * 30), 0.01),
            (Duration::from_secs(60), 0.2),
        ] {
            let held = FRESH + ttl.mul_f64(1.0 - share);
            assert!(held.mul_f64(1.0 + share) < ttl + LASTS, "{ttl:?} {share}");
        }
    }
}
