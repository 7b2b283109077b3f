//! The runtime that a quorum was connected on. Without it, nothing is renewed, sent or received.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result, no_runtime, runtime_ended};
use crate::host::can_wait;

/// Whether the quorum can still be used.
#[derive(Debug, Default)]
pub(crate) struct RuntimeHandle {
    /// Cancelled by a shutdown, and at the runtime's end.
    pub(crate) shut: CancellationToken,
    ended: AtomicBool,
}

/// Held by a task of that runtime. At its end, the runtime drops the task and this value.
pub(super) struct Resident(Option<Arc<RuntimeHandle>>);

impl RuntimeHandle {
    pub(super) const fn resident(home: Arc<Self>) -> Resident {
        Resident(Some(home))
    }

    /// Whether the runtime ended before the quorum was shut down.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Fails after the end, or if this code cannot wait for replies here.
    pub(crate) fn usable(&self) -> Result<()> {
        if self.shut.is_cancelled() {
            return Err(self.closed());
        }
        self.can_wait()
    }

    /// Fails if this code cannot wait for replies here and now.
    pub(crate) fn can_wait(&self) -> Result<()> {
        match can_wait() {
            _ if self.has_ended() => Err(runtime_ended()),
            true => Ok(()),
            false => Err(no_runtime()),
        }
    }

    /// The error for calls after the end.
    pub(crate) fn closed(&self) -> Error {
        if self.has_ended() { runtime_ended() } else { Error::closed() }
    }
}

impl Resident {
    /// The task has ended by itself, and not with the runtime.
    pub(super) fn leaves(mut self) {
        self.0 = None;
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        if let Some(home) = &self.0 {
            home.ended.store(!home.shut.is_cancelled(), Ordering::Release);
            home.shut.cancel();
        }
    }
}
