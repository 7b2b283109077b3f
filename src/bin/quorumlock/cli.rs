//! The command line. clap prints the doc comments on fields and subcommands as help texts.

pub(crate) mod bench;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand};
use quorumlock::Transport;
use tracing::level_filters::LevelFilter;

use crate::duration;
use crate::output::Format;
use crate::route::Route;
use bench::{Bench, BenchWorker, Contention, Distance, Throughput, Uncontended};

const EXIT_CODES: &str = "\
Exit codes: that of CMD (128 + n if signal n ended CMD), 1 a check failed, lists differ or you did not say
yes, 64 usage or settings, 69 no quorum of nodes can vote, 70 internal error, 75 not acquired in time (or
the code of run -E), 76 the lock was lost, 126 CMD cannot be run, 127 CMD was not found. Exit codes of
doctor: 1 warnings, 2 unsafe.
Nodes come from --nodes, else from --config, else from QUORUMLOCK_NODES, else from QUORUMLOCK_CONFIG.
Durations: 500ms, 10s, 1.5m, 2h; a bare number is seconds.";

/// One lock across independent Redis masters.
#[derive(Parser)]
#[command(name = "quorumlock", version, about, after_help = EXIT_CODES, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// Logs more messages to standard error, each with its time
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// The format of log messages on standard error: json writes each message as one object on a
    /// line
    #[arg(long, global = true, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) log_format: Format,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Runs redis-server processes for experiments, until a command ends or until Ctrl-C
    Sandbox(Sandbox),
    /// Runs a command while holding a lock
    Run(Run),
    /// Waits until this process is elected, and runs a command while this process leads
    Elect(Elect),
    /// Holds locks for local programs, over HTTP on a Unix socket: see docs/agent.md
    Serve(Serve),
    /// Shows the state of each node, and who holds a name
    Status(Status),
    /// Shows nodes, holders and events on a terminal, as they change, until you press q.
    ///
    /// `watch` changes no lock, and acquires none. Without NAME it shows all names that are held.
    /// It looks for these names like `status --all`, at most once every 5 seconds. If standard
    /// output is no terminal, use `status --json` or `status --wait`. -v has no effect if standard
    /// error is a terminal.
    Watch(Watch),
    /// Examines the nodes: what is unsafe, what is wrong, and how to mend it.
    ///
    /// `doctor` takes no lock and changes nothing on the nodes. It needs only the rights of a
    /// client: no CONFIG, no ACL.
    Doctor(Doctor),
    /// Takes a lock away from its holder, or releases the lock of a ticket
    Release(Release),
    /// Shows for each node the list of nodes in force there, and the servers behind the node's name
    Members(Members),
    /// Shows which clients are connected, from where, with which list and version
    Clients(Clients),
    /// Declares that the servers are new, so that they vote at once.
    ///
    /// All servers must answer. Every server must be without a record (which the first client
    /// stores), without keys with the prefix, and without a sign of lost keys in INFO. If all
    /// servers have a record already, `init` changes nothing and says so. In this case `init` exits
    /// with 0 if a quorum votes, else with 69. Never run `init` after servers have restarted: they
    /// may have forgotten locks that are held.
    Init(Init),
    /// Contends for one lock from several processes, kills a node, and counts overlaps
    Demo(Demo),
    /// Measures how long acquisitions and releases take, and how a lock passes between workers
    #[command(subcommand)]
    Bench(Bench),
    /// Prints a script with which a shell completes this command line
    Completions(Completions),
    /// Prints the manual page, or writes it and the pages of all subcommands into a folder
    Manpage(Manpage),
    #[command(hide = true)]
    DemoWorker(DemoWorker),
    /// Acquires and releases one lock again and again until a signal comes, and serves metrics.
    /// docker/compose.yaml runs this as a service
    #[command(hide = true)]
    DemoService(DemoService),
    /// Relays connections to servers with a delay. docker/compose.yaml uses this to simulate
    /// distant regions
    #[command(hide = true)]
    Relay(Relay),
    #[command(hide = true)]
    BenchWorker(BenchWorker),
}

