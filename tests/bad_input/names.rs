//! Names of locks.

use quorumlock::{LockOptions, Quorum, Released};

use crate::SECOND;
use crate::common::{ConnectAll, answered, inspected, released, servers, unguarded};

#[tokio::test]
async fn empty_huge_and_nul_names_are_refused_by_every_call() {
    let quorum = Quorum::in_memory(3).unwrap();
    for (name, hint) in
        [("", "name is empty"), ("a\0b", "NUL"), (&*"x".repeat(1 << 20), "1048576 bytes; use at most 1024")]
    {
        let lock = quorum.lock(name);
        let errors = [
            lock.acquire(SECOND).await.unwrap_err(),
            lock.try_acquire().await.unwrap_err(),
            lock.run(SECOND, async |_| ()).await.unwrap_err(),
            quorum.lock_with(name, &LockOptions::default()).unwrap_err(),
            quorum.inspect(name).await.unwrap_err(),
            quorum.force_release(name).await.unwrap_err(),
        ];
        for error in errors {
            assert!(error.is_config() && error.to_string().contains(hint), "{error}");
            assert!(error.to_string().len() < 300, "the name is not repeated whole");
        }
    }
    assert_eq!(quorum.in_use(), (0, 0, 0));
}

#[tokio::test]
async fn names_with_braces_emoji_or_full_length_are_separate_locks() {
    let servers = servers(3).await;
    let quorum = unguarded(&servers).connect_all().await;
    let longest = "🔒".repeat(256);
    let mut guards = Vec::new();
    for name in ["a", "{a}", "{a}:gate", "a}:gate", "{}", "}", "{", "🔒", "a b\r\nc\t\"'", &longest] {
        let lock = quorum.lock(name);
        guards.push(answered(|| lock.try_acquire()).await.expect("each is free"));
        assert!(answered(|| lock.try_acquire()).await.is_none(), "{name}");
        assert_eq!(inspected(&quorum, name).await.agreed(), Some(true), "{name}");
    }
    for guard in guards {
        assert_eq!(released(guard.release()).await, Released::Released);
    }
}
