//! Which rights the user lacks.

use super::super::exam::Exam;
use super::super::finding::{Finding, Level};
use super::super::rights::Lacks;
use super::super::seen::Node;
use super::unknown;

/// All that SCAN is for.
const LISTING: &str = "+scan";

pub(super) fn findings(_: Node<'_>, exam: &Exam) -> Vec<Finding> {
    match &exam.lacks {
        Ok(lacks) if *lacks == Lacks::default() => {
            vec![Finding::fine("rights", "The user may do all that locks need.")]
        }
        Ok(lacks) => lacking(lacks),
        Err(why) => vec![unknown("rights", "rights", why, "Run the doctor again.")],
    }
}

fn lacking(lacks: &Lacks) -> Vec<Finding> {
    let (listing, needed): (Vec<_>, Vec<_>) = lacks.commands.iter().cloned().partition(|right| right == LISTING);
    let commands = (!needed.is_empty()).then(|| commands(&needed.join(" ")));
    let listing = (!listing.is_empty()).then(scan);
    let keys = lacks.keys.as_deref().map(keys);
    let channels = lacks.channels.as_deref().map(channels);
    commands.into_iter().chain(listing).chain(keys).chain(channels).collect()
}

fn commands(missing: &str) -> Finding {
    Finding::new(Level::Warning, "right-command", format!("The user lacks {missing}."))
        .why("What needs these commands fails on this node.")
        .mend(format!("ACL SETUSER the user with {missing}, or as README, \"Access rights\", says."))
}

fn scan() -> Finding {
    Finding::new(Level::Hint, "right-scan", format!("The user lacks {LISTING}."))
        .why("Only `quorumlock status --all` needs it.")
        .mend(format!("ACL SETUSER the user with {LISTING} to list the names that are held."))
}

fn keys(missing: &str) -> Finding {
    Finding::new(Level::Warning, "right-keys", format!("The user lacks the keys {missing}."))
        .why("The node can grant this user no lock.")
        .mend(format!("ACL SETUSER the user with {missing}."))
}

fn channels(missing: &str) -> Finding {
    Finding::new(Level::Warning, "right-channels", format!("The user lacks the channels {missing}."))
        .why("The node cannot notify waiters, so waiting takes longer.")
        .mend(format!("ACL SETUSER the user with {missing}."))
}
