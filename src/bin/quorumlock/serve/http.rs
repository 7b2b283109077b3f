//! Routes HTTP requests by path and method, and makes the answers.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited, StreamBody};
use hyper::body::{Body as _, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Version};
use percent_encoding::percent_decode_str;
use quorumlock::{NodeState, NodeStatus};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;
use uuid::Uuid;

use super::agent::{Agent, Client};
use super::browsers;
use super::busy::{Busy, Requests};
use super::elections;
use super::errors::Refusal;
use super::locks::{Answer, Call};
use super::requests::{Nothing, ValueRequest};
use super::table::Missing;
use crate::status;

/// The longest body of a request.
const LONGEST_BODY: usize = 64 * 1024;
/// How long the body of a request may take.
const SLOWEST_BODY: Duration = Duration::from_secs(10);

pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The operation that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    Lock,
    Look,
    Keep,
    Release,
    Once,
    Campaign,
    Proclaim,
    Leader,
    Events,
    Status,
    Metrics,
    Health,
}

/// A path and a method, and the statuses of the answers. Parts of a path in braces are parameters.
struct Route {
    method: Method,
    path: &'static str,
    want: Want,
    /// The statuses besides those of [`ANY`].
    statuses: &'static [u16],
}

/// Statuses that each request may get. (Bad HTTP gets another status from hyper, and no JSON.)
const ANY: [u16; 6] = [400, 403, 408, 413, 500, 503];

static ROUTES: [Route; 12] = {
    const fn route(method: Method, path: &'static str, want: Want, statuses: &'static [u16]) -> Route {
        Route { method, path, want, statuses }
    }
    [
        route(Method::POST, "/v1/locks", Want::Lock, &[200, 409, 410, 429]),
        route(Method::GET, "/v1/locks/{id}", Want::Look, &[200, 404, 410]),
        route(Method::POST, "/v1/locks/{id}/keep", Want::Keep, &[200, 404, 410]),
        route(Method::DELETE, "/v1/locks/{id}", Want::Release, &[200, 404, 410]),
        route(Method::POST, "/v1/once", Want::Once, &[200, 409, 410, 429]),
        route(Method::POST, "/v1/elections/{name}", Want::Campaign, &[200, 404, 409, 410, 429]),
        route(Method::PUT, "/v1/elections/{name}/{id}", Want::Proclaim, &[200, 404, 410, 429]),
        route(Method::GET, "/v1/elections/{name}", Want::Leader, &[200, 404]),
        route(Method::GET, "/v1/elections/{name}/events", Want::Events, &[200, 404, 429]),
        route(Method::GET, "/v1/status", Want::Status, &[200]),
        route(Method::GET, "/metrics", Want::Metrics, &[200]),
        route(Method::GET, "/healthz", Want::Health, &[200]),
    ]
};

impl Route {
    fn all_statuses(&self) -> Vec<u16> {
        [self.statuses, &ANY].concat()
    }
}

/// The methods of a path that does not have the request's method.
#[derive(Debug, PartialEq, Eq)]
struct OtherMethods(Vec<String>);

/// Finds what a request wants, and the parameters in its path; `Ok(None)` if there is no such path.
/// HEAD counts as GET: hyper leaves out the body of the answer.
fn routed(method: &Method, path: &str) -> Result<Option<(&'static Route, Vec<String>)>, OtherMethods> {
    let method = if method == Method::HEAD { &Method::GET } else { method };
    let mut others = Vec::new();
    for route in &ROUTES {
        let Some(parameters) = matched(route.path, path) else { continue };
        if route.method == method {
            return Ok(Some((route, parameters)));
        }
        others.push(route.method.to_string());
    }
    if others.is_empty() { Ok(None) } else { Err(OtherMethods(others)) }
}

