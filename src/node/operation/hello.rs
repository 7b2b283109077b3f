//! The arguments of hello.

use std::sync::Arc;

pub use crate::rules::list::{Intent, OldAtOnce};

use crate::rules::list::List;

/// Makes, reads and writes the node's record, and returns which list of nodes is in force there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// What the node may write.
    pub intent: Intent,
    /// The record's id, 16 hex digits, if this hello makes the record or doubts it.
    pub new: Arc<str>,
    /// The server process that INFO named on this connection; empty if unknown. Without it the node
    /// makes no record.
    pub process: Arc<str>,
    /// The client's list.
    pub list: Arc<List>,
    /// Why a record that is made now may vote at once. For `FirstUse`, the node itself checks that
    /// nobody used it before.
    pub old: Option<OldAtOnce>,
    /// The record's id that this client knew, or `held` if it knew none and holds a lock.
    pub knew: Option<Arc<str>>,
    /// Raises `floor`, `mid` and `high` to this ballot, unless the node is synced. Counts only if
    /// this hello makes an old record, or if its list is in force and `knew` is the record's id.
    pub sync: Option<u64>,
    /// For each node's name, the id of the record that the client sees there.
    pub seen: Vec<(Arc<str>, Arc<str>)>,
}
