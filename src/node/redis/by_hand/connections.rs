//! Tests how connections are opened, probed, ended and opened again.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::time::advance;

use super::stage::{MS, Sent, Stage, failed, info, replied, settled};
use crate::error::NodeReport;
use crate::node::redis::tests::{SECOND, asked, claimed, grants, record};
use crate::node::redis::transport::{Event, Value};
use crate::node::status::UNLISTED;
use crate::node::{FaultKind, Node, NodeState, Outcome, Verb};
use crate::rules::known_nodes::MembershipState;

#[tokio::test(start_paused = true)]
async fn connection_ends_after_three_timeouts_in_a_row() {
    let mut stage = Stage::up().await;
    let between: [fn(Sent); 2] = [|sent| sent.reply(grants(1)), |sent| sent.fail(FaultKind::Rejected, "ERR no")];
    for answer in between {
        for _ in 0..2 {
            let (sent, mut answers) = stage.calls(1).await.pop().unwrap();
            sent.fail(FaultKind::Timeout, "no answer in time");
            assert_eq!(failed(&mut answers).await, FaultKind::Timeout);
        }
        let (sent, mut answers) = stage.calls(1).await.pop().unwrap();
        answer(sent);
        let _counted = answers.recv().await.unwrap();
        assert_eq!(stage.node.status().state, NodeState::Up);
    }
    for (sent, _) in stage.calls(3).await {
        sent.fail(FaultKind::Timeout, "no answer in time");
    }
    stage.comes_down("3 answers in a row did not come in time").await;
}

#[tokio::test(start_paused = true)]
async fn server_identity_is_probed_every_five_seconds() {
    let mut stage = Stage::up().await;
    for uptime in [1_005, 1_010] {
        settled().await;
        let began = stage.node.shared.host.now();
        let probe = stage.next("INFO").await;
        let waited = stage.node.shared.host.now().since(began);
        assert!(waited > 5 * SECOND - 10 * MS && waited < 5 * SECOND + 10 * MS, "{waited:?}");
        advance(20 * MS).await;
        probe.reply(info("run", uptime));
        settled().await;
        let status = stage.node.status();
        assert_eq!((status.state, status.uptime), (NodeState::Up, Some(SECOND * uptime)));
        assert_eq!(status.round_trip, Some(20 * MS));
        advance(5 * SECOND - 20 * MS).await;
        stage.next("INFO").await.reply("not what it was asked");
        settled().await;
        assert_eq!(stage.node.status().state, NodeState::Up, "one bad reply is not enough");
    }
    stage.next("INFO").await.reply(info("another", 1_020));
    stage.comes_down("another server answers at this address").await;
}

