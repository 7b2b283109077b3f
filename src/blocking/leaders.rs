//! Who leads, one after the other.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, Stream, StreamExt};

use super::worker::Worker;
use crate::error::{Error, Result};
use crate::lock::Leadership;

/// Leaders and what they proclaim, in the order of their tokens: see
/// [`Election::observe`](super::Election::observe).
///
/// `next` waits on this thread for as long as there is nothing new. The iterator ends when the
/// quorum is shut down, from whatever thread. Within a Tokio runtime it returns a `Config` error
/// and ends.
///
/// It asks the nodes only while somebody waits for it. Dropping it leaves nothing behind in the
/// client; nodes forget it within 30 s.
#[must_use = "it looks at nothing until it is asked for the next leader"]
pub struct Leaders {
    /// Or why there are no more.
    stream: Result<BoxStream<'static, Leadership>>,
    worker: Arc<Worker>,
}

impl Leaders {
    pub(super) fn new(stream: impl Stream<Item = Leadership> + Send + 'static, worker: Arc<Worker>) -> Self {
        Self { stream: Ok(stream.boxed()), worker }
    }

    /// The next leader, or value, if there is one within `timeout`; `None` otherwise. Nothing is
    /// missed by that.
    ///
    /// # Errors
    /// `Closed` after a shutdown; `Config` within a Tokio runtime, which does not end the iterator.
    pub fn next_within(&mut self, timeout: Duration) -> Result<Option<Leadership>> {
        let stream = self.stream.as_mut().map_err(|error| error.clone())?;
        match self.worker.within(timeout, stream.next())? {
            None => Ok(None),
            Some(Some(news)) => Ok(Some(news)),
            Some(None) => {
                self.stream = Err(Error::closed());
                Err(Error::closed())
            }
        }
    }
}

impl Iterator for Leaders {
    type Item = Result<Leadership>;

    fn next(&mut self) -> Option<Self::Item> {
        let stream = self.stream.as_mut().ok()?;
        let next = self.worker.wait(stream.next());
        match &next {
            Ok(Some(_)) => {}
            Ok(None) => self.stream = Err(Error::closed()),
            Err(refused) => self.stream = Err(refused.clone()),
        }
        next.transpose()
    }
}

impl fmt::Debug for Leaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaders").field("over", &self.stream.is_err()).finish_non_exhaustive()
    }
}
