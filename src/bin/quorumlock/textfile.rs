//! Writes metrics to a file, for node_exporter's textfile collector.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use metrics_exporter_prometheus::PrometheusHandle;

use crate::failure::Failure;
use crate::output;
use crate::whole_file::WholeFile;

/// Gauges whose value is still right when the process has ended.
const LASTING: [&str; 2] = ["quorumlock_build_info", "quorumlock_quorum_size"];

/// The path of a file that can be written, and the value of the label `run` for all its series.
pub(crate) struct Checked {
    file: WholeFile,
    run: String,
}

pub(crate) struct Textfile {
    file: Checked,
    metrics: PrometheusHandle,
}

impl Textfile {
    /// Checks that node_exporter reads files of this name, and that the file can be written.
    pub(crate) fn check(path: &Path) -> Result<Checked, Failure> {
        let option = format!("--metrics-textfile {}", path.display());
        let run = path.file_stem().and_then(|stem| stem.to_str()).filter(|_| path.extension() == Some("prom".as_ref()));
        let run = run.filter(|run| run.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte)));
        let run = run.ok_or_else(|| {
            Failure::usage(format!(
                "{option}: name the file NAME.prom, with letters, digits, _ . and - in NAME: node_exporter reads only \
                 .prom files, and NAME becomes the label `run` of all series"
            ))
        })?;
        let file = WholeFile::check(path).map_err(|why| Failure::usage(format!("{option}: {why}")))?;
        Ok(Checked { file, run: run.to_owned() })
    }

    pub(crate) const fn new(file: Checked, metrics: PrometheusHandle) -> Self {
        Self { file, metrics }
    }

    /// Replaces the file. If this fails, only writes a note, so that the command's exit code stays
    /// the same. Other users must be able to read the file: node_exporter runs as another user.
    pub(crate) fn write(&self, failure: u8) {
        let ended = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let Checked { file, run } = &self.file;
        let text = exposition(&self.metrics.render(), run, failure, ended);
        if let Err(error) = file.replace(0o644, &text) {
            output::note(&format!("{} was not written: {error}", file.path().display()));
        }
    }
}

/// The text of the file: counters, histograms, the gauges of `LASTING`, and two gauges about the
/// run itself. Other gauges are right only while the process runs. All series have the label `run`:
/// node_exporter refuses a series that is in two files.
fn exposition(rendered: &str, run: &str, failure: u8, ended: u64) -> String {
    let mut text = String::new();
    let mut leave = false;
    // In the rendered text, each metric begins with its HELP line.
    let gauge = |name: &str| rendered.lines().any(|line| line == format!("# TYPE {name} gauge"));
    for line in rendered.lines() {
        if let Some(name) = line.strip_prefix("# HELP ").and_then(|rest| rest.split(' ').next()) {
            leave = gauge(name) && !LASTING.contains(&name);
        }
        if !leave {
            text.push_str(&labelled(line, run));
            text.push('\n');
        }
    }
    for (name, help, value) in [
        ("quorumlock_run_end_time_seconds", "When the run ended, as a Unix time", ended),
        (
            "quorumlock_run_failure_code",
            "The exit code of run itself, such as 69, 75 or 76; 0 if CMD ended by itself, with any code",
            failure.into(),
        ),
    ] {
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name}{{run=\"{run}\"}} {value}\n");
    }
    text
}

fn labelled(line: &str, run: &str) -> String {
    if line.is_empty() || line.starts_with('#') {
        return line.to_owned();
    }
    match (line.split_once('{'), line.split_once(' ')) {
        (Some((name, rest)), _) => format!("{name}{{run=\"{run}\",{rest}"),
        (None, Some((name, value))) => format!("{name}{{run=\"{run}\"}} {value}"),
        (None, None) => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exposition_omits_passing_gauges_and_labels_the_rest() {
        let rendered = "# HELP a_total A\n# TYPE a_total counter\na_total{quorum=\"default\"} 1\n\n\
                        # HELP quorumlock_node_up Up\n# TYPE quorumlock_node_up gauge\nquorumlock_node_up{node=\"eu\"} 1\n\n\
                        # HELP quorumlock_quorum_size Size\n# TYPE quorumlock_quorum_size gauge\nquorumlock_quorum_size 3\n";
        let text = exposition(rendered, "nightly", 75, 7);
        assert!(text.contains("a_total{run=\"nightly\",quorum=\"default\"} 1\n"), "{text}");
        assert!(text.contains("quorumlock_quorum_size{run=\"nightly\"} 3\n"), "{text}");
        assert!(!text.contains("node_up"), "{text}");
        assert!(text.contains("quorumlock_run_failure_code{run=\"nightly\"} 75\n"), "{text}");
        assert!(text.contains("quorumlock_run_end_time_seconds{run=\"nightly\"} 7\n"), "{text}");
    }

    #[test]
    fn a_file_that_node_exporter_would_not_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let said = |name: &str| Textfile::check(&folder.path().join(name)).err().map(|failure| format!("{failure:?}"));
        assert_eq!(said("nightly.prom"), None);
        for name in ["nightly", "nightly.txt", ".prom", "a b.prom", "none/nightly.prom"] {
            assert!(said(name).is_some_and(|said| said.contains("--metrics-textfile")), "{name}");
        }
    }
}
