//! Reports which rights the user lacks.

use super::super::finding::{Finding, Level};
use super::super::node_check::NodeCheck;
use super::super::seen::Node;
use super::{AGAIN, unknown};
use crate::raw_connection::remedies::mend;
use crate::raw_connection::rights::{Effect, Lacks};

pub(super) fn findings(node: Node<'_>, check: &NodeCheck) -> Vec<Finding> {
    match &check.lacks {
        Ok(lacks) if lacks.no_right() => {
            vec![Finding::fine("rights", "The user has all rights that locks need.")]
        }
        Ok(lacks) => lacking(lacks),
        Err(why) if node.explains(why) => Vec::new(),
        Err(why) => vec![unknown("rights", "rights", why, mend(why).unwrap_or(AGAIN))],
    }
}

fn lacking(lacks: &Lacks) -> Vec<Finding> {
    let missing = Effect::ALL.into_iter().filter_map(|effect| Some((effect, lacks.of(effect)?)));
    // All missing commands that locks need make one finding, which reports the worst effect.
    let (needed, others): (Vec<_>, Vec<_>) = missing.partition(|(effect, _)| *effect <= Effect::WakeUps);
    let all = needed.iter().map(|(_, missing)| &**missing).collect::<Vec<_>>().join(" ");
    let needed = needed.first().map(|(worst, _)| commands(*worst, &all));
    let others = others.iter().map(|(effect, missing)| commands(*effect, missing));
    let commands = needed.into_iter().chain(others);
    let keys = lacks.keys.as_deref().map(keys);
    let channels = lacks.channels.as_deref().map(channels);
    commands.chain(keys).chain(channels).collect()
}

fn commands(effect: Effect, missing: &str) -> Finding {
    let (level, id, why) = match effect {
        Effect::Acquire => (Level::Warning, "right-command", "The node grants this user no lock."),
        Effect::Some => (
            Level::Warning,
            "right-command",
            "On this node, some operations for waiting, readers, permits, queues or elections fail. Locks without \
             waiters still work.",
        ),
        Effect::WakeUps => {
            (Level::Warning, "right-command", "The node cannot notify waiters, so waiting takes longer. Locks work.")
        }
        Effect::Listing => (Level::Hint, "right-scan", "Only `init`, `watch` and `status --all` need this right."),
        Effect::Nothing => {
            (Level::Hint, "right-unneeded", "Nothing fails. The server notes each refusal in its ACL LOG.")
        }
    };
    Finding::new(level, id, format!("The user lacks {missing}."))
        .why(why)
        .mend(format!("ACL SETUSER the user with {missing}, or as docs/deploy.md, \"Access rights\", says."))
}

fn keys(missing: &str) -> Finding {
    Finding::new(Level::Warning, "right-keys", format!("The user has no right to the keys {missing}."))
        .why("The node can grant this user no lock.")
        .mend(format!("ACL SETUSER the user with {missing}."))
}

fn channels(missing: &str) -> Finding {
    Finding::new(Level::Warning, "right-channels", format!("The user has no right to the channels {missing}."))
        .why("The node cannot notify waiters, so waiting takes longer.")
        .mend(format!("ACL SETUSER the user with {missing}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_lock_commands_are_one_finding_and_scan_is_another() {
        let right = |effect, right: &str| (effect, right.to_owned());
        let commands =
            vec![right(Effect::Listing, "+scan"), right(Effect::WakeUps, "+publish"), right(Effect::Acquire, "+hset")];
        let found = lacking(&Lacks { commands, ..Lacks::default() });
        let told: Vec<_> = found.iter().map(|finding| (finding.id, &*finding.what)).collect();
        let expected = [("right-command", "The user lacks +hset +publish."), ("right-scan", "The user lacks +scan.")];
        assert_eq!(told, expected);
        assert_eq!(found[0].why, "The node grants this user no lock.");
    }
}
