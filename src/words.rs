//! Durations, counts and names in texts for people. A duration is shown as a number, a space and a
//! unit.
//!
//! The `quorumlock` command uses the same functions.

use std::time::Duration;

const MINUTE: u64 = 60;
const HOUR: u64 = 3_600;
const DAY: u64 = 86_400;

/// A configured duration, with all its digits: `100 ms`, `1.5 s`, `720 h`.
pub(crate) fn exact(time: Duration) -> String {
    let seconds = time.as_secs();
    if time.subsec_nanos() > 0 {
        return match seconds {
            0 => format!("{} ms", f64::from(time.subsec_nanos()) / 1e6),
            _ => format!("{} s", time.as_secs_f64()),
        };
    }
    match seconds {
        hours if hours >= 2 * HOUR && hours.is_multiple_of(HOUR) => format!("{} h", hours / HOUR),
        minutes if minutes >= 2 * MINUTE && minutes.is_multiple_of(MINUTE) => format!("{} min", minutes / MINUTE),
        seconds => format!("{seconds} s"),
    }
}

/// A measured duration, with two or three digits: `0.14 ms`, `12.3 ms`, `3.4 s`.
pub(crate) fn about(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match time.as_secs() {
        0 if time.is_zero() => "0 s".to_owned(),
        0 if seconds < 0.01 => format!("{:.2} ms", seconds * 1e3),
        0 if seconds < 0.1 => format!("{:.1} ms", seconds * 1e3),
        0 if seconds < 0.999_5 => format!("{:.0} ms", seconds * 1e3),
        0..120 => format!("{} s", (seconds * 10.0).round() / 10.0),
        whole => coarse(whole),
    }
}

/// A remaining duration, rounded up if it is above 1 s: `0.14 ms`, `30 s`, `3 min`.
pub(crate) fn left(time: Duration) -> String {
    match time.as_secs() + u64::from(time.subsec_nanos() > 0) {
        0..=1 => about(time),
        seconds @ 2..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => coarse(seconds.next_multiple_of(MINUTE)),
        seconds @ 7_200..172_800 => coarse(seconds.next_multiple_of(HOUR)),
        seconds => coarse(seconds.saturating_add(DAY - 1)),
    }
}

/// A server's text with its control characters escaped, so that the text cannot control the
/// terminal.
pub(crate) fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter.is_control() {
            true => shown.extend(letter.escape_debug()),
            false => shown.push(letter),
        }
    }
    shown
}

/// A count with its noun, such as `1 node` or `2 nodes`. The plural must end with an s.
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// How many names [`listed`] shows.
const SHOWN: usize = 3;

/// The first few names, and how many more there are.
pub(crate) fn listed(names: &[impl AsRef<str>]) -> String {
    let first: Vec<_> = names.iter().take(SHOWN).map(|name| format!("{:?}", name.as_ref())).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// Reads `500ms`, `10s`, `1.5m`, `1h 30m`, or a bare number of seconds. Capital letters are
/// refused, because the parser would read `5M` as five months.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let bare = text.trim().bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let parsed = humantime::parse_duration(&if bare { format!("{text}s") } else { text.to_owned() });
    let small = !text.bytes().any(|byte| byte.is_ascii_uppercase());
    parsed.ok().filter(|_| small).ok_or_else(|| "not a duration; write 500ms, 10s, 1.5m or 2h".to_owned())
}

fn coarse(seconds: u64) -> String {
    match seconds {
        0..7_200 => format!("{} min", seconds / MINUTE),
        7_200..172_800 => format!("{} h", seconds / HOUR),
        _ => format!("{} days", seconds / DAY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_of_one_has_no_plural() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "node")), ["0 nodes", "1 node", "2 nodes"]);
    }

    #[test]
    fn list_of_many_names_shows_the_first_three() {
        let shown = |many: usize| listed(&["a", "b", "c", "d", "e"][..many]);
        assert_eq!([1, 3, 5].map(shown), ["\"a\"", "\"a\", \"b\", \"c\"", "\"a\", \"b\", \"c\" and 2 more"]);
    }

    #[test]
    fn set_duration_is_shown_exactly() {
        let micros = |micros| exact(Duration::from_micros(micros));
        assert_eq!([0, 1_000, 1_500_000, 30_000_000].map(micros), ["0 s", "1 ms", "1.5 s", "30 s"]);
        assert_eq!(exact(Duration::from_nanos(1_999_999)), "1.999999 ms");
        assert_eq!(
            [60, 120, 3_601, 7_200, 2_592_000].map(Duration::from_secs).map(exact),
            ["60 s", "2 min", "3601 s", "2 h", "720 h"]
        );
    }

    #[test]
    fn measured_duration_is_shown_with_few_digits() {
        let shown = |microseconds| about(Duration::from_micros(microseconds));
        assert_eq!(
            [0, 140, 12_345, 250_000, 999_900, 3_400_000, 3_000_000, 185_000_000, 9_000_000_000].map(shown),
            ["0 s", "0.14 ms", "12.3 ms", "250 ms", "1 s", "3.4 s", "3 s", "3 min", "2 h"]
        );
    }

    #[test]
    fn remaining_time_is_rounded_up() {
        let shown = |milliseconds| left(Duration::from_millis(milliseconds));
        assert_eq!(
            [0, 400, 1_001, 57_300, 119_500, 3_599_000, 7_200_000, 200_000_000].map(shown),
            ["0 s", "400 ms", "2 s", "58 s", "2 min", "60 min", "2 h", "3 days"]
        );
    }

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
            (" 0.25 ", 250),
            ("1d", 86_400_000),
            ("1h 30m", 5_400_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn malformed_duration_is_refused() {
        for text in ["", " ", ".", "s", "-1s", "1e9", "inf", "NaN", "ten", "1.2.3s", "5M", "99999999999999999999d"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
