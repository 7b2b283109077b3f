//! The configuration file (TOML). The file may have passwords, but they are safer in the
//! environment.

use std::path::{Path, PathBuf};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use quorumlock::{Config, NodeConfig};

use crate::addresses::Parts;
use crate::failure::Failure;
use crate::password::PasswordFile;

/// A longer file is not a configuration.
const LONGEST: u64 = 1 << 20;
/// How to write nodes in the file. Errors show this text.
pub(crate) const NODES: &str = "[[nodes]], and below it url = \"redis://host:port\"; once for each node";

/// A configuration file. This type has no `Debug`, because the file may contain passwords.
#[derive(Default)]
pub(crate) struct File {
    shown: String,
    folder: PathBuf,
    pub(crate) says: Config,
}

impl File {
    /// Reads a file. Errors name the file as `shown`.
    pub(crate) fn read(path: &Path, shown: String) -> Result<Self, Failure> {
        let wrong = |what: String| Failure::usage(format!("{shown}: {what}"));
        let length = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
        if length > LONGEST {
            return Err(wrong("too long for a configuration file".to_owned()));
        }
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let says = parse(&text).map_err(wrong)?;
        let folder = path.parent().map(Path::to_owned).unwrap_or_default();
        Ok(Self { shown, folder, says })
    }

    pub(crate) const fn has_nodes(&self) -> bool {
        !self.says.nodes.is_empty()
    }

    /// The nodes' addresses with their passwords. Only this function reads the environment
    /// variables that `password_env` names. If the nodes come from `--nodes` or from a variable,
    /// nobody calls this function, so these variables may be unset. With `later`, an address may
    /// have a user without a password, because the caller adds the password later.
    pub(crate) fn addresses(&self, later: bool) -> Result<Vec<String>, Failure> {
        let variable = |name: &str| std::env::var(name).ok();
        addresses(&self.says.nodes, variable, later).map_err(|why| Failure::usage(format!("{}: {why}", self.shown)))
    }

    /// Resolves a path that this file names. A relative path begins at the file's folder.
    pub(crate) fn beside(&self, path: Option<&PathBuf>) -> Option<PathBuf> {
        path.map(|path| self.folder.join(path))
    }

    /// The password file that this configuration names.
    pub(crate) fn password_file(&self) -> Option<PasswordFile> {
        let by = || format!("{}: password_file", self.shown);
        self.says.password_file.as_ref().map(|path| PasswordFile::new(by(), path, &self.folder))
    }
}

fn addresses(
    nodes: &[NodeConfig],
    variable: impl Fn(&str) -> Option<String>,
    later: bool,
) -> Result<Vec<String>, String> {
    let address = |(node, number): (&NodeConfig, u32)| {
        let joined = parts(node).joined(&variable, later).map_err(|why| format!("node {number}: {why}"));
        named(joined?, node.name.as_deref()).map_err(|why| format!("node {number}: {why}"))
    };
    nodes.iter().zip(1..).map(address).collect()
}

/// Adds the node's name to its address.
fn named(address: String, name: Option<&str>) -> Result<String, String> {
    let Some(name) = name else { return Ok(address) };
    let query = address.split_once('?').map(|(_, query)| query);
    if query.is_some_and(|query| query.split('&').any(|part| part.starts_with("name="))) {
        return Err("its url has a name, and the field `name` has another; remove one of the two".to_owned());
    }
    let joint = if query.is_some() { '&' } else { '?' };
    Ok(format!("{address}{joint}name={}", utf8_percent_encode(name, NON_ALPHANUMERIC)))
}

fn parts(node: &NodeConfig) -> Parts<'_> {
    let NodeConfig { url, user, password, password_env, .. } = node;
    Parts { url, user: user.as_deref(), password: password.as_deref(), password_env: password_env.as_deref() }
}

fn parse(text: &str) -> Result<Config, String> {
    toml::from_str(text).map_err(|error| shown(text, &error))
}

/// The error with its line number, but without the text of the line, which may be a password.
fn shown(text: &str, error: &toml::de::Error) -> String {
    let line = error
        .span()
        .map(|span| text.as_bytes()[..span.start.min(text.len())].iter().filter(|&&byte| byte == b'\n').count() + 1);
    let message = without_values(error.message());
    line.map_or_else(|| message.clone(), |line| format!("line {line}: {message}"))
}

