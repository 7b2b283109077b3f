//! The project's goals, line by line, with the figures of a run. Each figure is a ratio within one
//! run, or depends little on the machine.

use crate::contender::Kind;
use crate::table::{Report, print, short};

const OURS: &str = Kind::Ours.name();
const FRED: &str = Kind::Fred.name();

/// One goal: its text, the measured figure, and the bound.
struct Line {
    what: String,
    /// `None` if it was not measured.
    figure: Option<f64>,
    bound: Bound,
}

#[derive(Clone, Copy)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bound {
    fn holds(self, figure: f64) -> bool {
        match self {
            Self::AtMost(most) => figure <= most,
            Self::AtLeast(least) => figure >= least,
        }
    }

    fn said(self) -> String {
        match self {
            Self::AtMost(most) => format!("at most {most}"),
            Self::AtLeast(least) => format!("at least {least}"),
        }
    }
}

fn lines(report: &Report) -> Vec<Line> {
    let parts = [healthy, crowd, starts, far, failing, many, names, growth, core];
    parts.into_iter().flat_map(|part| part(report)).collect()
}

/// All lines as a Markdown table.
pub fn markdown(report: &Report) -> String {
    let rows = lines(report).iter().map(row).map(|cells| format!("| {} |\n", cells.join(" | "))).collect::<String>();
    format!("| what is wanted | figure | bound | |\n|---|---|---|---|\n{rows}")
}

/// Prints all lines, and whether each holds.
pub fn tell(report: &Report) {
    println!("Reach");
    let rows: Vec<_> = lines(report).iter().map(row).collect();
    print(&["what", "figure", "wanted", ""], &rows);
    let count = |word: &str| rows.iter().filter(|row| row[3] == word).count();
    println!("{} hold, {} miss, {} were not measured", count("holds"), count("misses"), count("not measured"));
}

fn row(line: &Line) -> Vec<String> {
    let said = line.figure.map_or("not measured", |figure| if line.bound.holds(figure) { "holds" } else { "misses" });
    vec![line.what.clone(), line.figure.map_or_else(String::new, short), line.bound.said(), said.to_owned()]
}

fn line(what: impl Into<String>, figure: Option<f64>, bound: Bound) -> Line {
    Line { what: what.into(), figure, bound }
}

/// Both transports of this library, each with the floor of the same client library.
const TRANSPORTS: [(&str, Kind, Kind); 2] =
    [("fred", Kind::Ours, Kind::Fred), ("redis-rs", Kind::OursRedis, Kind::Redis)];

/// The goals that depend on the transport.
fn healthy(report: &Report) -> Vec<Line> {
    let mut lines = Vec::new();
    for ((transport, ours, floor), [alone, again]) in TRANSPORTS.into_iter().zip([[1.5, 1.4], [1.3, 1.2]]) {
        let by_hand = |scenario, name| report.to_floor(scenario, None, ours.name(), name);
        let beside =
            |scenario, name| Some(by_hand(scenario, name)? / report.to_floor(scenario, None, floor.name(), name)?);
        for (scenario, most) in [("alone", alone), ("again", again), ("near", 1.04)] {
            let what = format!("{scenario} over {transport}: p50, to the floor by hand");
            lines.push(line(what, by_hand(scenario, "pair_p50_ms"), Bound::AtMost(most)));
        }
        for scenario in ["alone", "again"] {
            let what = format!("{scenario} over {transport}: p99, to the floor of {transport}");
            lines.push(line(what, beside(scenario, "pair_p99_ms"), Bound::AtMost(1.2)));
            let what = format!("{scenario} over {transport}: client CPU, to the floor of {transport}");
            lines.push(line(what, beside(scenario, "client_cpu_us"), Bound::AtMost(1.1)));
        }
        let what = format!("crowd of 256 over {transport}: pairs a second, to the floor by hand");
        lines.push(line(what, by_hand("crowd", "pairs_per_second"), Bound::AtLeast(0.7)));
    }
    lines
}

