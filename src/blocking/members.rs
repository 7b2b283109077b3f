//! Which list is in force on which node, and servers that are new.

use super::quorum::Quorum;
use crate::error::Result;
use crate::lock::Members;

impl Quorum {
    /// Asks all nodes for their records: see [`Quorum::members`](crate::Quorum::members).
    ///
    /// # Errors
    /// `Config` within a Tokio runtime, `Closed` after a shutdown. Nodes that do not answer are
    /// part of the result.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> quorumlock::Result<()> {
    /// let members = quorumlock::blocking::Quorum::in_memory(3)?.members()?;
    /// assert!(members.nodes.iter().all(|node| node.record.is_ok()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn members(&self) -> Result<Members> {
        self.0.wait(self.0.quorum.members())?
    }

    /// Says that the servers of all nodes are new: see [`Quorum::init`](crate::Quorum::init).
    ///
    /// # Errors
    /// As [`Quorum::init`](crate::Quorum::init), and `Config` within a Tokio runtime; then nothing was
    /// sent.
    pub fn init(&self) -> Result<()> {
        self.0.wait(self.0.quorum.init())?
    }
}
