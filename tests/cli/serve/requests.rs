//! Wrong requests, and bounds of requests.

use serde_json::{Value, json};

use super::super::{Background, until};
use super::{Agent, Client, by_shell, path, request, serve, wanted};
use crate::common::servers;

#[tokio::test]
async fn malformed_requests_are_refused_and_the_connection_stays() {
    let servers = servers(3).await;
    let agent = Agent::start(&servers, &[]);
    let mut client = agent.client();
    let lock = client.acquires("a", Value::Null);
    let unknown = "/v1/locks/0b64d2f5-3a39-4b12-9d1c-6a4c7b1f7f11";
    let post = |body: &str| ("POST", "/v1/locks".to_owned(), body.to_owned());
    for ((method, path, body), status, told) in [
        (post("{\"names\": [\"b\"]"), 400, "EOF while parsing"),
        (post("{\"names\": [\"b\"], \"color\": 1}"), 400, "unknown field `color`"),
        (post("{\"names\": [\"\"]}"), 400, "name"),
        (post("{\"names\": [\"b\"], \"ttl_ms\": 1}"), 400, "ttl"),
        (post("{\"names\": [\"b\"], \"connection\": false}"), 400, "needs keep_ms"),
        (post("{\"names\": [\"b\"], \"connection\": false, \"keep_ms\": 3600001}"), 400, "use 100 to 3600000"),
        (post("{\"names\": [\"redis://user:secret@eu\"]}"), 400, "address with a login"),
        (post(""), 400, "missing field `names`"),
        (post("[[\"b\"]]"), 400, "no JSON object"),
        (("PATCH", "/v1/locks".into(), String::new()), 405, "method"),
        (("GET", "/v1/locks".into(), String::new()), 405, "method"),
        (("GET", "/v2/locks".into(), String::new()), 404, "no_such_path"),
        (("GET", format!("{}?wait=1", path(&lock)), String::new()), 400, "wait_ms"),
        (("GET", format!("{}?wait_ms=x", path(&lock)), String::new()), 400, "wait_ms"),
        (("DELETE", format!("{}?undo=yes", path(&lock)), String::new()), 400, "undo"),
        (("GET", unknown.into(), String::new()), 404, "unknown"),
        (("GET", "/v1/locks/%FF".into(), String::new()), 404, "no_such_path"),
        (("DELETE", "/v1/locks/no-id".into(), String::new()), 404, "unknown"),
        (("POST", "/v1/elections/".into(), "{}".into()), 400, "name"),
    ] {
        let (code, answer) = client.asks(method, &path, &body);
        assert!(code == status && answer.to_string().contains(told), "{method} {path} {body}: {code} {answer}");
        assert!(!answer.to_string().contains("secret"), "{answer}");
    }
    client.writes(b"POST /v1/locks HTTP/1.1\r\nHost: a\r\nContent-Length: 15\r\n\r\n{\"names\": [\"\xff\"]");
    assert_eq!(client.hears().0, 400, "it is no UTF-8");
    // A lock on this connection would end with the request.
    let body = wanted("c", Value::Null).to_string();
    let mut closing = agent.client();
    closing.writes(request("POST", "/v1/locks", "Connection: close\r\n", &body));
    let (status, told) = closing.hears();
    assert!(status == 400 && told.to_string().contains("Connection: close"), "{told}");
    assert_eq!(client.asks("GET", &path(&lock), "").0, 200);
}

