//! Starts redis-server processes on loopback, and reads their counters.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How long a server may take to start, or to answer one command.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many ports to try: another process may take a free port before the server does.
const ATTEMPTS: usize = 10;
/// Counters must stand still for this long before they are used: an operation ends with a quorum,
/// while the other nodes still carry it out.
const QUIET: Duration = Duration::from_millis(5);

/// One server. Dropping this value ends the server.
pub struct Server {
    port: u16,
    process: Child,
    probe: Probe,
    _folder: TempDir,
}

impl Server {
    /// Starts an empty server, and returns when it answers.
    pub fn start() -> io::Result<Self> {
        let mut met = io::Error::other("no free port");
        for _ in 0..ATTEMPTS {
            match free_port().and_then(Self::launch) {
                Ok(server) => return Ok(server),
                Err(error) => met = error,
            }
        }
        Err(met)
    }

    fn launch(port: u16) -> io::Result<Self> {
        let folder = TempDir::new()?;
        let mut process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"])
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| io::Error::other(format!("redis-server does not start: {error}")))?;
        match answering(port, &mut process) {
            Ok(probe) => Ok(Self { port, process, probe, _folder: folder }),
            Err(error) => {
                let _ = process.kill();
                let _ = process.wait();
                Err(error)
            }
        }
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Suspends the server: it answers nothing, and its connections stay open.
    pub fn stop(&self) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.process), Signal::STOP)?)
    }

    /// Lets a suspended server go on.
    pub fn resume(&self) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.process), Signal::CONT)?)
    }

    /// Ends the server with SIGKILL.
    pub fn kill(&mut self) -> io::Result<()> {
        self.process.kill()?;
        self.process.wait().map(drop)
    }

    /// Starts a killed server again at its address. The new process has no data.
    pub fn restart(&mut self) -> io::Result<()> {
        *self = Self::launch(self.port)?;
        Ok(())
    }

    /// A section of INFO.
    pub fn info(&mut self, section: &str) -> io::Result<String> {
        self.probe.text(&["INFO", section])
    }

    pub fn counts(&mut self) -> io::Result<Counts> {
        let commands = self.info("commandstats")?.lines().filter_map(calls).collect();
        let cpu = cpu(&self.info("cpu")?);
        Ok(Counts { commands, cpu: cpu.ok_or_else(|| io::Error::other("a server does not tell its CPU time"))? })
    }

    pub fn load(&mut self, script: &str) -> io::Result<String> {
        self.probe.text(&["SCRIPT", "LOAD", script])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// The counters of all servers, once the servers have done everything that was sent to them.
pub fn settled(servers: &mut [Server]) -> io::Result<Vec<Counts>> {
    let began = Instant::now();
    let mut last = read(servers)?;
    while began.elapsed() < PATIENCE {
        sleep(QUIET);
        let now = read(servers)?;
        if now.iter().zip(&last).all(|(now, last)| now.commands == last.commands) {
            return Ok(now);
        }
        last = now;
    }
    Err(io::Error::other("the servers do not come to rest"))
}

fn read(servers: &mut [Server]) -> io::Result<Vec<Counts>> {
    servers.iter_mut().map(Server::counts).collect()
}

fn answering(port: u16, process: &mut Child) -> io::Result<Probe> {
    let began = Instant::now();
    let own = format!("process_id:{}\r\n", process.id());
    while began.elapsed() < PATIENCE {
        if let Some(status) = process.try_wait()? {
            return Err(io::Error::other(format!("redis-server ended with {status}")));
        }
        if let Ok(mut probe) = Probe::connect(port) {
            // Another process may have taken the port first.
            if probe.text(&["INFO", "server"])?.contains(&own) {
                return Ok(probe);
            }
        }
        sleep(Duration::from_millis(3));
    }
    Err(io::Error::other("redis-server does not answer"))
}

/// What a server has done since its start, by its own counters.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// How often each command was carried out, also by scripts.
    pub commands: BTreeMap<String, u64>,
    /// The CPU time of the thread that carries out commands.
    pub cpu: Duration,
}

impl Counts {
    pub fn total(&self) -> u64 {
        self.commands.values().sum()
    }

    /// How many commands were script calls.
    pub fn script_calls(&self) -> u64 {
        ["eval", "evalsha"].iter().filter_map(|name| self.commands.get(*name)).sum()
    }
}

/// Parses `cmdstat_set:calls=12,usec=34,..`. Leaves out INFO, which this program sends.
fn calls(line: &str) -> Option<(String, u64)> {
    let (command, figures) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
    let count = figures.split(',').next()?.parse().ok()?;
    (command != "info").then(|| (command.to_owned(), count))
}

/// CPU time in user and kernel space: of the main thread if the server reports it, else of all
/// threads.
fn cpu(info: &str) -> Option<Duration> {
    let seconds = |name: &str| {
        let thread = field(info, &format!("{name}_main_thread"));
        thread.or_else(|| field(info, name))?.parse::<f64>().ok()
    };
    Duration::try_from_secs_f64(seconds("used_cpu_user")? + seconds("used_cpu_sys")?).ok()
}

/// The value of a line `name:value` of INFO.
pub fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// The lab's own connection to a server.
struct Probe(BufReader<TcpStream>);

impl Probe {
    fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends a command whose reply is a text.
    fn text(&mut self, command: &[&str]) -> io::Result<String> {
        self.0.get_mut().write_all(&request(command))?;
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let length = line.strip_prefix('$').and_then(|length| length.trim().parse::<usize>().ok());
        let mut bytes = vec![0; length.ok_or_else(|| io::Error::other(line.trim().to_owned()))? + 2];
        self.0.read_exact(&mut bytes)?;
        bytes.truncate(bytes.len() - 2);
        String::from_utf8(bytes).map_err(io::Error::other)
    }
}

/// A command in the Redis protocol.
pub fn request(command: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    write_request(&mut bytes, command);
    bytes
}

/// Appends a command in the Redis protocol.
pub fn write_request(bytes: &mut Vec<u8>, command: &[&str]) {
    // Writing to a vector does not fail.
    let _ = write!(bytes, "*{}\r\n", command.len());
    for word in command {
        let _ = write!(bytes, "${}\r\n", word.len());
        bytes.extend_from_slice(word.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_itself_is_not_counted() {
        let lines = ["cmdstat_set:calls=12,usec=3", "cmdstat_script|load:calls=1,usec=9", "cmdstat_info:calls=5", "#"];
        let read: Vec<_> = lines.into_iter().filter_map(calls).collect();
        assert_eq!(read, [("set".to_owned(), 12), ("script|load".to_owned(), 1)]);
    }

    #[test]
    fn cpu_time_of_the_main_thread_is_preferred() {
        let all = "used_cpu_sys:1.5\r\nused_cpu_user:2.5\r\nused_cpu_sys_children:9\r\n";
        assert_eq!(cpu(all), Some(Duration::from_secs(4)));
        let one = format!("{all}used_cpu_sys_main_thread:1.0\r\nused_cpu_user_main_thread:2.0\r\n");
        assert_eq!(cpu(&one), Some(Duration::from_secs(3)));
        assert_eq!(cpu(""), None);
    }
}
