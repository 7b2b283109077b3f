//! A process and its descendants, by `/proc`.

use std::collections::HashMap;
use std::fs::read_to_string;

use rustix::process::Pid;

/// A process that lives.
#[derive(Clone, Copy)]
pub(super) struct Member {
    pub(super) pid: Pid,
    /// `None` where it is that of another container.
    pub(super) group: Option<Pid>,
    pub(super) parent: Pid,
    /// As `/proc` shows it: T if it is stopped, D if it waits and cannot stop.
    pub(super) state: char,
}

impl Member {
    /// By a signal, or by a debugger.
    pub(super) fn is_stopped(&self) -> bool {
        ['T', 't'].contains(&self.state)
    }
}

/// The children of a process; elsewhere than on Linux none can be seen.
pub(super) fn children(parent: Pid) -> Vec<Pid> {
    living().filter(|member| member.parent == parent).map(|member| member.pid).collect()
}

/// All that descend from a process, but not through `others`.
pub(super) fn below(ancestor: Pid, others: &[Pid]) -> Vec<Member> {
    let mut children: HashMap<Pid, Vec<Member>> = HashMap::new();
    for member in living().filter(|member| !others.contains(&member.pid)) {
        children.entry(member.parent).or_default().push(member);
    }
    let mut family = children.remove(&ancestor).unwrap_or_default();
    let mut next = 0;
    while let Some(member) = family.get(next) {
        family.extend(children.remove(&member.pid).unwrap_or_default());
        next += 1;
    }
    family
}

/// What people know a process by.
pub(super) fn described(pid: Pid) -> String {
    let about = |what| read_to_string(format!("/proc/{pid}/{what}")).unwrap_or_default();
    let status = about("status");
    let user = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().nth(1)).unwrap_or("?");
    let users = read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == user).then_some(name)
    });
    format!("process {pid} ({}) of user {}", about("comm").trim(), name.unwrap_or(user))
}

fn living() -> impl Iterator<Item = Member> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| member(&entry.ok()?.file_name().into_string().ok()?))
}

fn member(process: &str) -> Option<Member> {
    let (pid, stat) = (pid(process)?, stat(process)?);
    let state = stat.first()?.chars().next()?;
    // One whose first thread alone has ended looks like a zombie, and has other threads.
    let has_ended = ['Z', 'X'].contains(&state) && ["0", "1"].contains(&stat.get(17)?.as_str());
    (!has_ended).then_some(Member { pid, parent: self::pid(stat.get(1)?)?, group: self::pid(stat.get(2)?), state })
}

/// The fields of `/proc/PID/stat` from the third on: state, parent, group, session, terminal, the group
/// in the terminal's foreground ..
pub(super) fn stat(process: &str) -> Option<Vec<String>> {
    let stat = read_to_string(format!("/proc/{process}/stat")).ok()?;
    // `pid (name) state ..`, where the name may hold anything.
    Some(stat.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect())
}

fn pid(text: &str) -> Option<Pid> {
    Pid::from_raw(text.parse().ok()?)
}
