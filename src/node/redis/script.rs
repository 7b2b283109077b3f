//! The scripts that carry out operations on a node: one for each group of verbs.

use std::sync::LazyLock;

use crate::node::operation::Verb;

/// A file of scripts/lua, with the files that stand in front of it. Its head lists keys, arguments
/// and replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    Claim,
    Renew,
    Release,
    Revoke,
    Inspect,
    Record,
    Roster,
}

macro_rules! joined {
    ($($file:literal),+) => {
        concat!($(include_str!(concat!("../../../scripts/lua/", $file, ".lua"))),+)
    };
}

/// All of them, as servers get them.
static SOURCES: LazyLock<[String; Script::ALL.len()]> = LazyLock::new(|| {
    [
        joined!("common", "name", "readers", "queue", "claim"),
        joined!("common", "name", "readers", "queue", "renew"),
        joined!("common", "name", "readers", "queue", "release"),
        joined!("common", "name", "revoke"),
        joined!("common", "name", "inspect"),
        joined!("common", "record"),
        joined!("common", "roster"),
    ]
    .map(without_comments)
});

impl Script {
    pub(crate) const ALL: [Self; 7] =
        [Self::Claim, Self::Renew, Self::Release, Self::Revoke, Self::Inspect, Self::Record, Self::Roster];

    /// The one that carries out this verb.
    pub(crate) const fn of(verb: Verb) -> Self {
        match verb {
            Verb::Claim => Self::Claim,
            Verb::Renew => Self::Renew,
            Verb::Release | Verb::Withdraw => Self::Release,
            Verb::Revoke => Self::Revoke,
            // No script scans.
            Verb::Inspect | Verb::Scan => Self::Inspect,
            Verb::Teach | Verb::Record => Self::Record,
            Verb::Enrol | Verb::Retire | Verb::Reset => Self::Roster,
        }
    }

    /// What its file is called.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::Revoke => "revoke",
            Self::Inspect => "inspect",
            Self::Record => "record",
            Self::Roster => "roster",
        }
    }

    /// Its text, which is no server's own.
    pub(crate) fn source(self) -> &'static str {
        &SOURCES[self as usize]
    }

    /// What is behind `P{name}` in the keys of each name.
    pub(super) fn keys(self) -> &'static [&'static str] {
        const ALL: [&str; 5] = ["", ":readers", ":waiting", ":queue", ":note"];
        let many = match self {
            Self::Record | Self::Roster => 0,
            Self::Revoke => 2,
            Self::Claim => 4,
            Self::Renew | Self::Release | Self::Inspect => 5,
        };
        &ALL[..many]
    }
}

/// The lines that are no comment, without their indentation: each connection sends them. No string
/// of the scripts spans lines.
fn without_comments(script: &str) -> String {
    let code = script.lines().map(str::trim_start).filter(|line| !line.is_empty() && !line.starts_with("--"));
    code.flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_script_has_comments_or_the_text_of_another() {
        for (number, script) in Script::ALL.into_iter().enumerate() {
            assert_eq!(script as usize, number);
            assert!(script.source().lines().all(|line| !line.starts_with(' ') && !line.contains("-- ")));
        }
        let mut sources = Script::ALL.map(Script::source);
        sources.sort_unstable();
        assert!(sources.windows(2).all(|two| two[0] != two[1]));
    }
}
