//! `quorumlock sandbox`: starts servers for experiments.

use std::time::Duration;

use rustix::process::Signal;
use tokio::time::sleep;

use crate::cli::Sandbox;
use crate::failure::Outcome;
use crate::init;
use crate::latency;
use crate::output;
use crate::process::{self, Program, Signals};
use crate::servers::Servers;
use crate::settings::Settings;

/// How long the command may take to end after a signal that may ask for its end, except SIGINT and
/// SIGQUIT. Killed processes may take as long.
const GRACE: Duration = Duration::from_secs(5);

pub(crate) async fn sandbox(args: Sandbox) -> Outcome {
    let mut signals = Signals::all()?;
    let start = || {
        let servers = Servers::start(usize::from(args.masters))?;
        let ports = latency::apart(&servers.ports(), &args.latency)?;
        Ok((servers, Settings { nodes: Servers::at(&ports), ..Settings::default() }))
    };
    let (_servers, settings) = init::of_our_own(start, |(_, settings)| Some(settings)).await?;
    output::note(&format!(
        "{} new servers on loopback, for experiments and not for locks that matter: they keep nothing on disk",
        args.masters
    ));
    if args.command.is_empty() {
        until_told(&settings, &mut signals).await
    } else {
        with(&args, &settings, &mut signals).await
    }
}

/// Prints the variables with which commands reach the servers, and waits for a signal.
async fn until_told(settings: &Settings, signals: &mut Signals) -> Outcome {
    let variables: Vec<_> = settings.variables().iter().map(|(name, value)| format!("{name}={value}")).collect();
    let printed = async {
        output::say(&format!("export {}", variables.join(" "))).await?;
        output::note("paste that line into another shell; Ctrl-C here ends the servers");
        std::future::pending().await
    };
    tokio::select! {
        failed = printed => failed,
        signal = signals.end() => match signal {
            Signal::INT => Ok(std::process::ExitCode::SUCCESS),
            signal => Ok(process::ended_by(signal)),
        },
    }
}

/// Runs the command. When the command has ended, kills the processes that it has left behind.
async fn with(args: &Sandbox, settings: &Settings, signals: &mut Signals) -> Outcome {
    let mut program = Program::start(&args.command, &settings.variables(), GRACE)?;
    let mut kill_in = None;
    let status = loop {
        tokio::select! {
            biased;
            signal = signals.next() => {
                program.pass_on(signal);
                // An interactive command may go on after SIGINT or SIGQUIT, which keys send. After
                // another signal that asks for its end, it must end soon.
                if process::ends(signal) && ![Signal::INT, Signal::QUIT].contains(&signal) {
                    kill_in.get_or_insert(Box::pin(sleep(GRACE)));
                }
            }
            status = program.wait() => break status?,
            () = async { match &mut kill_in { Some(pause) => pause.await, None => std::future::pending().await } } => {
                program.kill(sleep(GRACE)).await;
                break program.wait().await?;
            }
        }
    };
    program.kill(sleep(GRACE)).await;
    Ok(process::code(status))
}
