//! Puts what is queued for a node into script calls, and hands out the replies.
//!
//! Whatever is queued at a moment goes into one call; nothing waits for more to come. Calls are pipelined: a far node's round trip is not a
//! queue. Nothing is withdrawn once it was queued.

use std::sync::Arc;
use std::time::Duration;

use fred::clients::Client;
use fred::error::Error as FredError;
use fred::types::Value;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use futures::{FutureExt, poll};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::admission::{Server, parse, source};
use super::connection::{Connection, News, Push, call, fault};
use super::{Job, Shared};
use crate::host::before;
use crate::node::hint::Hint;
use crate::node::reply::{Fault, FaultKind, Outcome, Reply};
use crate::node::script;
use crate::quorum::Tick;

/// How many operations go into one call at most, so that a node is never blocked for long.
const BATCH: usize = 128;
/// How many calls are under way at most. Past that, operations gather into fuller calls.
const FLIGHTS: usize = 16;
/// How many timeouts in a row end a connection.
const TIMEOUTS: u32 = 3;
/// How often a server is asked whether it is still the same.
const PROBE: Duration = Duration::from_secs(5);

/// Why a generation ended.
pub(super) struct End(pub(super) String);

/// A call that came back, or did not.
enum Landed {
    Batch { jobs: Vec<Job>, sent: Tick, received: Tick, result: Result<Value, Failure> },
    Probe { sent: Tick, received: Tick, result: Result<Value, FredError> },
}

/// Why a call has no reply.
enum Failure {
    Fred(FredError),
    /// Another server answers on this connection.
    Replaced,
}

/// The calls of one generation.
pub(super) struct Batcher {
    shared: Arc<Shared>,
    connection: Connection,
    digest: Arc<str>,
    lineage: Arc<str>,
    jobs: mpsc::Receiver<Job>,
    flights: FuturesUnordered<BoxFuture<'static, Landed>>,
    timeouts: u32,
}

impl Batcher {
    pub(super) fn new(
        shared: Arc<Shared>,
        connection: Connection,
        digest: String,
        lineage: String,
        jobs: mpsc::Receiver<Job>,
    ) -> Self {
        let flights = FuturesUnordered::new();
        Self { shared, connection, digest: digest.into(), lineage: lineage.into(), jobs, flights, timeouts: 0 }
    }

    /// Runs until the connection ends or `closing` does. What was queued by then is still sent in the latter case.
    pub(super) async fn run(mut self, closing: &CancellationToken) -> End {
        let mut batch = Vec::with_capacity(BATCH);
        let mut probe = interval(PROBE);
        probe.set_missed_tick_behavior(MissedTickBehavior::Delay);
        probe.reset();
        let closed = closing.cancelled();
        tokio::pin!(closed);
        loop {
            tokio::select! {
                biased;
                news = self.connection.news() => match news {
                    News::Ended(why) => return self.end(why),
                    News::Pushed(push) => self.pushed(&push),
                },
                Some(landed) = self.flights.next(), if !self.flights.is_empty() => {
                    if let Some(why) = self.land(landed) {
                        return self.end(why);
                    }
                }
                _ = self.jobs.recv_many(&mut batch, BATCH), if self.flights.len() < FLIGHTS => self.take_off(&mut batch).await,
                _ = probe.tick() => self.probe().await,
                () = &mut closed => return self.finish().await,
            }
        }
    }

    /// Sends what is queued still, waits for the answers as long as one may take, and ends.
    async fn finish(mut self) -> End {
        self.jobs.close();
        let until = self.shared.host.now() + self.shared.settings.timeout;
        let host = self.shared.host.clone();
        let drained = async {
            let mut batch = Vec::new();
            while self.jobs.recv_many(&mut batch, BATCH).await > 0 {
                self.take_off(&mut batch).await;
            }
            while let Some(landed) = self.flights.next().await {
                self.land(landed);
            }
        };
        let _ = before(&host, until, drained).await;
        End("the quorum was closed".to_owned())
    }

    /// Answers all that was not sent. What was sent answers by itself, when its flight is dropped, that nobody knows.
    fn end(mut self, why: String) -> End {
        self.jobs.close();
        while let Ok(job) = self.jobs.try_recv() {
            self.shared.fail(job.request, Fault::new(FaultKind::Down, format!("down: {why}")));
        }
        End(why)
    }

