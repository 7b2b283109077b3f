//! Which servers vote, and changing that by hand.

use super::quorum::Quorum;
use crate::error::Result;
use crate::lock::{Members, Reset, Retired};

impl Quorum {
    /// Asks all nodes which servers vote: see [`Quorum::members`](crate::Quorum::members).
    ///
    /// # Errors
    /// `Config` within a Tokio runtime, `Closed` after a shutdown. Nodes that do not answer are
    /// part of the result.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> quorumlock::Result<()> {
    /// let members = quorumlock::blocking::Quorum::in_memory(3)?.members()?;
    /// assert!(members.nodes.iter().all(|node| node.roster.is_ok()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn members(&self) -> Result<Members> {
        self.0.wait(self.0.quorum.members())?
    }

    /// Retires a node, by its address: see [`Quorum::retire`](crate::Quorum::retire).
    ///
    /// # Errors
    /// As [`Quorum::retire`](crate::Quorum::retire), and `Config` within a Tokio runtime; then
    /// nothing was sent.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> quorumlock::Result<()> {
    /// let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
    /// quorum.retire("memory://2")?;
    /// assert!(quorum.reset("memory://2")?.was.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn retire(&self, node: &str) -> Result<Retired> {
        self.0.wait(self.0.quorum.retire(node))?
    }

    /// Takes the retirement of a node back, by its address: see
    /// [`Quorum::reset`](crate::Quorum::reset).
    ///
    /// # Errors
    /// As [`retire`](Self::retire).
    pub fn reset(&self, node: &str) -> Result<Reset> {
        self.0.wait(self.0.quorum.reset(node))?
    }

    /// Teaches all nodes of `pupils` which tokens the nodes of this quorum have dealt: see
    /// [`Quorum::teach`](crate::Quorum::teach). **All clients of this one must have stopped.**
    ///
    /// # Errors
    /// As [`Quorum::teach`](crate::Quorum::teach), and `Config` within a Tokio runtime; then
    /// nothing was sent.
    pub fn teach(&self, pupils: &Self) -> Result<u64> {
        self.0.wait(self.0.quorum.teach(&pupils.0.quorum))?
    }
}
