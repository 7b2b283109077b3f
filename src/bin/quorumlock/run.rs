//! `quorumlock run`: a command under a lock, dead before the lock can pass on.

use std::future::Future;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use quorumlock::{Lease, LockGuard, NodeState, Quorum, Released};
use rustix::process::Signal;
use tokio::time::sleep;

use crate::cli::Run;
use crate::duration::show;
use crate::exporter;
use crate::failure::{Failure, LOST, Outcome};
use crate::output;
use crate::process::{self, Program, Signals};
use crate::settings::Settings;

/// The library's default, which the default of `--kill-grace` follows from.
const TTL: Duration = Duration::from_secs(30);
/// How long to wait for the lock.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait for releases that a minority of nodes has not confirmed.
const FAREWELL: Duration = Duration::from_millis(200);
/// The remaining validity is looked at this often: it also shrinks while the machine sleeps, and timers do not.
const LOOK: Duration = Duration::from_millis(500);
/// SIGKILL comes this long before the end of the validity, or a quarter of the grace where that is less.
const MARGIN: Duration = Duration::from_millis(500);
const LEAST_GRACE: Duration = Duration::from_millis(10);

pub(crate) async fn run(args: Run) -> Outcome {
    let mut signals = Signals::all()?;
    let settings = Settings::with_nodes(&args.nodes)?;
    let ttl = args.ttl.or(settings.ttl).unwrap_or(TTL);
    let grace = grace(args.kill_grace, ttl)?;
    exporter::serve(args.metrics.as_deref())?;
    let quorum = match unless_told(&mut signals, settings.builder().ttl(ttl).connect()).await {
        Ok(quorum) => quorum?,
        Err(signal) => return Ok(process::ended_by(signal)),
    };
    let timeout = args.timeout.or(settings.timeout).unwrap_or(TIMEOUT);
    let outcome = under_lock(&args, timeout, &quorum, grace, &mut signals).await;
    quorum.shutdown(FAREWELL).await;
    outcome
}

async fn under_lock(args: &Run, timeout: Duration, quorum: &Quorum, grace: Duration, signals: &mut Signals) -> Outcome {
    // With less it would be stopped at once.
    let lock = quorum.lock_with(&args.name, &quorum.options().fair(!args.unfair).min_validity(grace))?;
    let waiting = output::telling(lock.acquire(timeout), || waits(&args.name, timeout, quorum));
    let guard = match unless_told(signals, waiting).await {
        Ok(guard) => guard?,
        Err(signal) => return Ok(process::ended_by(signal)),
    };
    let variables = [("QUORUMLOCK_NAME", args.name.clone()), ("QUORUMLOCK_FENCING_TOKEN", guard.token().to_string())];
    tracing::info!(name = args.name, token = guard.token(), "lock acquired");
    let mut program = Program::start(&args.command, &variables)?;
    let watch = Watch { lease: guard.lease(), grace };
    match watch.over(&mut program, signals).await? {
        Ended::Itself(status) => released(guard, status).await,
        Ended::Stopped(why) => Err(Failure::new(LOST, format!("{why}; the command was stopped"))),
    }
}

fn waits(name: &str, timeout: Duration, quorum: &Quorum) -> String {
    let (nodes, limit) = (quorum.nodes(), show(timeout));
    let votes = nodes.iter().filter(|node| node.state == NodeState::Up).count();
    let others = nodes.iter().filter(|node| node.state != NodeState::Up);
    let told = format!("waiting for {name:?}, for {limit} at most");
    if votes > nodes.len() / 2 {
        return told;
    }
    let states: Vec<_> = others.map(|node| format!("{} is {}", node.node, node.state)).collect();
    format!("{told}; {votes} of {} nodes vote, which is no quorum: {}", nodes.len(), states.join("; "))
}

/// Gives the lock back after the command has ended by itself. Was it held until then?
async fn released(guard: LockGuard, status: ExitStatus) -> Outcome {
    let name = guard.name().to_owned();
    match guard.release().await {
        Ok(Released::Released) => Ok(process::code(status)),
        Ok(Released::AlreadyExpired) => {
            let told = format!("the lock on {name:?} was lost while the command ran, which ended with {status}");
            Err(Failure::new(LOST, told))
        }
        Err(error) => {
            output::note(&error.to_string());
            Ok(process::code(status))
        }
    }
}

/// How a command under a lock ended.
enum Ended {
    Itself(ExitStatus),
    Stopped(String),
}

struct Watch {
    lease: Lease,
    grace: Duration,
}

impl Watch {
    /// Waits for the command's end, and sees to it that it comes before the lock's.
    async fn over(&self, program: &mut Program, signals: &mut Signals) -> Result<Ended, Failure> {
        loop {
            let now = Instant::now();
            let left = self.lease.remaining();
            if left <= self.grace {
                let why =
                    format!("the lock on {:?} could not be renewed, and ends in {}", self.lease.name(), show(left));
                return self.stop(program, now + left, why).await;
            }
            tokio::select! {
                biased;
                status = program.wait() => return Ok(Ended::Itself(status?)),
                reason = self.lease.lost() => {
                    let why = format!("the lock on {:?} was lost: {reason}", self.lease.name());
                    return self.stop(program, (now + left).min(Instant::now() + self.grace), why).await;
                }
                signal = signals.next() => program.pass_on(signal),
                () = sleep((left - self.grace).min(LOOK)) => {}
            }
        }
    }

    /// Ends the command before `deadline`: SIGTERM now, SIGKILL while there is time for it.
    async fn stop(&self, program: &mut Program, deadline: Instant, why: String) -> Result<Ended, Failure> {
        program.terminate();
        let kill = deadline.checked_sub(MARGIN.min(self.grace / 4)).unwrap_or(deadline);
        let in_time = tokio::select! {
            biased;
            _ = program.wait() => true,
            () = sleep(kill.saturating_duration_since(Instant::now())) => false,
        };
        if !in_time {
            program.signal(Signal::KILL);
        }
        let _ = program.wait().await;
        program.sweep();
        Ok(Ended::Stopped(why))
    }
}

/// The grace, checked against the ttl: renewals begin when a third of it has passed. The ttl itself is for the library to check.
fn grace(given: Option<Duration>, ttl: Duration) -> Result<Duration, Failure> {
    match given {
        None => Ok(ttl / 5),
        Some(grace) if (LEAST_GRACE..=ttl / 2).contains(&grace) => Ok(grace),
        Some(grace) => {
            let bounds = format!("use {LEAST_GRACE:?} to half of the ttl, which is {ttl:?}");
            Err(Failure::usage(format!("--kill-grace is {grace:?}; {bounds}")))
        }
    }
}

/// What comes of `future`, unless a signal to end comes first.
async fn unless_told<F: Future>(signals: &mut Signals, future: F) -> Result<F::Output, Signal> {
    tokio::pin!(future);
    loop {
        tokio::select! {
            output = &mut future => return Ok(output),
            signal = signals.next() => if ![Signal::USR1, Signal::USR2].contains(&signal) { return Err(signal) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grace_leaves_time_for_renewals() {
        let ttl = Duration::from_secs(10);
        assert_eq!(grace(None, ttl).unwrap(), Duration::from_secs(2));
        assert!(grace(Some(Duration::from_secs(6)), ttl).is_err());
        assert!(grace(Some(Duration::ZERO), ttl).is_err());
        assert!(grace(None, Duration::from_millis(100)).is_ok());
    }
}
