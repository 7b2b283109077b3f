//! The client library (transport) that sends the commands.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorumlock::{Quorum, Transport};

use crate::common::fake::{Fake, well};
use crate::common::{PATIENCE, eventually, released, servers};

/// The commands that a client sends until it is connected. fred sends some of its own.
async fn greeting_of(transport: Transport) -> Vec<String> {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let all = heard.clone();
    let fake = Fake::start(move |words| {
        all.lock().unwrap().push(words[..words.len().min(2)].join(" "));
        well(words)
    })
    .await;
    let quorum = Quorum::builder().transport(transport).node(fake.url()).max_ttl(Duration::ZERO);
    let quorum = quorum.connect_timeout(PATIENCE).connect().await.unwrap();
    quorum.shutdown(Duration::from_secs(1)).await;
    let heard = heard.lock().unwrap();
    heard.clone()
}

#[tokio::test]
async fn the_transport_that_is_chosen_is_the_one_that_is_used() {
    for &transport in Transport::ALL {
        let greeting = greeting_of(transport).await;
        let of_fred = greeting.iter().any(|command| command == "CLIENT ID");
        assert_eq!(of_fred, transport == Transport::Fred, "{transport}: {greeting:?}");
        assert!(greeting[0] == "HELLO 3" && greeting.iter().any(|command| command == "CLIENT SETNAME"), "{greeting:?}");
    }
}

/// Clients of one lock may use different transports.
#[tokio::test]
async fn a_lock_passes_between_clients_over_different_transports() {
    let servers = servers(3).await;
    let mut clients = Vec::new();
    for &transport in Transport::ALL.iter().chain(Transport::ALL) {
        let builder = crate::common::unguarded(&servers).transport(transport);
        clients.push(builder.connect().await.unwrap());
    }
    for turn in 0..4 {
        let mut held = Some(clients[turn % clients.len()].lock("passed").acquire(PATIENCE).await.unwrap());
        let next = clients[(turn + 1) % clients.len()].lock("passed");
        let waiting = tokio::spawn(async move { next.acquire(PATIENCE).await });
        let other = clients[(turn + 2) % clients.len()].lock("passed");
        eventually("somebody waits", async || matches!(other.try_acquire().await, Ok(None))).await;
        let token = held.as_ref().unwrap().token();
        released(held.take().unwrap().release()).await;
        let guard = waiting.await.unwrap().unwrap();
        assert!(guard.token() > token);
        released(guard.release()).await;
    }
}
