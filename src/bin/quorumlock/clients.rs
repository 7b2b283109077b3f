//! `quorumlock clients`: the clients that are connected to the nodes, by their connections' names.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};

use crate::cli::Clients;
use crate::duration::show;
use crate::failure::{Failure, Outcome, UNAVAILABLE};
use crate::output::{self, milliseconds, red, yellow};
use crate::raw_connection::login::{Failed, Open};
use crate::raw_connection::target::Target;
use crate::redact::hidden;
use crate::settings::{ONLOOKER, Settings};
use crate::status::NODE_TIMEOUT;
use crate::words::{counted, harmless};

/// How many bytes one server's list of connections may have: enough for some 50,000 connections.
const LONGEST: usize = 16 << 20;
/// The time limit for all requests to one node, including name resolution.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) async fn clients(args: Clients) -> Outcome {
    let settings = Settings::with_nodes(&args.nodes)?;
    // `open` checks the addresses. The `Quorum` is dropped at once, before it connects.
    let nodes = settings.onlooker()?.open()?.nodes();
    let own = settings.own_list(nodes.iter().map(|node| &*node.name)).hash().to_string();
    let (tls, step) = (settings.encryption.own(), settings.node_timeout.unwrap_or(NODE_TIMEOUT));
    let addresses = settings.logged_in();
    let asked = addresses.iter().map(|address| ask(Target::parse(address, &tls), step));
    let lists = output::telling(join_all(asked), async { "waiting for the nodes".to_owned() }).await;
    let seen = Seen { nodes: nodes.iter().map(|node| node.node.to_string()).zip(lists).collect(), own };
    let text = if args.json { seen.json().to_string() } else { seen.lines().join("\n") };
    output::say(&text).await?;
    Ok(ExitCode::from(if seen.answered() == 0 { UNAVAILABLE } else { 0 }))
}

/// Asks one node for its connections. Returns the connections of this library's clients.
async fn ask(target: Result<Target, Failure>, step: Duration) -> Result<Vec<Connection>, String> {
    let target = target.map_err(|_| "its address is no URL".to_owned())?;
    let asked = tokio::task::spawn_blocking(move || {
        let mut open = Open::to(&target, step)?;
        let said = open.connection.ask_at_length(&["CLIENT", "LIST"], LONGEST);
        let said = said.map_err(|error| Failed::asking(&target, &error))?;
        said.text().map_err(|why| Failed::refused("CLIENT", why))
    });
    let list = match tokio::time::timeout(PATIENCE, asked).await {
        Err(_) => return Err("no answer in time".to_owned()),
        Ok(Err(error)) => return Err(error.to_string()),
        Ok(Ok(list)) => list.map_err(|failed| why(&failed))?,
    };
    Ok(list.lines().filter_map(Connection::parse).filter(|connection| connection.name != ONLOOKER).collect())
}

/// Why a node does not list its clients, and what to do.
fn why(failed: &Failed) -> String {
    match failed.why.starts_with("NOPERM") {
        true => "its user may not list clients: ACL SETUSER the user with +client|list".to_owned(),
        false => hidden(&failed.why),
    }
}

/// A connection of this library to one node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Connection {
    /// The client's id: `HOST/PID/UUID`.
    client: String,
    name: String,
    version: String,
    list: String,
    hash: String,
    /// The address that the server sees, without the port.
    from: String,
    age: Duration,
}

impl Connection {
    /// Parses a line of CLIENT LIST. `None` for connections of other programs.
    fn parse(line: &str) -> Option<Self> {
        let field = |wanted: &str| {
            line.split(' ')
                .find_map(|part| part.split_once('=').filter(|(key, _)| *key == wanted).map(|(_, value)| value))
        };
        // The name is `NAME:VERSION:LIST:HASH:CLIENT`. Only LIST may have colons.
        let mut parts = field("name")?.rsplitn(2, ':');
        let client = parts.next().filter(|client| client.matches('/').count() >= 2)?;
        let (before, hash) = parts.next()?.rsplit_once(':')?;
        let mut parts = before.splitn(3, ':');
        let (name, version, list) = (parts.next()?, parts.next()?, parts.next()?);
        let address = field("addr").unwrap_or_default();
        let from = address.rsplit_once(':').map_or(address, |(host, _)| host);
        Some(Self {
            client: harmless(client),
            name: harmless(name),
            version: harmless(version),
            list: harmless(list),
            hash: harmless(hash),
            from: harmless(from),
            age: Duration::from_secs(field("age")?.parse().ok()?),
        })
    }
}

