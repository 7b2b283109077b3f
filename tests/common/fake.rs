//! A fake server: it plays a Redis master, a server with a fault, or another program.

use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A server that answers each command with the bytes that a function returns.
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

    /// A server that acts as a Redis master, except that it answers `answer` to scripts.
    pub async fn scripted(answer: &'static str) -> Self {
        Self::start(move |words| match &*words[0] {
            "EVALSHA" | "EVAL" if !is_hello(words) => answer.as_bytes().to_vec(),
            _ => well(words),
        })
        .await
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

/// The replies of a Redis master to the commands that a client sends before its first script.
pub fn well(words: &[String]) -> Vec<u8> {
    match &*words[0] {
        "HELLO" => b"%1\r\n$5\r\nproto\r\n:3\r\n".to_vec(),
        "INFO" => bulk("run_id:fake\r\nredis_version:7.0.0\r\nuptime_in_seconds:1000\r\nrole:master\r\n"),
        "SCRIPT" => bulk(&"a".repeat(40)),
        "EVALSHA" | "EVAL" if is_hello(words) => hello(words),
        "SUBSCRIBE" => [b">3\r\n".to_vec(), bulk("subscribe"), bulk(&words[1]), b":1\r\n".to_vec()].concat(),
        _ => b"+OK\r\n".to_vec(),
    }
}

/// Whether a script call is a hello.
pub fn is_hello(words: &[String]) -> bool {
    words.iter().any(|word| word.ends_with("node:seen"))
}

/// The record of a server that never forgot anything. The list of the client that asks is in force.
fn hello(words: &[String]) -> Vec<u8> {
    let said = |argument: usize| words.get(5 + argument).map_or("", String::as_str);
    let (list, says) = (said(4), said(5));
    let age = "1000000";
    let record = ["hello", "fake", "fake", age, "0", "0", "1", "init", list, age, age, says];
    let parts: Vec<_> = record.iter().flat_map(|part| bulk(part)).collect();
    [format!("*3\r\n+1 0 1 fake\r\n$0\r\n\r\n*{}\r\n:1\r\n", 1 + record.len()).into_bytes(), parts].concat()
}

/// A bulk string of the Redis protocol.
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

/// Reads one command. It is either one line of words, as fred sends HELLO, or a line `*count`. In
/// the second form, two lines follow for each word: `$length`, and the word.
async fn command(stream: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let line = line(stream).await?;
    let Some(count) = line.strip_prefix('*') else {
        return Some(line.split(' ').map(str::to_owned).collect());
    };
    let mut words = Vec::new();
    for _ in 0..count.parse::<usize>().ok()? {
        let length: usize = self::line(stream).await?.strip_prefix('$')?.parse().ok()?;
        let mut word = vec![0; length + 2];
        stream.read_exact(&mut word).await.ok()?;
        words.push(String::from_utf8_lossy(&word).trim_end().to_owned());
    }
    (!words.is_empty()).then_some(words)
}

async fn line(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    let length = stream.read_line(&mut line).await.ok()?;
    (length > 0).then(|| line.trim_end().to_owned())
}
