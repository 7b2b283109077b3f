//! Releases and withdraws names on every node that may hold them, even if no caller waits for the
//! result.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit};

use super::listening::Listening;
use super::pending_releases::{Open, PendingRelease};
use super::push_receiver::Releases;
use super::voters::{Asked, Voters};
use crate::node::{FaultKind, Operation, Outcome, Release, Reply, Sink};
use crate::rules::tally::{Freed, Size};
use crate::rules::{NodeSet, ReleaseTally, Tick};
use crate::spans::Spanned;

/// Which nodes a release or a withdrawal is sent to.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReleaseTargets {
    /// The nodes to send the request to.
    pub(super) ask: NodeSet,
    /// The nodes that may hold the name: the request is repeated there until confirmed. The request
    /// is sent to other nodes once, because tries would pile up for a node that is down for long.
    pub(super) insist: NodeSet,
    /// Nodes that had not replied when the claim was given up. If such a node held the name, this
    /// is counted as a late grant.
    pub(super) unheard: NodeSet,
}

impl ReleaseTargets {
    /// The request goes to `ask`, and is repeated there until confirmed.
    pub(super) fn all(ask: NodeSet) -> Self {
        Self { ask, insist: ask, unheard: NodeSet::default() }
    }
}

/// A release or a withdrawal.
#[derive(Debug)]
pub(super) struct ReleaseRequest {
    pub(super) operation: Arc<Operation>,
    /// For how long nodes may hold the names: the lock's ttl, or the whole period of a `Once`.
    pub(super) ttl: Duration,
    /// The lock's ttl in this client.
    pub(super) lease: Duration,
    /// Whether this request releases a lock that a caller had. Otherwise it undoes failed claims.
    pub(super) held: bool,
    /// Write the span's fields before the request is sent: a memory node replies at once, and the
    /// reply ends the span.
    pub(super) span: Spanned,
}

impl ReleaseRequest {
    /// Withdraws the claims up to the ballot of `release`. The owner may ask again with a higher
    /// ballot.
    pub(super) fn withdrawal(release: Release) -> Self {
        Self::new(release.ttl, Operation::Withdraw(release))
    }

    pub(super) fn release(release: Release) -> Self {
        Self::new(release.ttl, release.into())
    }

    fn new(ttl: Duration, operation: Operation) -> Self {
        Self { operation: Arc::new(operation), ttl, lease: ttl, held: false, span: Spanned::release() }
    }
}

/// One release or withdrawal. It ends when each node of `insist` has confirmed or rejected it, or
/// when no hold can be left. It also ends if there is no room for another try.
#[derive(Debug)]
pub(crate) struct ReleaseTask {
    request: ReleaseRequest,
    voters: Weak<Voters>,
    size: Size,
    targets: ReleaseTargets,
    began: Tick,
    state: Mutex<State>,
    decided: Notify,
    open: Open,
}

#[derive(Debug)]
struct State {
    tally: ReleaseTally,
    waiting: NodeSet,
    unconfirmed: NodeSet,
    tries: u32,
    /// Whether to log nothing more about this request. True if no hold can be left, if there was no
    /// room for another try, or if the caller got the error.
    over: bool,
    /// The receiver of the owner, which is kept until all nodes have replied once.
    listening: Option<Listening>,
    /// The permit for more tries; `None` until a second try is planned.
    permit: Option<OwnedSemaphorePermit>,
}

impl ReleaseTask {
    /// Sends the request to `targets.ask` at once. Sends it again to those nodes of
    /// `targets.insist` that do not confirm it.
    pub(super) fn start(voters: &Arc<Voters>, request: ReleaseRequest, targets: ReleaseTargets) -> Arc<Self> {
        let task = Self::new(voters, request, targets);
        voters.ask_within(&task.request.span, targets.ask, &task.request.operation, &task);
        task
    }

    /// Sends several requests to all nodes, in as few calls as possible. Each request is repeated
    /// on its own set of nodes, until these nodes confirm it.
    pub(super) fn start_all(
        voters: &Arc<Voters>,
        releases: impl Iterator<Item = (ReleaseRequest, NodeSet)>,
    ) -> Vec<Arc<Self>> {
        let targets = |insist| ReleaseTargets { ask: voters.everyone(), insist, unheard: NodeSet::default() };
        let start = |(release, insist)| Self::new(voters, release, targets(insist));
        let tasks: Vec<_> = releases.map(start).collect();
        let asked =
            |task: &Arc<Self>| -> Asked { (task.request.span.clone(), task.request.operation.clone(), task.clone()) };
        voters.ask_all(&tasks.iter().map(asked).collect::<Vec<_>>());
        tasks
    }

