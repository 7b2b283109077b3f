//! The settings for the nodes. Each setting comes from the first of these sources that has it:
//!
//! 1. the option of the command line,
//! 2. the file of `--config`,
//! 3. the setting's environment variable,
//! 4. the file of `QUORUMLOCK_CONFIG`,
//! 5. the library's default.
//!
//! For ttl, timeout, password file and TLS, the variable has precedence over both files. The
//! timeouts for nodes have no variable. docs/deploy.md lists all variables.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use quorumlock::{
    List, MAX_TTL as LONGEST_TTL, MIN_TTL as SHORTEST_TTL, PasswordFile as Rotated, Quorum, QuorumBuilder, Transport,
};

use crate::addresses::split;
use crate::cli::Nodes;
use crate::config::{self, File};
use crate::duration::{self, exact};
use crate::encryption::Encryption;
use crate::failure::Failure;
use crate::password::{Password, PasswordFile};

// The library and the command share this rule.
#[path = "../../node/redis/credential_charset.rs"]
mod credential_charset;

use credential_charset::fits;

/// The library's default of `max_ttl`.
pub(crate) const DEFAULT_MAX_TTL: Duration = Duration::from_secs(60);
pub(crate) const CONFIG: &str = "QUORUMLOCK_CONFIG";
pub(crate) const PASSWORD_FILE: &str = "QUORUMLOCK_PASSWORD_FILE";
pub(crate) const TTL: &str = "QUORUMLOCK_TTL";
pub(crate) const TIMEOUT: &str = "QUORUMLOCK_TIMEOUT";
pub(crate) const NODES: &str = "QUORUMLOCK_NODES";
pub(crate) const LIST: &str = "QUORUMLOCK_LIST";
pub(crate) const MAX_TTL: &str = "QUORUMLOCK_MAX_TTL";
pub(crate) const KEY_PREFIX: &str = "QUORUMLOCK_KEY_PREFIX";
pub(crate) const KEY_FORMAT: &str = "QUORUMLOCK_KEY_FORMAT";
pub(crate) const TRANSPORT: &str = "QUORUMLOCK_TRANSPORT";

/// The connection name of commands that acquire nothing. `quorumlock clients` leaves out
/// connections with this name.
pub(crate) const ONLOOKER: &str = "quorumlock-onlooker";
/// The library's default name of a list.
const DEFAULT_LIST: &str = "default";

/// The settings for a `Quorum`. This type has no `Debug`, because addresses may have passwords.
#[derive(Clone, Default)]
pub(crate) struct Settings {
    pub(crate) nodes: Vec<String>,
    /// The password for addresses without a password, as read when the command began.
    pub(crate) password: Option<Password>,
    /// The file with the password, if it can be read again for each connection.
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) encryption: Encryption,
    pub(crate) ttl: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) list: Option<String>,
    pub(crate) max_ttl: Option<Duration>,
    pub(crate) key_prefix: Option<String>,
    pub(crate) key_format: Option<String>,
    pub(crate) transport: Option<Transport>,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) node_timeout: Option<Duration>,
}

impl Settings {
    /// Collects all settings. The library checks the nodes.
    pub(crate) fn collect(given: &Nodes) -> Result<Self, Failure> {
        let (settings, secret) = Self::without_password(given)?;
        settings.with_password_of(secret.as_ref())
    }

    /// Collects all settings except the password. Also returns the password file, unread.
    pub(crate) fn without_password(given: &Nodes) -> Result<(Self, Option<PasswordFile>), Failure> {
        let origin = Origin::of(given);
        let file = origin.file()?;
        let says = &file.says;
        let listed = variable(NODES)?.map(|text| addresses(&text)).transpose()?.unwrap_or_default();
        let mut settings = Self {
            // times.rs reads the variables of ttl and timeout.
            ttl: says.ttl,
            timeout: says.timeout,
            // The arguments of `first`: the value of the option, of the file, and of the variable.
            list: origin.first(&given.list, &says.list, variable(LIST)?),
            max_ttl: origin.first(&given.max_ttl, &says.max_ttl, time(MAX_TTL)?),
            // Do not ignore an empty prefix: the library refuses it with an error.
            key_prefix: origin.first(&given.key_prefix, &says.key_prefix, text(KEY_PREFIX)?),
            key_format: origin.first(&None, &says.key_format, variable(KEY_FORMAT)?),
            transport: origin.first(&given.transport, &says.transport, transport()?),
            connect_timeout: given.connect_timeout.or(says.connect_timeout),
            node_timeout: given.node_timeout.or(says.node_timeout),
            ..Self::default()
        };
        let secret = password_file(given, &file);
        settings.nodes = match &given.nodes {
            Some(text) => addresses(text)?,
            None if file.has_nodes() && (listed.is_empty() || matches!(origin, Origin::Option(_))) => {
                file.addresses(secret.is_some())?
            }
            None => listed,
        };
        // Without nodes, the command fails, or starts its own servers, which have neither TLS nor a
        // password.
        if settings.nodes.is_empty() {
            return Ok((settings, None));
        }
        settings.encryption = Encryption::collect(given, &file)?;
        Ok((settings, secret))
    }

