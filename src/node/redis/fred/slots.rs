//! Where fred's calls are made.
//!
//! fred's future of a call takes some 5 KiB, and to put each into a box of its own costs as much as
//! to send it. So a box makes one call after the other.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use fred::clients::Client;
use fred::error::Error as FredError;
use fred::interfaces::ClientLike;
use fred::types::{CustomCommand, Resp3Frame, Value as FredValue};
use futures::FutureExt;
use futures::future::BoxFuture;

/// How many are kept that are in no use. There are more only while a server does not answer.
const KEPT: usize = 32;

type Reply = Result<Resp3Frame, FredError>;

/// What makes the calls of one connection.
pub(super) struct Slots {
    client: Client,
    free: Mutex<Vec<Slot>>,
}

/// Makes one call at a time.
struct Slot {
    calls: BoxFuture<'static, ()>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
enum State {
    /// A call is being made, or none.
    #[default]
    None,
    Asked(&'static str, Vec<FredValue>),
    Answered(Reply),
}

/// A call, whose slot is free again once it has been answered. Where it is dropped before, that is
/// the end of its slot too.
pub(super) struct Call {
    slot: Option<Slot>,
    slots: Arc<Slots>,
}

impl Slots {
    pub(super) fn new(client: Client) -> Self {
        Self { client, free: Mutex::default() }
    }

    /// A call, which is on its way once it was polled.
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

/// Makes the calls that are asked for, one after the other.
async fn calls(client: Client, state: Arc<Mutex<State>>) {
    loop {
        let (command, arguments) = std::future::poll_fn(|_| asked(&state)).await;
        let answer = call(&client, command, arguments).await;
        *locked(&state) = State::Answered(answer);
    }
}

/// What is asked for; whoever asks polls.
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

/// Dropping the future does not withdraw the command.
async fn call(client: &Client, command: &'static str, arguments: Vec<FredValue>) -> Reply {
    client.custom_raw(CustomCommand::new_static(command, None::<u16>, false), arguments).await
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
