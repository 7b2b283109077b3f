//! Writes without blocking the caller. A full pipe, or a terminal after Ctrl-S, can block a write
//! for ever. So a separate thread writes.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// A write of up to this many bytes to a pipe is not mixed with other writers' bytes (PIPE_BUF).
const AT_ONCE: usize = 4_096;
/// How long `wait` waits at most.
const FLUSH: Duration = Duration::from_secs(1);

/// A queue of messages, and a thread that writes them.
pub(crate) struct OutputQueue {
    queue: Mutex<Queue>,
    changed: Condvar,
    write: fn(&[u8]) -> io::Result<()>,
    /// Called with the number of dropped messages.
    dropped: fn(u64),
}

impl OutputQueue {
    /// A queue with room for `room` bytes. If there are more bytes, the queue drops its oldest
    /// messages, but never the newest.
    pub(crate) const fn new(room: usize, write: fn(&[u8]) -> io::Result<()>, dropped: fn(u64)) -> Self {
        Self { queue: Mutex::new(Queue::new(room)), changed: Condvar::new(), write, dropped }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a message. The message is written as a whole, or dropped.
    pub(crate) fn push(&'static self, message: &[u8]) {
        let mut queue = self.lock();
        queue.push(message.to_vec());
        if !queue.has_writer {
            let writer = thread::Builder::new().name("writer".to_owned()).spawn(|| self.write_for_ever());
            queue.has_writer = writer.is_ok();
        }
        self.changed.notify_all();
    }

    /// Whether everything is written. If the last write failed, returns its error, once.
    pub(crate) fn is_written(&self) -> io::Result<bool> {
        let mut queue = self.lock();
        queue.failed.take().map_or_else(|| Ok(queue.is_empty()), Err)
    }

    /// Waits until all messages are written, for a second at most. If there is no writer thread,
    /// the calling thread writes the messages.
    pub(crate) fn wait(&self) {
        let waited = self.changed.wait_timeout_while(self.lock(), FLUSH, |queue| queue.has_writer && !queue.is_empty());
        let (mut queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        while !queue.has_writer && !queue.waiting.is_empty() {
            let _ = (self.write)(&queue.pop());
        }
    }

    fn write_for_ever(&self) {
        loop {
            let queue = self.changed.wait_while(self.lock(), |queue| queue.waiting.is_empty());
            let bytes = queue.unwrap_or_else(PoisonError::into_inner).take();
            let written = (self.write)(&bytes);
            let mut queue = self.lock();
            queue.failed = written.err();
            let dropped = if queue.waiting.is_empty() { mem::take(&mut queue.dropped) } else { 0 };
            drop(queue);
            if dropped > 0 {
                (self.dropped)(dropped);
            }
            self.lock().writing = false;
            self.changed.notify_all();
        }
    }
}

/// Messages that wait. The oldest are dropped first: the newest say how the command ended.
struct Queue {
    room: usize,
    waiting: VecDeque<Vec<u8>>,
    bytes: usize,
    dropped: u64,
    has_writer: bool,
    /// Whether the writer thread is writing messages that it took from the queue.
    writing: bool,
    /// Why the last write failed.
    failed: Option<io::Error>,
}

impl Queue {
    const fn new(room: usize) -> Self {
        let waiting = VecDeque::new();
        Self { room, waiting, bytes: 0, dropped: 0, has_writer: false, writing: false, failed: None }
    }

    /// Adds a message. Drops older messages if there is no room, but never the new message.
    fn push(&mut self, message: Vec<u8>) {
        self.bytes += message.len();
        self.waiting.push_back(message);
        while self.bytes > self.room && self.waiting.len() > 1 {
            self.pop();
            self.dropped += 1;
        }
    }

    fn pop(&mut self) -> Vec<u8> {
        let message = self.waiting.pop_front().unwrap_or_default();
        self.bytes -= message.len();
        message
    }

    /// Takes one message, and the following messages that fit into the same write.
    fn take(&mut self) -> Vec<u8> {
        let mut bytes = self.pop();
        while self.waiting.front().is_some_and(|next| bytes.len() + next.len() <= AT_ONCE) {
            bytes.append(&mut self.pop());
        }
        self.writing = true;
        bytes
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && !self.writing
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn full_queue_drops_and_counts_its_oldest_messages() {
        let mut queue = Queue::new(10);
        ["old", "older", "new"].into_iter().for_each(|message| queue.push(message.into()));
        assert_eq!((queue.dropped, queue.bytes), (1, 8));
        queue.push(b"larger than that".to_vec());
        assert_eq!((queue.dropped, queue.take()), (3, b"larger than that".to_vec()));
        assert!(queue.waiting.is_empty() && queue.bytes == 0);
    }

    #[test]
    fn messages_without_a_writer_thread_are_written_by_wait() {
        static WRITTEN: Mutex<Vec<u8>> = Mutex::new(Vec::new());
        let write = |bytes: &[u8]| WRITTEN.lock().unwrap().write_all(bytes);
        let queue = OutputQueue::new(100, write, |_| ());
        ["one ", "two"].into_iter().for_each(|message| queue.lock().push(message.into()));
        queue.wait();
        assert_eq!(*WRITTEN.lock().unwrap(), b"one two");
        assert!(queue.is_written().unwrap());
    }

    #[test]
    fn small_messages_are_written_together() {
        let mut queue = Queue::new(usize::MAX);
        [10, 4_000, 100].into_iter().for_each(|length| queue.push(vec![b'.'; length]));
        assert_eq!([queue.take().len(), queue.take().len()], [4_010, 100]);
    }
}
