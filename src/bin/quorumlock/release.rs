//! `quorumlock release --force`: takes a lock away.

use std::ops::ControlFlow;
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
    let before = match args.yes {
        true => quorum.inspect(&args.name).await?,
        false => match asked(&args, &quorum).await? {
            ControlFlow::Continue(before) => before,
            ControlFlow::Break(code) => return Ok(code),
        },
    };
    let taken = if args.now { at_once(&quorum, &args.name).await? } else { quorum.revoke(&args.name).await? };
    told(&args, &quorum, &before, taken).await?;
    quorum.shutdown(FAREWELL).await;
    Ok(ExitCode::SUCCESS)
}

/// Asks about whoever holds it, until the answer is about the one that still does. What was seen then.
async fn asked(args: &Release, quorum: &Quorum) -> Result<ControlFlow<ExitCode, Inspected>, Failure> {
    let mut before = quorum.inspect(&args.name).await?;
    loop {
        if before.agreed() == Some(false) {
            return free(args, &before).map(ControlFlow::Break);
        }
        let what = format!("{:?} is {}", args.name, held_by(&before));
        if !output::confirmed(&what, "Take it away, and make its token stale?").await? {
            return kept(args, &before, &what).map(ControlFlow::Break);
        }
        let now = quorum.inspect(&args.name).await?;
        if now.holder() == before.holder() {
            return Ok(ControlFlow::Continue(now));
        }
        output::note(&format!("meanwhile {:?} has passed on", args.name));
        before = now;
    }
}

/// There is nothing to ask about.
fn free(args: &Release, seen: &Inspected) -> Outcome {
    let fence = seen.fence();
    output::say(&match args.json {
        true => json!({
            "name": args.name, "was_held": false, "holder": null, "free_within_ms": null, "fence": fence,
        })
        .to_string(),
        false => format!("{:?} is free; its tokens so far are at most {fence}", args.name),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Nobody said yes.
fn kept(args: &Release, seen: &Inspected, what: &str) -> Outcome {
    if args.json {
        let (holder, fence, why) = (seen.holder(), seen.fence(), output::refused(what));
        let (was_held, wait) = (seen.agreed(), None::<f64>);
        let told = json!({
            "name": args.name, "was_held": was_held, "holder": holder, "free_within_ms": wait, "fence": fence,
            "refused": why,
        });
        output::say(&told.to_string())?;
    }
    output::note("nothing was released");
    Ok(ExitCode::FAILURE)
}

/// Frees it, with a warning. For how long it may be held still, if it was.
async fn at_once(quorum: &Quorum, name: &str) -> Result<Option<Duration>, Failure> {
    let held = quorum.force_release(name).await?;
    if held {
        output::note("until its holder learns of it, which it does with its next renewal, two may hold the lock");
    }
    Ok(held.then_some(Duration::ZERO))
}

async fn told(args: &Release, quorum: &Quorum, before: &Inspected, taken: Option<Duration>) -> Result<(), Failure> {
    let after = quorum.inspect(&args.name).await?;
    let fence = after.fence();
    // Who is revoked and holds it still is known for sure; else it has let go, and it is the one that was seen last.
    let revoked = after.holder().filter(|_| after.revoked());
    let loser = revoked.or(before.holder()).filter(|_| taken.is_some());
    let text = if args.json {
        let (was_held, wait) = (taken.is_some(), taken.map(milliseconds));
        json!({ "name": args.name, "was_held": was_held, "holder": loser, "free_within_ms": wait, "fence": fence })
            .to_string()
    } else {
        let loser = loser.map(|loser| format!("; it is taken from {loser}")).unwrap_or_default();
        format!("{:?} {}; tokens below {fence} are dead{loser}", args.name, what(taken))
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
