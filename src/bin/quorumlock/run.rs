//! `quorumlock run` and `elect`: run a command under a lock, and end the command before the lock
//! ends.
//!
//! In this order:
//! 1. Check options and settings (exit code 64), and wait for a quorum of nodes (69).
//! 2. Acquire the lock (75 if others hold it). Until the command starts, signal number n ends `run`
//!    with 128 + n.
//! 3. Start the command (126 or 127 if it cannot be run), and pass signals on to it.
//! 4. Watch the lock, and stop the command if the lock is lost or about to end (76): see
//!    supervisor.rs.
//! 5. Release the lock once the command has ended, or hand it on by a ticket. The exit code is that
//!    of the command.

mod endpoint;
mod hand_on;
mod notes;
mod supervisor;

use std::cell::Cell;
use std::future::Future;
use std::net::SocketAddr;
use std::process::{ExitCode, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quorumlock::{Error, ErrorKind, Quorum, Released, Ticket};
use rustix::process::Signal;
use tokio::task::yield_now;
use tokio::time::sleep;

use crate::cli::{Elect, Run};
use crate::connecting::{a_quorum, a_vote, with_password};
use crate::duration::exact;
use crate::exporter;
use crate::failure::{Failure, LOST, Outcome, TIMEOUT as NOT_ACQUIRED};
use crate::held_lock::{Held, View, Wanted};
use crate::output;
use crate::password::PasswordFile;
use crate::process::{self, Program, Signals};
use crate::settings::Settings;
use crate::ticket_file::{self, TicketFile};
use crate::times::{self, Wait};
use crate::words::listed;
use endpoint::Endpoint;
use supervisor::{Ended, Supervisor};

/// The most bytes of all names together: Linux limits an environment variable to 128 KiB.
const LONGEST_NAMES: usize = 130_000;
/// How long to wait for the other nodes after a quorum has confirmed the release.
const FAREWELL: Duration = Duration::from_millis(200);

pub(crate) async fn run(mut args: Run) -> Outcome {
    let several = args.names.len() > 1;
    refuse([
        (several && args.ticket.is_some(), "--ticket takes one name: a lock on several names cannot become a ticket"),
        (several && args.shared, "--shared takes one name: readers cannot hold several names together"),
        (several && args.permits.is_some(), "--permits takes one name: the name of the semaphore"),
        (several && args.once_per.is_some(), "--once-per takes one name: nodes remember the job under this name"),
    ])?;
    let Some(file) = &args.resume else { return held_by_a_command(args, Purpose::Run).await };
    let ticket = ticket_file::read("--resume", file)?;
    args.names = vec![ticket.name().to_owned()];
    held_by_a_command(args, Purpose::Resume(ticket)).await
}

pub(crate) async fn elect(args: Elect) -> Outcome {
    let Elect { run, value, http } = args;
    refuse([
        (run.shared, "an election has no --shared: only one process leads at a time"),
        (run.permits.is_some(), "an election has no --permits: only one process leads at a time"),
        (
            run.once_per.is_some() || run.at_least.is_some(),
            "an election has neither --once-per nor --at-least: use them with `run`",
        ),
        (
            run.ticket.is_some() || run.resume.is_some(),
            "an election has neither --ticket nor --resume: a leader cannot hand its lock on",
        ),
        (run.describe.is_some(), "an election has no --describe; use --value, which others see while the command runs"),
    ])?;
    let http = http.map(|text| exporter::listening("--http", &text)).transpose()?;
    held_by_a_command(run, Purpose::Elect { value, http }).await
}

/// Fails with the text of the first pair whose condition is true.
fn refuse<const N: usize>(mistakes: [(bool, &str); N]) -> Result<(), Failure> {
    let made = mistakes.into_iter().find(|(is_made, _)| *is_made);
    made.map_or(Ok(()), |(_, text)| Err(Failure::usage(text)))
}

/// The kind of lock that the command needs.
enum Purpose {
    /// The lock that the options of `run` describe.
    Run,
    /// The lock of a ticket.
    Resume(Ticket),
    /// The lock of a leader. Other clients see the value while the command runs. At the address,
    /// the process says who leads.
    Elect { value: Option<String>, http: Option<SocketAddr> },
}

async fn held_by_a_command(args: Run, purpose: Purpose) -> Outcome {
    let mut signals = Signals::all()?;
    let setup = Setup::of(&args, purpose)?;
    let metrics = exporter::start(args.metrics.as_deref(), args.metrics_textfile.as_deref())?;
    let outcome = connected(&args, setup, &mut signals).await;
    if let Some(file) = metrics {
        file.write(outcome.as_ref().err().map_or(0, |failure| failure.code));
    }
    outcome
}

/// Connects, acquires the lock, and runs the command under it. With `--again`, acquires the lock
/// and runs the command again after each loss.
async fn connected(args: &Run, setup: Setup, signals: &mut Signals) -> Outcome {
    let mut wait = Wait { began: Instant::now(), timeout: times::timeout(args, &setup.settings)? };
    let job = match unless_told(signals, Job::connect(args, setup, wait)).await {
        Ok(job) => job?,
        Err(signal) => return Ok(process::ended_by(signal)),
    };
    let outcome = loop {
        match job.under_lock(wait, signals).await {
            Ok(Some(code)) => break Ok(code),
            Ok(None) => wait = wait.again(),
            Err(failure) => break Err(failure),
        }
    };
    job.quorum.shutdown(FAREWELL).await;
    outcome
}

/// The settings from options, environment and configuration file.
struct Setup {
    purpose: Purpose,
    settings: Settings,
    secret: Option<PasswordFile>,
    ttl: Duration,
    grace: Duration,
    ticket: Option<TicketFile>,
}

impl Setup {
    fn of(args: &Run, purpose: Purpose) -> Result<Self, Failure> {
        fit_into_a_variable(&args.names)?;
        let (settings, secret) = Settings::without_password(&args.nodes)?;
        settings.need_nodes(&args.nodes)?;
        let ttl = times::ttl(args.ttl, &settings)?;
        let grace = times::grace(args.kill_grace, ttl)?;
        if args.ticket.is_some() && args.ticket == args.metrics_textfile {
            return Err(Failure::usage("--ticket and --metrics-textfile name the same file; give two files"));
        }
        let ticket = args.ticket.as_deref().map(|file| TicketFile::check(file, &args.names[0])).transpose()?;
        Ok(Self { purpose, settings, secret, ttl, grace, ticket })
    }
}

/// Checks that the names fit into QUORUMLOCK_NAME: the command gets them there, one per line.
fn fit_into_a_variable(names: &[String]) -> Result<(), Failure> {
    if let Some(name) = names.iter().find(|name| name.contains('\n')) {
        return Err(Failure::usage(format!("the name {name:?} has a line feed, but CMD gets one name per line")));
    }
    let bytes: usize = names.iter().map(|name| name.len() + 1).sum();
    match bytes <= LONGEST_NAMES {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "the names have {bytes} bytes together, but CMD can get {LONGEST_NAMES}; use shorter names, or the library"
        ))),
    }
}

