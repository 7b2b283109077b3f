//! Two agents (`quorumlock serve`) over the same servers, for workers that are Python processes.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::common::transport;
use crate::{MAX_TTL, TTL};

pub const AGENTS: usize = 2;

/// The agents. Dropping this value kills all agents.
pub struct Agents {
    folder: TempDir,
    nodes: String,
    children: Vec<Mutex<Child>>,
}

impl Agents {
    pub fn start(nodes: &[String]) -> Self {
        let (folder, nodes) = (TempDir::new().expect("a temporary folder"), nodes.join(","));
        let children = (0..AGENTS).map(|agent| Mutex::new(serve(socket(&folder, agent), &nodes))).collect();
        Self { folder, nodes, children }
    }

    /// The socket of the agent of this worker.
    pub fn of_worker(&self, worker: usize) -> String {
        socket(&self.folder, worker % AGENTS).display().to_string()
    }

    pub fn signal(&self, agent: usize, signal: Signal) {
        let child = self.children[agent].lock().unwrap();
        // The agent may have ended.
        let _ = kill_process(Pid::from_child(&child), signal);
    }

    /// Ends an agent with SIGKILL, and starts another in its place.
    pub fn replace(&self, agent: usize) {
        let mut child = self.children[agent].lock().unwrap();
        end(&mut child);
        *child = serve(socket(&self.folder, agent), &self.nodes);
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        self.children.iter().for_each(|child| end(&mut child.lock().unwrap()));
    }
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn socket(folder: &TempDir, agent: usize) -> PathBuf {
    folder.path().join(format!("agent{agent}.sock"))
}

fn serve(socket: PathBuf, nodes: &str) -> Child {
    let millis = |time: std::time::Duration| format!("{}ms", time.as_millis());
    Command::new(env!("CARGO_BIN_EXE_quorumlock"))
        .args(["serve", "--nodes", nodes, "--transport", transport().name()])
        .args(["--ttl", &millis(TTL), "--max-ttl", &millis(MAX_TTL), "--node-timeout", &millis(TTL / 4)])
        .arg("--socket")
        .arg(socket)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("an agent starts")
}
