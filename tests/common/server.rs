//! A real redis-server on loopback, with a free port and without persistence.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::PATIENCE;
use super::port::Port;
use super::program::command;

/// A redis-server process. Dropping this value kills the process.
pub struct Server {
    port: Port,
    /// The other ports that the server's options name.
    more_ports: Vec<Port>,
    options: Vec<String>,
    environment: Vec<(String, String)>,
    folder: TempDir,
    process: Option<Child>,
}

/// Returns the owner of a name, the count of its guards, and the time that is left: see
/// scripts/lua/name.lua.
const HOLD: &str = "local time = redis.call('TIME')
    local owner, count, ends = unpack(redis.call('HMGET', KEYS[1], 'owner', 'count', 'until'))
    local now = math.floor(time[1] * 1000 + time[2] / 1000)
    local readers, reading = redis.call('HGETALL', KEYS[1] .. ':readers'), 0
    for at = 1, #readers, 2 do
        local till = tonumber(string.match(readers[at + 1], '^%d+'))
        if till > now then reading = reading + 1 end
        if till > now and (reading == 1 or till > ends) then owner, count, ends = readers[at], 0, till end
    end
    count = reading > 0 and reading or count
    local left = (ends or 0) - now
    return left > 0 and string.format('%s %d %.0f', owner, count, left) or ''";

const TAKE: &str = "local time = redis.call('TIME')
    local ends = string.format('%.0f', math.floor(time[1] * 1000 + time[2] / 1000) + 600000)
    redis.call('HSETNX', KEYS[1], 'fence', 0)
    redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'count', 1, 'until', ends, 'ttl', 600000)
    redis.call('PEXPIRE', KEYS[1], 900000)
    return 'OK'";

/// Removes the holds of a name, also those of readers, and keeps its fence. Returns whether there
/// was a hold.
const FORGET: &str = "return redis.call('HDEL', KEYS[1], 'owner', 'until', 'ttl', 'count')
    + redis.call('DEL', KEYS[1] .. ':readers')";

/// Writes the record of a server that never forgot anything, without a list in force: see
/// scripts/lua/hello.lua.
const OLD: &str = "local time = redis.call('TIME')
    local now = math.floor(time[1] * 1000 + time[2] / 1000)
    local since, rotated = string.format('%.0f', now - 172800000), string.format('%.0f', now)
    redis.call('HSET', KEYS[1], 'id', ARGV[1], 'process', ARGV[2], 'since', since, 'synced', '1')
    redis.call('HSET', KEYS[1], 'high', '0', 'mid', '0', 'floor', '0', 'rotated', rotated)
    return 'OK'";

const IN_FORCE: &str = "local time = redis.call('TIME')
    local now = math.floor(time[1] * 1000 + time[2] / 1000)
    local begun, ends = string.format('%.0f', now), string.format('%.0f', now + ARGV[2])
    redis.call('HSET', KEYS[1], 'list', 'ffffffffffffffff', 'says', ARGV[1], 'begun', begun)
    redis.call('HSET', KEYS[1], 'until', ends, 'lasts', ARGV[2])
    return 'OK'";

fn key(name: &str) -> String {
    format!("quorumlock:{{{name}}}")
}

impl Server {
    /// Starts an empty server and waits until it answers.
    pub async fn start() -> Self {
        Self::with(&[]).await
    }

    /// Starts a server with more options, as on redis-server's command line.
    pub async fn with(options: &[&str]) -> Self {
        Self::within(options, |_| Vec::new()).await
    }

    /// Starts a server with more options, and with the environment that `environment` makes for its
    /// folder.
    pub async fn within(options: &[&str], environment: impl Fn(&Path) -> Vec<(String, String)>) -> Self {
        super::beside::ready();
        let options: Vec<_> = options.iter().map(|&option| option.to_owned()).collect();
        // If a program that is no test uses the port, try another port.
        for _ in 0..20 {
            let folder = TempDir::new().expect("a temporary folder");
            let environment = environment(folder.path());
            let mut server = Self {
                port: Port::take(),
                more_ports: Vec::new(),
                options: options.clone(),
                environment,
                folder,
                process: None,
            };
            if server.launch().await {
                return server;
            }
        }
        panic!("redis-server does not start; is it installed? (apt-get install redis-server)");
    }

