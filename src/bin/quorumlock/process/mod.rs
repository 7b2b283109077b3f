//! Starts programs that (on Linux) do not outlive this process, sends them signals, and waits for
//! them.

mod orphans;
mod process_set;
mod process_tree;
mod program;
mod signals;
mod suspension;
mod terminal;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use rustix::process::Signal;
use tracing::level_filters::LevelFilter;

use crate::output::{self, Format};
pub(crate) use program::Program;
pub(crate) use signals::{Signals, asks_for_end, ends};

/// With this first argument, this executable becomes another program: see [`tied`].
const TIED: &str = "__tied";
/// As [`TIED`], for an executable that must write errors as JSON.
const TIED_JSON: &str = "__tied-json";

/// A command for `program`. On Linux, the kernel kills the program when this process ends, even if
/// SIGKILL ends this process. Other systems start the program directly.
///
/// The kernel kills the program as soon as the *thread* that started it ends, so start it from the
/// main thread. A process can request this SIGKILL only for itself. So the command first runs this
/// executable, which requests SIGKILL and then becomes the program: see [`become_tied`].
pub(crate) fn tied(program: &OsStr) -> io::Result<Command> {
    if !cfg!(target_os = "linux") {
        return Ok(Command::new(program));
    }
    let mut command = this_executable()?;
    command.arg(if output::is_json() { TIED_JSON } else { TIED }).arg(std::process::id().to_string()).arg(program);
    Ok(command)
}

/// A command for this executable. On Linux, the command starts this version even if the file was
/// upgraded since this process started.
pub(crate) fn this_executable() -> io::Result<Command> {
    if !cfg!(target_os = "linux") {
        return Ok(Command::new(std::env::current_exe()?));
    }
    let mut command = Command::new("/proc/self/exe");
    command.arg0("quorumlock");
    Ok(command)
}

/// Becomes the program if [`tied`] made the command of this process. Otherwise returns `None`. If
/// the program cannot be run, returns the exit code that a shell would return. If the parent
/// process has already ended, returns 137, as after SIGKILL.
pub(crate) fn become_tied(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let tied = arguments.nth(1)?;
    let format = [(TIED, Format::Text), (TIED_JSON, Format::Json)].into_iter().find(|(name, _)| tied == *name)?.1;
    let parent = arguments.next()?.into_string().ok()?;
    let program = arguments.next()?;
    if !tie_to(&parent) {
        return Some(ExitCode::from(137));
    }
    let error = Command::new(&program).args(arguments).exec();
    output::log(format, false, LevelFilter::ERROR);
    let not_found = error.kind() == io::ErrorKind::NotFound;
    let interpreter = if not_found { missing_interpreter(&program) } else { None };
    let which = interpreter.map(|missing| format!("its interpreter {missing}: ")).unwrap_or_default();
    output::failed(&format!("cannot run {}: {which}{error}", program.display()));
    Some(ExitCode::from(if not_found { 127 } else { 126 }))
}

/// The interpreter in a script's first line, if this interpreter is missing. (The kernel reports
/// the script itself as missing.)
fn missing_interpreter(program: &OsStr) -> Option<String> {
    let script = if program.as_bytes().contains(&b'/') { PathBuf::from(program) } else { find(program)? };
    let mut line = [0; 256];
    let length = File::open(script).ok()?.read(&mut line).ok()?;
    let line = String::from_utf8_lossy(line[..length].strip_prefix(b"#!")?).into_owned();
    let interpreter = line.lines().next()?.split_whitespace().next()?;
    (!Path::new(interpreter).exists()).then(|| interpreter.to_owned())
}

/// Asks the kernel for SIGKILL when the parent ends. False if the kernel refuses this, or if the
/// parent has already ended.
#[cfg(target_os = "linux")]
fn tie_to(parent: &str) -> bool {
    let asked = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let alive = rustix::process::getppid().is_some_and(|pid| pid.as_raw_nonzero().to_string() == parent);
    asked.is_ok() && alive
}

#[cfg(not(target_os = "linux"))]
fn tie_to(_: &str) -> bool {
    true
}

/// The first file of this name in the folders of `PATH`.
pub(crate) fn find(program: impl AsRef<Path>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(&program)).find(|file| file.is_file())
}

/// The exit code for a program's end: its own code, or 128 plus the number of the signal.
pub(crate) fn code(status: ExitStatus) -> ExitCode {
    let number = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(255);
    ExitCode::from(u8::try_from(number).unwrap_or(255))
}

/// The exit code of a program that a signal ended.
pub(crate) fn ended_by(signal: Signal) -> ExitCode {
    ExitCode::from(u8::try_from(128 + signal.as_raw()).unwrap_or(255))
}
