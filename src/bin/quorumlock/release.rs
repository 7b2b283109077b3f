//! `quorumlock release`: takes a lock away from its holder (`--force`), or releases the lock of a
//! ticket (`--ticket`).

use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use quorumlock::{Error, Inspected, Inspection, NodeState, Quorum, Released, Taken, Ticket};
use serde_json::json;

use crate::cli::Release;
use crate::connecting::a_quorum;
use crate::duration::left;
use crate::failure::{Failure, Outcome, UNAVAILABLE, below};
use crate::lists::{Lists, Whose};
use crate::output::{self, milliseconds};
use crate::settings::Settings;
use crate::status::verdict::Verdict;
use crate::status::{Permits, Vote, held_by, named, own_list, wait, waits};
use crate::ticket_file;

/// How long to wait for the other nodes after a quorum has confirmed the release.
const FAREWELL: Duration = Duration::from_millis(500);
/// How long to wait for a quorum of nodes if no option sets this time.
const PATIENCE: Duration = Duration::from_secs(15);
const NOTHING: &str = "nothing was released";

pub(crate) async fn release(args: Release) -> Outcome {
    match (&args.ticket, &args.name) {
        (Some(file), _) => given_up(&args, &ticket_file::read("--ticket", file)?).await,
        (None, Some(name)) => taken_away(&args, name).await,
        (None, None) => Err(Failure::usage("release needs NAME, or --ticket FILE")),
    }
}

/// Releases the lock of a ticket.
async fn given_up(args: &Release, ticket: &Ticket) -> Outcome {
    let (_, quorum) = connected(args).await?;
    let name = ticket.name();
    let released = quorum.release(ticket).await.map_err(|error| match error.is_unavailable() {
        true => Failure::new(UNAVAILABLE, below(&unconfirmed(name), error.nodes())),
        false => error.into(),
    })?;
    let was_held = released == Released::Released;
    let text = match (args.json, was_held) {
        (true, _) => json!({ "name": name, "was_held": was_held }).to_string(),
        (false, true) => format!("{name:?} released"),
        (false, false) => format!(
            "{NOTHING}: the lock of this ticket on {name:?} has ended. It was resumed, released or revoked, or it \
             has expired"
        ),
    };
    output::say(&text).await?;
    quorum.shutdown(FAREWELL).await;
    Ok(ExitCode::SUCCESS)
}

fn unconfirmed(name: &str) -> String {
    format!(
        "no quorum confirmed the release of the ticket's lock on {name:?}. Run this command again when a quorum of nodes \
         answers. Otherwise the lock ends by its ttl"
    )
}

/// Connects as a client that acquires nothing.
async fn connected(args: &Release) -> Result<(Settings, Quorum), Failure> {
    let settings = Settings::with_nodes(&args.nodes)?;
    let quorum = settings.onlooker()?.open()?;
    let (patience, rotates) = (settings.connect_timeout.unwrap_or(PATIENCE), settings.password_file.is_some());
    let ready = a_quorum(&quorum, patience, "--connect-timeout", rotates).await;
    ready.map_err(|failure| failure.and(NOTHING))?;
    Ok((settings, quorum))
}

async fn taken_away(args: &Release, name: &str) -> Outcome {
    if !args.force {
        let why = "release needs --force: it takes the lock from a process that may be working under it. \
                   A lock of `quorumlock run` is released when its command ends";
        return Err(Failure::usage(why));
    }
    let (settings, quorum) = connected(args).await?;
    // Wait for slow nodes, too: perhaps only a slow node knows the holder.
    output::telling(wait(&quorum, args.nodes.connect_timeout), async { waits(&quorum) }).await;
    under_one_list(&settings, &quorum)?;
    let seen = quorum.inspect(name).await?;
    let once = seen.is_once();
    no_semaphore(name, &quorum, &seen).await?;
    let answer = if args.yes { ControlFlow::Continue(seen) } else { asked(args, name, &quorum, seen).await? };
    let seen = match answer {
        ControlFlow::Continue(seen) => seen,
        ControlFlow::Break(code) => return Ok(code),
    };
    let taken = if args.now { at_once(&quorum, name).await } else { quorum.revoke(name).await };
    let taken = match taken {
        Ok(taken) => taken,
        Err(error) => return Err(unsure(error, (args, name), &settings, &quorum, &seen).await),
    };
    told(args, name, &taken, once).await?;
    quorum.shutdown(FAREWELL).await;
    Ok(ExitCode::SUCCESS)
}

/// Fails if another list of the same name is in force on any node, or if lists of other names are
/// in force on at least half of the nodes. Clients of such a list may hold the name on nodes that
/// are not in our list, so a release by our list may miss the holder.
fn under_one_list(settings: &Settings, quorum: &Quorum) -> Result<(), Failure> {
    let nodes = quorum.nodes();
    let own = own_list(settings, &nodes);
    let lists = Lists::of_nodes(&own, &nodes);
    let are_most = 2 * lists.with(Whose::Foreign).len() >= nodes.len();
    let foreign = || lists.conflict(Whose::Foreign).filter(|_| are_most);
    let Some(conflict) = lists.conflict(Whose::Rival).or_else(foreign) else { return Ok(()) };
    let failure = Failure::new(UNAVAILABLE, conflict);
    Err(failure
        .and("to release a lock of a client of the other list, give that list (--nodes, --list, --max-ttl)")
        .and(NOTHING))
}

