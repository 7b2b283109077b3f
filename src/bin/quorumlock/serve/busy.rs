//! Counts the requests of a connection, and measures for how long the connection is idle.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub(super) struct Requests(Mutex<State>);

struct State {
    begun: u64,
    busy: u32,
    /// When the last answer was ready, or the connection began.
    since: Instant,
}

impl Requests {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State { begun: 0, busy: 0, since: Instant::now() }))
    }

    /// Counts a request. The request is being answered until the returned value is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Busy {
        let mut state = self.state();
        state.begun += 1;
        state.busy += 1;
        Busy(self.clone())
    }

    /// The number of requests so far, if none is being answered.
    pub(super) fn idle_after(&self) -> Option<u64> {
        let state = self.state();
        (state.busy == 0).then_some(state.begun)
    }

    /// For how long the connection has been idle.
    pub(super) fn idle(&self) -> Duration {
        let state = self.state();
        if state.busy > 0 { Duration::ZERO } else { state.since.elapsed() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Busy(Arc<Requests>);

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.busy -= 1;
        state.since = Instant::now();
    }
}
