//! The runtime on which a `Quorum` was connected. After the end of this runtime, the `Quorum`
//! renews, sends and receives nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result, no_runtime, runtime_ended};
use crate::host::can_wait;

/// Whether the `Quorum` can still be used.
#[derive(Debug, Default)]
pub(crate) struct RuntimeHandle {
    /// Cancelled by a shutdown, and at the runtime's end.
    pub(crate) shut: CancellationToken,
    ended: AtomicBool,
}

/// A task of the runtime holds this value. When the runtime ends, it drops the task, and so this
/// value.
pub(super) struct Resident(Option<Arc<RuntimeHandle>>);

impl RuntimeHandle {
    pub(super) const fn resident(home: Arc<Self>) -> Resident {
        Resident(Some(home))
    }

    /// Whether the runtime ended before the `Quorum` was shut down.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Fails after a shutdown or the runtime's end, or if the caller cannot wait for replies.
    pub(crate) fn usable(&self) -> Result<()> {
        if self.shut.is_cancelled() {
            return Err(self.closed());
        }
        self.can_wait()
    }

    /// Fails after the runtime's end, or if the caller cannot wait for replies.
    pub(crate) fn can_wait(&self) -> Result<()> {
        match can_wait() {
            _ if self.has_ended() => Err(runtime_ended()),
            true => Ok(()),
            false => Err(no_runtime()),
        }
    }

    /// The error for calls after a shutdown or after the runtime's end.
    pub(crate) fn closed(&self) -> Error {
        if self.has_ended() { runtime_ended() } else { Error::closed() }
    }
}

impl Resident {
    /// Call this when the task ends by itself, so that the drop of this value does not count as the
    /// runtime's end.
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
