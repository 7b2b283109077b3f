//! Bad input and bad nodes: a clear error, and nothing lost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

mod common;

use std::process::{Command, Stdio};
use std::time::Duration;

use common::fake::{Fake, bulk, well};
use common::logs::Logs;
use common::server::Server;
use common::{eventually, servers, unguarded};
use futures::FutureExt;
use quorumlock::{Error, ErrorKind, LockOptions, Quorum, QuorumBuilder, Released};

const SECOND: Duration = Duration::from_secs(1);

fn builder(urls: &[String]) -> QuorumBuilder {
    Quorum::builder().nodes(urls.iter().cloned()).max_ttl(Duration::ZERO).connect_timeout(SECOND)
}

async fn refused(urls: &[String]) -> Error {
    builder(urls).connect().await.unwrap_err()
}

mod names {
    use super::*;

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
    async fn names_with_braces_emoji_and_the_longest_name_are_locks_of_their_own() {
        let servers = servers(3).await;
        let quorum = unguarded(&servers).connect().await.unwrap();
        let longest = "🔒".repeat(256);
        let mut guards = Vec::new();
        for name in ["a", "{a}", "{a}:gate", "a}:gate", "{}", "}", "{", "🔒", "a b\r\nc\t\"'", &longest] {
            guards.push(quorum.lock(name).try_acquire().await.unwrap().expect("each is free"));
            assert!(quorum.lock(name).try_acquire().await.unwrap().is_none(), "{name}");
            assert_eq!(quorum.inspect(name).await.unwrap().agreed(), Some(true), "{name}");
        }
        for guard in guards {
            assert_eq!(guard.release().await.unwrap(), Released::Released);
        }
    }
}

mod settings {
    use super::*;

    #[tokio::test]
    async fn a_ttl_that_makes_no_sense_is_refused_with_what_would_be_right() {
        let quorum = Quorum::in_memory(3).unwrap();
        for (ttl, hint) in [
            (Duration::ZERO, "ttl is 0ns; use at least 100ms"),
            (Duration::from_millis(1), "ttl is 1ms; use at least 100ms"),
            (61 * SECOND, "ttl is 61s, above max_ttl; use at most 60s"),
            (Duration::MAX, "above max_ttl"),
        ] {
            let options = LockOptions::default().ttl(ttl);
            for error in [
                quorum.lock_with("a", &options).unwrap_err(),
                Quorum::builder().ttl(ttl).in_memory(3).unwrap_err(),
                Quorum::builder().node("redis://127.0.0.1:1").ttl(ttl).connect().await.unwrap_err(),
            ] {
                assert!(error.is_config() && error.to_string().contains(hint), "{error}");
            }
        }
    }

    #[tokio::test]
    async fn a_lock_that_lets_clocks_run_further_apart_than_its_quorum_does_is_refused() {
        let drifting = |factor| LockOptions::default().drift_factor(factor);
        for (own, shared, hint) in [
            (0.05, 0.02, Some("drift_factor is 0.05, above the quorum's 0.02")),
            (0.02, 0.0, Some("above the quorum's 0.01")),
            (0.05, 0.05, None),
            (0.02, 0.05, None),
            (0.01, 0.0, None),
        ] {
            let quorum = Quorum::builder().options(drifting(shared)).in_memory(3).unwrap();
            let error = quorum.lock_with("a", &drifting(own)).err();
            assert_eq!(error.is_some(), hint.is_some(), "{own} with a quorum of {shared}");
            if let (Some(error), Some(hint)) = (error, hint) {
                let said = error.to_string();
                assert!(error.is_config() && said.contains(hint) && said.contains("QuorumBuilder::options"), "{said}");
            }
        }
    }

    #[tokio::test]
    async fn a_timeout_of_zero_makes_one_try() {
        let servers = servers(3).await;
        let quorum = unguarded(&servers).connect().await.unwrap();
        let guard = quorum.lock("zero").acquire(Duration::ZERO).await.unwrap();
        assert!(quorum.lock("zero").acquire(Duration::ZERO).await.unwrap_err().is_timeout());
        assert!(guard.is_held());
    }

