//! What clients do once a period.

use std::time::Duration;

use crate::clients::Client;
use crate::judge::history::What;
use crate::scenes::part::Part;
use crate::world::micros;

impl Client {
    /// A part of a scene: claims the period, works for a while, and keeps or undoes it.
    pub async fn play_once(&mut self, part: Part, period: Duration, round: Duration) {
        let options = part.options(self.ttl());
        // It may make one whole round behind the two that it tries for.
        let ask = self.ask_for(part.names, false, &options, round, 2 * round, part.must);
        let once = self.quorum.once_with("lock-a", period, &options).expect("the scene's period makes sense");
        match once.claim().await {
            Ok(Some(permit)) => {
                let watch = self.acquired(&ask, permit.lease());
                let (lease, period) = (watch.number, micros(period));
                self.record(|process| What::First { process, lease, name: 0, period });
                self.world.sleep(part.hold).await;
                self.released(&watch);
                if part.dropped {
                    self.record(|process| What::Undone { process, lease });
                    drop(permit.undo().await);
                } else {
                    drop(permit.done().await);
                }
                self.world.leases.remove(watch.number);
            }
            Ok(None) => self.refused(&ask),
            Err(error) => self.failed(&ask, &error),
        }
    }
}