/// The parameters of a path, decoded, if the path is of this form.
fn matched(form: &str, path: &str) -> Option<Vec<String>> {
    let (mut form, mut path) = (form.split('/'), path.split('/'));
    let mut parameters = Vec::new();
    loop {
        match (form.next(), path.next()) {
            (None, None) => return Some(parameters),
            (Some(part), Some(text)) if part.starts_with('{') => {
                parameters.push(percent_decode_str(text).decode_utf8().ok()?.into_owned());
            }
            (Some(part), Some(text)) if part == text => {}
            _ => return None,
        }
    }
}

/// Answers a request. Answers 500 after a panic, so the connection and its locks stay.
pub(super) async fn answer(
    client: &Client,
    requests: &Arc<Requests>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let busy = requests.begin();
    let answered = AssertUnwindSafe(answered(client, busy, request)).catch_unwind().await;
    Ok(answered.unwrap_or_else(|_| refused(&Refusal::internal())))
}

async fn answered(client: &Client, busy: Busy, request: Request<Incoming>) -> Response<Body> {
    let arrival = Instant::now();
    let (head, body) = request.into_parts();
    let call = Call { client, arrival, stays_open: stays_open(head.version, &head.headers) };
    // Cut the connection before the answer: the client may close its side once it has the answer.
    if !call.stays_open {
        client.agent.cut(client.id);
    }
    // Read the body before any answer: hyper closes the connection if the answer comes before the
    // whole body.
    let body = match whole(body).await {
        Ok(body) => body,
        Err(refusal) => {
            client.agent.cut(client.id);
            return refused(&refusal);
        }
    };
    if let Some(port) = client.port
        && let Err(refusal) = browsers::check(&head.headers, port)
    {
        return refused(&refusal);
    }
    let (route, parameters) = match routed(&head.method, head.uri.path()) {
        Ok(Some(routed)) => routed,
        Ok(None) => return refused(&Refusal::no_such_path()),
        Err(OtherMethods(others)) => return other_methods(&others),
    };
    let query = Query::of(head.uri.query().unwrap_or_default());
    let response = carried_out(route.want, parameters, query, call, &body, busy).await;
    let response = response.unwrap_or_else(|refusal| refused(&refusal));
    let status = response.status();
    debug_assert!(route.all_statuses().contains(&status.as_u16()), "{status} of {} is not in its list", route.path);
    response
}

/// Carries out a request. `busy` is dropped with the answer, or at the end of a stream of events.
async fn carried_out(
    want: Want,
    mut parameters: Vec<String>,
    query: Query<'_>,
    call: Call<'_>,
    body: &[u8],
    busy: Busy,
) -> Result<Response<Body>, Refusal> {
    let agent = &call.client.agent;
    let answer = match want {
        Want::Lock => call.lock(parsed(body)?).await,
        Want::Once => call.once(parsed(body)?).await,
        Want::Campaign => call.campaign(name(&mut parameters), parsed(body)?).await,
        Want::Look => call.look(id(&mut parameters)?, query.milliseconds("wait_ms")?).await,
        Want::Keep => {
            parsed::<Nothing>(body)?;
            call.keep(id(&mut parameters)?)
        }
        Want::Release => call.release(id(&mut parameters)?, query.flag("undo")?).await,
        Want::Proclaim => {
            let id = id(&mut parameters)?;
            let request: ValueRequest = parsed(body)?;
            call.proclaim(&name(&mut parameters), id, &request.value).await
        }
        Want::Leader => elections::leader(agent, &name(&mut parameters)).await,
        Want::Events => {
            let events = elections::events(agent.clone(), call.client.peer, name(&mut parameters), busy)?;
            return Ok(response(StatusCode::OK, "text/event-stream", StreamBody::new(events).boxed_unsync()));
        }
        Want::Status => told(agent).await,
        Want::Metrics => return Ok(text("text/plain; version=0.0.4", agent.metrics.render())),
        Want::Health => health(agent),
    };
    answer.map(|value| json_response(StatusCode::OK, &value))
}