    #[tokio::test]
    async fn an_endless_timeout_waits_until_the_lock_is_free() {
        let servers = servers(3).await;
        let (first, second) =
            (unguarded(&servers).connect().await.unwrap(), unguarded(&servers).connect().await.unwrap());
        let guard = first.lock("endless").acquire(Duration::MAX).await.unwrap();
        let (next, mine) = (second.lock("endless"), first.lock("endless"));
        let held_again = async {
            guard.release().await.unwrap();
            next.acquire(Duration::MAX).await.unwrap().release().await.unwrap()
        };
        let (ours, theirs) =
            tokio::join!(mine.acquire(Duration::MAX).then(async |guard| drop(guard.unwrap())), held_again);
        assert_eq!((ours, theirs), ((), Released::Released));
    }

    #[tokio::test]
    async fn addresses_that_make_no_sense_are_refused_before_anything_is_sent() {
        for (urls, hint) in [
            (&[][..], "no node is configured"),
            (&["redis://eu", "redis://eu:6379"], "redis://eu:6379 is configured twice"),
            (&["redis://eu", "rediss+tls://us"], "scheme \"rediss+tls\"; use redis://"),
            (&["redis-sentinel://eu"], "name independent masters"),
            (&["eu:6379"], "use redis://"),
        ] {
            let urls: Vec<_> = urls.iter().map(ToString::to_string).collect();
            let error = refused(&urls).await;
            assert!(error.is_config() && error.to_string().contains(hint), "{error}");
        }
    }

    #[tokio::test]
    async fn no_memory_node_and_too_many_are_refused() {
        for nodes in [0, 65, usize::MAX] {
            assert!(Quorum::in_memory(nodes).unwrap_err().is_config());
        }
    }

    #[tokio::test]
    async fn an_even_number_of_nodes_works_and_is_warned_of() {
        let logs = Logs::capture();
        let mut servers = servers(4).await;
        let quorum = unguarded(&servers).connect().await.unwrap();
        assert!(logs.text().contains("an even number of nodes tolerates no more failures than one node fewer"));
        servers[3].kill();
        assert!(quorum.lock("even").try_acquire().await.unwrap().is_some());
        servers[2].kill();
        let error = quorum.lock("even").acquire(Duration::ZERO).await.unwrap_err();
        assert!(error.to_string().contains("3 of 4 nodes must agree"), "{error}");
    }
}

mod runtimes {
    use super::*;

    #[test]
    fn without_a_tokio_runtime_there_is_an_error_and_no_panic() {
        let said = |error: Error| {
            assert!(error.is_config() && error.to_string().contains("Tokio runtime"), "{error}");
        };
        said(builder(&["redis://127.0.0.1:1".to_owned()]).connect().now_or_never().unwrap().unwrap_err());
        said(builder(&["redis://127.0.0.1:1".to_owned()]).open().unwrap_err());
        said(Quorum::in_memory(3).unwrap_err());
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (quorum, guard) = runtime.block_on(async {
            let quorum = Quorum::in_memory(3).unwrap();
            let guard = quorum.lock("held").acquire(SECOND).await.unwrap();
            (quorum, guard)
        });
        said(quorum.lock("a").acquire(SECOND).now_or_never().unwrap().unwrap_err());
        said(quorum.lock("a").try_acquire().now_or_never().unwrap().unwrap_err());
        said(quorum.inspect("a").now_or_never().unwrap().unwrap_err());
        drop(guard);
        runtime.block_on(async { assert!(quorum.lock("held").try_acquire().await.unwrap().is_some()) });
    }

    #[test]
    fn a_guard_that_outlives_its_runtime_is_dropped_in_peace() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (quorum, guard) = runtime.block_on(async {
            let servers = servers(1).await;
            let quorum = unguarded(&servers).connect().await.unwrap();
            let guard = quorum.lock("held").acquire(SECOND).await.unwrap();
            (quorum, guard)
        });
        drop(runtime);
        assert!(guard.token() > 0);
        drop(guard);
        drop(quorum);
    }
}

