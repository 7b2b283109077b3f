//! A transaction in PostgreSQL that is committed only while the lock is held. If a holder was
//! paused for too long, its transaction is not committed.
//!
//! ```sh
//! export DATABASE_URL=postgres://postgres@127.0.0.1/test
//! quorumlock sandbox -- cargo run --example sqlx_fencing --features fence-sqlx-0_8
//! ```
//!
//! This example creates two tables in that database: `quorumlock_fences` and `example_orders`.

use std::time::Duration;

use quorumlock::fence::sqlx_0_8 as fence;
use quorumlock::{Lease, Quorum, Result};
use sqlx::postgres::PgPoolOptions;
use sqlx::{PgPool, Postgres, Transaction};

/// When the transaction is committed, at least this much of the lock's validity must be left.
const MARGIN: Duration = Duration::from_secs(1);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("DATABASE_URL").map_err(|_| "set DATABASE_URL to the address of a PostgreSQL database")?;
    let pool = PgPoolOptions::new().max_connections(2).connect(&url).await?;
    migrate(&pool).await?;
    let quorum = connected().await?;

    // One holder writes, and stands still before the commit, as on a virtual machine that is moved.
    // Meanwhile nothing renews its lock, so the lock ends after the ttl.
    let paused = quorum.options().ttl(Duration::from_secs(1)).auto_renew(false);
    let early = quorum.lock_with("orders/42", &paused)?.acquire_default().await?;
    let cancelled = writing(&pool, &early, "cancelled").await?;

    // The next holder gets the lock, with a greater token. After that, the first holder's commit
    // fails.
    let late = quorum.lock("orders/42").acquire_default().await?;
    match fence::commit(cancelled, &early, MARGIN).await {
        Err(fence::Error::Lost(lost)) => println!("not committed: {lost}"),
        other => return Err(format!("the transaction was committed without the lock: {other:?}").into()),
    }

    let shipped = writing(&pool, &late, "shipped").await?;
    fence::commit_and_release(shipped, late, MARGIN).await?;

    // The late holder has written. So if the first holder begins another transaction, PostgreSQL
    // refuses its token.
    match writing(&pool, &early, "cancelled").await {
        Err(fence::Error::Stale(stale)) => println!("refused: {stale}"),
        other => return Err(format!("a stale token was not refused: {other:?}").into()),
    }
    println!("the order is {}", state(&pool).await?);

    quorum.shutdown(Duration::from_secs(1)).await;
    Ok(())
}

/// Begins a transaction, checks the token, and writes. If your write depends on other rows, read
/// these rows here, after the check.
async fn writing(pool: &PgPool, lock: &Lease, state: &str) -> Result<Transaction<'static, Postgres>, fence::Error> {
    let mut transaction = pool.begin().await.map_err(fence::Error::Database)?;
    fence::guard(&mut transaction, "orders/42", lock.token()).await?;
    let update = sqlx::query("UPDATE example_orders SET state = $1 WHERE id = 42").bind(state);
    update.execute(&mut *transaction).await.map_err(fence::Error::Database)?;
    Ok(transaction)
}

/// Creates the tables. In a service, do this in a migration.
async fn migrate(pool: &PgPool) -> sqlx::Result<()> {
    sqlx::raw_sql(fence::TABLE).execute(pool).await?;
    let orders = "CREATE TABLE IF NOT EXISTS example_orders (id BIGINT PRIMARY KEY, state TEXT NOT NULL)";
    sqlx::raw_sql(orders).execute(pool).await?;
    let order = "INSERT INTO example_orders VALUES (42, 'packed') ON CONFLICT (id) DO UPDATE SET state = 'packed'";
    sqlx::raw_sql(order).execute(pool).await.map(drop)
}

async fn state(pool: &PgPool) -> sqlx::Result<String> {
    sqlx::query_scalar("SELECT state FROM example_orders WHERE id = 42").fetch_one(pool).await
}

/// Connects to the nodes in QUORUMLOCK_NODES. Without this variable, makes nodes in memory, so that
/// this example runs without servers. A real program only calls `Quorum::from_env()`: locks in
/// memory exclude only callers of this process.
async fn connected() -> Result<Quorum> {
    if std::env::var_os("QUORUMLOCK_NODES").is_some() {
        return Quorum::from_env().await;
    }
    eprintln!("QUORUMLOCK_NODES is not set: three nodes in memory");
    Quorum::in_memory(3)
}
