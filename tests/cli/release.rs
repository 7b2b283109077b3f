//! `quorumlock release --force`.

use std::io::Write;
use std::process::Stdio;

use super::{Background, done, line_of, over, run};
use crate::common::servers;

#[tokio::test]
async fn it_asks_and_no_means_no_and_yes_means_that_the_old_holder_learns_of_it() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = "echo $QUORUMLOCK_FENCING_TOKEN > $0/token; exec sleep 1000";
    let mut holder = Background::start(&mut run(&servers, "job", &["--ttl", "3s"], script, folder.path()));
    let token = line_of(&folder.path().join("token")).parse::<u64>().unwrap();
    let answered = |answer: &str| {
        let mut command = over(&servers);
        let mut asked = Background::start(command.args(["release", "job", "--force"]).stdin(Stdio::piped()));
        asked.child().stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
        asked.done()
    };
    for answer in ["", "\n", "n\n", "maybe\n"] {
        let (code, out, err) = answered(answer);
        assert_eq!((code, out.as_str()), (1, ""));
        assert!(err.contains("held by") && err.contains("[y/N]") && err.contains("nothing was released"), "{err}");
    }
    assert!(holder.child().try_wait().unwrap().is_none());
    let (code, out, err) = answered("y\n");
    assert!(code == 0 && out.contains("\"job\" revoked: it is free once its holder lets go, within"), "{out}{err}");
    let (code, _, err) = holder.done();
    assert!(code == 76 && err.contains("was lost"), "{code}: {err}");
    let fence = servers[0].fence("job");
    assert!(fence > token, "the old token is dead");
}

#[tokio::test]
async fn now_frees_the_name_under_its_holder_and_says_what_that_may_do() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = "echo $QUORUMLOCK_FENCING_TOKEN > $0/token; exec sleep 1000";
    let mut holder = Background::start(&mut run(&servers, "job", &["--ttl", "60s"], script, folder.path()));
    line_of(&folder.path().join("token"));
    let (code, out, err) = done(over(&servers).args(["release", "job", "--force", "--now", "--yes"]));
    assert!(code == 0 && out.contains("\"job\" released"), "{out}{err}");
    assert!(err.contains("two may hold the lock"), "{err}");
    assert_eq!(servers[0].holder("job"), None);
    holder.child().kill().unwrap();
    let (code, _, err) = done(over(&servers).args(["release", "job", "--now"]));
    assert!(code == 64 && err.contains("--force"), "{err}");
}

#[tokio::test]
async fn with_yes_it_asks_nothing_and_a_free_name_is_told_as_such() {
    let servers = servers(3).await;
    let (code, out, _) = done(over(&servers).args(["release", "job", "--force", "--yes", "--json"]));
    let told: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &told["was_held"], &told["name"]), (0, &false.into(), &"job".into()));
    assert!(told["fence"].as_u64().unwrap() > 0 && told["free_within_ms"].is_null());
}

#[tokio::test]
async fn without_a_quorum_nothing_is_claimed_to_be_released() {
    let mut servers = servers(3).await;
    servers[0].kill();
    servers[1].kill();
    let (code, out, err) =
        done(over(&servers).args(["release", "job", "--force", "--yes", "--connect-timeout", "300ms"]));
    assert_eq!((code, out.as_str()), (69, ""));
    assert!(err.ends_with("\n  nothing was released\n"), "{err}");
}

#[tokio::test]
async fn where_too_few_nodes_vote_no_name_is_told_to_have_been_free() {
    let servers = servers(3).await;
    let quarantined = |options: &[&str]| {
        done(over(&servers).env("QUORUMLOCK_MAX_TTL", "1h").args(["release", "job", "--force", "--yes"]).args(options))
    };
    for options in [&[][..], &["--now"], &["--json"]] {
        let (code, out, err) = quarantined(options);
        assert!(code == 69 && out.is_empty(), "{out}{err}");
        assert!(err.contains("nobody can tell who holds \"job\"") && err.contains("name no holder"), "{err}");
    }
    servers[0].take("job", "somebody");
    let (code, _, err) = quarantined(&[]);
    assert!(code == 69 && err.contains("it was taken away from somebody"), "{err}");
}

#[tokio::test]
async fn a_name_that_is_free_is_told_to_be_and_nothing_is_asked() {
    let servers = servers(3).await;
    let (code, out, err) = done(over(&servers).args(["release", "job", "--force"]));
    assert!(code == 0 && out.contains("\"job\" is free"), "{out}{err}");
    assert!(!err.contains("[y/N]"), "nothing is asked: {err}");
    assert_eq!(servers[0].fence("job"), 0, "and nothing is changed");
}
