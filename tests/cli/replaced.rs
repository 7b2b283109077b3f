//! The executable is replaced while the command runs, as by an upgrade of its package.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{Background, bare_at, until, with_nodes};
use crate::common::servers;

/// A second name (a hard link) of the command's executable. Tests can replace the file at this
/// name.
struct Executable {
    folder: TempDir,
}

impl Executable {
    /// Makes a link and no copy: while another test starts a process, a new file may be busy.
    fn new() -> Self {
        let original = Path::new(env!("CARGO_BIN_EXE_quorumlock"));
        let executable = Self { folder: tempfile::tempdir_in(original.parent().unwrap()).unwrap() };
        std::fs::hard_link(original, executable.path()).unwrap();
        executable
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("quorumlock")
    }

    /// Replaces the executable by a file that is no program.
    fn replace(&self) {
        let other = self.folder.path().join("other");
        std::fs::write(&other, "another version").unwrap();
        std::fs::rename(other, self.path()).unwrap();
    }

    fn remove(&self) {
        std::fs::remove_file(self.path()).unwrap();
    }
}

#[tokio::test]
async fn waiters_start_their_command_after_an_upgrade() {
    let servers = servers(3).await;
    for (subcommand, upgrade) in [("run", Executable::replace as fn(&Executable)), ("elect", Executable::remove)] {
        let executable = Executable::new();
        servers.iter().for_each(|server| server.take("job", "somebody/else"));
        let mut waiter = with_nodes(bare_at(&executable.path()), &servers);
        waiter.args([subcommand, "job", "--timeout", "1h", "--", "echo", "mine"]);
        let waiter = Background::start(&mut waiter);
        until("it is connected", || servers[0].command(&["CLIENT", "LIST"]).contains("name=quorumlock"));
        upgrade(&executable);
        servers.iter().for_each(|server| assert!(server.forget("job")));
        let (code, out, err) = waiter.done();
        assert_eq!((code, out.as_str()), (0, "mine\n"), "{subcommand}: {err}");
    }
}

#[test]
fn demo_starts_its_workers_after_an_upgrade() {
    let executable = Executable::new();
    let mut demo = Background::start(bare_at(&executable.path()).args(["demo", "--seconds", "1", "--json"]));
    let mut said = BufReader::new(demo.child().stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("waiting until all nodes vote")));
    executable.remove();
    let said = std::thread::spawn(move || said.map_while(Result::ok).collect::<Vec<_>>().join("\n"));
    let (code, out, _) = demo.done();
    assert_eq!(code, 0, "{out}{}", said.join().unwrap());
}
