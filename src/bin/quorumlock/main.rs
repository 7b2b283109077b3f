//! The command `quorumlock`: runs programs under a lock, shows the nodes, and has a sandbox and a
//! demo. It uses the library's public API, and compiles some of the library's source files.
#![allow(
    clippy::disallowed_methods,
    reason = "the command measures real time on its one runtime; nothing here is simulated"
)]

#[cfg(not(unix))]
compile_error!("the quorumlock command needs Unix, for signals and process groups; the library does not need it");

// The library and the command share this code.
#[path = "../../config/addresses.rs"]
mod addresses;
mod bench;
mod cli;
mod clients;
mod config;
mod connecting;
mod counters;
mod demo;
mod doctor;
mod duration;
mod election_state;
mod encryption;
mod exporter;
mod failure;
mod held_lock;
mod histogram;
mod init;
mod latency;
mod lists;
mod members;
mod output;
mod output_queue;
mod packaging;
mod raw_connection;
mod redact;
mod url_as_name;
mod worker_processes;
// The library and the command share this code.
#[path = "../../config/password.rs"]
mod password;
mod process;
mod relay;
mod release;
mod route;
mod run;
mod sandbox;
mod serve;
mod servers;
mod settings;
mod status;
mod textfile;
mod ticket_file;
mod times;
// The library and the command share this code.
#[allow(dead_code, unreachable_pub, reason = "for the library's users")]
#[path = "../../node/redis/tls.rs"]
mod tls;
#[allow(dead_code, reason = "for the library")]
#[path = "../../node/redis/trouble.rs"]
mod trouble;
mod watch;
mod whole_file;
#[allow(dead_code, reason = "for the library")]
#[path = "../../node/redis/wording.rs"]
mod wording;
// The library and the command share this code.
#[path = "../../words.rs"]
mod words;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use failure::{Failure, Outcome, USAGE};
use process::Signals;

fn main() -> ExitCode {
    output::take_panics();
    let code = done();
    output::wait();
    code
}

fn done() -> ExitCode {
    if let Some(code) = process::become_tied(std::env::args_os()) {
        return code;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(told) => {
            // clap returns even the help text and the version as errors.
            let code = if told.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
            tell(&told);
            return code;
        }
    };
    output::log(cli.log_format, cli.verbose && cli.command.may_log(), cli.command.default_level());
    let as_json = cli.command.prints_json();
    url_as_name::refused(&cli.command).and_then(|()| started(cli)).unwrap_or_else(|failure| failure.told(as_json))
}

/// Writes clap's message in colour, or as plain text if a login in it must be hidden.
fn tell(told: &clap::Error) {
    let plain = told.render().to_string();
    let hidden = redact::hidden(&plain);
    if hidden == plain {
        let _ = told.print();
    } else {
        let _ = write!(io::stderr(), "{hidden}");
    }
}

/// Runs everything on the main thread. On Linux, when a thread ends, the kernel kills the programs
/// that this thread has started by `process::tied`.
fn started(cli: Cli) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::internal(format!("no runtime: {error}")))?;
    let outcome = runtime.block_on(async {
        // The parent of this process may have set SIGCHLD to ignored. Without this handler, the
        // exit statuses of children would then be lost.
        let _heard = Signals::children()?;
        carried_out(cli.command, cli.verbose).await
    });
    // Do not wait for threads: a thread that reads from a terminal cannot be ended.
    runtime.shutdown_background();
    outcome
}

async fn carried_out(command: Command, verbose: bool) -> Outcome {
    match command {
        Command::Sandbox(args) => sandbox::sandbox(args).await,
        Command::Run(args) => run::run(args).await,
        Command::Elect(args) => run::elect(args).await,
        Command::Serve(args) => serve::serve(args).await,
        Command::Status(args) => status::status(args).await,
        Command::Watch(args) => watch::watch(args).await,
        Command::Doctor(args) => doctor::doctor(args, verbose).await,
        Command::Release(args) => release::release(args).await,
        Command::Members(args) => members::members(args).await,
        Command::Clients(args) => clients::clients(args).await,
        Command::Init(args) => init::init(args).await,
        Command::Demo(args) => demo::demo(args, verbose).await,
        Command::Bench(args) => bench::bench(args).await,
        Command::Completions(args) => packaging::completions(&args),
        Command::Manpage(args) => packaging::manpage(&args),
        Command::BenchWorker(args) => bench::worker::worker(args).await,
        Command::DemoWorker(args) => demo::worker::worker(args).await,
        Command::DemoService(args) => demo::service::service(args).await,
        Command::Relay(args) => relay::relay(args).await,
    }
}