    async fn take_off(&mut self, batch: &mut Vec<Job>) {
        let sent = self.shared.host.now();
        let timeout = self.shared.settings.timeout;
        let overdue = |job: &mut Job| sent.since(job.submitted) > timeout;
        for job in batch.extract_if(.., overdue) {
            self.shared.fail(job.request, Fault::new(FaultKind::Overloaded, "it waited too long to be sent"));
        }
        if batch.is_empty() {
            return;
        }
        let jobs = std::mem::take(batch);
        let flight = Flight {
            client: self.connection.client(),
            shared: self.shared.clone(),
            digest: self.digest.clone(),
            lineage: self.lineage.clone(),
            sent,
        };
        self.launch(flight.fly(jobs).boxed()).await;
    }

    async fn probe(&mut self) {
        let (client, host) = (self.connection.client(), self.shared.host.clone());
        let sent = host.now();
        let flight = async move {
            let result = call(client, "INFO", vec![]).await;
            Landed::Probe { sent, received: host.now(), result }
        };
        self.launch(flight.boxed()).await;
    }

    /// fred queues a command when its future is polled first: poll now, so that calls go out in order.
    async fn launch(&mut self, mut flight: BoxFuture<'static, Landed>) {
        match poll!(&mut flight) {
            std::task::Poll::Ready(landed) => self.flights.push(futures::future::ready(landed).boxed()),
            std::task::Poll::Pending => self.flights.push(flight),
        }
    }

    fn pushed(&self, push: &Push) {
        let Shared { index, settings, .. } = &*self.shared;
        match push {
            Push::Message(text) => match Hint::parse(settings.listener.client(), text) {
                Some(hint) => settings.listener.hint(*index, &hint),
                None => tracing::debug!(node = %self.shared.label, "a message on the wake-up channel is not a hint"),
            },
            Push::Missed => settings.listener.missed(*index),
        }
    }

    /// Hands out replies. Returns why the generation must end, if it must.
    fn land(&mut self, landed: Landed) -> Option<String> {
        match landed {
            Landed::Batch { jobs, sent, received, result: Ok(value) } => {
                self.timeouts = 0;
                self.answer(jobs, sent, received, value)
            }
            Landed::Batch { jobs, result: Err(Failure::Fred(error)), .. } => {
                let fault = fault(error);
                let ended = self.count(&fault);
                self.fail_all(jobs, &fault);
                ended
            }
            Landed::Batch { jobs, result: Err(Failure::Replaced), .. } => {
                let why = "another server answers at this address";
                self.fail_all(jobs, &Fault::new(FaultKind::Closed, why));
                Some(why.to_owned())
            }
            Landed::Probe { sent, received, result: Ok(value) } => {
                self.timeouts = 0;
                self.probed(sent, received, &value)
            }
            Landed::Probe { result: Err(error), .. } => self.count(&fault(error)),
        }
    }

    fn answer(&self, jobs: Vec<Job>, sent: Tick, received: Tick, value: Value) -> Option<String> {
        let operations = jobs.iter().map(|job| &*job.request.operation);
        let Some((time, replies)) = script::replies(value, operations) else {
            self.fail_all(jobs, &script::garbled());
            return None;
        };
        let doubtful = self.observe(time, sent, received);
        let mut ended = None;
        for (job, reply) in jobs.into_iter().zip(replies) {
            let reply = if doubtful { doubted(reply) } else { reply };
            if demoted(&reply) {
                self.shared.state().guard.demoted();
                ended = Some("it has become a replica".to_owned());
            }
            self.deliver(job, received, reply);
        }
        ended
    }

    /// Returns whether grants that came with this time are in doubt: the clock was stepped now, or a little before, while they were on their way.
    fn observe(&self, time: Duration, sent: Tick, received: Tick) -> bool {
        let mut state = self.shared.state();
        state.round_trip = Some(received.since(sent));
        let stepped = state.guard.observe(time, sent, received);
        let doubtful = state.guard.quarantined(received).is_some();
        drop(state);
        if stepped {
            self.note(stepped, doubtful);
        }
        doubtful
    }

    fn deliver(&self, job: Job, received: Tick, reply: Reply) {
        let Job { request, submitted } = job;
        let verb = request.operation.verb;
        self.shared.meters.round_trip(verb, received.since(submitted));
        self.shared.meters.answered(verb, reply.as_ref().map_or_else(|fault| fault.kind().as_str(), Outcome::as_str));
        request.reply.send(reply);
    }

    fn fail_all(&self, jobs: Vec<Job>, fault: &Fault) {
        for job in jobs {
            self.shared.fail(job.request, fault.clone());
        }
    }

