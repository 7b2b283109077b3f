//! A file that the command writes at its end, and replaces as a whole: no reader sees half of it.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

pub(crate) struct WholeFile {
    path: PathBuf,
    folder: PathBuf,
}

impl WholeFile {
    /// Checks that a file can be made in the file's folder.
    pub(crate) fn check(path: &Path) -> Result<Self, String> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let cannot = |error| format!("cannot make a file in the folder {}: {error}", folder.display());
        tempfile::tempfile_in(folder).map_err(cannot)?;
        Ok(Self { path: path.to_owned(), folder: folder.to_owned() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the file.
    pub(crate) fn replace(&self, mode: u32, text: &str) -> io::Result<()> {
        self.written(mode, text)?.persist(&self.path)?;
        Ok(())
    }

    /// Makes the file. Fails if there is a file already.
    pub(crate) fn make(&self, mode: u32, text: &str) -> io::Result<()> {
        self.written(mode, text)?.persist_noclobber(&self.path)?;
        Ok(())
    }

    fn written(&self, mode: u32, text: &str) -> io::Result<NamedTempFile> {
        let mut file = tempfile::Builder::new().permissions(Permissions::from_mode(mode)).tempfile_in(&self.folder)?;
        file.write_all(text.as_bytes())?;
        // Over a network, a full disk may be reported only here.
        file.as_file().sync_all()?;
        Ok(file)
    }
}
