//! In which form a call's operations cost least: as one argument that `struct.unpack` reads (what
//! the library sends), as one of MessagePack, or as an argument for each field.
//!
//! A script that only reads every field of every operation runs over one real server, by the
//! library's transport (fred), so what differs between the forms is their encoding by the client
//! and their reading by the node. Forms take turns, and all figures are multiples of the first.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    missing_docs,
    reason = "this is a benchmark"
)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::Duration;

use fred::prelude::*;
use fred::types::config::Config;
use fred::types::{ClusterHash, CustomCommand};
use rustix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 9;
/// Operations of a form and a round.
const OPERATIONS: usize = 32_000;
const OWNER: &str = "host-1/4711/6f1ed002-ab5e-4a9d-9e4c-7d0d6b3d9e11/123456.0";
const NUMBERS: [f64; 9] = [1.0, 30_000.0, 1_764_000_000_123_456.0, 1.0, 1.0, 0.0, 500.0, 0.0, 0.0];

const PACKED: &str = "local at, packed, last, sum = 1, ARGV[1], #ARGV[1], 0
    while at <= last do
      local verb, ttl, ballot, owner, count, names, wait, grace, ticket, next, behind =
        struct.unpack('<BddsI4Hdddd', packed, at)
      sum, at = sum + verb + ttl + ballot + #owner + count + names + wait + grace + ticket + next, behind
    end
    return string.format('%.0f', sum)";

const MESSAGES: &str = "local sum = 0
    for _, operation in ipairs({cmsgpack.unpack(ARGV[1])}) do
      local verb, ttl, ballot, owner, count, names, wait, grace, ticket, next = unpack(operation)
      sum = sum + verb + ttl + ballot + #owner + count + names + wait + grace + ticket + next
    end
    return string.format('%.0f', sum)";

const PLAIN: &str = "local sum = 0
    for at = 1, #ARGV, 10 do
      local verb, ttl, ballot, owner, count, names, wait, grace, ticket, next = unpack(ARGV, at, at + 9)
      sum = sum + verb + ttl + ballot + #owner + count + names + wait + grace + ticket + next
    end
    return string.format('%.0f', sum)";

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Packed,
    Messages,
    Plain,
}

impl Form {
    const ALL: [Self; 3] = [Self::Packed, Self::Messages, Self::Plain];

    const fn named(self) -> &'static str {
        match self {
            Self::Packed => "packed, by struct",
            Self::Messages => "packed, by cmsgpack",
            Self::Plain => "ten arguments an operation",
        }
    }

    const fn script(self) -> &'static str {
        match self {
            Self::Packed => PACKED,
            Self::Messages => MESSAGES,
            Self::Plain => PLAIN,
        }
    }

    /// So many operations, as a call's arguments.
    fn arguments(self, operations: usize) -> Vec<Value> {
        match self {
            Self::Packed => vec![bytes(operations, packed)],
            Self::Messages => vec![bytes(operations, message)],
            Self::Plain => (0..operations).flat_map(|_| plain()).collect(),
        }
    }
}

fn bytes(operations: usize, one: fn(&mut Vec<u8>)) -> Value {
    let mut bytes = Vec::with_capacity(operations * 160);
    (0..operations).for_each(|_| one(&mut bytes));
    Value::Bytes(bytes.into())
}

fn packed(bytes: &mut Vec<u8>) {
    let [_, ttl, ballot, .., wait, grace, ticket, next] = NUMBERS;
    bytes.push(1);
    [ttl, ballot].iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    bytes.extend(OWNER.as_bytes());
    bytes.push(0);
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(1u16.to_le_bytes());
    [wait, grace, ticket, next].iter().for_each(|number| bytes.extend(number.to_le_bytes()));
}

/// An array of ten: doubles, and the owner as the fourth.
fn message(bytes: &mut Vec<u8>) {
    bytes.push(0x9a);
    for (place, number) in NUMBERS.iter().enumerate() {
        if place == 3 {
            bytes.extend([0xd9, u8::try_from(OWNER.len()).unwrap()]);
            bytes.extend(OWNER.as_bytes());
        }
        bytes.push(0xcb);
        bytes.extend(number.to_be_bytes());
    }
}

fn plain() -> impl Iterator<Item = Value> {
    let text = |number: &f64| Value::from(format!("{number:.0}"));
    let (before, behind) = NUMBERS.split_at(3);
    before.iter().map(text).chain([Value::from(OWNER)]).chain(behind.iter().map(text))
}

/// What a form has cost so far, client and node.
#[derive(Clone, Copy, Default)]
struct Cost {
    client: Duration,
    node: Duration,
}

struct Stage {
    client: Client,
    digests: Vec<String>,
}

impl Stage {
    async fn call(&self, form: Form, operations: usize) -> String {
        let mut arguments = vec![Value::from(self.digests[form as usize].as_str()), Value::from(0)];
        arguments.extend(form.arguments(operations));
        text(&self.client, "EVALSHA", arguments).await
    }

    async fn turn(&self, form: Form, operations: usize, calls: usize) -> Cost {
        let (node, client) = (self.node().await, process());
        for _ in 0..calls {
            self.call(form, operations).await;
        }
        let client = process() - client;
        Cost { client, node: self.node().await - node }
    }

    async fn node(&self) -> Duration {
        let info = text(&self.client, "INFO", vec!["cpu".into()]).await;
        let of = |name: &str| -> f64 {
            let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.expect("servers tell their CPU time").trim().parse().unwrap()
        };
        Duration::from_secs_f64(of("used_cpu_user") + of("used_cpu_sys"))
    }
}

async fn text(client: &Client, command: &'static str, arguments: Vec<Value>) -> String {
    client.custom(CustomCommand::new_static(command, ClusterHash::FirstKey, false), arguments).await.unwrap()
}

fn process() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let server = common::server::Server::start().await;
    let config = Config::from_url(&server.url()).unwrap();
    let client = Builder::from_config(config).build().unwrap();
    let _connection = client.init().await.unwrap();
    let mut digests = Vec::new();
    for form in Form::ALL {
        digests.push(text(&client, "SCRIPT", vec!["LOAD".into(), form.script().into()]).await);
    }
    let stage = Stage { client, digests };
    println!("CPU, as a multiple of the first form's; median of {ROUNDS} rounds (lowest to highest)");
    for operations in [1, 32] {
        compared(&stage, operations).await;
    }
}

async fn compared(stage: &Stage, operations: usize) {
    // All forms say the same.
    let mut told = Vec::new();
    for form in Form::ALL {
        told.push(stage.call(form, operations).await);
    }
    assert!(told.iter().all(|one| *one == told[0]), "{told:?}");
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let mut round = [Cost::default(); 3];
        for (form, cost) in Form::ALL.into_iter().zip(&mut round) {
            *cost = stage.turn(form, operations, OPERATIONS / operations).await;
        }
        rounds.push(round);
    }
    println!("{operations} operations a call:");
    for form in Form::ALL {
        let of = |cost: fn(&Cost) -> Duration| {
            spread(rounds.iter().map(|round| cost(&round[form as usize]).as_secs_f64() / cost(&round[0]).as_secs_f64()))
        };
        println!("  {:<27} node {}, client {}", form.named(), of(|cost| cost.node), of(|cost| cost.client));
    }
}

fn spread(ratios: impl Iterator<Item = f64>) -> String {
    let mut ratios: Vec<_> = ratios.collect();
    ratios.sort_by(f64::total_cmp);
    format!("{:.2} ({:.2} to {:.2})", ratios[ratios.len() / 2], ratios[0], ratios[ratios.len() - 1])
}
