//! `quorumlock run` and `elect`: run a command under a lock, and end it before another client can
//! get the lock.

use std::future::Future;
use std::ops::ControlFlow;
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use futures::future::join_all;
use quorumlock::{Error, ErrorKind, LockOptions, NodeState, Quorum, Released};
use rustix::process::Signal;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use crate::cli::{Elect, Run};
use crate::connecting::{a_quorum, a_vote, none_votes, with_password};
use crate::duration::{exact, show};
use crate::exporter;
use crate::failure::{Failure, LOST, Outcome, TIMEOUT as NOT_ACQUIRED, below};
use crate::held_lock::{Held, View, Wanted};
use crate::output;
use crate::password::PasswordFile;
use crate::process::{self, Program, Signals};
use crate::settings::Settings;
use crate::status::{held_by, told};
use crate::times::{self, Wait, grace, ttl};
use crate::words::listed;

/// Linux allows 128 KiB for an environment variable with its name.
const LONGEST_NAMES: usize = 130_000;
/// How long to wait for releases that a minority of nodes has not confirmed.
const FAREWELL: Duration = Duration::from_millis(200);
/// After this time a note says who holds the lock.
const SILENCE: Duration = Duration::from_secs(2);
/// How often to check the remaining validity. It also shrinks while the machine is suspended, when
/// timers stand still.
const LOOK: Duration = Duration::from_millis(500);
/// SIGKILL comes this long before the end of the validity, or a quarter of the grace if that is
/// less.
const MARGIN: Duration = Duration::from_millis(500);
/// Killed processes have this long to end, even if the validity ends before.
const DYING: Duration = Duration::from_secs(5);

pub(crate) async fn run(args: Run) -> Outcome {
    let describe = args.describe.clone();
    if args.shared && args.names.len() > 1 {
        return Err(Failure::usage("--shared takes one name: readers cannot hold several names together"));
    }
    if args.permits.is_some() && args.names.len() > 1 {
        return Err(Failure::usage("--permits takes one name: the name of the semaphore"));
    }
    if args.once_per.is_some() && args.names.len() > 1 {
        return Err(Failure::usage("--once-per takes one name: nodes remember the job under this name"));
    }
    held_by_a_command(args, |quorum, args, options| {
        if let Some(period) = args.once_per {
            let once = quorum.once_with(&args.names[0], period, options)?;
            return Ok(Wanted::Once(describe.map_or_else(|| once.clone(), |note| once.describe(note))));
        }
        if args.shared {
            return Ok(Wanted::Shared(quorum.rw_lock_with(&args.names[0], options)?));
        }
        if let Some(permits) = args.permits {
            return Ok(Wanted::Permit(quorum.semaphore_with(&args.names[0], permits, options)?));
        }
        let lock = quorum.lock_all_with(&args.names, options)?;
        Ok(Wanted::Lock(describe.map_or_else(|| lock.clone(), |note| lock.describe(note))))
    })
    .await
}

pub(crate) async fn elect(args: Elect) -> Outcome {
    let Elect { run, value } = args;
    if run.shared {
        return Err(Failure::usage("an election has no --shared: only one process leads at a time"));
    }
    if run.permits.is_some() {
        return Err(Failure::usage("an election has no --permits: only one process leads at a time"));
    }
    if run.once_per.is_some() || run.at_least.is_some() {
        return Err(Failure::usage("an election has neither --once-per nor --at-least: use them with `run`"));
    }
    if run.describe.is_some() {
        return Err(Failure::usage(
            "an election has no --describe; use --value, which others see while the command runs",
        ));
    }
    held_by_a_command(run, |quorum, args, options| {
        Ok(Wanted::Office(quorum.election_with(&args.names[0], options)?, value))
    })
    .await
}

