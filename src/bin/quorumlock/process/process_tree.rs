//! Finds the descendants of a process in `/proc`.

use std::collections::{HashMap, HashSet};
use std::fs::{read_dir, read_link, read_to_string};
use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, getpid};

/// A process, as one scan of `/proc` has found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) pid: Pid,
    /// `None` if the group is in another container.
    pub(super) group: Option<Pid>,
    /// `None` if the parent is in another container, or if the kernel started the process.
    pub(super) parent: Option<Pid>,
    /// The state in `/proc`: T if the process is stopped, D if it waits and cannot be interrupted.
    pub(super) state: char,
    /// Whether the process has ended, and its parent has not reaped it.
    pub(super) ended: bool,
}

impl Member {
    /// Whether the process does not run: a signal (T) or a debugger (t) stopped it, or it waits and
    /// cannot be interrupted (D). A process whose first thread has ended (Z) counts as well,
    /// because `/proc` does not show the state of its other threads.
    pub(super) fn rests(&self) -> bool {
        ['T', 't', 'D', 'Z'].contains(&self.state)
    }
}

/// The descendants of a process that one scan has found.
#[derive(Debug, Default)]
pub(super) struct Descendants {
    /// The living descendants.
    pub(super) members: Vec<Member>,
    /// The process groups whose processes are all descendants. Empty if some process could not be
    /// read, because that process may be in any group.
    pub(super) groups: HashSet<Pid>,
    /// Whether living descendants may be missing: a process could not be read, or an ended child,
    /// which may have left children behind, is not reaped yet.
    pub(super) may_lack: bool,
}

/// Whether `/proc` shows this process under its own process id. False if `/proc` belongs to another
/// container, and on systems other than Linux.
pub(super) fn is_shown() -> bool {
    let own = read_link("/proc/self").ok();
    own.and_then(|own| pid(own.to_str()?)) == Some(getpid())
}

/// The children of a process.
pub(super) fn children(parent: Pid) -> Vec<Pid> {
    below(parent, &[]).members.iter().filter(|member| member.parent == Some(parent)).map(|member| member.pid).collect()
}

/// The descendants of a process, without the processes in `others` and their descendants.
///
/// If `ancestor` is this process and all processes could be read, only a process that was started
/// during the scan can be missing. The reason is that ended children stay in `/proc` until this
/// process reaps them.
pub(super) fn below(ancestor: Pid, others: &[Pid]) -> Descendants {
    let (all, whole) = seen(names, member);
    descent((&all, whole), ancestor, others)
}

fn descent((all, whole): (&[Member], bool), ancestor: Pid, others: &[Pid]) -> Descendants {
    let mut children: HashMap<Pid, Vec<Member>> = HashMap::new();
    for member in all.iter().filter(|member| !others.contains(&member.pid)) {
        if let Some(parent) = member.parent {
            children.entry(parent).or_default().push(*member);
        }
    }
    let mut descendants = children.remove(&ancestor).unwrap_or_default();
    let mut next = 0;
    while let Some(member) = descendants.get(next) {
        descendants.extend(children.remove(&member.pid).unwrap_or_default());
        next += 1;
    }
    let own: HashSet<Pid> = descendants.iter().map(|member| member.pid).collect();
    // Include the group of an ended process: new processes may have joined this group.
    let mut groups: HashSet<Pid> = descendants.iter().filter_map(|member| member.group).collect();
    for group in all.iter().filter(|member| !own.contains(&member.pid)).filter_map(|member| member.group) {
        groups.remove(&group);
    }
    // Leave out group 1: a signal to it would go to all processes of the system.
    groups.remove(&Pid::INIT);
    groups.retain(|_| whole);
    let may_lack = !whole || descendants.iter().any(|member| member.ended && member.parent == Some(ancestor));
    descendants.retain(|member| !member.ended);
    Descendants { members: descendants, groups, may_lack }
}

/// Describes a process for people.
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

/// Reads each process once, and once more if its parent was not found. Also returns whether all
/// processes could be read. Processes that start during the scan do not make the scan longer.
fn seen(
    names: impl FnOnce() -> io::Result<Vec<Pid>>,
    look: impl Fn(Pid) -> io::Result<Option<Member>>,
) -> (Vec<Member>, bool) {
    let Ok(mut next) = names() else { return (Vec::new(), false) };
    let mut known: HashMap<Pid, Member> = HashMap::new();
    let mut whole = true;
    // Read a process again if its parent was not found: the parent ended, or began, during the
    // scan. If the parent has ended, the process has another parent now.
    for _ in 0..2 {
        for pid in next {
            match look(pid) {
                Ok(Some(member)) => _ = known.insert(pid, member),
                Ok(None) => _ = known.remove(&pid),
                Err(_) => whole = false,
            }
        }
        let is_known = |parent: &Pid| known.contains_key(parent);
        let orphans = known.values().filter(|member| !member.parent.as_ref().is_none_or(is_known));
        next = orphans.map(|member| member.pid).collect();
    }
    let mut all: Vec<_> = known.into_values().collect();
    all.sort_unstable_by_key(|member| member.pid.as_raw_nonzero());
    (all, whole)
}

