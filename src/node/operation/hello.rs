//! The arguments of hello.

use std::sync::Arc;

pub use crate::rules::list::{Intent, OldAtOnce};

use crate::rules::list::List;

/// Makes, reads and writes the node's record, and returns which list of nodes is in force on the
/// node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// What the node may write.
    pub intent: Intent,
    /// A new id, 16 hex digits. The node uses it if this hello makes the record or raises a doubt.
    pub new: Arc<str>,
    /// The server process that INFO named on this connection; empty if unknown. Without a process
    /// the node makes no record.
    pub process: Arc<str>,
    /// The client's list.
    pub list: Arc<List>,
    /// If this hello makes the record: why the node may vote at once. For `FirstUse`, the node
    /// checks for itself that no client used the node before.
    pub old: Option<OldAtOnce>,
    /// The id of the last record that this client saw; `held` if this client saw no record and
    /// holds a lock.
    pub knew: Option<Arc<str>>,
    /// The node raises `floor`, `mid` and `high` to this ballot, unless it is already synced. It
    /// does so only if this hello makes a record that counts as old at once, or if the hello's list
    /// is in force and `knew` is the record's id.
    pub sync: Option<u64>,
    /// For each node's name, the id of the record that the client sees on that node.
    pub seen: Vec<(Arc<str>, Arc<str>)>,
}
