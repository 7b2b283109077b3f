//! The quorum: hands out locks by name, and reports on its nodes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::inner::Inner;
use super::mutex::QuorumLock;
use super::session::Session;
use super::session_builder::SessionBuilder;
use crate::config::LockOptions;
use crate::error::{Error, ErrorKind, Result};
use crate::host::{before, can_wait};
use crate::node::{Listener, Name, NodeState, NodeStatus};
use crate::protocol::{Inspected, Survey, Taken, free, take_away};
use crate::rules::LostReason;
use crate::words::exact;

/// When a quorum is connected, `ready` also waits for the other nodes: for at most the time that
/// the quorum needed, divided by this number.
const GRACE: u32 = 10;
/// Pause between two checks of the nodes' states while `ready` or `shutdown` waits for them.
const GLANCE: Duration = Duration::from_millis(100);

/// N independent nodes that vote on which owner holds a name. Cheap to clone, `Send` and `Sync`.
///
/// When the last handle and the last guard are dropped, all tasks and connections end.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> quorumlock::Result<()> {
/// use quorumlock::Quorum;
/// use std::time::Duration;
///
/// let quorum = Quorum::in_memory(5)?;
/// let lock = quorum.lock("orders/42");
/// let guard = lock.acquire(Duration::from_secs(5)).await?;
/// assert!(guard.is_held());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Quorum(pub(super) Arc<Inner>);

impl Quorum {
    /// The lock on `name`: 1 to 1,024 bytes of text without NUL. An acquisition refuses a bad name.
    #[must_use]
    pub fn lock(&self, name: impl AsRef<str>) -> QuorumLock {
        let name = self.0.name(name.as_ref());
        QuorumLock::new(self.0.clone(), name.map(|name| Arc::from([name])), self.0.rules.clone())
    }

    /// The lock on `name` with options of its own.
    ///
    /// # Errors
    /// `Config` if the name or an option is invalid. `Config` also if the
    /// [`drift_factor`](LockOptions::drift_factor) is above 0.01 and above the quorum's: the
    /// quorum's factor decides when a node's clock counts as stepped.
    pub fn lock_with(&self, name: impl AsRef<str>, options: &LockOptions) -> Result<QuorumLock> {
        let name = self.0.name(name.as_ref())?;
        self.with([name].into(), options)
    }

    /// The lock on all of `names`, a *set*: an acquisition gets all of them, or none. A set has 1
    /// to [`MAX_NAMES`](crate::MAX_NAMES) names. The order of `names` does not matter, and a name
    /// that is given twice counts once. Bad names are refused at the first acquisition.
    ///
    /// The set excludes [`lock`](Self::lock) on each of the names, and every other set with one of
    /// these names. The set has one token, greater than every earlier token of its names.
    ///
    /// If all names are free, an acquisition takes one round trip. Otherwise it takes the names in
    /// sorted order, and waits in the queue of one name at a time. After each wait, it tries to
    /// claim several of the next names at once. So locks on single names do not starve a set, and
    /// sets that overlap do not deadlock.
    ///
    /// While an acquisition of a set waits for a name, it holds the names of the set that sort
    /// before this name. So a caller that holds one name of the set must not wait for another: the
    /// caller and the set might wait for each other until one of them gives up. Such a caller
    /// should take both names as a set from the beginning.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> quorumlock::Result<()> {
    /// # let quorum = quorumlock::Quorum::in_memory(3)?;
    /// use std::time::Duration;
    ///
    /// let transfer = quorum.lock_all(["account/7", "account/42"]);
    /// let guard = transfer.acquire(Duration::from_secs(5)).await?;
    /// assert!(quorum.lock("account/42").try_acquire().await?.is_none());
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn lock_all(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> QuorumLock {
        QuorumLock::new(self.0.clone(), self.0.names(names), self.0.rules.clone())
    }

    /// The lock on all of `names` with options of its own.
    ///
    /// # Errors
    /// As [`lock_with`](Self::lock_with).
    pub fn lock_all_with(
        &self,
        names: impl IntoIterator<Item = impl AsRef<str>>,
        options: &LockOptions,
    ) -> Result<QuorumLock> {
        let names = self.0.names(names)?;
        self.with(names, options)
    }

    fn with(&self, names: Arc<[Name]>, options: &LockOptions) -> Result<QuorumLock> {
        Ok(QuorumLock::new(self.0.clone(), Ok(names), self.0.rules_of(options)?))
    }

    /// A builder of a session. A session owns many locks, which are renewed together and lost
    /// together. The session has this quorum's options unless you set others.
    /// [`grant`](SessionBuilder::grant) begins the session.
    pub fn session(&self) -> SessionBuilder {
        SessionBuilder::new(self.0.clone())
    }

    /// The session of this quorum with this [`id`](Session::id), for other code of the process that
    /// shares the session. `None` if no handle of the session is left, or if there never was one.
    #[must_use]
    pub fn join_session(&self, id: &str) -> Option<Session> {
        Some(Session { core: self.0.sessions.find(id)?, inner: self.0.clone() })
    }

    /// The default options of this quorum's locks, as a base for options of
    /// [`lock_with`](Self::lock_with).
    #[must_use]
    pub fn options(&self) -> LockOptions {
        self.0.settings.options.clone()
    }

    /// Whether `holder`, such as the one that [`Inspected::holder`] returns, is an owner of this
    /// client.
    #[must_use]
    pub fn is_mine(&self, holder: &str) -> bool {
        let of_client = holder.strip_prefix(self.0.leases.voters.wakeups.client());
        of_client.is_some_and(|number| number.starts_with('/'))
    }

    /// The status of each node, in the order of configuration.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeStatus> {
        self.0.leases.voters.statuses()
    }

