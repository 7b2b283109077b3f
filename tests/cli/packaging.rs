//! `quorumlock completions` and `quorumlock manpage`.

use std::io::Write;
use std::process::Stdio;

use super::{bare, done};
use crate::common::program::command;

/// Whether a shell can parse a script. `None` if this shell is not installed.
fn parsed_by(shell: &str, script: &str) -> Option<bool> {
    let mut shell = command(shell);
    let mut child = shell.arg("-n").stdin(Stdio::piped()).spawn().ok()?;
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    Some(child.wait().unwrap().success())
}

#[test]
fn completions_for_each_shell_contain_the_subcommands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, out, err) = done(bare().args(["completions", shell]));
        assert_eq!((code, err.as_str()), (0, ""), "{shell}");
        for word in ["sandbox", "members", "init", "once-per"] {
            assert!(out.contains(word), "{shell}: no {word}");
        }
        assert!(!out.contains("demo-worker"), "{shell}: that is no subcommand for people");
        assert_ne!(parsed_by(shell, &out), Some(false), "{shell} does not parse it");
    }
}

/// Asks bash itself which words it would complete.
#[test]
fn bash_completes_a_subcommand() {
    let (_, script, _) = done(bare().args(["completions", "bash"]));
    let ask =
        "COMP_WORDS=(quorumlock sand); COMP_CWORD=1; _quorumlock quorumlock sand quorumlock; echo \"${COMPREPLY[@]}\"";
    let (code, out, _) = done(command("bash").args(["-c", &format!("{script}\n{ask}")]).stdout(Stdio::piped()));
    assert_eq!((code, out.trim()), (0, "sandbox"));
}

#[test]
fn a_shell_that_is_unknown_is_refused() {
    let (code, _, err) = done(bare().args(["completions", "tcsh"]));
    assert!(code == 64 && err.contains("possible values: bash"), "{code}: {err}");
}

#[test]
fn manual_has_one_page_for_each_subcommand() {
    let (code, page, err) = done(bare().arg("manpage"));
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(page.contains(".TH quorumlock 1") && page.contains("QUORUMLOCK_NODES"), "{page}");
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(done(bare().args(["manpage", "--into"]).arg(folder.path())), (0, String::new(), String::new()));
    let page = |name: &str| std::fs::read_to_string(folder.path().join(name));
    assert!(page("quorumlock.1").is_ok());
    assert!(page("quorumlock-run.1").unwrap().contains("once"), "its options");
    assert!(page("quorumlock-init.1").is_ok());
    assert!(page("quorumlock-demo-worker.1").is_err(), "that is no subcommand for people");
    let (code, _, err) = done(bare().args(["manpage", "--into"]).arg(folder.path().join("nowhere")));
    assert!(code == 64 && err.contains("nowhere"), "{code}: {err}");
}
