//! Feeds random outside data to the properties in tests/fuzz, by proptest. `scripts/fuzz` runs the
//! same properties with libFuzzer. `PROPTEST_CASES` sets the number of cases.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

#[path = "fuzz/properties/mod.rs"]
mod properties;

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, proptest};
use proptest::sample::select;
use proptest::strategy::Strategy;

/// Texts that look like addresses, with possible mistakes.
fn address() -> impl Strategy<Value = String> {
    let scheme = select(vec!["redis://", "rediss://", "redis+unix://", "http://", "redis:", ""]);
    let login = "([a-z%@:]{0,6}(:[a-z0-9%@/#?]{0,8})?@)?";
    let host = "([a-z.]{0,8}|\\[[0-9a-f:]{0,9}\\]|[0-9.]{0,12}|/run/[a-z%@]{0,8})";
    (scheme, login, host, "(:[0-9]{0,6})?", "(/[0-9a-z]{0,3})?", "(\\?[a-z_=&%/]{0,16})?")
        .prop_map(|(scheme, login, host, port, path, query)| format!("{scheme}{login}{host}{port}{path}{query}"))
}

fn file() -> impl Strategy<Value = String> {
    let key = select(vec![
        "nodes",
        "ttl",
        "timeout",
        "max_ttl",
        "list",
        "key_prefix",
        "key_format",
        "password_file",
        "tls_ca",
        "transport",
        "x",
    ]);
    let value = "(\"[0-9a-z.:{}/ ]{0,12}\"|[0-9.]{1,4}|\\[\\{ ?url = \"redis://[a-z]{0,3}\", password = \"[a-z]{13,16}\" ?\\}\\])";
    vec((key, value), 0..5).prop_map(|lines| lines.iter().map(|(key, value)| format!("{key} = {value}\n")).collect())
}

fn pushed() -> impl Strategy<Value = String> {
    "(look )?[0-9]{0,20} [0-9]{0,20}( [a-z/0-9.]{0,12} [0-9]{0,17} [0-9]{0,20} [0-9]{0,20} [a-z:{}]{0,12})?"
}

proptest! {
    #[test]
    fn an_address_is_refused_or_understood(text in address(), bytes in vec(any::<u8>(), 0..64)) {
        properties::url::any(text.as_bytes());
        properties::url::any(&bytes);
    }

    #[test]
    fn a_password_in_an_address_is_never_shown(before in "[a-z%:/?#]{0,6}", behind in "[a-z%@:/?#0-9.=&]{0,12}") {
        properties::url::secret(&before, &behind);
    }

    #[test]
    fn a_file_is_refused_or_understood(text in file(), bytes in vec(any::<u8>(), 0..64)) {
        properties::config::any(text.as_bytes());
        properties::config::any(&bytes);
    }

    #[test]
    fn a_push_is_no_vote_by_itself(text in pushed(), bytes in vec(any::<u8>(), 0..64)) {
        properties::hints::any(text.as_bytes());
        properties::hints::any(&bytes);
    }
}

/// Each case has a client and three nodes, so there are fewer cases, unless `PROPTEST_CASES` is
/// set.
fn fewer() -> ProptestConfig {
    let usual = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { usual.cases } else { 64 };
    ProptestConfig { cases, ..usual }
}

proptest! {
    #![proptest_config(fewer())]

    #[test]
    fn lock_is_held_only_if_granted_whatever_nodes_answer(bytes in vec(any::<u8>(), 0..600)) {
        properties::nodes::any(&bytes);
    }
}
