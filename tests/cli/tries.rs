//! `quorumlock run` if votes are split, or if no quorum votes in time.

use std::path::Path;
use std::process::Command;

use super::regions::far;
use super::{Background, bare, done, over, until};
use crate::common::port::Port;
use crate::common::server::Server;
use crate::common::{new_servers, servers};

/// Starts `run OPTIONS` in the region of server `home`. The other servers are 40 ms away. The
/// command runs until the file `go` exists.
fn in_region(home: usize, servers: &[Server], ports: &[Port], options: &[&str], folder: &Path) -> Background {
    let far = |node: usize| format!("redis://127.0.0.1:{}", ports[node].number());
    let address = |node: usize| if node == home { servers[node].url() } else { far(node) };
    let list = (0..servers.len()).map(|node| format!("{}?name=n{node}", address(node))).collect::<Vec<_>>().join(",");
    let script = "echo ran >>$0/ran; until [ -e $0/go ]; do sleep 0.02; done";
    let mut command = bare();
    command.env("QUORUMLOCK_NODES", list).env("QUORUMLOCK_MAX_TTL", "0").args(["run", "job", "-n", "-E", "0"]);
    command.args(["--connect-timeout", "50s"]);
    Background::start(command.args(options).args(["--", "sh", "-c", script]).arg(folder))
}

fn ran(folder: &Path) -> usize {
    std::fs::read_to_string(folder.join("ran")).unwrap_or_default().lines().count()
}

#[tokio::test]
async fn runs_in_three_regions_get_one_lock_or_three_permits() {
    let servers = servers(3).await;
    let ports: Vec<_> = servers.iter().map(|_| Port::take()).collect();
    let _relay = far(&servers, &ports, "40ms");
    for (options, expected) in [(&[][..], 1), (&["--permits", "3"], 3)] {
        let folder = tempfile::tempdir().unwrap();
        let mut regions: Vec<_> =
            (0..3).map(|home| in_region(home, &servers, &ports, options, folder.path())).collect();
        until("all that cannot run have ended", || {
            let ended = |region: &mut Background| region.child().try_wait().unwrap().is_some();
            let ended = regions.iter_mut().map(ended).filter(|ended| *ended).count();
            ended + ran(folder.path()) >= 3
        });
        assert_eq!(ran(folder.path()), expected, "{options:?}");
        std::fs::write(folder.path().join("go"), "").unwrap();
        for region in regions {
            let (code, _, err) = region.done();
            assert_eq!(code, 0, "{err}");
        }
    }
}

#[tokio::test]
async fn a_run_that_ends_before_a_quorum_votes_fails_at_once() {
    let servers = new_servers(3).await;
    let quarantined = |words: &[&str]| -> Command {
        let mut command = over(&servers);
        command.env("QUORUMLOCK_MAX_TTL", "1h").args(words).args(["--timeout", "30min", "--", "true"]);
        command
    };
    for words in
        [&["run", "job"][..], &["run", "job", "--shared"], &["run", "job", "--permits", "2"], &["elect", "job"]]
    {
        let (code, _, err) = done(&mut quarantined(words));
        assert_eq!(code, 69, "{words:?}: {err}");
        // The machine may stall for minutes before the last command starts.
        let told = (55..=61).any(|minutes| err.contains(&format!("quarantined for {minutes} min")));
        assert!(told && err.contains("use a longer timeout"), "{err}");
        assert!(err.contains("`quorumlock init`"), "{err}");
    }
}
