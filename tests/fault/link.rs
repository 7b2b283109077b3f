//! Messages on their way between a client and a node, and the effects of injected faults on these
//! messages.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use quorumlock::host::{Host, sleep_until};
use quorumlock::node::trust::trusted;
use quorumlock::node::{Fault, FaultKind, Node, Operation, Outcome, Reply, ReplyTo, Request, Sink, Verb};
use quorumlock::rules::Tick;
use quorumlock::rules::doubt::Trust;

/// Default time limit for an answer, as for real nodes.
const TIMEOUT: Duration = Duration::from_secs(1);

pub(super) struct Link {
    pub(super) host: Arc<dyn Host>,
    pub(super) state: Mutex<State>,
}

pub(super) struct State {
    pub(super) node: Arc<dyn Node>,
    pub(super) timeout: Duration,
    pub(super) request_delay: Duration,
    pub(super) reply_delay: Duration,
    pub(super) reorders: bool,
    pub(super) requests_to_lose: u32,
    pub(super) replies_to_lose: u32,
    pub(super) paused: bool,
    pub(super) down: bool,
    pub(super) held_back: Option<Verb>,
    pub(super) quarantine: Tick,
    /// From this time on, the node's votes on renewals count.
    pub(super) settled: Tick,
    /// Requests on their way to the node, in the order of sending.
    pub(super) requests: VecDeque<Sent>,
    /// Replies on their way back.
    pub(super) replies: VecDeque<Answer>,
    /// Whether a caller moves messages on now. Only one caller at a time does, to keep their order.
    pub(super) pumping: bool,
    /// How often the node died. Answers from before its last death never arrive.
    pub(super) life: u64,
    pub(super) asked: [u64; Verb::ALL.len()],
    /// At how many moments requests were submitted, and the last of these moments.
    pub(super) calls: (u64, Tick),
    pub(super) hints_lost: bool,
    pub(super) hints_doubled: bool,
}

/// A request on its way.
pub(super) struct Sent {
    due: Tick,
    operation: Arc<Operation>,
    pub(super) waiting: Arc<Waiting>,
}

/// A reply on its way.
pub(super) struct Answer {
    due: Tick,
    pub(super) waiting: Arc<Waiting>,
    reply: Reply,
}

/// The next message to move on.
enum Step {
    Request(Arc<dyn Node>, Sent),
    Reply(Answer),
}

/// The receiver of the answer to one request; empty once the answer was given.
pub(super) struct Waiting {
    link: Weak<Link>,
    life: u64,
    reply: Mutex<Option<ReplyTo>>,
}

impl Link {
    pub(super) fn submit(self: &Arc<Self>, request: Request) {
        let Request { operation, reply } = request;
        let now = self.host.now();
        let mut state = self.state();
        state.asked[operation.verb() as usize] += 1;
        state.calls = (state.calls.0 + u64::from(state.calls.1 != now), now);
        if let Some(fault) = state.refusal(operation.verb(), now) {
            drop(state);
            return reply.send(Err(fault));
        }
        let waiting = Waiting { link: Arc::downgrade(self), life: state.life, reply: Mutex::new(Some(reply)) };
        let waiting = Arc::new(waiting);
        let timeout = now + state.timeout;
        let lost = take(&mut state.requests_to_lose);
        let due = state.due(now, state.request_delay, state.requests.back().map(|sent| sent.due), &*self.host);
        if !lost {
            state.requests.push_back(Sent { due, operation, waiting: waiting.clone() });
        }
        drop(state);
        self.pump_at(due);
        if waiting.is_open() {
            self.time_out(timeout, waiting);
        }
    }

    /// Moves messages on at `due`, which may be now.
    fn pump_at(self: &Arc<Self>, due: Tick) {
        if due <= self.host.now() {
            return self.pump();
        }
        let (link, host) = (Arc::downgrade(self), self.host.clone());
        self.host.spawn(Box::pin(async move {
            sleep_until(&host, due).await;
            if let Some(link) = link.upgrade() {
                link.pump();
            }
        }));
    }

    /// Carries out the requests that are due, and delivers the replies that are due. Both may lead
    /// to new messages, which the same loop moves on.
    pub(super) fn pump(self: &Arc<Self>) {
        if std::mem::replace(&mut self.state().pumping, true) {
            return;
        }
        while let Some(step) = self.next() {
            match step {
                Step::Request(node, sent) => {
                    node.submit(Request { operation: sent.operation, reply: ReplyTo::new(0, sent.waiting) });
                }
                Step::Reply(answer) => answer.waiting.answer(answer.reply),
            }
        }
    }