/// The connections that the nodes list.
struct Seen {
    /// Each node's address, and its connections or the reason why it does not list them.
    nodes: Vec<(String, Result<Vec<Connection>, String>)>,
    /// The hash of the list of nodes in this command's settings.
    own: String,
}

/// One client, with its connections to all nodes.
struct Client<'a> {
    first: &'a Connection,
    nodes: BTreeSet<usize>,
    from: BTreeSet<&'a str>,
    age: Duration,
}

impl Seen {
    fn answered(&self) -> usize {
        self.nodes.iter().filter(|(_, said)| said.is_ok()).count()
    }

    /// The clients, sorted by their names, lists and ids.
    fn clients(&self) -> Vec<Client<'_>> {
        let mut clients = BTreeMap::new();
        for (node, (_, said)) in self.nodes.iter().enumerate() {
            for connection in said.iter().flatten() {
                let key = (&connection.name, &connection.list, &connection.client);
                let new =
                    || Client { first: connection, nodes: BTreeSet::new(), from: BTreeSet::new(), age: connection.age };
                let client: &mut Client<'_> = clients.entry(key).or_insert_with(new);
                client.nodes.insert(node);
                client.from.insert(&connection.from);
                client.age = client.age.max(connection.age);
            }
        }
        clients.into_values().collect()
    }

    fn lines(&self) -> Vec<String> {
        let (clients, answered) = (self.clients(), self.answered());
        let rows = self.rows(&clients);
        let mut lines = Vec::new();
        if !rows.is_empty() {
            lines = output::table(&["client", "from", "name", "list", "version", "for", "nodes"], &rows);
            lines.push(String::new());
        }
        let silent = self.nodes.iter().filter_map(|(node, said)| Some((&**node, said.as_ref().err()?.clone())));
        lines.extend(output::same_once(silent).into_iter().map(|(nodes, why)| yellow(&format!("{nodes}: {why}"))));
        lines.push(match answered {
            0 => red("no node lists its clients"),
            _ => {
                format!("{} on {} of {}", counted(clients.len(), "client"), answered, counted(self.nodes.len(), "node"))
            }
        });
        lines
    }

    /// Makes the rows of the table. Clients of one process whose rows would be equal share a row.
    /// This row shows how many clients share it, and the age of the oldest one.
    fn rows(&self, clients: &[Client<'_>]) -> Vec<Vec<String>> {
        let mut rows = BTreeMap::new();
        for client in clients {
            let Connection { name, list, version, hash, .. } = client.first;
            let from = client.from.iter().copied().collect::<Vec<_>>().join(", ");
            let looks = (name, list, client.process(), from, version, *hash == self.own, client.nodes.len());
            let (count, oldest) = rows.entry(looks).or_insert((0, Duration::ZERO));
            *count += 1;
            *oldest = client.age.max(*oldest);
        }
        let answered = self.answered();
        let rows = rows.into_iter().map(|((name, list, process, from, version, is_own, nodes), (count, oldest))| {
            let process = if count > 1 { format!("{process} x{count}") } else { process.to_owned() };
            let list = if is_own { list.clone() } else { red(&format!("{list}, another list")) };
            let on = format!("{nodes} of {answered}");
            let on = if nodes < answered { yellow(&on) } else { on };
            vec![process, from, name.clone(), list, version.clone(), show(oldest), on]
        });
        rows.collect()
    }

    fn json(&self) -> Value {
        let node = |(node, said): &(String, Result<Vec<Connection>, String>)| json!({ "node": node, "why": said.as_ref().err() });
        let nodes: Vec<_> = self.nodes.iter().map(node).collect();
        let clients: Vec<_> = self.clients().iter().map(|client| client.json(self)).collect();
        json!({ "clients": clients, "nodes": nodes })
    }
}

