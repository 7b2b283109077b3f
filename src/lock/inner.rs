//! What a quorum's handles and its locks share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::config::{Rules, Settings};
use crate::error::{Error, Result, no_runtime};
use crate::host::{Host, can_wait};
use crate::lease::Leases;
use crate::node::redis::Registry;
use crate::protocol::Queue;

/// The leases, the queue and the settings of one quorum.
pub(super) struct Inner {
    /// Which quorum of this process it is: no two have the same.
    pub(super) number: u64,
    pub(super) leases: Arc<Leases>,
    pub(super) host: Arc<dyn Host>,
    pub(super) queue: Arc<Queue>,
    pub(super) rules: Arc<Rules>,
    pub(super) shut: CancellationToken,
    pub(super) settings: Settings,
    pub(super) registry: Option<Arc<Registry>>,
}

impl Inner {
    pub(super) fn new(
        leases: Arc<Leases>,
        host: Arc<dyn Host>,
        rules: Rules,
        settings: Settings,
        registry: Option<Arc<Registry>>,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let queue = Queue::new(settings.max_waiters);
        let shut = CancellationToken::new();
        Self { number, leases, host, queue, rules: Arc::new(rules), shut, settings, registry }
    }

    pub(super) const fn max_ttl(&self) -> Duration {
        self.settings.max_ttl
    }

    pub(super) const fn connect_timeout(&self) -> Duration {
        self.settings.connect_timeout
    }

    /// Whether its nodes are in memory.
    #[cfg(feature = "testing")]
    pub(super) fn in_memory(&self) -> Result<()> {
        match self.registry {
            None => Ok(()),
            Some(_) => Err(Error::config("this quorum is on servers; tests that do this need Quorum::in_memory")),
        }
    }

    /// Whether calls can be made here and now.
    pub(super) fn usable(&self) -> Result<()> {
        if self.shut.is_cancelled() {
            return Err(Error::closed());
        }
        if can_wait() { Ok(()) } else { Err(no_runtime()) }
    }
}
