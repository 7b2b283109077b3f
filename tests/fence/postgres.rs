//! Transactions of a real PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use quorumlock::Quorum;
use quorumlock::fence::sqlx_0_8::{Error, TABLE, commit, commit_and_release, guard};
use sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};
use sqlx::{Connection, Postgres as Server, Transaction};

use super::common::postgres::Postgres;
use super::common::proxy::Proxy;
use super::common::{PATIENCE, eventually};
use super::writers::{Wrote, all_write, never_goes_back, tokens};
use super::{held, paused_and_next};

const MARGIN: Duration = Duration::from_millis(1);

/// The database of one test.
struct Database {
    server: Arc<Postgres>,
    name: &'static str,
    pool: PgPool,
}

impl Database {
    /// Makes a database with order 42, whose state is `packed`.
    async fn new(name: &'static str) -> Self {
        let server = Postgres::shared().await;
        let mut first = PgConnection::connect(&server.url("postgres")).await.unwrap();
        sqlx::raw_sql(&format!("CREATE DATABASE {name}")).execute(&mut first).await.unwrap();
        let options = PgPoolOptions::new().max_connections(8).acquire_timeout(PATIENCE);
        let pool = options.connect(&server.url(name)).await.unwrap();
        let database = Self { server, name, pool };
        database.run(TABLE).await;
        database.run("CREATE TABLE orders (id BIGINT PRIMARY KEY, state TEXT NOT NULL, count BIGINT DEFAULT 0)").await;
        database.run("INSERT INTO orders (id, state) VALUES (42, 'packed')").await;
        database
    }

    async fn run(&self, sql: &str) {
        sqlx::raw_sql(sql).execute(&self.pool).await.unwrap();
    }

    async fn state(&self) -> String {
        sqlx::query_scalar("SELECT state FROM orders WHERE id = 42").fetch_one(&self.pool).await.unwrap()
    }

    async fn number(&self, sql: &str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.pool).await.unwrap()
    }

    async fn fence(&self) -> i64 {
        self.number("SELECT fence FROM quorumlock_fences WHERE resource = 'orders/42'").await
    }

    /// A transaction that has passed the fence.
    async fn guarded(&self, token: u64) -> Result<Transaction<'static, Server>, Error> {
        let mut transaction = self.pool.begin().await.unwrap();
        guard(&mut transaction, "orders/42", token).await.map(|()| transaction)
    }

    /// A transaction that has passed the fence and has written.
    async fn writing(&self, token: u64, state: &str) -> Result<Transaction<'static, Server>, Error> {
        let mut transaction = self.guarded(token).await?;
        write(&mut transaction, state).await;
        Ok(transaction)
    }

    /// Waits until a statement that begins with this text waits for a lock.
    async fn waits(&self, statement: &str) {
        let waiting = format!(
            "SELECT count(*) FROM pg_stat_activity
             WHERE wait_event_type = 'Lock' AND query ILIKE '{statement}%' AND datname = '{}'",
            self.name
        );
        eventually(statement, async || self.number(&waiting).await == 1).await;
    }
}

async fn write(connection: &mut PgConnection, state: &str) {
    let update = sqlx::query("UPDATE orders SET state = $1, count = count + 1 WHERE id = 42").bind(state);
    assert_eq!(update.execute(connection).await.unwrap().rows_affected(), 1);
}

fn sqlstate(error: &Error) -> Option<String> {
    let Error::Database(error) = error else { return None };
    Some(error.as_database_error()?.code()?.into_owned())
}

#[tokio::test]
async fn transaction_commits_under_the_lock_and_then_releases_it() {
    let database = Database::new("under_the_lock").await;
    let quorum = Quorum::in_memory(3).unwrap();
    let lock = held(&quorum).await;
    let (token, lease) = (lock.token(), lock.lease());
    let transaction = database.writing(token, "shipped").await.unwrap();
    commit_and_release(transaction, lock, MARGIN).await.unwrap();
    assert_eq!(database.state().await, "shipped");
    assert_eq!(database.fence().await.unsigned_abs(), token);
    assert!(!lease.is_held());
}