mod keys {
    use super::*;

    /// What breaks one node's keys, and what is said of it.
    async fn one_is_survived_and_a_majority_is_told(name: &str, hint: &str, harm: impl Fn(&Server)) {
        let servers = servers(3).await;
        let quorum = unguarded(&servers).connect().await.unwrap();
        harm(&servers[0]);
        let guard = quorum.lock(name).try_acquire().await.unwrap().expect("two of three grant");
        assert_eq!(guard.release().await.unwrap(), Released::Released);
        harm(&servers[1]);
        let error = quorum.lock(name).try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains(hint), "{error}");
        let error = quorum.lock(name).acquire(Duration::from_millis(100)).await.unwrap_err();
        assert!(error.is_unavailable() && error.nodes().len() == 3, "{error}");
        quorum.quiet().await;
        assert_eq!(servers[2].holder(name), None, "nothing is left");
    }

    #[tokio::test]
    async fn a_key_of_another_type_in_the_way() {
        let harm = |server: &Server| {
            server.command(&["SET", "quorumlock:{wrong}", "precious"]);
        };
        one_is_survived_and_a_majority_is_told("wrong", "another type is in the way", harm).await;
        let servers = servers(1).await;
        harm(&servers[0]);
        let quorum = unguarded(&servers).connect().await.unwrap();
        assert!(quorum.lock("wrong").acquire(Duration::ZERO).await.is_err());
        assert!(quorum.force_release("wrong").await.is_err());
        assert_eq!(servers[0].command(&["GET", "quorumlock:{wrong}"]), "precious", "nothing is lost");
        assert!(quorum.lock("right").acquire(Duration::ZERO).await.is_ok(), "and no other name is in its way");
    }

    #[tokio::test]
    async fn another_programs_hash_in_the_way() {
        let harm = |server: &Server| {
            server.command(&["DEL", "quorumlock:{theirs}"]);
            server.command(&["HSET", "quorumlock:{theirs}", "somebody", "1"]);
        };
        one_is_survived_and_a_majority_is_told("theirs", "no lock of this protocol", harm).await;
        let servers = servers(1).await;
        harm(&servers[0]);
        let quorum = unguarded(&servers).connect().await.unwrap();
        assert!(quorum.lock("theirs").acquire(Duration::ZERO).await.is_err());
        assert!(quorum.force_release("theirs").await.is_err());
        assert_eq!(servers[0].command(&["HGETALL", "quorumlock:{theirs}"]), "somebody 1", "nothing is lost");
    }

    #[tokio::test]
    async fn a_queue_of_another_type_in_the_way_leaves_no_hold_behind() {
        let servers = servers(1).await;
        servers[0].command(&["SET", "quorumlock:{queue}:queue", "precious"]);
        let quorum = unguarded(&servers).connect().await.unwrap();
        let guard = quorum.lock("queue").acquire(SECOND).await.unwrap();
        let error = quorum.lock("queue").acquire(Duration::from_millis(100)).await.unwrap_err();
        assert!(error.is_timeout(), "in this process there is a queue of its own: {error}");
        let other = unguarded(&servers).connect().await.unwrap();
        let error = other.lock("queue").acquire(Duration::from_millis(100)).await.unwrap_err();
        assert!(error.to_string().contains("another type is in the way"), "{error}");
        assert_eq!(guard.release().await.unwrap(), Released::Released);
        other.quiet().await;
        assert_eq!(servers[0].holder("queue"), None);
        assert_eq!(servers[0].command(&["GET", "quorumlock:{queue}:queue"]), "precious");
    }

    #[tokio::test]
    async fn a_node_without_memory() {
        let harm = |server: &Server| {
            server.command(&["CONFIG", "SET", "maxmemory", "1"]);
        };
        one_is_survived_and_a_majority_is_told("full", "raise maxmemory", harm).await;
    }

    #[tokio::test]
    async fn nodes_that_run_out_of_memory_still_renew_and_release() {
        let servers = servers(3).await;
        let quorum = unguarded(&servers).ttl(SECOND).connect().await.unwrap();
        let guard = quorum.lock("full").acquire(SECOND).await.unwrap();
        servers.iter().for_each(|server| assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "1"]), "OK"));
        let until = tokio::time::Instant::now() + 2 * SECOND;
        eventually("two ttls pass", async || tokio::time::Instant::now() >= until).await;
        assert!(guard.is_held());
        assert_eq!(guard.release().await.unwrap(), Released::Released);
    }

    #[tokio::test]
    async fn a_fence_near_its_end_is_told_with_what_to_do() {
        let servers = servers(1).await;
        servers[0].set_fence("used", (1 << 53) - 1);
        let quorum = unguarded(&servers).connect().await.unwrap();
        let error = quorum.lock("used").try_acquire().await.unwrap_err();
        assert!(error.is_unavailable() && error.to_string().contains("delete the name's key"), "{error}");
        assert!(quorum.lock("other").try_acquire().await.unwrap().is_some(), "no other name is harmed");
    }
}

