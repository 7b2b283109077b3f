//! Credentials that a provider returns for each connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use quorumlock::{Credentials, CredentialsProvider, FetchingCredentials, NodeState, PasswordFile, Quorum};

use crate::common::server::Server;
use crate::common::{PATIENCE, builder, eventually, released};

const SECOND: Duration = Duration::from_secs(1);

async fn guarded(password: &str) -> Vec<Server> {
    let options = ["--requirepass", password];
    futures::future::join_all((0..3).map(|_| Server::with(&options))).await
}

/// Gives the servers another password, over connections with the old password. Ends the clients'
/// connections.
fn rotate(servers: &[Server], old: &str, new: &str) {
    for server in servers {
        let mut admin = Admin::of(server, old);
        assert_eq!(admin.ask(&format!("CONFIG SET requirepass {new}")), "+OK");
        // The clients' connections are of the second type once they have subscribed.
        for kind in ["normal", "pubsub"] {
            assert!(admin.ask(&format!("CLIENT KILL TYPE {kind}")).starts_with(':'));
        }
    }
}

/// A connection that has logged in.
struct Admin(std::io::BufReader<std::net::TcpStream>);

impl Admin {
    fn of(server: &Server, password: &str) -> Self {
        let stream = std::net::TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        let mut this = Self(std::io::BufReader::new(stream));
        assert_eq!(this.ask(&format!("AUTH {password}")), "+OK");
        this
    }

    fn ask(&mut self, line: &str) -> String {
        use std::io::{BufRead, Write};
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
        let mut reply = String::new();
        self.0.read_line(&mut reply).unwrap();
        reply.trim_end().to_owned()
    }
}

fn all_up(quorum: &Quorum) -> bool {
    quorum.nodes().iter().all(|node| node.state == NodeState::Up)
}

async fn lost_some(quorum: &Quorum) {
    eventually("they are down", async || quorum.nodes().iter().all(|node| node.state != NodeState::Up)).await;
}

#[tokio::test]
async fn a_password_that_is_rotated_in_its_file_needs_no_restart() {
    let servers = guarded("old-word").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "old-word\n").unwrap();
    let provider = PasswordFile::new(&file).unwrap();
    assert_eq!(format!("{provider:?}"), "PasswordFile { .. }");
    let builder = builder().nodes(servers.iter().map(Server::url)).max_ttl(Duration::ZERO).credentials(provider);
    let quorum = builder.connect().await.unwrap();
    eventually("all are up", async || all_up(&quorum)).await;
    rotate(&servers, "old-word", "new-word");
    lost_some(&quorum).await;
    let said = format!("{:?}", quorum.nodes());
    assert!(!said.contains("old-word") && !said.contains("new-word"), "{said}");
    std::fs::write(&file, "new-word\n").unwrap();
    eventually("all are up again", async || all_up(&quorum)).await;
    released(quorum.lock("rotated").acquire(PATIENCE).await.unwrap().release()).await;
    std::fs::remove_file(&file).unwrap();
    rotate(&servers, "new-word", "new-word");
    let told = async || format!("{:?}", quorum.nodes()).matches("No such file").count() == 3;
    eventually("each says why", told).await;
}

/// A provider that acts by its mood, and counts its calls.
#[derive(Clone, Default)]
struct Moody {
    mood: Arc<AtomicU8>,
    asked: Arc<AtomicUsize>,
}

impl CredentialsProvider for Moody {
    fn fetch<'a>(&'a self, node: &'a str) -> FetchingCredentials<'a> {
        self.asked.fetch_add(1, SeqCst);
        assert!(node.starts_with("redis://127.0.0.1:") && !node.contains('@'), "{node}");
        match self.mood.load(SeqCst) {
            0 => Box::pin(async { Ok(Credentials::user("locks", "word")) }),
            1 => Box::pin(async { Err("the vault is sealed".into()) }),
            2 => Box::pin(std::future::pending()),
            3 => Box::pin(async { panic!("within") }),
            _ => panic!("before"),
        }
    }
}

#[tokio::test]
async fn provider_that_fails_hangs_or_panics_is_reported_and_retried() {
    let server = Server::start().await;
    assert_eq!(server.command(&["ACL", "SETUSER", "locks", "on", ">word", "~*", "&*", "+@all"]), "OK");
    let provider = Moody::default();
    let builder = builder().node(server.url()).max_ttl(Duration::ZERO).credentials(provider.clone());
    let quorum = builder.node_timeout(SECOND / 2).connect().await.unwrap();
    for (mood, says) in [
        (1, "the credentials for this node could not be fetched: the vault is sealed"),
        (2, "the credentials for this node did not come within node_timeout"),
        (3, "could not be fetched: the provider panicked"),
        (4, "could not be fetched: the provider panicked"),
    ] {
        eventually("it is up", async || all_up(&quorum)).await;
        provider.mood.store(mood, SeqCst);
        let before = provider.asked.load(SeqCst);
        // If the machine stalls, the client may have no connection at this moment. The client asks
        // the provider anyway.
        server.command(&["CLIENT", "KILL", "USER", "locks"]);
        eventually(says, async || quorum.nodes()[0].state.to_string().contains(says)).await;
        eventually("it is asked again", async || provider.asked.load(SeqCst) > before + 1).await;
        provider.mood.store(0, SeqCst);
    }
    eventually("it is up", async || all_up(&quorum)).await;
    released(quorum.lock("again").acquire(PATIENCE).await.unwrap().release()).await;
}

#[tokio::test]
async fn an_address_that_has_a_password_is_not_asked_for() {
    let server = Server::with(&["--requirepass", "own"]).await;
    let provider = Moody::default();
    let url = format!("redis://:own@127.0.0.1:{}", server.port());
    let quorum = builder().node(url).max_ttl(Duration::ZERO).credentials(provider.clone()).connect().await.unwrap();
    assert_eq!((quorum.nodes().len(), provider.asked.load(SeqCst)), (1, 0));
    assert_eq!(format!("{:?}", Credentials::user("locks", "word")), "Credentials { user: Some(\"locks\"), .. }");
}
