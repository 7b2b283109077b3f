//! The agent's answers to failed requests: a status, a word for programs, and a message.

use hyper::StatusCode;
use quorumlock::{Error, ErrorKind, LostReason};
use serde_json::{Value, json};

use super::table::{Missing, TooMany};
use super::terms::Ended;

/// Texts of the library about its own process, each with the text for clients of the agent.
const OF_THIS_PROCESS: [(&str, &str); 3] = [
    ("this process itself holds it", "a client of this agent holds it"),
    ("other callers in this process come before this caller", "other clients of this agent come first"),
    ("an earlier caller of this process", "an earlier client of this agent"),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) body: Value,
    /// Whether the agent closes the connection after this answer, because it has not read the rest
    /// of the request.
    pub(super) closes: bool,
}

impl Refusal {
    fn new(status: StatusCode, error: &str, message: &str) -> Self {
        Self { status, body: json!({ "error": error, "message": message }), closes: false }
    }

    pub(super) fn with(mut self, field: &str, value: Option<Value>) -> Self {
        if let Some(value) = value {
            self.body[field] = value;
        }
        self
    }

    pub(super) fn closing(self) -> Self {
        Self { closes: true, ..self }
    }

    pub(super) fn invalid(message: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", message)
    }

    pub(super) fn held(message: &str) -> Self {
        Self::new(StatusCode::CONFLICT, "held", message)
    }

    pub(super) fn done(name: &str) -> Self {
        let message = format!("{name:?} was done in this period already, or is being done");
        Self::new(StatusCode::CONFLICT, "done", &message)
    }

    pub(super) fn lost(reason: &str, message: &str) -> Self {
        Self::new(StatusCode::GONE, "lost", message).with("reason", Some(json!(reason)))
    }

    pub(super) fn lost_by(reason: LostReason) -> Self {
        Self::lost(reason.as_str(), &format!("the lock was lost: {reason}"))
    }

    pub(super) fn unavailable(message: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
    }

    pub(super) fn stopping() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "the agent is stopping, and takes no more locks")
    }

    pub(super) fn no_such_path() -> Self {
        Self::new(StatusCode::NOT_FOUND, "no_such_path", "there is no such path; see docs/agent.md")
    }

    pub(super) fn method(others: &str) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method", &format!("this path has other methods: {others}"))
    }

    pub(super) fn too_large(most: usize) -> Self {
        let message = format!("the body is too large; use at most {most} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", &message).closing()
    }

    pub(super) fn slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "slow", "the body of the request did not come in time").closing()
    }

    pub(super) fn of_a_web_page() -> Self {
        let message = "a request of a web page (with the header Origin or Sec-Fetch-Site) is refused";
        Self::new(StatusCode::FORBIDDEN, "origin", message)
    }

    pub(super) fn of_another_host(port: u16) -> Self {
        let message = format!("the header Host must be 127.0.0.1:{port}, [::1]:{port} or localhost:{port}");
        Self::new(StatusCode::FORBIDDEN, "host", &message)
    }

    pub(super) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the agent failed; its log says how")
    }

    /// Refuses a connection. The status is 503, because 429 is about requests, and none has come
    /// yet.
    pub(super) fn no_room(bound: TooMany) -> Self {
        Self { status: StatusCode::SERVICE_UNAVAILABLE, ..bound.into() }
    }
}

impl From<TooMany> for Refusal {
    fn from(TooMany(bound): TooMany) -> Self {
        let message = format!(
            "the agent's bound --{bound} is reached: try again later, or raise this option of `quorumlock serve`"
        );
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many", &message).with("bound", Some(json!(bound)))
    }
}

impl From<Missing> for Refusal {
    fn from(missing: Missing) -> Self {
        match missing {
            Missing::Unknown => Self::new(
                StatusCode::NOT_FOUND,
                "unknown",
                "there is no such lock, or it was released, or it is not yours",
            ),
            Missing::Ended(Ended::NotKept) => {
                Self::lost("not_kept", "the lock ended: its client did not keep it in time")
            }
            Missing::Ended(Ended::Disconnected) => {
                Self::lost("disconnected", "the lock ended: the connection that had taken it was closed")
            }
            Missing::Ended(Ended::Lost(reason)) => Self::lost_by(reason),
            Missing::Ended(Ended::Stopping) => Self::lost("stopping", "the lock ends: the agent has stopped"),
        }
    }
}

impl From<&Error> for Refusal {
    fn from(error: &Error) -> Self {
        let mut message = error.to_string();
        for (of_library, of_agent) in OF_THIS_PROCESS {
            message = message.replace(of_library, of_agent);
        }
        match error.kind() {
            ErrorKind::Contended | ErrorKind::Timeout => {
                let note = error.holder_says().map(|note| json!(note));
                Self::held(&message).with("note", note)
            }
            ErrorKind::Config => Self::invalid(&message),
            ErrorKind::Lost => Self::new(StatusCode::GONE, "lost", &message),
            ErrorKind::Closed => Self::stopping(),
            _ => Self::unavailable(&message),
        }
    }
}