    pub const fn port(&self) -> u16 {
        self.port.number()
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    /// Keeps a port that the server's options name, until the server is dropped.
    pub fn keep(&mut self, port: Port) {
        self.more_ports.push(port);
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills the server, and starts it again on the same port. Without options for persistence, it
    /// has forgotten everything.
    pub async fn restart(&mut self) {
        self.kill();
        for _ in 0..100 {
            if self.launch().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("redis-server does not start again on port {}", self.port());
    }

    /// Writes an old record, so that the server votes at once, whatever `max_ttl` its clients have.
    pub fn make_old(&self) {
        let info = self.command(&["INFO", "server"]);
        let run = info.split_whitespace().find_map(|line| line.strip_prefix("run_id:")).expect("its run id");
        assert_eq!(self.command(&["EVAL", OLD, "1", "quorumlock:node", &run[..16], run]), "OK");
    }

    /// Puts another list with this text in force for `ms` milliseconds, as clients of this list
    /// would.
    pub fn put_in_force(&self, says: &str, ms: u64) {
        assert_eq!(self.command(&["EVAL", IN_FORCE, "1", "quorumlock:node", says, &ms.to_string()]), "OK");
    }

    /// A field of the node's record; empty if there is no such field.
    pub fn record(&self, field: &str) -> String {
        self.command(&["HGET", "quorumlock:node", field])
    }

    /// Deletes the files of a server that is down. So the server starts again without data.
    pub fn wipe(&self) {
        assert!(self.process.is_none(), "it runs");
        for entry in std::fs::read_dir(self.folder.path()).unwrap().flatten() {
            let path = entry.path();
            let _ = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        }
    }

    /// Ends the server with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Whether the server runs, or is only stopped; false after `kill`.
    pub const fn is_alive(&self) -> bool {
        self.process.is_some()
    }

    /// Stops the server: its connections stay open, and it does not answer.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets a stopped server go on.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// The holder of a name, the count of its guards, and the milliseconds that are left by the
    /// server's clock.
    pub fn hold(&self, name: &str) -> Option<(String, u32, u64)> {
        let said = self.command(&["EVAL", HOLD, "1", &key(name)]);
        let mut words = said.split(' ');
        let owner = words.next().filter(|owner| !owner.is_empty())?;
        Some((owner.to_owned(), words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    }

    pub fn holder(&self, name: &str) -> Option<String> {
        self.hold(name).map(|(owner, ..)| owner)
    }

    pub fn fence(&self, name: &str) -> u64 {
        self.command(&["HGET", &key(name), "fence"]).parse().unwrap_or(0)
    }

    /// The highest ballot in the node's record, under a key prefix.
    pub fn high(&self, prefix: &str) -> u64 {
        self.command(&["HGET", &format!("{prefix}node"), "high"]).parse().expect("it has a record")
    }

    /// When the hold of a name ends, in milliseconds since the epoch by the server's clock. 0 if
    /// nobody holds the name on this server. The lock may still be held, on the other servers.
    pub fn ends(&self, name: &str) -> u128 {
        self.command(&["HGET", &key(name), "until"]).parse().unwrap_or(0)
    }

    pub fn set_fence(&self, name: &str, fence: u64) {
        self.command(&["HSET", &key(name), "fence", &fence.to_string()]);
    }

    /// Makes `owner` the holder of a name, for ten minutes.
    pub fn take(&self, name: &str, owner: &str) {
        assert_eq!(self.command(&["EVAL", TAKE, "1", &key(name), owner]), "OK");
    }

    /// Removes the hold of a name, and keeps its fence. Returns whether there was a hold.
    pub fn forget(&self, name: &str) -> bool {
        self.command(&["EVAL", FORGET, "1", &key(name)]) != "0"
    }

    /// Sends one command over a connection of its own and returns the raw reply's lines, joined by
    /// spaces.
    pub fn command(&self, words: &[&str]) -> String {
        ask(self.port(), words, PATIENCE).expect("the server answers")
    }

    /// Sends a command again and again over one connection, until `over` is true, and no longer
    /// than `longest`.
    pub fn repeat(&self, words: &[&str], over: &AtomicBool, longest: Duration) {
        let began = Instant::now();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port())).expect("the server accepts");
        let mut answers = BufReader::new(stream.try_clone().expect("a second handle"));
        while !over.load(Ordering::Relaxed) && began.elapsed() < longest {
            stream.write_all(request(words).as_bytes()).expect("the server reads");
            reply(&mut answers).expect("the server answers");
        }
    }

    async fn launch(&mut self) -> bool {
        let port = self.port().to_string();
        let process = command("redis-server")
            .args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            // Synchronize a replica at once: do not wait for further replicas.
            .args(["--repl-diskless-sync-delay", "0", "--dir"])
            .arg(self.folder.path())
            .args(&self.options)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server starts; install it (apt-get install redis-server)");
        self.process = Some(process);
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if self.process.as_mut().is_some_and(|process| process.try_wait().unwrap().is_some()) {
                return false;
            }
            if TcpStream::connect(("127.0.0.1", self.port())).is_ok() && self.is_ours() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.kill();
        false
    }

    /// Whether the server at the port is this process, and has loaded its data: another process may
    /// have taken the port first, and a server that loads refuses commands.
    fn is_ours(&self) -> bool {
        let pid = self.process.as_ref().map_or(0, Child::id);
        let Ok(info) = ask(self.port(), &["INFO"], PATIENCE) else { return false };
        let (is_ours, has_loaded) = (info.contains(&format!("process_id:{pid}\r")), info.contains("\nloading:0\r"));
        info.contains("NOAUTH") || (is_ours && has_loaded)
    }

    fn signal(&self, signal: Signal) {
        let process = self.process.as_ref().expect("the server runs");
        kill_process(Pid::from_child(process), signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends one command to the server at `port`, and returns the lines of the raw reply, joined by
/// spaces.
pub fn ask(port: u16, words: &[&str], patience: Duration) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(request(words).as_bytes())?;
    reply(&mut BufReader::new(stream))
}

fn request(words: &[&str]) -> String {
    let lines = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n", words.len()) + &lines.collect::<String>()
}

fn reply(stream: &mut impl BufRead) -> std::io::Result<String> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    let line = line.trim_end();
    let (kind, rest) = line.split_at(1.min(line.len()));
    let number = || rest.parse::<usize>().map_err(|_| std::io::ErrorKind::InvalidData);
    Ok(match kind {
        "$" if rest != "-1" => {
            let mut bytes = vec![0; number()? + 2];
            stream.read_exact(&mut bytes)?;
            String::from_utf8_lossy(&bytes).trim_end().to_owned()
        }
        "*" if rest != "-1" => (0..number()?).map(|_| reply(stream)).collect::<std::io::Result<Vec<_>>>()?.join(" "),
        "$" | "*" => String::new(),
        _ => rest.to_owned(),
    })
}