/// A connected `Quorum`, and a command that is to run under a lock.
struct Job<'a> {
    args: &'a Run,
    quorum: Quorum,
    wanted: Wanted,
    /// The command is stopped when only this much of the lock's validity is left.
    grace: Duration,
    /// The longest time for which nodes hold a lock that is not released.
    stays: Duration,
    endpoint: Option<Arc<Endpoint>>,
    /// The file of `--ticket`.
    ticket: Option<TicketFile>,
}

impl<'a> Job<'a> {
    async fn connect(args: &'a Run, setup: Setup, wait: Wait) -> Result<Self, Failure> {
        let Setup { purpose, settings, secret, ttl, grace, ticket } = setup;
        let longest = settings.connect_timeout;
        let (builder, patience) = with_password(&settings, secret.as_ref(), wait.connecting(longest)).await?;
        let quorum = builder.ttl(ttl).connect_timeout(patience).open()?;
        let options = quorum.options().fair(!args.unfair).min_validity(times::least(grace, ttl));
        let (wanted, http) = match purpose {
            Purpose::Run => (Wanted::of(args, &quorum, &options)?, None),
            Purpose::Resume(ticket) => (Wanted::Resumed(Box::new((quorum.clone(), ticket, options))), None),
            Purpose::Elect { value, http } => {
                (Wanted::Office(quorum.election_with(&args.names[0], &options)?, value), http)
            }
        };
        let endpoint = match http {
            Some(address) => Some(Endpoint::serve(Endpoint::bind(address).await?, quorum.clone(), &args.names[0])),
            None => None,
        };
        let rotates = secret.is_some_and(|secret| secret.is_regular());
        let began = Instant::now();
        a_quorum(&quorum, patience, wait.option(longest), rotates).await?;
        // With `--no-wait`, `--once-per` or `--resume`, `acquire` does not wait for quarantines. So
        // wait here.
        if args.no_wait || args.resume.is_some() && wait.timeout.is_zero() {
            a_vote(&quorum, began, patience).await;
        } else if args.once_per.is_some() || args.resume.is_some() {
            a_vote(&quorum, wait.began, wait.timeout).await;
        }
        // With `--once-per`, nodes hold the name until the period ends.
        let stays = args.once_per.unwrap_or(ttl).max(ttl);
        Ok(Self { args, quorum, wanted, grace, stays, endpoint, ticket })
    }