/// Reads the body of a request. After an error, the agent closes the connection.
async fn whole(body: Incoming) -> Result<Bytes, Refusal> {
    if body.size_hint().lower() > LONGEST_BODY as u64 {
        return Err(Refusal::too_large(LONGEST_BODY));
    }
    let whole = timeout(SLOWEST_BODY, Limited::new(body, LONGEST_BODY).collect()).await;
    match whole.map_err(|_| Refusal::slow())? {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Refusal::too_large(LONGEST_BODY)),
        Err(error) => Err(Refusal::invalid(&format!("the body cannot be read: {error}")).closing()),
    }
}

/// The object in a body. An empty body is an object without fields.
fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    let bytes: &[u8] = if body.is_empty() { b"{}" } else { body };
    // serde would also read the fields from an array.
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return Err(Refusal::invalid("the body is no JSON object"));
    }
    serde_json::from_slice(bytes).map_err(|error| Refusal::invalid(&format!("the body: {error}")))
}

fn name(parameters: &mut Vec<String>) -> String {
    if parameters.is_empty() { String::new() } else { parameters.remove(0) }
}

/// The last parameter as an id. A text that is no UUID counts as an unknown id.
fn id(parameters: &mut Vec<String>) -> Result<Uuid, Refusal> {
    let id = parameters.pop().and_then(|text| Uuid::parse_str(&text).ok());
    id.ok_or_else(|| Missing::Unknown.into())
}

/// The query parameters of a request.
struct Query<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Query<'a> {
    fn of(text: &'a str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        Self(pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect())
    }

    /// The value of the parameter `known`. Fails if there are other parameters.
    fn only(&self, known: &str) -> Result<Option<&str>, Refusal> {
        match *self.0 {
            [] => Ok(None),
            [(name, value)] if name == known => Ok(Some(value)),
            _ => Err(Refusal::invalid(&format!("this path has one parameter, {known}"))),
        }
    }

    fn milliseconds(&self, known: &str) -> Result<Option<Duration>, Refusal> {
        let number = self.only(known)?.map(str::parse).transpose();
        let number = number.map_err(|error| Refusal::invalid(&format!("{known}: {error}")))?;
        Ok(number.map(Duration::from_millis))
    }

    fn flag(&self, known: &str) -> Result<bool, Refusal> {
        match self.only(known)? {
            None | Some("0") => Ok(false),
            Some("1") => Ok(true),
            Some(_) => Err(Refusal::invalid(&format!("{known} is 0 or 1"))),
        }
    }
}

fn stays_open(version: Version, headers: &HeaderMap) -> bool {
    let mut words =
        headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    version == Version::HTTP_11 && !words.any(|word| word.trim().eq_ignore_ascii_case("close"))
}

async fn told(agent: &Agent) -> Answer {
    let one = agent.inspection().await;
    let mut told = status::json(&agent.quorum, &agent.settings).await?;
    drop(one);
    let sizes = agent.sizes();
    told["agent"] = json!({
        "clients": sizes.clients,
        "locks": sizes.locks,
        "waiting": agent.waiting(),
    });
    Ok(told)
}

/// Whether a quorum of nodes votes. Asks no node.
fn health(agent: &Agent) -> Answer {
    if agent.stopping.is_cancelled() {
        return Err(Refusal::stopping());
    }
    let nodes = agent.quorum.nodes();
    // As in the metric `quorumlock_node_up`.
    let grants = |node: &&NodeStatus| node.unreadable.is_none() && node.out_of_memory.is_none();
    let votes = nodes.iter().filter(|node| node.state == NodeState::Up).filter(grants).count();
    let quorum = nodes.len() / 2 + 1;
    if votes >= quorum {
        return Ok(json!({ "votes": votes, "quorum": quorum }));
    }
    let message = format!("{}, which is no quorum", crate::output::voting(votes, nodes.len()));
    Err(Refusal::unavailable(&message).with("votes", Some(json!(votes))).with("quorum", Some(json!(quorum))))
}