    fn count(&mut self, fault: &Fault) -> Option<String> {
        self.timeouts = if fault.kind() == FaultKind::Timeout { self.timeouts + 1 } else { 0 };
        (self.timeouts >= TIMEOUTS).then(|| format!("{TIMEOUTS} answers in a row did not come in time"))
    }

    fn probed(&self, sent: Tick, received: Tick, value: &Value) -> Option<String> {
        let server = parse(value)?;
        if *server.lineage != *self.lineage {
            return Some("another server answers at this address".to_owned());
        }
        if !server.master {
            self.shared.state().guard.demoted();
            return Some("it has become a replica".to_owned());
        }
        self.keep(server, sent, received);
        None
    }

    fn keep(&self, server: Server, sent: Tick, received: Tick) {
        let mut state = self.shared.state();
        state.round_trip = Some(received.since(sent));
        let stepped = state.guard.meet(&server.lineage, server.uptime, server.time, sent, received);
        let quarantined = state.guard.quarantined(received).is_some();
        state.server = Some(server);
        drop(state);
        self.note(stepped, quarantined);
    }

    fn note(&self, stepped: bool, quarantined: bool) {
        if stepped {
            tracing::warn!(node = %self.shared.label, "this node's clock was stepped; it votes on no claim for max_ttl");
        }
        self.shared.meters.quarantined(quarantined);
    }
}

/// One script call on its way.
struct Flight {
    client: Client,
    shared: Arc<Shared>,
    digest: Arc<str>,
    lineage: Arc<str>,
    sent: Tick,
}

impl Flight {
    async fn fly(self, jobs: Vec<Job>) -> Landed {
        let arguments = self.arguments(&self.digest, &jobs);
        let result = match call(self.client.clone(), "EVALSHA", arguments).await {
            Err(error) if error.details().starts_with("NOSCRIPT") => self.reload(&jobs).await,
            result => result.map_err(Failure::Fred),
        };
        Landed::Batch { jobs, sent: self.sent, received: self.shared.host.now(), result }
    }

    /// NOSCRIPT means that nothing ran, so the same may be sent again, whole. It may also be the first sign of a restarted server behind a proxy, so
    /// who carried it out is asked afterwards: a grant by another server is none, and is released. All within what is left of the call's time.
    async fn reload(&self, jobs: &[Job]) -> Result<Value, Failure> {
        let until = self.sent + self.shared.settings.timeout;
        let again = async {
            let arguments = self.arguments(&source(&self.lineage), jobs);
            let value = call(self.client.clone(), "EVAL", arguments).await.map_err(Failure::Fred)?;
            let info = call(self.client.clone(), "INFO", vec![]).await.map_err(Failure::Fred)?;
            let same = parse(&info).is_some_and(|server| *server.lineage == *self.lineage);
            if same { Ok(value) } else { Err(Failure::Replaced) }
        };
        let late = || FredError::new(fred::error::ErrorKind::Timeout, "no time was left to load the script");
        before(&self.shared.host, until, again).await.unwrap_or_else(|| Err(Failure::Fred(late())))
    }

    fn arguments(&self, script: &str, jobs: &[Job]) -> Vec<Value> {
        let operations = jobs.iter().map(|job| &*job.request.operation);
        let settings = &self.shared.settings;
        script::arguments(script, settings.retention, &settings.channel, operations)
    }
}

/// A grant by a node that is quarantined since it was asked may rest on a hold that ended early. It is no vote, and must be cleaned up.
fn doubted(reply: Reply) -> Reply {
    match reply {
        Ok(Outcome::Granted | Outcome::Passed { .. }) => {
            Err(Fault::new(FaultKind::Rejected, "it is quarantined, so its grant cannot be trusted"))
        }
        other => other,
    }
}

fn demoted(reply: &Reply) -> bool {
    matches!(reply, Err(fault) if fault.to_string().starts_with("READONLY"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::operation::Verb;

    #[test]
    fn only_grants_of_a_quarantined_node_are_doubted() {
        assert!(doubted(Ok(Outcome::Granted)).is_err_and(|fault| !fault.nothing_ran()));
        assert!(doubted(Ok(Outcome::Extended)).is_ok());
    }

    #[test]
    fn verbs_keep_their_order_in_metrics() {
        assert_eq!(Verb::ALL.map(|verb| verb as usize), [0, 1, 2, 3, 4]);
    }
}
