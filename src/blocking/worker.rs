//! The runtime of a quorum for threads, and code that the types of `blocking` share.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::{Error, ErrorKind, Result};
use crate::lease::Released;
use crate::lock::Quorum;
use crate::rules::LostReason;

/// How long dropping the last handle waits for releases. Releases that take longer may not be sent
/// if `main` returns.
const FLUSH: Duration = Duration::from_millis(250);

/// How long releases may go on after `FLUSH`. This time is long because no caller waits for it, and
/// many releases take long on a busy machine.
const FAREWELL: Duration = Duration::from_secs(30);

/// A quorum and its runtime. All handles, locks and guards of the quorum share this value.
#[derive(Debug)]
pub(super) struct Worker {
    quorum: Quorum,
    /// `None` only while this value is being dropped.
    runtime: Option<Runtime>,
}

impl Worker {
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
                // Dropping the runtime would wait for blocked work, such as a lookup at a name
                // server that does not answer.
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    /// Waits for `future` on this thread.
    pub(super) fn wait<T>(&self, future: impl Future<Output = T>) -> Result<T> {
        refuse_within_a_runtime()?;
        // `runtime` is `Some` here: only `drop` takes it, and nobody can call `wait` after `drop`.
        let runtime = self.runtime.as_ref().ok_or_else(Error::closed)?;
        Ok(runtime.block_on(future))
    }

    /// As `wait`, for `patience` at most.
    pub(super) fn within<T>(&self, patience: Duration, future: impl Future<Output = T>) -> Result<Option<T>> {
        self.wait(self.quorum.within(patience, future))
    }
}

impl Drop for Worker {
    /// Waits for releases, for `FLUSH` at most. Within a Tokio runtime, does not wait. A task on
    /// the quorum's runtime ends that runtime when all releases have been confirmed, or after
    /// `FLUSH` and `FAREWELL`.
    ///
    /// Does not call `block_on`: `block_on` would panic in the destructor of a thread-local, and
    /// would not return while the quorum's thread writes to a log that is blocked.
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

/// Returns an error within a Tokio runtime: Tokio would panic, because waiting would keep the
/// runtime's thread from all other work.
pub(super) fn refuse_within_a_runtime() -> Result<()> {
    match Handle::try_current() {
        Err(_) => Ok(()),
        Ok(_) => Err(Error::config(
            "quorumlock::blocking was called within a Tokio runtime; use quorumlock::Quorum there, or a thread of \
             std::thread::spawn",
        )),
    }
}

/// A value of the async API, and the worker on whose runtime it lives. Each type of `blocking`
/// contains a `Blocking`.
#[derive(Clone)]
pub(super) struct Blocking<T> {
    // Declared before `worker`, and so dropped before it: the drop sends releases, which need the
    // runtime.
    pub(super) inner: T,
    pub(super) worker: Arc<Worker>,
}

impl Blocking<Quorum> {
    /// Starts a runtime, and on this runtime the quorum that `opened` returns.
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

    pub(super) fn wait<U>(&self, future: impl Future<Output = Result<U>>) -> Result<U> {
        self.worker.wait(future)?
    }

    /// Waits as [`wait`](Self::wait) does, and wraps the value.
    pub(super) fn wrapped<U>(&self, future: impl Future<Output = Result<U>>) -> Result<Blocking<U>> {
        Ok(self.wrap(self.wait(future)?))
    }

    /// Waits for `outcome` for `timeout` at most. Returns the reason if the lock was lost within
    /// this time.
    pub(super) fn lost(
        &self,
        timeout: Duration,
        outcome: impl Future<Output = Option<LostReason>>,
    ) -> Result<Option<LostReason>> {
        Ok(self.worker.within(timeout, outcome)?.flatten())
    }
}

/// Logs the error if no quorum confirmed the release after a body. The caller gets no error: the
/// body ran while the lock was held.
pub(super) fn confirmed(released: Result<Released>) {
    if let Err(error) = released {
        tracing::warn!(%error, "a lock was released, and no quorum confirmed this");
    }
}

/// Implements `Debug` for types whose first field is a [`Blocking`]: shows the value of the async
/// API.
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

/// Defines the methods that all guards share. A guard is `struct Guard(Blocking<crate::Guard>,
/// Lease)`, and dereferences to its second field. The argument `$release` names the method that
/// gives up the guard. With `pub` in front of `$release`, this macro defines that method as well.
macro_rules! guard {
    ($Guard:ident, $Lease:ident, pub $release:ident) => {
        super::worker::guard!($Guard, $Lease, $release);

        impl $Guard {
            /// Gives up this guard, and waits until a quorum has confirmed the release: see
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

            /// A view that can be shared. The view does not keep the lock held.
            #[must_use]
            pub fn lease(&self) -> $Lease {
                self.1.clone()
            }

            /// Runs `body`, checks that the guard is still held, and gives up the guard. If `body`
            /// panics, the guard is dropped.
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
