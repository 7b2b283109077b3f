//! One run: from a seed to a history and the judge's verdict.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorumlock::rules::validity::MAX_ROUND;
use tokio::runtime::Builder;

use crate::clients;
use crate::dice::Dice;
use crate::elections;
use crate::judge::history::{Event, History, Micros, SECOND, What};
use crate::judge::{Clocks, Configured, Judgement, Watched, judge};
use crate::plan::Plan;
use crate::process::{self, EPOCH};
use crate::server::Server;
use crate::world::{Process, World, micros};

pub struct Run {
    pub seed: u64,
    pub plan: Plan,
    pub history: History,
    pub simulated: Micros,
    pub faults: BTreeMap<&'static str, u64>,
    pub judgement: Judgement,
}

/// Runs the world of a seed, and judges its history.
pub fn run(seed: u64) -> Run {
    let mut dice = Dice::new(seed);
    let plan = with_a_face(seed, Plan::draw(&mut dice));
    let drawn = plan.clone();
    of(seed, plan, dice.fork(), false, async move |world| live(world, &drawn, &mut dice).await)
}

/// Gives some worlds semaphores, elections or other uses of locks. The seed's number decides which
/// worlds, so the dice of all other worlds stay as they are.
fn with_a_face(seed: u64, plan: Plan) -> Plan {
    let (dice, alike) = (&mut Dice::new(!seed), plan.is_plain());
    match seed % 16 {
        7 if alike => plan.with_permits(1 + (seed / 16 % 3) as u32),
        4 if alike => plan.with_periods(dice),
        12 if alike => plan.with_elections(dice),
        6 | 14 => plan.with_downgrades(),
        3 => plan.with_tickets(),
        9 => plan.with_sessions(dice),
        11 if alike => plan.without_faults(),
        _ => plan,
    }
}

/// Runs a world through `live`, and judges its history. With `strict`, the judge excuses nothing.
pub fn of(seed: u64, plan: Plan, dice: Dice, strict: bool, live: impl AsyncFnOnce(&Arc<World>)) -> Run {
    let world = World::new(plan.clone(), dice);
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    // The driver polls all tasks as one Tokio task, which Tokio's budget must not stop.
    runtime.block_on(tokio::task::unconstrained(live(&world)));
    let mut core = world.core.lock().unwrap();
    let history = std::mem::take(&mut core.history);
    let mut lists = Vec::new();
    let mut told = |number: usize| {
        let Process { rate, deployment, .. } = core.processes[number];
        let deployed = plan.configuration(number, deployment);
        let listed = deployed.listed();
        let known = lists.iter().position(|known| known == listed.hash());
        let list = known.unwrap_or_else(|| {
            lists.push(listed.hash().clone());
            lists.len() - 1
        });
        let of = deployed.list.iter().fold(0, |of, node| of | 1 << node);
        let (nodes, max_ttl) = (deployed.list.len(), micros(deployed.max_ttl));
        Configured { nodes, of, rate, max_ttl, list: list as u8, team: deployed.team }
    };
    let clients: Vec<_> = (0..core.processes.len()).map(&mut told).collect();
    let faults = std::mem::take(&mut core.faults);
    drop(core);
    drop(runtime);
    let clocks = clocks(&plan, &clients);
    let judgement = judge(&history.events, Some(Watched { clients, clocks, strict }));
    Run { seed, plan, simulated: world.now(), history, faults, judgement }
}

/// Limits for tokens in worlds in which nodes forget at any time, so that tokens may rest on
/// clocks. `None` if nodes restart in turn and are synced, or if no node forgets.
fn clocks(plan: &Plan, clients: &[Configured]) -> Option<Clocks> {
    let max_ttl = clients.iter().map(|client| client.max_ttl).min()?;
    let quarantine = max_ttl - max_ttl / 100;
    let clocks = Clocks { zero: EPOCH as u64, quarantine, ahead: max_ttl / 2 };
    Some(clocks).filter(|_| plan.forgets() && plan.in_turn.is_none())
}

async fn live(world: &Arc<World>, plan: &Plan, dice: &mut Dice) {
    let mut clients = vec![1; plan.processes];
    (plan.processes..plan.clients).for_each(|_| clients[dice.index(plan.processes)] += 1);
    for (number, clients) in clients.into_iter().enumerate() {
        let region = dice.index(plan.regions);
        let deployment = plan.mixed.as_ref().map_or(0, |mixed| mixed.first(number));
        process::start(world, region, clients, deployment);
    }
    world.unleash();
    world.plan_changes();
    world.plan_twins();
    let limit = clients::bound(world);
    // While one configuration replaces another, there may be no process for a moment.
    let over = || world.now() >= micros(plan.length) && finished(world) >= expected(world);
    world.run(limit, over).await;
    let missing = expected(world) - finished(world);
    if missing == 0 && plan.elections > 0.0 {
        elections::finale(world, plan).await;
    }
    end(world, plan, missing).await;
}

