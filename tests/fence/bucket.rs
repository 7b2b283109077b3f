//! A stand-in for S3 on loopback, for the S3 client of the crate `object_store`. It supports GET
//! and PUT of single objects, with `If-Match` and `If-None-Match`. As in S3, an ETag depends only
//! on the content, so equal contents have equal ETags.

use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1 as client;
use hyper::header::{ETAG, HOST, HeaderMap, HeaderValue, IF_MATCH, IF_NONE_MATCH, LAST_MODIFIED};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use object_store::ClientOptions;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The stored objects, and how the next writes end.
#[derive(Default)]
struct Objects {
    content: HashMap<String, Bytes>,
    /// All contents that were written, in order.
    history: Vec<Bytes>,
    conflicts: u32,
    unanswered: u32,
}

/// The server. Dropping this value ends the server.
pub(crate) struct Bucket {
    port: u16,
    objects: Arc<Mutex<Objects>>,
    _tasks: JoinSet<()>,
}

impl Bucket {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let objects = Arc::<Mutex<Objects>>::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, objects.clone()));
        Self { port, objects, _tasks: tasks }
    }

    /// A client of this server, configured as for S3 except for its sockets.
    pub(crate) fn client(&self) -> AmazonS3 {
        AmazonS3Builder::new()
            .with_endpoint(format!("http://127.0.0.1:{}", self.port))
            .with_allow_http(true)
            .with_bucket_name("bucket")
            .with_region("nowhere")
            .with_skip_signature(true)
            .with_http_connector(Sockets { port: self.port })
            .build()
            .unwrap()
    }

    /// Answers this many conditional writes with 409, as S3 does if others write at the same time.
    pub(crate) fn conflict(&self, writes: u32) {
        self.objects.lock().unwrap().conflicts = writes;
    }

    /// Carries out this many writes, and answers them with 503.
    pub(crate) fn leave_unanswered(&self, writes: u32) {
        self.objects.lock().unwrap().unanswered = writes;
    }

    pub(crate) fn history(&self) -> Vec<Bytes> {
        self.objects.lock().unwrap().history.clone()
    }

    /// Writes an object without a fence.
    pub(crate) fn overwrite(&self, key: &str, object: &'static [u8]) {
        self.objects.lock().unwrap().content.insert(format!("/bucket/{key}"), Bytes::from_static(object));
    }
}

async fn accept(listener: TcpListener, objects: Arc<Mutex<Objects>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let objects = objects.clone();
        connections.spawn(async move {
            let service = service_fn(|request| answer(request, &objects));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(request: Request<Incoming>, objects: &Mutex<Objects>) -> Result<Response<String>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let mut objects = objects.lock().unwrap();
    let key = head.uri.path().to_owned();
    let (status, object) = match head.method {
        Method::GET => objects.get(&key),
        Method::PUT => (objects.put(key, &head.headers, body), None),
        _ => (StatusCode::NOT_IMPLEMENTED, None),
    };
    let text = object.as_deref().map(|object| String::from_utf8(object.to_vec()).unwrap()).unwrap_or_default();
    let mut response = Response::new(text);
    *response.status_mut() = status;
    response.headers_mut().insert(LAST_MODIFIED, HeaderValue::from_static("Wed, 21 Oct 2015 07:28:00 GMT"));
    let tag = object.map_or("\"none\"".to_owned(), |object| e_tag(&object));
    response.headers_mut().insert(ETAG, tag.parse().unwrap());
    Ok(response)
}

impl Objects {
    fn get(&self, key: &str) -> (StatusCode, Option<Bytes>) {
        let object = self.content.get(key).cloned();
        (if object.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND }, object)
    }

    fn put(&mut self, key: String, headers: &HeaderMap, body: Bytes) -> StatusCode {
        let now = self.content.get(&key).map(e_tag);
        match (headers.get(IF_MATCH), headers.get(IF_NONE_MATCH)) {
            (None, None) => return StatusCode::BAD_REQUEST,
            (Some(_), None) if now.is_none() => return StatusCode::NOT_FOUND,
            (Some(tag), None) if now.as_deref() != tag.to_str().ok() => return StatusCode::PRECONDITION_FAILED,
            (None, Some(_)) if now.is_some() => return StatusCode::PRECONDITION_FAILED,
            _ if self.conflicts > 0 => {
                self.conflicts -= 1;
                return StatusCode::CONFLICT;
            }
            _ => {}
        }
        self.history.push(body.clone());
        self.content.insert(key, body);
        let unanswered = self.unanswered > 0;
        self.unanswered = self.unanswered.saturating_sub(1);
        if unanswered { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK }
    }
}

fn e_tag(object: &Bytes) -> String {
    let mut hasher = DefaultHasher::new();
    object.hash(&mut hasher);
    format!("\"{:x}\"", hasher.finish())
}

/// Connects the client to the server, with one connection for each request.
#[derive(Debug)]
struct Sockets {
    port: u16,
}

impl HttpConnector for Sockets {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Self { port: self.port }))
    }
}

impl HttpService for Sockets {
    fn call<'a, 'b>(&'a self, request: HttpRequest) -> BoxFuture<'b, Result<HttpResponse, HttpError>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(send(self.port, request))
    }
}

async fn send(port: u16, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
    let failed = |error: std::io::Error| HttpError::new(HttpErrorKind::Connect, error);
    let cut = |error: hyper::Error| HttpError::new(HttpErrorKind::Interrupted, error);
    let stream = TcpStream::connect(("127.0.0.1", port)).await.map_err(failed)?;
    let (mut sender, connection) = client::handshake(TokioIo::new(stream)).await.map_err(cut)?;
    tokio::spawn(connection);
    let host = request.uri().authority().unwrap().as_str().parse().unwrap();
    request.headers_mut().insert(HOST, host);
    *request.uri_mut() = request.uri().path().parse().unwrap();
    let (head, body) = sender.send_request(request).await.map_err(cut)?.into_parts();
    Ok(HttpResponse::from_parts(head, HttpResponseBody::new(body.map_err(cut))))
}
