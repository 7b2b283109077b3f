//! The library's port to a server, over the simulated network.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use quorumlock::node::redis::transport::{Answer, Arguments, Connection, Dialer, Dialing, Event, Value};

use crate::commands::Command;
use crate::judge::history::What;
use crate::link::closed;
use crate::world::{Core, World};

/// Connects one process to one node.
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
    /// The limit for answers. It is long: the library's own limit ends calls earlier.
    forever: Duration,
}

impl Dialer for SimDialer {
    fn address(&self) -> String {
        format!("n{}", self.node)
    }

    fn dial(&self, timeout: Duration) -> Dialing<'_> {
        let dialed = async move {
            let (number, welcome) =
                self.world.core.lock().unwrap().dial(self.world.now(), self.process, self.node, timeout);
            let connection = SimConnection { world: self.world.clone(), number, forever: 20 * timeout };
            welcome.await.unwrap_or_else(|_| closed())?;
            self.world.record(What::Connected { process: self.process as u16, node: self.node as u8 });
            Ok(Box::new(connection) as Box<dyn Connection>)
        };
        dialed.boxed()
    }
}

impl SimConnection {
    fn command(&self, of: impl FnOnce(&mut Core) -> Command) -> Answer<Value> {
        let now = self.world.now();
        let mut core = self.world.core.lock().unwrap();
        let command = of(&mut core);
        let answer = core.send(now, self.number, command, self.forever);
        answer.map(|answer| answer.unwrap_or_else(|_| closed())).boxed()
    }
}

impl Connection for SimConnection {
    fn send(&self, command: &'static str, arguments: &dyn Arguments) -> Answer<Value> {
        let now = self.world.now();
        self.command(|core| Command::read(core, now, self.number, command, arguments))
    }

    fn subscribe(&self, channels: &[String]) -> Answer<()> {
        self.command(|_| Command::Subscribe(channels.to_vec())).map(|answer| answer.map(drop)).boxed()
    }

    fn unsubscribe(&self, channels: &[String]) -> Answer<()> {
        self.command(|_| Command::Unsubscribe(channels.to_vec())).map(|answer| answer.map(drop)).boxed()
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
