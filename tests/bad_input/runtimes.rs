//! Calls without a Tokio runtime.

use futures::FutureExt;
use quorumlock::{Error, Quorum};

use crate::common::{PATIENCE, servers, unguarded};
use crate::{SECOND, builder};

#[test]
fn without_a_tokio_runtime_there_is_an_error_and_no_panic() {
    let said = |error: Error| {
        assert!(error.is_config() && error.to_string().contains("Tokio runtime"), "{error}");
    };
    said(builder(&["redis://127.0.0.1:1".to_owned()]).connect().now_or_never().unwrap().unwrap_err());
    said(builder(&["redis://127.0.0.1:1".to_owned()]).open().unwrap_err());
    said(Quorum::in_memory(3).unwrap_err());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (quorum, guard) = runtime.block_on(async {
        let quorum = Quorum::in_memory(3).unwrap();
        let guard = quorum.lock("held").acquire(PATIENCE).await.unwrap();
        (quorum, guard)
    });
    said(quorum.lock("a").acquire(SECOND).now_or_never().unwrap().unwrap_err());
    said(quorum.lock("a").try_acquire().now_or_never().unwrap().unwrap_err());
    said(quorum.inspect("a").now_or_never().unwrap().unwrap_err());
    drop(guard);
    runtime.block_on(async { assert!(quorum.lock("held").try_acquire().await.unwrap().is_some()) });
}

#[test]
fn a_guard_that_outlives_its_runtime_is_dropped_in_peace() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (quorum, guard) = runtime.block_on(async {
        let servers = servers(1).await;
        let quorum = unguarded(&servers).connect().await.unwrap();
        let guard = quorum.lock("held").acquire(PATIENCE).await.unwrap();
        (quorum, guard)
    });
    drop(runtime);
    assert!(guard.token() > 0);
    drop(guard);
    drop(quorum);
}
