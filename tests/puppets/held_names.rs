//! The list of held names, which nodes return page by page.

use quorumlock::node::{Inspection, Name, Outcome, Scan, Verb};
use quorumlock::{HeldNames, Inspected};
use tokio::task::JoinHandle;

use crate::answers::{Answer, SILENCE};
use crate::stage::{MS, SECOND, Stage};

type Page = (HeldNames, Option<Vec<(String, Inspected)>>);

fn turned(mut names: HeldNames) -> JoinHandle<Page> {
    tokio::spawn(async move {
        let page = names.next().await.unwrap();
        (names, page)
    })
}

/// The last page, with this many names.
fn page(names: u32) -> Answer {
    let name = |number| Name::new("quorumlock:", &format!("{number:05}")).unwrap();
    Some(Ok(Outcome::Scanned { next: Scan::FIRST.to_owned(), names: (0..names).map(name).collect() }))
}

fn held() -> Answer {
    Some(Ok(Outcome::Inspected(vec![Inspection::held("c/1/x/1".to_owned(), 1, Some(SECOND), 1)])))
}

fn free() -> Answer {
    Some(Ok(Outcome::Inspected(vec![Inspection::free(1)])))
}

#[tokio::test(start_paused = true)]
async fn nodes_are_asked_about_256_names_at_once_at_most() {
    let stage = Stage::new(3);
    let turning = turned(stage.quorum.held_names());
    stage.round(Verb::Scan, |_, _| page(600)).await;
    for names in [256, 256, 88] {
        for _ in 0..names {
            stage.round(Verb::Inspect, |_, _| SILENCE).await;
        }
        stage.quiet_for(MS).await;
        stage.answer_all(|_| held());
    }
    let (mut names, page) = turning.await.unwrap();
    assert_eq!(page.unwrap().len(), 600);
    assert!(names.next().await.unwrap().is_none() && names.is_complete());
}

#[tokio::test(start_paused = true)]
async fn name_without_a_holder_or_a_quorum_of_replies_is_missed() {
    for (answers, found, missed) in [
        ([SILENCE, SILENCE, SILENCE], 0, 1),
        ([free(), SILENCE, SILENCE], 0, 1),
        ([free(), free(), SILENCE], 0, 0),
        ([held(), SILENCE, SILENCE], 1, 0),
        ([held(), free(), free()], 1, 0),
    ] {
        let stage = Stage::new(3);
        let turning = turned(stage.quorum.held_names());
        stage.round(Verb::Scan, |_, _| page(1)).await;
        stage.round(Verb::Inspect, |node, _| answers[node].clone()).await;
        let (mut names, page) = turning.await.unwrap();
        assert_eq!(page.unwrap().len(), found, "{answers:?}");
        assert!(names.next().await.unwrap().is_none() && names.unread().is_empty());
        assert_eq!((names.missed().len(), names.is_complete()), (missed, missed == 0), "{answers:?}");
    }
}
