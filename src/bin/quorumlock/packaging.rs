//! `quorumlock completions` and `quorumlock manpage`: files that packages install.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::cli::{Cli, Completions, Manpage};
use crate::failure::{Failure, Outcome};

const NAME: &str = "quorumlock";

pub(crate) fn completions(args: &Completions) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut for_people(), NAME, &mut script);
    written(&script)
}

/// The command line without its hidden subcommands, because shells would offer these, too.
fn for_people() -> Command {
    let whole = Cli::command();
    let shown = whole.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).cloned();
    Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true)
        .args(whole.get_arguments().cloned())
        .subcommands(shown)
}

pub(crate) fn manpage(args: &Manpage) -> Outcome {
    match &args.into {
        Some(folder) => all_into(folder),
        None => {
            let mut page = Vec::new();
            Man::new(Cli::command()).render(&mut page)?;
            written(&page)
        }
    }
}

/// Writes a page for the command, and a page for each subcommand that is not hidden.
fn all_into(folder: &Path) -> Outcome {
    let failed = |error| Failure::usage(format!("cannot write manual pages into {}: {error}", folder.display()));
    clap_mangen::generate_to(Cli::command(), folder).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the text to standard output. Handles errors as other commands do.
fn written(text: &[u8]) -> Outcome {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
