//! Error texts for failed connections, for all transports. They are made from the debug text of I/O
//! errors, because fred keeps only this text.

/// The error text if a connection's task or transport panicked.
pub(super) const PANICKED: &str = "its connection panicked, which is a bug; please report it";
/// The advice if a connection without TLS ends at once.
pub(super) const TO_TLS: &str = "; if this port expects TLS, write rediss://";
/// The error text if replies cannot be parsed.
pub(super) const STRANGER: &str =
    "the program at this address does not speak the Redis protocol; is it a Redis or Valkey server?";

/// The message of an I/O error, from its debug text.
pub(super) fn plain(debug: &str) -> String {
    let forms = [("Os {", "message: "), ("Error {", "message: "), ("Custom {", "error: ")];
    let form = forms.into_iter().find(|(form, _)| debug.starts_with(form));
    let message = form.and_then(|(_, field)| debug.split_once(field));
    let Some((_, message)) = message else { return kind(debug).unwrap_or_else(|| debug.to_owned()) };
    let message = message.trim_end_matches([' ', '}']);
    match message.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(text) => text.replace("\\\"", "\"").replace("\\\\", "\\"),
        None => words(message),
    }
}

/// The text of an I/O error that has only a kind, such as `Kind(NotFound)`.
fn kind(debug: &str) -> Option<String> {
    Some(words(debug.strip_prefix("Kind(")?.strip_suffix(')')?))
}

/// Turns `InvalidMessage(InvalidContentType)` into "invalid message: invalid content type". Leaves
/// out the fields of structs.
pub(super) fn words(debug: &str) -> String {
    let names = debug.split(" {").next().unwrap_or_default().split(['(', ')', '}', ' ']);
    names.filter(|name| !["", "Other", "OtherError"].contains(name)).map(spaced).collect::<Vec<_>>().join(": ")
}

fn spaced(name: &str) -> String {
    let before = [' '].into_iter().chain(name.chars());
    let spaced = before.zip(name.chars()).flat_map(|(before, letter)| {
        let space = (letter.is_uppercase() && before.is_lowercase()).then_some(' ');
        space.into_iter().chain(letter.to_lowercase())
    });
    spaced.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_io_error_is_told_by_its_message() {
        for (debug, message) in [
            ("Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }", "Connection refused"),
            ("Custom { kind: Uncategorized, error: \"failed to look up: unknown\" }", "failed to look up: unknown"),
            ("Custom { kind: InvalidData, error: AlertReceived(NoSuchThing) }", "alert received: no such thing"),
            ("Custom { kind: InvalidData, error: AlertReceived(UnknownCA) }", "alert received: unknown ca"),
            ("Error { kind: InvalidInput, message: \"a \\\"b\\\"\" }", "a \"b\""),
            ("Kind(NotFound)", "not found"),
            ("other", "other"),
        ] {
            assert_eq!(plain(debug), message);
        }
    }

    #[test]
    fn io_error_is_read_from_every_debug_form_of_std() {
        use std::io::{Error, ErrorKind};
        let refused = Error::from_raw_os_error(if cfg!(unix) { 2 } else { 10_061 });
        let shown = |error: Error| plain(&format!("{error:?}"));
        assert!(!shown(refused).contains(['{', '"']));
        assert_eq!(shown(Error::other("what it is")), "what it is");
        assert_eq!(shown(Error::from(ErrorKind::UnexpectedEof)), "unexpected eof");
        #[cfg(feature = "__tls")]
        {
            let unfinished = Error::new(ErrorKind::InvalidData, rustls::Error::HandshakeNotComplete);
            assert_eq!(shown(unfinished), "handshake not complete");
        }
    }
}
