//! Revocations: somebody takes a name away from whoever holds it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use quorumlock::Quorum;

use crate::judge::history::What;
use crate::world::{World, micros};

/// Which process takes which name away at present: each only once at a time, so that it is known to
/// which revocation a ballot belongs.
#[derive(Debug, Default)]
pub struct Revoking(Mutex<BTreeSet<(usize, u8)>>);

impl World {
    /// The process takes the name away from whoever holds it; returns whether it begins to.
    pub fn revoke(self: &Arc<Self>, process: usize, name: u8) -> bool {
        let Some(quorum) = self.quorums.of(process) else { return false };
        if !self.revoking.0.lock().unwrap().insert((process, name)) {
            return false;
        }
        let (number, world) = (self.parts.begun(process), self.clone());
        let task = async move {
            world.revoked(&quorum, process, name).await;
            world.revoking.0.lock().unwrap().remove(&(process, name));
            world.parts.ended(number);
        };
        self.exec.spawn(process, Box::pin(task));
        true
    }

    async fn revoked(&self, quorum: &Quorum, process: usize, name: u8) {
        let began = self.now();
        let text = self.core.lock().unwrap().plan.name_of(name);
        if let Ok(taken) = quorum.revoke(&text).await {
            let left = taken.left.unwrap_or_default();
            // The nodes' clocks are true to a percent, and tell whole milliseconds.
            let by = self.now() + micros(left + left / 50) + 2_000;
            self.record(What::Revoked { process: process as u16, name, began, by });
        }
    }
}
