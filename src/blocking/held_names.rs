//! All names that are held.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::quorum::Quorum;
use super::worker::Worker;
use crate::error::Result;
use crate::lock::HeldNames as Names;
use crate::protocol::Inspected;

/// The names that are held, page by page: see [`Quorum::held_names`].
///
/// Each page is what [`HeldNames::next`](crate::HeldNames::next) returns. While they are read and
/// after that, it tells from [`quorumlock::HeldNames`](crate::HeldNames) what was
/// [`unread`](crate::HeldNames::unread) or [`missed`](crate::HeldNames::missed), and whether it
/// [`is_complete`](crate::HeldNames::is_complete).
///
/// An error ends it: `Config` within a Tokio runtime, `Closed` after a shutdown.
pub struct HeldNames {
    names: Names,
    worker: Arc<Worker>,
    over: bool,
}

impl Quorum {
    /// Looks for all names that anybody holds: see
    /// [`Quorum::held_names`](crate::Quorum::held_names).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> quorumlock::Result<()> {
    /// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
    /// # let _guard = quorum.lock("orders/42").acquire(std::time::Duration::from_secs(5))?;
    /// let mut names = quorum.held_names();
    /// for page in &mut names {
    ///     for (name, inspected) in page? {
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
        HeldNames { names: self.0.quorum.held_names(), worker: self.0.clone(), over: false }
    }
}

impl Iterator for HeldNames {
    type Item = Result<Vec<(String, Inspected)>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let page = self.worker.wait(self.names.next()).and_then(|page| page).transpose();
        self.over = !matches!(page, Some(Ok(_)));
        page
    }
}

impl Deref for HeldNames {
    type Target = Names;

    fn deref(&self) -> &Names {
        &self.names
    }
}

impl fmt::Debug for HeldNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.names, f)
    }
}
