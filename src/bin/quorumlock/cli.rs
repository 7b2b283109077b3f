//! The command line: options and subcommands. Doc comments on fields and subcommands are the help
//! texts.

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
use bench::{Bench, BenchWorker};

const EXIT_CODES: &str = "\
Exit codes: that of CMD (128 + n if signal n ended it), 1 a check failed, lists differ or you did not say
yes, 64 usage or settings, 69 no quorum of nodes can vote, 70 internal error, 75 not acquired in time (or
what run -E says), 76 the lock was lost, 126 CMD cannot be run, 127 CMD was not found. Of doctor: 1
warnings, 2 unsafe.
Nodes come from --nodes, else from --config, else from QUORUMLOCK_NODES, else from QUORUMLOCK_CONFIG.
Durations: 500ms, 10s, 1.5m, 2h; a bare number is seconds.";

/// One lock across independent Redis masters.
#[derive(Parser)]
#[command(name = "quorumlock", version, about, after_help = EXIT_CODES, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// Tells more on standard error, with the time
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// How standard error is written: json makes each message one object on a line of its own
    #[arg(long, global = true, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) log_format: Format,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Starts redis-server processes to play with, for a command or until Ctrl-C
    Sandbox(Sandbox),
    /// Runs a command while holding a lock
    Run(Run),
    /// Runs a command while leading: waits until it is elected, and lets others see who leads
    Elect(Elect),
    /// Shows the state of each node, and who holds a name
    Status(Status),
    /// Shows nodes, holders and events on a terminal, as they change, until you press q.
    ///
    /// It changes no lock: it acquires nothing and casts no vote. Without NAME it shows all names that are
    /// held, found as `status --all` finds them, once in 5 seconds at most. Where standard output is no
    /// terminal, use `status --json` or `status --wait`. -v is ignored where standard error is one.
    Watch(Watch),
    /// Examines the nodes: what is unsafe, what is wrong, and how to mend it.
    ///
    /// It takes no lock, changes nothing on the nodes, and needs no rights but those of a client: no
    /// CONFIG, no ACL.
    Doctor(Doctor),
    /// Takes a lock away from its holder
    Release(Release),
    /// Shows which list of nodes is in force on each node, and which servers are behind their names
    Members(Members),
    /// Shows which clients are connected, from where, with which list and version
    Clients(Clients),
    /// Says that the servers are new: they vote at once.
    ///
    /// All must answer, and none may have a record or a key of the prefix. If all have a record, it
    /// does nothing, and says so: 0 if a quorum votes, else 69. Never run it after servers have
    /// restarted: they may have forgotten locks that are held.
    Init(Init),
    /// Contends for one lock from several processes, kills a node, and counts overlaps
    Demo(Demo),
    /// Measures how a lock passes from one to the next, and how long locks take
    #[command(subcommand)]
    Bench(Bench),
    /// Prints what a shell needs to complete this command line
    Completions(Completions),
    /// Prints the manual page, or writes those of all subcommands
    Manpage(Manpage),
    #[command(hide = true)]
    DemoWorker(DemoWorker),
    /// Works under one lock again and again until a signal, and serves metrics: a service of
    /// docker/compose.yaml
    #[command(hide = true)]
    DemoService(DemoService),
    /// Carries connections to servers as if these were far away: the distance between the regions of
    /// docker/compose.yaml
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
            Self::Release(release) => std::slice::from_ref(&release.name),
            _ => &[],
        }
    }

    /// Whether -v takes effect. A log on the terminal would spoil the screen of `watch`.
    pub(crate) fn may_log(&self) -> bool {
        !matches!(self, Self::Watch(_)) || !io::stderr().is_terminal()
    }

    /// The log level without -v. Commands that show the nodes themselves log only errors.
    pub(crate) const fn default_level(&self) -> LevelFilter {
        match self {
            // A log line would spoil the screen.
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
    /// The nodes' addresses, separated by commas: redis://, rediss:// or redis+unix://, each with
    /// ?name=NAME where the node's name in the list is not its host and port. Others can
    /// see the arguments of a process: keep passwords in the environment (QUORUMLOCK_NODES) or in a
    /// file (--password-file, --config)
    #[arg(long, value_name = "URL,URL,..")]
    pub(crate) nodes: Option<String>,
    /// A TOML file with nodes and options [default: QUORUMLOCK_CONFIG; what other variables say
    /// goes before that file]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A file whose first line is the password of all nodes whose addresses have none, read anew at
    /// each connection [default:
    /// QUORUMLOCK_PASSWORD_FILE]
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// The authorities (CA) that nodes' certificates are signed by, in a PEM file, instead of the
    /// system's; for rediss:// [default: QUORUMLOCK_TLS_CA]
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// This client's certificate, in a PEM file, for nodes that ask for one [default:
    /// QUORUMLOCK_TLS_CERT]
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of that certificate, in a PEM file [default: QUORUMLOCK_TLS_KEY]
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The name that the nodes' certificates are for, where it is not that of their addresses
    /// [default: QUORUMLOCK_TLS_SERVER_NAME]
    #[arg(long, value_name = "NAME")]
    pub(crate) tls_server_name: Option<String>,
    /// The name of the list of nodes, if not all clients have the same one [default: default, or
    /// QUORUMLOCK_LIST]
    #[arg(long, value_name = "NAME")]
    pub(crate) list: Option<String>,
    /// The longest ttl of any client of these nodes, the same for all: a node that is new or has
    /// restarted does not vote for so long. 0 switches that off [default: 60s, or QUORUMLOCK_MAX_TTL]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) max_ttl: Option<Duration>,
    /// What all keys begin with [default: quorumlock:, or QUORUMLOCK_KEY_PREFIX]
    #[arg(long, value_name = "TEXT")]
    pub(crate) key_prefix: Option<String>,
    /// The client library to reach the nodes with: fred, or redis-rs where this command was built
    /// with the feature redis-rs [default: fred, or QUORUMLOCK_TRANSPORT]
    #[arg(long, value_name = "NAME")]
    pub(crate) transport: Option<Transport>,
    /// How long to wait for a quorum of nodes [default: 15s; of `run` its timeout, which bounds it].
    /// Commands that only look wait for all nodes so long [default: 2s once a quorum votes, else 10s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) connect_timeout: Option<Duration>,
    /// How long one node may take for one answer, or one step of connecting [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) node_timeout: Option<Duration>,
}

#[derive(Args)]
pub(crate) struct Sandbox {
    /// How many servers
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) masters: u8,
    /// How far they are: the round trip to every server, or to each (2ms,12ms,40ms,80ms,160ms)
    #[arg(long, value_name = "TIME,TIME,..", value_delimiter = ',', value_parser = duration::parse)]
    pub(crate) latency: Vec<Duration>,
    /// What to run against them; without, they run until Ctrl-C
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args)]
pub(crate) struct Run {
    /// The lock's name; of several all are held, or none
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) nodes: Nodes,
    /// How long to wait for nodes and lock together; with 0 it makes a try, once a quorum of
    /// nodes is there, for which it waits as --connect-timeout says: 15s. Fails at once where
    /// quarantines keep a quorum from voting before that, as in the first minute of new servers
    /// [default: 15s, or QUORUMLOCK_TIMEOUT]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) timeout: Option<Duration>,
    /// Does not wait while somebody else holds the lock: the same as --timeout 0. Nodes are waited
    /// for all the same, for --connect-timeout. Callers that split the votes try again, for 4s at
    /// most
    #[arg(short, long, conflicts_with = "timeout")]
    pub(crate) no_wait: bool,
    /// The exit code where somebody else holds the lock, at once or until the timeout: 0 to 255
    /// [default: 75; with --once-per 0]
    #[arg(short = 'E', long, value_name = "N")]
    pub(crate) conflict_exit_code: Option<u8>,
    /// For how long the nodes hold the lock unless it is renewed, which happens all the time
    /// [default: 30s, or QUORUMLOCK_TTL]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) ttl: Option<Duration>,
    /// How long before the lock's validity ends the command gets SIGTERM; SIGKILL follows in time
    /// [default: a fifth of the ttl]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) kill_grace: Option<Duration>,
    /// Holds the name as a reader: with others that do, and with no command that holds it otherwise
    #[arg(long, conflicts_with = "describe")]
    pub(crate) shared: bool,
    /// Takes one of K permits of the name, which are the names NAME/0, NAME/1 and so on: so many
    /// commands run together at most. Let all clients say the same K: of several, the largest
    /// counts
    #[arg(long, value_name = "K", conflicts_with_all = ["describe", "shared"])]
    pub(crate) permits: Option<u32>,
    /// Runs CMD if nobody has run it under this name for so long (an hourly job: 55m): of many hosts
    /// that start it, the first does, and the others exit with 0, or what -E says. If CMD fails,
    /// another may try; if `run` is killed (SIGKILL), the period is used up. Servers that restart
    /// empty forget it: let them persist. Use a name that is not locked otherwise
    #[arg(long, value_name = "TIME", value_parser = duration::parse, conflicts_with_all = ["permits", "shared", "unfair"])]
    pub(crate) once_per: Option<Duration>,
    /// Keeps the lock for so long after CMD ended, whatever it came to. A signal ends that
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) at_least: Option<Duration>,
    /// After the lock was lost and CMD has ended: waits for it again, and runs CMD anew, instead of
    /// ending with 76. Each wait may take --timeout. A CMD that ends by itself is not run again, and
    /// none after SIGTERM, SIGINT or SIGQUIT
    #[arg(long, conflicts_with = "once_per")]
    pub(crate) again: bool,
    /// What it is for, as in "deploy #812": shown by `status`, and to whoever waits in vain; up to
    /// 256 bytes
    #[arg(long, value_name = "TEXT")]
    pub(crate) describe: Option<String>,
    /// Does not wait in the queue: asks at random times, and may overtake those who wait
    #[arg(long)]
    pub(crate) unfair: bool,
    /// Serves Prometheus metrics at http://ADDR/metrics; a bare port means loopback
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics: Option<String>,
    /// Writes metrics to FILE when it ends, for the textfile collector of node_exporter; FILE is
    /// NAME.prom, and NAME the label `run`
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics_textfile: Option<PathBuf>,
    /// The command. It gets QUORUMLOCK_NAME, of several names a line each, and
    /// QUORUMLOCK_FENCING_TOKEN; with --permits also QUORUMLOCK_PERMIT, from 0, which no other has
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// With the options of `run`. What is changed here comes last otherwise, also of positions.
#[derive(Args)]
#[command(
    mut_arg("names", |name| name.action(ArgAction::Set).num_args(1).index(1).help("The election's name: the leader holds the lock on it")),
    mut_arg("command", |command| command.index(2).help("The command. It gets QUORUMLOCK_NAME and QUORUMLOCK_FENCING_TOKEN")),
    mut_arg("conflict_exit_code", |code| code.help("The exit code where somebody else leads, at once or until the timeout: 0 to 255 [default: 75]")),
    mut_arg("describe", |describe| describe.hide(true)),
    mut_arg("shared", |shared| shared.hide(true)),
    mut_arg("permits", |permits| permits.hide(true)),
    mut_arg("once_per", |once_per| once_per.hide(true)),
    mut_arg("at_least", |at_least| at_least.hide(true))
)]
pub(crate) struct Elect {
    /// What is proclaimed while the command runs, such as an address: up to 64 KiB
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["describe", "shared", "permits", "once_per", "at_least"])]
    pub(crate) value: Option<String>,
    #[command(flatten)]
    pub(crate) run: Run,
}

