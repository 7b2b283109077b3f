//! The time limit of commands, with one timer for all commands of a connection.
//!
//! The timer wakes the batcher when the oldest command may have timed out.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::host::{Host, sleep_until};
use crate::rules::Tick;

/// A timer that is this late shows that the process stood still.
const LATE: Duration = Duration::from_millis(5);
/// Extra time after the process stood still, to read the replies that have come meanwhile.
const READS: Duration = Duration::from_millis(50);
/// This many timeouts in a row end a connection.
pub(super) const TIMEOUTS: u32 = 3;

pub(super) struct Patience {
    host: Arc<dyn Host>,
    /// How long one command may take.
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

    /// Whether a command that was sent at `sent` has timed out.
    pub(super) fn has_ended(&self, sent: Tick, now: Tick) -> bool {
        now >= sent + self.timeout
    }

    /// Ready if a command may have timed out. `first` is when the oldest command was sent. One
    /// timer is enough, because no command times out before the oldest one.
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