/// Refuses the name of a semaphore with held permits: the user must name a permit. Each permit has
/// a name of its own. The semaphore's own name is its gate, which one waiting caller holds.
async fn no_semaphore(name: &str, quorum: &Quorum, seen: &Inspected) -> Result<(), Failure> {
    if !named(seen).is_empty() && !seen.is_gate() {
        return Ok(());
    }
    let permits = Permits::look(quorum, name, seen).await?;
    let Some((first, _)) = permits.0.first() else { return Ok(()) };
    Err(Failure::usage(format!(
        "{name:?} is a semaphore: {}; name the permit to take away, as in `quorumlock release {} --force`. Nothing was \
         released",
        permits.told(),
        first.escape_debug()
    )))
}

/// Asks the user whether to take the lock from the holders that the nodes report. Asks again if
/// there is a new holder when the user answers. If the user confirms, returns the latest reports.
async fn asked(
    args: &Release,
    name: &str,
    quorum: &Quorum,
    mut before: Inspected,
) -> Result<ControlFlow<ExitCode, Inspected>, Failure> {
    loop {
        if before.agreed() == Some(false) && named(&before).is_empty() {
            return free(args, name, &before).await.map(ControlFlow::Break);
        }
        let what = format!("{name:?} is {}", held_by(&before));
        if !output::confirmed(&what, question(args.now)).await? {
            return kept(args, name, &before, &what).await.map(ControlFlow::Break);
        }
        let now = quorum.inspect(name).await?;
        if named(&now).is_subset(&named(&before)) {
            return Ok(ControlFlow::Continue(now));
        }
        output::note(&format!("meanwhile {name:?} has got another holder"));
        before = now;
    }
}

const fn question(now: bool) -> &'static str {
    if now {
        "Its holder learns of this with its next renewal; until then two clients may hold the lock. Free it at once?"
    } else {
        "Take the lock away, and make its token stale?"
    }
}

async fn free(args: &Release, name: &str, seen: &Inspected) -> Outcome {
    let fence = seen.fence();
    let text = match args.json {
        true => json!({
            "name": name, "was_held": false, "taken_from": [], "free_within_ms": null, "fence": fence,
        })
        .to_string(),
        false => format!("{name:?} is free; its tokens so far are at most {fence}"),
    };
    output::say(&text).await?;
    Ok(ExitCode::SUCCESS)
}

async fn kept(args: &Release, name: &str, seen: &Inspected, what: &str) -> Outcome {
    if args.json {
        let (holder, fence, why) = (seen.holder(), seen.fence(), output::refused(what));
        let (was_held, wait) = (seen.agreed(), None::<f64>);
        let told = json!({
            "name": name, "was_held": was_held, "taken_from": [], "free_within_ms": wait, "fence": fence,
            "holder": holder, "refused": why,
        });
        output::say(&told.to_string()).await?;
    }
    output::note(NOTHING);
    Ok(ExitCode::FAILURE)
}

async fn at_once(quorum: &Quorum, name: &str) -> Result<Taken, Error> {
    let taken = quorum.force_release(name).await?;
    if taken.left.is_some() {
        output::note("the holder learns of this with its next renewal; until then two clients may hold the lock");
    }
    Ok(taken)
}

/// The failure if the library cannot tell whether the name has another holder. If a quorum has
/// nevertheless stored the revocation, the failure says what was done, and when to try again.
/// With `--now`, the failure also says on which nodes the lock has ended. `before` is what the
/// nodes reported before the revocation.
async fn unsure(
    error: Error,
    (args, name): (&Release, &str),
    settings: &Settings,
    quorum: &Quorum,
    before: &Inspected,
) -> Failure {
    let Ok(after) = quorum.inspect(name).await else { return error.into() };
    let nodes = quorum.nodes();
    let list = own_list(settings, &nodes);
    let verdict = Verdict::new(&nodes, &after, &list);
    // The revocation's ballot is above all fences from before.
    let is_stored = |said: &Inspection| said.over > before.fence();
    let stored = after.nodes.iter().filter(|(_, said)| said.as_ref().is_ok_and(is_stored)).count();
    let votes = nodes.iter().filter(|node| node.state == NodeState::Up).count();
    if verdict.kept_out().is_some() {
        return error.into();
    }
    let freed = freed(&after, before.fence());
    if stored < verdict.quorum() || votes >= verdict.quorum() {
        let advice = "run this command again when a quorum of nodes answers";
        return match args.now && error.is_unavailable() {
            true => Failure::from(error).and(&format!("{freed}; {advice}")),
            false => error.into(),
        };
    }
    let from: Vec<_> = named(before).into_iter().collect();
    let from = if from.is_empty() {
        "no node names a holder".to_owned()
    } else {
        format!("taken from {}", from.join(" and "))
    };
    let (all, votes) = (nodes.len(), output::voting(votes, nodes.len()));
    let message = format!(
        "{name:?} was revoked on {stored} of {all} nodes, and {from}; but {votes}, so another client may hold it"
    );
    let when = match verdict.opens() {
        Some(Vote::In(time)) if !time.is_zero() => format!("in {}, when a quorum votes", left(time)),
        Some(_) => "when a client has used the nodes and a quorum votes".to_owned(),
        None => "when a quorum votes".to_owned(),
    };
    let failure = Failure::new(UNAVAILABLE, below(&message, error.nodes()));
    let failure = if args.now { failure.and(&freed) } else { failure };
    failure.and(&format!("run this command again {when}"))
}

