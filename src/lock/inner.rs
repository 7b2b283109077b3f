//! State that the handles and locks of one `Quorum` share.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio_util::sync::CancellationToken;

use super::sessions::Sessions;
use crate::config::{LockOptions, Rules, Settings};
use crate::error::{Error, Result};
use crate::host::Host;
use crate::lease::Leases;
use crate::node::Name;
use crate::node::redis::Registry;
use crate::protocol::Queue;

/// The most names that one lock can have.
pub const MAX_NAMES: usize = 1_000;

pub(super) struct Inner {
    /// The number of this quorum in this process. No other quorum has the same number.
    pub(super) number: u64,
    pub(super) leases: Arc<Leases>,
    pub(super) host: Arc<dyn Host>,
    pub(super) queue: Arc<Queue>,
    pub(super) rules: Arc<Rules>,
    pub(super) shut: CancellationToken,
    pub(super) settings: Settings,
    pub(super) registry: Option<Arc<Registry>>,
    pub(super) sessions: Arc<Sessions>,
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
        let queue = Queue::new(settings.max_callers);
        leases.voters.meters.register(rules.class);
        let shut = leases.home.shut.clone();
        let sessions = Arc::default();
        Self { number, leases, host, queue, rules: Arc::new(rules), shut, settings, registry, sessions }
    }

    /// Returns an error unless the nodes are in memory.
    #[cfg(feature = "testing")]
    pub(super) fn in_memory(&self) -> Result<()> {
        match self.registry {
            None => Ok(()),
            Some(_) => {
                Err(Error::config("this quorum is on servers; this call needs a quorum in memory (Quorum::in_memory)"))
            }
        }
    }

    /// Checks the options, and makes the rules for locks with these options.
    pub(super) fn rules_of(&self, options: &LockOptions) -> Result<Arc<Rules>> {
        let Settings { max_ttl, options: shared, .. } = &self.settings;
        let rules = Arc::new(options.checked_for(shared, *max_ttl)?);
        self.leases.voters.meters.register(rules.class);
        Ok(rules)
    }

    pub(super) fn name(&self, text: &str) -> Result<Name> {
        self.settings.name(text)
    }

    /// The names, sorted and without duplicates. All sets must wait for their names in the same
    /// order, so that they do not deadlock.
    pub(super) fn names(&self, texts: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Arc<[Name]>> {
        let mut names = BTreeSet::new();
        for text in texts {
            names.insert(self.name(text.as_ref())?);
            if names.len() > MAX_NAMES {
                return Err(Error::config(format!(
                    "a lock has more than {MAX_NAMES} names; use one lock on the thing to which the names belong"
                )));
            }
        }
        match names.is_empty() {
            true => Err(Error::config("a lock has no name; name the thing that it protects")),
            false => Ok(names.into_iter().collect()),
        }
    }

    /// Returns an error after a shutdown or the runtime's end, or outside of a Tokio runtime.
    pub(super) fn usable(&self) -> Result<()> {
        self.leases.home.usable()
    }

    pub(super) fn closed(&self) -> Error {
        self.leases.home.closed()
    }
}