    fn new(voters: &Arc<Voters>, request: ReleaseRequest, targets: ReleaseTargets) -> Arc<Self> {
        let state = State {
            tally: ReleaseTally::new(voters.size),
            waiting: targets.ask,
            unconfirmed: NodeSet::default(),
            tries: 1,
            over: false,
            listening: None,
            permit: None,
        };
        Arc::new(Self {
            request,
            voters: Arc::downgrade(voters),
            size: voters.size,
            targets,
            began: voters.host.now(),
            state: Mutex::new(state),
            decided: Notify::new(),
            open: voters.release_tasks.begin(),
        })
    }

    /// Records that this release ends the acquisition of `listening`. If a node hands the name over
    /// to this acquisition before the node carries out this release, the hand-over needs no other
    /// release.
    pub(super) fn ends(self: &Arc<Self>, listening: Listening) {
        let this: Weak<Self> = Arc::downgrade(self);
        listening.release(this);
        listening.end();
        let mut state = self.state();
        // If the receiver is not kept, drop it outside of the mutex.
        let _over = if state.waiting.is_empty() { Some(listening) } else { state.listening.replace(listening) };
        drop(state);
    }

    /// Waits for the result: whether a quorum had held the names.
    pub(crate) async fn freed(&self) -> Freed {
        loop {
            if let Some(freed) = self.state().tally.verdict() {
                return freed;
            }
            self.decided.notified().await;
        }
    }

    /// Waits until a quorum has carried out the request, or no quorum can any more. Returns whether
    /// a quorum has.
    pub(super) async fn confirmed(&self) -> bool {
        loop {
            if let Some(confirmed) = self.state().tally.confirmed() {
                return confirmed;
            }
            self.decided.notified().await;
        }
    }

    /// Records that the caller got an error about the unconfirmed release. Then no warning is
    /// logged.
    pub(crate) fn told(&self) {
        self.state().over = true;
    }

    /// Whether the node had held the names, by its reply; `None` if the reply does not show this. A
    /// node grants all names of a claim or none. So a node that held only some of the names counts
    /// as a node that held none.
    fn had_held(&self, reply: &Reply) -> Option<bool> {
        match reply {
            Ok(Outcome::Released { held }) => Some(*held as usize == self.request.operation.names().len()),
            Ok(Outcome::Forgot) => Some(false),
            _ => None,
        }
    }

    /// Takes note of one reply. Returns whether this was the last reply to this try and some nodes
    /// need another try.
    fn note(&self, node: usize, reply: &Reply) -> bool {
        // Declare `_over` before the mutex is locked, so that it is dropped after the unlock.
        let _over: Option<Listening>;
        let mut state = self.state();
        state.waiting.remove(node);
        if state.tries == 1 {
            state.tally.count(self.had_held(reply));
        }
        if worth_another_try(reply, state.tries) && self.targets.insist.contains(node) {
            state.unconfirmed.insert(node);
        }
        let all = state.waiting.is_empty();
        _over = state.listening.take_if(|_| all);
        let again = all && !state.unconfirmed.is_empty();
        drop(state);
        again
    }

    /// Ends the span once it is clear whether a quorum had held the names. Further calls do
    /// nothing.
    fn traced(&self) {
        if let Some(freed) = self.request.span.is_on().then(|| self.state().tally.verdict()).flatten() {
            self.request.span.end(match freed {
                Freed::Held => "released",
                Freed::Gone => "gone",
                Freed::Unknown => "unconfirmed",
            });
        }
    }

