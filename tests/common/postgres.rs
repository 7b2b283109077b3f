//! A real PostgreSQL on loopback, with a free port and a folder of its own. It is not the system's
//! service, and ends when its handle is dropped.

use std::fs::{File, read_dir, read_to_string};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getuid, kill_process};
use tempfile::TempDir;
use tokio::sync::Mutex;

use super::PATIENCE;
use super::port::Port;
use super::program;

const MISSING: &str = "PostgreSQL is missing: scripts/test fetches it; by hand, apt-get install postgresql (Debian), or have initdb in PATH";
/// Debian's nobody. PostgreSQL refuses to run as root.
const NOBODY: u32 = 65_534;

/// A server process. Dropping this value ends the server.
pub struct Postgres {
    port: Port,
    process: Child,
    _folder: Arc<TempDir>,
}

impl Postgres {
    /// The server that the tests of this process share. It runs while a test uses it.
    pub async fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Postgres>> = Mutex::const_new(Weak::new());
        let mut shared = SHARED.lock().await;
        if let Some(running) = shared.upgrade() {
            return running;
        }
        let started = Arc::new(Self::start().await);
        *shared = Arc::downgrade(&started);
        started
    }

    async fn start() -> Self {
        let programs = programs().expect(MISSING);
        let folder = Arc::new(folder());
        let mut initdb = command(&programs, "initdb", folder.path());
        initdb.args(["-D", "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]);
        assert!(initdb.status().expect(MISSING).success(), "{}", log(&folder));
        // If a program that is no test uses the port, try another port.
        for _ in 0..20 {
            let port = Port::take();
            let process = launch(&programs, folder.path(), port.number());
            let mut server = Self { port, process, _folder: folder.clone() };
            if server.is_ready(folder.path()).await {
                return server;
            }
        }
        panic!("PostgreSQL does not start: {}", log(&folder));
    }

    pub const fn port(&self) -> u16 {
        self.port.number()
    }

    /// The URL of one of its databases.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port())
    }

    /// Waits until the server reports that it is ready. Returns false if it has ended.
    async fn is_ready(&mut self, folder: &Path) -> bool {
        let began = Instant::now();
        while began.elapsed() < PATIENCE && self.process.try_wait().unwrap().is_none() {
            let status = read_to_string(folder.join("data/postmaster.pid")).unwrap_or_default();
            if status.lines().nth(7).is_some_and(|line| line.trim() == "ready") {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        false
    }
}

impl Drop for Postgres {
    /// Ends the server at once, with all its processes.
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.process), Signal::QUIT);
        let _ = self.process.wait();
    }
}

/// The folder of `initdb` and `postgres`. Tries PATH, Debian's folder, and the folder into which
/// scripts/test unpacks them.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let test = std::env::current_exe().unwrap();
    let fetched = test.ancestors().nth(3)?.join("tools/usr/lib/postgresql");
    let versions = [PathBuf::from("/usr/lib/postgresql"), fetched].into_iter().flat_map(|folder| versions(&folder));
    let initdb = std::env::split_paths(&path).chain(versions).find_map(|bin| bin.join("initdb").canonicalize().ok());
    initdb?.parent().map(Path::to_path_buf)
}

/// The folders of the programs of each version, the newest first.
fn versions(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    found.sort_by_key(|path| std::cmp::Reverse(path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok())));
    found.into_iter().map(|version| version.join("bin")).collect()
}

fn folder() -> TempDir {
    let folder = TempDir::new().expect("a temporary folder");
    if getuid().is_root() {
        chown(folder.path(), Some(NOBODY), Some(NOBODY)).expect("root may do that");
    }
    folder
}

/// A program of PostgreSQL, which runs in `folder` as a user that is not root.
fn command(programs: &Path, program: &str, folder: &Path) -> Command {
    let mut command = program::command(programs.join(program));
    let log = || File::options().create(true).append(true).open(folder.join("log")).unwrap();
    command.current_dir(folder).stdin(Stdio::null()).stdout(log()).stderr(log());
    // If scripts/test unpacked the package, the libraries are in the same folder.
    if let Some(libraries) = programs.ancestors().nth(3).filter(|lib| lib.ends_with("tools/usr/lib")) {
        let all = read_dir(libraries).into_iter().flatten().flatten().map(|entry| entry.path());
        command.env("LD_LIBRARY_PATH", std::env::join_paths(all).unwrap());
    }
    if getuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

fn launch(programs: &Path, folder: &Path, port: u16) -> Child {
    let mut server = command(programs, "postgres", folder);
    server.args(["-D", "data", "-h", "127.0.0.1", "-p", &port.to_string(), "-k", ""]);
    // `-F`: the server's data need not survive a crash. `jit=off`: the server works without the
    // library for JIT.
    server.args(["-F", "-c", "jit=off", "-c", "timezone=GMT", "-c", "log_timezone=GMT"]);
    server.spawn().expect(MISSING)
}

fn log(folder: &TempDir) -> String {
    read_to_string(folder.path().join("log")).unwrap_or_default()
}
