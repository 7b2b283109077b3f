//! Writers that become readers.

use std::time::Duration;

use quorumlock::{LockOptions, ReadGuard, WriteGuard};

use crate::clients::{Client, Ending, Manner, Watch, watched};
use crate::judge::history::What;
use crate::scenes::part::Part;

impl Client {
    /// Acquires as a writer, works, and then becomes a reader and works again. Any step may fail.
    pub async fn writes_and_reads(&mut self) {
        let (manner, name, (options, round)) = (self.manner(), self.some_name(), self.options(false));
        let timeout = self.timeout(manner);
        let ask = self.ask_for(&[name], false, &options, round, timeout, false);
        let lock = self.quorum.rw_lock_with(self.text(name), &options).expect("the plan's options make sense");
        match self.or_goes(manner, lock.write(timeout)).await {
            Some(Ok(writer)) => {
                let watch = self.acquired(&ask, writer.lease());
                self.writes(name, (&options, round), writer, watch).await;
            }
            Some(Err(error)) => self.failed(&ask, &error),
            None => self.went(&ask),
        }
    }

    /// A part of a scene: writes for a while, and then reads for the same time.
    pub async fn play_downgrade(&mut self, part: Part, round: Duration) {
        let (name, options) = (part.names[0], part.options(self.ttl()));
        let ask = self.ask_for(&[name], false, &options, round, part.timeout, part.must);
        let lock = self.quorum.rw_lock_with(self.text(name), &options).expect("the scene's options make sense");
        match lock.write(part.timeout).await {
            Ok(writer) => {
                let watch = self.acquired(&ask, writer.lease());
                self.world.sleep(part.hold).await;
                if let Some((reader, reads)) = self.yields(name, (&options, round), Manner::Wait, writer, &watch).await
                {
                    self.world.sleep(part.hold).await;
                    self.ends(&reads, Ending::Release, reader, ReadGuard::release).await;
                }
            }
            Err(error) => self.failed(&ask, &error),
        }
    }

    async fn writes(&mut self, name: u8, how: (&LockOptions, Duration), writer: WriteGuard, watch: Watch) {
        let (mut inner, lease) = (self.another(), writer.lease());
        if watched(inner.work(&watch), lease.lost(), || self.lost(&watch)).await {
            return self.keeps_lost(writer, &watch).await;
        }
        let manner = self.manner();
        if let Some((reader, reads)) = self.yields(name, how, manner, writer, &watch).await {
            self.goes_on_reading(reader, reads).await;
        }
    }

    /// Turns the writer into a reader. Returns `None` if that fails.
    async fn yields(
        &mut self,
        name: u8,
        (options, round): (&LockOptions, Duration),
        manner: Manner,
        writer: WriteGuard,
        watch: &Watch,
    ) -> Option<(ReadGuard, Watch)> {
        // The writer never writes again. From now on its lease is not sampled for the judge.
        self.sample(watch);
        let lease = watch.number;
        self.record(|process| What::Yields { process, lease });
        self.world.leases.remove(watch.number);
        let ask = self.ask_for(&[name], true, options, round, Duration::ZERO, false);
        let reader = self.or_goes(manner, writer.downgrade()).await;
        self.released(watch);
        match reader {
            Some(Ok(reader)) => {
                let reads = self.acquired(&ask, reader.lease());
                let (lease, writer) = (reads.number, watch.number);
                self.record(|process| What::Follows { process, lease, writer });
                return Some((reader, reads));
            }
            Some(Err(error)) => self.failed(&ask, &error),
            None => self.went(&ask),
        }
        None
    }

    async fn goes_on_reading(&mut self, reader: ReadGuard, watch: Watch) {
        let (mut inner, lease) = (self.another(), reader.lease());
        if watched(inner.work(&watch), lease.lost(), || self.lost(&watch)).await {
            return self.keeps_lost(reader, &watch).await;
        }
        let ending = self.ending();
        self.ends(&watch, ending, reader, ReadGuard::release).await;
    }
}
