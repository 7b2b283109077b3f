//! `quorumlock run --shared`.

use super::{Background, IN_VAIN, done, over, until};
use crate::common::server::Server;
use crate::common::servers;

/// `quorumlock run OPTIONS -- sh -c SCRIPT FOLDER`.
fn run(servers: &[Server], options: &[&str], script: &str, folder: &std::path::Path) -> std::process::Command {
    let mut command = over(servers);
    command.arg("run").args(options).args(["--", "sh", "-c", script]).arg(folder);
    command
}

#[tokio::test]
async fn commands_that_share_a_name_run_together_and_another_alone() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = "touch $0/$$; until [ -e $0/go ]; do sleep 0.01; done";
    let shared = || Background::start(&mut run(&servers, &["job", "--shared"], script, folder.path()));
    let readers = [shared(), shared()];
    until("both run", || folder.path().read_dir().unwrap().count() == 2);
    let (code, _, err) = done(&mut run(&servers, &["job", "--timeout", IN_VAIN], "true", folder.path()));
    assert_eq!(code, 75, "{err}");
    // Perhaps only one node stores both readers, and `status` ended before this node answered.
    until("two readers are told", || {
        let (code, out, _) = done(over(&servers).args(["status", "job"]));
        code == 0 && out.contains("2 readers")
    });
    std::fs::write(folder.path().join("go"), "").unwrap();
    for reader in readers {
        assert_eq!(reader.done().0, 0);
    }
    std::fs::remove_file(folder.path().join("go")).unwrap();
    let writer = Background::start(&mut run(&servers, &["job"], script, folder.path()));
    until("it runs", || folder.path().read_dir().unwrap().count() == 3);
    let (code, _, err) = done(&mut run(&servers, &["job", "--shared", "--timeout", IN_VAIN], "true", folder.path()));
    assert_eq!(code, 75, "{err}");
    std::fs::write(folder.path().join("go"), "").unwrap();
    assert_eq!(writer.done().0, 0);
}

#[tokio::test]
async fn shared_option_refuses_several_names_and_a_description() {
    let (servers, folder) = (servers(1).await, tempfile::tempdir().unwrap());
    for (options, told) in [
        (&["a", "b", "--shared"][..], "--shared takes one name"),
        (&["a", "--shared", "--describe", "x"], "cannot be used with"),
    ] {
        let (code, _, err) = done(&mut run(&servers, options, "true", folder.path()));
        assert!(code == 64 && err.contains(told), "{code}: {err}");
    }
}
