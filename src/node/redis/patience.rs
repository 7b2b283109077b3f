//! For how long commands may be on their way: one timer for all of a connection.
//!
//! It wakes the batcher when the first of them has had its time.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::host::{Host, sleep_until};
use crate::rules::Tick;

/// Where a timer is so much late, the process stood still.
const LATE: Duration = Duration::from_millis(5);
/// Then answers may have come that nobody has read yet: there is so much time to do that.
const READS: Duration = Duration::from_millis(50);

pub(super) struct Patience {
    host: Arc<dyn Host>,
    /// How long one may take.
    timeout: Duration,
    timer: Option<BoxFuture<'static, ()>>,
}

impl Patience {
    pub(super) const fn new(host: Arc<dyn Host>, timeout: Duration) -> Self {
        Self { host, timeout, timer: None }
    }

    pub(super) fn host(&self) -> &dyn Host {
        &*self.host
    }

    /// Whether a command that was sent then has had its time.
    pub(super) fn has_ended(&self, sent: Tick, now: Tick) -> bool {
        now >= sent + self.timeout
    }

    /// Whether one may have had its time by now, of which the first was sent at `first`. No command
    /// that is sent later, or again, ends before the one that the timer runs for.
    pub(super) fn poll(&mut self, first: Option<Tick>, context: &mut Context<'_>) -> Poll<()> {
        if self.timer.is_none()
            && let Some(first) = first
        {
            self.timer = Some(timer(self.host.clone(), first + self.timeout).boxed());
        }
        let Some(timer) = &mut self.timer else { return Poll::Pending };
        timer.poll_unpin(context).map(|()| self.timer = None)
    }
}

async fn timer(host: Arc<dyn Host>, end: Tick) {
    sleep_until(&host, end).await;
    let now = host.now();
    if now.since(end) >= LATE {
        sleep_until(&host, now + READS).await;
    }
}
