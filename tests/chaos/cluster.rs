//! Five servers, a proxy in front of each, and the workers.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinHandle;

use crate::TTL;
use crate::agents::Agents;
use crate::common::proxy::Proxy;
use crate::common::server::{Server, ask};
use crate::record::Record;
use crate::told::{Event, clock, parse};
use crate::worker::Orders;

/// A server behind a proxy.
pub struct Node {
    pub server: tokio::sync::Mutex<Server>,
    pub port: u16,
    pub proxy: Proxy,
}

impl Node {
    pub async fn start() -> Self {
        let server = Server::with(&["--appendonly", "yes", "--appendfsync", "everysec"]).await;
        let port = server.port();
        Self { server: server.into(), port, proxy: Proxy::start(port).await }
    }

    /// Sends one command, past the proxy.
    pub async fn command(&self, words: &[&str]) -> Option<String> {
        command(self.port, words).await
    }
}

async fn command(port: u16, words: &[&str]) -> Option<String> {
    let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
    let asking = move || {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        ask(port, &words, Duration::from_millis(300)).ok()
    };
    tokio::task::spawn_blocking(asking).await.ok().flatten()
}

/// The worker processes, and the record of the events that they reported.
pub struct Workers {
    children: Vec<Mutex<Child>>,
    nodes: Vec<String>,
    /// The agents of workers that are Python processes.
    pub agents: Option<Agents>,
    storage: u16,
    pub record: Mutex<Record>,
    pub usage: Mutex<Vec<(u64, u32, u64, u64)>>,
    readers: Mutex<Vec<JoinHandle<()>>>,
}

impl Workers {
    pub fn start(count: usize, seed: u64, nodes: &[Arc<Node>], storage: u16, are_python: bool) -> Arc<Self> {
        let nodes: Vec<_> = nodes.iter().map(|node| node.proxy.url()).collect();
        let mut workers = Self {
            children: Vec::new(),
            agents: are_python.then(|| Agents::start(&nodes)),
            nodes,
            storage,
            record: Mutex::default(),
            usage: Mutex::default(),
            readers: Mutex::default(),
        };
        let mut output = Vec::new();
        for index in 0..count {
            let mut child = workers.spawn(index, seed.wrapping_add(index as u64));
            output.push((child.id().unwrap(), child.stdout.take().unwrap()));
            workers.children.push(Mutex::new(child));
        }
        let workers = Arc::new(workers);
        for (process, output) in output {
            workers.listen(process, output);
        }
        workers
    }

    fn spawn(&self, index: usize, seed: u64) -> Child {
        let nodes = self.agents.as_ref().map_or_else(|| self.nodes.clone(), |agents| vec![agents.of_worker(index)]);
        let orders = Orders { seed, storage: self.storage, nodes };
        let mut command = if self.agents.is_some() { python() } else { this_program() };
        let command = command.args(orders.arguments()).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.kill_on_drop(true).spawn().expect("a worker starts")
    }

    pub fn process(&self, index: usize) -> u32 {
        self.children[index].lock().unwrap().id().unwrap_or_default()
    }

    /// Ends a worker with SIGKILL and starts another in its place.
    pub fn replace(self: &Arc<Self>, index: usize, seed: u64) {
        let mut fresh = self.spawn(index, seed);
        let (process, output) = (fresh.id().unwrap(), fresh.stdout.take().unwrap());
        // Dropping the old worker's handle kills the worker.
        drop(std::mem::replace(&mut *self.children[index].lock().unwrap(), fresh));
        self.listen(process, output);
    }

    pub fn signal(&self, index: usize, signal: Signal) {
        signal_process(self.process(index), signal);
    }

    /// Asks all workers to end, and waits for their last events.
    pub async fn end(&self) {
        for child in &self.children {
            let mut child = {
                let mut guard = child.lock().unwrap();
                guard.stdin.take();
                std::mem::replace(&mut *guard, Command::new("true").spawn().unwrap())
            };
            if tokio::time::timeout(Duration::from_secs(10), child.wait()).await.is_err() {
                let _ = child.kill().await;
            }
        }
        let readers = std::mem::take(&mut *self.readers.lock().unwrap());
        futures::future::join_all(readers).await;
    }

    fn listen(self: &Arc<Self>, process: u32, output: ChildStdout) {
        let reader = tokio::spawn(self.clone().read(process, output));
        self.readers.lock().unwrap().push(reader);
    }

    async fn read(self: Arc<Self>, process: u32, output: ChildStdout) {
        self.record.lock().unwrap().started(process);
        let mut lines = BufReader::new(output).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let Some((task, event)) = parse(&line) else { continue };
            match event {
                Event::Stopping => drop(tokio::spawn(wake(process, task))),
                Event::Uses { memory, tasks } => self.usage.lock().unwrap().push((clock(), process, memory, tasks)),
                _ => {}
            }
            self.record.lock().unwrap().told((process, task), &event);
        }
        self.record.lock().unwrap().died(process, clock());
    }
}

/// Continues a worker that stopped itself, after 0.2 to 1.6 times the ttl.
async fn wake(process: u32, task: usize) {
    let share = [0.2, 0.8, 1.3, 1.6][task % 4];
    tokio::time::sleep(TTL.mul_f64(share)).await;
    signal_process(process, Signal::CONT);
    // The worker may have stopped after this signal, so send a second one.
    tokio::time::sleep(TTL).await;
    signal_process(process, Signal::CONT);
}

fn signal_process(process: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        // The process may have ended.
        let _ = kill_process(pid, signal);
    }
}

fn this_program() -> Command {
    Command::new(std::env::current_exe().expect("a program knows its path"))
}

/// The command of `worker.py`, which takes an agent's socket in place of the nodes.
fn python() -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", root.join("clients/python")).env("PYTHONDONTWRITEBYTECODE", "1");
    command.arg(root.join("tests/chaos/worker.py"));
    command
}

/// A script that returns the owner of a name, or an empty text if the hold has expired.
pub const HOLDER: &str = "local time = redis.call('TIME')
    local owner, ends = unpack(redis.call('HMGET', KEYS[1], 'owner', 'until'))
    return (tonumber(ends) or 0) > time[1] * 1000 + time[2] / 1000 and owner or ''";
