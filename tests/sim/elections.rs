//! Elections: who leads proclaims values, and observers in each process look who leads.

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
/// Elections are on one name.
const NAME: u8 = 0;
/// An observer that is told of nothing looks every 5 s at least.
const RARELY: Duration = Duration::from_millis(5_100);

/// All clients have asked INFO again, which they do every 5 s.
const PROBED: Duration = Duration::from_millis(6_100);

/// What was proclaimed, and who looks.
#[derive(Debug, Default)]
pub struct Elections {
    values: AtomicU32,
    observers: AtomicU32,
    /// Those that have not seen the last value, by process.
    looking: Mutex<BTreeMap<u32, usize>>,
    /// The value that everybody must see in the end; 0 while there is none.
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
    /// Observers of processes that live which have not seen the last value.
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

/// Lets a process observe, where the plan has elections.
pub fn look(world: &Arc<World>, process: usize, quorum: &Quorum, dice: &mut Dice) {
    if world.core.lock().unwrap().plan.elections == 0.0 {
        return;
    }
    for _ in 0..1 + dice.index(2) {
        let observer = Observer { world: world.clone(), process, quorum: quorum.clone(), dice: dice.fork() };
        world.exec.spawn(process, Box::pin(observer.live()));
    }
}

/// One that looks who leads, ends, and begins anew.
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

    /// For so long, or until it has seen the last value there is; returns whether it has.
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

    /// Whether that is the last there is.
    fn saw(&self, observer: u32, seen: &Leadership) -> bool {
        let process = self.process as u16;
        let value = seen.value.strip_prefix('v').map(|value| value.parse().expect("a value of ours"));
        let owner = self.world.core.lock().unwrap().history.owner(process, &seen.leader);
        self.world.record(What::Saw { process, observer, name: NAME, owner, token: seen.token, value });
        value.is_some() && value == self.world.elections.last()
    }

    /// Now and then it does something else for a while.
    async fn rests(&mut self) {
        if self.dice.chance(0.1) {
            let pause = self.dice.log(MS, SECOND);
            self.world.sleep(pause).await;
        }
    }
}

impl Client {
    /// Wants to lead, however that goes.
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

    /// A part of a scene: leads, and proclaims so many values.
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

    /// Proclaims some values, works, and proclaims others perhaps.
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

    /// What nobody has proclaimed before.
    fn value(&self) -> u32 {
        1 + self.world.elections.values.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether a quorum has stored it.
    async fn proclaim(&self, watch: &Watch, lease: &LeaderLease, value: u32) -> bool {
        let office = watch.number;
        self.record(|process| What::Proclaims { process, lease: office, value });
        lease.proclaim(format!("v{value}")).await.is_ok()
    }

    /// Leads until everybody has seen its last value, or should have.
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

    /// Until all observers have seen it; tells of those that have not for so long.
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

/// All is quiet: somebody leads, and all observers see it.
pub async fn finale(world: &Arc<World>, plan: &Plan) {
    let quorums = world.quorums.all();
    let Some((process, quorum)) = quorums.first().cloned() else { return };
    drop(quorums);
    let (dice, patience) = (world.core.lock().unwrap().dice.fork(), plan.patience());
    if plan.proxied {
        // Behind a proxy clients learn by INFO alone that another process answers, and until all have,
        // each doubts what the others wrote.
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
