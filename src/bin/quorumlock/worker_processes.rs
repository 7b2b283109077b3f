//! Worker processes of `demo` and `bench`: the same executable, with a hidden subcommand. This
//! module starts them, reads reports from their output, and ends them by closing their input.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use tokio::time::sleep;

use crate::duration::exact;
use crate::failure::Failure;
use crate::output;
use crate::process;
use crate::settings::Settings;

/// How long worker processes may take to end after their input was closed.
const PATIENCE: Duration = Duration::from_secs(15);

/// The report of a worker process. Each new report replaces the last one.
pub(crate) trait Report: Clone + Default + DeserializeOwned + Send + 'static {
    /// Adds the report of another process.
    fn add(&mut self, other: &Self);
}

/// Worker processes that send reports of type `R`.
pub(crate) struct WorkerProcesses<R>(Vec<Process<R>>);

/// One worker process. The worker process ends when its standard input ends, so it also ends if
/// this process is killed.
struct Process<R> {
    child: Child,
    last: Arc<Mutex<R>>,
    reader: Option<JoinHandle<()>>,
}

impl<R: Report> WorkerProcesses<R> {
    /// Starts up to `processes` processes, and spreads `workers` workers over them. `arguments`
    /// adds the arguments to the command of one process, and gets the number of workers of this
    /// process.
    pub(crate) fn start(
        workers: u32,
        processes: u32,
        settings: &Settings,
        arguments: impl Fn(&mut Command, u32),
    ) -> Result<Self, Failure> {
        let processes = processes.min(workers);
        let share = |index| workers / processes + u32::from(index < workers % processes);
        let start = |index| {
            let mut command = process::this_executable()?;
            arguments(&mut command, share(index));
            command.args(output::is_json().then_some("--log-format=json"));
            Process::start(command.envs(settings.variables()))
        };
        (0..processes).map(start).collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The sum of all processes' latest reports.
    pub(crate) fn report(&self) -> R {
        let mut sum = R::default();
        for process in &self.0 {
            sum.add(&process.last.lock().unwrap_or_else(PoisonError::into_inner));
        }
        sum
    }

    /// Whether a process has ended too early, although its input is still open.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.iter().any(|process| process.reader.as_ref().is_none_or(JoinHandle::is_finished))
    }

    /// Writes one line to the standard input of each process.
    pub(crate) fn tell(&mut self, line: &str) -> Result<(), Failure> {
        let mut inputs = self.0.iter_mut().filter_map(|process| process.child.stdin.as_mut());
        let told = inputs.try_for_each(|input| writeln!(input, "{line}"));
        told.map_err(|error| Failure::internal(format!("a worker process ended too early: {error}")))
    }

    /// Closes the input of all processes, waits for their end, and returns the sum of their
    /// reports.
    pub(crate) async fn finish(mut self) -> Result<R, Failure> {
        self.0.iter_mut().for_each(|process| drop(process.child.stdin.take()));
        let began = Instant::now();
        for process in &mut self.0 {
            process.finish(began + PATIENCE).await?;
        }
        Ok(self.report())
    }
}

impl<R: Report> Process<R> {
    fn start(command: &mut Command) -> Result<Self, Failure> {
        // Use a process group of its own: this process gets Ctrl-C, and then ends its workers.
        let mut child = command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let last = Arc::new(Mutex::new(R::default()));
        let reader = child.stdout.take().map(|lines| listen(lines, last.clone()));
        Ok(Self { child, last, reader })
    }

    async fn finish(&mut self, until: Instant) -> Result<(), Failure> {
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => break,
                Some(status) => return Err(Failure::internal(format!("a worker process ended with {status}"))),
                None if Instant::now() > until => {
                    return Err(Failure::internal(format!(
                        "a worker process did not finish within {}",
                        exact(PATIENCE)
                    )));
                }
                None => sleep(Duration::from_millis(5)).await,
            }
        }
        // Wait for the reader, which may not have read the last line yet.
        let read = self.reader.take().is_none_or(|reader| reader.join().is_ok());
        if read { Ok(()) } else { Err(Failure::internal("a worker's report was not read")) }
    }
}

impl<R> Drop for Process<R> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a thread that reads the reports of a process and keeps the latest.
fn listen<R: Report>(lines: ChildStdout, last: Arc<Mutex<R>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for line in BufReader::new(lines).lines().map_while(Result::ok) {
            if let Ok(report) = serde_json::from_str(&line) {
                *last.lock().unwrap_or_else(PoisonError::into_inner) = report;
            }
        }
    })
}