mod servers_that_are_none {
    use super::*;

    #[tokio::test]
    async fn a_server_that_is_loading_is_told_as_such() {
        let fake = Fake::start(|words| match &*words[0] {
            "HELLO" | "INFO" => well(words),
            _ => b"-LOADING Redis is loading the dataset in memory\r\n".to_vec(),
        })
        .await;
        let error = refused(&[fake.url()]).await;
        assert!(error.is_unavailable() && error.to_string().contains("it will answer when that is done"), "{error}");
    }

    #[tokio::test]
    async fn a_server_that_starts_to_load_does_not_vote() {
        let fake = Fake::scripted("-LOADING Redis is loading the dataset in memory\r\n").await;
        let quorum = builder(&[fake.url()]).connect().await.unwrap();
        let error = quorum.lock("a").try_acquire().await.unwrap_err();
        assert!(error.is_unavailable() && error.to_string().contains("LOADING"), "{error}");
    }

    #[tokio::test]
    async fn a_server_that_has_become_readonly_is_out() {
        let fake =
            Fake::scripted("*3\r\n:1000000\r\n$0\r\n\r\n*2\r\n$5\r\nerror\r\n$26\r\nREADONLY You can't write a\r\n")
                .await;
        let quorum = builder(&[fake.url()]).connect().await.unwrap();
        let error = quorum.lock("a").try_acquire().await.unwrap_err();
        assert!(error.is_unavailable() && error.to_string().contains("configure its master"), "{error}");
    }

    #[tokio::test]
    async fn a_reply_that_is_not_ours_is_no_vote() {
        for answer in [
            "+OK\r\n",
            "_\r\n",
            ":1\r\n",
            "*0\r\n",
            "%0\r\n",
            "*3\r\n:1000000\r\n$0\r\n\r\n*1\r\n$8\r\nextended\r\n",
            "*3\r\n:1000000\r\n$0\r\n\r\n*1\r\n$4\r\nheld\r\n",
            "*3\r\n$1\r\nx\r\n$0\r\n\r\n*1\r\n$7\r\ngranted\r\n",
            "*4\r\n:1000000\r\n$0\r\n\r\n*1\r\n$7\r\ngranted\r\n*1\r\n$7\r\ngranted\r\n",
        ] {
            let fake = Fake::scripted(answer).await;
            let quorum = builder(&[fake.url()]).connect().await.unwrap();
            let error = quorum.lock("a").try_acquire().await.unwrap_err();
            assert!(
                error.is_unavailable() && error.to_string().contains("not one of this script's"),
                "{answer:?}: {error}"
            );
        }
    }