/// Ends a run. `missing` is the number of clients that have not finished.
pub async fn end(world: &Arc<World>, plan: &Plan, missing: u64) {
    if missing > 0 {
        world.record(What::Unfinished { clients: missing as u32 });
    } else {
        settle(world, plan).await;
    }
}

/// How many clients must finish, including clients of processes that have not begun yet.
fn expected(world: &World) -> u64 {
    let core = world.core.lock().unwrap();
    core.expected
}

fn finished(world: &World) -> u64 {
    world.finished.load(Ordering::Relaxed)
}

/// Checks that nothing is left after the run.
async fn settle(world: &Arc<World>, plan: &Plan) {
    let quorums = world.quorums.all();
    let quiet = Arc::new(Mutex::new(BTreeSet::new()));
    for (process, quorum) in &quorums {
        let (quorum, quiet, number) = (quorum.clone(), quiet.clone(), *process);
        let task = async move {
            quorum.quiet().await;
            quiet.lock().unwrap().insert(number);
        };
        world.exec.spawn(*process, Box::pin(task));
    }
    let limit = world.now() + micros(4 * plan.max_ttl + 10 * Duration::from_secs(1));
    world.run(limit, || quiet.lock().unwrap().len() == quorums.len()).await;
    if world.tickets.were_made() {
        // A client receives pushes for a lock that became a ticket until the lock's deadline.
        world.run(limit, || quorums.iter().all(|(_, quorum)| quorum.in_use().2 == 0)).await;
    }
    for (process, quorum) in &quorums {
        let process_number = *process as u16;
        if !quiet.lock().unwrap().contains(process) {
            world.record(What::NotQuiet { process: process_number });
        }
        let (lines, timers, ears) = quorum.in_use();
        if (lines, timers, ears) != (0, 0, 0) {
            let [lines, timers, ears] = [lines, timers, ears].map(|count| count as u32);
            world.record(What::EntriesLeft { process: process_number, lines, timers, ears });
        }
    }
    let live: Vec<_> = quorums.iter().map(|(process, _)| *process).collect();
    drop(quorums);
    world.quorums.clear();
    let gone = |process: &usize| world.exec.tasks(*process) == 0;
    // The task of a closed connection may still wait for an answer, for up to `node_timeout`.
    world.run(world.now() + SECOND + micros(plan.node_timeout), || live.iter().all(gone)).await;
    for process in live.iter().filter(|process| !gone(process)) {
        let tasks = world.exec.tasks(*process) as u32;
        world.record(What::TasksLeft { process: *process as u16, tasks });
    }
    keys(world, plan).await;
}

/// Checks that holds and places that killed processes or late messages leave behind end by
/// themselves. A hold ends after a ttl, and a place a little later.
async fn keys(world: &Arc<World>, plan: &Plan) {
    let find = |left: fn(&Server, Micros) -> bool| {
        let now = world.now();
        let core = world.core.lock().unwrap();
        core.servers.iter().position(|server| left(server, now)).map(|node| node as u8)
    };
    let held = || find(|server, now| !server.is_free(now));
    let waiting = || find(|server, now| !server.is_idle(now));
    let longest = plan.longest_delay + plan.ttl.mul_f64(2.04) + 2 * plan.period + Duration::from_secs(2);
    // If a clock was stepped back, holds last longer.
    let stepped = |event: &&Event| matches!(event.what, What::ClockStepped { .. });
    let steps = world.core.lock().unwrap().history.events.iter().filter(stepped).count() as u64;
    // A late claim may take a place while its owner leaves the queue. This place stays for twice
    // the time after which the owner would have asked again. The 0.5 % and the two delays allow for
    // the slowest clock and for the way of the request.
    let again = plan.ttl.min(MAX_ROUND).max(plan.ttl / 3);
    let place = micros((again * 2).mul_f64(1.005) + plan.farthest() * 2);
    let limit = micros(plan.length + longest).max(world.now() + place) + micros(2 * plan.step()) * steps;
    world.run(limit, || held().is_none() && waiting().is_none()).await;
    held().into_iter().for_each(|node| world.record(What::KeyLeft { node }));
    waiting().into_iter().for_each(|node| world.record(What::LineLeft { node }));
}
