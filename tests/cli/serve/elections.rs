//! Elections by the agent: leaders, their values, and events.

use serde_json::{Value, json};

use super::super::until;
use super::{Agent, Client, HOUR};
use crate::common::servers;

/// The next event, without comments: its kind, and its data.
fn event(client: &mut Client) -> (String, Value) {
    loop {
        if let Some(kind) = client.line().strip_prefix("event: ") {
            let data = client.line();
            return (kind.to_owned(), serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap());
        }
    }
}

fn campaign(client: &mut Client, value: &str) -> Value {
    let body = json!({ "value": value, "timeout_ms": HOUR });
    let (status, office) = client.asks("POST", "/v1/elections/jobs%2Fleader", body);
    assert_eq!(status, 200, "{office}");
    office
}

#[tokio::test]
async fn followers_see_each_leader_and_its_values() {
    let servers = servers(3).await;
    let agent = Agent::start(&servers, &[]);
    let (mut leader, mut follower) = (agent.client(), agent.client());
    assert_eq!(leader.asks("GET", "/v1/elections/jobs%2Fleader", ""), (200, json!({ "leader": null })));
    follower.sends("GET", "/v1/elections/jobs%2Fleader/events", "");
    assert_eq!(follower.head().0, 200);
    assert_eq!(event(&mut follower).0, "none");
    let office = campaign(&mut leader, "10.0.0.7:8080");
    assert_eq!(office["names"], json!(["jobs/leader"]), "{office}");
    let next = |follower: &mut Client, value: &str| {
        until("the value is sent", || event(follower).1["value"] == value);
    };
    next(&mut follower, "10.0.0.7:8080");
    let (id, token) = (office["id"].as_str().unwrap(), office["token"].clone());
    let path = format!("/v1/elections/jobs%2Fleader/{id}");
    // Too few nodes may answer in time if the machine stalls.
    until("the value is stored", || leader.asks("PUT", &path, json!({ "value": "new" })).0 == 200);
    next(&mut follower, "new");
    let (status, told) = agent.client().asks("GET", "/v1/elections/jobs%2Fleader", "");
    assert_eq!((status, &told["leader"]["value"], &told["leader"]["token"]), (200, &json!("new"), &token));
    assert_eq!(leader.asks("PUT", &format!("/v1/elections/other/{id}"), json!({ "value": "x" })).0, 404);
    let mut second = agent.client();
    let body = json!({ "value": "y", "timeout_ms": 0 });
    assert_eq!(second.asks("POST", "/v1/elections/jobs%2Fleader", body).0, 409);
    drop(leader);
    campaign(&mut second, "10.0.0.8:8080");
    next(&mut follower, "10.0.0.8:8080");
    drop(second);
    // The agent checks from time to time whether anybody leads.
    until("the end is sent", || event(&mut follower).0 == "none");
}