#[tokio::test(start_paused = true)]
async fn report_of_another_server_is_named_while_it_is_checked() {
    let stage = Stage::up().await;
    stage.node.judged(MembershipState::Unclear);
    let refused = claimed(&stage.node).recv().await.unwrap().unwrap_err();
    assert_eq!((refused.kind(), refused.to_string()), (FaultKind::Down, NodeState::Unclear.to_string()));
    assert_eq!(stage.node.status().state, NodeState::Unclear);
    stage.node.judged(MembershipState::Unknown);
    assert_eq!(NodeReport::of_status(&stage.node.status()).said, UNLISTED);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_asked_three_times_and_silent_is_left() {
    let mut stage = Stage::up().await;
    for _ in 0..3 {
        assert_eq!(stage.node.status().state, NodeState::Up);
        stage.next("INFO").await.fail(FaultKind::Timeout, "no answer in time");
    }
    stage.comes_down("3 answers in a row did not come in time").await;
}

#[tokio::test(start_paused = true)]
async fn hints_are_forwarded_and_losses_reported_once_a_second() {
    let mut stage = Stage::up().await;
    let missed = |stage: &Stage| stage.client.missed.load(Relaxed);
    settled().await;
    assert_eq!(missed(&stage), 1, "messages before the connection are lost");
    for text in ["7 0", "no hint", "8 500"] {
        stage.events.send(Event::Message(text.to_owned())).unwrap();
    }
    for _ in 0..5 {
        stage.events.send(Event::Missed).unwrap();
    }
    settled().await;
    assert_eq!((stage.client.hints.load(Relaxed), missed(&stage)), (2, 1));
    advance(SECOND - 10 * MS).await;
    settled().await;
    assert_eq!(missed(&stage), 1);
    advance(20 * MS).await;
    settled().await;
    assert_eq!(missed(&stage), 2, "five losses are reported once");
    for _ in 0..200 {
        stage.events.send(Event::Message("9 0".to_owned())).unwrap();
    }
    settled().await;
    assert_eq!(stage.client.hints.load(Relaxed), 202, "all messages are read, in several turns");
    stage.events.send(Event::Ended("over".to_owned())).unwrap();
    stage.comes_down("over").await;
}

#[tokio::test(start_paused = true)]
async fn connection_is_remade_at_once_if_steady_else_after_a_pause() {
    let mut stage = Stage::new();
    for (lasts, least, most) in [(SECOND, 25 * MS, 60 * MS), (6 * SECOND, Duration::ZERO, 5 * MS)] {
        stage.admit().await;
        settled().await;
        advance(lasts).await;
        let (dial, paused) = stage.redialed().await;
        assert!(paused >= least && paused <= most, "{paused:?} after {lasts:?}");
        dial.fail(FaultKind::Down, "refused");
        settled().await;
    }
}

/// Connections end twice a second, as they would by `CLIENT KILL`.
#[tokio::test(start_paused = true)]
async fn connection_that_answered_is_remade_after_the_least_pause() {
    let mut stage = Stage::new();
    stage.admit().await;
    for _ in 0..12 {
        settled().await;
        advance(SECOND / 2).await;
        let (dial, paused) = stage.redialed().await;
        assert!(paused <= 50 * MS, "{paused:?}");
        dial.reply("");
        stage.greeted().await;
        stage.next("SUBSCRIBE").await.reply("");
        stage.is_up().await;
    }
}

/// Connections end at once, as at a server or a proxy that has reached its limit of clients.
#[tokio::test(start_paused = true)]
async fn connection_that_ends_once_confirmed_is_remade_ever_later() {
    let mut stage = Stage::new();
    stage.admit().await;
    let mut longest = Duration::ZERO;
    for _ in 0..12 {
        settled().await;
        let (dial, paused) = stage.redialed().await;
        longest = longest.max(paused);
        dial.reply("");
        stage.greeted().await;
        stage.next("SUBSCRIBE").await.reply("");
        stage.is_up().await;
    }
    assert!(longest > SECOND / 2, "{longest:?}");
}

/// The server ends idle connections, as servers with the setting `timeout` do.
#[tokio::test(start_paused = true)]
async fn a_server_that_closes_idle_connections_is_asked_more_often() {
    let mut stage = Stage::new();
    stage.admit().await;
    for _ in 0..2 {
        settled().await;
        advance(2 * SECOND).await;
        stage.redialed().await.0.reply("");
        stage.greeted().await;
        stage.next("SUBSCRIBE").await.reply("");
        stage.is_up().await;
    }
    let began = stage.node.shared.host.now();
    for _ in 0..3 {
        stage.next("INFO").await.reply(info("run", 1_000));
    }
    let took = stage.node.shared.host.now().since(began);
    assert!(took > 2 * SECOND && took < 4 * SECOND, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn redial_pause_is_a_share_of_the_ttl_during_renewals() {
    let mut stage = Stage::up().await;
    let (mut dial, _) = stage.redialed().await;
    for _ in 0..12 {
        let mut answers = asked(&stage.node, Verb::Renew);
        assert_eq!(failed(&mut answers).await, FaultKind::Down);
        let refused = stage.node.shared.host.now();
        dial.fail(FaultKind::Down, "refused");
        dial = stage.next("DIAL").await;
        let paused = stage.node.shared.host.now().since(refused);
        assert!(paused <= SECOND / 16 + MS, "{paused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_to_write_has_become_a_replica() {
    let mut stage = Stage::up().await;
    let (sent, mut answers) = stage.calls(1).await.pop().unwrap();
    sent.reply(replied(1_000_000, &["error", "READONLY You can't write against a read only replica."]));
    assert_eq!(failed(&mut answers).await, FaultKind::Rejected);
    stage.comes_down("the server has become a replica").await;
}

#[tokio::test(start_paused = true)]
async fn stepped_clock_quarantines_the_node_and_stops_claims() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let told = recorder.handle();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let mut stage = Stage::guarded(60 * SECOND);
    stage.admit().await;
    let quarantined = |value| {
        told.render().contains(&format!("node_quarantined{{quorum=\"default\",node=\"redis://hand\"}} {value}\n"))
    };
    for (step, doubted) in [(0, 0), (99_000_000, 1)] {
        assert!(quarantined(0));
        let (sent, mut answers) = stage.calls(1).await.pop().unwrap();
        let passed = i64::try_from(stage.node.shared.host.now().since_origin().as_micros()).unwrap();
        sent.reply(replied(1_000_000 + passed + step, &[]));
        let reply = answers.recv().await.unwrap();
        assert_eq!(reply.err().map(|fault| fault.kind()), (doubted > 0).then_some(FaultKind::Doubted));
        assert_eq!(stage.client.doubted.load(Relaxed), doubted);
    }
    assert!(quarantined(1), "{}", told.render());
    assert!(matches!(stage.node.status().state, NodeState::Quarantined { .. }));
    assert_eq!(failed(&mut claimed(&stage.node)).await, FaultKind::Quarantined);
    stage.next("INFO").await.reply(info("run", 1_005));
    let mut answers = asked(&stage.node, Verb::Release);
    stage.next("EVALSHA").await.reply(replied(105_000_000, &["released", "1"]));
    assert_eq!(answers.recv().await.unwrap().unwrap(), Outcome::Released { held: 1 });
    stage.next("INFO").await.reply(info("run", 1_010));
    stage.is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn node_is_used_if_it_refuses_the_subscription_not_if_silent() {
    let mut stage = Stage::new();
    stage.greet().await;
    let _unanswered = stage.next("SUBSCRIBE").await;
    stage.comes_down("no answer to SUBSCRIBE within node_timeout").await;
    assert!(!stage.node.hints());
    stage.greet().await;
    stage.next("SUBSCRIBE").await.fail(FaultKind::Rejected, "NOPERM no channel");
    stage.greet().await;
    stage.is_up().await;
    assert!(!stage.node.hints());
    assert_eq!(stage.node.status().no_wake_ups.as_deref(), Some("NOPERM no channel"));
    stage.events.send(Event::Ended("over".to_owned())).unwrap();
    stage.comes_down("over").await;
    stage.admit().await;
    assert!(stage.node.hints());
    assert_eq!(stage.node.status().no_wake_ups, None, "the refusal was on another connection");
    stage.events.send(Event::Ended("over".to_owned())).unwrap();
    stage.comes_down("over").await;
    assert!(!stage.node.hints(), "the node has no connection");
}

#[tokio::test(start_paused = true)]
async fn silence_during_the_greeting_is_reported_with_the_command() {
    for (silent, told) in [
        ("SCRIPT", "no answer to SCRIPT LOAD within"),
        ("INFO", "no answer to INFO within"),
        ("EVALSHA", "no answer to EVALSHA within"),
    ] {
        let mut stage = Stage::new();
        stage.next("DIAL").await.reply("");
        let info = || info("run", 1_000).into();
        let mut unanswered = Vec::new();
        let mut answers = |sent: Sent, answer: Value| match sent.command == silent {
            true => unanswered.push(sent),
            false => sent.reply(answer),
        };
        answers(stage.next("CLIENT").await, "OK".into());
        stage.loads().await.into_iter().for_each(|load| answers(load, "digest".into()));
        answers(stage.next("INFO").await, info());
        answers(stage.next("EVALSHA").await, record("run"));
        stage.next("SUBSCRIBE").await.reply("");
        stage.comes_down(told).await;
    }
}