    #[tokio::test]
    async fn garbage_is_no_vote_and_no_panic() {
        for answer in ["HTTP/1.1 400 Bad Request\r\n\r\n", "\0\u{1}\u{2}\u{3}\r\n", "*99999999999\r\n", "$5\r\nabc"] {
            let fake = Fake::start(|_| answer.as_bytes().to_vec()).await;
            let short = builder(&[fake.url()]).node_timeout(Duration::from_millis(100));
            let error = short.connect().await.unwrap_err();
            assert!(error.is_unavailable() && error.nodes().len() == 1, "{answer:?}: {error}");
            let fake = Fake::scripted(answer).await;
            let short = builder(&[fake.url()]).node_timeout(Duration::from_millis(100)).connect().await.unwrap();
            let error = short.lock("a").try_acquire().await.unwrap_err();
            assert!(error.is_unavailable(), "{answer:?}: {error}");
        }
    }

    #[tokio::test]
    async fn what_does_not_speak_the_protocol_is_told_as_such() {
        for answer in
            ["HTTP/1.1 400 Bad Request\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "ERROR\r\n", "\u{15}\u{3}\u{1}\0\u{2}\r\n"]
        {
            let fake = Fake::start(|_| answer.as_bytes().to_vec()).await;
            let error = builder(&[fake.url()]).node_timeout(SECOND / 2).connect().await.unwrap_err();
            assert!(error.to_string().contains("does not speak the Redis protocol"), "{answer:?}: {error}");
        }
    }

    #[tokio::test]
    async fn a_host_that_cannot_be_found_is_told_in_words() {
        let logs = Logs::capture();
        let error = refused(&[format!("redis://{}", "x".repeat(300))]).await;
        let mut shown = format!("{error} {error:?}");
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            shown += &cause.to_string();
            source = cause.source();
        }
        assert!(shown.contains("failed to lookup address"), "{shown}");
        shown.extend(logs.text().lines().filter(|line| line.contains(" quorumlock::")));
        assert!(!shown.contains("Custom {"), "{shown}");
    }

    #[tokio::test]
    async fn a_server_without_hello_is_told_to_be_too_old() {
        let old = b"-ERR unknown command 'HELLO', with args beginning with: '3'\r\n";
        let fake = Fake::start(|words| if words[0] == "HELLO" { old.to_vec() } else { well(words) }).await;
        let error = refused(&[fake.url()]).await;
        assert!(error.to_string().contains("Redis 6 or later"), "{error}");
    }

    #[tokio::test]
    async fn a_port_that_hangs_up_or_says_nothing_is_told_as_such() {
        let silent = Fake::start(|_| Vec::new()).await;
        let short = builder(&[silent.url()]).node_timeout(Duration::from_millis(100));
        let error = short.connect().await.unwrap_err();
        assert!(error.to_string().contains("no answer to HELLO"), "{error}");
        let closed = refused(&["redis://127.0.0.1:1".to_owned()]).await;
        assert!(closed.to_string().contains("Connection refused"), "{closed}");
    }

    #[tokio::test]
    async fn what_tells_no_run_id_is_no_server() {
        let fake = Fake::start(|words| if words[0] == "INFO" { bulk("hello") } else { well(words) }).await;
        let error = refused(&[fake.url()]).await;
        assert!(error.to_string().contains("is this a Redis or Valkey server?"), "{error}");
    }
}

mod connections {
    use super::*;

    const SECRET: &str = "hunter2/?#ä";
    const ENCODED: &str = "hunter2%2F%3F%23%C3%A4";

    async fn with_user() -> Server {
        let server = Server::start().await;
        let rule = format!(">{SECRET}");
        assert_eq!(server.command(&["ACL", "SETUSER", "alice", "on", &rule, "~*", "&*", "+@all"]), "OK");
        server
    }

    #[tokio::test]
    async fn user_password_and_database_are_used_and_never_shown() {
        let logs = Logs::capture();
        let server = with_user().await;
        let url = format!("redis://alice:{ENCODED}@127.0.0.1:{}/3", server.port());
        let settings = builder(&[url]).client_name("shown");
        let mut shown = format!("{settings:?}");
        let quorum = settings.connect().await.unwrap();
        let guard = quorum.lock("secret").acquire(SECOND).await.unwrap();
        let list = server.command(&["CLIENT", "LIST"]);
        let client = list.lines().find(|line| line.contains("name=shown")).expect("the connection has its name");
        assert!(client.contains("user=alice") && client.contains("db=3"), "{client}");
        shown += &format!(
            "{quorum:?} {guard:?} {:?} {:?} {:?}",
            quorum.nodes(),
            quorum.lock("a"),
            quorum.inspect("a").await
        );
        shown += &logs.text();
        unseen(&shown);
    }

