//! The library's port to a server, over the simulated network.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::channel::{mpsc, oneshot};
use futures::{FutureExt, StreamExt};
use quorumlock::node::Fault;
use quorumlock::node::redis::transport::{Answer, Arguments, Connection, Dialer, Dialing, Event, Value, polled};

use crate::commands::Command;
use crate::judge::history::What;
use crate::link::closed;
use crate::world::{Core, World};

/// The way from one process to one node.
#[derive(Debug)]
pub struct SimDialer {
    pub world: Arc<World>,
    pub process: usize,
    pub node: usize,
}

#[derive(Debug)]
struct SimConnection {
    world: Arc<World>,
    number: usize,
    timeout: Duration,
    reader: mpsc::UnboundedSender<Waits>,
}

/// An answer on its way, and who waits for it.
type Waits = (oneshot::Receiver<Reply>, oneshot::Sender<Reply>);
type Reply = Result<Value, Fault>;

/// Whoever asks gives up by itself what takes too long, long before this.
const FOREVER: u32 = 20;

/// A task of the process hands the answers of a connection to whoever waits for them, in the order in
/// which they come, as that of a client library does.
async fn read(answers: mpsc::UnboundedReceiver<Waits>) {
    let handed = |(answer, whom): Waits| async move {
        let _ = whom.send(answer.await.unwrap_or_else(|_| closed()));
    };
    answers.for_each_concurrent(None, handed).await;
}

impl Dialer for SimDialer {
    fn address(&self) -> String {
        format!("n{}", self.node)
    }

    fn dial(&self, timeout: Duration) -> Dialing<'_> {
        let dialed = async move {
            let (number, welcome) =
                self.world.core.lock().unwrap().dial(self.world.now(), self.process, self.node, timeout);
            let (reader, answers) = mpsc::unbounded();
            let connection = SimConnection { world: self.world.clone(), number, timeout, reader };
            welcome.await.unwrap_or_else(|_| closed())?;
            self.world.exec.spawn(self.process, read(answers).boxed());
            self.world.record(What::Connected { process: self.process as u16, node: self.node as u8 });
            Ok(Box::new(connection) as Box<dyn Connection>)
        };
        dialed.boxed()
    }
}

impl SimConnection {
    fn command(&self, of: impl FnOnce(&mut Core) -> Command, timeout: Duration) -> Answer<Value> {
        let now = self.world.now();
        let mut core = self.world.core.lock().unwrap();
        let command = of(&mut core);
        let coming = core.send(now, self.number, command, timeout);
        drop(core);
        let (whom, answer) = oneshot::channel();
        let _ = self.reader.unbounded_send((coming, whom));
        answer.map(|answer| answer.unwrap_or_else(|_| closed())).boxed()
    }
}

impl Connection for SimConnection {
    fn send(&self, command: &'static str, arguments: &dyn Arguments) -> Answer<Value> {
        let now = self.world.now();
        self.command(|core| Command::read(core, now, self.number, command, arguments), self.timeout)
    }

    /// One client library does, and the other does not.
    fn wakes_freely(&self) -> bool {
        !self.number.is_multiple_of(4)
    }

    fn send_for(&self, command: &'static str, arguments: &dyn Arguments, task: &Waker) -> Answer<Value> {
        let now = self.world.now();
        let read = |core: &mut Core| Command::read(core, now, self.number, command, arguments);
        polled(self.command(read, FOREVER * self.timeout), task)
    }

    fn subscribe(&self, channels: &[String]) -> Answer<()> {
        self.command(|_| Command::Subscribe(channels.to_vec()), self.timeout).map(|answer| answer.map(drop)).boxed()
    }

    fn unsubscribe(&self, channels: &[String]) -> Answer<()> {
        self.command(|_| Command::Unsubscribe(channels.to_vec()), self.timeout).map(|answer| answer.map(drop)).boxed()
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        self.world.core.lock().unwrap().connections[self.number].poll_event(context.waker())
    }
}

impl Drop for SimConnection {
    fn drop(&mut self) {
        let now = self.world.now();
        self.world.core.lock().unwrap().hang_up(now, self.number);
    }
}
