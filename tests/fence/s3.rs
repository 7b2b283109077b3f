//! Fenced objects in stand-ins for S3: the memory store, and a small server for S3's client.

use std::sync::Arc;

use hyper::body::Bytes;
use object_store::memory::InMemory;
use object_store::{Error as StoreError, ObjectStore};
use quorumlock::Quorum;
use quorumlock::fence::s3::{Bucket as _, Condition, Error, Found, Put, get, put, read, remove};

use super::bucket::Bucket;
use super::paused_and_next;
use super::writers::{Wrote, all_write, never_goes_back, tokens};

const KEY: &str = "orders/42";

type Store = Arc<dyn ObjectStore>;

/// Both stand-ins. Dropping the bucket ends its server.
async fn stores() -> (Bucket, [Store; 2]) {
    let bucket = Bucket::start().await;
    let client = Arc::new(bucket.client());
    (bucket, [Arc::new(InMemory::new()), client])
}

async fn has(store: &Store) -> Option<String> {
    get(store, KEY).await.unwrap().map(|body| String::from_utf8(body.to_vec()).unwrap())
}

#[track_caller]
fn is_stale<T>(result: Result<T, Error<StoreError>>, token: u64, seen: u64) {
    let Err(Error::Stale(stale)) = result else { panic!("a stale token passed") };
    assert_eq!((stale.token(), stale.seen()), (token, seen));
}

#[tokio::test]
async fn the_paused_holder_is_refused_after_the_next_one_wrote() {
    let (_bucket, stores) = stores().await;
    for store in &stores {
        let quorum = Quorum::in_memory(3).unwrap();
        let (early, late) = paused_and_next(&quorum).await;
        put(store, KEY, early.token(), b"packed").await.unwrap();
        put(store, KEY, late.token(), b"shipped").await.unwrap();
        is_stale(put(store, KEY, early.token(), b"cancelled").await, early.token(), late.token());
        is_stale(read(store, KEY, early.token()).await, early.token(), late.token());
        is_stale(remove(store, KEY, early.token()).await, early.token(), late.token());
        assert_eq!(has(store).await.as_deref(), Some("shipped"));
        put(store, KEY, late.token(), b"delivered").await.unwrap();
        assert_eq!(has(store).await.as_deref(), Some("delivered"));
    }
}

#[tokio::test]
async fn a_read_keeps_earlier_holders_from_writing_behind_it() {
    let (_bucket, stores) = stores().await;
    for store in &stores {
        assert_eq!(read(store, KEY, 8).await.unwrap(), None);
        assert_eq!(has(store).await, None);
        is_stale(put(store, KEY, 7, b"cancelled").await, 7, 8);
        put(store, KEY, 8, b"packed").await.unwrap();
        assert_eq!(read(store, KEY, 9).await.unwrap().as_deref(), Some(&b"packed"[..]));
        is_stale(put(store, KEY, 8, b"cancelled").await, 8, 9);
    }
}

#[tokio::test]
async fn removed_object_keeps_its_fence() {
    let (_bucket, stores) = stores().await;
    for store in &stores {
        put(store, KEY, 8, b"packed").await.unwrap();
        remove(store, KEY, 9).await.unwrap();
        assert_eq!(has(store).await, None);
        is_stale(put(store, KEY, 8, b"cancelled").await, 8, 9);
        put(store, KEY, 9, b"").await.unwrap();
        assert_eq!(has(store).await.as_deref(), Some(""));
    }
}

/// The early holder has read the object and is about to write. Meanwhile the next holder writes the
/// same content again. Since ETags of S3 do not cover metadata, the content itself must differ.
#[tokio::test]
async fn the_next_holders_write_of_the_same_content_is_noticed() {
    let (_bucket, stores) = stores().await;
    for store in &stores {
        put(store, KEY, 7, b"packed").await.unwrap();
        let Found { e_tag, .. } = store.get(KEY).await.unwrap().unwrap();
        put(store, KEY, 8, b"packed").await.unwrap();
        let late = store.put(KEY, Bytes::from_static(b"cancelled"), Condition::Matches(e_tag.clone())).await.unwrap();
        assert_eq!(late, Put::Refused);
        // If one holder writes the old content again, the ETag is also a new one.
        let Found { e_tag, .. } = store.get(KEY).await.unwrap().unwrap();
        put(store, KEY, 8, b"shipped").await.unwrap();
        put(store, KEY, 8, b"packed").await.unwrap();
        assert_ne!(store.get(KEY).await.unwrap().unwrap().e_tag, e_tag);
    }
}