    /// Asks all nodes which owner holds `name`, and for the holder's [note](QuorumLock::describe).
    /// Waits for replies for the round timeout at most.
    ///
    /// # Errors
    /// `Config` for a bad name or outside of a Tokio runtime, `Closed` after a shutdown. A node
    /// that does not answer is no error: the result reports it.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn inspect(&self, name: &str) -> Result<Inspected> {
        let name = self.0.name(name)?;
        self.0.usable()?;
        let survey = Survey::of(&self.0.leases.voters, &name, self.0.rules.round_timeout).await;
        Ok(Inspected::new(&self.0.leases.voters, &survey))
    }

    /// Takes `name` away from its holder without making two holders. Nodes no longer renew the
    /// hold, and no other owner gets the name until the holder has released the lock, or the hold
    /// has expired. The holder learns of the loss with its next renewal, and releases the lock when
    /// its last guard is dropped. All tokens up to now are below [`Taken::fence`]: pass this fence
    /// to your storage, so that the storage refuses these tokens.
    ///
    /// Returns the former holders, and for how long the name may still be held.
    ///
    /// # Errors
    /// `Unavailable` if no quorum of nodes confirmed: the lock may still be renewed. `Unavailable`
    /// also if too few of the confirming nodes [may vote](Inspected::is_conclusive), because they
    /// are quarantined or have another list in force. In this case, the lock was taken from the
    /// holders that the nodes named, but another owner may hold the name. `Config` for a bad name,
    /// `Closed` after a shutdown.
    ///
    /// # Cancel safety
    /// If the call is cancelled, only some nodes may have revoked the lock: call `revoke` again.
    pub async fn revoke(&self, name: &str) -> Result<Taken> {
        let name = self.0.name(name)?;
        self.0.usable()?;
        take_away(&self.0.leases.voters, &name, self.0.rules.round_timeout).await
    }

    /// Frees `name` at once, even if its holder is still alive, and raises the name's fence. **The
    /// holder learns of the loss with its next renewal: after about a third of its ttl, or after a
    /// ttl if renewals fail. Until then, there may be two holders.** Use this call for repairs by
    /// hand, if you know that the holder is gone. [`revoke`](Self::revoke) never makes two holders.
    ///
    /// Returns the former holders: the owners from which nodes took the name.
    ///
    /// # Errors
    /// `Unavailable` if no quorum of nodes confirmed, or if too few of the confirming nodes may
    /// vote to [decide](Inspected::is_conclusive) which owner held the name. In both cases, the
    /// name may still be held. `Config` for a bad name, `Closed` after a shutdown.
    ///
    /// # Cancel safety
    /// If the call is cancelled, only some nodes may have freed the name: call `force_release`
    /// again.
    pub async fn force_release(&self, name: &str) -> Result<Taken> {
        let name = self.0.name(name)?;
        self.0.usable()?;
        free(&self.0.leases.voters, &name, self.0.rules.round_timeout).await
    }

    /// Waits until a quorum of nodes is admitted: connected and checked, but perhaps in quarantine.
    /// After that, waits for the other nodes, for up to a tenth of the time that the quorum needed.
    ///
    /// # Errors
    /// `Unavailable` after `patience`, with a report on each node; `Config` if two addresses lead
    /// to the same server, or outside of a Tokio runtime; `Closed` after a shutdown.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn ready(&self, patience: Duration) -> Result<()> {
        self.0.usable()?;
        let Some(registry) = &self.0.registry else { return Ok(()) };
        let (host, mut changes) = (&self.0.host, registry.subscribe());
        let began = host.now();
        let admitted = self.changed_until(&mut changes, |nodes| self.usable(nodes) >= self.quorum());
        if before(host, began + patience, admitted).await.is_some() {
            // Nodes with slightly longer round trips will be ready soon, and a lock with more votes
            // survives more failures.
            let grace = host.now().since(began) / GRACE;
            let settled = self.changed_until(&mut changes, |nodes| nodes.iter().all(|node| !node.state.is_pending()));
            let _ = before(host, host.now() + grace, settled).await;
            return self.refuse_duplicates();
        }
        self.refuse_duplicates()?;
        let message = self.why_not(&self.nodes(), patience);
        Err(Error::new(ErrorKind::Unavailable, message).with_nodes(self.0.leases.voters.reports()))
    }

    /// Stops the quorum. From now on all acquisitions fail, and held locks are lost and released.
    /// Waits for pending releases, for `deadline` at most, and then ends all connections.
    ///
    /// **End the work under locks before this call:** the locks are released at once, even if their
    /// guards still live, and others may get them.
    ///
    /// # Cancel safety
    /// If the call is cancelled, the releases go on in the background, and the connections end with
    /// the last handle.
    pub async fn shutdown(&self, deadline: Duration) {
        self.0.shut.cancel();
        self.0.leases.lose_all(LostReason::Closed);
        if self.0.leases.home.has_ended() {
            return;
        }
        let until = self.0.host.now() + deadline;
        let voters = &self.0.leases.voters;
        if can_wait() && before(&self.0.host, until, voters.release_tasks.ended()).await.is_none() {
            voters.release_tasks.are_late();
        }
        voters.nodes.iter().for_each(|node| node.close());
        if let Some(registry) = self.0.registry.as_ref().filter(|_| can_wait()) {
            let mut changes = registry.subscribe();
            let ended = self.changed_until(&mut changes, |nodes| !nodes.iter().any(connected));
            let _ = before(&self.0.host, until, ended).await;
        }
    }

    /// How many names have callers, how many timers are set, and how many acquisitions and
    /// observers there are. All three are zero if nothing is held, waited for or observed.
    #[cfg(feature = "unstable")]
    #[must_use]
    pub fn in_use(&self) -> (usize, usize, usize) {
        (self.0.queue.len(), self.0.leases.timers(), self.0.leases.voters.wakeups.receivers_in_use())
    }

    /// Waits until no release is pending.
    #[cfg(feature = "unstable")]
    pub async fn quiet(&self) {
        self.0.leases.voters.release_tasks.ended().await;
    }

    /// Waits until no release is pending, for `patience` at most.
    #[cfg(feature = "blocking")]
    pub(crate) async fn settled(&self, patience: Duration) {
        let _ = self.within(patience, self.0.leases.voters.release_tasks.ended()).await;
    }

    #[cfg(feature = "blocking")]
    pub(crate) async fn within<F: Future>(&self, patience: Duration, future: F) -> Option<F::Output> {
        before(&self.0.host, self.0.host.now() + patience, future).await
    }

    /// Makes callers of this quorum lose the lock on `name`. Returns whether a caller held it.
    #[cfg(feature = "testing")]
    pub(crate) fn lose(&self, name: &str) -> Result<bool> {
        self.0.in_memory()?;
        Ok(self.0.leases.lose(&self.0.name(name)?, LostReason::Revoked))
    }

    /// How many nodes this client can use. An onlooker needs no votes, so it can also use nodes
    /// that do not vote.
    fn usable(&self, nodes: &[NodeStatus]) -> usize {
        let looks = self.0.leases.voters.membership.onlooker;
        let usable = |node: &&NodeStatus| {
            let answers = match node.state {
                NodeState::OtherList { .. } | NodeState::Twins { .. } | NodeState::Unclear => true,
                // The server answers, but has no record. An onlooker makes no record, so for an
                // onlooker the node stays `Connecting`.
                NodeState::Connecting => node.run.is_some(),
                _ => false,
            };
            node.state.is_admitted() || looks && answers
        };
        nodes.iter().filter(usable).count()
    }

    fn quorum(&self) -> usize {
        self.0.leases.voters.size.quorum() as usize
    }

    async fn changed_until(
        &self,
        changes: &mut tokio::sync::watch::Receiver<()>,
        reached: impl Fn(&[NodeStatus]) -> bool,
    ) {
        loop {
            let nodes = self.nodes();
            if reached(&nodes) || nodes.iter().any(|node| matches!(node.state, NodeState::Duplicate { .. })) {
                return;
            }
            // Some states, such as a quarantine, end without a notification.
            if let Some(Err(_)) = before(&self.0.host, self.0.host.now() + GLANCE, changes.changed()).await {
                return;
            }
        }
    }

    fn why_not(&self, nodes: &[NodeStatus], patience: Duration) -> String {
        let (patience, quorum, all) = (exact(patience), self.quorum(), nodes.len());
        if let Some(other) = self.0.leases.voters.other_list() {
            return format!("no quorum within {patience}: {other}");
        }
        let twins = nodes.iter().filter(|node| matches!(node.state, NodeState::Twins { .. })).count();
        let admitted = nodes.iter().filter(|node| node.state.is_admitted()).count();
        match twins > 0 && twins + admitted >= quorum {
            true => format!("no quorum within {patience}: {twins} of {all} nodes' names lead to two servers each"),
            false => format!("no quorum within {patience}: {quorum} of {all} nodes must be up"),
        }
    }

    fn refuse_duplicates(&self) -> Result<()> {
        if self.nodes().iter().any(|node| matches!(node.state, NodeState::Duplicate { .. })) {
            let reports = self.0.leases.voters.reports();
            return Err(Error::config("the same server is behind two addresses").with_nodes(reports));
        }
        Ok(())
    }
}