async fn held_by_a_command(
    args: Run,
    wanted: impl FnOnce(&Quorum, &Run, &LockOptions) -> Result<Wanted, Error>,
) -> Outcome {
    let mut signals = Signals::all()?;
    fit_into_a_variable(&args.names)?;
    let (settings, secret) = Settings::without_password(&args.nodes)?;
    settings.need_nodes(&args.nodes)?;
    let ttl = ttl(&args, &settings)?;
    let grace = grace(args.kill_grace, ttl)?;
    let metrics = exporter::start(args.metrics.as_deref(), args.metrics_textfile.as_deref())?;
    let outcome = with_a_quorum(&args, (settings, secret), (ttl, grace), wanted, &mut signals).await;
    if let Some(file) = metrics {
        file.write(outcome.as_ref().err().map_or(0, |failure| failure.code));
    }
    outcome
}

/// Connects, acquires the lock, and runs the command under it.
async fn with_a_quorum(
    args: &Run,
    (settings, secret): (Settings, Option<PasswordFile>),
    (ttl, grace): (Duration, Duration),
    wanted: impl FnOnce(&Quorum, &Run, &LockOptions) -> Result<Wanted, Error>,
    signals: &mut Signals,
) -> Outcome {
    let wait = Wait { began: Instant::now(), timeout: times::timeout(args, &settings)? };
    let patience = wait.connecting(settings.connect_timeout);
    let (builder, patience) = match unless_told(signals, with_password(&settings, secret.as_ref(), patience)).await {
        Ok(read) => read?,
        Err(signal) => return Ok(process::ended_by(signal)),
    };
    let quorum = builder.ttl(ttl).connect_timeout(patience).open()?;
    let least = times::least(grace, ttl);
    let wanted = wanted(&quorum, args, &quorum.options().fair(!args.unfair).min_validity(least))?;
    let option = wait.option(settings.connect_timeout);
    let rotates = secret.is_some_and(|secret| secret.is_regular());
    let began = Instant::now();
    let ready = async {
        a_quorum(&quorum, patience, option, rotates).await?;
        if args.no_wait {
            a_vote(&quorum, began, patience).await;
        }
        Ok::<_, Failure>(())
    };
    match unless_told(signals, ready).await {
        Ok(ready) => ready?,
        Err(signal) => return Ok(process::ended_by(signal)),
    }
    let mut wait = wait;
    // Nodes hold a job that is done once in a period until the period ends.
    let times = Times { grace, stays: args.once_per.unwrap_or(ttl).max(ttl) };
    let outcome = loop {
        match under_lock(args, wait, (&quorum, &wanted), times, signals).await {
            Ok(ControlFlow::Break(code)) => break Ok(code),
            Ok(ControlFlow::Continue(())) => wait = wait.again(),
            Err(failure) => break Err(failure),
        }
    };
    quorum.shutdown(FAREWELL).await;
    outcome
}

/// Checks that the names fit into the variable in which the command gets them. Linux limits the
/// length of a variable.
fn fit_into_a_variable(names: &[String]) -> Result<(), Failure> {
    if let Some(name) = names.iter().find(|name| name.contains('\n')) {
        return Err(Failure::usage(format!("the name {name:?} has a line feed, but CMD gets one name a line")));
    }
    let bytes: usize = names.iter().map(|name| name.len() + 1).sum();
    match bytes <= LONGEST_NAMES {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "the names have {bytes} bytes together, but CMD can get {LONGEST_NAMES}; use shorter names, or the library"
        ))),
    }
}

