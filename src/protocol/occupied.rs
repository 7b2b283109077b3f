//! Finds which of several names are free, for a caller that can use any of them.

use std::sync::Arc;
use std::time::Duration;

use super::holders::said;
use super::voters::Voters;
use crate::node::{Inspection, Kind, Name};
use crate::rules::Size;

/// The state of one name, by the reports of the nodes that answered in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Occupied {
    /// The holder, if a quorum names one.
    pub(crate) holder: Option<Arc<str>>,
    /// For how long the name may still be held. `None` if so few nodes name a holder that a claim
    /// can succeed.
    pub(crate) held: Option<Duration>,
    /// Whether an owner waits for the name.
    pub(crate) wanted: bool,
    /// Whether no quorum can grant the name as a gate, because too many nodes hold it as a lock.
    pub(crate) locked: bool,
}

/// The state of each of `names`. Waits until a quorum of nodes has answered and `enough` returns
/// true. Ends earlier when all nodes have answered, or `patience` is over. `None` if no quorum has
/// answered by then.
pub(crate) async fn occupied(
    voters: &Arc<Voters>,
    names: &Arc<[Name]>,
    patience: Duration,
    enough: impl Fn(&[Occupied]) -> bool,
) -> Option<Vec<Occupied>> {
    let size = voters.size;
    let all = |said: &[Vec<Inspection>]| -> Vec<_> {
        (0..names.len()).map(|at| look(said.iter().filter_map(|said| said.get(at)), said.len(), size)).collect()
    };
    let said = said(voters, names, patience, |said| enough(&all(said))).await;
    (said.len() >= size.quorum() as usize).then(|| all(&said))
}

/// Combines the reports about one name. `heard` is the number of nodes that reported.
fn look<'a>(said: impl Iterator<Item = &'a Inspection> + Clone, heard: usize, size: Size) -> Occupied {
    let (quorum, blocking) = (size.quorum() as usize, size.blocking() as usize);
    let spare = heard.saturating_sub(quorum);
    let holders = || said.clone().filter(|said| said.holder.is_some());
    let names = || said.clone().filter_map(|said| said.holder.as_deref());
    let holder = names().find(|one| names().filter(|other| other == one).count() >= quorum).map(Arc::from);
    let longest = holders().map(|said| said.remaining.unwrap_or(Duration::MAX)).max();
    let wanted = said.clone().any(|said| said.waiting > 0);
    let locked = holders().filter(|said| said.kind != Kind::Gate).count() >= blocking;
    Occupied { holder, held: longest.filter(|_| holders().count() > spare), wanted, locked }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_free_where_enough_nodes_hold_it_for_nobody() {
        let held = Inspection::held("other".to_owned(), 1, Some(Duration::from_secs(7)), 1);
        let said = [held, Inspection::free(3), Inspection::free(3)];
        assert_eq!(look(said.iter(), 3, Size::of(3)), Occupied::default());
        let two = look(said[..2].iter(), 2, Size::of(3));
        assert_eq!(two, Occupied { held: Some(Duration::from_secs(7)), ..Occupied::default() });
        let waits = [Inspection::free(1).with_line(1), Inspection::free(1)];
        assert!(look(waits.iter(), 2, Size::of(3)).wanted);
    }

    #[test]
    fn a_holder_is_one_that_a_quorum_names() {
        let held = |who: &str| Inspection::held(who.to_owned(), 1, None, 1);
        let holder = |said: &[Inspection]| look(said.iter(), said.len(), Size::of(3)).holder;
        assert_eq!(holder(&[held("one"), Inspection::free(1), held("one")]).as_deref(), Some("one"));
        assert_eq!(holder(&[held("one"), Inspection::free(1), held("other")]), None);
    }

    #[test]
    fn name_is_locked_if_non_gate_holds_leave_no_quorum() {
        let lock = || Inspection::held("other".to_owned(), 1, None, 1);
        let gate = || lock().with_kind(Kind::Gate);
        for (said, locked) in [([lock(), lock()], true), ([lock(), gate()], false), ([gate(), gate()], false)] {
            assert_eq!(look(said.iter(), 2, Size::of(3)).locked, locked, "{said:?}");
        }
    }
}