    #[tokio::test]
    async fn a_wrong_password_is_told_without_repeating_it() {
        let logs = Logs::capture();
        let server = with_user().await;
        let url = format!("redis://alice:wrong-{ENCODED}@127.0.0.1:{}", server.port());
        let error = refused(std::slice::from_ref(&url)).await;
        assert!(error.is_unavailable() && error.to_string().contains("check user and password"), "{error}");
        let twice = refused(&[url.clone(), url.replace("wrong-", "")]).await;
        assert!(twice.is_config());
        let mut shown = format!("{error} {error:?} {twice} {twice:?} {}", logs.text());
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            shown += &format!("{cause} {cause:?}");
            source = cause.source();
        }
        unseen(&shown);
        let user_alone = refused(&[format!("redis://alice@127.0.0.1:{}", server.port())]).await;
        assert!(user_alone.is_config(), "{user_alone}");
    }

    fn unseen(text: &str) {
        assert!(text.contains("127.0.0.1"), "there is something to look at");
        assert!(!text.contains("hunter2") && !text.contains("alice"), "{text}");
    }

    #[tokio::test]
    async fn a_unix_socket_is_a_node() {
        let folder = tempfile::TempDir::new().unwrap();
        let socket = folder.path().join("redis.sock");
        let _server = Server::with(&["--unixsocket", socket.to_str().unwrap()]).await;
        let url = format!("redis+unix://{}?db=2", socket.display());
        let quorum = builder(&[url]).connect().await.unwrap();
        assert!(quorum.lock("socket").try_acquire().await.unwrap().is_some());
        let missing = refused(&[format!("redis+unix://{}/none.sock", folder.path().display())]).await;
        assert!(missing.is_unavailable() && missing.to_string().contains("none.sock"), "{missing}");
    }

    #[tokio::test]
    async fn tls_to_a_plain_port_is_told_as_such() {
        let servers = servers(1).await;
        let url = servers[0].url().replace("redis://", "rediss://");
        let error = builder(&[url]).node_timeout(Duration::from_millis(200)).connect().await.unwrap_err();
        assert!(error.is_unavailable() && error.to_string().contains("does this port speak TLS?"), "{error}");
    }
}

/// TLS needs a process of its own: the certificates to trust are named by a variable of the environment.
mod tls {
    use super::*;
    use std::path::Path;

    const NODES: &str = "QUORUMLOCK_TEST_TLS";

    #[tokio::test]
    async fn a_node_is_reached_over_tls_and_only_with_a_certificate_that_is_trusted() {
        let folder = tempfile::TempDir::new().unwrap();
        certify(folder.path());
        let (server, port) = encrypted(folder.path()).await;
        let url = format!("rediss://localhost:{port}");
        let said = child(&url, &folder.path().join("ca.pem"));
        assert!(said.contains("voted over TLS"), "{said}");
        let said = child(&url, &folder.path().join("other.pem"));
        assert!(said.contains("its certificate is not trusted here (bad signature)"), "a stranger's: {said}");
        let said = child(&url.replace("localhost", "127.0.0.1"), &folder.path().join("ca.pem"));
        assert!(said.contains("its certificate is for other host names"), "another name's: {said}");
        drop(server);
    }

