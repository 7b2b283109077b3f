//! Revocations: a process takes a name away from its holder.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use quorumlock::Quorum;

use crate::judge::history::What;
use crate::world::{World, micros};

/// The revocations that are under way, by process and name. A process never runs two revocations of
/// one name at once, so a ballot belongs to one known revocation.
#[derive(Debug, Default)]
pub struct Revoking(Mutex<BTreeSet<(usize, u8)>>);

impl World {
    /// Begins to revoke the holders of a name. Returns false if this process already revokes them.
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
            // The nodes' clocks may be off by a percent, and show whole milliseconds.
            let by = self.now() + micros(left + left / 50) + 2_000;
            self.record(What::Revoked { process: process as u16, name, began, by });
        }
    }
}