impl Command {
    /// The lock names on the command line.
    pub(crate) fn names(&self) -> &[String] {
        match self {
            Self::Run(run) => &run.names,
            Self::Elect(elect) => &elect.run.names,
            Self::Status(status) => status.name.as_slice(),
            Self::Watch(watch) => watch.name.as_slice(),
            Self::Release(release) => release.name.as_slice(),
            _ => &[],
        }
    }

    /// Whether the user wants the result as JSON.
    pub(crate) const fn prints_json(&self) -> bool {
        match self {
            Self::Status(Status { json, .. })
            | Self::Doctor(Doctor { json, .. })
            | Self::Release(Release { json, .. })
            | Self::Members(Members { json, .. })
            | Self::Clients(Clients { json, .. })
            | Self::Init(Init { json, .. })
            | Self::Demo(Demo { json, .. })
            | Self::Bench(
                Bench::Uncontended(Uncontended { json, .. })
                | Bench::Throughput(Throughput { json, .. })
                | Bench::Distance(Distance { json, .. })
                | Bench::Contention(Contention { json, .. }),
            ) => *json,
            _ => false,
        }
    }

    /// Whether -v has an effect. Log lines on the terminal would destroy the screen of `watch`.
    pub(crate) fn may_log(&self) -> bool {
        !matches!(self, Self::Watch(_)) || !io::stderr().is_terminal()
    }

    /// The log level without -v. Commands that print the nodes' states log only errors, and so do
    /// demos and benchmarks.
    pub(crate) const fn default_level(&self) -> LevelFilter {
        match self {
            // A log line would destroy the screen.
            Self::Watch(_) => LevelFilter::OFF,
            Self::Status(_)
            | Self::Doctor(_)
            | Self::Members(_)
            | Self::Clients(_)
            | Self::Init(_)
            | Self::Demo(_)
            | Self::DemoWorker(_)
            | Self::DemoService(_)
            | Self::Bench(_)
            | Self::BenchWorker(_) => LevelFilter::ERROR,
            _ => LevelFilter::WARN,
        }
    }
}

#[derive(Args)]
pub(crate) struct Nodes {
    /// The nodes' addresses, separated by commas: redis://, rediss:// or redis+unix://. Add
    /// ?name=NAME to an address if the node's name in the list is not its host and port. Other
    /// users can see the arguments of a process, so keep passwords in the environment
    /// (QUORUMLOCK_NODES) or in a file (--password-file, --config)
    #[arg(long, value_name = "URL,URL,..")]
    pub(crate) nodes: Option<String>,
    /// A TOML file with nodes and options [default: the file of QUORUMLOCK_CONFIG, which other
    /// variables override]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A file whose first line is the password for nodes whose addresses have no password. The file
    /// is read again for each connection [default: QUORUMLOCK_PASSWORD_FILE]
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// For rediss://: a PEM file with the authorities (CA) that sign the nodes' certificates,
    /// instead of the system's authorities [default: QUORUMLOCK_TLS_CA]
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// A PEM file with this client's certificate, if nodes ask for one [default:
    /// QUORUMLOCK_TLS_CERT]
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// A PEM file with the private key of the --tls-cert certificate [default: QUORUMLOCK_TLS_KEY]
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The name in the nodes' certificates, if it differs from the hosts in the nodes' addresses
    /// [default: QUORUMLOCK_TLS_SERVER_NAME]
    #[arg(long, value_name = "NAME")]
    pub(crate) tls_server_name: Option<String>,
    /// The name of the list of nodes, if other clients of the same servers have another list
    /// [default: default, or QUORUMLOCK_LIST]
    #[arg(long, value_name = "NAME")]
    pub(crate) list: Option<String>,
    /// The longest ttl of any client's locks. All clients of these nodes must have the same value.
    /// A node that is new or has restarted does not vote for this time. With 0, such a node votes
    /// at once [default: 60s, or QUORUMLOCK_MAX_TTL]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) max_ttl: Option<Duration>,
    /// The prefix of all keys [default: quorumlock:, or QUORUMLOCK_KEY_PREFIX]
    #[arg(long, value_name = "TEXT")]
    pub(crate) key_prefix: Option<String>,
    /// The client library for connections to the nodes: fred, or redis-rs if this command was built
    /// with the feature redis-rs [default: fred, or QUORUMLOCK_TRANSPORT]
    #[arg(long, value_name = "NAME")]
    pub(crate) transport: Option<Transport>,
    /// How long to wait for a quorum of nodes [default: 15s; for `run` its --timeout, which is also
    /// the upper bound]. Commands that only show nodes and locks wait this long for all nodes
    /// [default: 10s until a quorum votes, and then at least 2s more]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) connect_timeout: Option<Duration>,
    /// How long one node may take for one answer, or for one step of connecting [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) node_timeout: Option<Duration>,
}

