//! Starts Redis servers on loopback, without persistence.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::failure::{Failure, UNAVAILABLE};
use crate::process;

/// How long a server may take to answer. Usually it takes about ten milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many ports to try: another process may take a free port before the server does.
const ATTEMPTS: usize = 10;

const MISSING: &str = "redis-server is missing. Install it (Debian, Ubuntu: apt-get install redis-server; Fedora: dnf install valkey; \
                       macOS: brew install redis)";

/// Running servers. Dropping this value kills the servers.
pub(crate) struct Servers {
    program: PathBuf,
    list: Vec<Server>,
}

struct Server {
    port: u16,
    process: Option<Child>,
}

impl Servers {
    /// Starts `count` servers, and waits until all of them answer.
    pub(crate) fn start(count: usize) -> Result<Self, Failure> {
        let known = ["redis-server", "valkey-server"];
        let program = known.into_iter().find_map(process::find).ok_or_else(|| Failure::new(UNAVAILABLE, MISSING))?;
        let mut servers = Self { program, list: Vec::new() };
        for _ in 0..count {
            servers.add()?;
        }
        Ok(servers)
    }

    pub(crate) fn ports(&self) -> Vec<u16> {
        self.list.iter().map(|server| server.port).collect()
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        Self::at(&self.ports())
    }

    pub(crate) fn at(ports: &[u16]) -> Vec<String> {
        ports.iter().map(|port| format!("redis://127.0.0.1:{port}")).collect()
    }

    /// How many script calls all servers together have run. The servers count these calls.
    pub(crate) fn script_calls(&self) -> io::Result<u64> {
        self.list.iter().map(|server| script_calls(server.port)).sum()
    }

    pub(crate) fn kill(&mut self, index: usize) {
        if let Some(server) = self.list.get_mut(index) {
            server.kill();
        }
    }

    /// Starts one server again at its old address, without its old data.
    pub(crate) fn restart(&mut self, index: usize) -> Result<(), Failure> {
        let Some(server) = self.list.get_mut(index) else { return Ok(()) };
        server.kill();
        server.launch(&self.program)?;
        Ok(())
    }

    fn add(&mut self) -> Result<(), Failure> {
        let mut met = io::Error::other("no free port");
        for _ in 0..ATTEMPTS {
            let mut server = Server { port: free_port()?, process: None };
            match server.launch(&self.program) {
                Ok(()) => {
                    self.list.push(server);
                    return Ok(());
                }
                Err(error) => met = error,
            }
        }
        Err(Failure::new(UNAVAILABLE, format!("{} does not start: {met}", self.program.display())))
    }
}

impl Server {
    fn launch(&mut self, program: &Path) -> io::Result<()> {
        // The server writes no files, so its folder can be removed as soon as the server runs. So
        // no folder is left behind, even if this process is killed.
        let folder = TempDir::new()?;
        let port = self.port.to_string();
        let mut command = process::tied(program.as_os_str())?;
        command
            .args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"])
            .arg(folder.path())
            // Use a process group of its own: otherwise Ctrl-C would end the server before its
            // clients.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.process = Some(command.spawn()?);
        let answered = self.answers();
        if answered.is_err() {
            self.kill();
        }
        answered
    }

    fn answers(&mut self) -> io::Result<()> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let process = self.process.as_mut().ok_or(io::ErrorKind::NotFound)?;
            if let Some(status) = process.try_wait()? {
                return Err(io::Error::other(format!("it ended with {status}")));
            }
            if serving(self.port).is_ok_and(|pid| pid == process.id()) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(3));
        }
        Err(io::Error::other("it does not answer"))
    }

    fn kill(&mut self) {
        // Kill only a process that still runs. If it has ended, another module may have reaped it,
        // and its process id may belong to another process.
        if let Some(mut process) = self.process.take()
            && let Ok(None) = process.try_wait()
        {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// The process id of the server at a port.
fn serving(port: u16) -> io::Result<u32> {
    let pid = info(port, "server")?.find_map(|line| line.strip_prefix("process_id:")?.trim().parse().ok());
    pid.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn script_calls(port: u16) -> io::Result<u64> {
    let calls = |line: String| {
        let (command, figures) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let count = figures.split(',').next()?.parse::<u64>().ok()?;
        ["eval", "evalsha"].contains(&command).then_some(count)
    };
    Ok(info(port, "commandstats")?.filter_map(calls).sum())
}

fn info(port: u16, section: &str) -> io::Result<impl Iterator<Item = String>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    // After QUIT the server closes the connection, so the reply ends where the stream ends.
    stream.write_all(format!("INFO {section}\r\nQUIT\r\n").as_bytes())?;
    Ok(BufReader::new(stream.take(1 << 16)).lines().map_while(Result::ok))
}