#[tokio::test]
async fn a_holder_writes_as_often_as_it_wants_to() {
    let database = Database::new("as_often").await;
    let quorum = Quorum::in_memory(3).unwrap();
    let lock = held(&quorum).await;
    for state in ["shipped", "delivered"] {
        let transaction = database.writing(lock.token(), state).await.unwrap();
        commit(transaction, &lock, MARGIN).await.unwrap();
        assert_eq!(database.state().await, state);
    }
    assert!(lock.is_held());
}

#[tokio::test]
async fn the_paused_holder_is_refused_after_the_next_one_wrote() {
    let database = Database::new("paused").await;
    let quorum = Quorum::in_memory(3).unwrap();
    let (early, late) = paused_and_next(&quorum).await;
    let transaction = database.writing(late.token(), "shipped").await.unwrap();
    commit(transaction, &late, MARGIN).await.unwrap();
    let Err(Error::Stale(stale)) = database.writing(early.token(), "cancelled").await else {
        panic!("a stale token passed");
    };
    assert_eq!((stale.token(), stale.seen()), (early.token(), late.token()));
    assert_eq!(database.state().await, "shipped");
    assert_eq!(database.fence().await.unsigned_abs(), late.token());
}

#[tokio::test]
async fn lost_lock_commits_nothing() {
    let database = Database::new("lost").await;
    let quorum = Quorum::in_memory(3).unwrap();
    let paused = quorum.options().ttl(Duration::from_millis(300)).auto_renew(false);
    let lock = quorum.lock_with("orders/42", &paused).unwrap().acquire_default().await.unwrap();
    let transaction = database.writing(lock.token(), "cancelled").await.unwrap();
    lock.lost().await;
    let error = commit_and_release(transaction, lock, MARGIN).await.unwrap_err();
    assert!(matches!(&error, Error::Lost(lost) if lost.is_lost()), "{error}");
    assert_eq!(database.state().await, "packed");
    // The row of the fence is not locked any more.
    database.guarded(1).await.unwrap();
}

#[tokio::test]
async fn lock_that_ends_within_the_margin_commits_nothing() {
    let database = Database::new("margin").await;
    let quorum = Quorum::in_memory(3).unwrap();
    let lock = held(&quorum).await;
    let transaction = database.writing(lock.token(), "cancelled").await.unwrap();
    let error = commit(transaction, &lock, Duration::from_secs(3_600)).await.unwrap_err();
    assert!(matches!(&error, Error::Lost(lost) if lost.is_lost()), "{error}");
    assert!(lock.is_held());
    assert_eq!(database.state().await, "packed");
}

/// PostgreSQL's COMMIT succeeds, but rolls back the failed transaction.
#[tokio::test]
async fn a_transaction_that_has_failed_is_no_success() {
    let database = Database::new("has_failed").await;
    let quorum = Quorum::in_memory(3).unwrap();
    let lock = held(&quorum).await;
    let mut transaction = database.writing(lock.token(), "shipped").await.unwrap();
    sqlx::raw_sql("SELECT 1 / 0").execute(&mut *transaction).await.unwrap_err();
    let error = commit(transaction, &lock, MARGIN).await.unwrap_err();
    assert_eq!(sqlstate(&error).as_deref(), Some("25P02"), "{error}");
    assert_eq!(database.state().await, "packed");
}

#[tokio::test]
async fn commit_refused_by_the_server_writes_nothing() {
    let database = Database::new("refused").await;
    database.run("ALTER TABLE orders ADD UNIQUE (state) DEFERRABLE INITIALLY DEFERRED").await;
    database.run("INSERT INTO orders (id, state) VALUES (43, 'shipped')").await;
    let quorum = Quorum::in_memory(3).unwrap();
    let lock = held(&quorum).await;
    let transaction = database.writing(lock.token(), "shipped").await.unwrap();
    let error = commit(transaction, &lock, MARGIN).await.unwrap_err();
    assert_eq!(sqlstate(&error).as_deref(), Some("23505"), "{error}");
    assert_eq!(database.state().await, "packed");
}