impl Client<'_> {
    /// The host and the pid of the process.
    fn process(&self) -> &str {
        self.first.client.rsplit_once('/').map_or(&*self.first.client, |(process, _)| process)
    }

    fn json(&self, seen: &Seen) -> Value {
        let Connection { client, name, list, version, hash, .. } = self.first;
        let (host, pid) = self.process().rsplit_once('/').unwrap_or((self.process(), ""));
        json!({
            "client": client,
            "host": host,
            "pid": pid.parse::<u32>().ok(),
            "from": self.from,
            "name": name,
            "list": list,
            "this_list": *hash == seen.own,
            "version": version,
            "connected_ms": milliseconds(self.age),
            "nodes": self.nodes.iter().map(|node| &*seen.nodes[*node].0).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "id=7 addr=10.0.0.9:5123 laddr=10.0.0.1:6379 fd=8 name=jobs:0.1.0:a:b:77fe:web-1/4711/0c9d age=61 idle=0 flags=P";

    #[test]
    fn a_connection_is_read_from_its_name_and_address() {
        let connection = Connection::parse(LINE).unwrap();
        let Connection { client, name, version, list, hash, from, age } = connection;
        assert_eq!((&*client, &*name, &*version, &*list, &*hash), ("web-1/4711/0c9d", "jobs", "0.1.0", "a:b", "77fe"));
        assert_eq!((&*from, age), ("10.0.0.9", Duration::from_secs(61)));
    }

    #[test]
    fn connections_of_other_programs_are_left_out() {
        for name in ["", "quorumlock", "a:b", "a:b:c", "a:b:c:d", "a:b:c:d:e", "sidekiq:1:2:web"] {
            assert_eq!(Connection::parse(&LINE.replace("jobs:0.1.0:a:b:77fe:web-1/4711/0c9d", name)), None, "{name}");
        }
    }

    #[test]
    fn clients_of_one_process_that_look_the_same_are_one_row() {
        let client = |id: &str, list: &str, age: &str| {
            Connection::parse(&LINE.replace("0c9d", id).replace("a:b", list).replace("age=61", age)).unwrap()
        };
        let clients = vec![client("0", "a", "age=61"), client("1", "a", "age=300"), client("2", "b", "age=9")];
        let seen = Seen { nodes: vec![("one".to_owned(), Ok(clients))], own: "77fe".to_owned() };
        let lines = seen.lines();
        assert!(lines[1].starts_with("web-1/4711 x2  ") && lines[1].contains("5 min"), "{lines:?}");
        assert!(lines[2].starts_with("web-1/4711     "), "{lines:?}");
        assert_eq!(lines[3..], ["", "3 clients on 1 of 1 node"]);
        assert_eq!(seen.json()["clients"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn a_client_of_several_nodes_is_one_row() {
        let connection = Connection::parse(LINE).unwrap();
        let nodes = ["one", "two"].map(|node| (node.to_owned(), Ok(vec![connection.clone()])));
        let seen = Seen {
            nodes: nodes.into_iter().chain([("three".to_owned(), Err("down".to_owned()))]).collect(),
            own: "77fe".to_owned(),
        };
        let lines = seen.lines();
        assert!(lines[1].contains("web-1/4711") && lines[1].contains("2 of 2"), "{lines:?}");
        assert!(!lines[1].contains("another list"), "{lines:?}");
        assert_eq!(seen.json()["clients"][0]["nodes"], json!(["one", "two"]));
        let lines = Seen { own: "other".to_owned(), ..seen }.lines();
        assert!(lines[1].contains("a:b, another list"), "{lines:?}");
        assert_eq!(lines[3..], ["three: down", "1 client on 2 of 3 nodes"]);
    }
}