    /// Schedules another try. Returns false if there is no room for it.
    fn try_later(self: Arc<Self>, voters: &Voters) -> bool {
        let mut state = self.state();
        if state.permit.is_none() {
            state.permit = voters.pending.permit(self.request.lease < self.request.ttl);
        }
        let permitted = state.permit.is_some();
        drop(state);
        if permitted {
            voters.pending.leave(self);
        }
        permitted
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ReleaseTask {
    /// Warns if this release ends unconfirmed because the `Quorum` or its runtime has ended. Nodes
    /// that did not confirm it may hold the name until the lock's ttl ends.
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let too_few = state.unconfirmed.len() > self.size.nodes() - self.size.quorum();
        if state.over || !self.request.held || !too_few || !self.open.warns() {
            return;
        }
        let name = self.request.operation.names().iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
        if self.open.is_late() {
            tracing::warn!(
                name,
                "the release of a lock was not confirmed before this client ended, so nodes may hold the lock until its ttl ends"
            );
        } else {
            tracing::warn!(
                name,
                "the release of a lock was not confirmed before the `Quorum` or the runtime ended, so nodes may hold the \
                 lock until its ttl ends. Before you end these, wait for `release` or `Quorum::shutdown`, or use `try_run`"
            );
        }
    }
}

impl PendingRelease for ReleaseTask {
    fn again(self: Arc<Self>) {
        let Some(voters) = self.voters.upgrade() else { return };
        let mut state = self.state();
        let nodes = std::mem::take(&mut state.unconfirmed);
        state.waiting = nodes;
        state.tries = state.tries.saturating_add(1);
        drop(state);
        voters.ask(nodes, &self.request.operation, &self);
    }

    fn tries(&self) -> u32 {
        self.state().tries
    }