/// A proxy that has lost its server sends such errors, and cannot know the outcome.
#[tokio::test]
async fn an_error_that_decides_nothing_leaves_it_unknown() {
    for (name, code) in [("undecided", "40003"), ("disconnected", "08006")] {
        let database = Database::new(name).await;
        let trigger = format!(
            "CREATE FUNCTION undecided() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN RAISE 'nobody knows' USING ERRCODE = '{code}'; END $$;
             CREATE CONSTRAINT TRIGGER undecided AFTER UPDATE ON orders DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION undecided()"
        );
        database.run(&trigger).await;
        let lock = held(&Quorum::in_memory(3).unwrap()).await;
        let transaction = database.writing(lock.token(), "shipped").await.unwrap();
        let error = commit(transaction, &lock, MARGIN).await.unwrap_err();
        assert!(matches!(error, Error::Unknown { transaction: Some(_), .. }), "{error:?}");
    }
}

#[tokio::test]
async fn next_holder_waits_for_an_undecided_transaction_and_sees_it() {
    let database = Database::new("not_decided").await;
    let quorum = Quorum::in_memory(3).unwrap();
    let (early, late) = paused_and_next(&quorum).await;
    // The early holder has checked its lease, and its COMMIT comes late.
    let first = database.writing(early.token(), "cancelled").await.unwrap();
    let second = async {
        let mut second = database.guarded(late.token()).await.unwrap();
        let state: String =
            sqlx::query_scalar("SELECT state FROM orders WHERE id = 42").fetch_one(&mut *second).await.unwrap();
        write(&mut second, &format!("{state}, shipped")).await;
        commit(second, &late, MARGIN).await.unwrap();
    };
    let commit_first = async {
        database.waits("INSERT INTO quorumlock_fences").await;
        first.commit().await.unwrap();
    };
    tokio::join!(second, commit_first);
    assert_eq!(database.state().await, "cancelled, shipped");
}

#[tokio::test]
async fn stale_transaction_is_refused_after_a_wait_for_next_holder() {
    let database = Database::new("waited").await;
    let quorum = Quorum::in_memory(3).unwrap();
    let (early, late) = paused_and_next(&quorum).await;
    for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        let lock = late.reenter().unwrap();
        let first = database.writing(late.token(), level).await.unwrap();
        let mut second = database.pool.begin().await.unwrap();
        sqlx::raw_sql(&format!("SET TRANSACTION ISOLATION LEVEL {level}")).execute(&mut *second).await.unwrap();
        let commit_first = async {
            database.waits("INSERT INTO quorumlock_fences").await;
            commit_and_release(first, lock, MARGIN).await.unwrap();
        };
        let (refused, ()) = tokio::join!(guard(&mut second, "orders/42", early.token()), commit_first);
        let refused = refused.unwrap_err();
        let is_stale = matches!(refused, Error::Stale(_)) && level == "READ COMMITTED";
        assert!(is_stale || sqlstate(&refused).as_deref() == Some("40001"), "{level}: {refused}");
        assert_eq!(database.state().await, level);
    }
}

/// At these isolation levels, a transaction reads the data as of its beginning, although it reads
/// the fence later.
#[tokio::test]
async fn snapshot_from_before_the_fence_is_refused() {
    let database = Database::new("snapshots").await;
    for (level, resource) in [("REPEATABLE READ", "new"), ("REPEATABLE READ", "known"), ("SERIALIZABLE", "known")] {
        database.run("INSERT INTO quorumlock_fences VALUES ('known', 1) ON CONFLICT DO NOTHING").await;
        let mut late = database.pool.begin().await.unwrap();
        sqlx::raw_sql(&format!("SET TRANSACTION ISOLATION LEVEL {level}")).execute(&mut *late).await.unwrap();
        sqlx::raw_sql("SELECT state FROM orders").execute(&mut *late).await.unwrap();
        let mut early = database.pool.begin().await.unwrap();
        guard(&mut early, resource, 7).await.unwrap();
        write(&mut early, "written meanwhile").await;
        early.commit().await.unwrap();
        let error = guard(&mut late, resource, 8).await.unwrap_err();
        assert_eq!(sqlstate(&error).as_deref(), Some("40001"), "{level}, {resource}: {error}");
    }
}

