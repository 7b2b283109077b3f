//! How long this client's own certificate and its trusted authorities are valid. This module parses
//! these certificates, because rustls verifies only certificates of servers.

use std::time::{SystemTime, UNIX_EPOCH};

use super::target::Target;

const DAY: i64 = 24 * 3_600;
const CONTEXT_0: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// For how many whole days certificates are valid; negative if they have expired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CertificateExpiry {
    pub(crate) client: Option<i64>,
    /// The days until the first of the configured authorities expires, and until the last one
    /// expires.
    pub(crate) authorities: Option<(i64, i64)>,
}

impl CertificateExpiry {
    /// For how many days the certificates in a target's TLS options are valid. Reads files.
    pub(crate) fn of(target: &Target) -> Self {
        if !target.speaks_tls() {
            return Self::default();
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let left = |der: &[u8]| Some((ends(der)? - i64::try_from(now).ok()?).div_euclid(DAY));
        let client = target.tls.identity().ok().flatten().and_then(|(chain, _)| left(chain.first()?));
        let authorities = target.tls.authorities().unwrap_or_default();
        let ends = || authorities.iter().filter_map(|der| left(der));
        Self { client, authorities: ends().min().zip(ends().max()) }
    }
}

/// When a certificate expires, in seconds since 1970, from its DER (RFC 5280, 4.1).
fn ends(der: &[u8]) -> Option<i64> {
    let (_, certificate, _) = element(der)?;
    let (_, signed, _) = element(certificate)?;
    let (tag, _, rest) = element(signed)?;
    let mut fields = if tag == CONTEXT_0 { rest } else { signed };
    // Skip the serial number, the signature and the issuer.
    for _ in 0..3 {
        (_, _, fields) = element(fields)?;
    }
    let (_, validity, _) = element(fields)?;
    let (_, _, rest) = element(validity)?;
    let (tag, text, _) = element(rest)?;
    seconds(tag, std::str::from_utf8(text).ok()?)
}

/// The first DER element: its tag, its content, and the bytes after the element.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk()?;
    let (length, rest) = match first {
        short @ ..0x80 => (usize::from(short), rest),
        long => {
            let (digits, rest) = rest.split_at_checked(usize::from(long & 0x7f).min(4))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// Parses `YYMMDDHHMMSSZ`, or the same with a year of four digits.
fn seconds(tag: u8, text: &str) -> Option<i64> {
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: i64 = year.parse().ok()?;
            (if year < 50 { 2_000 + year } else { 1_900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    let number = |at: usize| rest.get(at..at + 2)?.parse::<i64>().ok();
    let (month, day, hour, minute, second) = (number(0)?, number(2)?, number(4)?, number(6)?, number(8)?);
    Some(days(year, month, day) * DAY + (hour * 60 + minute) * 60 + second)
}

/// Days since 1970-01-01. Here a year begins in March, so that a leap day is its last day.
/// <https://howardhinnant.github.io/date_algorithms.html#days_from_civil>
const fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_both_forms() {
        assert_eq!(seconds(UTC_TIME, "700101000000Z"), Some(0));
        assert_eq!(seconds(UTC_TIME, "240229235959Z"), Some(1_709_251_199));
        assert_eq!(seconds(GENERALIZED_TIME, "20500301000000Z"), Some(2_529_705_600));
        assert_eq!((seconds(UTC_TIME, "24"), seconds(2, "240229235959Z")), (None, None));
    }

    #[test]
    fn the_end_of_a_certificate_is_found() {
        let part = |tag: u8, content: &[u8]| [&[tag, u8::try_from(content.len()).unwrap()], content].concat();
        let (empty, until) = (part(0x30, &[]), part(UTC_TIME, b"240229235959Z"));
        let validity = part(0x30, &[until.clone(), until].concat());
        let fields = [part(2, &[1]), empty.clone(), empty, validity].concat();
        let certificate = |version: &[u8]| part(0x30, &part(0x30, &[version, &fields].concat()));
        for whole in [certificate(&[]), certificate(&part(CONTEXT_0, &[2, 1, 2]))] {
            assert_eq!(ends(&whole), Some(1_709_251_199));
            assert!((0..whole.len()).all(|cut| ends(&whole[..cut]).is_none()), "a truncated certificate is not read");
        }
    }
}