/// Whether this process may have a connection to the node.
fn connected(node: &NodeStatus) -> bool {
    use NodeState::{Connecting, OtherList, Quarantined, Twins, Unclear, Up};
    matches!(node.state, Up | Quarantined { .. } | Connecting | Unclear | OtherList { .. } | Twins { .. })
}

impl fmt::Debug for Quorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quorum").field("nodes", &self.nodes()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::task::{Context, Poll};

    use futures::FutureExt;
    use metrics_exporter_prometheus::PrometheusBuilder;
    use tokio::runtime::Handle;
    use tokio::time::Instant;

    use super::*;
    use crate::host::{Host, TokioTime};
    use crate::node::redis::transport::{Answer, Argument, Arguments, Connection, Dialer, Dialing, Event, Value};

    const SECOND: Duration = Duration::from_secs(1);

    /// A fake server. Connecting takes the given seconds, and commands take no time. The server has
    /// forgotten nothing, and has its client's list in force.
    #[derive(Clone, Debug)]
    struct After(u32, usize, Instant);

    impl After {
        #[allow(clippy::disallowed_methods, reason = "its clock is the one that the test pauses")]
        fn new(seconds: u32, number: usize) -> Self {
            Self(seconds, number, Instant::now())
        }

        fn carry_out(&self, call: &dyn Arguments) -> Value {
            let mut words = Vec::new();
            call.each(&mut |argument| {
                words.push(match argument {
                    Argument::Word(word) => word.to_owned(),
                    Argument::Text(text) => text.to_owned(),
                    Argument::Integer(number) => number.to_string(),
                });
            });
            let (time, server) = (self.2.elapsed(), self.1.to_string());
            let done = |many: usize| format!("{} {} {many} {server}", time.as_secs() + 1, time.subsec_micros());
            let keys: usize = words[1].parse().unwrap();
            if !words[3].ends_with("node:seen") {
                return done(operations(keys - 1, words.len() - 2 - keys)).into();
            }
            // The arguments follow the digest, the number of keys and two keys.
            let said = |argument: usize| words.get(4 + argument).cloned().unwrap_or_default();
            let (list, says, age) = (said(4), said(5), "70000");
            let record = ["hello", &server, &server, age, "0", "0", "1", "init", &list, age, age, &says];
            let record = record.into_iter().map(|text| Value::from(text.to_owned()));
            let reply = std::iter::once(Value::Integer(1)).chain(record).collect();
            Value::Array(vec![done(1).into(), "".into(), Value::Array(reply)])
        }
    }

    /// The number of operations in a call. A claim has 4 keys and 13 arguments. Other operations
    /// have 5 keys.
    const fn operations(keys: usize, arguments: usize) -> usize {
        if arguments * 4 == keys * 13 { keys / 4 } else { keys / 5 }
    }

    impl Dialer for After {
        fn address(&self) -> String {
            format!("redis://{}", self.1)
        }

        fn dial(&self, _: Duration) -> Dialing<'_> {
            let connection: Box<dyn Connection> = Box::new(self.clone());
            tokio::time::sleep(SECOND * self.0).map(|()| Ok(connection)).boxed()
        }
    }

    impl Connection for After {
        fn send(&self, command: &'static str, call: &dyn Arguments) -> Answer<Value> {
            let uptime = 1_000 + self.2.elapsed().as_secs();
            let info = || format!("run_id:{}\r\nuptime_in_seconds:{uptime}\r\nrole:master\r\n", self.1).into();
            ready(Ok(if command == "EVALSHA" { self.carry_out(call) } else { info() })).boxed()
        }

        fn subscribe(&self, _: &[String]) -> Answer<()> {
            ready(Ok(())).boxed()
        }

        fn unsubscribe(&self, _: &[String]) -> Answer<()> {
            ready(Ok(())).boxed()
        }

        fn poll_event(&mut self, _: &mut Context<'_>) -> Poll<Event> {
            Poll::Pending
        }
    }

    fn over(after: [u32; 3], host: &Arc<dyn Host>) -> Quorum {
        let dialer = |(node, seconds)| -> Arc<dyn Dialer> { Arc::new(After::new(seconds, node)) };
        let dialers = after.into_iter().enumerate().map(dialer).collect();
        let builder = Quorum::builder().node_timeout(10 * SECOND);
        builder.over_dialers(host.clone(), dialers, |_, node| Arc::new(node)).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn ready_waits_for_a_quorum_and_for_no_other_node() {
        for (after, expected) in [([3, 3, 3], 3), ([1, 5, 5], 5), ([2, 2, 9], 2), ([2, 2, 3], 2)] {
            let host: Arc<dyn Host> = Arc::new(TokioTime::new(Handle::current()));
            let quorum = over(after, &host);
            quorum.ready(60 * SECOND).await.unwrap();
            let took = (host.now().since_origin() + SECOND / 2).as_secs();
            assert_eq!(took, expected, "{after:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn locks_lost_to_another_list_stay_lost_and_later_ones_are_held() {
        let quorum = Quorum::in_memory(3).unwrap();
        let guard = quorum.lock("a").acquire(SECOND).await.unwrap();
        quorum.0.leases.lose_all(LostReason::OtherList);
        assert_eq!(guard.lost().await, LostReason::OtherList);
        drop(guard);
        tokio::time::sleep(SECOND).await;
        assert!(quorum.lock("a").acquire(SECOND).await.unwrap().is_held());
    }

    /// More renewals become due during the stall than fit into a node's queue of requests.
    #[tokio::test(start_paused = true)]
    async fn renewals_that_are_all_due_after_a_stall_find_room() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let (told, _local) = (recorder.handle(), metrics::set_default_local_recorder(&recorder));
        let quorum = over([0; 3], &(Arc::new(TokioTime::new(Handle::current())) as Arc<dyn Host>));
        quorum.ready(60 * SECOND).await.unwrap();
        let mut guards = Vec::new();
        for number in 0..4_600 {
            guards.push(quorum.lock(format!("held/{number}")).acquire_default().await.unwrap());
        }
        tokio::time::advance(12 * SECOND).await;
        for guard in &guards {
            while guard.remaining() < 25 * SECOND {
                tokio::time::sleep(SECOND / 100).await;
                assert!(guard.is_held());
            }
        }
        let exposition = told.render();
        let answered = exposition.lines().filter(|line| line.contains("operation=\"renew\",outcome=\"ok\""));
        assert!(answered.count() == 3, "{exposition}");
        let overloaded = |line: &&str| line.contains("\"overloaded\"") && !line.ends_with(" 0");
        assert_eq!(exposition.lines().filter(overloaded).collect::<Vec<_>>(), [""; 0]);
    }
}
