//! The scripts that carry out operations on a node: one for each group of verbs.

use std::sync::LazyLock;

use super::transport::digest;
use crate::node::operation::Verb;

/// A file in scripts/lua, preceded by the files that it needs. The comment at the head of the file
/// documents the script's keys, arguments and replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    Claim,
    Renew,
    Release,
    Revoke,
    Inspect,
    Hello,
}

/// A script without comments, and its SHA-1.
struct Source {
    text: String,
    digest: String,
}

macro_rules! joined {
    ($($file:literal),+) => {
        concat!($(include_str!(concat!("../../../scripts/lua/", $file, ".lua"))),+)
    };
}

/// A script for operations on names. name.lua declares the function `more()`. The first call of
/// `more()` runs readers.lua, waiters.lua and queue.lua, which few operations need.
macro_rules! of_names {
    ($file:literal) => {
        concat!(
            joined!("common", "name"),
            "function more()\nmade = made or (function()\n",
            joined!("readers", "waiters", "queue"),
            "end)()\nreturn made\nend\n",
            joined!($file)
        )
    };
}

static SOURCES: LazyLock<[Source; Script::ALL.len()]> = LazyLock::new(|| {
    [
        of_names!("claim"),
        of_names!("renew"),
        of_names!("release"),
        of_names!("revoke"),
        of_names!("inspect"),
        joined!("common", "seen", "hello"),
    ]
    .map(Source::of)
});

impl Script {
    pub(crate) const ALL: [Self; 6] =
        [Self::Claim, Self::Renew, Self::Release, Self::Revoke, Self::Inspect, Self::Hello];

    pub(crate) const fn of(verb: Verb) -> Self {
        match verb {
            Verb::Claim => Self::Claim,
            Verb::Renew => Self::Renew,
            Verb::Release | Verb::Withdraw => Self::Release,
            Verb::Revoke => Self::Revoke,
            // A scan runs no script, so this value for `Scan` has no meaning.
            Verb::Inspect | Verb::Scan => Self::Inspect,
            Verb::Hello => Self::Hello,
        }
    }

    pub(crate) fn source(self) -> &'static str {
        &SOURCES[self as usize].text
    }

    /// The script's SHA-1. EVALSHA names a loaded script by this digest.
    pub(super) fn digest(self) -> &'static str {
        &SOURCES[self as usize].digest
    }

    /// The endings of this script's keys for each name, after the key prefix and `{name}`.
    pub(super) fn keys(self) -> &'static [&'static str] {
        const ALL: [&str; 5] = ["", ":readers", ":waiting", ":queue", ":note"];
        let many = match self {
            Self::Hello => 0,
            Self::Revoke => 2,
            Self::Claim => 4,
            Self::Renew | Self::Release | Self::Inspect => 5,
        };
        &ALL[..many]
    }
}

impl Source {
    fn of(script: &str) -> Self {
        let text = without_comments(script);
        Self { digest: digest(&text), text }
    }
}

/// Removes comment lines and indentation, because each connection sends all scripts. This changes
/// no string in a script, because no string spans several lines.
fn without_comments(script: &str) -> String {
    let code = script.lines().map(str::trim_start).filter(|line| !line.is_empty() && !line.starts_with("--"));
    code.flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_have_no_comments_and_distinct_digests() {
        for (number, script) in Script::ALL.into_iter().enumerate() {
            assert_eq!(script as usize, number);
            assert!(script.source().lines().all(|line| !line.starts_with(' ') && !line.contains("-- ")));
        }
        let mut digests = Script::ALL.map(Script::digest);
        digests.sort_unstable();
        assert!(digests.windows(2).all(|two| two[0] != two[1]));
    }
}
