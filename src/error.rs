//! The one error type: what went wrong, what each node said, and so what to do next.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What went wrong, by what the caller should do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Somebody else holds the name, or votes were split. **Wait**, or do something else.
    Contended,
    /// The time the caller gave ended while others held the name, or while earlier callers of this
    /// process were asking for it. **Wait longer**, or do something else.
    Timeout,
    /// So many nodes cannot vote that nobody can tell who holds the name. **Alert**: the nodes need
    /// help.
    Unavailable,
    /// The lock was held and is not any more. **Stop** what it protected.
    Lost,
    /// Something that was asked for makes no sense; trying again does not help. **Fix** the call or
    /// the settings.
    Config,
    /// The quorum was shut down.
    Closed,
}

/// What one node said.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeReport {
    /// The node's address, without user and password.
    pub node: Arc<str>,
    /// What it comes to, for programs.
    pub cause: NodeCause,
    /// What it said, or what kept it from saying anything, for people.
    pub said: String,
}

impl NodeReport {
    pub(crate) fn new(node: &Arc<str>, cause: NodeCause, said: impl Into<String>) -> Self {
        Self { node: node.clone(), cause, said: said.into() }
    }
}

/// What a node's answer comes to, by what may be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NodeCause {
    /// It did what it was asked, or nothing keeps it from that.
    Agreed,
    /// Somebody else holds the name there, or may claim it first. **Wait.**
    Held,
    /// It knows of a later grant of the name, or of none to this client.
    Outdated,
    /// It has not answered, or the connection ended before the answer: it has done it or not.
    Silent,
    /// There is no connection. **Look** whether it runs and can be reached.
    Down,
    /// It may have forgotten who holds what, or this client's list is not in force there yet.
    /// **Wait:** that ends by itself.
    Quarantined,
    /// Another list of nodes is in force there, or on a node of the same list. **Read** which: give
    /// all clients one list, or stop those with the wrong one.
    OtherList,
    /// Clients reach two servers by its name, so that no vote of it counts. **Stop** the server that is
    /// not the node's.
    Twins,
    /// It cannot now, and may later: it is overloaded, loads its data, has no memory left or cannot
    /// persist.
    Busy,
    /// It answered with an error, and would again: a right is missing, or another key is in the
    /// way. **Mend** it.
    Rejected,
    /// It must not take part: a replica, a cluster, or the same server as another node. **Fix** the
    /// list.
    Unfit,
}

/// A name that somebody else held.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conflict {
    /// The name, as it was given.
    pub name: Arc<str>,
    /// Who held it: `host/pid/uuid/number`.
    pub holder: String,
    /// For how long still, unless it is renewed.
    pub left: Option<Duration>,
}

/// Why something could not be done. Opaque but for its [`kind`](Error::kind), and what each
/// [node](Error::nodes) said. Cheap to clone, for all who wait for one result.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    nodes: Vec<NodeReport>,
    /// Who holds the name and may say something of itself.
    holder: Option<Arc<str>>,
    /// What that one says.
    says: Option<String>,
    conflicts: Vec<Conflict>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// There is no Tokio runtime to wait on.
pub(crate) fn no_runtime() -> Error {
    Error::config(
        "there is no Tokio runtime here; call this within one that has time and I/O enabled, as in #[tokio::main]",
    )
}

/// The runtime that the quorum was connected on has ended.
pub(crate) fn runtime_ended() -> Error {
    Error::config(
        "this quorum was connected on a runtime that has ended; connect once per runtime, or use quorumlock::blocking",
    )
}