    #[tokio::test]
    async fn a_system_certificate_that_cannot_be_read_does_not_keep_the_others_from_being_trusted() {
        let folder = tempfile::TempDir::new().unwrap();
        certify(folder.path());
        let (server, port) = encrypted(folder.path()).await;
        let (begin, end) = ("-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----");
        let good = std::fs::read_to_string(folder.path().join("ca.pem")).unwrap();
        let bundle = folder.path().join("bundle.pem");
        let broken = [format!("{begin}\nMAAA\n{end}\n"), format!("{begin}\n!\n{end}\n")];
        for broken in broken {
            std::fs::write(&bundle, format!("{broken}{good}")).unwrap();
            let said = child(&format!("rediss://localhost:{port}"), &bundle);
            assert!(said.contains("voted over TLS"), "{broken}: {said}");
            std::fs::write(&bundle, &broken).unwrap();
            let said = child(&format!("rediss://localhost:{port}"), &bundle);
            assert!(said.contains("none of the system's certificates can be read"), "{broken}: {said}");
        }
        drop(server);
    }

    #[tokio::test]
    async fn a_port_that_expects_tls_is_told_as_such() {
        let folder = tempfile::TempDir::new().unwrap();
        certify(folder.path());
        let (_server, port) = encrypted(folder.path()).await;
        let error = refused(&[format!("redis://127.0.0.1:{port}")]).await;
        assert!(error.is_unavailable() && error.to_string().contains("write rediss://"), "{error}");
    }

    fn child(url: &str, trusted: &Path) -> String {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tls::child_that_votes_over_tls", "--ignored", "--nocapture"])
            .env(NODES, url)
            .env("SSL_CERT_FILE", trusted)
            .env_remove("SSL_CERT_DIR")
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        String::from_utf8_lossy(&child.stdout).into_owned()
    }

    #[tokio::test]
    #[ignore = "the other half of a_node_is_reached_over_tls, which starts it"]
    async fn child_that_votes_over_tls() {
        let Ok(url) = std::env::var(NODES) else { return };
        match builder(&[url]).connect().await {
            Ok(quorum) => {
                quorum.lock("encrypted").acquire(SECOND).await.unwrap().release().await.unwrap();
                println!("voted over TLS");
            }
            Err(error) => println!("{error}"),
        }
    }

    /// A server that speaks TLS on a port of its own, beside the plain one.
    async fn encrypted(folder: &Path) -> (Server, u16) {
        let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        for _ in 0..20 {
            let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
            let server = Server::with(&[
                "--tls-port",
                &port.to_string(),
                "--tls-cert-file",
                &file("server.pem"),
                "--tls-key-file",
                &file("server.key"),
                "--tls-ca-cert-file",
                &file("ca.pem"),
                "--tls-auth-clients",
                "no",
            ])
            .await;
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return (server, port);
            }
        }
        panic!("redis-server does not listen on its TLS port");
    }

    /// An authority, a certificate of localhost signed by it, and an authority that signed nothing.
    fn certify(folder: &Path) {
        std::fs::write(folder.join("server.ext"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n").unwrap();
        let authority = |name: &str| {
            let (key, file) = (format!("{name}.key"), format!("{name}.pem"));
            openssl(
                folder,
                &[
                    "req",
                    "-x509",
                    "-newkey",
                    "rsa:2048",
                    "-nodes",
                    "-keyout",
                    &key,
                    "-out",
                    &file,
                    "-days",
                    "2",
                    "-subj",
                    "/CN=quorumlock test",
                ],
            );
        };
        authority("ca");
        authority("other");
        openssl(
            folder,
            &[
                "req",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-keyout",
                "server.key",
                "-out",
                "server.csr",
                "-subj",
                "/CN=localhost",
            ],
        );
        openssl(
            folder,
            &[
                "x509",
                "-req",
                "-in",
                "server.csr",
                "-CA",
                "ca.pem",
                "-CAkey",
                "ca.key",
                "-CAcreateserial",
                "-out",
                "server.pem",
                "-days",
                "2",
                "-extfile",
                "server.ext",
            ],
        );
    }

    fn openssl(folder: &Path, words: &[&str]) {
        let done = Command::new("openssl").args(words).current_dir(folder).output();
        let done = done.expect("openssl is there; install it (apt-get install openssl)");
        assert!(done.status.success(), "openssl {words:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
}