    /// Acquires the lock, and runs the command under it. `None` if the command must be run again.
    async fn under_lock(&self, wait: Wait, signals: &mut Signals) -> Result<Option<ExitCode>, Failure> {
        let held = match unless_told(signals, self.acquired(wait)).await {
            Ok(held) => held?,
            Err(signal) => return Ok(Some(process::ended_by(signal))),
        };
        let Some(held) = held else {
            output::note(&notes::done_already(&self.args.names[0], &self.quorum).await);
            return Ok(Some(ExitCode::from(self.args.conflict_exit_code.unwrap_or(0))));
        };
        // A signal may have arrived during the acquisition, for example by Ctrl-C. The command has
        // not started, so it did not get this signal: end here.
        if let Err(signal) = unless_told(signals, yield_now()).await {
            self.give_back(held).await;
            return Ok(Some(process::ended_by(signal)));
        }
        self.show(Some(held.view()));
        let ended = self.command_under(held.view(), signals).await;
        self.show(None);
        match ended {
            Ok(Ended::ByItself { status, asked }) => self.finish(held, status, asked, signals).await.map(Some),
            Ok(Ended::Stopped { how, for_good }) => {
                self.give_back(held).await;
                if for_good || !self.args.again {
                    return Err(Failure::new(LOST, how));
                }
                output::note(&format!("{how}; waiting for {} again", listed(&self.args.names)));
                Ok(None)
            }
            Err(failure) => {
                self.give_back(held).await;
                Err(if self.args.resume.is_some() { failure.and(hand_on::USED_UP) } else { failure })
            }
        }
    }

    /// Tells the endpoint, if there is one, whether this process leads.
    fn show(&self, held: Option<View>) {
        if let Some(endpoint) = &self.endpoint {
            endpoint.set(held);
        }
    }

    /// Acquires the lock. With `--once-per`, returns `None` if the job was done in this period, or
    /// is being done.
    async fn acquired(&self, wait: Wait) -> Result<Option<Held>, Failure> {
        if let Wanted::Resumed(_) = self.wanted {
            return self.wanted.acquire(wait.left()).await.map_err(hand_on::not_resumed);
        }
        let written = Cell::new(false);
        let held = tokio::select! {
            biased;
            held = self.wanted.acquire(wait.left()) => held,
            never = notes::while_waiting(self.args, wait, &self.quorum, &written) => match never {},
        };
        if written.get() && matches!(held, Ok(Some(_))) {
            output::note(&format!("the wait is over: this process holds {}", listed(&self.args.names)));
        }
        held.map_err(|error| match self.args.once_per {
            // If another client has the job, `acquire` returns `None`. So an error is no conflict
            // here.
            Some(_) => error.into(),
            None => self.not_acquired(error),
        })
    }

    /// Makes the failure of an acquisition. If others hold the lock, the exit code is the one that
    /// the user chose with `-E`, or 75. All other errors keep their own exit code.
    fn not_acquired(&self, error: Error) -> Failure {
        let names = &self.args.names;
        match (error.kind(), self.args.conflict_exit_code.unwrap_or(NOT_ACQUIRED)) {
            // With code 0, the user has chosen not to treat this as a failure. The text is short,
            // because a scheduler may send it by mail.
            (ErrorKind::Contended | ErrorKind::Timeout, 0) => {
                let verb = if names.len() == 1 { "is" } else { "are" };
                Failure::new(0, format!("{} {verb} held by another client: the command is not run", listed(names)))
            }
            (ErrorKind::Contended | ErrorKind::Timeout, conflict) => Failure::from(error).with_code(conflict),
            _ => error.into(),
        }
    }

