//! Tests of the connection that receives news of names.

use std::sync::atomic::Ordering::Relaxed;

use super::stage::{MS, Sent, Stage, info, settled};
use crate::node::redis::tests::SECOND;
use crate::node::{FaultKind, Name, Node};

fn name(text: &str) -> Name {
    Name::new("p:", text).unwrap()
}

/// The next command that is not a probe.
async fn next(stage: &mut Stage, command: &str) -> Sent {
    loop {
        match stage.sent.recv().await.unwrap() {
            probe if probe.command == "INFO" => probe.reply(info("run", 1_000)),
            sent => {
                assert_eq!(sent.command, command);
                return sent;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn names_are_followed_over_one_connection_until_none_is() {
    let mut stage = Stage::up().await;
    stage.is_quiet().await;
    stage.node.follow(&name("a"), true);
    next(&mut stage, "DIAL").await.reply("");
    next(&mut stage, "SUBSCRIBE").await.reply("");
    settled().await;
    assert_eq!(stage.client.news.load(Relaxed), 1, "news before the subscription may be lost");
    stage.node.follow(&name("b"), true);
    next(&mut stage, "SUBSCRIBE").await.reply("");
    stage.node.follow(&name("a"), false);
    settled().await;
    next(&mut stage, "UNSUBSCRIBE").await.reply("");
    stage.node.follow(&name("b"), false);
    stage.is_quiet().await;
    stage.node.follow(&name("a"), true);
    next(&mut stage, "DIAL").await.reply("");
    next(&mut stage, "SUBSCRIBE").await.reply("");
    settled().await;
    assert_eq!(stage.client.news.load(Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn a_refused_subscription_is_tried_again_seldom() {
    let mut stage = Stage::up().await;
    stage.node.follow(&name("a"), true);
    let began = stage.node.shared.host.now();
    for _ in 0..20 {
        next(&mut stage, "DIAL").await.reply("");
        next(&mut stage, "SUBSCRIBE").await.fail(FaultKind::Rejected, "NOPERM");
    }
    let took = stage.node.shared.host.now().since(began);
    assert!(took > 100 * SECOND, "{took:?}");
    assert_eq!(stage.client.news.load(Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn unanswered_subscription_is_given_up_and_tried_again() {
    let mut stage = Stage::up().await;
    stage.node.follow(&name("a"), true);
    next(&mut stage, "DIAL").await.reply("");
    let _unanswered = next(&mut stage, "SUBSCRIBE").await;
    next(&mut stage, "DIAL").await.reply("");
    next(&mut stage, "SUBSCRIBE").await.reply("");
    settled().await;
    assert_eq!(stage.client.news.load(Relaxed), 1);
}

/// The old connection for news may be dead without the client noticing.
#[tokio::test(start_paused = true)]
async fn a_new_connection_that_carries_votes_makes_one_for_news_too() {
    let mut stage = Stage::up().await;
    stage.node.follow(&name("a"), true);
    next(&mut stage, "DIAL").await.reply("");
    let silent = next(&mut stage, "SUBSCRIBE").await;
    silent.reply("");
    settled().await;
    let (dial, _) = stage.redialed().await;
    dial.reply("");
    stage.greeted().await;
    next(&mut stage, "SUBSCRIBE").await.reply("");
    stage.is_up().await;
    tokio::time::sleep(MS).await;
    let mut commands = Vec::new();
    while let Ok(sent) = stage.sent.try_recv() {
        commands.push(sent.command);
        sent.reply("");
        settled().await;
    }
    commands.retain(|command| !["SCRIPT", "INFO"].contains(command));
    assert_eq!(commands, ["DIAL", "SUBSCRIBE"]);
    assert_eq!(stage.client.news.load(Relaxed), 2);
}
