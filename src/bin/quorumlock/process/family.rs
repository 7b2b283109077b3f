//! A process and its descendants, by `/proc`.

use std::collections::HashMap;

use rustix::process::Pid;

/// The process and all that descend from it, as far as can be seen; elsewhere than on Linux the
/// process alone.
pub(super) fn of(ancestor: Pid) -> Vec<Pid> {
    let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for (process, parent) in processes() {
        children.entry(parent).or_default().push(process);
    }
    let mut family = vec![ancestor];
    let mut next = 0;
    while let Some(member) = family.get(next) {
        family.extend(children.remove(member).unwrap_or_default());
        next += 1;
    }
    family
}

/// Every process with its parent.
fn processes() -> Vec<(Pid, Pid)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| Some((pid(&name)?, parent(&name)?))).collect()
}

fn parent(process: &str) -> Option<Pid> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // `pid (name) state ppid ..`, where the name may hold anything.
    pid(stat.rsplit_once(')')?.1.split_whitespace().nth(1)?)
}

fn pid(text: &str) -> Option<Pid> {
    Pid::from_raw(text.parse().ok()?)
}