    fn overtime(&self) -> Option<Duration> {
        let now = self.voters.upgrade()?.host.now();
        (now >= self.began + self.request.lease).then(|| now.since(self.began))
    }
}

impl Releases for ReleaseTask {
    fn is_under_way(&self, node: usize, owner: &str) -> bool {
        let state = self.state();
        let mine = self.request.operation.owner().is_some_and(|mine| **mine == *owner);
        mine && self.targets.insist.contains(node) && state.waiting.contains(node)
    }
}

impl Sink for ReleaseTask {
    fn deliver(self: Arc<Self>, node: usize, reply: Reply) {
        let again = self.note(node, &reply);
        let voters = self.voters.upgrade();
        let again = voters.as_ref().filter(|_| again);
        let expired = again.is_some_and(|voters| voters.host.now() >= self.began + self.request.ttl);
        let has_room = expired || again.is_none_or(|voters| self.clone().try_later(voters));
        if expired || !has_room {
            self.state().over = true;
        }
        // The lines below run user code: wakers, recorders and logs. That code may panic, so it
        // runs last.
        self.decided.notify_one();
        self.traced();
        if let Some(voters) =
            voters.filter(|_| self.had_held(&reply) == Some(true) && self.targets.unheard.contains(node))
        {
            voters.meters.late_grant();
        }
        if !has_room && self.open.warns_of_no_room() {
            tracing::warn!(
                "too many releases are unconfirmed; on nodes that a release does not reach, the lock ends with its ttl"
            );
        }
    }
}

/// Whether to send the request again. A node that rejected the request would reject it again. A
/// node that did not reply may reply to a later try. After an unreadable reply, the request is sent
/// once more, because the connection may have been at fault.
fn worth_another_try(reply: &Reply, tries: u32) -> bool {
    let Err(fault) = reply else { return false };
    match fault.kind() {
        FaultKind::Rejected => false,
        FaultKind::Garbled => tries <= 1,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Handle;
    use tokio::sync::mpsc;

    use super::super::pending_releases::{PendingReleases, Room};
    use super::*;
    use crate::host::{Host, TokioTime};
    use crate::metrics::Meters;
    use crate::node::{Fault, Name, Node, NodeState, NodeStatus, Request};
    use crate::protocol::Wakeups;

    const MINUTE: Duration = Duration::from_secs(60);

    /// A node whose replies are lost.
    #[derive(Debug)]
    struct Mute(Arc<str>);

    impl Node for Mute {
        fn label(&self) -> &Arc<str> {
            &self.0
        }

        fn submit(&self, request: Request) {
            request.reply.send(Err(Fault::new(FaultKind::Timeout, "no answer in time")));
        }

        fn status(&self) -> NodeStatus {
            NodeStatus::new(self.0.clone(), NodeState::Up)
        }
    }

    /// A release of a name that nodes hold for `ttl`, and whose lease lasts a minute.
    fn release(voters: &Arc<Voters>, ttl: Duration) -> Arc<ReleaseTask> {
        let names = [Name::new("", "it").unwrap()].into();
        let release = Release { names, owner: "me".into(), ttl, token: 0, ballot: 0, next: 0, place: None };
        ReleaseTask::start(
            voters,
            ReleaseRequest { lease: MINUTE, ..ReleaseRequest::release(release) },
            ReleaseTargets::all(voters.everyone()),
        )
    }

    /// The voters of one node, and the channel with the releases that are to be sent again.
    fn voters(room: Room) -> (Arc<Voters>, mpsc::Receiver<Arc<dyn PendingRelease>>) {
        voters_of(Arc::new(Mute("mute".into())), room)
    }

    fn voters_of(node: Arc<dyn Node>, room: Room) -> (Arc<Voters>, mpsc::Receiver<Arc<dyn PendingRelease>>) {
        let host: Arc<dyn Host> = Arc::new(TokioTime::new(Handle::current()));
        let meters = Meters::new("default".into(), 1, 2);
        let wakeups = Wakeups::new("client".to_owned(), host.clone(), meters.hints());
        let (pending, again) = PendingReleases::channel(room);
        let membership = crate::protocol::Membership::sample(node.label());
        let voters = Arc::new(Voters::new(vec![node], host, wakeups, pending, membership, meters));
        (voters, again)
    }

    #[tokio::test(start_paused = true)]
    async fn pending_releases_are_bounded_wherever_they_wait() {
        let (voters, mut pending) = voters(Room { brief: 2, kept: 0 });
        let weak: Vec<_> = (0..5).map(|_| Arc::downgrade(&release(&voters, MINUTE))).collect();
        let waiting = [pending.try_recv().unwrap(), pending.try_recv().unwrap()];
        assert!(pending.try_recv().is_err(), "there is room for two");
        assert_eq!(weak.iter().filter(|task| task.strong_count() > 0).count(), 2, "the others are dropped");
        drop(release(&voters, MINUTE));
        assert!(pending.try_recv().is_err(), "a release keeps its permit until it ends");
        // A second try takes no second permit.
        waiting[0].clone().again();
        let again = pending.try_recv().unwrap();
        assert_eq!(again.tries(), 2);
        drop((waiting, again));
        drop(release(&voters, MINUTE));
        assert!(pending.try_recv().is_ok(), "there is room again");
        voters.release_tasks.ended().await;
    }

    /// A fake node that replies only when the test sends the reply.
    #[derive(Debug, Default)]
    struct Slow(Mutex<Vec<Request>>);

    impl Node for Slow {
        fn label(&self) -> &Arc<str> {
            static LABEL: std::sync::LazyLock<Arc<str>> = std::sync::LazyLock::new(|| "slow".into());
            &LABEL
        }

        fn submit(&self, request: Request) {
            self.0.lock().unwrap().push(request);
        }

        fn status(&self) -> NodeStatus {
            NodeStatus::new(self.label().clone(), NodeState::Up)
        }
    }

    struct Panics;

    impl std::task::Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a caller's waker");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_waker_that_panics_keeps_no_release_from_being_tried_again() {
        let slow = Arc::new(Slow::default());
        let (voters, mut pending) = voters_of(slow.clone(), Room { brief: 2, kept: 0 });
        let task = release(&voters, MINUTE);
        let mut freed = std::pin::pin!(task.freed());
        let waker = Arc::new(Panics).into();
        assert!(freed.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
        let request = slow.0.lock().unwrap().pop().unwrap();
        let answered = || request.reply.send(Err(Fault::new(FaultKind::Timeout, "no answer in time")));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(answered)).unwrap_err();
        assert!(pending.try_recv().is_ok(), "it is tried again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_whose_answer_makes_no_sense_is_asked_once_more() {
        let slow = Arc::new(Slow::default());
        let (voters, mut pending) = voters_of(slow.clone(), Room { brief: 2, kept: 0 });
        let _cleanup = release(&voters, MINUTE);
        let answers = || {
            let request = slow.0.lock().unwrap().pop().unwrap();
            request.reply.send(Err(Fault::new(FaultKind::Garbled, "no reply of the script")));
        };
        answers();
        pending.try_recv().expect("the first unreadable reply may be a broken connection").again();
        answers();
        assert!(pending.try_recv().is_err(), "a second one is final");
    }

    #[tokio::test(start_paused = true)]
    async fn releases_kept_for_long_take_no_room_of_brief_ones() {
        let (voters, mut pending) = voters(Room { brief: 1, kept: 2 });
        (0..5).for_each(|_| drop(release(&voters, MINUTE * 60)));
        let kept = [pending.try_recv().unwrap(), pending.try_recv().unwrap()];
        assert!(pending.try_recv().is_err(), "there is room for two");
        drop(release(&voters, MINUTE));
        let brief = pending.try_recv().expect("there is room for a brief release");
        drop(release(&voters, MINUTE * 60));
        assert!(pending.try_recv().is_err(), "there is no room for another kept release");
        drop((kept, brief));
    }
}
