//! The sessions of each process, and the locks that each session must hold, by the results of its
//! calls.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use quorumlock::{LostReason, Quorum, Session};
use tokio_util::sync::CancellationToken;

use crate::clients::Watch;

/// The locks that a session must hold, by the results of calls. All clients that have a handle of
/// the session share this record.
#[derive(Debug)]
pub struct Book {
    pub id: Arc<str>,
    /// The longest time that one round of the session's locks may take.
    pub round: Duration,
    /// The locks that the session holds, by name. The judge sees each lock as a lease of its own.
    pub held: Mutex<BTreeMap<u8, Watch>>,
    /// The locks of the session that have ended.
    pub gone: Mutex<Vec<Watch>>,
    /// How many clients have a handle of the session.
    pub handles: AtomicU32,
    /// Whether a separate task waits for the loss of the session.
    pub apart: bool,
    /// Whether a client has learned that the session was lost.
    pub lost: AtomicBool,
    /// This token is cancelled when no client has a handle any more.
    pub over: CancellationToken,
}

impl Book {
    pub fn new(id: &str, round: Duration, apart: bool) -> Self {
        let (held, gone, handles) = (Mutex::default(), Mutex::default(), AtomicU32::new(1));
        let (lost, over) = (AtomicBool::new(false), CancellationToken::new());
        Self { id: id.into(), round, held, gone, handles, apart, lost, over }
    }

    pub fn held(&self) -> Vec<Watch> {
        self.held.lock().unwrap().values().cloned().collect()
    }

    pub fn lease(&self, name: u8) -> Option<u32> {
        self.held.lock().unwrap().get(&name).map(|watch| watch.number)
    }

    /// How many of the session's locks have ended.
    pub fn over(&self) -> usize {
        self.gone.lock().unwrap().len()
    }

    /// Whether a lock on this name has ended, not counting the first `since` locks that ended.
    pub fn gave_up(&self, name: u8, since: usize) -> bool {
        self.gone.lock().unwrap()[since..].iter().flat_map(Watch::names).any(|gone| gone == name)
    }

    /// Ends the session's locks on the names for which `which` is true. Returns these locks.
    pub fn end(&self, which: impl Fn(u8) -> bool) -> Vec<Watch> {
        let mut held = self.held.lock().unwrap();
        let names: Vec<_> = held.keys().copied().filter(|&name| which(name)).collect();
        let ended: Vec<_> = names.iter().filter_map(|name| held.remove(name)).collect();
        self.gone.lock().unwrap().extend(ended.iter().cloned());
        ended
    }
}

#[derive(Debug, Default)]
pub struct Sessions(Mutex<BTreeMap<usize, Vec<Arc<Book>>>>);

impl Sessions {
    pub fn add(&self, process: usize, book: &Arc<Book>) {
        self.0.lock().unwrap().entry(process).or_default().push(book.clone());
    }

    pub fn of(&self, process: usize) -> Vec<Arc<Book>> {
        self.0.lock().unwrap().get(&process).cloned().unwrap_or_default()
    }

    pub fn remove(&self, process: usize, book: &Arc<Book>) {
        self.0.lock().unwrap().entry(process).or_default().retain(|other| !Arc::ptr_eq(other, book));
    }

    pub fn forget(&self, process: usize) {
        let gone = self.0.lock().unwrap().remove(&process);
        drop(gone);
    }
}

/// A name that a session holds. With this value, the simulation can check the lock without a handle
/// of the session.
#[derive(Clone, Debug)]
pub struct Locked {
    pub quorum: Quorum,
    pub id: Arc<str>,
    pub text: Arc<str>,
    pub token: u64,
}

impl Locked {
    pub fn remaining(&self) -> Duration {
        let session = self.quorum.join_session(&self.id);
        let held = session.filter(|session| session.token(&self.text) == Some(self.token));
        held.map_or(Duration::ZERO, |session| session.remaining())
    }

    pub fn lost(&self) -> Option<LostReason> {
        self.quorum.join_session(&self.id)?.lost().now_or_never()
    }
}

/// A client's handle of a session.
pub struct Hand {
    pub session: Session,
    pub book: Arc<Book>,
}
