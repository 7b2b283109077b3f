//! Configuration files.

use std::path::Path;

use quorumlock::Config;

/// A file either describes a quorum, or is refused with an error, without a connection to nodes.
pub(crate) fn any(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    built(toml::from_str(&text).ok());
    built(serde_json::from_str(&text).ok());
}

fn built(config: Option<Config>) {
    // A configuration may name files, which are read. Do not read files of this machine.
    let Some(config) = config.map(|config| config.relative_to(Path::new("/nowhere"))) else { return };
    let shown = format!("{config:?}");
    let secrets = config.nodes.iter().filter_map(|node| node.password.clone());
    let secrets: Vec<String> = secrets.filter(|secret| secret.len() > 12).collect();
    assert!(!secrets.iter().any(|secret| shown.contains(secret)), "{shown}");
    if let Err(error) = config.builder() {
        let said = error.to_string();
        assert!(!secrets.iter().any(|secret| said.contains(secret)), "{said}");
    }
}
