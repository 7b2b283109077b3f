//! One password, from a file, for all nodes whose addresses have none. Other users of a machine can
//! see arguments and variables, but not a protected file. The command uses the same functions.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// The longest file, in bytes. No password is that long: a longer file was named by mistake.
const LONGEST: usize = 4096;
/// The end of an error that does not show a relative path. By mistake, a user may have given the
/// password itself instead of a path.
const HIDDEN: &str = " (a relative path is not shown if there is no such file, since it may be the password itself; an \
     absolute path is shown)";
const RIGHT: &str = "name a file whose first line is the password";

/// A password file that a setting names.
pub(crate) struct PasswordFile {
    /// The option, variable or key that names the file.
    by: String,
    path: PathBuf,
    /// Whether the given path was absolute. An absolute path is surely no password, so errors may
    /// show it.
    is_path: bool,
}

impl PasswordFile {
    /// A relative path starts at `folder`.
    pub(crate) fn new(by: impl Into<String>, given: &Path, folder: &Path) -> Self {
        Self { by: by.into(), path: folder.join(given), is_path: given.is_absolute() }
    }

    pub(crate) fn by(&self) -> &str {
        &self.by
    }

    #[allow(dead_code, reason = "for the library")]
    pub(crate) fn read(&self) -> Result<Password, String> {
        self.line().map(|line| Password::new(&line))
    }

    /// Whether the file may soon be valid: it is missing, or it is a regular file that another
    /// program may be writing.
    #[allow(dead_code, reason = "for the command")]
    pub(crate) fn may_change(&self) -> bool {
        self.is_regular() || !self.path.exists()
    }

    /// Whether the file can be read more than once. A pipe cannot.
    pub(crate) fn is_regular(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|file| file.is_file())
    }

    #[allow(dead_code, reason = "used only by the command, which gives the path to the library")]
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The password, not encoded.
    pub(crate) fn line(&self) -> Result<String, String> {
        let read = self.bytes().map_err(|error| error.to_string());
        let line = read.and_then(|bytes| first_line(bytes).map_err(str::to_owned));
        line.map_err(|why| {
            let hidden = if self.is_told() { "" } else { HIDDEN };
            format!("{}: {why}{hidden}; {RIGHT}", self.shown())
        })
    }

    /// Whether errors may show the path: it exists, or is absolute.
    fn is_told(&self) -> bool {
        self.is_path || self.path.exists()
    }

    /// Reads the file without asking for its length, because a pipe has none.
    fn bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(&self.path)?.take(LONGEST as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn shown(&self) -> String {
        match self.is_told() {
            true => format!("{}: {}", self.by, self.path.display()),
            false => self.by.clone(),
        }
    }
}

fn first_line(bytes: Vec<u8>) -> Result<String, &'static str> {
    if bytes.len() > LONGEST {
        return Err("it is over 4 KiB");
    }
    if bytes.contains(&0) {
        return Err("it has a NUL byte");
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8")?;
    let line = text.split('\n').next().unwrap_or_default();
    match line.strip_suffix('\r').unwrap_or(line) {
        "" if text.is_empty() => Err("it is empty"),
        "" => Err("its first line is empty"),
        line => Ok(line.to_owned()),
    }
}

/// A password, percent-encoded as in addresses. Not `Debug`.
#[derive(Clone)]
pub(crate) struct Password(String);

impl Password {
    pub(crate) fn new(line: &str) -> Self {
        Self(utf8_percent_encode(line, NON_ALPHANUMERIC).to_string())
    }

    /// The address with this password. An invalid address, or one with a password, stays as it is.
    pub(crate) fn within(&self, address: &str) -> String {
        let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (credentials, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, given) = credentials.split_once(':').unwrap_or((credentials, ""));
        if !given.is_empty() {
            return address.to_owned();
        }
        format!("{scheme}://{user}:{}@{host}{path}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_is_the_first_line_without_its_end() {
        for (text, password) in [
            ("secret", "secret"),
            ("secret\n", "secret"),
            ("secret\r\nanother\n", "secret"),
            (" se cret \n\n", " se cret "),
            ("sécret\r\r\n", "sécret\r"),
        ] {
            assert_eq!(first_line(text.into()).as_deref(), Ok(password), "{text:?}");
        }
        assert_eq!(first_line("x".repeat(LONGEST).into()), Ok("x".repeat(LONGEST)));
    }

    #[test]
    fn malformed_password_is_refused_with_the_reason() {
        let long = "x".repeat(LONGEST + 1);
        for (bytes, why) in [
            (&b""[..], "it is empty"),
            (b"\nsecret", "its first line is empty"),
            (b"\r\n", "its first line is empty"),
            (b"sec\0ret", "it has a NUL byte"),
            (b"secret\n\0", "it has a NUL byte"),
            (b"secr\xe9t", "it is not UTF-8"),
            (long.as_bytes(), "it is over 4 KiB"),
        ] {
            assert_eq!(first_line(bytes.to_owned()), Err(why), "{bytes:?}");
        }
    }

    #[test]
    fn addresses_that_have_none_get_it() {
        let password = Password::new("p@ss/w:rd,");
        for (address, with) in [
            ("redis://eu", "redis://:p%40ss%2Fw%3Ard%2C@eu"),
            ("rediss://[::1]:6380/2", "rediss://:p%40ss%2Fw%3Ard%2C@[::1]:6380/2"),
            ("redis://user@eu", "redis://user:p%40ss%2Fw%3Ard%2C@eu"),
            ("redis://user:@eu", "redis://user:p%40ss%2Fw%3Ard%2C@eu"),
            ("redis+unix:///run/a@b", "redis+unix://:p%40ss%2Fw%3Ard%2C@/run/a@b"),
            ("redis://:own@eu", "redis://:own@eu"),
            ("rediss://user:own@eu:1/2", "rediss://user:own@eu:1/2"),
            ("redis+unix://:own@/run/s?db=1", "redis+unix://:own@/run/s?db=1"),
            ("eu", "eu"),
        ] {
            assert_eq!(password.within(address), with);
        }
    }
}
