//! Elections: leaders proclaim values, and observers in each process watch who leads.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use quorumlock::{Leader, LeaderLease, Leadership, Lease, LockOptions, Quorum};

use crate::clients::{Ask, Client, Ending, Watch, watched};
use crate::dice::Dice;
use crate::judge::history::What;
use crate::plan::Plan;
use crate::scenes::part::Part;
use crate::world::{World, micros};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// All elections of a run are on this name.
const NAME: u8 = 0;
/// An observer that receives no news asks the nodes every 5 s.
const RARELY: Duration = Duration::from_millis(5_100);

/// Within this time, every client sends INFO once more: a client sends INFO every 5 s.
const PROBED: Duration = Duration::from_millis(6_100);

/// The values and observers of a run.
#[derive(Debug, Default)]
pub struct Elections {
    values: AtomicU32,
    observers: AtomicU32,
    /// The observers that have not seen the last value, each with its process.
    looking: Mutex<BTreeMap<u32, usize>>,
    /// The last value, which all observers must see; 0 until it is proclaimed.
    last: AtomicU32,
}

impl Elections {
    fn begun(&self, process: usize) -> u32 {
        let number = self.observers.fetch_add(1, Ordering::Relaxed);
        self.looking.lock().unwrap().insert(number, process);
        number
    }

    fn ended(&self, number: u32) {
        self.looking.lock().unwrap().remove(&number);
    }

    fn last(&self) -> Option<u32> {
        Some(self.last.load(Ordering::Relaxed)).filter(|&last| last > 0)
    }
}

impl World {
    /// Observers in live processes that have not seen the last value.
    fn looking(&self) -> Vec<(u32, usize)> {
        let core = self.core.lock().unwrap();
        let looking = self.elections.looking.lock().unwrap();
        looking
            .iter()
            .map(|(&number, &process)| (number, process))
            .filter(|&(_, of)| !core.processes[of].dead)
            .collect()
    }
}

/// Starts one or two observers in a process, if the plan has elections.
pub fn look(world: &Arc<World>, process: usize, quorum: &Quorum, dice: &mut Dice) {
    if world.core.lock().unwrap().plan.elections == 0.0 {
        return;
    }
    for _ in 0..1 + dice.index(2) {
        let observer = Observer { world: world.clone(), process, quorum: quorum.clone(), dice: dice.fork() };
        world.exec.spawn(process, Box::pin(observer.live()));
    }
}

/// A task that observes an election for a while, and then begins anew.
struct Observer {
    world: Arc<World>,
    process: usize,
    quorum: Quorum,
    dice: Dice,
}

impl Observer {
    async fn live(mut self) {
        let ttl = self.world.core.lock().unwrap().plan.ttl;
        loop {
            let number = self.world.elections.begun(self.process);
            let life = self.dice.log(ttl, 100 * ttl);
            let over = self.observes(number, life).await;
            self.world.elections.ended(number);
            if over {
                return;
            }
        }
    }

    /// Observes for `life`. Returns true if it saw the last value or the quorum was shut down.
    async fn observes(&mut self, number: u32, life: Duration) -> bool {
        let name = self.world.core.lock().unwrap().plan.name_of(NAME);
        let mut leaders = pin!(self.quorum.election(name).observe().expect("the name is one"));
        let mut end = pin!(self.world.sleep(life));
        let mut mortal = true;
        loop {
            let seen = tokio::select! {
                biased;
                () = &mut end, if mortal => None,
                seen = leaders.next() => Some(seen),
            };
            match seen {
                // The quorum was shut down.
                Some(None) => return true,
                Some(Some(seen)) if self.saw(number, &seen) => return true,
                Some(Some(_)) => self.rests().await,
                None if self.world.elections.last().is_none() => return false,
                None => mortal = false,
            }
        }
    }

    /// Records what the observer saw. Returns whether this is the last value.
    fn saw(&self, observer: u32, seen: &Leadership) -> bool {
        let process = self.process as u16;
        let value = seen.value.strip_prefix('v').map(|value| value.parse().expect("a value of ours"));
        let owner = self.world.core.lock().unwrap().history.owner(process, &seen.leader);
        self.world.record(What::Saw { process, observer, name: NAME, owner, token: seen.token, value });
        value.is_some() && value == self.world.elections.last()
    }

    /// Sometimes pauses, so that the observer reads late.
    async fn rests(&mut self) {
        if self.dice.chance(0.1) {
            let pause = self.dice.log(MS, SECOND);
            self.world.sleep(pause).await;
        }
    }
}

impl Client {
    /// Tries to become the leader. This may fail.
    pub async fn some_office(&mut self) {
        let (manner, (options, round)) = (self.manner(), self.options(false));
        let timeout = self.timeout(manner);
        let ask = self.ask_for(&[NAME], false, &options, round, timeout, false);
        let election = self.quorum.election_with(self.text(NAME), &options).expect("the plan's options make sense");
        match self.or_goes(manner, election.campaign(timeout)).await {
            Some(Ok(leader)) => self.leads(&ask, leader).await,
            Some(Err(error)) => self.failed(&ask, &error),
            None => self.went(&ask),
        }
    }

