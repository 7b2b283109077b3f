//! Requests for locks: acquire, look, keep, release.

use std::sync::Arc;
use std::time::{Duration, Instant};

use quorumlock::{Error, Lease, LockOptions, Released};
use serde_json::{Map, Value, json};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::agent::{Agent, Client, Holding, lost};
use super::errors::Refusal;
use super::requests::{CampaignRequest, LockRequest, Mode, OnceRequest, Owner};
use super::table::{Missing, places};
use super::terms::{Ended, Terms};
use crate::held_lock::{View, Wanted};
use crate::url_as_name;

/// How long a refusal waits for the nodes' reports about the holder.
const HOLDER: Duration = Duration::from_millis(500);

pub(super) type Answer = Result<Value, Refusal>;

pub(super) struct Call<'a> {
    pub(super) client: &'a Client,
    pub(super) arrival: Instant,
    /// Whether the connection stays open after this request.
    pub(super) stays_open: bool,
}

impl Call<'_> {
    fn agent(&self) -> &Arc<Agent> {
        &self.client.agent
    }

    /// `POST /v1/locks`
    pub(super) async fn lock(&self, request: LockRequest) -> Answer {
        let owner = request.checked().map_err(|why| Refusal::invalid(&why))?;
        let options = self.options(request.ttl_ms, request.min_validity_ms).fair(request.fair);
        let quorum = &self.agent().quorum;
        let wanted = match (request.mode, request.permits) {
            (Mode::Shared, _) => quorum.rw_lock_with(&request.names[0], &options).map(Wanted::Shared),
            (_, Some(permits)) => quorum.semaphore_with(&request.names[0], permits, &options).map(Wanted::Permit),
            _ => {
                let note = request.note.clone().or_else(|| self.own_note());
                let lock = quorum.lock_all_with(&request.names, &options);
                lock.map(|lock| Wanted::Lock(note.map_or_else(|| lock.clone(), |note| lock.describe(note))))
            }
        };
        let mut names = request.names.clone();
        names.sort_unstable();
        names.dedup();
        self.acquire(wanted?, names, request.timeout(), owner).await
    }

    /// `POST /v1/once`
    pub(super) async fn once(&self, request: OnceRequest) -> Answer {
        let owner = request.checked().map_err(|why| Refusal::invalid(&why))?;
        let options = self.options(request.ttl_ms, Some(0));
        let once = self.agent().quorum.once_with(&request.name, Duration::from_millis(request.period_ms), &options)?;
        let note = request.note.or_else(|| self.own_note());
        let once = note.map_or_else(|| once.clone(), |note| once.describe(note));
        self.acquire(Wanted::Once(once), vec![request.name], Duration::ZERO, owner).await
    }

    /// `POST /v1/elections/NAME`
    pub(super) async fn campaign(&self, name: String, request: CampaignRequest) -> Answer {
        let owner = request.checked().map_err(|why| Refusal::invalid(&why))?;
        let options = self.options(request.ttl_ms, request.min_validity_ms);
        let election = self.agent().quorum.election_with(&name, &options)?;
        let timeout = request.timeout();
        self.acquire(Wanted::Office(election, request.value), vec![name], timeout, owner).await
    }

    /// By default, a granted lock has at least half of its ttl left. Otherwise a lock that was
    /// handed over could begin with a few seconds, and its client would soon have to send another
    /// request.
    fn options(&self, ttl_ms: Option<u64>, min_validity_ms: Option<u64>) -> LockOptions {
        let agent = self.agent();
        let ttl = ttl_ms.map_or(agent.ttl, Duration::from_millis);
        let least = min_validity_ms.map_or(ttl / 2, Duration::from_millis);
        agent.quorum.options().ttl(ttl).min_validity(least)
    }

    /// The note of a lock whose client gave none: the process of the client.
    fn own_note(&self) -> Option<String> {
        let (pid, uid) = (self.client.peer.pid?, self.client.peer.uid?);
        Some(format!("pid {pid} (uid {uid}) of the agent"))
    }

    /// Acquires the lock, and adds it to the table. If the lock ends before the answer, undoes it.
    ///
    /// # Cancel safety
    /// hyper drops this future when the connection closes. Then the request is withdrawn, and a
    /// lock that was granted is released. From `hold` on, the table owns the lock.
    async fn acquire(&self, wanted: Wanted, names: Vec<String>, timeout: Duration, owner: Owner) -> Answer {
        if owner.is_tied && !self.stays_open {
            return Err(Refusal::invalid(
                "the lock would end with this request, since its connection closes then (Connection: close); use \
                 keep_ms with \"connection\": false, or a connection that stays open",
            ));
        }
        if names.iter().any(|name| url_as_name::has_login(name)) {
            return Err(Refusal::invalid("a name is a node's address with a login"));
        }
        let agent = self.agent();
        let client = owner.is_tied.then_some(self.client.id);
        let places = places(&names, wanted.value());
        let _reserved = agent.reserve(self.client.peer, client, places)?;
        let acquired = tokio::select! {
            biased;
            () = agent.stopping.cancelled() => return Err(Refusal::stopping()),
            acquired = wanted.acquire(timeout) => acquired,
        };
        let held = match acquired {
            Ok(Some(held)) => held,
            Ok(None) => return Err(Refusal::done(&names[0])),
            Err(error) => return Err(self.not_acquired(&names, &error).await),
        };
        let terms = Terms::new(self.client.peer.uid, client, owner.keep, Instant::now());
        let names: Arc<[String]> = names.into();
        let (held, refusal) = match agent.hold(terms, places, Holding::new(held, names.clone(), self.client.peer)) {
            Err(holding) => (holding.held, Refusal::stopping()),
            Ok(id) => match self.state(id) {
                Ok(answer) => {
                    let (uid, pid) = (self.client.peer.uid, self.client.peer.pid);
                    tracing::debug!(%id, ?names, uid, pid, "a lock was acquired");
                    return Ok(answer);
                }
                Err(refusal) => (agent.take(id, self.client.peer)?.guard.held, refusal),
            },
        };
        // The client never got the lock's id, so it has done nothing under the lock.
        let _ = agent.release(held, true).await;
        Err(refusal)
    }

    /// The refusal if a lock was not acquired. It names the holder if the nodes report one in time.
    async fn not_acquired(&self, names: &[String], error: &Error) -> Refusal {
        let refusal = Refusal::from(error);
        if !(error.is_timeout() || error.is_contended()) {
            return refusal;
        }
        if !error.conflicts().is_empty() {
            let holders = error.conflicts().iter();
            let holders: Vec<_> =
                holders.map(|conflict| json!({ "name": *conflict.name, "holder": conflict.holder })).collect();
            return refusal.with("holders", Some(json!(holders)));
        }
        let [name] = names else { return refusal };
        let seen = timeout(HOLDER, self.agent().inspect(name)).await;
        let holder = seen.ok().and_then(Result::ok).and_then(|seen| seen.holder().map(str::to_owned));
        refusal.with("holder", holder.map(Value::from))
    }

    /// `GET /v1/locks/ID`: the lock's state. With `wait`, first waits until the lock ends, or until
    /// this time is over.
    pub(super) async fn look(&self, id: Uuid, wait: Option<Duration>) -> Answer {
        if let Some(wait) = wait {
            let agent = self.agent();
            let (view, ended) = agent.view(id, self.client.peer)?;
            let _waiting = agent.waits();
            tokio::select! {
                biased;
                _ = view.lost() => {}
                () = ended.cancelled() => {}
                () = agent.stopped.cancelled() => {}
                () = sleep(wait) => {}
            }
        }
        self.state(id)
    }

    fn state(&self, id: Uuid) -> Answer {
        self.agent().with_lock(id, self.client.peer, self.arrival, false, |holding, until| {
            let view = holding.held.view();
            let token = view.token();
            let tokens: Map<_, _> = holding.names.iter().map(|name| (name.clone(), json!(token))).collect();
            let mut answer = json!({
                "id": id.to_string(),
                "state": "held",
                "names": *holding.names,
                "token": token,
                "tokens": tokens,
                "until_ms": milliseconds(until),
            });
            if let Some(permit) = view.permit() {
                answer["permit"] = json!(permit);
            }
            answer
        })
    }

    /// `POST /v1/locks/ID/keep`
    pub(super) fn keep(&self, id: Uuid) -> Answer {
        self.until(id, true)
    }

    /// `DELETE /v1/locks/ID`. Also ends a lost lock: until this call, or until its deadline, a lost
    /// lock keeps others out, because its client may still work.
    ///
    /// # Cancel safety
    /// The first poll starts the release.
    pub(super) async fn release(&self, id: Uuid, undo: bool) -> Answer {
        let entry = self.agent().take(id, self.client.peer)?;
        let held = entry.guard.held;
        let view = held.view();
        let was_lost = view.remaining().is_zero();
        // Ignore `Disconnected`: the lock may still be held, although its connection was closed.
        let lapsed = entry.terms.lapsed(Instant::now()).filter(|how| *how != Ended::Disconnected);
        let released = self.agent().release(held, undo).await.map_err(|_| Refusal::internal())?;
        if let Some(how) = lapsed {
            return Err(Missing::Ended(how).into());
        }
        match released {
            _ if was_lost => Err(Refusal::lost_by(lost(&view))),
            Ok(Released::Released) => Ok(json!({ "released": true })),
            Ok(Released::AlreadyExpired) => Err(Refusal::lost_by(lost(&view))),
            Err(error) if error.is_unavailable() => Ok(json!({ "released": false, "message": error.to_string() })),
            Err(error) => Err(Refusal::from(&error)),
        }
    }

    /// `PUT /v1/elections/NAME/ID`
    pub(super) async fn proclaim(&self, name: &str, id: Uuid, value: &str) -> Answer {
        let office = self.agent().with_lock(id, self.client.peer, self.arrival, false, |holding, _| {
            holding.held.office().filter(|_| holding.names.first().is_some_and(|held| held == name))
        })?;
        let office = office.ok_or_else(|| Refusal::from(Missing::Unknown))?;
        self.agent().grow(id, places(&[name.to_owned()], value))?;
        match office.proclaim(value).await {
            Ok(()) => self.until(id, false),
            Err(error) if error.is_lost() => Err(Refusal::lost_by(lost(&View::Lock(Lease::clone(&office))))),
            Err(error) => Err(Refusal::from(&error)),
        }
    }

    fn until(&self, id: Uuid, kept: bool) -> Answer {
        let answer = |_: &Holding, until| json!({ "until_ms": milliseconds(until) });
        self.agent().with_lock(id, self.client.peer, self.arrival, kept, answer)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

/// Whole milliseconds, rounded down.
fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use hyper::StatusCode;

    use super::*;
    use crate::held_lock::Held;
    use crate::serve::terms::Peer;

    #[tokio::test]
    async fn job_that_a_stopped_agent_gets_is_undone() {
        let agent = Agent::of_memory();
        let client = agent.enter(Peer::default(), None).unwrap();
        let call = Call { client: &client, arrival: Instant::now(), stays_open: true };
        let job = || serde_json::from_str(r#"{"name": "job", "period_ms": 600000}"#).unwrap();
        agent.table().stop();
        let refusal = call.once(job()).await.unwrap_err();
        assert_eq!((refusal, agent.sizes().locks), (Refusal::stopping(), 0));
        let again = agent.quorum.once("job", Duration::from_secs(600)).claim().await.unwrap();
        assert!(again.is_some(), "the job counts as done");
    }

    #[tokio::test]
    async fn held_lock_of_a_cut_connection_is_released() {
        let agent = Agent::of_memory();
        let client = agent.enter(Peer::default(), None).unwrap();
        let call = Call { client: &client, arrival: Instant::now(), stays_open: false };
        let held = agent.quorum.lock("a").try_acquire().await.unwrap().unwrap();
        // The last deadline in an answer to its client is over, but the agent has renewed the lock.
        let terms = Terms::new(None, Some(client.id), None, Instant::now());
        let holding = Holding::new(Held::Lock(held), vec!["a".to_owned()].into(), client.peer);
        let id = agent.hold(terms, 1, holding).ok().unwrap();
        agent.cut(client.id);
        assert_eq!(call.look(id, None).await.unwrap_err().body["reason"], json!("disconnected"));
        assert_eq!(call.release(id, false).await, Ok(json!({ "released": true })));
    }

    #[tokio::test]
    async fn releases_of_a_closed_connection_are_awaited() {
        let agent = Agent::of_memory();
        let client = agent.enter(Peer::default(), None).unwrap();
        let call = Call { client: &client, arrival: Instant::now(), stays_open: true };
        call.lock(serde_json::from_str(r#"{"names": ["a"]}"#).unwrap()).await.unwrap();
        drop(client);
        agent.released().await;
        assert!(agent.quorum.lock("a").try_acquire().await.unwrap().is_some());
    }

    #[tokio::test]
    async fn longer_value_takes_up_more_places() {
        let agent = Agent::of_memory();
        let client = agent.enter(Peer::default(), None).unwrap();
        let call = Call { client: &client, arrival: Instant::now(), stays_open: true };
        let office = call.campaign("a".to_owned(), serde_json::from_str("{}").unwrap()).await.unwrap();
        let id = Uuid::parse_str(office["id"].as_str().unwrap()).unwrap();
        assert!(call.proclaim("a", id, &"x".repeat(8_000)).await.is_ok());
        let refusal = call.proclaim("a", id, &"x".repeat(10_000)).await.unwrap_err();
        assert_eq!(refusal.status, StatusCode::TOO_MANY_REQUESTS);
    }

    #[tokio::test(start_paused = true)]
    async fn keep_of_a_lost_lock_does_not_prolong_it() {
        let agent = Agent::of_memory();
        let client = agent.enter(Peer::default(), None).unwrap();
        let call = Call { client: &client, arrival: Instant::now(), stays_open: true };
        let body = r#"{"names": ["a"], "keep_ms": 60000, "connection": false}"#;
        let lock = call.lock(serde_json::from_str(body).unwrap()).await.unwrap();
        let id = Uuid::parse_str(lock["id"].as_str().unwrap()).unwrap();
        let now = Instant::now();
        let look = || agent.table().find(id, client.peer, now).unwrap().terms.look(now);
        let before = look();
        agent.quorum.revoke("a").await.unwrap();
        assert!(call.look(id, Some(Duration::from_secs(3_600))).await.is_err());
        assert_eq!((call.keep(id).unwrap_err().status, look()), (StatusCode::GONE, before));
    }
}
