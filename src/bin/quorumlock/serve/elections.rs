//! Reports who leads, in one answer or as a stream of server-sent events.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::unfold;
use futures::{Stream, StreamExt};
use hyper::body::Frame;
use quorumlock::Leadership as Led;
use serde_json::json;
use tokio::time::{Instant, Sleep, sleep};

use super::agent::{Agent, StreamPlace};
use super::busy::Busy;
use super::errors::Refusal;
use super::locks::Answer;
use super::terms::Peer;
use crate::leadership::{Leader, Leadership, UNKNOWN};

/// How often a stream asks the nodes who leads. The stream then writes at least a comment, so that
/// both sides notice a broken connection.
const PULSE: Duration = Duration::from_secs(15);
const COMMENT: &str = ": the agent lives\n\n";

impl Leadership {
    fn event(&self) -> String {
        match self {
            Self::Leader(_) => format!("event: leader\ndata: {}\n\n", self.json()),
            Self::Nobody => "event: none\ndata: {}\n\n".to_owned(),
            Self::Unknown => "event: unknown\ndata: {}\n\n".to_owned(),
        }
    }
}

/// `GET /v1/elections/NAME`
pub(super) async fn leader(agent: &Agent, name: &str) -> Answer {
    match Leadership::of(&agent.inspect(name).await?) {
        Leadership::Unknown => Err(Refusal::unavailable(UNKNOWN)),
        state => Ok(json!({ "leader": state.json() })),
    }
}

/// What a stream of events has sent.
#[derive(Default)]
struct Sent {
    last: Option<Leadership>,
    /// The token of the latest leader.
    token: u64,
}

impl Sent {
    /// The event for an observed state. `None` if the state has not changed, or if a later leader
    /// was sent before. (Inspections may lag behind the library's stream of leaders, or the
    /// reverse.)
    fn event(&mut self, state: Leadership) -> Option<String> {
        if let Leadership::Leader(leader) = &state {
            // A token of 0 is that of a plain lock, so this holder is not an older leader.
            if (1..self.token).contains(&leader.token) {
                return None;
            }
            self.token = self.token.max(leader.token);
        }
        // Nodes that lost their data may give the next leader a lower token.
        if state == Leadership::Nobody {
            self.token = 0;
        }
        (self.last.as_ref() != Some(&state)).then(|| {
            let event = state.event();
            self.last = Some(state);
            event
        })
    }
}

/// The events of `GET /v1/elections/NAME/events`.
pub(super) fn events(
    agent: Arc<Agent>,
    peer: Peer,
    name: String,
    busy: Busy,
) -> Result<impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + use<>, Refusal> {
    let place = agent.stream(peer)?;
    let leaders = agent.quorum.election(&name).observe()?.boxed();
    let (sent, pulse) = (Sent::default(), Box::pin(sleep(Duration::ZERO)));
    let following = Following { agent, name, leaders, sent, pulse, _busy: busy, _place: place };
    Ok(unfold(following, |mut following| async move {
        let text = following.next().await?;
        Some((Ok(Frame::data(Bytes::from(text))), following))
    }))
}

struct Following {
    agent: Arc<Agent>,
    name: String,
    leaders: Pin<Box<dyn Stream<Item = Led> + Send>>,
    sent: Sent,
    pulse: Pin<Box<Sleep>>,
    _busy: Busy,
    _place: StreamPlace,
}

impl Following {
    /// The next text to send. `None` if the agent stops, or cannot ask the nodes any more.
    async fn next(&mut self) -> Option<String> {
        let stopping = self.agent.stopping.clone();
        stopping.run_until_cancelled(self.event()).await?
    }

    async fn event(&mut self) -> Option<String> {
        let _waiting = self.agent.waits();
        loop {
            tokio::select! {
                biased;
                () = &mut self.pulse => {
                    self.pulse.as_mut().reset(Instant::now() + PULSE);
                    let seen = self.agent.inspect(&self.name).await.ok()?;
                    return Some(self.sent.event(Leadership::of(&seen)).unwrap_or_else(|| COMMENT.to_owned()));
                }
                next = self.leaders.next() => {
                    let Led { leader, token, value, .. } = next?;
                    if let Some(event) = self.sent.event(Leadership::Leader(Leader { holder: leader, token, value })) {
                        return Some(event);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leader(token: u64, value: &str) -> Leadership {
        Leadership::Leader(Leader { holder: format!("host/1/u/{token}"), token, value: value.to_owned() })
    }

    #[test]
    fn leadership_change_is_sent_once_without_outdated_leaders() {
        let mut sent = Sent::default();
        let mut sends =
            |state: Leadership| sent.event(state).map(|event| event.lines().next().unwrap_or_default().to_owned());
        assert_eq!(sends(Leadership::Nobody).as_deref(), Some("event: none"));
        assert_eq!(sends(Leadership::Nobody), None);
        assert_eq!(sends(leader(5, "")).as_deref(), Some("event: leader"));
        assert_eq!(sends(leader(5, "a")).as_deref(), Some("event: leader"));
        assert_eq!(sends(leader(4, "b")), None);
        assert_eq!(sends(leader(0, "")).as_deref(), Some("event: leader"), "a plain lock has the name");
        assert_eq!(sends(leader(4, "b")), None);
        assert_eq!(sends(Leadership::Unknown).as_deref(), Some("event: unknown"));
        assert_eq!(sends(leader(5, "a")).as_deref(), Some("event: leader"), "it leads again, or still");
        assert_eq!(sends(Leadership::Nobody).as_deref(), Some("event: none"));
        assert_eq!(sends(leader(2, "a")).as_deref(), Some("event: leader"), "the nodes have forgotten the tokens");
    }

    #[test]
    fn values_stay_on_one_line() {
        let event = leader(5, "two\nlines\r\n\nevent: none").event();
        assert_eq!(event.matches('\n').count(), 3, "{event}");
        assert!(event.ends_with("\n\n") && !event.contains('\r'), "{event}");
    }
}
