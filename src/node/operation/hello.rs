//! What a client says hello with.

use std::sync::Arc;

pub use crate::rules::list::{Intent, OldAtOnce};

use crate::rules::list::List;

/// Makes, reads and writes the node's record, and shows which list of nodes is in force there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// What may be written.
    pub intent: Intent,
    /// The id of the record, 16 hex digits, if it is made now, or its process is another one.
    pub new: Arc<str>,
    /// The process that the client sees by INFO on this connection; empty if it is not known yet.
    /// Without it no record is made.
    pub process: Arc<str>,
    /// The client's list.
    pub list: Arc<List>,
    /// Why a record that is made now is old at once. The node itself looks whether nobody can have used
    /// it before.
    pub old: Option<OldAtOnce>,
    /// An id that the client knew of this node, or `held`: it holds a lock.
    pub knew: Option<Arc<str>>,
    /// What the node's ballots are raised to, if it is not synced. Beside `old` it counts only if this
    /// hello makes a record that is old.
    pub sync: Option<u64>,
    /// With which id of its record the client sees each node, by the node's name.
    pub seen: Vec<(Arc<str>, Arc<str>)>,
}