#[derive(Args)]
pub(crate) struct Sandbox {
    /// The number of servers
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) masters: u8,
    /// The round trip to the servers: one time for all, or one for each (2ms,12ms,40ms,80ms,160ms)
    #[arg(long, value_name = "TIME,TIME,..", value_delimiter = ',', value_parser = duration::parse)]
    pub(crate) latency: Vec<Duration>,
    /// The command to run with these servers; without CMD, the servers run until Ctrl-C
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args)]
pub(crate) struct Run {
    /// The lock's name. With several names, `run` holds all of them or none
    // clap requires no NAME if an option is given that conflicts with it.
    #[arg(required = true, conflicts_with = "resume", value_name = "NAME")]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) nodes: Nodes,
    /// How long to wait for the nodes and the lock together. With 0, `run` waits for a quorum of
    /// nodes (for --connect-timeout, 15s), and then tries once. `run` fails at once if so many
    /// nodes are in quarantine that no quorum votes before the timeout, as in the first minute of
    /// new servers [default: 15s, or QUORUMLOCK_TIMEOUT]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) timeout: Option<Duration>,
    /// Does not wait while somebody else holds the lock: the same as --timeout 0. `run` still waits
    /// for nodes, for --connect-timeout. If callers split the votes and none gets a quorum, `run`
    /// tries again, for 4s at most
    #[arg(short, long, conflicts_with = "timeout")]
    pub(crate) no_wait: bool,
    /// The exit code if somebody else holds the lock until the timeout (with --no-wait: at once): 0
    /// to 255 [default: 75, or 0 with --once-per]
    #[arg(short = 'E', long, value_name = "N")]
    pub(crate) conflict_exit_code: Option<u8>,
    /// How long nodes hold the lock after its last renewal. The lock is renewed while CMD runs
    /// [default: 30s, or QUORUMLOCK_TTL]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) ttl: Option<Duration>,
    /// If renewals fail, CMD gets SIGTERM when only this much of the lock's validity is left, and
    /// SIGKILL shortly before the validity ends [default: a fifth of the ttl]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) kill_grace: Option<Duration>,
    /// Holds the name as a reader. Other readers may hold the name at the same time, but no writer
    /// may
    #[arg(long, conflicts_with = "describe")]
    pub(crate) shared: bool,
    /// Takes one of K permits of the name, so that at most K commands run at a time. The permits
    /// are the names NAME/0, NAME/1 and so on. All clients must give the same K. Otherwise the
    /// largest K is the limit
    #[arg(long, value_name = "K", conflicts_with_all = ["describe", "shared"])]
    pub(crate) permits: Option<u32>,
    /// Runs CMD at most once in this period under this name (an hourly job: 55m). If many hosts
    /// start `run`, the first one runs CMD. The others exit with 0, or with the code of -E. If CMD
    /// fails, another host may try. If `run` is killed (SIGKILL), the period is used up. Servers
    /// that restart empty forget the period: let the servers persist. Use a name that nothing else
    /// locks
    #[arg(long, value_name = "TIME", value_parser = duration::parse, conflicts_with_all = ["permits", "shared", "unfair"])]
    pub(crate) once_per: Option<Duration>,
    /// After CMD has ended with any code, keeps the lock for this time. A signal ends this time
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) at_least: Option<Duration>,
    /// If the lock is lost, does not exit with 76: waits until CMD has ended, acquires the lock
    /// again and runs CMD anew. Each wait for the lock may take --timeout. CMD is not run again if
    /// it ends by itself, or after SIGTERM, SIGINT or SIGQUIT
    #[arg(long, conflicts_with = "once_per")]
    pub(crate) again: bool,
    /// If CMD ends with 0, does not release the lock: writes a ticket to FILE, with which another
    /// `run --resume` goes on with the lock until the ttl ends. If CMD fails, the lock is released,
    /// and no ticket is written. While CMD runs, there is no FILE: an older ticket is removed. Keep
    /// FILE secret
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "at_least", "conflict_exit_code", "once_per", "permits", "shared",
    ])]
    pub(crate) ticket: Option<PathBuf>,
    /// Goes on with the lock of the ticket in FILE, with a new, higher token. The name is that of
    /// the ticket. --timeout is how long to wait for the nodes. Exits with 76 if the ticket is too
    /// late, or was used before
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "again", "conflict_exit_code", "describe", "no_wait", "once_per", "permits", "shared", "unfair",
    ])]
    pub(crate) resume: Option<PathBuf>,
    /// A note on the work, such as "deploy #812": up to 256 bytes. `status` shows the note, and so
    /// does the error of a caller that does not get the lock
    #[arg(long, value_name = "TEXT")]
    pub(crate) describe: Option<String>,
    /// Does not wait in the queue. Asks at random times instead, and may get the lock before
    /// waiters
    #[arg(long)]
    pub(crate) unfair: bool,
    /// Serves Prometheus metrics at http://ADDR/metrics; a bare port means loopback
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics: Option<String>,
    /// Writes metrics to FILE when `run` ends, for the textfile collector of node_exporter. FILE
    /// must be NAME.prom; NAME becomes the label `run`
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics_textfile: Option<PathBuf>,
    /// The command. In its environment are QUORUMLOCK_NAME (several names: one per line) and
    /// QUORUMLOCK_FENCING_TOKEN. With --permits, QUORUMLOCK_PERMIT is the permit's number, from 0
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

