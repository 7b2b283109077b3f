//! Taking a name away without making two holders: the hold is not renewed any more.

use std::sync::Arc;
use std::time::Duration;

use super::round::{Count, Round};
use super::voters::Voters;
use crate::error::NodeReport;
use crate::host::before;
use crate::node::{Operation, Outcome, Reply};
use crate::quorum::tally::Size;

/// What a quorum of nodes said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Revocation {
    /// For how long the owner may hold it still, if it does.
    pub(crate) left: Option<Duration>,
    /// Who else holds it.
    pub(crate) others: Vec<String>,
}

/// Asks all nodes, and waits for a quorum of them for `patience`. What each said if too few have done it.
///
/// A quorum is enough: these nodes neither renew the hold nor take it again, and without them no quorum can.
/// The next holder may rest on these nodes alone, so what they say is how long it takes. And whoever else got the name
/// by a lower ballot has it from a quorum, so one of them at least names that one; others that are
/// named came later.
pub(crate) async fn revoke(
    voters: &Arc<Voters>,
    revoke: Operation,
    patience: Duration,
) -> Result<Revocation, Vec<NodeReport>> {
    let round = Round::new(voters.nodes.len(), revoke.ballot, Revoking::new(voters.size));
    let until = voters.host.now() + patience;
    voters.ask(voters.everyone(), &Arc::new(revoke), &round);
    before(&voters.host, until, round.verdict()).await.flatten().ok_or_else(|| round.reports(voters, None))
}

#[derive(Clone, Debug)]
struct Revoking {
    size: Size,
    done: u32,
    failed: u32,
    so_far: Revocation,
}

impl Revoking {
    fn new(size: Size) -> Self {
        Self { size, done: 0, failed: 0, so_far: Revocation::default() }
    }
}

impl Count for Revoking {
    type Verdict = Option<Revocation>;

    fn count(&mut self, _: usize, reply: &Reply, _: u64) {
        if let Ok(Outcome::Revoked { held, left, other }) = reply {
            self.done += 1;
            self.so_far.left = self.so_far.left.max((*held > 0).then_some(*left));
            self.so_far.others.extend(other.clone());
        } else {
            self.failed += 1;
        }
    }

    fn verdict(&self) -> Option<Option<Revocation>> {
        if self.done >= self.size.quorum() {
            return Some(Some(self.so_far.clone()));
        }
        (self.failed >= self.size.blocking()).then_some(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{Fault, FaultKind};

    const SECOND: Duration = Duration::from_secs(1);

    fn told(replies: &[Reply]) -> Option<Option<Revocation>> {
        let mut revoking = Revoking::new(Size::of(3));
        replies.iter().for_each(|reply| revoking.count(0, reply, 0));
        revoking.verdict()
    }

    fn left(seconds: u32) -> Reply {
        Ok(Outcome::Revoked { held: 1, left: SECOND * seconds, other: None })
    }

    #[test]
    fn a_quorum_tells_how_long_it_takes_at_most() {
        assert_eq!(told(&[left(3)]), None);
        assert_eq!(told(&[left(3), left(2)]), Some(Some(Revocation { left: Some(3 * SECOND), others: vec![] })));
        let free = Ok(Outcome::Revoked { held: 0, left: Duration::ZERO, other: Some("x".into()) });
        assert_eq!(
            told(&[free.clone(), free]),
            Some(Some(Revocation { left: None, others: vec!["x".into(), "x".into()] }))
        );
    }

    #[test]
    fn without_a_quorum_nothing_is_taken_away() {
        let silent = || Err(Fault::new(FaultKind::Timeout, "no answer in time"));
        assert_eq!(told(&[left(3), silent()]), None);
        assert_eq!(told(&[left(3), silent(), silent()]), Some(None));
    }
}