fn names() -> io::Result<Vec<Pid>> {
    let mut names = Vec::new();
    for entry in read_dir("/proc")? {
        names.extend(entry?.file_name().to_str().and_then(pid));
    }
    Ok(names)
}

/// Reads one process. `None` if the process is gone, or belongs to another user and is hidden
/// (`hidepid`).
fn member(pid: Pid) -> io::Result<Option<Member>> {
    let stat = match stat(&pid.to_string()) {
        Err(error) if is_hidden(&error) => return Ok(None),
        stat => stat?,
    };
    let field = |number: usize| stat.get(number).map_or("", String::as_str);
    let state = field(0).chars().next().unwrap_or('?');
    // If only the first thread has ended, the state is Z, too, but there are more threads.
    let ended = ['Z', 'X'].contains(&state) && ["0", "1"].contains(&field(17));
    Ok(Some(Member { pid, group: self::pid(field(2)), parent: self::pid(field(1)), state, ended }))
}

fn is_hidden(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::SRCH | Errno::PERM | Errno::ACCESS))
}

/// The fields of `/proc/PID/stat` from the third on: state, parent, group, session, terminal, the
/// terminal's foreground group, and so on.
pub(super) fn stat(process: &str) -> io::Result<Vec<String>> {
    let stat = read_to_string(format!("/proc/{process}/stat"))?;
    // The format is `pid (name) state ..`. The name may have any characters, including `)`.
    Ok(stat.rsplit_once(')').unwrap_or_default().1.split_whitespace().map(str::to_owned).collect())
}

