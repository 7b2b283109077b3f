//! The command lines of `examples/kubernetes` and `examples/systemd` do what their comments say.

use std::path::Path;

use super::{over, tried};
use crate::common::servers;

fn example(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(path)).unwrap()
}

/// The words of the CronJob's command. Each word is a line of the file.
fn cron_job() -> Vec<String> {
    let manifest = example("kubernetes/cronjob.yaml");
    let command = manifest.lines().map(str::trim).skip_while(|line| *line != "command:").skip(1);
    command.map_while(|line| line.strip_prefix("- ")).map(str::to_owned).collect()
}

/// The words of the service's command. Some words are in quotation marks.
fn service() -> Vec<String> {
    let unit = example("systemd/quorumlock-job.service");
    let command = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let words = |(index, part): (usize, &str)| match index % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    };
    command.split('"').enumerate().flat_map(words).collect()
}

#[tokio::test]
async fn job_on_two_hosts_runs_once_and_both_succeed() {
    for words in [cron_job(), service()] {
        let servers = servers(3).await;
        let [command, arguments @ .., _job] = &words[..] else { panic!("{words:?}") };
        assert!(command.ends_with("quorumlock"), "{words:?}");
        let host = |job: &str| tried(over(&servers).args(arguments).arg(job));
        let (code, _, err) = host("true");
        assert_eq!(code, 0, "{words:?}: {err}");
        // The second host must not run its job: `false` would fail.
        let (code, _, err) = host("false");
        assert_eq!(code, 0, "{words:?}: {err}");
    }
}

#[tokio::test]
async fn a_host_that_fails_lets_another_try() {
    for words in [cron_job(), service()] {
        let servers = servers(3).await;
        let arguments = &words[1..words.len() - 1];
        for _ in 0..2 {
            let (code, _, err) = tried(over(&servers).args(arguments).arg("false"));
            assert_eq!(code, 1, "{words:?}: {err}");
        }
    }
}
