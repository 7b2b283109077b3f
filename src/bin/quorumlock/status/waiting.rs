//! `quorumlock status --wait`: waits until a quorum of nodes votes.

use std::time::{Duration, Instant};

use quorumlock::{Error, NodeState, Quorum};
use tokio::time::sleep;

use super::states::told;
use super::verdict::Verdict;
use super::{connecting, own_list, rights};
use crate::duration::exact;
use crate::output;
use crate::settings::Settings;

/// How often to look at the nodes' states.
const LOOK: Duration = Duration::from_millis(100);
/// How often to ask for the user's rights.
const RIGHTS: Duration = Duration::from_secs(1);
/// How long the other nodes get to answer once a quorum votes, so that their states are shown.
const OTHERS: Duration = Duration::from_millis(500);

/// Waits until a quorum of nodes votes, for `time` at most. If one server is behind two addresses,
/// the wait ends at once, because waiting does not help.
pub(super) async fn until_a_quorum_votes(
    quorum: &Quorum,
    settings: &Settings,
    name: &str,
    time: Duration,
) -> Result<(), Error> {
    let began = Instant::now();
    loop {
        let inspected = quorum.inspect(name).await?;
        let nodes = quorum.nodes();
        let list = own_list(settings, &nodes);
        let verdict = Verdict::new(&nodes, &inspected, &list);
        let votes = verdict.can_acquire();
        if verdict.duplicate() || (votes && verdict.with_rights(rights(&nodes, settings).await).surely_acquires()) {
            break;
        }
        let left = time.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        // Ask for the rights less often, because servers log each refusal.
        sleep(if votes { RIGHTS } else { LOOK }.min(left)).await;
    }
    let voted = Instant::now();
    while connecting(quorum) && voted.elapsed() < OTHERS {
        sleep(LOOK / 10).await;
    }
    Ok(())
}

/// The note on what the command waits for.
pub(super) fn waits(quorum: &Quorum, time: Duration) -> String {
    let nodes = quorum.nodes();
    let lacking = output::explained_once(nodes.iter().filter(|node| node.state != NodeState::Up).map(told)).join("; ");
    let lacking = if lacking.is_empty() { lacking } else { format!("; {lacking}") };
    format!("waiting until a quorum of nodes votes, for {} at most{lacking}", exact(time))
}
