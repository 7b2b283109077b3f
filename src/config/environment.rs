//! Settings from the environment: the variables of the `quorumlock` command.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::file::Config;
use super::{MAX_TTL, MIN_TTL};
use crate::error::{Error, Result};
use crate::node::redis::Transport;
use crate::words::{exact, parse};

const NODES: &str = "QUORUMLOCK_NODES";
const TTL: &str = "QUORUMLOCK_TTL";
const PASSWORD_FILE: &str = "QUORUMLOCK_PASSWORD_FILE";
const TRANSPORT: &str = "QUORUMLOCK_TRANSPORT";

impl Config {
    /// Reads settings from the environment. Unset and empty variables set nothing, but an empty
    /// `QUORUMLOCK_KEY_PREFIX` is an error.
    ///
    /// | variable | field |
    /// |---|---|
    /// | `QUORUMLOCK_NODES` | `nodes`: addresses, separated by commas |
    /// | `QUORUMLOCK_LIST` | `list` |
    /// | `QUORUMLOCK_PASSWORD_FILE` | `password_file` |
    /// | `QUORUMLOCK_TLS_CA`, `QUORUMLOCK_TLS_CERT`, `QUORUMLOCK_TLS_KEY`, `QUORUMLOCK_TLS_SERVER_NAME` | `tls_ca`, `tls_cert`, `tls_key`, `tls_server_name` |
    /// | `QUORUMLOCK_TTL`, `QUORUMLOCK_TIMEOUT`, `QUORUMLOCK_MAX_TTL` | `ttl`, `timeout`, `max_ttl`: `500ms`, `30s`, `1.5m`, `2h`; a bare number is seconds |
    /// | `QUORUMLOCK_KEY_PREFIX`, `QUORUMLOCK_KEY_FORMAT` | `key_prefix`, `key_format` |
    /// | `QUORUMLOCK_TRANSPORT` | `transport`: `fred` or `redis-rs` |
    ///
    /// The variables `QUORUMLOCK_TLS_..` need the feature `tls` or `tls-aws-lc`.
    ///
    /// The command reads the same variables, and also `QUORUMLOCK_CONFIG`, the path of the
    /// command's configuration file.
    ///
    /// # Errors
    /// `Config` for an invalid variable, which the message names.
    pub fn from_env() -> Result<Self> {
        Variables(|name: &str| std::env::var_os(name)).read()
    }
}

/// The function that looks variables up.
struct Variables<F>(F);

impl<F: Fn(&str) -> Option<OsString>> Variables<F> {
    fn read(&self) -> Result<Config> {
        let nodes = self.set(NODES)?.map(|list| Config::from_urls(&list)).transpose();
        Ok(Config {
            list: self.set("QUORUMLOCK_LIST")?,
            password_file: self.path(PASSWORD_FILE),
            password_by: Some(PASSWORD_FILE),
            tls_ca: self.path("QUORUMLOCK_TLS_CA"),
            tls_cert: self.path("QUORUMLOCK_TLS_CERT"),
            tls_key: self.path("QUORUMLOCK_TLS_KEY"),
            tls_server_name: self.set("QUORUMLOCK_TLS_SERVER_NAME")?,
            ttl: self.ttl()?,
            timeout: self.time("QUORUMLOCK_TIMEOUT")?,
            max_ttl: self.time("QUORUMLOCK_MAX_TTL")?,
            // `text` also returns an empty prefix, which `Settings::checked` refuses.
            key_prefix: self.text("QUORUMLOCK_KEY_PREFIX")?,
            key_format: self.set("QUORUMLOCK_KEY_FORMAT")?,
            transport: self.transport()?,
            ..nodes.map_err(|error| Error::config(format!("{NODES}: {error}")))?.unwrap_or_default()
        })
    }

    /// Reads and checks the ttl. `LockOptions::checked` would refuse the same values, but its error
    /// would not name the variable.
    fn ttl(&self) -> Result<Option<Duration>> {
        match self.time(TTL)? {
            Some(ttl) if !(MIN_TTL..=MAX_TTL).contains(&ttl) => {
                let (ttl, least, most) = (exact(ttl), exact(MIN_TTL), exact(MAX_TTL));
                Err(Error::config(format!("{TTL} is {ttl}; use {least} to {most}")))
            }
            ttl => Ok(ttl),
        }
    }

    fn transport(&self) -> Result<Option<Transport>> {
        let transport = self.set(TRANSPORT)?.map(|name| name.parse());
        transport.transpose().map_err(|error| Error::config(format!("{TRANSPORT}: {error}")))
    }

    fn time(&self, name: &str) -> Result<Option<Duration>> {
        let time = self.set(name)?.map(|text| parse(&text));
        time.transpose().map_err(|why| Error::config(format!("{name}: {why}")))
    }

    /// Reads a path, which need not be UTF-8.
    fn path(&self, name: &str) -> Option<PathBuf> {
        (self.0)(name).filter(|path| !path.is_empty()).map(PathBuf::from)
    }

    fn set(&self, name: &str) -> Result<Option<String>> {
        Ok(self.text(name)?.filter(|text| !text.is_empty()))
    }

