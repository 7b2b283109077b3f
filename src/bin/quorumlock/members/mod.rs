//! `quorumlock members`: whose votes count, and how that is changed by hand.

mod show;

use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use quorumlock::{NodeState, NodeStatus, Quorum, Reset, Retired};
use serde_json::json;

use crate::cli::{Members, OneNode, Retire};
use crate::duration::left as shown_left;
use crate::failure::{Failure, Outcome};
use crate::output::{self, milliseconds};
use crate::settings::Settings;

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

async fn retire(Retire { node: args, yes }: Retire) -> Outcome {
    let (quorum, url) = opened(&args)?;
    let then = quorum.members().await?.without(&url)?;
    let left = Left::of(&then, &quorum.nodes());
    let enrolled = then.nodes.iter().flat_map(|node| &node.roster).any(|roster| !roster.servers.is_empty());
    if enrolled && !left.is_quorum() && !yes && !output::confirmed(&left.to_string(), "Retire it?").await? {
        return kept(&args, &left).await;
    }
    let Retired { node, since, free_in, unused, .. } = quorum.retire(&url).await?;
    if args.json {
        let [since, free_in] = [since, free_in].map(milliseconds);
        let (votes, quorum_of) = (left.votes, left.quorum());
        let told = json!({
            "node": &*node, "retired_ms": since, "free_in_ms": free_in, "votes": votes, "quorum": quorum_of,
        });
        return said(&quorum, &told.to_string()).await;
    }
    let unused = match unused {
        true => "\nNo client is enrolled there now; if that is unexpected, see that --key-prefix is right",
        false => "",
    };
    let text = format!(
        "{node} is retired\n\
         Within 10 s no client counts its votes, and in {} nothing rests on it\n\
         {left}\n\
         It forgets that if it restarts without persistence: retire it again then{unused}",
        shown_left(free_in)
    );
    said(&quorum, &text).await
}

/// A quorum, and one of its nodes as it is given there.
fn opened(args: &OneNode) -> Result<(Quorum, String), Failure> {
    let settings = Settings::with_nodes(&args.nodes)?;
    Ok((settings.onlooker()?.open()?, settings.address(&args.url)))
}

/// Nobody said yes.
async fn kept(args: &OneNode, left: &Left) -> Outcome {
    if args.json {
        let (votes, quorum_of, why) = (left.votes, left.quorum(), output::refused(&left.to_string()));
        output::say(&json!({ "retired_ms": null, "votes": votes, "quorum": quorum_of, "refused": why }).to_string())
            .await?;
    }
    output::note("nothing was retired");
    Ok(ExitCode::FAILURE)
}

/// What is left of a list.
struct Left {
    votes: usize,
    nodes: usize,
    /// How long it takes until more vote, one by one.
    quarantines: Vec<Duration>,
}

impl Left {
    fn of(members: &quorumlock::Members, nodes: &[NodeStatus]) -> Self {
        let counted = members.counted().nodes;
        let states =
            || nodes.iter().enumerate().filter(|(index, _)| counted.contains(*index)).map(|(_, node)| &node.state);
        let mut quarantines: Vec<_> = states()
            .filter_map(|state| match state {
                NodeState::Quarantined { left, .. } => Some(*left),
                _ => None,
            })
            .collect();
        quarantines.sort_unstable();
        let votes = states().filter(|state| **state == NodeState::Up).count();
        Self { votes, nodes: nodes.len(), quarantines }
    }

    const fn quorum(&self) -> usize {
        self.nodes / 2 + 1
    }

    const fn is_quorum(&self) -> bool {
        self.votes >= self.quorum()
    }

    /// When so many quarantines have ended that a quorum votes, if nothing else happens.
    fn opens_in(&self) -> Option<Duration> {
        self.quarantines.get(self.quorum().checked_sub(self.votes + 1)?).copied()
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let vote = if self.votes == 1 { "votes" } else { "vote" };
        write!(f, "{} of {} nodes {vote} then", self.votes, self.nodes)?;
        match self.is_quorum() {
            true => Ok(()),
            false => {
                let quarantined = self.opens_in().map(|wait| {
                    format!(" for another {}, since {} quarantined", shown_left(wait), are(self.quarantines.len()))
                });
                let quarantined = quarantined.unwrap_or_default();
                write!(f, ": clients of this list acquire nothing{quarantined}, and lose the locks that they hold")
            }
        }
    }
}

fn are(many: usize) -> String {
    format!("{many} {}", if many == 1 { "is" } else { "are" })
}

async fn reset(args: OneNode) -> Outcome {
    let (quorum, url) = opened(&args)?;
    let told = quorum.reset(&url).await?;
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
        Some(_) => format!("{node} is retired no more"),
        None => format!("{node} was not retired"),
    };
    match told.others {
        Some(lasts) => format!(
            "{first}\nRosters have servers that are none of these nodes, and stay: clients of this list count its votes \
             {} after the last client that has those has stopped",
            shown_left(lasts)
        ),
        None if told.was.is_some() => format!("{first}: clients count its votes again within 10 s"),
        None => first,
    }
}

async fn teach(args: OneNode) -> Outcome {
    let settings = Settings::with_nodes(&args.nodes)?;
    let old = settings.onlooker()?.open()?;
    let new = Settings { nodes: vec![settings.address(&args.url)], ..settings }.onlooker()?.open()?;
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
    output::say(text).await?;
    quorum.shutdown(FAREWELL).await;
    Ok(ExitCode::SUCCESS)
}
