//! A process and its descendants, by `/proc`.

use std::collections::{HashMap, HashSet};
use std::fs::read_to_string;

use rustix::process::Pid;

/// How often one look at all processes looks at their names, should they start others without end.
const LOOKS: u32 = 100;

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
    living().iter().filter(|member| member.parent == parent).map(|member| member.pid).collect()
}

/// All that descend from a process, but not through `others`.
pub(super) fn below(ancestor: Pid, others: &[Pid]) -> Vec<Member> {
    let mut children: HashMap<Pid, Vec<Member>> = HashMap::new();
    for member in living().into_iter().filter(|member| !others.contains(&member.pid)) {
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

/// All that live. None that was started before this returns, by one that is stopped or has ended by then,
/// is missing.
fn living() -> Vec<Member> {
    let names = || {
        let entries = std::fs::read_dir("/proc").into_iter().flatten();
        entries.filter_map(|entry| pid(&entry.ok()?.file_name().into_string().ok()?)).collect()
    };
    settled(names, |pid| member(&pid.to_string()))
}

/// Looks at all processes, until a look at their names shows no other: one that was looked at may have
/// started another just before, and have ended. Then that one has another parent, and is looked at again.
fn settled(names: impl Fn() -> Vec<Pid>, look: impl Fn(Pid) -> Option<Member>) -> Vec<Member> {
    let mut known: HashMap<Pid, Option<Member>> = HashMap::new();
    // Those whose parent cannot be seen, though it lives: the kernel's, and those of other containers.
    let mut strangers = HashSet::new();
    for _ in 0..LOOKS {
        let has_gone = |parent| matches!(known.get(parent), Some(None));
        let orphans = known.values().flatten().filter(|member| has_gone(&member.parent));
        let orphans: Vec<_> = orphans.copied().filter(|member| !strangers.contains(&member.pid)).collect();
        let new: Vec<_> = names().into_iter().filter(|pid| !known.contains_key(pid)).collect();
        if orphans.is_empty() && new.is_empty() {
            break;
        }
        for Member { pid, parent, .. } in orphans {
            let again = look(pid);
            if again.is_some_and(|member| member.parent == parent) {
                strangers.insert(pid);
            }
            known.insert(pid, again);
        }
        for pid in new {
            known.insert(pid, look(pid));
        }
    }
    let mut all: Vec<_> = known.into_values().flatten().collect();
    all.sort_unstable_by_key(|member| member.pid.as_raw_nonzero());
    all
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Processes with their parents, and what happens when one of them is looked at.
    struct Stage {
        lives: RefCell<Vec<(i32, i32)>>,
        ends: Vec<(i32, i32)>,
    }

    impl Stage {
        fn pids(&self) -> Vec<Pid> {
            self.lives.borrow().iter().filter_map(|(pid, _)| Pid::from_raw(*pid)).collect()
        }

        /// Some start another right before they are looked at, and end: that is a child of 1 then.
        fn look(&self, pid: Pid) -> Option<Member> {
            let mut lives = self.lives.borrow_mut();
            if let Some((ended, started)) = self.ends.iter().find(|(ended, _)| *ended == pid.as_raw_nonzero().get()) {
                lives.retain(|(pid, _)| pid != ended);
                lives.iter_mut().filter(|(_, parent)| parent == ended).for_each(|(_, parent)| *parent = 1);
                lives.push((*started, 1));
            }
            let (_, parent) = lives.iter().find(|(other, _)| Pid::from_raw(*other) == Some(pid))?;
            Some(Member { pid, group: None, parent: Pid::from_raw(*parent)?, state: 'S' })
        }
    }

    fn found(lives: &[(i32, i32)], ends: &[(i32, i32)]) -> Vec<(i32, i32)> {
        let stage = Stage { lives: RefCell::new(lives.to_vec()), ends: ends.to_vec() };
        let all = settled(|| stage.pids(), |pid| stage.look(pid));
        let raw = |pid: Pid| pid.as_raw_nonzero().get();
        let mut all: Vec<_> = all.into_iter().map(|member| (raw(member.pid), raw(member.parent))).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn process_that_was_started_during_a_look_is_found() {
        assert_eq!(found(&[(1, 1), (2, 1)], &[]), [(1, 1), (2, 1)]);
        assert_eq!(found(&[(1, 1), (2, 1)], &[(2, 3)]), [(1, 1), (3, 1)]);
        assert_eq!(found(&[(1, 1), (2, 1)], &[(2, 3), (3, 4), (4, 5)]), [(1, 1), (5, 1)]);
    }

    #[test]
    fn process_whose_parent_ends_during_a_look_has_its_next_parent() {
        assert_eq!(found(&[(1, 1), (5, 7), (7, 1)], &[(7, 8)]), [(1, 1), (5, 1), (8, 1)]);
    }

    #[test]
    fn process_whose_parent_cannot_be_seen_is_looked_at_twice() {
        let looks = RefCell::new(0);
        let all = settled(
            || [1, 2].into_iter().filter_map(Pid::from_raw).collect(),
            |pid| {
                *looks.borrow_mut() += 1;
                let parent = Pid::from_raw(1)?;
                (pid != parent).then_some(Member { pid, group: None, parent, state: 'S' })
            },
        );
        assert_eq!((all.len(), looks.into_inner()), (1, 3));
    }

    #[test]
    fn look_at_those_who_start_others_without_end_ends() {
        let chain: Vec<_> = (2..1_000).map(|pid| (pid, pid + 1)).collect();
        assert!(found(&[(1, 1), (2, 1)], &chain).len() <= 2);
    }
}
