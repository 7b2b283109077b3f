//! Durations as people write and read them.

use std::time::Duration;

pub(crate) use crate::words::{about as show, exact, left};

/// Units, longest names first so that `ms` is not read as `s`.
const UNITS: [(&str, f64); 5] = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3_600.0), ("d", 86_400.0)];

/// Reads `500ms`, `10s`, `1.5m`, `2h`, `1d`, or a bare number of seconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let (number, unit) = UNITS
        .iter()
        .find_map(|(name, unit)| text.strip_suffix(name).map(|number| (number.trim_end(), *unit)))
        .unwrap_or((text, 1.0));
    let digits = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let seconds = number.parse::<f64>().ok().filter(|_| digits);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds * unit).ok())
        .ok_or_else(|| "not a duration; write 500ms, 10s, 1.5m or 2h".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_and_without_a_unit() {
        for (text, milliseconds) in [
            ("10s", 10_000),
            ("500ms", 500),
            ("1.5m", 90_000),
            ("2h", 7_200_000),
            ("3", 3_000),
            ("0", 0),
            ("2 s", 2_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "s", "-1s", "1e9", "inf", "NaN", "ten", "1.2.3s", "99999999999999999999d"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