/// Acquires the lock, and runs the command under it. Returns `Continue` if the lock was lost, and
/// the command is to be run again.
async fn under_lock(
    args: &Run,
    wait: Wait,
    (quorum, wanted): (&Quorum, &Wanted),
    Times { grace, stays }: Times,
    signals: &mut Signals,
) -> Result<ControlFlow<ExitCode>, Failure> {
    let held = match unless_told(signals, acquired(args, wait, (quorum, wanted))).await {
        Ok(held) => held?,
        Err(signal) => return Ok(ControlFlow::Break(process::ended_by(signal))),
    };
    let Some(held) = held else { return Ok(ControlFlow::Break(skipped(args, quorum).await)) };
    // A signal may have come meanwhile. A key of the terminal does not reach a command that has not
    // started.
    if let Err(signal) = unless_told(signals, yield_now()).await {
        given_back(held, stays).await;
        return Ok(ControlFlow::Break(process::ended_by(signal)));
    }
    match command_under(args, held.view(), grace, signals).await {
        Ok(Ended::Itself { status, asked }) => {
            match kept(args.at_least.filter(|_| !asked), &held.view(), signals).await {
                Ok(()) => released(held, status, stays).await.map(ControlFlow::Break),
                Err(lost) => {
                    if !status.success() {
                        given_back(held, stays).await;
                    }
                    Err(lost)
                }
            }
        }
        Ok(Ended::Stopped { how, for_good }) => {
            given_back(held, stays).await;
            if for_good || !args.again {
                return Err(Failure::new(LOST, how));
            }
            output::note(&format!("{how}; waiting for {} again", listed(&args.names)));
            Ok(ControlFlow::Continue(()))
        }
        Err(failure) => {
            given_back(held, stays).await;
            Err(failure)
        }
    }
}

/// Acquires the lock. `None` if the job was done in this period, or is being done.
async fn acquired(args: &Run, wait: Wait, (quorum, wanted): (&Quorum, &Wanted)) -> Result<Option<Held>, Failure> {
    let certain = || none_votes(quorum, |node| node.state != NodeState::Up);
    let what = waits(args, wait.timeout, quorum);
    let held = output::telling_once(wanted.acquire(wait.left()), SILENCE, certain, what).await;
    held.map_err(|error| match args.once_per {
        // Not a conflict: the job may not have been done.
        Some(_) => error.into(),
        None => not_acquired(error, args),
    })
}

/// Runs the command as long as the lock is held.
async fn command_under(args: &Run, lease: View, grace: Duration, signals: &mut Signals) -> Result<Ended, Failure> {
    let mut variables =
        vec![("QUORUMLOCK_NAME", lease.names().join("\n")), ("QUORUMLOCK_FENCING_TOKEN", lease.token().to_string())];
    variables.extend(lease.permit().map(|number| ("QUORUMLOCK_PERMIT", number.to_string())));
    let name = lease.names().join(", ");
    tracing::info!(name, token = lease.token(), "lock acquired");
    let mut program = Program::start(&args.command, &variables, grace)?;
    Watch { lease, grace }.over(&mut program, signals).await
}

/// Reports that the job was done in this period, or is being done.
async fn skipped(args: &Run, quorum: &Quorum) -> ExitCode {
    let name = &args.names[0];
    let left = quorum.inspect(name).await.ok().and_then(|seen| {
        let mut lefts: Vec<_> = seen.nodes.iter().filter_map(|(_, said)| said.as_ref().ok()?.remaining).collect();
        lefts.sort_unstable();
        lefts.get(lefts.len() / 2).copied()
    });
    let left = left.map(|left| format!("; the period lasts for {} still", show(left))).unwrap_or_default();
    output::note(&format!("{name:?} was done in this period already, or is being done: the command is not run{left}"));
    ExitCode::from(args.conflict_exit_code.unwrap_or(0))
}

/// Keeps the lock for `at_least` after the command has ended, or until a signal asks for the end.
async fn kept(at_least: Option<Duration>, lease: &View, signals: &mut Signals) -> Result<(), Failure> {
    let Some(at_least) = at_least else { return Ok(()) };
    tokio::select! {
        biased;
        reason = lease.lost() => {
            let names = listed(&lease.names());
            let told = format!("the lock on {names} was lost while it was kept after the command had ended: {reason}");
            Err(Failure::new(LOST, told))
        }
        _ = unless_told(signals, sleep(at_least)) => Ok(()),
    }
}

