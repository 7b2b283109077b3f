//! Runs a connection's input and output in the tasks that wait for it.
//!
//! redis-rs returns a future that does all input and output of a connection. If this future ran in
//! a task of its own, each command would wake that task once, and each reply twice. Here `send`
//! writes at once, and the task that waits for replies reads them.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures::future::BoxFuture;
use tokio::task::coop::unconstrained;

use super::socket::Log;

/// The future that does a connection's work. A task that drives this future makes it progress, and
/// is woken when there is more to do.
pub(super) struct Driver {
    /// `None` once the connection has ended.
    work: Mutex<Option<BoxFuture<'static, ()>>>,
    waiting: Arc<Waiting>,
    log: Arc<Log>,
}

/// The tasks to wake when the socket is ready. All tasks are woken: if only one were, it might be
/// gone by then, and the others would wait for ever.
#[derive(Default)]
struct Waiting(Mutex<Vec<Waker>>);

impl Driver {
    pub(super) fn new(work: BoxFuture<'static, ()>, log: Arc<Log>) -> Self {
        Self { work: Mutex::new(Some(work)), waiting: Arc::default(), log }
    }

    /// Writes and reads as much as possible now. Returns whether the connection has ended.
    pub(super) fn drive(&self, waker: &Waker) -> bool {
        self.waiting.add(waker);
        let mut kept = self.work();
        // Take the work out, so that a panic ends the connection. If the connection went on,
        // replies could be taken for replies to other commands.
        let Some(mut work) = kept.take() else { return true };
        if !self.progress(&mut work) {
            *kept = Some(work);
            return false;
        }
        drop(kept);
        // Drop the work outside the lock: this wakes the tasks that wait for replies.
        drop(work);
        self.waiting.wake_all();
        true
    }

    /// Drives the connection until `future` is ready.
    ///
    /// # Cancel safety
    /// Safe: other waiting tasks go on driving.
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

    /// Lets the connection write and read for one turn. Returns whether the connection has ended.
    ///
    /// Tokio's budget does not apply here, since `Log` limits the reads of a turn. If the budget
    /// were used up, the socket would seem to be not ready, and commands might stay unsent.
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
