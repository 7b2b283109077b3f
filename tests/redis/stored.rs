//! The keys that a node stores, as redis-cli shows them.

use std::time::Duration;

use quorumlock::node::{Name, Verb};

use crate::common::asked::Asked;
use crate::common::node::{ask_all, real};
use crate::common::server::Server;

const SECOND: Duration = Duration::from_secs(1);

fn asked(verb: Verb) -> Asked {
    let names = [Name::new("quorumlock:", "orders/42").unwrap()].into();
    let owner = "app-7/1234/0123456789abcdef/17".into();
    Asked { verb, ballot: 9, owner, ttl: 60 * SECOND, count: 1, ..Asked::inspect(names) }
}

/// The fields of the lock, in the order of their names.
fn fields(server: &Server) -> Vec<String> {
    let stored = server.command(&["HGETALL", "quorumlock:{orders/42}"]);
    let words: Vec<_> = stored.split(' ').collect();
    let mut fields: Vec<_> = words.chunks(2).map(|field| field.join("=")).collect();
    fields.sort_unstable();
    fields
}

#[tokio::test]
async fn a_plain_lock_is_a_small_hash_and_of_two_fields_once_released() {
    let server = Server::start().await;
    let node = real(&server).await;
    assert!(ask_all(&node, &[asked(Verb::Claim)]).await[0].is_ok());
    let until = format!("until={}", server.ends("orders/42"));
    let owner = "owner=app-7/1234/0123456789abcdef/17";
    assert_eq!(fields(&server), ["ballot=9", "count=1", "fence=9", "kind=0", owner, "ttl=60000", &until]);
    let bytes: u32 = server.command(&["MEMORY", "USAGE", "quorumlock:{orders/42}"]).parse().unwrap();
    assert!(bytes <= 320, "{bytes} bytes");
    assert!(ask_all(&node, &[Asked { token: 9, ..asked(Verb::Release) }]).await[0].is_ok());
    assert_eq!(fields(&server), ["fence=9", "over=9"]);
}
