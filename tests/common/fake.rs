//! Something on a port that is no Redis, or none that is well.

use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A server that answers each command with whatever bytes a function makes of it.
pub struct Fake {
    port: u16,
    _tasks: JoinSet<()>,
}

impl Fake {
    pub async fn start(answer: impl Fn(&[String]) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let answer = Arc::new(answer);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, answer.clone()));
            }
        });
        Self { port, _tasks: tasks }
    }

    /// A server that seems to be a Redis master, but for what it answers to scripts.
    pub async fn scripted(answer: &'static str) -> Self {
        Self::start(move |words| match words[0].to_uppercase().as_str() {
            "INFO" => {
                bulk(&format!("run_id:{answer:p}\r\nredis_version:7.0.0\r\nuptime_in_seconds:1000\r\nrole:master\r\n"))
            }
            "SCRIPT" => bulk(&"a".repeat(40)),
            "EVALSHA" | "EVAL" => answer.as_bytes().to_vec(),
            _ => b"+OK\r\n".to_vec(),
        })
        .await
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

/// A bulk string, as the protocol has it.
pub fn bulk(text: &str) -> Vec<u8> {
    format!("${}\r\n{text}\r\n", text.len()).into_bytes()
}

async fn serve<A: Fn(&[String]) -> Vec<u8>>(stream: TcpStream, answer: Arc<A>) {
    let mut stream = BufReader::new(stream);
    while let Some(words) = command(&mut stream).await {
        if stream.write_all(&answer(&words)).await.is_err() {
            return;
        }
    }
}

/// Reads `*count`, then for each word `$length` and the word.
async fn command(stream: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let mut words = Vec::new();
    for _ in 0..number(stream, '*').await? {
        let mut word = vec![0; number(stream, '$').await? + 2];
        stream.read_exact(&mut word).await.ok()?;
        words.push(String::from_utf8_lossy(&word).trim_end().to_owned());
    }
    (!words.is_empty()).then_some(words)
}

async fn number(stream: &mut BufReader<TcpStream>, kind: char) -> Option<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    line.trim_end().strip_prefix(kind)?.parse().ok()
}
