//! All names that are held.

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

/// About how many names nodes are asked at once: not more than they have room for, beside what others
/// ask.
const SLICE: usize = 256;

/// The names that are held, page by page: see [`Quorum::held_names`].
pub struct HeldNames {
    inner: Arc<Inner>,
    pages: Pages,
    /// Nodes tell the same names, and a node may tell one twice.
    seen: BTreeSet<Name>,
    /// Of these no quorum has said anything, and nobody that they are held.
    missed: BTreeSet<Name>,
}

impl Quorum {
    /// Looks for all names that anybody holds, under the key prefix of this quorum. With a
    /// [`key_format`](crate::QuorumBuilder::key_format) they are told as callers name them, as
    /// [`inspect`](Self::inspect) takes them, and those of other formats are left out.
    ///
    /// Nodes go through all their keys for that, a thousand at a time (`SCAN`), so that no other
    /// caller waits for more than a millisecond or two. For people who look what goes on; not to
    /// decide anything by.
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
    /// The next names, in their order, and what the nodes say of them; `None` after the last. A
    /// page may be empty. A name that is held all the while is told once, and one that is acquired
    /// or released meanwhile at most once.
    ///
    /// Each page takes up to a round timeout, where nodes hang, and another for each 256 names in it.
    ///
    /// # Errors
    /// `Config` outside of a Tokio runtime, `Closed` after a shutdown. Nodes that do not answer are
    /// [`unread`](Self::unread) from then on, and names about which too few answer are
    /// [`missed`](Self::missed).
    ///
    /// # Cancel safety
    /// Safe: what was not returned is looked for again.
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
        // What a format has after the names may have put them in another order.
        page.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(Some(page))
    }

    /// What nodes said of a name, where any says that it is held.
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

    /// About how many keys the nodes have looked at so far, all together.
    #[must_use]
    pub const fn looked_at(&self) -> u64 {
        self.pages.looked_at()
    }

    /// The nodes that did not tell all their names, and why not.
    #[must_use]
    pub fn unread(&self) -> Vec<NodeReport> {
        self.pages.unread()
    }

    /// The names that some node told, and about which no quorum of nodes answered when asked who holds
    /// them: they may be held.
    #[must_use]
    pub fn missed(&self) -> Vec<String> {
        let told = self.missed.iter().filter_map(|name| self.inner.settings.told(name.text()));
        told.map(|text| text.to_string()).collect()
    }

    /// Whether every name that was held from beginning to end was found, once there is no further
    /// page: so few nodes are unread that one of each quorum was read, and no name was missed.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unread().len() < self.inner.leases.voters.size.quorum() as usize && self.missed.is_empty()
    }
}

/// Whether that tells who holds the name, also that its key is no lock's: another program's.
fn tells(said: &Result<Inspection, Fault>) -> bool {
    said.as_ref()
        .err()
        .is_none_or(|fault| fault.kind() == FaultKind::Rejected && !fault.to_string().starts_with("NOPERM"))
}

/// What the nodes say of each of these names.
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
