//! Whether a quorum of nodes names one holder that is in the way of a claim.
//!
//! If several callers ask at the same moment, each of them may get some votes, and none a quorum.
//! So refusals alone do not show that an owner holds the name on a quorum.

use crate::node::{Operation, Outcome, Reply};

/// Whether at least `quorum` replies name the same holder (all readers count as one). `None` if
/// this depends on replies that have not come yet.
pub(super) fn in_the_way(replies: &[Option<Reply>], quorum: u32) -> Option<bool> {
    let named: Vec<_> = replies.iter().flatten().filter_map(named).collect();
    let alike = |one: &&str| named.iter().filter(|other| is_same(one, other)).count();
    let most = named.iter().map(alike).max().unwrap_or_default();
    let open = replies.iter().filter(|reply| reply.is_none()).count();
    let quorum = quorum as usize;
    if most + open < quorum { Some(false) } else { (most >= quorum).then_some(true) }
}

/// The holder that a refusal names.
fn named(reply: &Reply) -> Option<&str> {
    match reply {
        Ok(Outcome::Held { holder, .. }) => Some(holder),
        _ => None,
    }
}

/// Whether both name the same holder. All readers count as one: a node names only one reader.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    one == other || Operation::is_shared(one) && Operation::is_shared(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{Fault, FaultKind, Kind};

    fn held(holder: &str) -> Option<Reply> {
        Some(Ok(Outcome::Held { holder: holder.to_owned(), kind: Kind::Lock, remaining: None, fence: 1, queued: None }))
    }

    fn granted() -> Option<Reply> {
        Some(Ok(Outcome::Granted { fence: 1 }))
    }

    fn silent() -> Option<Reply> {
        Some(Err(Fault::new(FaultKind::Timeout, "no answer")))
    }

    #[test]
    fn a_quorum_must_name_one_and_the_same() {
        for (replies, expected) in [
            (&[held("a/1"), held("a/1"), granted()][..], Some(true)),
            (&[held("a/1"), held("b/1"), granted()], Some(false)),
            (&[held("a/1"), held("b/1"), held("c/1")], Some(false)),
            (&[held("a/1"), silent(), granted()], Some(false)),
            (&[held("a/1"), None, granted()], None),
            (&[held("a/1"), held("a/1"), None], Some(true)),
            (&[held("a/1"), held("a/1"), None, held("b/1"), granted()], None),
        ] {
            let quorum = replies.len() as u32 / 2 + 1;
            assert_eq!(in_the_way(replies, quorum), expected, "{replies:?}");
        }
    }

    #[test]
    fn readers_are_in_the_way_together() {
        let readers = [held("a/s1"), held("b/s1"), granted()];
        assert_eq!(in_the_way(&readers, 2), Some(true));
        assert_eq!(in_the_way(&[held("a/s1"), held("a/1"), granted()], 2), Some(false));
    }
}
