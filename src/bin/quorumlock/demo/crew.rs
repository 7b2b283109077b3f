//! The worker processes: started, listened to, and ended.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::TTL;
use super::worker::Report;
use crate::cli::Demo;
use crate::failure::Failure;
use crate::settings::Settings;

/// How long workers may take to finish their last section.
const PATIENCE: Duration = Duration::from_secs(15);

pub(super) struct Crew(Vec<Process>);

/// One process. It ends when its standard input does, so also when this process is killed.
struct Process {
    child: Child,
    last: Arc<Mutex<Report>>,
    reader: Option<JoinHandle<()>>,
}

impl Crew {
    /// Starts the processes, the workers spread over them.
    pub(super) fn start(args: &Demo, settings: &Settings, folder: &Path, verbose: u8) -> Result<Self, Failure> {
        let processes = args.processes.min(args.workers);
        let share = |index| args.workers / processes + u32::from(index < args.workers % processes);
        let start = |index| Process::start(share(index), settings, folder, verbose);
        (0..processes).map(start).collect::<Result<_, _>>().map(Self)
    }

    /// What all of them have told so far.
    pub(super) fn report(&self) -> Report {
        let mut sum = Report::default();
        for process in &self.0 {
            sum.add(&process.last.lock().unwrap_or_else(PoisonError::into_inner));
        }
        sum
    }

    /// Whether one of them has ended before it was asked to.
    pub(super) fn has_ended(&self) -> bool {
        self.0.iter().any(|process| process.reader.as_ref().is_none_or(JoinHandle::is_finished))
    }

    /// Lets them finish, and returns what they told.
    pub(super) async fn finish(mut self) -> Result<Report, Failure> {
        self.0.iter_mut().for_each(|process| drop(process.child.stdin.take()));
        let began = Instant::now();
        for process in &mut self.0 {
            process.finish(began + PATIENCE).await?;
        }
        Ok(self.report())
    }
}

impl Process {
    fn start(workers: u32, settings: &Settings, folder: &Path, verbose: u8) -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("demo-worker")
            .args(["--workers", &workers.to_string(), "--ttl", &format!("{}ms", TTL.as_millis()), "--folder"])
            .arg(folder)
            .args((0..verbose).map(|_| "-v"))
            .envs(settings.variables())
            // Ctrl-C is for the demo alone, which ends its workers itself.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let last = Arc::new(Mutex::new(Report::default()));
        let reader = child.stdout.take().map(|lines| listen(lines, last.clone()));
        Ok(Self { child, last, reader })
    }

    async fn finish(&mut self, until: Instant) -> Result<(), Failure> {
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => break,
                Some(status) => return Err(Failure::internal(format!("a worker process ended with {status}"))),
                None if Instant::now() > until => {
                    return Err(Failure::internal(format!("a worker process did not finish within {PATIENCE:?}")));
                }
                None => sleep(Duration::from_millis(5)).await,
            }
        }
        // Its last line may still be on the way.
        let read = self.reader.take().is_none_or(|reader| reader.join().is_ok());
        if read { Ok(()) } else { Err(Failure::internal("a worker's report was not read")) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Keeps the latest report of a process.
fn listen(lines: ChildStdout, last: Arc<Mutex<Report>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for line in BufReader::new(lines).lines().map_while(Result::ok) {
            if let Ok(report) = serde_json::from_str(&line) {
                *last.lock().unwrap_or_else(PoisonError::into_inner) = report;
            }
        }
    })
}