fn crowd(report: &Report) -> Vec<Line> {
    let floor = |name| report.to_floor("crowd", None, OURS, name);
    let peers = [Kind::Rslock, Kind::DistributedLock].map(Kind::name);
    let best = peers.iter().filter_map(|peer| report.to_floor("crowd", None, peer, "pairs_per_second"));
    let best = best.fold(None, |best: Option<f64>, one| Some(best.map_or(one, |best| best.max(one))));
    vec![
        line(
            "crowd of 256: pairs a second, to the best peer",
            floor("pairs_per_second").zip(best).map(|(ours, best)| ours / best),
            Bound::AtLeast(2.0),
        ),
        line("crowd of 256: client CPU, to the floor by hand", floor("client_cpu_us"), Bound::AtMost(2.5)),
        line("crowd of 256: node CPU, to the floor by hand", floor("node_cpu_us"), Bound::AtMost(1.0)),
    ]
}

fn starts(report: &Report) -> Vec<Line> {
    let mut lines = Vec::new();
    for (transport, ours, floor) in TRANSPORTS {
        let figure = |kind: Kind, name| report.figure("start", None, kind.name(), name);
        let ratio = |of: Option<f64>, to: Option<f64>| of.zip(to).map(|(of, to)| of / to);
        let healthy = figure(ours, "healthy");
        let what = format!("first lock of a new process over {transport}: to the floor of {transport}");
        lines.push(line(what, ratio(healthy, figure(floor, "healthy")), Bound::AtMost(1.5)));
        for state in ["one_dead", "two_dead", "one_hung", "two_hung"] {
            let what =
                format!("first lock over {transport}, {} of five nodes: to healthy nodes", state.replace('_', " "));
            lines.push(line(what, ratio(figure(ours, state), healthy), Bound::AtMost(1.2)));
        }
    }
    lines
}

fn far(report: &Report) -> Vec<Line> {
    let figure = |name: &str| report.figure("far", None, OURS, name);
    // When the floor over fred connects, it waits for all nodes. The bound allows this library one
    // more round trip to the farthest node, which takes 160 ms.
    let fred = report.figure("far", None, FRED, "connect_ms");
    let connect = |name: &str| figure(name).zip(fred).map(|(ours, fred)| ours / (fred + 160.0));
    vec![
        line("far: acquire p50, to the third-smallest round trip", figure("acquire_p50_to_trip"), Bound::AtMost(1.005)),
        line("far: acquire p99", figure("acquire_p99_to_trip"), Bound::AtMost(1.02)),
        line("far: release p50", figure("release_p50_to_trip"), Bound::AtMost(1.005)),
        line("far: release p99", figure("release_p99_to_trip"), Bound::AtMost(1.02)),
        line(
            "far: a client connects, to fred's to all nodes and one more round trip",
            connect("connect_ms"),
            Bound::AtMost(1.05),
        ),
        line(
            "far: a client connects beside another, to fred's to all nodes and one more round trip",
            connect("connect_beside_ms"),
            Bound::AtMost(1.05),
        ),
    ]
}

fn failing(report: &Report) -> Vec<Line> {
    let mut lines = Vec::new();
    for failing in [1, 2] {
        let after = ["black-holed", "dead", "slow"].map(|fault| format!("{failing} {fault} after the start"));
        let before = format!("{failing} black-holed before the start");
        for scenario in after.iter().chain([&before]) {
            let figure = |name: &str| report.figure(scenario, None, OURS, name);
            lines.push(line(
                format!("{scenario}: p50, to healthy nodes"),
                figure("p50_to_healthy"),
                Bound::AtMost(1.1),
            ));
            lines.push(line(format!("{scenario}: p99"), figure("p99_to_healthy"), Bound::AtMost(1.5)));
        }
    }
    lines
}