/// Gives back a job that failed, so that another client may do it in this period. The drop releases
/// all other locks.
async fn given_back(held: Held, stays: Duration) {
    let name = listed(&held.view().names());
    if held.is_once()
        && let Err(error) = held.undo().await
    {
        output::note(&unconfirmed(&name, &error, stays));
    }
}

/// The note that the lock may stay held: this process ends, so nobody retries the release.
fn unconfirmed(name: &str, error: &Error, stays: Duration) -> String {
    if error.is_unavailable() {
        let time = exact(stays);
        return format!("the lock on {name} may stay for up to {time}: its release was not confirmed by a quorum");
    }
    error.to_string()
}

/// A conflict has the exit code that the user chose. If nobody can tell who holds the lock, that is
/// no conflict, and the code stays.
fn not_acquired(error: Error, args: &Run) -> Failure {
    match (error.kind(), args.conflict_exit_code.unwrap_or(NOT_ACQUIRED)) {
        // With code 0 the user accepts this result. The text is short, since a scheduler may mail
        // it.
        (ErrorKind::Contended | ErrorKind::Timeout, 0) => {
            let verb = if args.names.len() == 1 { "is" } else { "are" };
            Failure::new(0, format!("{} {verb} held elsewhere: the command is not run", listed(&args.names)))
        }
        (ErrorKind::Contended | ErrorKind::Timeout, conflict) => Failure::from(error).with_code(conflict),
        _ => error.into(),
    }
}

/// The note on what the command waits for, with the holder, or with the nodes that do not vote.
async fn waits(args: &Run, timeout: Duration, quorum: &Quorum) -> String {
    let names = &args.names;
    let nodes = quorum.nodes();
    let votes = nodes.iter().filter(|node| node.state == NodeState::Up).count();
    let what = if args.permits.is_some() { "a permit of " } else { "" };
    let waiting = format!("waiting for {what}{}, for {} at most", listed(names), exact(timeout));
    if votes > nodes.len() / 2 && args.permits.is_some() {
        return waiting;
    }
    if votes > nodes.len() / 2 {
        return waiting + &held(names, quorum).await.unwrap_or_default();
    }
    let states = output::explained_once(nodes.iter().filter(|node| node.state != NodeState::Up).map(told)).join("; ");
    format!("{waiting}; {}, which is no quorum: {states}", output::voting(votes, nodes.len()))
}

/// The holder of the first name that another client holds.
async fn held(names: &[String], quorum: &Quorum) -> Option<String> {
    // Ask about all names at the same time: a request takes as long as a round may take if a node
    // does not answer.
    let seen = join_all(names.iter().map(|name| quorum.inspect(name))).await;
    let mut seen = names.iter().zip(&seen).filter_map(|(name, seen)| Some((name, seen.as_ref().ok()?)));
    let (name, seen) = seen.find(|(_, seen)| seen.holder().is_some_and(|holder| !quorum.is_mine(holder)))?;
    let which = if names.len() == 1 { "it".to_owned() } else { format!("{name:?}") };
    Some(format!("; {which} is {}", held_by(seen)))
}

/// Releases the lock after the command has ended by itself. Fails if the lock was lost before.
async fn released(held: Held, status: ExitStatus, stays: Duration) -> Outcome {
    let name = listed(&held.view().names());
    let ended = if status.success() { held.release().await } else { held.undo().await };
    match ended {
        Ok(Released::Released) => Ok(process::code(status)),
        Ok(Released::AlreadyExpired) => {
            let told = format!("the lock on {name} was lost while the command ran, which ended with {status}");
            Err(Failure::new(LOST, told))
        }
        Err(error) => {
            output::note(&unconfirmed(&name, &error, stays));
            Ok(process::code(status))
        }
    }
}

#[derive(Clone, Copy)]
struct Times {
    /// The command is stopped when only this much validity is left.
    grace: Duration,
    /// The longest time for which nodes hold a lock that is not released.
    stays: Duration,
}