    /// A part of a scene: leads, and proclaims this many values.
    pub async fn play_office(&mut self, part: Part, values: u32, apart: Duration, round: Duration) {
        let options = part.options(self.ttl());
        let ask = self.ask_for(&[NAME], false, &options, round, part.timeout, part.must);
        let election = self.quorum.election_with(self.text(NAME), &options).expect("the scene's options make sense");
        match election.campaign(part.timeout).await {
            Ok(leader) => {
                let watch = self.acquired(&ask, Lease::clone(&leader));
                for _ in 0..values {
                    self.proclaim(&watch, &leader, self.value()).await;
                    self.world.sleep(apart).await;
                }
                self.world.sleep(part.hold).await;
                self.ends(&watch, Ending::Release, leader, Leader::resign).await;
            }
            Err(error) => self.failed(&ask, &error),
        }
    }

    async fn leads(&mut self, ask: &Ask, leader: Leader) {
        let watch = self.acquired(ask, Lease::clone(&leader));
        let (mut inner, lease) = (self.another(), leader.lease());
        if watched(inner.term(&watch, &lease), lease.lost(), || self.lost(&watch)).await {
            return self.keeps_lost(leader, &watch).await;
        }
        let ending = self.ending();
        self.ends(&watch, ending, leader, Leader::resign).await;
    }

    /// Proclaims up to three values, works, and proclaims up to three more.
    async fn term(&mut self, watch: &Watch, lease: &LeaderLease) {
        self.proclaims(watch, lease).await;
        self.work(watch).await;
        self.proclaims(watch, lease).await;
    }

    async fn proclaims(&mut self, watch: &Watch, lease: &LeaderLease) {
        for _ in 0..self.dice.index(4) {
            let value = self.value();
            self.proclaim(watch, lease, value).await;
            let pause = self.dice.log(MS / 10, 100 * MS);
            self.world.sleep(pause).await;
        }
    }

    /// A value that nobody has proclaimed before.
    fn value(&self) -> u32 {
        1 + self.world.elections.values.fetch_add(1, Ordering::Relaxed)
    }

    /// Proclaims a value. Returns whether a quorum has stored it.
    async fn proclaim(&self, watch: &Watch, lease: &LeaderLease, value: u32) -> bool {
        let office = watch.number;
        self.record(|process| What::Proclaims { process, lease: office, value });
        lease.proclaim(format!("v{value}")).await.is_ok()
    }

    /// Leads until all observers have seen the last value, or should have seen it.
    async fn leads_last(&mut self, patience: Duration) {
        let (options, round) = (LockOptions::default().ttl(self.ttl()), (self.ttl() / 3).min(2 * SECOND));
        let ask = self.ask_for(&[NAME], false, &options, round, patience, true);
        let election = self.quorum.election_with(self.text(NAME), &options).expect("the plan's options make sense");
        match election.campaign(patience).await {
            Ok(leader) => {
                let watch = self.acquired(&ask, Lease::clone(&leader));
                let last = self.value();
                self.world.elections.last.store(last, Ordering::Relaxed);
                if self.proclaim(&watch, &leader, last).await {
                    self.shows(RARELY + 2 * round + SECOND).await;
                }
                self.ends(&watch, Ending::Release, leader, Leader::resign).await;
            }
            Err(error) => self.failed(&ask, &error),
        }
    }

    /// Waits until all observers have seen the last value. Records the observers that are too late.
    async fn shows(&self, patience: Duration) {
        let end = self.world.now() + micros(patience);
        while !self.world.looking().is_empty() && self.world.now() < end {
            self.world.sleep(10 * MS).await;
        }
        for (observer, of) in self.world.looking() {
            self.world.record(What::Unseen { process: of as u16, observer });
        }
    }
}

/// After all faults: one client leads, and all observers must see its value.
pub async fn finale(world: &Arc<World>, plan: &Plan) {
    let quorums = world.quorums.all();
    let Some((process, quorum)) = quorums.first().cloned() else { return };
    drop(quorums);
    let (dice, patience) = (world.core.lock().unwrap().dice.fork(), plan.patience());
    if plan.proxied {
        // Behind a proxy, clients learn only from INFO that another server process answers. From
        // then on, these clients doubt the node. So wait until all clients know of the new process.
        world.run(world.now() + micros(PROBED), || false).await;
    }
    let mut client = Client::new(world.clone(), process, quorum, dice);
    let number = world.parts.begun(process);
    let task = async move {
        client.leads_last(patience).await;
        client.world.parts.ended(number);
    };
    world.exec.spawn(process, Box::pin(task));
    let limit = world.now() + micros(2 * patience);
    world.run(limit, || world.parts.open(world) == 0).await;
}