/// Removes values of the file from the message, because they may be passwords. If a value is
/// invalid or has the wrong type, the message only says how to write the value.
fn without_values(message: &str) -> String {
    let typed = ["invalid type: ", "invalid value: "].iter().any(|wrong| message.starts_with(wrong));
    match message.split_once(", expected ").filter(|_| typed) {
        Some((_, right)) if right == "a sequence" || right.starts_with("a node ") => format!("write {NODES}"),
        Some((_, right)) => format!("write {right}"),
        None => without_quotes(message),
    }
}

/// Removes text in double quotes: such text is a value from the file.
fn without_quotes(message: &str) -> String {
    match (message.find('"'), message.rfind('"')) {
        (Some(first), Some(last)) if first < last => format!("{}\"..\"{}", &message[..first], &message[last + 1..]),
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn nodes(text: &str) -> Result<Vec<String>, String> {
        addresses(&parse(text)?.nodes, |name| (name == "EU").then(|| "p@ss/w:rd".to_owned()), false)
    }

    fn refused(text: &str) -> String {
        nodes(text).err().unwrap()
    }

    #[test]
    fn a_file_tells_nodes_and_options() {
        let text =
            "ttl = \"10s\"\nkey_prefix = \"app:\"\n[[nodes]]\nurl = \"redis://eu\"\n[[nodes]]\nurl = \"redis://us\"\n";
        let file = parse(text).unwrap();
        assert_eq!(nodes(text).unwrap(), ["redis://eu", "redis://us"]);
        assert_eq!((file.ttl, file.key_prefix.as_deref()), (Some(Duration::from_secs(10)), Some("app:")));
    }

    #[test]
    fn passwords_come_from_the_environment_and_are_encoded() {
        let node = |more: &str| nodes(&format!("[[nodes]]\nurl = \"rediss://eu:6380/2\"\n{more}"));
        assert_eq!(node("password_env = \"EU\"").unwrap(), ["rediss://:p%40ss%2Fw%3Ard@eu:6380/2"]);
        assert_eq!(node("user = \"a b\"\npassword = \"c\"").unwrap(), ["rediss://a%20b:c@eu:6380/2"]);
        assert!(node("password_env = \"US\"").unwrap_err().contains("US (password_env) is not set"));
        assert!(node("user = \"a\"").unwrap_err().contains("without password"));
    }

    #[test]
    fn names_of_nodes_go_into_their_addresses() {
        let node = |url: &str| nodes(&format!("[[nodes]]\nname = \"eu-1\"\nurl = \"{url}\"\n")).unwrap();
        assert_eq!(node("redis://eu"), ["redis://eu?name=eu%2D1"]);
        assert_eq!(node("rediss://eu?ca=/ca.pem"), ["rediss://eu?ca=/ca.pem&name=eu%2D1"]);
        let twice = refused("[[nodes]]\nname = \"eu-1\"\nurl = \"redis://eu?db=1&name=eu-2\"\n");
        assert!(twice.contains("node 1: its url has a name, and the field `name` has another"), "{twice}");
    }

    #[test]
    fn mistakes_are_told_by_line_and_never_with_the_files_words() {
        assert!(refused("\n\nttll = \"10s\"").contains("line 3: unknown field `ttll`"));
        assert!(refused("ttl = \"ten\"").contains("not a duration"));
        for text in [
            "nodes = \"redis://:secret@eu\"",
            "ttl = \"secret\"",
            "[[nodes]]\nurl = \"redis://:secret@eu",
            "ttl = secret",
            "[[nodes]]\nurl = \"redis://eu\"\npassword = 1234secret",
        ] {
            let said = refused(text);
            assert!(!said.contains("secret"), "{said}");
        }
    }
    #[test]
    fn a_value_of_the_wrong_type_is_told_how_to_write_it() {
        let time = "line 1: write the time in quotes and with its unit, such as \"500ms\", \"30s\" or \"2m\"";
        for text in ["ttl = 30", "max_ttl = 1.5", "node_timeout = true"] {
            assert_eq!(refused(text), time);
        }
        for text in ["nodes = [\"redis://eu\"]", "nodes = \"redis://eu,redis://us\""] {
            assert_eq!(refused(text), format!("line 1: write {NODES}"));
        }
        assert_eq!(refused("key_prefix = 1"), "line 1: write a string");
        assert!(!refused("[[nodes]]\nurl = \"redis://eu\"\npassword = 123456").contains("123456"));
    }
}
