//! The runtime of a quorum that is used without async, and common code of the types in this module.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::{Error, ErrorKind, Result};
use crate::lease::Released;
use crate::lock::Quorum;
use crate::rules::LostReason;

/// How long the last drop waits for releases: if `main` returns after that drop, nothing is sent
/// any more.
const FLUSH: Duration = Duration::from_millis(250);

/// How long releases may go on after the last drop. Nobody waits for them, so this is long: on a
/// busy machine, many releases take their time.
const FAREWELL: Duration = Duration::from_secs(30);

/// A quorum and the runtime that it lives on. Shared by its handles, locks and guards.
#[derive(Debug)]
pub(super) struct Worker {
    quorum: Quorum,
    /// `None` only while this value is being dropped.
    runtime: Option<Runtime>,
}

impl Worker {
    /// Starts a runtime, and on it a quorum.
    fn start(opened: impl Future<Output = Result<Quorum>>) -> Result<Arc<Self>> {
        refuse_within_a_runtime()?;
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("quorumlock").enable_all().build();
        let runtime = runtime.map_err(|error| {
            let message = format!("the quorum's thread could not be started: {error}");
            Error::new(ErrorKind::Unavailable, message).with_source(Some(Arc::new(error)))
        })?;
        match runtime.block_on(opened) {
            Ok(quorum) => Ok(Arc::new(Self { quorum, runtime: Some(runtime) })),
            Err(error) => {
                // A plain drop of the runtime would wait for a name server that does not answer.
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    /// Waits for `future` on this thread.
    pub(super) fn wait<T>(&self, future: impl Future<Output = T>) -> Result<T> {
        refuse_within_a_runtime()?;
        // The runtime is taken away only when the last handle is dropped.
        let runtime = self.runtime.as_ref().ok_or_else(Error::closed)?;
        Ok(runtime.block_on(future))
    }

    /// Waits for `future` on this thread, for `patience` at most.
    pub(super) fn within<T>(&self, patience: Duration, future: impl Future<Output = T>) -> Result<Option<T>> {
        self.wait(self.quorum.within(patience, future))
    }
}

impl Drop for Worker {
    /// Waits for releases a little. But within a Tokio runtime nobody may wait. The quorum's
    /// runtime ends itself when the releases have been confirmed, or after `FAREWELL`.
    ///
    /// This does not call `block_on`: that call would panic in the destructor of a thread-local.
    /// And it would not return while the quorum's thread writes to a log that is blocked.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            let quorum = self.quorum.clone();
            let (sends, settled) = std::sync::mpsc::channel::<()>();
            runtime.handle().clone().spawn(async move {
                quorum.settled(FLUSH).await;
                drop(sends);
                quorum.settled(FAREWELL).await;
                drop(quorum);
                runtime.shutdown_background();
            });
            if refuse_within_a_runtime().is_ok() {
                let _ = settled.recv_timeout(FLUSH);
            }
        }
    }
}

/// Refuses a call within a Tokio runtime: waiting would keep the runtime's thread from everything
/// else, and Tokio would panic.
pub(super) fn refuse_within_a_runtime() -> Result<()> {
    match Handle::try_current() {
        Err(_) => Ok(()),
        Ok(_) => Err(Error::config(
            "quorumlock::blocking was called within a Tokio runtime; use quorumlock::Quorum there, or a thread of \
             std::thread::spawn",
        )),
    }
}

/// A value of the async API, and the runtime that it lives on. Each type here contains one.
#[derive(Clone)]
pub(super) struct Blocking<T> {
    // Declared before `worker`, so dropped first: the runtime must still send the releases that
    // this drop makes.
    pub(super) inner: T,
    pub(super) worker: Arc<Worker>,
}

impl Blocking<Quorum> {
    /// Starts a runtime, and on it a quorum.
    pub(super) fn start(opened: impl Future<Output = Result<Quorum>>) -> Result<Self> {
        let worker = Worker::start(opened)?;
        Ok(Self { inner: worker.quorum.clone(), worker })
    }
}

impl<T> Blocking<T> {
    /// Another value on the same runtime.
    pub(super) fn wrap<U>(&self, inner: U) -> Blocking<U> {
        Blocking { inner, worker: self.worker.clone() }
    }

    /// Waits for `future` on this thread.
    pub(super) fn wait<U>(&self, future: impl Future<Output = Result<U>>) -> Result<U> {
        self.worker.wait(future)?
    }

    /// Waits as [`wait`](Self::wait), and wraps the value.
    pub(super) fn wrapped<U>(&self, future: impl Future<Output = Result<U>>) -> Result<Blocking<U>> {
        Ok(self.wrap(self.wait(future)?))
    }

    /// Waits for `outcome`, for `timeout` at most, and returns the reason if the lock was lost by
    /// then.
    pub(super) fn lost(
        &self,
        timeout: Duration,
        outcome: impl Future<Output = Option<LostReason>>,
    ) -> Result<Option<LostReason>> {
        Ok(self.worker.within(timeout, outcome)?.flatten())
    }
}

/// Logs a release that no quorum confirmed, after a body has ended. This is no error: the body's
/// work was done while the lock was held.
pub(super) fn confirmed(released: Result<Released>) {
    if let Err(error) = released {
        tracing::warn!(%error, "released without confirmation");
    }
}

/// `Debug` for types whose first field is a [`Blocking`], with the output of the async type.
macro_rules! debug_as_async {
    ($($Type:ident),+) => {$(
        impl std::fmt::Debug for $Type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&self.0.inner, f)
            }
        }
    )+};
}
pub(super) use debug_as_async;

/// What all guards have in common. A guard is `struct Guard(Blocking<crate::Guard>, Lease)`, and
/// dereferences to its second field. `release` is the method that gives the guard up. With `pub` in
/// front of `release`, this macro defines that method as well.
macro_rules! guard {
    ($Guard:ident, $Lease:ident, pub $release:ident) => {
        super::worker::guard!($Guard, $Lease, $release);

        impl $Guard {
            /// Gives this up, and waits until a quorum has confirmed the release: see
            #[doc = concat!("[the async method](crate::", stringify!($Guard), "::", stringify!($release), ").")]
            ///
            /// # Errors
            /// `Unavailable` if too few nodes answered in time; `Config` within a Tokio runtime. In
            /// both cases the release goes on in the background. On nodes that it does not reach,
            /// the hold expires by itself.
            pub fn $release(self) -> Result<crate::lease::Released> {
                self.0.worker.wait(self.0.inner.$release())?
            }
        }
    };
    ($Guard:ident, $Lease:ident, $release:ident) => {
        impl $Guard {
            pub(super) fn new(guard: Blocking<crate::$Guard>) -> Self {
                let lease = $Lease::new(guard.wrap(guard.inner.lease()));
                Self(guard, lease)
            }

            /// A view that can be shared. Only the guard keeps what it holds.
            #[must_use]
            pub fn lease(&self) -> $Lease {
                self.1.clone()
            }

            /// Runs `body` while the guard is held, and then gives the guard up. If `body` panics,
            /// the guard is dropped.
            pub(super) fn while_held<T>(self, body: impl FnOnce(&$Lease) -> T) -> Result<T> {
                let output = body(&self);
                self.ensure(std::time::Duration::ZERO)?;
                super::worker::confirmed(self.$release());
                Ok(output)
            }
        }

        impl std::ops::Deref for $Guard {
            type Target = $Lease;

            fn deref(&self) -> &$Lease {
                &self.1
            }
        }

        super::worker::debug_as_async!($Guard);
    };
}
pub(super) use guard;
