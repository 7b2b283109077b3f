//! Reuses the memory of fred's calls.
//!
//! fred's future for a call takes about 5 KiB. A new box for each call would cost as much time as
//! sending the call. So a *slot*, a boxed future, makes one call after another.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use fred::clients::Client;
use fred::error::Error as FredError;
use fred::interfaces::ClientLike;
use fred::types::{CustomCommand, Resp3Frame, Value as FredValue};
use futures::FutureExt;
use futures::future::BoxFuture;

/// The most idle slots that are kept.
const KEPT: usize = 32;

type Reply = Result<Resp3Frame, FredError>;

/// The slots of one connection.
pub(super) struct Slots {
    client: Client,
    free: Mutex<Vec<Slot>>,
}

struct Slot {
    calls: BoxFuture<'static, ()>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
enum State {
    /// The slot is idle, or its call was sent and has no reply yet.
    #[default]
    None,
    Asked(&'static str, Vec<FredValue>),
    Answered(Reply),
}

/// A call. After its reply, the slot is free for another call. If the call is dropped earlier, its
/// slot is dropped too.
pub(super) struct Call {
    slot: Option<Slot>,
    slots: Arc<Slots>,
}

impl Slots {
    pub(super) fn new(client: Client) -> Self {
        Self { client, free: Mutex::default() }
    }

    /// Prepares a call. The first poll sends the call.
    pub(super) fn call(self: &Arc<Self>, command: &'static str, arguments: Vec<FredValue>) -> Call {
        let slot = locked(&self.free).pop().unwrap_or_else(|| Slot::new(self.client.clone()));
        *locked(&slot.state) = State::Asked(command, arguments);
        Call { slot: Some(slot), slots: self.clone() }
    }

    fn free(&self, slot: Option<Slot>) {
        let mut free = locked(&self.free);
        let room = free.len() < KEPT;
        free.extend(slot.filter(|_| room));
    }
}

impl Slot {
    fn new(client: Client) -> Self {
        let state = Arc::<Mutex<State>>::default();
        Self { calls: calls(client, state.clone()).boxed(), state }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Reply> {
        let _never_over = self.calls.poll_unpin(context);
        let mut state = locked(&self.state);
        match std::mem::take(&mut *state) {
            State::Answered(answer) => Poll::Ready(answer),
            other => {
                *state = other;
                Poll::Pending
            }
        }
    }
}

/// Makes the calls that are put into `state`, one after another.
async fn calls(client: Client, state: Arc<Mutex<State>>) {
    loop {
        let (command, arguments) = std::future::poll_fn(|_| asked(&state)).await;
        let answer = call(&client, command, arguments).await;
        *locked(&state) = State::Answered(answer);
    }
}

/// Takes the next call. Needs no waker, because `Slots::call` sets the state before the slot is
/// polled.
fn asked(state: &Mutex<State>) -> Poll<(&'static str, Vec<FredValue>)> {
    let mut state = locked(state);
    match std::mem::take(&mut *state) {
        State::Asked(command, arguments) => Poll::Ready((command, arguments)),
        other => {
            *state = other;
            Poll::Pending
        }
    }
}

impl Future for Call {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(slot) = &mut self.slot else { return Poll::Pending };
        let polled = slot.poll(context);
        if polled.is_ready() {
            let slot = self.slot.take();
            self.slots.free(slot);
        }
        polled
    }
}

/// Sends a command. If this future is dropped after its first poll, the command is still carried
/// out.
async fn call(client: &Client, command: &'static str, arguments: Vec<FredValue>) -> Reply {
    client.custom_raw(CustomCommand::new_static(command, None::<u16>, false), arguments).await
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
