//! The settings for TLS. Each setting comes from its option, else from its environment variable,
//! else from the configuration file.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::cli::Nodes;
use crate::config::File;
use crate::failure::Failure;
use crate::tls;

const CA: &str = "QUORUMLOCK_TLS_CA";
const CERT: &str = "QUORUMLOCK_TLS_CERT";
const KEY: &str = "QUORUMLOCK_TLS_KEY";
const SERVER_NAME: &str = "QUORUMLOCK_TLS_SERVER_NAME";

/// Builds TLS options of the given type: `quorumlock::Tls`, or the command's own `tls::Tls`. These
/// are two types, because the library and the command compile the same source file separately.
macro_rules! said {
    ($type:ty, $this:expr) => {{
        let tls = $this.ca.iter().fold(<$type>::new(), |tls, path| tls.ca_file(path));
        let both = $this.cert.iter().zip(&$this.key);
        let tls = both.fold(tls, |tls, (cert, key)| tls.client_certificate(cert, key));
        $this.server_name.iter().fold(tls, |tls, name| tls.server_name(name))
    }};
}

/// The TLS settings: three files, and the name in the servers' certificates.
#[derive(Clone, Default)]
pub(crate) struct Encryption {
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    server_name: Option<String>,
}

impl Encryption {
    pub(crate) fn collect(given: &Nodes, file: &File) -> Result<Self, Failure> {
        let path = |option: &Option<PathBuf>, name, said: &Option<PathBuf>| {
            option.clone().or_else(|| variable(name).map(PathBuf::from)).or_else(|| file.beside(said.as_ref()))
        };
        let says = &file.says;
        let name = given.tls_server_name.clone();
        let all = Self {
            ca: path(&given.tls_ca, CA, &says.tls_ca),
            cert: path(&given.tls_cert, CERT, &says.tls_cert),
            key: path(&given.tls_key, KEY, &says.tls_key),
            server_name: name
                .or_else(|| variable(SERVER_NAME).map(|name| name.to_string_lossy().into_owned()))
                .or_else(|| says.tls_server_name.clone()),
        };
        match (&all.cert, &all.key) {
            (Some(_), None) | (None, Some(_)) => Err(Failure::usage(
                "--tls-cert and --tls-key (or QUORUMLOCK_TLS_CERT and QUORUMLOCK_TLS_KEY, or tls_cert and tls_key) go \
                 together; give both, or neither",
            )),
            _ => Ok(all),
        }
    }

    /// The environment variables that give another `quorumlock` process the same settings.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.to_string_lossy().into_owned());
        let said = [
            (CA, path(&self.ca)),
            (CERT, path(&self.cert)),
            (KEY, path(&self.key)),
            (SERVER_NAME, self.server_name.clone()),
        ];
        let needed = |(name, text): &(&str, Option<String>)| text.is_some() || env::var_os(name).is_some();
        said.into_iter().filter(needed).map(|(name, text)| (name, text.unwrap_or_default())).collect()
    }

    /// Options for the library.
    pub(crate) fn options(&self) -> quorumlock::Tls {
        said!(quorumlock::Tls, self)
    }

    /// Options for the command's own connections.
    pub(crate) fn own(&self) -> tls::Tls {
        said!(tls::Tls, self)
    }
}

fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|text| !text.is_empty())
}
