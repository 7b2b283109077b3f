//! Servers whose wall clocks a test sets.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::join_all;

use super::eventually;
use super::server::Server;

/// A server whose clock is set by a file: with `+5` it is five seconds ahead, with `+0 x1.01` it
/// runs 1 % fast.
pub struct Clockwork {
    pub server: Server,
    file: PathBuf,
    /// The time of a clock that stands still.
    shows: Mutex<Duration>,
}

impl Clockwork {
    pub async fn start(clock: &str) -> Self {
        let library = library();
        let environment = |folder: &Path| {
            std::fs::write(folder.join("clock"), clock).unwrap();
            [
                // Also preload libc, so that the server uses libc's allocator and not jemalloc.
                // jemalloc reads the clock before libfaketime is ready.
                ("LD_PRELOAD", format!("{}:libc.so.6", library.display())),
                ("FAKETIME_TIMESTAMP_FILE", folder.join("clock").display().to_string()),
                ("FAKETIME_NO_CACHE", "1".to_owned()),
                // A time without a sign stops the clock at this many seconds since the epoch.
                ("FAKETIME_FMT", "%s".to_owned()),
                // Fake only the wall clock, because the server's timers use the monotonic clock.
                ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into()
        };
        let server = Server::within(&[], environment).await;
        let file = server.folder().join("clock");
        Self { server, file, shows: Mutex::default() }
    }

    /// A server whose clock stands still until the test moves it. So no hold ends because the test
    /// is slow.
    pub async fn still() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        // Start in the middle of a millisecond, so that rounding never gives another millisecond.
        let shows = Duration::from_secs(now) + Duration::from_micros(500);
        let this = Self::start(&text(shows)).await;
        Self { shows: Mutex::new(shows), ..this }
    }

    /// Moves a clock that stands still.
    pub fn pass(&self, time: Duration) {
        let mut shows = self.shows.lock().unwrap();
        *shows += time;
        self.set(&text(*shows));
    }

    /// Sets back a clock that stands still.
    pub fn set_back(&self, time: Duration) {
        let mut shows = self.shows.lock().unwrap();
        *shows -= time;
        self.set(&text(*shows));
    }

    pub fn set(&self, clock: &str) {
        // Write another file, and rename it, so that the server never reads half of a time.
        let fresh = self.file.with_extension("fresh");
        std::fs::write(&fresh, clock).unwrap();
        std::fs::rename(&fresh, &self.file).unwrap();
    }

    /// Corrects the clock of a server that has just started with a clock that is an hour late.
    /// After that, the server seems to have been up for an hour.
    async fn becomes_aged(&self) {
        self.set("+0");
        eventually("it has been up for an hour", async || uptime(&self.server) > 3_000).await;
    }

    /// Kills the server, and starts it again with an uptime of an hour by its clock.
    pub async fn restart_aged(&mut self) {
        self.set("-3600");
        self.server.restart().await;
        self.becomes_aged().await;
    }

    pub fn time(&self) -> i64 {
        self.server.command(&["TIME"]).split(' ').next().unwrap().parse().unwrap()
    }
}

fn text(shows: Duration) -> String {
    format!("{}.{:06}", shows.as_secs(), shows.subsec_micros())
}

/// Servers that have been up for an hour by their clocks, and whose quarantine is over.
pub async fn aged(count: usize) -> Vec<Clockwork> {
    let start = async |_| {
        let clockwork = Clockwork::start("-3600").await;
        clockwork.becomes_aged().await;
        clockwork.server.make_old();
        clockwork
    };
    join_all((0..count).map(start)).await
}

/// As `aged`, for tests that set no clocks.
pub async fn aged_servers(count: usize) -> Vec<Server> {
    aged(count).await.into_iter().map(|clockwork| clockwork.server).collect()
}

fn uptime(server: &Server) -> u64 {
    let info = server.command(&["INFO", "server"]);
    info.lines().find_map(|line| line.trim().strip_prefix("uptime_in_seconds:")?.parse().ok()).unwrap_or(0)
}

pub fn library() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").unwrap().flatten().map(|entry| entry.path());
    let found = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).find(|library| library.exists());
    found.expect("libfaketime is installed (apt-get install faketime)")
}