fn pid(text: &str) -> Option<Pid> {
    Pid::from_raw(text.parse().ok().filter(|&number| number > 0)?)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    fn numbered(number: i32) -> Pid {
        Pid::from_raw(number).unwrap()
    }

    fn raw(pid: Pid) -> i32 {
        pid.as_raw_nonzero().get()
    }

    /// A living process, without a group.
    fn alive(number: i32, parent: i32) -> Member {
        let parent = (parent > 0).then(|| numbered(parent));
        Member { pid: numbered(number), group: None, parent, state: 'S', ended: false }
    }

    fn pids(members: &[Member]) -> Vec<i32> {
        members.iter().map(|member| raw(member.pid)).collect()
    }

    /// Fake processes. Each pair in `ends` is a process that ends when it is read, and its last
    /// child.
    struct Stage {
        processes: RefCell<Vec<Member>>,
        ends: Vec<(i32, i32)>,
    }

    impl Stage {
        fn names(&self) -> io::Result<Vec<Pid>> {
            Ok(self.processes.borrow().iter().map(|member| member.pid).collect())
        }

        /// Just before a process in `ends` is read, it starts a child and ends. After that, the
        /// child's parent is process 1, which reaps no children in this fake.
        fn look(&self, pid: Pid) -> io::Result<Option<Member>> {
            let mut processes = self.processes.borrow_mut();
            if let Some(&(ended, started)) = self.ends.iter().find(|(ended, _)| *ended == raw(pid)) {
                let (parent, one) = (Some(numbered(ended)), Some(numbered(1)));
                processes.retain(|member| raw(member.pid) != ended || member.parent == one);
                for member in processes.iter_mut() {
                    member.ended |= raw(member.pid) == ended;
                    member.parent = if member.parent == parent { one } else { member.parent };
                }
                processes.push(alive(started, 1));
            }
            Ok(processes.iter().find(|member| member.pid == pid).copied())
        }
    }

    /// The descendants of process 1 that a scan finds, and whether there may be more.
    fn found(processes: &[(i32, i32)], ends: &[(i32, i32)]) -> (Vec<i32>, bool) {
        let processes = processes.iter().map(|&(number, parent)| alive(number, parent)).collect();
        let stage = Stage { processes: RefCell::new(processes), ends: ends.to_vec() };
        let (all, whole) = seen(|| stage.names(), |pid| stage.look(pid));
        let descendants = descent((&all, whole), numbered(1), &[]);
        assert!(whole);
        (pids(&descendants.members), descendants.may_lack)
    }

    #[test]
    fn family_is_all_that_descends_from_one() {
        assert_eq!(found(&[(1, 0), (2, 1), (3, 2), (9, 0), (10, 9)], &[]), (vec![2, 3], false));
    }

    #[test]
    fn births_of_strangers_make_no_look_longer() {
        let (named, looks) = (Cell::new(0), Cell::new(0));
        let names = || {
            named.set(named.get() + 1);
            Ok((1..=10 + named.get()).map(numbered).collect())
        };
        let (all, whole) = seen(names, |pid| {
            looks.set(looks.get() + 1);
            Ok(Some(alive(raw(pid), raw(pid) - 1)))
        });
        assert_eq!((all.len(), whole, named.get(), looks.get()), (11, true, 1, 11));
    }

    #[test]
    fn child_that_ended_during_a_look_may_have_left_another() {
        assert_eq!(found(&[(1, 0), (2, 1)], &[(2, 3)]), (vec![], true));
        let chain: Vec<_> = (2..1_000).map(|pid| (pid, pid + 1)).collect();
        assert_eq!(found(&[(1, 0), (2, 1)], &chain), (vec![], true));
    }

    #[test]
    fn process_whose_parent_ends_during_a_look_has_its_next_parent() {
        assert_eq!(found(&[(1, 0), (4, 1), (5, 7), (7, 4)], &[(7, 8)]), (vec![4, 5], false));
    }

    #[test]
    fn process_whose_parent_was_in_no_listing_has_its_next_parent() {
        let looks = Cell::new(0);
        let (all, whole) = seen(
            || Ok(vec![numbered(1), numbered(5)]),
            |pid| {
                looks.set(looks.get() + 1);
                let parent = if looks.get() < 3 { 7 } else { 1 };
                Ok(Some(alive(raw(pid), if raw(pid) == 1 { 0 } else { parent })))
            },
        );
        assert_eq!((all, whole), (vec![alive(1, 0), alive(5, 1)], true));
    }

    #[test]
    fn process_whose_parent_cannot_be_seen_is_looked_at_twice() {
        let looks = Cell::new(0);
        let (all, whole) = seen(
            || Ok(vec![numbered(1), numbered(2)]),
            |pid| {
                looks.set(looks.get() + 1);
                Ok((raw(pid) != 1).then(|| alive(2, 1)))
            },
        );
        assert_eq!((pids(&all), whole, looks.get()), (vec![2], true, 3));
    }

    #[test]
    fn look_that_cannot_read_something_is_not_whole() {
        let refused = |number: i32| {
            let look = move |pid| {
                let failed = raw(pid) == number;
                if failed { Err(Errno::NOMEM.into()) } else { Ok(Some(alive(raw(pid), 0))) }
            };
            seen(|| Ok(vec![numbered(1), numbered(2)]), look)
        };
        let told = [refused(1), refused(2)].map(|(all, whole)| (pids(&all), whole));
        assert_eq!(told, [(vec![2], false), (vec![1], false)]);
        assert!(!seen(|| Err(Errno::MFILE.into()), |_| Ok(None)).1);
    }

    #[test]
    fn group_with_a_stranger_in_it_is_not_the_familys() {
        let of = |member: Member, group: i32| Member { group: Some(numbered(group)), ..member };
        let ended = Member { state: 'Z', ended: true, ..alive(6, 1) };
        let all = [of(alive(1, 0), 1), of(alive(2, 1), 1), of(alive(3, 1), 3), of(alive(4, 1), 4), of(ended, 6)];
        let all = [&all[..], &[of(alive(9, 0), 4), of(alive(5, 1), 5)]].concat();
        let descendants = descent((&all, true), numbered(1), &[numbered(5)]);
        assert_eq!((pids(&descendants.members), descendants.may_lack), (vec![2, 3, 4], true));
        assert_eq!(descendants.groups, HashSet::from([3, 6].map(numbered)));
        let descendants = descent((&all, false), numbered(1), &[numbered(5)]);
        assert_eq!(descendants.members.len(), 3);
        assert!(descendants.groups.is_empty(), "a process that could not be read may be in any of the groups");
    }

    #[test]
    fn own_process_is_shown() {
        let own = member(getpid()).unwrap().unwrap();
        assert_eq!((own.ended, is_shown()), (false, true));
        assert_eq!(member(numbered(i32::MAX)).unwrap(), None);
    }
}