pub(super) fn refused(refusal: &Refusal) -> Response<Body> {
    let mut response = json_response(refusal.status, &refusal.body);
    if refusal.closes {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn other_methods(others: &[String]) -> Response<Body> {
    let others = others.join(", ");
    let mut response = refused(&Refusal::method(&others));
    if let Ok(others) = HeaderValue::from_str(&others) {
        response.headers_mut().insert(ALLOW, others);
    }
    response
}

fn json_response(status: StatusCode, value: &Value) -> Response<Body> {
    response(status, "application/json", full(format!("{value}\n")))
}

fn text(kind: &'static str, text: String) -> Response<Body> {
    response(StatusCode::OK, kind, full(text))
}

fn full(text: String) -> Body {
    Full::new(Bytes::from(text)).boxed_unsync()
}

fn response(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn want(method: &Method, path: &str) -> Option<(Want, Vec<String>)> {
        let (route, parameters) = routed(method, path).unwrap_or(None)?;
        Some((route.want, parameters))
    }

    #[test]
    fn paths_have_decoded_parameters() {
        let held = want(&Method::GET, "/v1/elections/jobs%2Fleader");
        assert_eq!(held, Some((Want::Leader, vec!["jobs/leader".to_owned()])));
        let value = want(&Method::PUT, "/v1/elections/events/x");
        assert_eq!(value, Some((Want::Proclaim, vec!["events".to_owned(), "x".to_owned()])));
        assert_eq!(want(&Method::GET, "/v1/elections/x/events").map(|(want, _)| want), Some(Want::Events));
        for path in ["/", "", "/v1/locks/", "/v1/locks/x/keep/", "/v1/elections/%FF", "/v1/elections/a/b/c"] {
            assert!(!matches!(want(&Method::GET, path), Some((Want::Leader | Want::Events, _))), "{path}");
        }
        let others = routed(&Method::PATCH, "/v1/locks/x").map(|_| ());
        assert_eq!(others, Err(OtherMethods(vec!["GET".into(), "DELETE".into()])));
    }

    #[test]
    fn parameters_that_are_unknown_are_mistakes() {
        let wait = |text| Query::of(text).milliseconds("wait_ms").map_err(|refusal| refusal.status.as_u16());
        assert_eq!(wait(""), Ok(None));
        assert_eq!(wait("wait_ms=250"), Ok(Some(Duration::from_millis(250))));
        assert_eq!([wait("wait_ms=-1"), wait("wait_ms"), wait("wait=1"), wait("wait_ms=1&wait_ms=2")], [Err(400); 4]);
        let undo = |text| Query::of(text).flag("undo").ok();
        assert_eq!(
            [undo(""), undo("undo=0"), undo("undo=1"), undo("undo=2")],
            [Some(false), Some(false), Some(true), None]
        );
    }

    #[test]
    fn connection_close_is_found() {
        let headers = |value| HeaderMap::from_iter([(CONNECTION, HeaderValue::from_static(value))]);
        assert!(
            stays_open(Version::HTTP_11, &HeaderMap::new()) && stays_open(Version::HTTP_11, &headers("keep-alive"))
        );
        assert!(!stays_open(Version::HTTP_11, &headers("x, Close")));
        assert!(!stays_open(Version::HTTP_10, &headers("keep-alive")));
    }

    #[test]
    fn openapi_page_has_the_routes_and_their_statuses() {
        let page: Value = serde_json::from_str(include_str!("../../../../docs/openapi.json")).unwrap();
        let told = page["paths"].as_object().unwrap().iter().flat_map(|(path, methods)| {
            methods.as_object().unwrap().iter().map(move |(method, told)| {
                let statuses = told["responses"].as_object().unwrap().keys().map(|status| status.parse().unwrap());
                (method.to_uppercase(), path.clone(), statuses.collect::<BTreeSet<u16>>())
            })
        });
        let routes = ROUTES
            .iter()
            .map(|route| (route.method.to_string(), route.path.to_owned(), route.all_statuses().into_iter().collect()));
        assert_eq!(told.collect::<BTreeSet<_>>(), routes.collect::<BTreeSet<_>>());
    }
}