    /// Runs the command as long as the lock is held.
    async fn command_under(&self, lease: View, signals: &mut Signals) -> Result<Ended, Failure> {
        let mut variables = vec![
            ("QUORUMLOCK_NAME", lease.names().join("\n")),
            ("QUORUMLOCK_FENCING_TOKEN", lease.token().to_string()),
        ];
        variables.extend(lease.permit().map(|number| ("QUORUMLOCK_PERMIT", number.to_string())));
        let name = lease.names().join(", ");
        tracing::info!(name, token = lease.token(), "lock acquired");
        if let Some(file) = &self.ticket {
            file.clear()?;
        }
        let mut program = Program::start(&self.args.command, &variables, self.grace)?;
        Supervisor { lease, grace: self.grace }.watch(&mut program, signals).await
    }

    /// Call this when the command has ended by itself. Keeps the lock for `--at-least` (unless a
    /// signal asked the command to end), and releases it. With `--ticket`, and if the command has
    /// not failed, hands the lock on. Fails if the lock was lost before that.
    async fn finish(&self, held: Held, status: ExitStatus, asked: bool, signals: &mut Signals) -> Outcome {
        if !asked
            && let Some(at_least) = self.args.at_least
            && let Err(lost) = kept(at_least, &held.view(), signals).await
        {
            if !status.success() {
                self.give_back(held).await;
            }
            return Err(lost);
        }
        let name = listed(&held.view().names());
        if let Some(file) = &self.ticket
            && status.success()
            && let Held::Lock(guard) = held
        {
            hand_on::hand_on(guard, file, &self.quorum, &name).await?;
            return Ok(ExitCode::SUCCESS);
        }
        let released = if status.success() { held.release().await } else { held.undo().await };
        match released {
            // As in a shell, these codes mean that the command cannot be run.
            Ok(Released::Released) if self.args.resume.is_some() && matches!(status.code(), Some(126 | 127)) => {
                output::note(hand_on::USED_UP);
            }
            Ok(Released::Released) => {}
            Ok(Released::AlreadyExpired) => {
                let told = format!("the lock on {name} was lost while the command ran, which ended with {status}");
                return Err(Failure::new(LOST, told));
            }
            Err(error) => self.note_unconfirmed(&name, &error),
        }
        Ok(process::code(status))
    }

    /// With `--once-per`, releases the name, so that another client may do the job in this period.
    /// Other locks are released when `held` is dropped.
    async fn give_back(&self, held: Held) {
        let name = listed(&held.view().names());
        if held.is_once()
            && let Err(error) = held.undo().await
        {
            self.note_unconfirmed(&name, &error);
        }
    }

    /// Writes a note that the lock may stay held: this process ends, so nobody repeats the release.
    fn note_unconfirmed(&self, name: &str, error: &Error) {
        let time = exact(self.stays);
        output::note(&match error.is_unavailable() {
            true => format!("the lock on {name} may stay for up to {time}: its release was not confirmed by a quorum"),
            false => error.to_string(),
        });
    }
}

/// Waits for `at_least`, or until a signal asks for the end. Fails if the lock is lost before.
async fn kept(at_least: Duration, lease: &View, signals: &mut Signals) -> Result<(), Failure> {
    tokio::select! {
        biased;
        reason = lease.lost() => {
            let names = listed(&lease.names());
            let told = format!("the lock on {names} was lost after the command had ended, before --at-least was over: {reason}");
            Err(Failure::new(LOST, told))
        }
        _ = unless_told(signals, sleep(at_least)) => Ok(()),
    }
}

/// Waits for `future`. If a signal asks this process to end first, returns the signal.
async fn unless_told<F: Future>(signals: &mut Signals, future: F) -> Result<F::Output, Signal> {
    tokio::select! {
        biased;
        signal = signals.end() => Err(signal),
        output = future => Ok(output),
    }
}
