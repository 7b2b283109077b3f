//! Checks whether a server refuses writes, or may soon refuse them.

use super::super::finding::{Finding, Level};
use super::super::node_check::NodeCheck;
use crate::raw_connection::remedies::mend;

/// Reports that the server refuses writes, or else that it failed to write its files.
pub(super) fn finding(check: &NodeCheck) -> Option<Finding> {
    let refuses = check.lacks.as_ref().ok().and_then(|lacks| lacks.writes.as_deref());
    refuses.map(refused).or_else(|| failed(check))
}

fn refused(why: &str) -> Finding {
    let id = if why.starts_with("NOREPLICAS") { "no-replicas" } else { "write-error" };
    Finding::new(Level::Warning, id, format!("It refuses writes: {why}."))
        .why("It grants no lock, and has no vote.")
        .mend(mend(why).unwrap_or_default())
}

fn failed(check: &NodeCheck) -> Option<Finding> {
    let states = ["rdb_last_bgsave_status", "aof_last_write_status", "aof_last_bgrewrite_status"];
    let failed = states.into_iter().find(|name| check.field(name).is_some_and(|state| state != "ok"))?;
    Some(
        Finding::new(Level::Warning, "write-error", format!("It failed to write its files: {failed} is not ok."))
            .why("A server that cannot write its files may refuse all writes. Then it has no vote.")
            .mend(mend("MISCONF").unwrap_or_default()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw_connection::rights::Lacks;

    #[test]
    fn files_that_cannot_be_written_are_told() {
        assert_eq!(finding(&NodeCheck::told("rdb_last_bgsave_status:ok\r\naof_last_write_status:ok\r\n")), None);
        let told = finding(&NodeCheck::told("rdb_last_bgsave_status:ok\r\naof_last_write_status:err\r\n"));
        assert!(told.is_some_and(|told| told.what.contains("aof_last_write_status") && told.mend.contains("disk")));
    }

    #[test]
    fn write_refusal_takes_precedence_over_a_failed_save() {
        for (why, id) in [("NOREPLICAS Not enough", "no-replicas"), ("MISCONF Redis is", "write-error")] {
            let lacks = Lacks { writes: Some(why.to_owned()), ..Lacks::default() };
            let check = NodeCheck { lacks: Ok(lacks), ..NodeCheck::told("rdb_last_bgsave_status:err\r\n") };
            let told = finding(&check).unwrap();
            assert_eq!((told.id, told.what), (id, format!("It refuses writes: {why}.")));
        }
    }
}