/// Goals of `leases`, if its rows were added.
fn many(report: &Report) -> Vec<Line> {
    let leases = |name: &str| report.figure("leases", None, OURS, name);
    vec![
        line("100,000 leases: lost", leases("lost"), Bound::AtMost(0.0)),
        line("100,000 leases: share of a core", leases("client_share"), Bound::AtMost(0.1)),
        line("100,000 leases: KiB of memory a lease", leases("kib_a_lease"), Bound::AtMost(1.5)),
        line("100,000 leases: script calls, to full batches", leases("calls_to_full"), Bound::AtMost(1.2)),
        line("100,000 leases: fullest second of renewals, to the mean", leases("peak_to_mean"), Bound::AtMost(2.0)),
    ]
}

/// Goals of `keys`, if its rows were added: the number of names, and how much the keys and the
/// memory grew since half the time.
fn names(report: &Report) -> Vec<Line> {
    let figure = |name: &str| report.figure("names", None, OURS, name);
    let names = figure("names").map_or_else(|| "a million".to_owned(), grouped);
    let flat = |whose: &str, name: &str| {
        let what = format!("{names} names, each used once: {whose} at the end, to that at half the time");
        line(what, figure(name), Bound::AtMost(1.05))
    };
    vec![
        flat("keys of a node", "keys_growth"),
        flat("memory of a node", "used_memory_growth"),
        flat("memory of the client", "client_memory_growth"),
    ]
}

/// Groups digits: 12,345.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let ends = |at: usize| at > 0 && (digits.len() - at).is_multiple_of(3);
    digits.char_indices().flat_map(|(at, digit)| ends(at).then_some(',').into_iter().chain([digit])).collect()
}

fn growth(report: &Report) -> Vec<Line> {
    let steps = |scenario: &str, name: &str| worst_step(&report.least(scenario, OURS, name));
    let tasks: Vec<_> = report.most("tasks", OURS, "pairs_per_second");
    let a_pair: Vec<_> = tasks.iter().map(|&(tasks, rate)| (tasks, tasks / rate)).collect();
    let waiters: Vec<_> = report.series("waiters", OURS, "each_us");
    let all: Vec<_> = waiters.iter().map(|&(waiters, each)| (waiters, waiters * each)).collect();
    let first = report.series("waiters", OURS, "first_ms");
    let head = first.last().zip(first.first()).map(|((_, last), (_, first))| last / first);
    // The bounds above 1 allow for noise.
    vec![
        line("1 to 9 nodes: worst step of p50, to linear", steps("nodes", "pair_p50_ms"), Bound::AtMost(1.1)),
        line("1 to 4,096 tasks: worst step of a round of all, to linear", worst_step(&a_pair), Bound::AtMost(1.1)),
        line(
            "1 to 1,000 names in a set: worst step of p50, to linear",
            steps("sets", "pair_p50_ms"),
            Bound::AtMost(1.1),
        ),
        line("1 to 10,000 waiters: worst step of the whole queue, to linear", worst_step(&all), Bound::AtMost(1.1)),
        line("1 to 10,000 waiters: the head's hand-over, to that of a lone waiter", head, Bound::AtMost(1.5)),
    ]
}

/// The worst step from one point to the next. A step of 1 means linear growth.
fn worst_step(points: &[(f64, f64)]) -> Option<f64> {
    let step = |pair: &[(f64, f64)]| (pair[1].1 / pair[0].1) / (pair[1].0 / pair[0].0);
    points.windows(2).map(step).reduce(f64::max)
}

/// Goals of `benches/cost`, if its rows were added.
fn core(report: &Report) -> Vec<Line> {
    let core = |name: &str| report.figure("core", None, OURS, name);
    vec![
        line("core: tally and validity of a round, ns", core("round_ns"), Bound::AtMost(50.0)),
        line("core: acquire and release over five memory nodes, us", core("memory_pair_us"), Bound::AtMost(10.0)),
    ]
}
