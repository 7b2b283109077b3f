//! Worker processes: this executable once more, under a hidden subcommand. Started, listened to,
//! and ended.

use std::io::{self, BufRead, BufReader, Write};
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

/// How long workers may take to finish their last section.
const PATIENCE: Duration = Duration::from_secs(15);

/// What a process tells of itself, again and again; each time all of it.
pub(crate) trait Report: Clone + Default + DeserializeOwned + Send + 'static {
    /// Adds what another process told.
    fn add(&mut self, other: &Self);
}

/// Processes that tell `R`.
pub(crate) struct Crew<R>(Vec<Process<R>>);

/// One process. It ends when its standard input does, so also when this process is killed.
struct Process<R> {
    child: Child,
    last: Arc<Mutex<R>>,
    reader: Option<JoinHandle<()>>,
}

impl<R: Report> Crew<R> {
    /// Starts up to `processes` processes with `workers` workers spread over them. `arguments`
    /// makes the arguments of one that has so many workers.
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

    /// How many processes there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// What all of them have told so far.
    pub(crate) fn report(&self) -> R {
        let mut sum = R::default();
        for process in &self.0 {
            sum.add(&process.last.lock().unwrap_or_else(PoisonError::into_inner));
        }
        sum
    }

    /// Whether one of them has ended before it was asked to.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.iter().any(|process| process.reader.as_ref().is_none_or(JoinHandle::is_finished))
    }

    /// Tells all of them one line, on their standard input.
    pub(crate) fn tell(&mut self, line: &str) -> io::Result<()> {
        let inputs = self.0.iter_mut().filter_map(|process| process.child.stdin.as_mut());
        inputs.into_iter().try_for_each(|input| writeln!(input, "{line}"))
    }

    /// Lets them finish, and returns what they told.
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
        // Ctrl-C is for the one that started them, which ends its workers itself.
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
        // Its last line may still be on the way.
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

/// Keeps the latest report of a process.
fn listen<R: Report>(lines: ChildStdout, last: Arc<Mutex<R>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for line in BufReader::new(lines).lines().map_while(Result::ok) {
            if let Ok(report) = serde_json::from_str(&line) {
                *last.lock().unwrap_or_else(PoisonError::into_inner) = report;
            }
        }
    })
}
