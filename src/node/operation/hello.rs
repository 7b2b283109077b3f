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
    /// A new id, 16 hex digits. The record gets this id if this hello makes the record, or shows
    /// that the node may have forgotten grants.
    pub new: Arc<str>,
    /// The server's process, as INFO on this connection shows it; empty if unknown. A hello without
    /// a process makes no record.
    pub process: Arc<str>,
    /// The client's list.
    pub list: Arc<List>,
    /// Why the node may vote at once, if this hello makes the record; `None` if the node must wait.
    /// With `FirstUse`, the node itself checks that no lock can have been forgotten.
    pub old: Option<OldAtOnce>,
    /// The id of the last record that this client saw on the node. If this client never saw a
    /// record there: `held` if the client holds a lock, else `None`.
    pub knew: Option<Arc<str>>,
    /// The ballot to which a node that is not synced raises `floor`, `mid` and `high`. The node
    /// does so if this hello makes a record with which the node may vote at once. The node also
    /// does so if the hello's list is in force, and `knew` is the record's id.
    pub sync: Option<u64>,
    /// The records that this client has read lately, on all nodes: each with the node's name and
    /// the record's id.
    pub seen: Vec<(Arc<str>, Arc<str>)>,
}