/// The nodes on which no revoked lock is left, and the nodes that did not confirm this. `fence` is
/// the highest fence before the revocation. A node with several readers confirms nothing: it names
/// only one of them, if possible one that was not revoked.
fn freed(after: &Inspected, fence: u64) -> String {
    let is_free = |said: &Inspection| said.over > fence && !said.is_revoked() && said.count <= 1;
    let (free, others): (Vec<_>, Vec<_>) = after.nodes.iter().partition(|(_, said)| said.as_ref().is_ok_and(is_free));
    let all = |nodes: &[&(Arc<str>, _)]| nodes.iter().map(|(node, _)| &**node).collect::<Vec<_>>().join(", ");
    match (&free[..], &others[..]) {
        ([], _) => "no node confirmed that the lock has ended there".to_owned(),
        (free, []) => format!("no revoked lock is left on {}", all(free)),
        (free, others) => format!("no revoked lock is left on {}; not confirmed by {}", all(free), all(others)),
    }
}

async fn told(args: &Release, name: &str, taken: &Taken, once: bool) -> Result<(), Failure> {
    let Taken { from, left, fence, .. } = taken;
    let text = if args.json {
        let (was_held, wait) = (left.is_some(), left.map(milliseconds));
        json!({ "name": name, "was_held": was_held, "taken_from": from, "free_within_ms": wait, "fence": fence })
            .to_string()
    } else {
        let losers = if from.is_empty() { String::new() } else { format!("; it is taken from {}", from.join(" and ")) };
        format!("{name:?} {}; later tokens are above {fence}{losers}", what(*left, once, args.now))
    };
    Ok(output::say(&text).await?)
}

fn what(taken: Option<Duration>, once: bool, now: bool) -> String {
    match taken {
        Some(time) if now && !time.is_zero() => {
            format!(
                "was taken away, but too few nodes say that it is free: it may be held for up to {} more",
                left(time)
            )
        }
        // Nodes hold the name of a job of `run --once-per` until the period ends.
        Some(time) if once && !time.is_zero() => format!(
            "revoked, but not free: the job was done in this period, or is being done, and cannot be done again for up \
             to {}; --now frees it at once",
            left(time)
        ),
        None => "was free".to_owned(),
        Some(Duration::ZERO) => "released".to_owned(),
        Some(time) => format!("revoked: it is free once its holder lets go, within {}", left(time)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nodes_that_did_not_free_the_name_are_named() {
        let mut after = Quorum::in_memory(3).unwrap().inspect("job").await.unwrap();
        for (at, (node, said)) in after.nodes.iter_mut().enumerate() {
            (*node, *said) = (["a", "b", "c"][at].into(), Err("no answer in time".to_owned()));
        }
        assert_eq!(freed(&after, 7), "no node confirmed that the lock has ended there");
        after.nodes[0].1 = Ok(Inspection::free(7).with_ballots(0, 8));
        after.nodes[1].1 = Ok(Inspection::held("holder".to_owned(), 1, None, 7).with_ballots(7, 8));
        assert_eq!(freed(&after, 7), "no revoked lock is left on a; not confirmed by b, c");
        let newer = Inspection::held("next".to_owned(), 1, None, 9).with_ballots(9, 8);
        after.nodes[1..].iter_mut().for_each(|(_, said)| *said = Ok(newer.clone()));
        assert_eq!(freed(&after, 7), "no revoked lock is left on a, b, c");
        // One of these readers came after the revocation, and the other may be a revoked one.
        after.nodes[2].1 = Ok(Inspection::held("c/s9".to_owned(), 2, None, 9).with_ballots(9, 8));
        assert_eq!(freed(&after, 7), "no revoked lock is left on a, b; not confirmed by c");
    }

    #[test]
    fn release_with_now_does_not_suggest_now() {
        let hour = Some(Duration::from_secs(3_600));
        for once in [false, true] {
            assert_eq!(what(Some(Duration::ZERO), once, true), "released");
            assert!(what(hour, once, true).starts_with("was taken away, but too few nodes say that it is free"));
        }
        assert!(what(hour, true, false).ends_with("for up to 60 min; --now frees it at once"));
        assert_eq!(what(hour, false, false), "revoked: it is free once its holder lets go, within 60 min");
    }
}