/// What most functions here return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        let (nodes, conflicts) = (Vec::new(), Vec::new());
        Self(Arc::new(Inner { kind, message, nodes, holder: None, says: None, conflicts, source: None }))
    }

    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Config, message)
    }

    pub(crate) fn closed() -> Self {
        Self::new(ErrorKind::Closed, "the quorum was shut down; connect a new one")
    }

    pub(crate) fn with_nodes(mut self, nodes: Vec<NodeReport>) -> Self {
        Arc::make_mut(&mut self.0).nodes = nodes;
        self
    }

    pub(crate) fn with_conflicts(mut self, conflicts: Vec<Conflict>) -> Self {
        Arc::make_mut(&mut self.0).conflicts = conflicts;
        self
    }

    pub(crate) fn with_source(mut self, source: Option<Arc<dyn StdError + Send + Sync>>) -> Self {
        Arc::make_mut(&mut self.0).source = source;
        self
    }

    pub(crate) fn with_holder(mut self, holder: Option<Arc<str>>) -> Self {
        Arc::make_mut(&mut self.0).holder = holder;
        self
    }

    /// Who holds the name, where that one may say something of itself.
    pub(crate) fn holder(&self) -> Option<&str> {
        self.0.holder.as_deref()
    }

    /// The same with what the holder says of itself.
    pub(crate) fn with_words(mut self, says: &str, since: &str) -> Self {
        let inner = Arc::make_mut(&mut self.0);
        inner.message.push_str(&format!("; its holder says {says:?}, and has held it for {since}"));
        inner.says = Some(says.to_owned());
        self
    }

    /// What the holder says of itself ([`QuorumLock::describe`](crate::QuorumLock::describe)),
    /// where somebody held the name until the time ended, and a node told; of a leader's value the
    /// first 256 bytes.
    #[must_use]
    pub fn holder_says(&self) -> Option<&str> {
        self.0.says.as_deref()
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What each node said, where nodes were asked.
    #[must_use]
    pub fn nodes(&self) -> &[NodeReport] {
        &self.0.nodes
    }

    /// Which of several names others held, and who, as far as a quorum of nodes said so in time:
    /// told by [`Session::try_lock`](crate::Session::try_lock),
    /// [`Session::lock`](crate::Session::lock), and
    /// [`QuorumLock::acquire`](crate::QuorumLock::acquire) of several names
    /// ([`lock_all`](crate::Quorum::lock_all)).
    #[must_use]
    pub fn conflicts(&self) -> &[Conflict] {
        &self.0.conflicts
    }

    /// Somebody else holds the name, or votes were split.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        self.kind() == ErrorKind::Contended
    }

    /// The time the caller gave ended while others held the name.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        self.kind() == ErrorKind::Timeout
    }

    /// So many nodes cannot vote that nobody can tell who holds the name.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        self.kind() == ErrorKind::Unavailable
    }

    /// The lock was held and is not any more.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.kind() == ErrorKind::Lost
    }

    /// Something that was asked for makes no sense.
    #[must_use]
    pub fn is_config(&self) -> bool {
        self.kind() == ErrorKind::Config
    }

    /// The quorum was shut down.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.kind() == ErrorKind::Closed
    }
}

/// Another list takes some lines: it is described once, in the message or at the first node.
fn told_once<'a>(message: &str, nodes: &'a [NodeReport], index: usize) -> Cow<'a, str> {
    let NodeReport { cause, said, .. } = &nodes[index];
    let why = said.split_once(": ").map_or(&**said, |(_, why)| why);
    let is_told = || message.contains(why) || nodes[..index].iter().any(|before| before.said == *said);
    if *cause == NodeCause::OtherList && is_told() { "another list, as above".into() } else { said.as_str().into() }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        for (index, report) in self.0.nodes.iter().enumerate() {
            let said = told_once(&self.0.message, &self.0.nodes, index);
            write!(f, "{} {}: {said}", if index == 0 { ":" } else { ";" }, report.node)?;
        }
        Ok(())
    }
}

/// For people too: it is what `main` prints of an error that it returns.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.kind())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_what_each_node_said() {
        let report = |node: &str, said: &str| NodeReport::new(&node.into(), NodeCause::Down, said);
        let error = Error::new(ErrorKind::Unavailable, "no quorum")
            .with_nodes(vec![report("redis://eu:6379", "granted"), report("redis://us:6379", "down")]);
        assert_eq!(error.to_string(), "no quorum: redis://eu:6379: granted; redis://us:6379: down");
        assert!(error.is_unavailable() && !error.is_timeout());
        assert_eq!(format!("{error:?}"), format!("Unavailable: {error}"));
    }

    #[test]
    fn a_clone_says_the_same_and_changes_nothing_of_its_original() {
        let error = Error::new(ErrorKind::Timeout, "too late");
        let report = NodeReport::new(&"a".into(), NodeCause::Down, "down");
        let clone = error.clone().with_nodes(vec![report]);
        assert_eq!((error.to_string(), clone.to_string()), ("too late".to_owned(), "too late: a: down".to_owned()));
        assert_eq!(clone.kind(), error.kind());
    }

    #[test]
    fn another_list_is_described_once() {
        use NodeCause::{Down, OtherList};
        let said = [
            (OtherList, "other list: it is x"),
            (Down, "down"),
            (OtherList, "other list: it is x"),
            (OtherList, "other list: it is y"),
            (Down, "down"),
        ];
        let report = |(node, (cause, said)): (&str, (NodeCause, &str))| NodeReport::new(&node.into(), cause, said);
        let nodes: Vec<_> = ["a", "b", "c", "d", "e"].into_iter().zip(said).map(report).collect();
        let error = |message: &str| Error::new(ErrorKind::Unavailable, message).with_nodes(Vec::clone(&nodes));
        let told =
            "no quorum: a: other list: it is x; b: down; c: another list, as above; d: other list: it is y; e: down";
        assert_eq!(error("no quorum").to_string(), told);
        let told =
            "it is y: a: other list: it is x; b: down; c: another list, as above; d: another list, as above; e: down";
        assert_eq!(error("it is y").to_string(), told);
        assert_eq!(error("it is y").nodes()[3].said, "other list: it is y", "each node's own report is whole");
    }
}
