//! Runs a connection's input and output in the tasks that wait for replies.
//!
//! redis-rs returns a future that does all input and output of a connection. In a task of its own,
//! this future would have to be woken for each command and each reply. Here, `send` itself writes
//! the command, and the task that waits for a reply also reads the reply.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures::future::BoxFuture;
use tokio::task::coop::unconstrained;

use super::socket::Log;

/// Keeps the future that does a connection's work. A task *drives* the connection: it polls this
/// future. A task that has driven the connection is woken when there is more to do.
pub(super) struct Driver {
    /// `None` once the connection has ended.
    work: Mutex<Option<BoxFuture<'static, ()>>>,
    waiting: Arc<Waiting>,
    log: Arc<Log>,
}

/// The tasks to wake when the socket is ready. All are woken: if only one task were woken, and this
/// task had ended, the others would wait for ever.
#[derive(Default)]
struct Waiting(Mutex<Vec<Waker>>);

impl Driver {
    pub(super) fn new(work: BoxFuture<'static, ()>, log: Arc<Log>) -> Self {
        Self { work: Mutex::new(Some(work)), waiting: Arc::default(), log }
    }

    /// Writes as much as the socket accepts now, and reads what has come. Returns whether the
    /// connection has ended.
    pub(super) fn drive(&self, waker: &Waker) -> bool {
        self.waiting.add(waker);
        let mut kept = self.work();
        // Take the work out, so that a panic ends the connection. If the connection went on after a
        // panic, replies could be assigned to the wrong commands.
        let Some(mut work) = kept.take() else { return true };
        if !self.progress(&mut work) {
            *kept = Some(work);
            return false;
        }
        drop(kept);
        // Drop the work outside of the lock: this drop wakes tasks that take the lock.
        drop(work);
        self.waiting.wake_all();
        true
    }

    /// Drives the connection until `future` is ready.
    ///
    /// # Cancel safety
    /// Safe: the other waiting tasks still drive the connection.
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

    pub(super) fn end(&self) {
        let over = self.work().take();
        drop(over);
        self.waiting.wake_all();
    }

    /// Polls the work once, which writes and reads. Returns whether the connection has ended.
    ///
    /// Tokio's budget is switched off here: when a task has used up its budget, the socket seems
    /// not to be ready, and commands may stay unsent. Instead of the budget, `Log` limits how many
    /// reads one poll makes.
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
