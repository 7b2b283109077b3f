//! The one error type: what went wrong, what each node replied, and what to do next.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The kind of an error. Each kind says what the caller should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another owner holds the name, no caller got a quorum, or too many callers of this process
    /// wait for the name ([`max_callers`](crate::QuorumBuilder::max_callers)). **Wait**, or do
    /// something else.
    Contended,
    /// The caller's timeout (or its [`max_rounds`](crate::LockOptions::max_rounds)) ended while
    /// other owners held the name, or while earlier callers of this process tried to acquire the
    /// name. **Wait longer**, or do something else.
    Timeout,
    /// No quorum of nodes has decided: too few nodes vote or answered in time, or the votes stayed
    /// split. **Alert** an operator.
    Unavailable,
    /// The caller has lost the lock. **Stop** the work that the lock protected.
    Lost,
    /// A call or setting is wrong, and another try does not help. **Fix** the call or the setting.
    Config,
    /// The quorum was shut down.
    Closed,
}

/// What one node replied.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeReport {
    /// The node's address, without user and password.
    pub node: Arc<str>,
    /// The kind of the reply, for programs.
    pub cause: NodeCause,
    /// The reply as a text for people, or why there is no reply.
    pub said: String,
}

impl NodeReport {
    pub(crate) fn new(node: &Arc<str>, cause: NodeCause, said: impl Into<String>) -> Self {
        Self { node: node.clone(), cause, said: said.into() }
    }
}

/// The kind of a node's reply. Each kind says what you can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NodeCause {
    /// The node carried out the request. In an error of a call that sent no request: the node can
    /// vote.
    Agreed,
    /// Another owner holds the name on the node, or another waiter comes first. **Wait.**
    Held,
    /// The node has seen a claim on the name with a higher ballot (the number of a claim), or did
    /// not hold the name for this client.
    Outdated,
    /// The node has not replied, or its connection ended before the reply came. The node may have
    /// carried out the request.
    Silent,
    /// There is no connection to the node. **Check** whether the node runs and can be reached.
    Down,
    /// The node may have forgotten locks, or this client's list is not in force on the node yet.
    /// **Wait:** this state ends by itself.
    Quarantined,
    /// Another list of nodes is in force on this node, or on another node of the client's list.
    /// **Compare** that list with the client's own. Give all clients one list, or stop the clients
    /// that have the wrong list.
    OtherList,
    /// Two servers answer under the node's name, so no vote of the node counts. **Stop** the server
    /// that should not have this name.
    Twins,
    /// The node cannot carry out the request now, but may be able to soon. It is overloaded, loads
    /// its data, has no memory left, or cannot persist its data.
    Busy,
    /// The node replied with an error, and another try would not help. For example, a permission is
    /// missing, or another program uses the key. **Repair** the node.
    Rejected,
    /// The server is a replica, is in cluster mode, or is also configured as another node. **Fix**
    /// the list of nodes.
    Unfit,
}

/// A name that another owner held.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conflict {
    /// The name, as the caller gave it.
    pub name: Arc<str>,
    /// The owner that held the name: `host/pid/uuid/number`.
    pub holder: String,
    /// How much longer the hold lasts without a renewal. `None` if the hold never ends.
    pub left: Option<Duration>,
}

/// The error of this library. [`kind`](Error::kind) says what to do, and [`nodes`](Error::nodes)
/// what each node replied. An error is cheap to clone, so several waiters can share one result.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    nodes: Vec<NodeReport>,
    /// The holder whose note the caller may fetch. `None` if nodes named no holder with a note.
    holder: Option<Arc<str>>,
    /// The holder's note.
    says: Option<String>,
    conflicts: Vec<Conflict>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The error for a call outside of a Tokio runtime.
pub(crate) fn no_runtime() -> Error {
    Error::config(
        "there is no Tokio runtime here; call this within one that has time and I/O enabled, as in #[tokio::main]",
    )
}

/// The error if the runtime on which the quorum was connected has ended.
pub(crate) fn runtime_ended() -> Error {
    Error::config(
        "this quorum was connected on a runtime that has ended; connect once per runtime, or use quorumlock::blocking",
    )
}

/// The result of most functions in this crate.
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

    pub(crate) fn holder(&self) -> Option<&str> {
        self.0.holder.as_deref()
    }

    /// Adds the holder's note to the error.
    pub(crate) fn with_words(mut self, says: &str, since: &str) -> Self {
        let inner = Arc::make_mut(&mut self.0);
        inner.message.push_str(&format!("; its holder says {says:?}, and has held it for {since}"));
        inner.says = Some(says.to_owned());
        self
    }

    /// The holder's note ([`QuorumLock::describe`](crate::QuorumLock::describe)), if the name
    /// stayed held until the caller's timeout ended, and a node returned the note. If the holder is
    /// a leader, this text is the leader's value, cut to 256 bytes at most.
    #[must_use]
    pub fn holder_says(&self) -> Option<&str> {
        self.0.says.as_deref()
    }

    /// The kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What each node replied, if nodes were asked.
    #[must_use]
    pub fn nodes(&self) -> &[NodeReport] {
        &self.0.nodes
    }

    /// The requested names that other owners held, with these owners. A name is missing if no node
    /// reported its holder in time. Only errors of [`Session::try_lock`](crate::Session::try_lock),
    /// of [`Session::lock`](crate::Session::lock), and of
    /// [`QuorumLock::acquire`](crate::QuorumLock::acquire) with several names
    /// ([`lock_all`](crate::Quorum::lock_all)) have conflicts.
    #[must_use]
    pub fn conflicts(&self) -> &[Conflict] {
        &self.0.conflicts
    }

    /// Whether the kind is [`Contended`](ErrorKind::Contended).
    #[must_use]
    pub fn is_contended(&self) -> bool {
        self.kind() == ErrorKind::Contended
    }

    /// Whether the kind is [`Timeout`](ErrorKind::Timeout).
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        self.kind() == ErrorKind::Timeout
    }

    /// Whether the kind is [`Unavailable`](ErrorKind::Unavailable).
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        self.kind() == ErrorKind::Unavailable
    }

    /// Whether the kind is [`Lost`](ErrorKind::Lost).
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.kind() == ErrorKind::Lost
    }

    /// Whether the kind is [`Config`](ErrorKind::Config).
    #[must_use]
    pub fn is_config(&self) -> bool {
        self.kind() == ErrorKind::Config
    }

    /// Whether the kind is [`Closed`](ErrorKind::Closed).
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.kind() == ErrorKind::Closed
    }
}

/// The text for one node. A text about another list is long, so an error shows it only once.
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

/// This text is for people too: if `main` returns an error, the program prints the error with
/// `Debug`.
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
    fn error_names_each_node_with_its_report() {
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
