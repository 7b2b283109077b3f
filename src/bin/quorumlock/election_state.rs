//! The state of an election, by the reports of the nodes.

use quorumlock::Inspected;
use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ElectionState {
    Leader(Leader),
    Nobody,
    /// Too few nodes answered.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leader {
    pub(crate) holder: String,
    /// 0 if the holder has proclaimed nothing, because it holds a plain lock.
    pub(crate) token: u64,
    pub(crate) value: String,
}

/// The text of an error if nobody can tell who leads.
pub(crate) const UNKNOWN: &str = "nobody can tell who leads: too few nodes vote, or name the same leader";

impl ElectionState {
    pub(crate) fn of(seen: &Inspected) -> Self {
        let told = seen.description();
        match (seen.holder(), seen.agreed()) {
            (Some(holder), _) => Self::Leader(Leader {
                holder: holder.to_owned(),
                token: told.map_or(0, |told| told.token),
                value: told.map(|told| told.says.to_string()).unwrap_or_default(),
            }),
            (None, Some(false)) if seen.is_conclusive() => Self::Nobody,
            _ => Self::Unknown,
        }
    }

    /// The leader as an object; `null` if nobody leads, or if this is not known.
    pub(crate) fn json(&self) -> Value {
        match self {
            Self::Leader(Leader { holder, token, value }) => {
                json!({ "value": value, "token": token, "holder": holder })
            }
            Self::Nobody | Self::Unknown => Value::Null,
        }
    }
}