    fn text(&self, name: &str) -> Result<Option<String>> {
        let text = (self.0)(name).map(OsString::into_string).transpose();
        text.map_err(|_| Error::config(format!("{name} is not UTF-8")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::redis::Tls;

    fn read(variables: &[(&str, &str)]) -> Result<Config> {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, text)| text.into());
        Variables(find).read()
    }

    #[test]
    fn environment_variables_set_the_configuration() {
        let config = read(&[
            ("QUORUMLOCK_NODES", "redis://eu, rediss://:a%2Cb@us:6380/2,"),
            ("QUORUMLOCK_LIST", "app"),
            ("QUORUMLOCK_TTL", "10s"),
            ("QUORUMLOCK_TIMEOUT", "1.5m"),
            ("QUORUMLOCK_MAX_TTL", "30"),
            ("QUORUMLOCK_KEY_PREFIX", "app:"),
            ("QUORUMLOCK_KEY_FORMAT", "acme/{name}"),
            ("QUORUMLOCK_TRANSPORT", "fred"),
            ("QUORUMLOCK_TLS_CA", "ca"),
            ("QUORUMLOCK_TLS_CERT", "cert"),
            ("QUORUMLOCK_TLS_KEY", "key"),
            ("QUORUMLOCK_TLS_SERVER_NAME", "name"),
        ])
        .unwrap();
        assert_eq!((config.transport, config.list.as_deref()), (Some(Transport::Fred), Some("app")));
        assert_eq!(config.addresses().unwrap().0, ["redis://eu", "rediss://:a%2Cb@us:6380/2"]);
        assert_eq!(config.tls(), Tls::new().ca_file("ca").client_certificate("cert", "key").server_name("name"));
        let times = [config.ttl, config.timeout, config.max_ttl].map(|time| time.map(|time| time.as_secs()));
        assert_eq!(times, [Some(10), Some(90), Some(30)]);
        assert_eq!((config.key_prefix.as_deref(), config.key_format.as_deref()), (Some("app:"), Some("acme/{name}")));
    }

    #[test]
    fn unset_or_empty_variable_sets_nothing_except_key_prefix() {
        let names = [
            "NODES",
            "LIST",
            "TTL",
            "TIMEOUT",
            "MAX_TTL",
            "KEY_FORMAT",
            "PASSWORD_FILE",
            "TRANSPORT",
            "TLS_CA",
            "TLS_CERT",
            "TLS_KEY",
            "TLS_SERVER_NAME",
        ];
        let empty = names.map(|name| (format!("QUORUMLOCK_{name}"), ""));
        let empty: Vec<_> = empty.iter().map(|(name, text)| (name.as_str(), *text)).collect();
        for config in [read(&[]).unwrap(), read(&empty).unwrap()] {
            assert!(config.addresses().unwrap().0.is_empty() && config.ttl.is_none() && config.key_format.is_none());
            assert!(config.timeout.is_none() && config.max_ttl.is_none() && config.key_prefix.is_none());
            assert!(config.transport.is_none() && config.list.is_none() && !config.tls().is_set());
        }
        assert_eq!(read(&[("QUORUMLOCK_KEY_PREFIX", "")]).unwrap().key_prefix.as_deref(), Some(""));
    }

    #[test]
    fn invalid_variable_is_refused_by_name_without_its_value() {
        for (name, text, says) in [
            ("QUORUMLOCK_TTL", "secret", "QUORUMLOCK_TTL: not a duration"),
            ("QUORUMLOCK_TTL", "1ms", "QUORUMLOCK_TTL is 1 ms; use 100 ms to 24 h"),
            ("QUORUMLOCK_TIMEOUT", "secret", "QUORUMLOCK_TIMEOUT: not a duration"),
            ("QUORUMLOCK_MAX_TTL", "secret", "QUORUMLOCK_MAX_TTL: not a duration"),
            (
                "QUORUMLOCK_TRANSPORT",
                "secret",
                "QUORUMLOCK_TRANSPORT: no transport has that name; use fred or redis-rs",
            ),
            (
                "QUORUMLOCK_NODES",
                "redis://eu,secret",
                "QUORUMLOCK_NODES: node 2 of 2: a node's address lacks its scheme",
            ),
        ] {
            let said = read(&[(name, text)]).unwrap_err().to_string();
            assert!(said.contains(says) && !said.contains("secret"), "{said}");
        }
        let nowhere = read(&[("QUORUMLOCK_NODES", "redis://eu"), ("QUORUMLOCK_PASSWORD_FILE", "/nowhere/at/all")]);
        let said = nowhere.unwrap().addresses().unwrap_err().to_string();
        assert!(said.starts_with("QUORUMLOCK_PASSWORD_FILE: /nowhere/at/all: No such file"), "{said}");
    }

    #[cfg(unix)]
    #[test]
    fn a_variable_that_is_not_utf8_is_refused_but_as_a_path() {
        use std::os::unix::ffi::OsStringExt;
        let odd = |which: &'static str| {
            Variables(move |name: &str| (name == which).then(|| OsString::from_vec(b"/nowhere/\xff".to_vec()))).read()
        };
        let said = odd("QUORUMLOCK_KEY_PREFIX").unwrap_err().to_string();
        assert_eq!(said, "QUORUMLOCK_KEY_PREFIX is not UTF-8");
        assert!(odd("QUORUMLOCK_PASSWORD_FILE").is_ok());
    }
}
