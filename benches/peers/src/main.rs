mod contender;
mod servers;
mod stage;
mod turn;
use contender::Kind;
use stage::Stage;
use turn::Work;

#[tokio::main(flavor = "current_thread")]
async fn main() -> contender::Result<()> {
    let mut stage = Stage::set(5)?;
    for (what, work) in [("fresh", Work::Fresh { pairs: 1000 }), ("again", Work::Again { pairs: 1000 }), ("crowd", Work::Crowd { tasks: 256, each: 20 })] {
        let turns = stage.compare(&Kind::ALL, 5, |_| work).await?;
        println!("== {what}");
        for t in &turns {
            print!("{:24}", t.kind.name());
            for f in ["pair_p50_ms", "pair_p99_ms", "pairs_per_second", "client_cpu_us", "node_cpu_us", "script_calls_a_node", "commands_a_node"] {
                let mut v: Vec<f64> = t.rounds.iter().map(|r| r[f]).collect();
                v.sort_by(f64::total_cmp);
                let mut h: Vec<f64> = t.rounds.iter().zip(&turns[0].rounds).map(|(r, h)| r[f] / h[f]).collect();
                h.sort_by(f64::total_cmp);
                if v.is_empty() { print!(" -"); continue; }
                print!(" {f}={:.3} ({:.2})", v[v.len() / 2], h[h.len() / 2]);
            }
            println!(" {:?}", t.failed);
        }
    }
    Ok(())
}
