//! Servers whose wall clocks a test sets.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::join_all;

use super::eventually;
use super::server::Server;

/// A server whose clock shows what a file says: `+5` is five seconds ahead, `+0 x1.01` runs a
/// hundredth fast.
pub struct Clockwork {
    pub server: Server,
    file: PathBuf,
    /// What a clock shows that stands still.
    shows: Mutex<Duration>,
}

impl Clockwork {
    pub async fn start(clock: &str) -> Self {
        let library = library();
        let environment = |folder: &Path| {
            std::fs::write(folder.join("clock"), clock).unwrap();
            [
                // libc comes next so that its allocator is found before jemalloc, which reads the
                // clock before it can be faked.
                ("LD_PRELOAD", format!("{}:libc.so.6", library.display())),
                ("FAKETIME_TIMESTAMP_FILE", folder.join("clock").display().to_string()),
                ("FAKETIME_NO_CACHE", "1".to_owned()),
                // A clock without a sign is one that stands still: seconds since the epoch.
                ("FAKETIME_FMT", "%s".to_owned()),
                // Only the wall clock: the monotonic one drives the server's own timers.
                ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into()
        };
        let server = Server::within(&[], environment).await;
        let file = server.folder().join("clock");
        Self { server, file, shows: Mutex::default() }
    }

    /// A clock that stands still until the test moves it: nothing ends because the test is late.
    pub async fn still() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        // In the middle of a millisecond, so that no rounding makes another one of it.
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

    /// Sets a clock back that stands still.
    pub fn set_back(&self, time: Duration) {
        let mut shows = self.shows.lock().unwrap();
        *shows -= time;
        self.set(&text(*shows));
    }

    pub fn set(&self, clock: &str) {
        // Renamed into place, so that it is never read half written.
        let fresh = self.file.with_extension("fresh");
        std::fs::write(&fresh, clock).unwrap();
        std::fs::rename(&fresh, &self.file).unwrap();
    }

    /// After it has started an hour ago by its clock.
    async fn becomes_aged(&self) {
        self.set("+0");
        eventually("it has been up for an hour", async || uptime(&self.server) > 3_000).await;
    }

    /// Ends it with SIGKILL and starts it again: an hour ago, by its clock.
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

/// Servers that have been up for an hour by their clocks, whose quarantine is over.
pub async fn aged(count: usize) -> Vec<Clockwork> {
    let start = async |_| {
        let clockwork = Clockwork::start("-3600").await;
        clockwork.becomes_aged().await;
        clockwork.server.make_old();
        clockwork
    };
    join_all((0..count).map(start)).await
}

/// The same where nobody sets their clocks any more.
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
