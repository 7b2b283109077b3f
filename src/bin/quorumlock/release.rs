//! `quorumlock release --force`: takes a lock away.

use std::process::ExitCode;
use std::time::Duration;

use quorumlock::{Inspected, Quorum};
use serde_json::json;

use crate::cli::Release;
use crate::duration::left;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::settings::Settings;
use crate::status::{held_by, milliseconds};

/// How long to wait for nodes that have not confirmed yet when a quorum has.
const FAREWELL: Duration = Duration::from_millis(500);

pub(crate) async fn release(args: Release) -> Outcome {
    if !args.force {
        let why = "release needs --force: it takes the lock from a process that may be working under it. \
                   A lock of `quorumlock run` is released when its command ends";
        return Err(Failure::usage(why));
    }
    let quorum = Settings::with_nodes(&args.nodes)?.onlooker().connect().await;
    let quorum = quorum.map_err(|error| Failure::from(error).and("nothing was released"))?;
    if !args.yes {
        let before = quorum.inspect(&args.name).await?;
        if before.agreed() == Some(false) {
            return free(&args, &before);
        }
        if !output::confirmed(&format!(
            "{:?} is {}. Take it away, and make its token stale?",
            args.name,
            held_by(&before)
        ))? {
            output::note("nothing was released");
            return Ok(ExitCode::FAILURE);
        }
    }
    let taken = if args.now { at_once(&quorum, &args.name).await? } else { quorum.revoke(&args.name).await? };
    told(&args, &quorum, taken).await?;
    quorum.shutdown(FAREWELL).await;
    Ok(ExitCode::SUCCESS)
}

/// There is nothing to ask about.
fn free(args: &Release, seen: &Inspected) -> Outcome {
    let fence = seen.fence();
    output::say(&match args.json {
        true => json!({ "name": args.name, "was_held": false, "free_within_ms": null, "fence": fence }).to_string(),
        false => format!("{:?} is free; its tokens so far are at most {fence}", args.name),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Frees it, with a warning. For how long it may be held still, if it was.
async fn at_once(quorum: &Quorum, name: &str) -> Result<Option<Duration>, Failure> {
    let held = quorum.force_release(name).await?;
    if held {
        output::note("until its holder learns of it, which it does with its next renewal, two may hold the lock");
    }
    Ok(held.then_some(Duration::ZERO))
}

async fn told(args: &Release, quorum: &Quorum, taken: Option<Duration>) -> Result<(), Failure> {
    let fence = quorum.inspect(&args.name).await?.fence();
    let text = if args.json {
        let wait = taken.map(milliseconds);
        json!({ "name": args.name, "was_held": taken.is_some(), "free_within_ms": wait, "fence": fence }).to_string()
    } else {
        format!("{:?} {}; tokens below {fence} are dead", args.name, what(taken))
    };
    Ok(output::say(&text)?)
}

fn what(taken: Option<Duration>) -> String {
    match taken {
        None => "was free".to_owned(),
        Some(Duration::ZERO) => "released".to_owned(),
        Some(time) => format!("revoked: it is free once its holder lets go, within {}", left(time)),
    }
}
