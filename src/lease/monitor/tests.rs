//! Tests which renewals are under way, and which wait.

use std::sync::Mutex;
use std::time::Duration;

use futures::future::BoxFuture;

use super::*;
use crate::host::TokioTime;

/// A fake lease. Its renewal ends when a test calls `answers`.
struct Lease {
    number: usize,
    deadline: Mutex<Tick>,
    sends: usize,
    begun: Arc<Mutex<Vec<usize>>>,
    answered: CancellationToken,
}

impl Timed for Lease {
    fn deadline(&self) -> Option<Tick> {
        Some(*self.deadline.lock().unwrap())
    }

    fn sends(&self) -> usize {
        self.sends
    }

    fn renewal(self: Arc<Self>) -> BoxFuture<'static, ()> {
        self.begun.lock().unwrap().push(self.number);
        self.answered.clone().cancelled_owned().boxed()
    }

    fn deadline_reached(self: Arc<Self>) {}

    fn doubted(self: Arc<Self>, _: NodeSet) {}

    fn lose(&self, _: LostReason) {}

    #[cfg(feature = "testing")]
    fn holds(&self, _: &Name) -> bool {
        false
    }
}

/// A monitor, and the renewals that it has begun.
struct Stage {
    host: Arc<dyn Host>,
    schedule: Arc<Schedule<dyn Timed>>,
    begun: Arc<Mutex<Vec<usize>>>,
    leases: Vec<Arc<Lease>>,
    _pending: mpsc::Sender<Arc<dyn PendingRelease>>,
    _closing: tokio_util::sync::DropGuard,
}

impl Stage {
    fn new() -> Self {
        let host: Arc<dyn Host> = Arc::new(TokioTime::new(tokio::runtime::Handle::current()));
        let (schedule, closing) = (Arc::new(Schedule::new()), CancellationToken::new());
        let (sender, pending) = mpsc::channel(1);
        let (doubts, release_tasks) = (Arc::default(), Arc::default());
        host.spawn(Box::pin(run(host.clone(), schedule.clone(), doubts, release_tasks, pending, closing.clone())));
        let (begun, _closing) = (Arc::default(), closing.drop_guard());
        Self { host, schedule, begun, leases: Vec::new(), _pending: sender, _closing }
    }

    /// Adds a lease that is due for renewal, and whose deadline is `left` seconds from now.
    fn due(&mut self, left: u64, sends: usize) {
        let deadline = Mutex::new(self.seconds(left));
        let (number, begun, answered) = (self.leases.len(), self.begun.clone(), CancellationToken::new());
        self.leases.push(Arc::new(Lease { number, deadline, sends, begun, answered }));
        self.again(number);
    }

    fn again(&self, number: usize) {
        let lease: Arc<dyn Timed> = self.leases[number].clone();
        self.schedule.add(self.host.now(), Event::Renew(Arc::downgrade(&lease)));
    }

    fn seconds(&self, left: u64) -> Tick {
        self.host.now() + Duration::from_secs(left)
    }

    /// Ends the renewal of this lease.
    fn answers(&self, number: usize) {
        self.leases[number].answered.cancel();
    }

    /// The renewals that have begun after the last call. The paused clock moves only when the
    /// monitor is idle, so the sleep waits for the monitor.
    async fn begun(&self) -> Vec<usize> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        std::mem::take(&mut *self.begun.lock().unwrap())
    }
}

/// A stage with as many renewals under way as allowed. None of them ends by itself.
async fn busy() -> Stage {
    let mut stage = Stage::new();
    (0..RENEWALS).for_each(|_| stage.due(60, 1));
    assert_eq!(stage.begun().await.len(), RENEWALS);
    stage
}

#[tokio::test(start_paused = true)]
async fn renewals_after_a_stall_start_with_the_nearest_deadlines() {
    let mut stage = Stage::new();
    (0..RENEWALS + 100).rev().for_each(|left| stage.due(left as u64, 1));
    let late: Vec<_> = stage.begun().await.into_iter().filter(|number| *number < 100).collect();
    assert_eq!(late, [0; 0], "the latest deadlines wait");
    stage.answers(RENEWALS);
    assert_eq!(stage.begun().await, [99], "the next deadline");
}

#[tokio::test(start_paused = true)]
async fn lease_added_later_with_less_time_is_renewed_first() {
    let mut stage = busy().await;
    [50, 40, 40, 3].into_iter().for_each(|left| stage.due(left, 1));
    assert_eq!(stage.begun().await, [0; 0]);
    stage.due(2, 1);
    (0..5).for_each(|number| stage.answers(number));
    let order = [4, 3, 1, 2, 0].map(|waiting| RENEWALS + waiting);
    assert_eq!(stage.begun().await, order, "equal deadlines keep their order");
}

#[tokio::test(start_paused = true)]
async fn a_lease_waits_once_and_where_its_deadline_of_now_puts_it() {
    let mut stage = busy().await;
    let (first, second) = (RENEWALS, RENEWALS + 1);
    [20, 30].into_iter().for_each(|left| stage.due(left, 1));
    assert_eq!(stage.begun().await, [0; 0]);
    // Both are due again, the second with a nearer deadline.
    *stage.leases[second].deadline.lock().unwrap() = stage.seconds(3);
    [first, second, second].into_iter().for_each(|number| stage.again(number));
    assert_eq!(stage.begun().await, [0; 0]);
    (0..9).for_each(|number| stage.answers(number));
    assert_eq!(stage.begun().await, [second, first]);
}

#[tokio::test(start_paused = true)]
async fn leases_that_are_gone_take_no_turn() {
    let mut stage = busy().await;
    [20, 30].into_iter().for_each(|left| stage.due(left, 1));
    assert_eq!(stage.begun().await, [0; 0]);
    stage.leases.swap_remove(RENEWALS);
    stage.answers(0);
    assert_eq!(stage.begun().await, [RENEWALS + 1]);
}

#[tokio::test(start_paused = true)]
async fn large_sessions_renewed_at_once_fit_the_calls_in_flight() {
    let mut stage = Stage::new();
    [5, 4, 3, 2, 1].into_iter().for_each(|left| stage.due(left, 10_000));
    assert_eq!(stage.begun().await, [4, 3]);
    stage.due(60, 1);
    assert_eq!(stage.begun().await, [5], "a small one waits for no large one");
    stage.answers(4);
    assert_eq!(stage.begun().await, [2]);
    (0..5).for_each(|number| stage.answers(number));
    assert_eq!(stage.begun().await, [1, 0]);
}

#[tokio::test(start_paused = true)]
async fn renewal_of_one_large_session_delays_no_other() {
    let mut stage = Stage::new();
    stage.due(1, 10_000);
    [2, 3].into_iter().for_each(|left| stage.due(left, 1));
    stage.due(4, 10_000);
    assert_eq!(stage.begun().await, [0, 1, 2, 3]);
}