#[tokio::test]
async fn an_object_that_others_wrote_is_left_as_it_is() {
    let bucket = Bucket::start().await;
    let store = bucket.client();
    bucket.overwrite(KEY, b"packed\n");
    for wrote in [put(&store, KEY, 7, b"shipped").await, remove(&store, KEY, 7).await] {
        let error = wrote.unwrap_err();
        assert!(matches!(&error, Error::Unfenced(begin) if begin == "packed\n"), "{error}");
    }
    assert!(matches!(get(&store, KEY).await, Err(Error::Unfenced(_))));
    assert!(bucket.history().is_empty());
}

#[tokio::test]
async fn a_conflict_is_no_refusal() {
    let bucket = Bucket::start().await;
    let store = bucket.client();
    for (token, body) in [(7, b"packed "), (8, b"shipped")] {
        bucket.conflict(2);
        put(&store, KEY, token, body).await.unwrap();
        assert_eq!(get(&store, KEY).await.unwrap().as_deref(), Some(&body[..]));
    }
}

#[tokio::test]
async fn a_write_without_an_answer_is_written_once() {
    let bucket = Bucket::start().await;
    let store = bucket.client();
    for (token, body) in [(7, b"packed "), (8, b"shipped")] {
        bucket.leave_unanswered(1);
        put(&store, KEY, token, body).await.unwrap();
    }
    let history = bucket.history();
    assert_eq!(history, ["quorumlock fence 7 write 1\npacked ", "quorumlock fence 8 write 2\nshipped"]);
}

/// The outcome of a write is unknown. The next write with the same token settles this outcome, even
/// if both contents are equal: after that, the first write comes too late.
#[tokio::test]
async fn write_of_unknown_outcome_is_refused_after_the_next_write() {
    let (_bucket, stores) = stores().await;
    for store in &stores {
        put(store, KEY, 7, b"packed").await.unwrap();
        let Found { e_tag, .. } = store.get(KEY).await.unwrap().unwrap();
        put(store, KEY, 7, b"packed").await.unwrap();
        let late = store.put(KEY, Bytes::from_static(b"unknown"), Condition::Matches(e_tag)).await.unwrap();
        assert_eq!(late, Put::Refused);
        let Found { e_tag, .. } = store.get(KEY).await.unwrap().unwrap();
        remove(store, KEY, 7).await.unwrap();
        remove(store, KEY, 7).await.unwrap();
        let late = store.put(KEY, Bytes::from_static(b"unknown"), Condition::Matches(e_tag)).await.unwrap();
        assert_eq!(late, Put::Refused);
        assert_eq!(has(store).await, None);
    }
}

/// A user's own client. All writes to its store have the same result.
struct Client(Result<Put, Failed>);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Failed;

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the connection was reset")
    }
}

impl std::error::Error for Failed {}

impl quorumlock::fence::s3::Bucket for Client {
    type Error = Failed;

    async fn get(&self, _: &str) -> Result<Option<Found>, Failed> {
        Ok(None)
    }

    async fn put(&self, _: &str, _: Bytes, condition: Condition) -> Result<Put, Failed> {
        assert_eq!(condition, Condition::Absent);
        self.0
    }
}

#[tokio::test]
async fn a_client_of_ones_own_is_asked_a_bounded_number_of_times() {
    put(&Client(Ok(Put::Done)), KEY, 7, b"shipped").await.unwrap();
    let busy = put(&Client(Ok(Put::Refused)), KEY, 7, b"shipped").await.unwrap_err();
    assert!(matches!(busy, Error::Busy), "{busy}");
    let failed = put(&Client(Err(Failed)), KEY, 7, b"shipped").await.unwrap_err();
    assert!(matches!(failed, Error::Store(Failed)), "{failed}");
    assert!(failed.to_string().contains("may have been written or not"), "{failed}");
}

#[tokio::test]
async fn a_key_that_would_become_another_one_is_an_error() {
    let error = put(&InMemory::new(), "orders//42", 7, b"").await.unwrap_err();
    assert!(matches!(error, Error::Store(_)), "{error}");
}

#[tokio::test]
async fn s3_writes_of_many_tokens_end_in_order_at_the_highest() {
    let (bucket, stores) = stores().await;
    let tokens = tokens();
    for store in &stores {
        let highest =
            all_write(&tokens, async |token| match put(store, KEY, token, token.to_string().as_bytes()).await {
                Ok(()) => Wrote::Done,
                Err(Error::Stale(stale)) => Wrote::Stale { seen: stale.seen() },
                Err(error) => panic!("{error}"),
            })
            .await;
        assert_eq!(has(store).await, Some(highest.to_string()));
    }
    let line =
        |object: Bytes| String::from_utf8(object.to_vec()).unwrap().lines().nth(1).unwrap().parse::<u64>().unwrap();
    let history: Vec<_> = bucket.history().into_iter().map(line).collect();
    never_goes_back(&history);
}
