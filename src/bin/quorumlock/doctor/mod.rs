//! `quorumlock doctor`: checks whether the nodes are fit for locks, and says what to repair.
//!
//! The library reports the nodes' states, records and versions. For other facts about a server, the
//! doctor opens a connection of its own to the server. The doctor's commands change no data.

mod checks;
mod clock;
mod domains;
mod finding;
mod node_check;
mod report;
mod seen;

use std::process::ExitCode;
use std::time::Duration;

use console::Term;
use futures::future::join_all;
use quorumlock::Quorum;

use crate::cli::Doctor;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::raw_connection::certificate_expiry::CertificateExpiry;
use crate::raw_connection::login::Failed;
use crate::raw_connection::rights::Names;
use crate::raw_connection::target::Target;
use crate::settings::{self, DEFAULT_MAX_TTL, Settings};
use crate::status::{PROBE, own_list, wait, waits};
use crate::times;
use domains::Domains;
use node_check::NodeCheck;
use seen::{Seen, Times};

/// Defaults of `ttl` and `node_timeout`, as in the library.
const TTL: Duration = Duration::from_secs(30);
const NODE_TIMEOUT: Duration = Duration::from_secs(2);
/// The time limit for the check of one node, including name resolution, which can be slow. Finding
/// the failure domains has the same limit, and so has reading the certificates.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn doctor(args: Doctor, verbose: bool) -> Outcome {
    let settings = Settings::with_nodes(&args.nodes)?;
    let quorum = settings.onlooker()?.open()?;
    let seen = output::telling(examined(&quorum, &settings, &args), async { waits(&quorum) }).await?;
    let findings = checks::findings(&seen);
    if args.json {
        output::say(&report::json(&seen, &findings).to_string()).await?;
    } else {
        // `None` if standard output is not a terminal.
        let columns = Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
        output::say(&report::lines(&findings, seen.nodes.len(), verbose, columns).join("\n")).await?;
    }
    quorum.shutdown(Duration::ZERO).await;
    Ok(ExitCode::from(finding::code(&findings)))
}

async fn examined(quorum: &Quorum, settings: &Settings, args: &Doctor) -> Result<Seen, Failure> {
    let domains = &args.domains;
    let targets = settings.logged_in();
    let tls = settings.encryption.own();
    let targets = targets.iter().map(|node| Target::parse(node, &tls)).collect::<Result<Vec<_>, _>>()?;
    if ![0, targets.len()].contains(&domains.len()) {
        let (told, nodes) = (domains.len(), targets.len());
        return Err(Failure::usage(format!("--domains has {told} names for {nodes} nodes; give one name for each")));
    }
    let times = times_of(settings)?;
    let names = Names::of(settings);
    let checks = join_all(targets.iter().map(|target| check(target.clone(), names.clone(), times.node_timeout)));
    let (checks, (), domains, certificates) = tokio::join!(
        checks,
        wait(quorum, args.nodes.connect_timeout),
        resolved(domains.to_vec(), targets.clone()),
        certificates(targets.clone())
    );
    let inspected = quorum.inspect(PROBE).await?;
    let nodes = quorum.nodes();
    let list = own_list(settings, &nodes);
    Ok(Seen { nodes, inspected, list, checks, targets, certificates, domains, times })
}

/// The times that `quorumlock run` would use with these settings and this environment.
fn times_of(settings: &Settings) -> Result<Times, Failure> {
    Ok(Times {
        ttl: settings::ttl()?.or(settings.ttl).unwrap_or(TTL),
        max_ttl: settings.max_ttl.unwrap_or(DEFAULT_MAX_TTL),
        node_timeout: settings.node_timeout.unwrap_or(NODE_TIMEOUT),
        timeout: settings::time(settings::TIMEOUT)?.or(settings.timeout).unwrap_or(times::TIMEOUT),
    })
}

async fn check(target: Target, names: Names, step: Duration) -> Result<NodeCheck, Failed> {
    let asked = tokio::task::spawn_blocking(move || NodeCheck::of(&target, &names, step));
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(check)) => check,
        Ok(Err(error)) => Err(Failed::new(error.to_string(), "")),
        Err(_) => Err(Failed::new("no answer in time", "See whether the server hangs.")),
    }
}

async fn resolved(told: Vec<String>, targets: Vec<Target>) -> Domains {
    let by_name = Domains::by_name(&told, &targets);
    let resolved = tokio::task::spawn_blocking(move || Domains::of(&told, &targets));
    tokio::time::timeout(PATIENCE, resolved).await.ok().and_then(Result::ok).unwrap_or(by_name)
}

async fn certificates(targets: Vec<Target>) -> Vec<CertificateExpiry> {
    let nothing = vec![CertificateExpiry::default(); targets.len()];
    let read = tokio::task::spawn_blocking(move || targets.iter().map(CertificateExpiry::of).collect());
    tokio::time::timeout(PATIENCE, read).await.ok().and_then(Result::ok).unwrap_or(nothing)
}