    /// Adds the password of the file `secret`. A regular file is read again for each connection. A
    /// pipe can be read only once, so later connections use the same password.
    pub(crate) fn with_password_of(self, secret: Option<&PasswordFile>) -> Result<Self, Failure> {
        let Some(secret) = secret else { return Ok(self) };
        let line = secret.line().map_err(Failure::usage)?;
        if self.transport.unwrap_or_default() == Transport::Fred {
            fits(&line).map_err(|why| Failure::usage(format!("{}: {why}", secret.by())))?;
        }
        let password_file = secret.is_regular().then(|| secret.path().to_owned());
        Ok(Self { password: Some(Password::new(&line)), password_file, ..self })
    }

    /// The nodes' addresses, with the password that was in the file when the command began.
    pub(crate) fn logged_in(&self) -> Vec<String> {
        let whole =
            |node: &String| self.password.as_ref().map_or_else(|| node.clone(), |password| password.within(node));
        self.nodes.iter().map(whole).collect()
    }

    /// As [`collect`](Self::collect), but fails if there are no nodes.
    pub(crate) fn with_nodes(given: &Nodes) -> Result<Self, Failure> {
        let settings = Self::collect(given)?;
        settings.need_nodes(given)?;
        Ok(settings)
    }

    pub(crate) fn need_nodes(&self, given: &Nodes) -> Result<(), Failure> {
        if !self.nodes.is_empty() {
            return Ok(());
        }
        Err(Failure::usage(match Origin::of(given).shown() {
            Some(file) => format!("{file}: it names no node; write {}", config::NODES),
            None => "no node is configured: use --nodes URL,URL,.. or --config FILE, or set QUORUMLOCK_NODES or \
                     QUORUMLOCK_CONFIG (for experiments: quorumlock sandbox -- sh)"
                .to_owned(),
        }))
    }

    pub(crate) fn builder(&self) -> Result<QuorumBuilder, Failure> {
        let file = self.password_file.as_deref().map(Rotated::new).transpose()?;
        let nodes = if file.is_some() { self.nodes.clone() } else { self.logged_in() };
        let builder =
            with(Quorum::builder().nodes(nodes).tls(self.encryption.options()), file, QuorumBuilder::credentials);
        let builder = with(builder, self.ttl, QuorumBuilder::ttl);
        let builder = with(builder, self.list.clone(), QuorumBuilder::list_name);
        let builder = with(builder, self.max_ttl, QuorumBuilder::max_ttl);
        let builder = with(builder, self.key_prefix.clone(), QuorumBuilder::key_prefix);
        let builder = with(builder, self.key_format.clone(), QuorumBuilder::key_format);
        let builder = with(builder, self.transport, QuorumBuilder::transport);
        let builder = with(builder, self.connect_timeout, QuorumBuilder::connect_timeout);
        Ok(with(builder, self.node_timeout, QuorumBuilder::node_timeout))
    }

    /// A builder for commands that acquire nothing. If no ttl is configured, the ttl becomes
    /// `max_ttl`: the default ttl might be longer than `max_ttl`, and the library would refuse
    /// this.
    pub(crate) fn onlooker(&self) -> Result<QuorumBuilder, Failure> {
        let longest = self.max_ttl.filter(|longest| !longest.is_zero());
        let builder = self.builder()?.onlooker().client_name(ONLOOKER);
        Ok(with(builder, self.ttl.or(longest), QuorumBuilder::ttl))
    }

    /// The list of the nodes with these names. The list's own name and its max_ttl come from these
    /// settings.
    pub(crate) fn own_list<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> List {
        List::new(self.list.as_deref().unwrap_or(DEFAULT_LIST), names, self.max_ttl.unwrap_or(DEFAULT_MAX_TTL))
    }

