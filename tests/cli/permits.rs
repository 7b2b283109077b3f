//! `quorumlock run --permits`.

use super::status::looked;
use super::{Background, IN_VAIN, done, over, tried, until, until_released};
use crate::common::server::Server;
use crate::common::servers;

/// `quorumlock run OPTIONS -- sh -c SCRIPT FOLDER`.
fn run(servers: &[Server], options: &[&str], script: &str, folder: &std::path::Path) -> std::process::Command {
    let mut command = over(servers);
    command.arg("run").args(options).args(["--", "sh", "-c", script]).arg(folder);
    command
}

#[tokio::test]
async fn commands_up_to_the_permits_run_together_and_no_more() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    // The two commands have different permit numbers.
    let script = "touch $0/$QUORUMLOCK_PERMIT; until [ -e $0/go ]; do sleep 0.01; done";
    let options = ["pool", "--permits", "2"];
    let both = [(), ()].map(|()| Background::start(&mut run(&servers, &options, script, folder.path())));
    until("both run", || ["0", "1"].iter().all(|number| folder.path().join(number).exists()));
    for more in [&["-n"][..], &["--timeout", IN_VAIN]] {
        let (code, _, err) = tried(&mut run(&servers, &[&options, more].concat(), "true", folder.path()));
        assert!(code == 75 && err.contains("1 of the 2 permits of \"pool\""), "{code}: {err}");
    }
    // This client uses another number of permits. Nodes do not know the number.
    let (code, _, err) = tried(&mut run(&servers, &["pool", "--permits", "1", "-n"], "true", folder.path()));
    assert!(code == 75 && err.contains("1 of the 1 permits of \"pool\""), "{code}: {err}");
    let (code, out, _) = looked(over(&servers).args(["status", "pool"]));
    let told = "2 permits are held of the semaphore pool; each is a name of its own:\npool/0 is held by";
    assert!(code == 0 && out.contains(told) && out.contains("\npool/1 is held by"), "{out}");
    let (_, out, _) = looked(over(&servers).args(["status", "pool", "--json"]));
    let seen: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(seen["held"], true, "{seen}");
    let names: Vec<_> = seen["permits_held"].as_array().unwrap().iter().map(|permit| &permit["name"]).collect();
    assert_eq!(names, ["pool/0", "pool/1"]);
    for yes in [&["--force"][..], &["--force", "--yes"], &["--force", "--now", "--yes"]] {
        let (code, out, err) = done(over(&servers).args(["release", "pool"]).args(yes));
        assert!(code == 64 && out.is_empty() && err.contains("\"pool/1\" is held by"), "{code}: {out}{err}");
        assert!(err.contains("`quorumlock release pool/0 --force`. Nothing was released"), "{err}");
    }
    let waits = Background::start(&mut run(&servers, &options, "echo $QUORUMLOCK_NAME", folder.path()));
    let gate = || done(over(&servers).args(["status", "pool"])).1;
    until("it waits", || gate().contains("pool is the gate of a semaphore, which "));
    let (code, out, err) = done(over(&servers).args(["release", "pool", "--force", "--yes"]));
    assert!(code == 64 && out.is_empty() && err.contains("Nothing was released"), "{code}: {out}{err}");
    std::fs::write(folder.path().join("go"), "").unwrap();
    for one in both {
        assert_eq!(one.done().0, 0);
    }
    let (code, out, err) = waits.done();
    assert_eq!((code, out.as_str()), (0, "pool\n"), "{err}");
    ["pool/0", "pool/1"].iter().for_each(|permit| until_released(&servers, permit));
    // The third node may get a release later than the others, or keep the hold until its end.
    until("nothing is held", || {
        let (_, out, _) = done(over(&servers).args(["status", "pool"]));
        out.contains("pool is free") && !out.contains("semaphore")
    });
    let (code, out, err) = done(over(&servers).args(["release", "pool", "--force"]));
    assert!(code == 0 && out.contains("\"pool\" is free"), "{code}: {out}{err}");
}

#[tokio::test]
async fn permits_option_refuses_sets_zero_shared_and_elections() {
    let (servers, folder) = (servers(1).await, tempfile::tempdir().unwrap());
    for (options, told) in [
        (&["a", "b", "--permits", "2"][..], "--permits takes one name"),
        (&["a", "--permits", "0"], "give it 1 to 1000"),
        (&["a", "--permits", "2", "--shared"], "cannot be used with"),
        (&["a", "--permits", "2", "--describe", "x"], "cannot be used with"),
    ] {
        let (code, _, err) = done(&mut run(&servers, options, "true", folder.path()));
        assert!(code == 64 && err.contains(told), "{code}: {err}");
    }
    let (code, _, err) = done(over(&servers).args(["elect", "a", "--permits", "2", "--", "true"]));
    assert!(code == 64 && err.contains("an election has no --permits"), "{code}: {err}");
}

#[tokio::test]
async fn a_command_without_a_permit_is_told_none() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = format!("{} run job -- sh -c 'echo ${{QUORUMLOCK_PERMIT-none}}'", env!("CARGO_BIN_EXE_quorumlock"));
    let (code, out, err) = done(&mut run(&servers, &["pool", "--permits", "3"], &script, folder.path()));
    assert_eq!((code, out.as_str()), (0, "none\n"), "{err}");
}