/// The answer to COMMIT is lost, and the lock is released. The next holder waits for the outcome.
#[tokio::test]
async fn next_holder_waits_for_an_unknown_outcome_and_can_read_it() {
    let database = Database::new("unknown").await;
    // The COMMIT waits for a lock that the test holds.
    database
        .run(
            "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$;
             CREATE CONSTRAINT TRIGGER wait AFTER UPDATE ON orders DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION wait()",
        )
        .await;
    let mut holds_it_up = database.pool.begin().await.unwrap();
    sqlx::raw_sql("SELECT pg_advisory_xact_lock(1)").execute(&mut *holds_it_up).await.unwrap();

    let quorum = Quorum::in_memory(3).unwrap();
    let lock = held(&quorum).await;
    let (token, lease) = (lock.token(), lock.lease());
    let proxy = Proxy::start(database.server.port()).await;
    let url = format!("postgres://postgres@127.0.0.1:{}/{}", proxy.port(), database.name);
    let far = PgPoolOptions::new().max_connections(1).acquire_timeout(PATIENCE).connect(&url).await.unwrap();
    let mut transaction = far.begin().await.unwrap();
    guard(&mut transaction, "orders/42", token).await.unwrap();
    write(&mut transaction, "shipped").await;
    let cut = async {
        database.waits("COMMIT").await;
        proxy.reset();
    };
    let (unknown, ()) = tokio::join!(commit_and_release(transaction, lock, MARGIN), cut);
    let Err(Error::Unknown { transaction: Some(id), .. }) = unknown else { panic!("{unknown:?}") };
    assert!(!lease.is_held());

    let next = held(&quorum).await;
    let goes_on = async {
        database.waits("INSERT INTO quorumlock_fences").await;
        holds_it_up.rollback().await.unwrap();
    };
    let (passed, ()) = tokio::join!(database.guarded(next.token()), goes_on);
    let mut passed = passed.unwrap();
    let status: String = sqlx::query_scalar("SELECT txid_status($1)").bind(id).fetch_one(&mut *passed).await.unwrap();
    assert_eq!(status, "committed");
    assert_eq!(database.state().await, "shipped");
}

#[tokio::test]
async fn postgres_writes_of_many_tokens_end_in_order_at_the_highest() {
    let database = Database::new("many").await;
    database.run("CREATE TABLE history (step BIGSERIAL, fence BIGINT NOT NULL)").await;
    let tokens = tokens();
    let highest = all_write(&tokens, async |token| {
        let mut transaction = match database.guarded(token).await {
            Ok(transaction) => transaction,
            Err(Error::Stale(stale)) => return Wrote::Stale { seen: stale.seen() },
            Err(error) => panic!("{error}"),
        };
        let insert = sqlx::query("INSERT INTO history (fence) VALUES ($1)").bind(token.cast_signed());
        insert.execute(&mut *transaction).await.unwrap();
        transaction.commit().await.unwrap();
        Wrote::Done
    })
    .await;
    assert_eq!(database.fence().await.unsigned_abs(), highest);
    let history = sqlx::query_scalar::<_, i64>("SELECT fence FROM history ORDER BY step");
    let history = history.fetch_all(&database.pool).await.unwrap();
    never_goes_back(&history);
    assert_eq!(history.last().copied().map(i64::unsigned_abs), Some(highest));
}

#[tokio::test]
async fn a_column_of_one_row_is_a_fence_too() {
    let database = Database::new("one_row").await;
    database.run("ALTER TABLE orders ADD fence BIGINT NOT NULL DEFAULT 0").await;
    for (token, changed) in [(7, 1), (7, 1), (6, 0), (8, 1)] {
        let update = sqlx::query("UPDATE orders SET state = 'shipped', fence = $1 WHERE id = 42 AND fence <= $1");
        let update = update.bind(quorumlock::fence::sqlx_0_8::bigint(token).unwrap());
        assert_eq!(update.execute(&database.pool).await.unwrap().rows_affected(), changed, "token {token}");
    }
}