// `elect` has the options of `run`. Some of them have other help texts, and some are hidden. The
// indexes keep NAME before CMD: without indexes, clap puts changed arguments last.
#[derive(Args)]
#[command(
    mut_arg("names", |name| name.action(ArgAction::Set).num_args(1).index(1).help("The election's name: the leader holds the lock on it")),
    mut_arg("command", |command| command.index(2).help("The command. In its environment are QUORUMLOCK_NAME and QUORUMLOCK_FENCING_TOKEN")),
    mut_arg("conflict_exit_code", |code| code.help("The exit code if somebody else still leads at the timeout (with --no-wait: at the first try): 0 to 255 [default: 75]")),
    mut_arg("describe", |describe| describe.hide(true)),
    mut_arg("shared", |shared| shared.hide(true)),
    mut_arg("permits", |permits| permits.hide(true)),
    mut_arg("once_per", |once_per| once_per.hide(true)),
    mut_arg("at_least", |at_least| at_least.hide(true)),
    mut_arg("ticket", |ticket| ticket.hide(true)),
    mut_arg("resume", |resume| resume.hide(true))
)]
pub(crate) struct Elect {
    /// The value that others see while CMD runs, such as an address: up to 64 KiB
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["describe", "shared", "permits", "once_per", "at_least"])]
    pub(crate) value: Option<String>,
    /// Says who leads, at http://ADDR/, and at http://ADDR/leads whether this process leads (200 or
    /// 503); a bare port means loopback
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<String>,
    #[command(flatten)]
    pub(crate) run: Run,
}

