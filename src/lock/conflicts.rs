//! Adds to an error which of its names are held, and by which holders.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use super::inner::Inner;
use crate::error::{Conflict, Error};
use crate::node::Name;
use crate::protocol::holders;
use crate::words::left;

impl Inner {
    /// Adds the held names to the error, with the holders that nodes report within `patience`.
    pub(super) async fn explained(&self, names: &Arc<[Name]>, error: Error, patience: Duration) -> Error {
        let conflicts = holders(&self.leases.voters, names, patience).await;
        if conflicts.is_empty() {
            return error;
        }
        let error = with_more(error, &told(&conflicts));
        let given = conflicts.into_iter().filter_map(|conflict| self.as_given(conflict));
        error.with_conflicts(given.collect())
    }

    /// The conflict, with its name without the key format, as callers write it. `None` if the name
    /// does not fit the key format.
    fn as_given(&self, conflict: Conflict) -> Option<Conflict> {
        Some(Conflict { name: self.settings.told(&conflict.name)?, ..conflict })
    }
}

/// The same error, with `more` at the end of its message.
fn with_more(error: Error, more: &str) -> Error {
    let (kind, nodes, holder) = (error.kind(), error.nodes().to_vec(), error.holder().map(Arc::from));
    // `Display` prints the nodes after the message, so omit the nodes here.
    let message = format!("{}; {more}", error.clone().with_nodes(Vec::new()));
    // If the old error has a source, make the old error the source of the new error, to keep that
    // source.
    let below = error.source().is_some().then(|| Arc::new(error) as Arc<dyn StdError + Send + Sync>);
    Error::new(kind, message).with_nodes(nodes).with_holder(holder).with_source(below)
}

/// How many conflicts a message names.
const TOLD: usize = 3;

fn told(conflicts: &[Conflict]) -> String {
    let one = |conflict: &Conflict| {
        let Conflict { name, holder, left: lasts, .. } = conflict;
        let lasts = lasts.map_or_else(String::new, |lasts| format!(" for {} more", left(lasts)));
        format!("{name:?} is held by {holder}{lasts}")
    };
    let first = conflicts.iter().take(TOLD).map(one).collect::<Vec<_>>().join(", ");
    match conflicts.len().saturating_sub(TOLD) {
        0 => first,
        more => format!("{first}, and {more} more are held"),
    }
}
