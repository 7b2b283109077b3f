//! The bodies of requests.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::Deserialize;

/// The default of `timeout_ms`, as in the library.
const TIMEOUT: u64 = 10_000;
/// The valid values of `keep_ms`.
const KEEP: RangeInclusive<u64> = 100..=86_400_000;
/// The same with `"connection": false`. Nothing else ends a dead client's lock, so the limit is
/// lower.
const KEEP_UNTIED: RangeInclusive<u64> = 100..=3_600_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mode {
    #[default]
    Exclusive,
    Shared,
}

/// `POST /v1/locks`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LockRequest {
    pub(super) names: Vec<String>,
    #[serde(default = "timeout")]
    timeout_ms: u64,
    pub(super) ttl_ms: Option<u64>,
    #[serde(default)]
    pub(super) mode: Mode,
    pub(super) permits: Option<u32>,
    pub(super) note: Option<String>,
    #[serde(default = "yes")]
    pub(super) fair: bool,
    pub(super) min_validity_ms: Option<u64>,
    keep_ms: Option<u64>,
    #[serde(default = "yes")]
    connection: bool,
}

/// `POST /v1/once`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OnceRequest {
    pub(super) name: String,
    pub(super) period_ms: u64,
    pub(super) ttl_ms: Option<u64>,
    pub(super) note: Option<String>,
    keep_ms: Option<u64>,
    #[serde(default = "yes")]
    connection: bool,
}

/// `POST /v1/elections/NAME`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CampaignRequest {
    pub(super) value: Option<String>,
    #[serde(default = "timeout")]
    timeout_ms: u64,
    pub(super) ttl_ms: Option<u64>,
    pub(super) min_validity_ms: Option<u64>,
    keep_ms: Option<u64>,
    #[serde(default = "yes")]
    connection: bool,
}

/// `PUT /v1/elections/NAME/ID`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ValueRequest {
    pub(super) value: String,
}

/// The body of a request without fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

const fn timeout() -> u64 {
    TIMEOUT
}

const fn yes() -> bool {
    true
}

/// What ends a lock, besides its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    /// Whether the lock ends with the connection that took it.
    pub(super) is_tied: bool,
    pub(super) keep: Option<Duration>,
}

fn owner(keep_ms: Option<u64>, is_tied: bool) -> Result<Owner, String> {
    let range = if is_tied { KEEP } else { KEEP_UNTIED };
    match keep_ms {
        None if !is_tied => Err("\"connection\": false needs keep_ms: else nothing would end the lock".to_owned()),
        Some(keep) if !range.contains(&keep) => {
            let without = if is_tied { "" } else { " with \"connection\": false" };
            Err(format!("keep_ms is {keep}; use {} to {}{without}", range.start(), range.end()))
        }
        keep => Ok(Owner { is_tied, keep: keep.map(Duration::from_millis) }),
    }
}

impl LockRequest {
    pub(super) const fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// Checks which fields are given together.
    pub(super) fn checked(&self) -> Result<Owner, String> {
        let single = |what| match self.names.len() {
            1 => Ok(()),
            _ => Err(format!("{what} takes one name")),
        };
        if self.names.is_empty() {
            return Err("names is empty".to_owned());
        }
        if self.mode == Mode::Shared {
            single("\"mode\": \"shared\"")?;
        }
        if self.permits.is_some() {
            single("permits")?;
        }
        if self.mode == Mode::Shared && self.permits.is_some() {
            return Err("\"mode\": \"shared\" and permits exclude each other".to_owned());
        }
        if self.note.is_some() && (self.mode == Mode::Shared || self.permits.is_some()) {
            return Err("only an exclusive lock has a note".to_owned());
        }
        owner(self.keep_ms, self.connection)
    }
}

impl OnceRequest {
    pub(super) fn checked(&self) -> Result<Owner, String> {
        owner(self.keep_ms, self.connection)
    }
}

impl CampaignRequest {
    pub(super) const fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    pub(super) fn checked(&self) -> Result<Owner, String> {
        if self.value.as_ref().is_some_and(|value| value.contains('\0')) {
            return Err("value contains a NUL character; remove it".to_owned());
        }
        owner(self.keep_ms, self.connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(body: &str) -> Result<Owner, String> {
        serde_json::from_str::<LockRequest>(body).map_err(|error| error.to_string())?.checked()
    }

    #[test]
    fn lock_without_an_owner_is_refused() {
        let kept = Owner { is_tied: false, keep: Some(Duration::from_secs(9)) };
        assert_eq!(checked(r#"{"names": ["a"], "keep_ms": 9000, "connection": false}"#), Ok(kept));
        assert_eq!(checked(r#"{"names": ["a", "b"]}"#), Ok(Owner { is_tied: true, keep: None }));
        assert!(checked(r#"{"names": ["a"], "connection": false}"#).unwrap_err().contains("needs keep_ms"));
    }

    #[test]
    fn mistakes_are_named() {
        for (body, told) in [
            (r#"{"names": []}"#, "names is empty"),
            (r#"{"name": "a"}"#, "unknown field `name`"),
            (r#"{"names": ["a"], "names": ["b"]}"#, "duplicate field `names`"),
            (r#"{"names": ["a"], "ttl_ms": -1}"#, "invalid value"),
            (r#"{"names": ["a"], "ttl_ms": 1.5}"#, "invalid type"),
            (r#"{"names": ["a"], "mode": "both"}"#, "unknown variant `both`"),
            (r#"{"names": ["a", "b"], "mode": "shared"}"#, "takes one name"),
            (r#"{"names": ["a", "b"], "permits": 2}"#, "takes one name"),
            (r#"{"names": ["a"], "permits": 2, "mode": "shared"}"#, "exclude each other"),
            (r#"{"names": ["a"], "permits": 2, "note": "x"}"#, "only an exclusive lock"),
            (r#"{"names": ["a"], "keep_ms": 99}"#, "use 100 to 86400000"),
            (r#"{"names": ["a"], "keep_ms": 3600001, "connection": false}"#, "use 100 to 3600000 with"),
            ("null", "invalid type"),
        ] {
            let error = checked(body).unwrap_err();
            assert!(error.contains(told), "{body}: {error}");
        }
    }
}
