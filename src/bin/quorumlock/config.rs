//! The TOML file. Passwords may stand in it, and better come from the environment.

use std::path::Path;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Deserializer};

use crate::duration;
use crate::failure::Failure;

/// More than any such file needs; a file that is longer is not one.
const LONGEST: u64 = 1 << 20;

/// What the file says, passwords filled in.
#[derive(Default)]
pub(crate) struct File {
    pub(crate) nodes: Vec<String>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) max_ttl: Option<Duration>,
    pub(crate) key_prefix: Option<String>,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) node_timeout: Option<Duration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    nodes: Vec<Node>,
    #[serde(default, deserialize_with = "time")]
    ttl: Option<Duration>,
    #[serde(default, deserialize_with = "time")]
    max_ttl: Option<Duration>,
    key_prefix: Option<String>,
    #[serde(default, deserialize_with = "time")]
    connect_timeout: Option<Duration>,
    #[serde(default, deserialize_with = "time")]
    node_timeout: Option<Duration>,
}

/// One `[[nodes]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Node {
    url: String,
    user: Option<String>,
    password: Option<String>,
    /// The environment variable that holds the password.
    password_env: Option<String>,
}

impl File {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let wrong = |what: String| Failure::usage(format!("{shown}: {what}"));
        let length = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
        if length > LONGEST {
            return Err(wrong("too long for a configuration file".to_owned()));
        }
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        Self::parse(&text, |name| std::env::var(name).ok()).map_err(wrong)
    }

    fn parse(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let written: Written = toml::from_str(text).map_err(|error| shown(text, &error))?;
        let nodes = written.nodes.into_iter().enumerate();
        let nodes =
            nodes.map(|(index, node)| node.address(&variable).map_err(|why| format!("node {}: {why}", index + 1)));
        Ok(Self {
            nodes: nodes.collect::<Result<_, _>>()?,
            ttl: written.ttl,
            max_ttl: written.max_ttl,
            key_prefix: written.key_prefix,
            connect_timeout: written.connect_timeout,
            node_timeout: written.node_timeout,
        })
    }
}

impl Node {
    /// The address with user and password in it, percent-encoded.
    fn address(self, variable: impl Fn(&str) -> Option<String>) -> Result<String, String> {
        let password = match (self.password, self.password_env) {
            (Some(_), Some(_)) => return Err("give password or password_env, not both".to_owned()),
            (None, Some(name)) => Some(
                variable(&name).ok_or_else(|| format!("the environment variable {name} (password_env) is not set"))?,
            ),
            (password, None) => password,
        };
        let Some(password) = password else {
            return match self.user {
                Some(_) => Err("user without password; add password_env".to_owned()),
                None => Ok(self.url),
            };
        };
        let Some((scheme, rest)) = self.url.split_once("://") else {
            return Err("its url has no scheme; write redis://host:port".to_owned());
        };
        if rest.split('/').next().is_some_and(|authority| authority.contains('@')) {
            return Err("its url has a user or password already; give them once".to_owned());
        }
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let user = self.user.as_deref().map(encoded).unwrap_or_default();
        Ok(format!("{scheme}://{user}:{}@{rest}", encoded(&password)))
    }
}

/// The error with its line's number, but without what the line says, since that may be a password.
fn shown(text: &str, error: &toml::de::Error) -> String {
    let line = error
        .span()
        .map(|span| text.as_bytes()[..span.start.min(text.len())].iter().filter(|&&byte| byte == b'\n').count() + 1);
    let message = without_quotes(error.message());
    line.map_or_else(|| message.clone(), |line| format!("line {line}: {message}"))
}

/// Cuts what stands in double quotes: values from the file.
fn without_quotes(message: &str) -> String {
    match (message.find('"'), message.rfind('"')) {
        (Some(first), Some(last)) if first < last => format!("{}\"..\"{}", &message[..first], &message[last + 1..]),
        _ => message.to_owned(),
    }
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    duration::parse(&text).map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<File, String> {
        File::parse(text, |name| (name == "EU").then(|| "p@ss/w:rd".to_owned()))
    }

    fn refused(text: &str) -> String {
        parse(text).err().unwrap()
    }

    #[test]
    fn a_file_tells_nodes_and_options() {
        let file = parse(
            "ttl = \"10s\"\nkey_prefix = \"app:\"\n[[nodes]]\nurl = \"redis://eu\"\n[[nodes]]\nurl = \"redis://us\"\n",
        )
        .unwrap();
        assert_eq!(file.nodes, ["redis://eu", "redis://us"]);
        assert_eq!((file.ttl, file.key_prefix.as_deref()), (Some(Duration::from_secs(10)), Some("app:")));
    }

    #[test]
    fn passwords_come_from_the_environment_and_are_encoded() {
        let node =
            |more: &str| parse(&format!("[[nodes]]\nurl = \"rediss://eu:6380/2\"\n{more}")).map(|file| file.nodes);
        assert_eq!(node("password_env = \"EU\"").unwrap(), ["rediss://:p%40ss%2Fw%3Ard@eu:6380/2"]);
        assert_eq!(node("user = \"a b\"\npassword = \"c\"").unwrap(), ["rediss://a%20b:c@eu:6380/2"]);
        assert!(node("password_env = \"US\"").unwrap_err().contains("US (password_env) is not set"));
        assert!(node("user = \"a\"").unwrap_err().contains("without password"));
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
        ] {
            let said = refused(text);
            assert!(!said.contains("secret"), "{said}");
        }
    }
}