#[derive(Args)]
pub(crate) struct Serve {
    /// The Unix socket. A socket on which nobody listens is replaced [default: agent.sock in
    /// $RUNTIME_DIRECTORY, else $XDG_RUNTIME_DIR/quorumlock.sock, else /run/quorumlock/agent.sock;
    /// none if systemd passes a socket, or with --listen]
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// The mode of the socket's file, in octal. Users who may write to the file may take locks
    /// [default: 600, or 660 with --socket-group]
    #[arg(long, value_name = "MODE", value_parser = octal)]
    pub(crate) socket_mode: Option<u32>,
    /// The group of the socket's file: a name in /etc/group, or a number
    #[arg(long, value_name = "GROUP")]
    pub(crate) socket_group: Option<String>,
    /// Also listens on this TCP address, which must be on loopback. All users of this host may then
    /// take locks. They can use the lock of another program only if they know the lock's id
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,
    #[command(flatten)]
    pub(crate) nodes: Nodes,
    /// How long nodes hold a lock after its last renewal, if its client asks for no ttl of its own
    /// [default: 30s, or QUORUMLOCK_TTL]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) ttl: Option<Duration>,
    /// After SIGTERM, how long to wait for clients to let go of their locks. The agent does not
    /// release the other locks: they end by their ttl
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    pub(crate) grace: Duration,
    /// How many connections are served at a time. Each connection has one request at a time. The
    /// maximum is the limit of open files less 256
    #[arg(long, value_name = "N", default_value_t = 4_096)]
    pub(crate) max_clients: usize,
    /// How many connections one user may have. All clients over TCP count as one user. If the limit
    /// of open files lowers --max-clients, one user may have at most three quarters of the lower
    /// number
    #[arg(long, value_name = "N", default_value_t = 3_072)]
    pub(crate) max_user_clients: usize,
    /// How many locks the agent holds at a time. A lock counts once for each of its names, and once
    /// more for each KiB of names and value
    #[arg(long, value_name = "N", default_value_t = 16_384)]
    pub(crate) max_locks: usize,
    /// How many locks the agent holds for one user
    #[arg(long, value_name = "N", default_value_t = 12_288)]
    pub(crate) max_user_locks: usize,
    /// How many locks the agent holds for one connection
    #[arg(long, value_name = "N", default_value_t = 1_024)]
    pub(crate) max_client_locks: usize,
    /// How many streams of election events are served at a time. One user may have three quarters
    /// of these
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) max_streams: usize,
    /// Also serves Prometheus metrics at http://ADDR/metrics; a bare port means loopback
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics: Option<String>,
}

fn octal(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "write three octal digits, such as 660".to_owned())
}

#[derive(Args)]
pub(crate) struct Status {
    /// A lock's name, to see who holds it
    pub(crate) name: Option<String>,
    /// Shows all names that are held. For this, each node scans all its keys, a thousand at a time
    #[arg(long, conflicts_with = "name")]
    pub(crate) all: bool,
    /// Waits until a quorum of nodes votes, and then shows the state of the nodes. Use this after a
    /// start of all servers. Exits with 69 if no quorum votes within TIME [default: 90s]
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "90s", conflicts_with = "all",
        value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,
    /// How many names --all shows at most
    #[arg(long, value_name = "N", default_value_t = 1_000, requires = "all")]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) nodes: Nodes,
    /// Prints one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
#[command(after_help = "\
Keys: q, Esc or Ctrl-C quits, / filters by name, e selects a kind of event, up and down scroll.")]
pub(crate) struct Watch {
    /// A lock's name, to see who holds it and who waits for it
    pub(crate) name: Option<String>,
    /// The time between two requests to a node: 100ms to 60s. A node gets no request before it has
    /// answered the last one
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration::parse)]
    pub(crate) every: Duration,
    #[command(flatten)]
    pub(crate) nodes: Nodes,
}

