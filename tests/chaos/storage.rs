//! A storage that checks fencing tokens: it refuses a write with a lower one than it has seen.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What the storage has taken, by name, in the order in which it did.
#[derive(Debug, Default)]
pub struct Storage {
    taken: Mutex<Vec<Vec<u64>>>,
}

impl Storage {
    /// Starts the storage and returns its port.
    pub async fn start(names: usize) -> (Arc<Self>, u16) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let storage = Arc::new(Self { taken: Mutex::new(vec![Vec::new(); names]) });
        let serving = storage.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, serving.clone()));
            }
        });
        (storage, port)
    }

    pub fn taken(&self) -> Vec<Vec<u64>> {
        self.taken.lock().unwrap().clone()
    }

    fn write(&self, name: usize, token: u64) -> bool {
        let mut taken = self.taken.lock().unwrap();
        let fresh = taken[name].last().is_none_or(|&last| last <= token);
        if fresh {
            taken[name].push(token);
        }
        fresh
    }
}

async fn serve(stream: TcpStream, storage: Arc<Storage>) -> Option<()> {
    let (from, mut to) = stream.into_split();
    let mut lines = BufReader::new(from).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let (name, token) = line.split_once(' ')?;
        let taken = storage.write(name.parse().ok()?, token.parse().ok()?);
        to.write_all(if taken { b"taken\n" } else { b"old\n" }).await.ok()?;
    }
    None
}

/// A worker's connection to the storage.
pub struct Writer(BufReader<TcpStream>);

impl Writer {
    pub async fn connect(port: u16) -> Self {
        Self(BufReader::new(TcpStream::connect(("127.0.0.1", port)).await.expect("the storage is up")))
    }

    /// Writes with a token; returns whether the storage took it.
    pub async fn write(&mut self, name: usize, token: u64) -> bool {
        let mut answer = String::new();
        self.0.get_mut().write_all(format!("{name} {token}\n").as_bytes()).await.expect("the storage is up");
        self.0.read_line(&mut answer).await.expect("the storage is up");
        answer == "taken\n"
    }
}