#[derive(Args)]
pub(crate) struct Status {
    /// A lock's name, to see who holds it
    pub(crate) name: Option<String>,
    /// All names that are held under the key prefix. Nodes go through all their keys for that, a
    /// thousand at a time
    #[arg(long, conflicts_with = "name")]
    pub(crate) all: bool,
    /// Waits until a quorum of nodes votes, as after a start of all servers, and then shows their
    /// state; 69 if none does within TIME [default: 90s]
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
    /// How often each node is asked: 100ms to 60s. A node that has not answered yet is not asked again
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
    /// Does not ask. Without a terminal it is needed
    #[arg(long)]
    pub(crate) yes: bool,
    /// Prints one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Release {
    /// The lock's name; of a semaphore that of a permit, such as NAME/0
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) nodes: Nodes,
    /// Takes it from its holder. There is no other way to release another process's lock.
    /// Nobody else enters before the holder has let go, or its time is over
    #[arg(long)]
    pub(crate) force: bool,
    /// Frees it at once: until the holder learns of it, two may hold it. Only where the holder has
    /// gone, as it has of what was done once (run --once-per), which --force alone does not free
    #[arg(long, requires = "force")]
    pub(crate) now: bool,
    /// Does not ask, and takes it from its holder. Without a terminal it is needed
    /// if somebody holds the name
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
    /// How long
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) seconds: u32,
    /// How many workers in all
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) workers: u32,
    /// Over how many processes
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) processes: u32,
    /// Prints one JSON object at the end, and nothing else, on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Serves Prometheus metrics of the demo's own quorum at http://ADDR/metrics; a bare port means
    /// loopback
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics: Option<String>,
}

#[derive(Args)]
pub(crate) struct Completions {
    /// Whose script
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
    /// How many workers, which contend for the same lock
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) workers: u32,
    /// How long a worker rests after each section
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration::parse)]
    pub(crate) pause: Duration,
    /// Where the counter is, which the lock protects: services of one lock share this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Serves Prometheus metrics at http://ADDR/metrics; a bare port means loopback
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics: Option<String>,
}

#[derive(Args)]
pub(crate) struct Relay {
    /// Where to listen, and which server that leads to, as in 7001=redis-eu:6379@80ms; a bare port
    /// means loopback
    #[arg(required = true, value_name = "[ADDRESS:]PORT=HOST:PORT@ROUND_TRIP")]
    pub(crate) routes: Vec<Route>,
}
