//! Hints on their way from a node: as late as its replies, doubled, or lost.

use std::sync::{Arc, Weak};

use super::link::Link;
use crate::host::sleep_until;
use crate::node::{Hint, Listener};

/// Takes the node's hints, and gives them on as late as replies, or not at all.
#[derive(Debug)]
pub(super) struct Relay {
    pub(super) link: Weak<Link>,
    pub(super) index: usize,
    pub(super) listener: Arc<dyn Listener>,
}

impl Listener for Relay {
    fn client(&self) -> &str {
        self.listener.client()
    }

    fn hint(&self, _: usize, hint: &Hint) {
        let Some(link) = self.link.upgrade() else { return };
        let state = link.state();
        let times = if state.down || state.paused || state.hints_lost { 0 } else { 1 + u32::from(state.hints_doubled) };
        let delay = state.reply_delay;
        drop(state);
        for _ in 0..times {
            let (host, index, listener, hint) = (link.host.clone(), self.index, self.listener.clone(), hint.clone());
            let due = host.now() + delay;
            link.host.spawn(Box::pin(async move {
                sleep_until(&host, due).await;
                listener.hint(index, &hint);
            }));
        }
    }

    fn missed(&self, _: usize) {
        self.listener.missed(self.index);
    }

    fn doubted(&self, _: usize) {
        self.listener.doubted(self.index);
    }
}
