//! Lists all names that are held.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;

use super::inner::Inner;
use super::quorum::Quorum;
use crate::error::{NodeReport, Result};
use crate::node::{Fault, FaultKind, Inspection, Name};
use crate::protocol::{Inspected, Pages, Survey, Voters};

/// The most names about which this client asks the nodes at once. The queues of requests to nodes
/// must keep room for other callers.
const SLICE: usize = 256;

/// The names that are held, page by page: see [`Quorum::held_names`].
pub struct HeldNames {
    inner: Arc<Inner>,
    pages: Pages,
    /// Names whose reports were read, to skip when listed again: several nodes list the same name,
    /// and one node may list a name twice.
    seen: BTreeSet<Name>,
    /// Names that no node reported as held, and about which fewer nodes than a quorum answered.
    missed: BTreeSet<Name>,
}

impl Quorum {
    /// Lists all held names under the key prefix of this quorum. With a
    /// [`key_format`](crate::QuorumBuilder::key_format), the list has the names without the format,
    /// as [`inspect`](Self::inspect) takes them, and leaves out names of other formats.
    ///
    /// To list the names, each node goes through all its keys (`SCAN`), a thousand keys at a time,
    /// so that other callers wait for a millisecond or two at most. Holders may change during the
    /// listing, so a program must not base decisions on the list.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> quorumlock::Result<()> {
    /// # let quorum = quorumlock::Quorum::in_memory(3)?;
    /// # use std::time::Duration;
    /// # let _guard = quorum.lock("orders/42").acquire(Duration::from_secs(5)).await?;
    /// let mut names = quorum.held_names();
    /// while let Some(page) = names.next().await? {
    ///     for (name, inspected) in page {
    ///         println!("{name} is held by {:?}", inspected.holder());
    /// #       assert_eq!(name, "orders/42");
    ///     }
    /// }
    /// assert!(names.is_complete());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn held_names(&self) -> HeldNames {
        let nodes = self.0.leases.voters.nodes.len();
        let (seen, missed) = (BTreeSet::new(), BTreeSet::new());
        HeldNames { inner: self.0.clone(), pages: Pages::begin(nodes), seen, missed }
    }
}

impl HeldNames {
    /// The next page of names, sorted, with the nodes' reports about each name. `None` after the
    /// last page. A page may be empty. A name that is held during the whole listing is returned
    /// once. A name that is held only for a part of this time may be missing.
    ///
    /// If nodes hang, a page takes up to one round timeout, and another one for every 256 of its
    /// names.
    ///
    /// # Errors
    /// `Config` outside of a Tokio runtime, `Closed` after a shutdown. A node that does not answer
    /// is no error: [`unread`](Self::unread) lists these nodes, and [`missed`](Self::missed) lists
    /// the names about which too few nodes answered.
    ///
    /// # Cancel safety
    /// Safe: the next call returns the page that a cancelled call did not return.
    pub async fn next(&mut self) -> Result<Option<Vec<(String, Inspected)>>> {
        self.inner.usable()?;
        let (voters, patience) = (&self.inner.leases.voters, self.inner.rules.round_timeout);
        let Some(turned) = self.pages.turn(voters, patience).await else { return Ok(None) };
        let ours = |name: &&Name| self.inner.settings.told(name.text()).is_some();
        let new: Vec<_> = turned.names.difference(&self.seen).filter(ours).cloned().collect();
        let looked = look(voters, &new, patience).await;
        self.pages.turned(turned);
        let held = new.into_iter().zip(looked).filter_map(|(name, survey)| self.read(name, &survey));
        let mut page: Vec<_> = held.collect();
        // `names` is in the order of the names with the key format. Without the format, their order
        // may differ.
        page.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(Some(page))
    }

    /// The nodes' reports about a name, if any node reports it as held.
    fn read(&mut self, name: Name, survey: &Survey) -> Option<(String, Inspected)> {
        let voters = &self.inner.leases.voters;
        let is_held = survey.heard().any(|said| said.holder.is_some());
        if !is_held && survey.said.iter().filter(|said| tells(said)).count() < voters.size.quorum() as usize {
            self.missed.insert(name);
            return None;
        }
        let text = self.inner.settings.told(name.text()).map(|text| text.to_string());
        let told = text.filter(|_| is_held).map(|text| (text, Inspected::new(voters, survey)));
        self.missed.remove(&name);
        self.seen.insert(name);
        told
    }

    /// The approximate number of keys that all nodes together have gone through so far.
    #[must_use]
    pub const fn looked_at(&self) -> u64 {
        self.pages.looked_at
    }

    /// The nodes that did not list all their keys, each with the reason.
    #[must_use]
    pub fn unread(&self) -> Vec<NodeReport> {
        self.pages.unread()
    }

    /// Names that a node listed, but about which fewer nodes than a quorum answered. These names
    /// may be held.
    #[must_use]
    pub fn missed(&self) -> Vec<String> {
        let told = self.missed.iter().filter_map(|name| self.inner.settings.told(name.text()));
        told.map(|text| text.to_string()).collect()
    }

    /// Whether the listing returned every name that was held during the whole listing. Call this
    /// after the last page. A held name is on a quorum of nodes. So at least one node of each
    /// quorum must have listed all its names, and no name may be [`missed`](Self::missed).
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unread().len() < self.inner.leases.voters.size.quorum() as usize && self.missed.is_empty()
    }
}

/// Whether a reply shows which owner holds the name, or that the name is free. A rejection shows
/// that the name is free, because the key belongs to another program. A missing right (`NOPERM`)
/// shows nothing.
fn tells(said: &Result<Inspection, Fault>) -> bool {
    said.as_ref()
        .err()
        .is_none_or(|fault| fault.kind() == FaultKind::Rejected && !fault.to_string().starts_with("NOPERM"))
}

/// The nodes' reports about each of these names.
async fn look(voters: &Arc<Voters>, names: &[Name], patience: Duration) -> Vec<Survey> {
    let mut looked = Vec::with_capacity(names.len());
    for slice in names.chunks(SLICE) {
        looked.extend(join_all(slice.iter().map(|name| Survey::of(voters, name, patience))).await);
    }
    looked
}

impl fmt::Debug for HeldNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldNames").field("looked_at", &self.looked_at()).finish_non_exhaustive()
    }
}
