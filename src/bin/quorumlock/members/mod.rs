//! `quorumlock members`: whose votes count, and how that is changed by hand.

mod show;

use std::process::ExitCode;
use std::time::Duration;

use quorumlock::{Quorum, Reset, Retired};
use serde_json::json;

use crate::cli::{Members, OneNode};
use crate::duration::left;
use crate::failure::Outcome;
use crate::output;
use crate::settings::Settings;
use crate::status::milliseconds;

/// How long connections may take to end.
const FAREWELL: Duration = Duration::from_millis(500);

pub(crate) async fn members(args: Members) -> Outcome {
    match args {
        Members::Show(args) => show::show(args).await,
        Members::Retire(args) => retire(args).await,
        Members::Reset(args) => reset(args).await,
        Members::Teach(args) => teach(args).await,
    }
}

async fn retire(args: OneNode) -> Outcome {
    let quorum = Settings::with_nodes(&args.nodes)?.onlooker().open()?;
    let Retired { node, since, free_in, unused, .. } = quorum.retire(&args.url).await?;
    let text = match args.json {
        true => json!({ "node": &*node, "retired_ms": milliseconds(since), "free_in_ms": milliseconds(free_in) })
            .to_string(),
        false => format!(
            "{node} is retired: within 10 s no client counts its votes, and in {} nothing rests on it\n\
             It knows that for as long as it keeps what it stores: after a restart without persistence, retire it \
             again{}",
            left(free_in),
            if unused {
                "\nNo client is enrolled there now; if that is unexpected, see that --key-prefix is right"
            } else {
                ""
            }
        ),
    };
    said(&quorum, &text).await
}

async fn reset(args: OneNode) -> Outcome {
    let quorum = Settings::with_nodes(&args.nodes)?.onlooker().open()?;
    let told = quorum.reset(&args.url).await?;
    let text = match args.json {
        true => {
            let [was, others] = [told.was, told.others].map(|time| time.map(milliseconds));
            json!({ "node": &*told.node, "was_retired_ms": was, "others_ms": others }).to_string()
        }
        false => words(&told),
    };
    said(&quorum, &text).await
}

fn words(told: &Reset) -> String {
    let node = &told.node;
    let first = match told.was {
        Some(_) => format!("{node} is retired no more: clients count its votes again within 10 s"),
        None => format!("{node} was not retired"),
    };
    let others = told.others.map(|lasts| {
        format!(
            "\nIts roster is of another list, and stays: its clients keep those of this list out until {} after the \
             last of them has stopped",
            left(lasts)
        )
    });
    first + &others.unwrap_or_default()
}

async fn teach(args: OneNode) -> Outcome {
    let settings = Settings::with_nodes(&args.nodes)?;
    let old = settings.onlooker().open()?;
    let new = Settings { nodes: vec![args.url], ..settings }.onlooker().open()?;
    let high = old.teach(&new).await?;
    let node = new.nodes()[0].node.clone();
    new.shutdown(FAREWELL).await;
    let text = match args.json {
        true => json!({ "node": &*node, "high": high }).to_string(),
        false => format!("{node} knows which tokens were dealt: it grants none up to {high}"),
    };
    said(&old, &text).await
}

async fn said(quorum: &Quorum, text: &str) -> Outcome {
    output::say(text)?;
    quorum.shutdown(FAREWELL).await;
    Ok(ExitCode::SUCCESS)
}
