//! `quorumlock release --force`: takes a lock away.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::time::Duration;

use quorumlock::Quorum;
use serde_json::json;

use crate::cli::Release;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::settings::Settings;
use crate::status::held_by;

/// How long to wait for nodes that have not confirmed yet when a quorum has.
const FAREWELL: Duration = Duration::from_millis(500);

pub(crate) async fn release(args: Release) -> Outcome {
    if !args.force {
        let why = "release needs --force: it takes the lock from a process that may be working under it. \
                   A lock of `quorumlock run` is released when its command ends";
        return Err(Failure::usage(why));
    }
    let quorum = Settings::with_nodes(&args.nodes)?.onlooker().connect().await?;
    let before = quorum.inspect(&args.name).await?;
    if !args.yes
        && !confirmed(&format!("{:?} is {}. Release it, and make its token stale?", args.name, held_by(&before)))?
    {
        output::note("nothing was released");
        return Ok(ExitCode::FAILURE);
    }
    let held = quorum.force_release(&args.name).await?;
    told(&args, &quorum, held).await?;
    quorum.shutdown(FAREWELL).await;
    Ok(ExitCode::SUCCESS)
}

async fn told(args: &Release, quorum: &Quorum, held: bool) -> Result<(), Failure> {
    let fence = quorum.inspect(&args.name).await?.fence();
    let text = if args.json {
        json!({ "name": args.name, "was_held": held, "fence": fence }).to_string()
    } else {
        let what = if held { "released" } else { "was free" };
        format!("{:?} {what}; tokens below {fence} are dead", args.name)
    };
    Ok(output::say(&text)?)
}

/// Asks on standard error and reads a line. Anything but yes means no, and so does the end of the input.
fn confirmed(question: &str) -> io::Result<bool> {
    let mut err = io::stderr();
    write!(err, "{question} [y/N] ")?;
    err.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}
