//! Who writes and reads for a connection: whoever waits for it, instead of a task of its own.
//!
//! redis-rs hands out a future that does all of a connection's input and output. In a task of its
//! own, each command would wake that task, and each reply two. Here `send` writes at once, and the
//! task that waits for replies reads them.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures::future::BoxFuture;
use tokio::task::coop::unconstrained;

use super::socket::Log;

/// The future that does a connection's work. It makes progress whenever it is driven, and whoever
/// drove it is woken when there is more to do.
pub(super) struct Driver {
    /// `None` once it has ended.
    work: Mutex<Option<BoxFuture<'static, ()>>>,
    waiting: Arc<Waiting>,
    log: Arc<Log>,
}

/// Who wants to know that the socket is ready. All of them are woken: any may be gone by then, and
/// the others would wait for ever.
#[derive(Default)]
struct Waiting(Mutex<Vec<Waker>>);

impl Driver {
    pub(super) fn new(work: BoxFuture<'static, ()>, log: Arc<Log>) -> Self {
        Self { work: Mutex::new(Some(work)), waiting: Arc::default(), log }
    }

    /// Writes and reads what can be written and read. Returns whether the connection has ended.
    pub(super) fn drive(&self, waker: &Waker) -> bool {
        self.waiting.add(waker);
        let mut kept = self.work();
        // Out of its place, so that a connection that panics has ended: replies that came behind
        // might be taken for others.
        let Some(mut work) = kept.take() else { return true };
        if !self.progress(&mut work) {
            *kept = Some(work);
            return false;
        }
        drop(kept);
        // What waits for replies is told when this is dropped, outside of the lock.
        drop(work);
        self.waiting.wake_all();
        true
    }

    /// Waits for `future`, and drives as long as it is not there.
    ///
    /// # Cancel safety
    /// Safe: others that wait go on driving.
    pub(super) async fn driven<T>(&self, mut future: Pin<&mut impl Future<Output = T>>) -> T {
        std::future::poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(output);
            }
            self.drive(context.waker());
            future.as_mut().poll(context)
        })
        .await
    }

    /// Ends the connection.
    pub(super) fn end(&self) {
        let over = self.work().take();
        drop(over);
        self.waiting.wake_all();
    }

    /// Its own bound keeps it from reading for ever. By Tokio's it might look as if there was
    /// nothing to read, and what is to be sent might stay where it is.
    fn progress(&self, work: &mut BoxFuture<'static, ()>) -> bool {
        self.log.begin();
        let waker = Waker::from(self.waiting.clone());
        let mut work = unconstrained(work);
        Pin::new(&mut work).poll(&mut Context::from_waker(&waker)).is_ready()
    }

    fn work(&self) -> MutexGuard<'_, Option<BoxFuture<'static, ()>>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn add(&self, waker: &Waker) {
        let mut all = self.all();
        if !all.iter().any(|known| known.will_wake(waker)) {
            all.push(waker.clone());
        }
    }

    fn wake_all(&self) {
        let all = std::mem::take(&mut *self.all());
        all.into_iter().for_each(Waker::wake);
    }

    fn all(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wake_all();
    }
}
