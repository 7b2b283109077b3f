//! Releases a lock that another client, or an earlier process, has acquired.

use std::sync::Arc;
use std::time::Duration;

use super::release::{ReleaseRequest, ReleaseTargets, ReleaseTask};
use super::release_set::ReleaseSet;
use super::voters::Voters;
use crate::node::{Name, Predecessor, Release};

/// Sends a release of this lock to all nodes, and repeats it until each node has confirmed it, or
/// for `ttl`: nodes may hold the name for so long. `lease` is the ttl of this client's locks.
/// `ballot` is the highest ballot of the owner's asks and pushes.
pub(crate) fn give_up(
    voters: &Arc<Voters>,
    name: &Name,
    lock: &Predecessor,
    ballot: u64,
    (ttl, lease): (Duration, Duration),
) -> ReleaseSet {
    let Predecessor { ref owner, token } = *lock;
    let next = voters.next_ballot(ballot);
    let names = [name.clone()].into();
    let release = Release { names, owner: owner.clone(), ttl, token, ballot, next, place: None };
    let request = ReleaseRequest { held: true, lease, ..ReleaseRequest::release(release) };
    std::iter::once(ReleaseTask::start(voters, request, ReleaseTargets::all(voters.everyone()))).collect()
}
