//! Which of several names are free, for whoever wants some of them and does not mind which.

use std::sync::Arc;
use std::time::Duration;

use super::holders::said;
use super::voters::Voters;
use crate::node::{Inspection, Name};

/// What the nodes that answered first say of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Occupied {
    /// For how long somebody holds it still at most, where so many nodes say so that a claim may
    /// not win.
    pub(crate) held: Option<Duration>,
    /// Whether somebody waits for it, or has its turn.
    pub(crate) wanted: bool,
    /// Whether it is held, and no gate of a semaphore, where so many nodes say so that no quorum is
    /// left.
    pub(crate) locked: bool,
}

/// What a quorum of nodes says of each of `names`, within `patience`; `None` where none answers.
/// What it tells is a hint: only a claim tells who holds a name.
pub(crate) async fn occupied(voters: &Arc<Voters>, names: &Arc<[Name]>, patience: Duration) -> Option<Vec<Occupied>> {
    let (quorum, blocking) = (voters.size.quorum() as usize, voters.size.blocking() as usize);
    let said = said(voters, names, patience).await;
    let spare = said.len().checked_sub(quorum)?;
    let of = |at: usize| look(said.iter().filter_map(|said| said.get(at)), spare, blocking);
    Some((0..names.len()).map(of).collect())
}

/// What nodes say of one name, of which so many more than a quorum have answered; `blocking` of
/// them leave no quorum.
fn look<'a>(said: impl Iterator<Item = &'a Inspection> + Clone, spare: usize, blocking: usize) -> Occupied {
    let holders = || said.clone().filter(|said| said.holder.is_some());
    let longest = holders().map(|said| said.remaining.unwrap_or(Duration::MAX)).max();
    let wanted = said.clone().any(|said| said.waiting > 0 || said.turn.is_some());
    let locked = holders().filter(|said| said.permits.is_none()).count() >= blocking;
    Occupied { held: longest.filter(|_| holders().count() > spare), wanted, locked }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_free_where_enough_nodes_hold_it_for_nobody() {
        let held = Inspection::held("other".to_owned(), 1, Some(Duration::from_secs(7)), 1);
        let said = [held, Inspection::free(3), Inspection::free(3)];
        assert_eq!(look(said.iter(), 1, 2), Occupied::default());
        let two = look(said[..2].iter(), 0, 2);
        assert_eq!(two, Occupied { held: Some(Duration::from_secs(7)), wanted: false, locked: false });
        let waits = [Inspection::free(1).with_line(1, None), Inspection::free(1)];
        assert!(look(waits.iter(), 0, 2).wanted);
    }

    #[test]
    fn a_name_is_locked_where_so_many_nodes_hold_it_as_no_gate_that_no_quorum_is_left() {
        let lock = || Inspection::held("other".to_owned(), 1, None, 1);
        let gate = || lock().with_permits(Some(3));
        for (said, locked) in [([lock(), lock()], true), ([lock(), gate()], false), ([gate(), gate()], false)] {
            assert_eq!(look(said.iter(), 0, 2).locked, locked, "{said:?}");
        }
    }
}