#[derive(Args)]
#[command(after_help = "\
Exit codes: 0 fine, 1 warnings, 2 unsafe: two clients may hold a lock, or nobody can acquire one, 64 usage or settings.")]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) nodes: Nodes,
    /// The failure domain of each node, in the nodes' order, such as its region [default: the hosts
    /// of the addresses]
    #[arg(long, value_name = "NAME,NAME,..", value_delimiter = ',')]
    pub(crate) domains: Vec<String>,
    /// Prints one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Members {
    #[command(flatten)]
    pub(crate) nodes: Nodes,
    /// Prints one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Clients {
    #[command(flatten)]
    pub(crate) nodes: Nodes,
    /// Prints one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Init {
    #[command(flatten)]
    pub(crate) nodes: Nodes,
    /// Does not ask you to confirm. Without a terminal, --yes is required
    #[arg(long)]
    pub(crate) yes: bool,
    /// Prints one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Release {
    /// The lock's name. For a semaphore, the name of a permit, such as NAME/0
    #[arg(required_unless_present = "ticket", conflicts_with = "ticket")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) nodes: Nodes,
    /// Releases the lock of the ticket in FILE, which `run --ticket` wrote. Does nothing if the
    /// lock was resumed, or has ended
    #[arg(long, value_name = "FILE", conflicts_with_all = ["force", "now", "yes"])]
    pub(crate) ticket: Option<PathBuf>,
    /// Takes the lock from its holder. Without a ticket, there is no other way to release another
    /// process's lock. Nobody else gets the lock until the holder has released it, or until the
    /// lock has expired
    #[arg(long)]
    pub(crate) force: bool,
    /// Frees the lock at once. The old holder learns of this by its next renewal, and until then
    /// there may be two holders. So use --now only if the holder has gone. A name of run --once-per
    /// needs --now: after the job, no holder is left to release the name, so --force alone does not
    /// free it
    #[arg(long, requires = "force")]
    pub(crate) now: bool,
    /// Does not ask you to confirm. Without a terminal, --yes is required if the name is held
    #[arg(long)]
    pub(crate) yes: bool,
    /// Prints one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Demo {
    #[command(flatten)]
    pub(crate) nodes: Nodes,
    /// How many seconds the demo runs
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) seconds: u32,
    /// The number of workers in all processes together
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) workers: u32,
    /// The number of processes that share the workers
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) processes: u32,
    /// Prints one JSON object on standard output at the end, and nothing else there
    #[arg(long)]
    pub(crate) json: bool,
    /// Serves metrics of the demo's main process, which has no workers, at http://ADDR/metrics; a
    /// bare port means loopback
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics: Option<String>,
}

#[derive(Args)]
pub(crate) struct Completions {
    /// The shell for which to print the script
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args)]
pub(crate) struct Manpage {
    /// A folder for quorumlock.1 and a page for each subcommand, such as quorumlock-run.1
    #[arg(long, value_name = "DIR")]
    pub(crate) into: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct DemoWorker {
    #[command(flatten)]
    pub(crate) nodes: Nodes,
    #[arg(long)]
    pub(crate) workers: u32,
    #[arg(long, value_parser = duration::parse)]
    pub(crate) ttl: Duration,
    /// The counter's folder
    #[arg(long)]
    pub(crate) folder: PathBuf,
}

#[derive(Args)]
pub(crate) struct DemoService {
    #[command(flatten)]
    pub(crate) nodes: Nodes,
    /// The number of workers, which all contend for the same lock
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) workers: u32,
    /// How long a worker rests after each section
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration::parse)]
    pub(crate) pause: Duration,
    /// The folder of the counter that the lock protects. All services must share this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Serves Prometheus metrics at http://ADDR/metrics; a bare port means loopback
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics: Option<String>,
}

#[derive(Args)]
pub(crate) struct Relay {
    /// The port to listen on (a bare port means loopback), the server behind it, and the round trip
    #[arg(required = true, value_name = "[ADDRESS:]PORT=HOST:PORT@ROUND_TRIP")]
    pub(crate) routes: Vec<Route>,
}