#[tokio::test]
async fn large_bodies_are_refused() {
    let servers = servers(1).await;
    let agent = Agent::start(&servers, &[]);
    let mut client = agent.client();
    client.writes("POST /v1/locks HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000000\r\n\r\n");
    assert_eq!(client.head().0, 413);
    // A body in chunks has no Content-Length.
    let mut client = agent.client();
    client.writes("POST /v1/locks HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n10001\r\n");
    client.writes("x".repeat(0x10001) + "\r\n0\r\n\r\n");
    assert_eq!(client.head().0, 413);
    let mut client = agent.client();
    client.writes(format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", "x".repeat(60_000)));
    assert!(matches!(client.head().0, 404 | 431));
}

/// Some libraries send the head and the body of a request in two writes.
#[tokio::test]
async fn refusal_comes_after_the_body_and_leaves_the_connection_open() {
    let servers = servers(3).await;
    let agent = Agent::start(&servers, &[]);
    let mut client = agent.client();
    let lock = client.acquires("a", Value::Null);
    let head = |line: &str| format!("{line} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n");
    for (line, status) in [
        ("POST /v2/locks", 404),
        ("PATCH /v1/locks", 405),
        ("POST /v1/locks/no-id/keep", 404),
        ("GET /v1/locks/no-id?wait=1", 404),
        ("DELETE /v1/locks/no-id", 404),
    ] {
        client.writes(head(line));
        client.writes("{}");
        assert_eq!(client.hears().0, status, "{line}");
    }
    assert_eq!(client.asks("GET", &path(&lock), "").0, 200);
    // The rest of each body is missing, so each request counts as slow.
    let slow = ["POST /v2/locks", "PATCH /v1/locks", "GET /healthz"].map(|line| {
        let mut slow = agent.client();
        slow.writes(head(line) + "{");
        slow
    });
    for mut slow in slow {
        assert_eq!(slow.head().0, 408);
    }
}

#[tokio::test]
async fn slow_requests_end() {
    let servers = servers(1).await;
    let agent = Agent::start(&servers, &[]);
    let (mut head, mut body, mut holder) = (agent.client(), agent.client(), agent.client());
    let lock = holder.acquires("a", Value::Null);
    head.writes("GET /healthz HTTP/1.1\r\nHo");
    body.writes("POST /v1/locks HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{");
    // These two limits take ten seconds of real time. An idle connection has no such limit.
    assert_eq!(head.rest(), "");
    assert_eq!(body.head().0, 408);
    assert_eq!(holder.asks("GET", &path(&lock), "").0, 200);
}

#[tokio::test]
async fn bounds_are_told_by_name() {
    let servers = servers(3).await;
    let agent = Agent::start(&servers, &["--max-clients", "3", "--max-locks", "3", "--max-client-locks", "2"]);
    until("the first client has gone", || agent.counts("clients") == 1);
    let mut client = agent.client();
    let lock = client.acquires("a", Value::Null);
    client.acquires("b", Value::Null);
    let refused = |client: &mut Client, more| {
        let (status, told) = client.asks("POST", "/v1/locks", wanted("c", more));
        (status, told["error"].clone(), told["bound"].clone())
    };
    assert_eq!(refused(&mut client, Value::Null), (429, json!("too_many"), json!("max-client-locks")));
    let untied = json!({ "keep_ms": 60_000, "connection": false });
    client.acquires("untied", untied.clone());
    assert_eq!(refused(&mut client, untied.clone()), (429, json!("too_many"), json!("max-locks")));
    client.asks("DELETE", &path(&lock), "");
    client.acquires("c", untied);
    let mut others = [agent.client(), agent.client()];
    others.iter_mut().for_each(|other| assert_eq!(other.asks("GET", "/healthz", "").0, 200));
    let mut third = agent.client();
    let (status, told) = third.asks("GET", "/healthz", "");
    assert_eq!((status, &told["bound"]), (503, &json!("max-clients")), "{told}");
    assert_eq!(third.rest(), "");
    drop(others);
    until("there is room", || agent.client().asks("GET", "/healthz", "").0 == 200);
}

/// The status of a request for these names, and the bound in the answer.
fn bound_of(client: &mut Client, names: &[&str], more: Value) -> (u16, Value) {
    let mut body = wanted("", more);
    body["names"] = json!(names);
    let (status, told) = client.asks("POST", "/v1/locks", body);
    (status, told["bound"].clone())
}

#[tokio::test]
async fn agent_bounds_count_each_name_and_each_user() {
    let servers = servers(3).await;
    let bounds = ["--max-client-locks", "3", "--max-user-locks", "4", "--max-user-clients", "3", "--max-streams", "1"];
    let agent = Agent::start(&servers, &bounds);
    until("the first client has gone", || agent.counts("clients") == 1);
    let (mut client, mut other) = (agent.client(), agent.client());
    assert_eq!(bound_of(&mut client, &["a", "b", "c", "d"], Value::Null), (429, json!("max-client-locks")));
    assert_eq!(bound_of(&mut client, &["a", "b", "c"], Value::Null), (200, Value::Null));
    let untied = json!({ "keep_ms": 3_600_000, "connection": false });
    assert_eq!(bound_of(&mut other, &["d", "e"], untied.clone()), (429, json!("max-user-locks")));
    assert_eq!(bound_of(&mut other, &["d"], untied), (200, Value::Null));
    client.sends("GET", "/v1/elections/x/events", "");
    assert_eq!(client.head().0, 200);
    let (status, told) = other.asks("GET", "/v1/elections/x/events", "");
    assert_eq!((status, &told["bound"]), (429, &json!("max-streams")), "{told}");
    let mut third = agent.client();
    assert_eq!(third.asks("GET", "/healthz", "").0, 200);
    let (status, told) = agent.client().asks("GET", "/healthz", "");
    assert_eq!((status, &told["bound"]), (503, &json!("max-user-clients")), "{told}");
}

#[tokio::test]
async fn connection_too_many_may_still_release() {
    let servers = servers(3).await;
    let agent = Agent::start(&servers, &["--max-clients", "1"]);
    let mut client = agent.client();
    until("it is let in", || {
        client = agent.client();
        client.asks("GET", "/healthz", "").0 == 200
    });
    let body = json!({ "name": "report", "period_ms": 3_300_000 });
    let (status, job) = client.asks("POST", "/v1/once", &body);
    assert_eq!(status, 200, "{job}");
    assert_eq!(agent.client().asks("GET", &path(&job), "").0, 503);
    let undone = agent.client().asks("DELETE", &(path(&job) + "?undo=1"), "");
    assert_eq!(undone, (200, json!({ "released": true })));
    let (status, again) = client.asks("POST", "/v1/once", &body);
    assert_eq!(status, 200, "{again}");
}

#[tokio::test]
async fn clients_are_as_many_as_files_allow() {
    let servers = servers(1).await;
    let folder = tempfile::tempdir().unwrap();
    let mut agent = Background::start(&mut by_shell("ulimit -n 300; exec \"$@\"", &serve(&servers, folder.path())));
    agent.says("--max-clients is 44");
    agent.says("listening on");
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let servers = servers(3).await;
    let agent = Agent::start(&servers, &[]);
    let mut client = agent.client();
    let one = request("POST", "/v1/locks", "", &wanted("a", Value::Null).to_string());
    client.writes(one + &request("GET", "/v1/locks/x", "", "") + &request("GET", "/healthz", "", ""));
    assert_eq!([client.hears().0, client.hears().0, client.hears().0], [200, 404, 200]);
}

#[tokio::test]
async fn agent_metrics_count_its_locks() {
    let servers = servers(3).await;
    let agent = Agent::start(&servers, &[]);
    let mut client = agent.client();
    client.acquires("a", Value::Null);
    let (status, text) = client.asks("GET", "/metrics", "");
    let text = text.as_str().unwrap();
    assert!(status == 200 && text.contains("quorumlock_locks_held"), "{text}");
    assert!(text.contains("quorumlock_agent_locks 1") && text.contains("quorumlock_agent_clients"), "{text}");
}