/// How a command under a lock ended.
enum Ended {
    Itself {
        status: ExitStatus,
        /// Whether a signal asked for the end before.
        asked: bool,
    },
    /// The command was stopped, since the lock was lost.
    Stopped {
        how: String,
        /// Whether a signal asked for the end before, or some process goes on. Then the command is
        /// not run again.
        for_good: bool,
    },
}

struct Watch {
    lease: View,
    grace: Duration,
}

impl Watch {
    fn names(&self) -> String {
        listed(&self.lease.names())
    }

    /// Waits for the command's end. Stops the command in time if the lock ends.
    async fn over(&self, program: &mut Program, signals: &mut Signals) -> Result<Ended, Failure> {
        let mut asked = false;
        let mut due = None;
        let (why, deadline, end) = loop {
            let now = Instant::now();
            // The command has ended, and its children have had the grace to clean up.
            if program.has_ended() && now >= *due.get_or_insert(now + self.grace) {
                program.kill_rest();
            }
            let left = self.lease.remaining();
            let end = now + left;
            if left <= self.grace {
                let why = format!("the lock on {} could not be renewed, and ends in {}", self.names(), show(left));
                break (why, end, end);
            }
            tokio::select! {
                biased;
                // Signals come first: the command may have got the same signal, and ended by it.
                signal = signals.next() => {
                    asked |= [Signal::INT, Signal::QUIT, Signal::TERM].contains(&signal);
                    // While this process was stopped, the lock may have ended: then the command
                    // must not go on.
                    if signal != Signal::CONT || self.lease.remaining() > self.grace {
                        program.pass_on(signal);
                    }
                }
                status = program.over() => return Ok(Ended::Itself { status: status?, asked }),
                reason = self.lease.lost() => {
                    let why = format!("the lock on {} was lost: {reason}", self.names());
                    break (why, end.min(Instant::now() + self.grace), end);
                }
                () = sleep((left - self.grace).min(LOOK)) => {}
            }
        };
        let (how, left) = self.stop(program, deadline, end, why).await;
        Ok(Ended::Stopped { how, for_good: asked || left })
    }

    /// Ends the command before `deadline`: by SIGTERM now, and by SIGKILL shortly before
    /// `deadline`. If processes cannot be killed, the lock is kept for as long as possible: until
    /// it is lost and `end` has passed. Returns how the command ended, and whether some process
    /// goes on.
    async fn stop(&self, program: &mut Program, deadline: Instant, end: Instant, why: String) -> (String, bool) {
        let kill = deadline.checked_sub(MARGIN.min(self.grace / 4)).unwrap_or(deadline);
        let time = kill.saturating_duration_since(Instant::now());
        // If no time is left, SIGTERM is not sent: it comes with SIGCONT, so a stopped command
        // would go on for a moment.
        let asked = !time.is_zero() && program.terminate();
        let what = if asked { "; the command got SIGTERM" } else { "" };
        output::note(&below(&format!("{why}{what}"), &self.lease.failed_renewal()));
        if !time.is_zero() {
            let _ = timeout(time, program.gone()).await;
        }
        let in_time = program.has_ended();
        let left = program.kill(self.lost_and_over(end.max(Instant::now() + DYING))).await;
        let mut how = match (in_time, asked) {
            _ if !program.has_ended() => "the command could not be stopped",
            (true, _) => "the command was stopped",
            (false, true) => "the command did not end by SIGTERM; it was stopped by SIGKILL",
            (false, false) => "the command was stopped by SIGKILL",
        }
        .to_owned();
        left.iter().for_each(|left| how += &format!("; {left} goes on"));
        (how, !left.is_empty())
    }

    async fn lost_and_over(&self, end: Instant) {
        self.lease.lost().await;
        sleep(end.saturating_duration_since(Instant::now())).await;
    }
}

/// The output of `future`, or the signal that asks for the end before.
async fn unless_told<F: Future>(signals: &mut Signals, future: F) -> Result<F::Output, Signal> {
    tokio::select! {
        biased;
        signal = signals.end() => Err(signal),
        output = future => Ok(output),
    }
}
