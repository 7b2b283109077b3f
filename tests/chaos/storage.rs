//! A storage that checks fencing tokens: it refuses a write whose token is lower than an earlier
//! token.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::record::Write;
use crate::told::clock;

/// The highest token of each name, and all writes in the order of their arrival.
#[derive(Debug)]
pub struct Storage(Mutex<(Vec<u64>, Vec<Write>)>);

impl Storage {
    /// Starts the storage and returns its port.
    pub async fn start(names: usize) -> (Arc<Self>, u16) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let storage = Arc::new(Self(Mutex::new((vec![0; names], Vec::new()))));
        let serving = storage.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, serving.clone()));
            }
        });
        (storage, port)
    }

    pub fn writes(&self) -> Vec<Write> {
        self.0.lock().unwrap().1.clone()
    }

    fn write(&self, name: usize, token: u64) -> bool {
        let (highest, writes) = &mut *self.0.lock().unwrap();
        let taken = token >= highest[name];
        highest[name] = token.max(highest[name]);
        writes.push(Write { at: clock(), name, token, taken });
        taken
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

    /// Writes with a token, and waits until the storage has accepted or refused the write.
    pub async fn write(&mut self, name: usize, token: u64) {
        let mut answer = String::new();
        self.0.get_mut().write_all(format!("{name} {token}\n").as_bytes()).await.expect("the storage is up");
        self.0.read_line(&mut answer).await.expect("the storage is up");
    }
}
