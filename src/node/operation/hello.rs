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
    /// A new id, 16 hex digits. The record gets this id if this hello makes it, or makes it young
    /// again.
    pub new: Arc<str>,
    /// The server's process by INFO on this connection; empty if unknown. A hello without a process
    /// makes no record.
    pub process: Arc<str>,
    /// The client's list.
    pub list: Arc<List>,
    /// If this hello makes the record: why the record counts as old at once; `None` if it does not.
    /// With `FirstUse`, the record counts as old only if the node finds that it cannot have
    /// forgotten a lock.
    pub old: Option<OldAtOnce>,
    /// The id of the last record that this client saw on the node. If this client never saw a
    /// record there: `held` if it holds a lock, else `None`.
    pub knew: Option<Arc<str>>,
    /// The ballot to which a node that is not synced raises `floor`, `mid` and `high`. The node
    /// does so if this hello makes a record that counts as old at once. It also does so if the
    /// hello's list is in force, and `knew` is the record's id.
    pub sync: Option<u64>,
    /// The records that this client has read lately, on all nodes: each with the node's name and
    /// the record's id.
    pub seen: Vec<(Arc<str>, Arc<str>)>,
}