    /// The environment variables that give another `quorumlock` process the same nodes and options.
    /// (Arguments would show passwords to other users.) An empty variable counts as not set.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let nodes: Vec<_> = self.logged_in().iter().map(|node| node.replace(',', "%2C")).collect();
        let set = [
            (LIST, self.list.clone()),
            (MAX_TTL, self.max_ttl.map(|time| format!("{}ms", time.as_millis()))),
            (KEY_PREFIX, self.key_prefix.clone()),
            (KEY_FORMAT, self.key_format.clone()),
            (TRANSPORT, self.transport.map(|transport| transport.to_string())),
            (CONFIG, None),
            (PASSWORD_FILE, None),
        ];
        // The other process inherits the variables, so empty those that have no value here.
        let told = |name: &str| env::var_os(name).map(|_| String::new());
        let set = set.into_iter().filter_map(|(name, value)| Some((name, value.or_else(|| told(name))?)));
        std::iter::once((NODES, nodes.join(","))).chain(set).chain(self.encryption.variables()).collect()
    }
}

/// Where the path of the configuration file comes from.
enum Origin {
    Option(PathBuf),
    Variable(PathBuf),
    Nobody,
}

impl Origin {
    fn of(given: &Nodes) -> Self {
        match (&given.config, path(CONFIG)) {
            (Some(file), _) => Self::Option(file.clone()),
            (None, Some(file)) => Self::Variable(file),
            (None, None) => Self::Nobody,
        }
    }

    fn path(&self) -> Option<&Path> {
        match self {
            Self::Option(file) | Self::Variable(file) => Some(file),
            Self::Nobody => None,
        }
    }

    /// The file's name in errors. If QUORUMLOCK_CONFIG names the file, errors also show this
    /// variable, because the user may have forgotten it.
    fn shown(&self) -> Option<String> {
        match self {
            Self::Option(file) => Some(file.display().to_string()),
            Self::Variable(file) => Some(format!("{CONFIG}: {}", file.display())),
            Self::Nobody => None,
        }
    }

    fn file(&self) -> Result<File, Failure> {
        let named = self.path().zip(self.shown());
        Ok(named.map(|(path, shown)| File::read(path, shown)).transpose()?.unwrap_or_default())
    }

    /// The value of the first source that has one, in the order at the top of this file.
    fn first<T: Clone>(&self, option: &Option<T>, file: &Option<T>, variable: Option<T>) -> Option<T> {
        let file = file.clone();
        let others = if matches!(self, Self::Option(_)) { file.or(variable) } else { variable.or(file) };
        option.clone().or(others)
    }
}

fn with<T>(
    builder: QuorumBuilder,
    value: Option<T>,
    set: impl FnOnce(QuorumBuilder, T) -> QuorumBuilder,
) -> QuorumBuilder {
    match value {
        Some(value) => set(builder, value),
        None => builder,
    }
}

fn password_file(given: &Nodes, file: &File) -> Option<PasswordFile> {
    let here = |by, path: &Path| PasswordFile::new(by, path, Path::new(""));
    let option = given.password_file.as_deref().map(|path| here("--password-file", path));
    option.or_else(|| path(PASSWORD_FILE).map(|path| here(PASSWORD_FILE, &path))).or_else(|| file.password_file())
}

fn addresses(list: &str) -> Result<Vec<String>, Failure> {
    split(list).map_err(Failure::usage)
}

/// The ttl from the environment. Checks its bounds, so that the error has the variable's name.
pub(crate) fn ttl() -> Result<Option<Duration>, Failure> {
    let (least, most) = (exact(SHORTEST_TTL), exact(LONGEST_TTL));
    match time(TTL)? {
        Some(ttl) if !(SHORTEST_TTL..=LONGEST_TTL).contains(&ttl) => {
            Err(Failure::usage(format!("{TTL} is {}; use {least} to {most}", exact(ttl))))
        }
        ttl => Ok(ttl),
    }
}

pub(crate) fn time(name: &str) -> Result<Option<Duration>, Failure> {
    let time = variable(name)?.map(|text| duration::parse(&text));
    time.transpose().map_err(|why| Failure::usage(format!("{name}: {why}")))
}

fn transport() -> Result<Option<Transport>, Failure> {
    let transport = variable(TRANSPORT)?.map(|name| name.parse::<Transport>());
    transport.transpose().map_err(|error| Failure::usage(format!("{TRANSPORT}: {error}")))
}

/// Reads a path from a variable. A path need not be UTF-8.
fn path(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from)
}

fn variable(name: &str) -> Result<Option<String>, Failure> {
    Ok(text(name)?.filter(|text| !text.is_empty()))
}

fn text(name: &str) -> Result<Option<String>, Failure> {
    match env::var(name) {
        Ok(text) => Ok(Some(text)),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => Err(Failure::usage(format!("{name} is not UTF-8"))),
    }
}