    fn next(&self) -> Option<Step> {
        let now = self.host.now();
        let mut state = self.state();
        let step = state.next(now);
        state.pumping = step.is_some();
        step
    }

    fn answered(self: &Arc<Self>, waiting: Arc<Waiting>, reply: Reply) {
        let now = self.host.now();
        let mut state = self.state();
        if waiting.life != state.life {
            drop(state);
            return waiting.answer(Err(closed()));
        }
        if take(&mut state.replies_to_lose) {
            return;
        }
        let mut reply = trusted(reply, Trust { grants: true, extensions: now >= state.settled });
        if let Ok(Outcome::Held { queued: Some(queued), .. }) = &mut reply {
            queued.stamp.generation = waiting.life;
        }
        let due = state.due(now, state.reply_delay, state.replies.back().map(|answer| answer.due), &*self.host);
        state.replies.push_back(Answer { due, waiting, reply });
        drop(state);
        self.pump_at(due);
    }

    fn time_out(&self, at: Tick, waiting: Arc<Waiting>) {
        let host = self.host.clone();
        self.host.spawn(Box::pin(async move {
            sleep_until(&host, at).await;
            waiting.answer(Err(Fault::new(FaultKind::Timeout, "no answer in time")));
        }));
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    pub(super) fn new(node: Arc<dyn Node>) -> Self {
        Self {
            node,
            timeout: TIMEOUT,
            request_delay: Duration::ZERO,
            reply_delay: Duration::ZERO,
            reorders: false,
            requests_to_lose: 0,
            replies_to_lose: 0,
            paused: false,
            down: false,
            held_back: None,
            quarantine: Tick::default(),
            settled: Tick::default(),
            requests: VecDeque::new(),
            replies: VecDeque::new(),
            pumping: false,
            life: 0,
            asked: [0; Verb::ALL.len()],
            calls: (0, Tick::NEVER),
            hints_lost: false,
            hints_doubled: false,
        }
    }

    /// The fault with which a request is refused at once, without asking the node.
    fn refusal(&self, verb: Verb, now: Tick) -> Option<Fault> {
        if self.down {
            return Some(Fault::new(FaultKind::Down, "down: the connection ended"));
        }
        (verb == Verb::Claim && now < self.quarantine)
            .then(|| Fault::new(FaultKind::Quarantined, "quarantined: it restarted, and may have forgotten locks"))
    }

    /// When a message that is sent `now` arrives. It arrives no earlier than the previous message
    /// (`before`), except if messages may overtake each other.
    fn due(&self, now: Tick, delay: Duration, before: Option<Tick>, host: &dyn Host) -> Tick {
        if self.reorders {
            #[allow(clippy::cast_precision_loss)]
            let share = (host.random() >> 11) as f64 / (1u64 << 53) as f64;
            return now + delay.mul_f64(share);
        }
        before.unwrap_or_default().max(now + delay)
    }

    /// The first message that is due. Replies come before requests, since the node sends its
    /// answers before it carries out more requests.
    fn next(&mut self, now: Tick) -> Option<Step> {
        if self.paused {
            return None;
        }
        if let Some(at) = self.replies.iter().position(|answer| answer.due <= now) {
            return self.replies.remove(at).map(Step::Reply);
        }
        let ready = |sent: &Sent| sent.due <= now && self.held_back != Some(sent.operation.verb());
        let at = self.requests.iter().position(ready)?;
        let sent = self.requests.remove(at)?;
        Some(Step::Request(self.node.clone(), sent))
    }
}

impl Waiting {
    pub(super) fn answer(&self, reply: Reply) {
        let waiting = self.reply.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waiting) = waiting {
            waiting.send(reply);
        }
    }

    fn is_open(&self) -> bool {
        self.reply.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

impl Sink for Waiting {
    fn deliver(self: Arc<Self>, _: usize, reply: Reply) {
        if let Some(link) = self.link.upgrade() {
            link.answered(self, reply);
        }
    }
}

pub(super) fn closed() -> Fault {
    Fault::new(FaultKind::Closed, "the connection ended before the answer")
}

/// Takes one from a budget. Returns false if the budget is empty.
const fn take(budget: &mut u32) -> bool {
    let left = *budget > 0;
    *budget = budget.saturating_sub(1);
    left
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Link").field("node", &state.node).field("down", &state.down).finish_non_exhaustive()
    }
}
