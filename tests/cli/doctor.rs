//! `quorumlock doctor`: it finds each planted fault. The finding has the right id, and the exit
//! code is right.

mod clinic;
mod rights;
mod tls;

use std::process::Command;
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;

use super::status;
use super::unwell::{guarded, quarantined, without_a_disk, without_replicas};
use super::{Background, EACH_NODE, IN_VAIN, at_once, bare, done, over, until_listed};
use crate::common::fake::{Fake, well};
use crate::common::proxy::{Proxy, Way};
use crate::common::server::Server;
use clinic::{Clinic, doctor, faults, finding, finds, patient, report, unknown};

#[tokio::test]
async fn healthy_nodes_are_fine_and_nothing_is_written_there() {
    let clinic = Clinic::open(3).await;
    finds(&mut clinic.doctor(), 0, &[]);
    assert!(clinic.servers().all(|server| server.command(&["KEYS", "*"]) == "quorumlock:node"));
    let object = looked(&clinic);
    assert!(object["findings"].as_array().unwrap().iter().all(|finding| finding["level"] == "fine"), "{object:#}");
    assert_eq!((&object["failure_domains"], &object["domains_to_fail"]), (&3.into(), &2.into()));
    let (code, out, err) = done(clinic.doctor().arg("-v"));
    let line = "fine  eviction  It evicts nothing.  all nodes\n";
    assert!(code == 0 && out.contains(line), "{code} {out}{err}");
    let (code, out, err) = done(&mut clinic.doctor());
    assert!(code == 0 && out.ends_with(" checks fine (-v shows them)\n") && out.lines().count() == 1, "{out}{err}");
}

#[tokio::test]
async fn beside_clients_the_doctor_writes_nothing_either() {
    let clinic = Clinic::open(3).await;
    let folder = tempfile::tempdir().unwrap();
    let mut run = bare();
    run.env("QUORUMLOCK_NODES", clinic.urls().join(","));
    run.args(["run", "job", "--timeout", "1h", "--", "sh", "-c", "until [ -e $0/go ]; do sleep 0.02; done"]);
    let run = Background::start(run.arg(folder.path()));
    clinic.servers().for_each(|server| until_listed(std::slice::from_ref(server)));
    std::fs::write(folder.path().join("go"), "").unwrap();
    assert_eq!(run.done().0, 0);
    let object = looked(&clinic);
    assert!(finding(&object, "members")["what"].as_str().unwrap().contains("in force on 3 of 3 nodes"), "{object:#}");
}

/// The report of a doctor that finds no fault, and changes nothing on the servers.
fn looked(clinic: &Clinic) -> Value {
    let changes = || clinic.servers().map(changes).collect::<Vec<_>>();
    let mut said = Value::Null;
    super::until("a look changes nothing", || {
        let before = changes();
        assert!(before.iter().all(|count| *count > 0), "they have been used: {before:?}");
        said = finds(&mut clinic.doctor(), 0, &[]);
        before == changes()
    });
    said
}

/// How many writes a server has carried out.
fn changes(server: &Server) -> u64 {
    let info = server.command(&["INFO", "persistence"]);
    info.lines().find_map(|line| line.trim().strip_prefix("rdb_changes_since_last_save:")?.parse().ok()).unwrap()
}

#[tokio::test]
async fn fault_1_a_server_that_may_evict_locks_is_unsafe() {
    let clinic = Clinic::open(3).await;
    let server = clinic.server(1);
    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]), "OK");
    let hint = finds(&mut clinic.doctor(), 0, &[]);
    let levels: Vec<_> = hint["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|it| it["id"] == "eviction")
        .map(|it| &it["level"])
        .collect();
    assert_eq!(levels, ["hint", "fine"]);
    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "1gb"]), "OK");
    let object = finds(&mut clinic.doctor(), 2, &["eviction"]);
    assert_eq!(finding(&object, "eviction")["nodes"], serde_json::json!([server.url()]));
}

#[tokio::test]
async fn fault_2_a_replica_of_another_node_is_one_finding() {
    let clinic = Clinic::open(3).await;
    let port = clinic.server(0).port().to_string();
    assert_eq!(clinic.server(2).command(&["REPLICAOF", "127.0.0.1", &port]), "OK");
    super::until("the replica is connected", || {
        clinic.server(2).command(&["INFO", "replication"]).contains("master_link_status:up")
    });
    // Users are not replicated, so the replica keeps its users, and the doctor can log in.
    let object = finds(&mut clinic.doctor(), 1, &["bare-quorum", "replica"]);
    let what = format!("It is a replica of {}.", clinic.server(0).url());
    assert_eq!(finding(&object, "replica")["what"], what, "{object:#}");
}

#[tokio::test]
async fn fault_3_one_server_behind_two_addresses_is_unsafe() {
    let clinic = Clinic::open(2).await;
    let mut urls = clinic.urls();
    urls.push(urls[0].replace("127.0.0.1", "localhost"));
    finds(&mut patient(&urls), 2, &["no-quorum", "duplicate"]);
}

#[tokio::test]
async fn fault_4_down_node_is_a_warning_and_a_lost_quorum_is_unsafe() {
    let mut clinic = Clinic::open(3).await;
    clinic.0[2].server.kill();
    let object = finds(&mut clinic.doctor(), 1, &["bare-quorum", "unreachable"]);
    assert_eq!(finding(&object, "unreachable")["nodes"], serde_json::json!([clinic.server(2).url()]));
    clinic.0[1].server.kill();
    finds(&mut clinic.doctor(), 2, &["no-quorum", "unreachable"]);
}

#[tokio::test]
async fn fault_5_a_wrong_password_is_told_and_not_repeated() {
    let clinic = Clinic::open(3).await;
    let mut urls = clinic.urls();
    urls[0] = urls[0].replace(":pw@", ":secretive@");
    let object = finds(&mut patient(&urls), 1, &["bare-quorum", "password"]);
    assert!(!object.to_string().contains("secretive"), "{object:#}");
    assert!(!done(&mut doctor(&urls)).1.contains("secretive"));
}

/// One of the reasons here is a password with a space, which fred cannot send.
#[tokio::test]
async fn each_connection_failure_has_its_own_advice() {
    let clinic = Clinic::open(1).await;
    let port = clinic.server(0).port();
    let command = |words: &[&str]| assert_eq!(clinic.server(0).command(words), "OK");
    command(&["ACL", "SETUSER", "narrow", "on", ">pw", "~quorumlock:*", "&*", "+@all", "-select"]);
    let cases = [
        (format!("redis://narrow:pw@127.0.0.1:{port}/2"), "right-command", "ACL SETUSER the user with +select"),
        (format!("redis://locks:pw@127.0.0.1:{port}/99"), "unreachable", "Name a database that the server has"),
        ("redis://127.0.0.1:1".to_owned(), "unreachable", "Start the server there, or correct the port"),
        ("redis://nowhere.invalid".to_owned(), "unreachable", "Correct the host in its address"),
        ("redis+unix:///nowhere/redis.sock".to_owned(), "unreachable", "correct the path of its socket"),
    ];
    at_once(cases, |(url, id, mend)| {
        let (code, object) = report(doctor(&[url]).args(["--transport", "fred", "--node-timeout", "20s"]));
        let told = finding(&object, id)["mend"].as_str().unwrap();
        assert!(code == 2 && told.contains(mend), "{mend}: {object:#}");
    });
}

/// The password is refused before the command connects to a node.
#[test]
fn password_unfit_for_the_transport_is_refused_and_not_shown() {
    for arguments in [&["doctor"][..], &["status"], &["run", "job", "--", "true"]] {
        let mut command = bare();
        command.env("QUORUMLOCK_NODES", "redis://odd:a%20word@127.0.0.1:1").env("QUORUMLOCK_TRANSPORT", "fred");
        let (code, out, err) = done(command.args(arguments));
        assert!(
            code == 64 && err.contains("a user or password with spaces") && !format!("{out}{err}").contains("word@"),
            "{err}"
        );
    }
}

#[tokio::test]
async fn nodes_that_refuse_the_login_cause_no_further_findings() {
    let clinic = Clinic::open(3).await;
    let urls: Vec<_> = clinic.urls().iter().map(|url| url.replace(":pw@", ":secretive@")).collect();
    let object = finds(&mut patient(&urls), 2, &["no-quorum", "password"]);
    assert!(unknown(&object).is_empty(), "{object:#}");
}

#[tokio::test]
async fn fault_8_a_server_without_memory_is_told() {
    let clinic = Clinic::open(3).await;
    assert_eq!(clinic.server(0).command(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
    let object = finds(&mut clinic.doctor(), 1, &["bare-quorum", "memory"]);
    assert!(finding(&object, "memory")["what"].as_str().unwrap().contains("no memory left"), "{object:#}");
    assert_eq!(clinic.server(1).command(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
    finds(&mut clinic.doctor(), 2, &["no-quorum", "memory"]);
}

#[tokio::test]
async fn fault_9_a_restart_guard_that_is_off_is_unsafe() {
    let clinic = Clinic::open(3).await;
    finds(clinic.doctor().args(["--max-ttl", "0"]), 2, &["restart-guard"]);
    let object = finds(clinic.doctor().args(["--max-ttl", "5s"]), 0, &[]);
    assert_eq!(finding(&object, "short-max-ttl")["level"], "hint");
}

#[tokio::test]
async fn fault_10_a_clock_that_is_stepped_is_told() {
    let clinic = Clinic::open(3).await;
    // Set the clock further ahead until the doctor has ended, so that the doctor sees a step. If
    // the clock went forward and back, the doctor might read one of the two values only. If this
    // test stands still while the doctor reads the clock, there is no step: in this case, run the
    // doctor again.
    let (mut ahead, mut object) = (0, Value::Null);
    super::until("a step is found", || {
        let mut doctor = Background::start(clinic.doctor().arg("--json"));
        super::until("the doctor has ended", || {
            ahead += 20;
            clinic.0[1].set(&format!("+{ahead}"));
            std::thread::sleep(Duration::from_millis(50));
            doctor.child().try_wait().unwrap().is_some()
        });
        let (code, out, err) = doctor.done();
        object = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
        let is_found = faults(&object).contains(&"clock-step");
        assert!(!is_found || code == 1, "{code}: {object:#}");
        is_found
    });
    assert_eq!(finding(&object, "clock-step")["nodes"], serde_json::json!([clinic.server(1).url()]), "{object:#}");
    assert_eq!(faults(&object).iter().filter(|id| **id == "clock-step").count(), 1, "{object:#}");
    clinic.0[1].set("+172800");
    let far = finds(&mut clinic.doctor(), 1, &["clock-difference"]);
    assert!(finding(&far, "clock-difference")["what"].as_str().unwrap().contains("ahead of this machine"), "{far:#}");
}

#[tokio::test]
async fn fault_11_even_number_is_a_hint_and_two_nodes_a_warning() {
    let clinic = Clinic::open(4).await;
    let object = finds(&mut clinic.doctor(), 0, &[]);
    assert_eq!(finding(&object, "even-number")["level"], "hint");
    finds(&mut patient(&clinic.urls()[..2]), 1, &["quorum-size"]);
}

#[tokio::test]
async fn fault_12_all_nodes_on_one_host_or_a_majority_is_a_warning() {
    let clinic = Clinic::open(3).await;
    let mut command = bare();
    command.env("QUORUMLOCK_NODES", clinic.urls().join(",")).env("QUORUMLOCK_TIMEOUT", "1h").arg("doctor");
    finds(command.args(EACH_NODE), 1, &["one-host"]);
    let mut command = bare();
    command.env("QUORUMLOCK_NODES", clinic.urls().join(",")).env("QUORUMLOCK_TIMEOUT", "1h");
    finds(command.args(["doctor", "--domains", "eu,us,eu"]).args(EACH_NODE), 1, &["majority-on-one-host"]);
    let mut command = bare();
    let told = command.env("QUORUMLOCK_NODES", clinic.urls().join(",")).args(["doctor", "--domains", "eu,us"]);
    let (code, _, err) = done(told);
    assert!(code == 64 && err.contains("--domains has 2 names for 3 nodes"), "{code} {err}");
}

#[tokio::test]
async fn fault_13_other_list_of_this_name_stops_the_quorum() {
    let clinic = Clinic::open(3).await;
    clinic.server(2).put_in_force("jobs 60000 4 other:1", 600_000);
    let object = finds(&mut clinic.doctor(), 1, &["bare-quorum", "other-list"]);
    assert!(finding(&object, "other-list")["why"].as_str().unwrap().contains("different names"), "{object:#}");
    clinic.server(2).put_in_force("default 60000 4 other:1", 600_000);
    let object = finds(&mut clinic.doctor(), 2, &["no-quorum", "other-list"]);
    let what = finding(&object, "other-list")["what"].as_str().unwrap();
    assert!(what.contains("ours has 3 nodes, theirs has 1 node: ") && what.contains("stop its clients"), "{object:#}");
    let mend = finding(&object, "no-quorum")["mend"].as_str().unwrap();
    assert!(mend.starts_with("The nodes need no repair."), "{object:#}");
}

#[tokio::test]
async fn fault_15_unused_servers_are_a_hint_to_run_init() {
    let servers = crate::common::new_servers(3).await;
    let (_, object) = report(over(&servers).args(["doctor", "--domains", "a,b,c"]).args(EACH_NODE));
    let unused = finding(&object, "unused");
    assert!(unused["level"] == "hint" && unused["mend"].as_str().unwrap().contains("quorumlock init"), "{object:#}");
}

#[tokio::test]
async fn fault_14_a_server_that_refuses_writes_is_told() {
    let clinic = Clinic::open(3).await;
    without_replicas(clinic.server(0));
    let object = finds(&mut clinic.doctor(), 1, &["bare-quorum", "no-replicas"]);
    assert!(
        finding(&object, "no-replicas")["mend"].as_str().unwrap().contains("min-replicas-to-write 0"),
        "{object:#}"
    );
    without_replicas(clinic.server(1));
    finds(&mut clinic.doctor(), 2, &["no-quorum", "no-replicas"]);
    for index in [0, 1] {
        assert_eq!(clinic.server(index).command(&["CONFIG", "SET", "min-replicas-to-write", "0"]), "OK");
    }
    // The server also refuses PING, which the doctor sends after a subscription. This is no missing
    // right.
    without_a_disk(clinic.server(2));
    let object = finds(&mut clinic.doctor(), 1, &["bare-quorum", "write-error"]);
    assert!(
        finding(&object, "write-error")["what"].as_str().unwrap().contains("refuses writes: MISCONF"),
        "{object:#}"
    );
}

/// The reply of a fake server to each command.
type Says = fn(&[String]) -> Vec<u8>;

#[tokio::test(flavor = "multi_thread")]
async fn connection_faults_are_not_blamed_on_the_password() {
    let says: [(Says, &str); 6] = [
        (|_| b"-DENIED Redis is running in protected mode because ..\r\n".to_vec(), "protected-mode no"),
        (|_| b"-ERR max number of clients reached\r\n".to_vec(), "Raise maxclients"),
        (|_| b"-LOADING Redis is loading the dataset in memory\r\n".to_vec(), "Wait until the server has"),
        (
            |words| match &*words[0] {
                "HELLO" => b"-ERR unknown command 'HELLO', with args beginning with: '3' \r\n".to_vec(),
                "AUTH" => b"-ERR wrong number of arguments for 'auth' command\r\n".to_vec(),
                _ => b"+OK\r\n".to_vec(),
            },
            "Redis 6 or later",
        ),
        (
            |words| match &*words[0] {
                "HELLO" | "AUTH" | "CLIENT" => well(words),
                _ => b"-BUSY Redis is busy running a script.\r\n".to_vec(),
            },
            "SCRIPT KILL",
        ),
        (
            |words| match &*words[0] {
                "AUTH" => b"+OK\r\n".to_vec(),
                _ => Vec::new(),
            },
            "See whether the server hangs",
        ),
    ];
    let fakes = join_all(says.map(|(says, mend)| async move { (Fake::start(says).await, mend) })).await;
    let logins = ["", "locks:pw@"];
    at_once(fakes.iter().flat_map(|fake| logins.map(|login| (fake, login))), |((fake, mend), login)| {
        let url = fake.url().replace("redis://", &format!("redis://{login}"));
        // The doctor must know why the library cannot connect, except if the server hangs.
        let (code, object) = report(doctor(&[url]).args(["--connect-timeout", "4s", "--node-timeout", IN_VAIN]));
        let told = finding(&object, "unreachable")["mend"].as_str().unwrap();
        assert!(code == 2 && told.contains(mend), "{mend}: {object:#}");
        assert!(!object.to_string().contains("Give the user"), "{object:#}");
        assert!(unknown(&object).is_empty(), "{object:#}");
    });
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_one_finding() {
    let clinic = Clinic::open(3).await;
    assert_eq!(clinic.server(1).command(&["SET", "quorumlock:node", "theirs"]), "OK");
    finds(&mut clinic.doctor(), 1, &["bare-quorum", "record"]);
}

#[tokio::test]
async fn a_password_that_is_missing_is_one_finding() {
    let server = Server::with(&["--requirepass", "pw"]).await;
    let (_, object) = report(&mut patient(&[server.url()]));
    assert!(faults(&object).contains(&"password"), "{object:#}");
    assert!(unknown(&object).is_empty(), "{object:#}");
}

#[tokio::test]
async fn new_servers_are_quarantined_which_is_a_warning_that_ends() {
    let servers = quarantined(3).await;
    let (code, object) = report(guarded(&servers).args(["doctor", "--domains", "a,b,c"]).args(EACH_NODE));
    assert_eq!((code, faults(&object)), (1, vec!["no-quorum", "quarantine"]), "{object:#}");
}

/// The server has run for a long time, so only INFO shows that it is not a new server.
#[tokio::test]
async fn flushed_server_is_reported_as_forgetful_and_not_as_new() {
    let clinic = Clinic::open(3).await;
    // The quarantine is longer than the test.
    let long = |mut command: Command| {
        command.env("QUORUMLOCK_MAX_TTL", "10min");
        command
    };
    clinic.server(2).command(&["FLUSHALL"]);
    let object = finds(&mut long(clinic.doctor()), 1, &["forgot"]);
    let forgot = finding(&object, "forgot");
    assert!(forgot["what"].as_str().unwrap().contains("(FLUSHALL, FLUSHDB or SWAPDB ran there)"), "{object:#}");
    assert!(forgot["mend"].as_str().unwrap().contains("do not run `quorumlock init`"), "{object:#}");
    let soon = &finding(&object, "quorum-soon")["mend"];
    assert_eq!(soon, "Let a client run for 10 min.", "{object:#}");
    let of_clinic = |words: &[&str]| {
        let mut command = long(bare());
        status::looked(command.env("QUORUMLOCK_NODES", clinic.urls().join(",")).args(words))
    };
    let (code, out, err) = of_clinic(&[&["status"], &EACH_NODE[..]].concat());
    assert!(
        code == 0 && out.contains("2 of 3 nodes vote; a quorum is 2. Restart no other node: one more votes 10 min"),
        "{out}{err}"
    );
    assert!(out.contains("it forgot while it ran, and may have forgotten locks (FLUSHALL"), "{out}");
    let (_, out, _) = of_clinic(&[&["status", "--json"], &EACH_NODE[..]].concat());
    let object: Value = serde_json::from_str(&out).unwrap();
    let counts: Vec<_> = object["nodes"].as_array().unwrap().iter().map(|node| &node["counts"]).collect();
    assert_eq!((counts, &object["votes"]), (vec![&true.into(), &true.into(), &false.into()], &2.into()), "{out}");
    // Once a client has made the node's record, every client can tell when the node votes.
    super::until("it has a record", || {
        let (code, _, err) = of_clinic(&["run", "job", "--timeout", "1h", "--", "true"]);
        assert_eq!(code, 0, "{err}");
        !clinic.server(2).record("id").is_empty()
    });
    let object = finds(&mut long(clinic.doctor()), 1, &["forgot"]);
    assert!(finding(&object, "forgot")["what"].as_str().unwrap().contains(", and votes in "), "{object:#}");
    assert!(finding(&object, "quorum-soon")["mend"].as_str().unwrap().starts_with("Wait for "), "{object:#}");
    clinic.server(1).command(&["FLUSHALL"]);
    let (code, out, _) = of_clinic(&[&["status"], &EACH_NODE[..]].concat());
    assert!(code == 69 && out.contains("1 of 3 nodes vote") && !out.contains("init"), "{out}");
}

#[tokio::test]
async fn a_password_that_the_server_does_not_ask_for_is_a_hint() {
    let clinic = Clinic::open(1).await;
    let url = clinic.server(0).url().replace("redis://", "redis://:pw@");
    let (_, object) = report(&mut patient(&[url]));
    let told = finding(&object, "password");
    assert!(told["level"] == "hint" && told["mend"].as_str().unwrap().contains("give none here"), "{object:#}");
    let all = object["findings"].as_array().unwrap();
    assert!(all.iter().all(|finding| finding["id"] != "check"), "{object:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_inspection_is_reported_except_on_unused_nodes() {
    let fake = Fake::scripted("-ODD nothing\r\n").await;
    let (code, object) = report(doctor(&[fake.url()]).args(["--connect-timeout", IN_VAIN, "--node-timeout", IN_VAIN]));
    let said = finding(&object, "inspection")["what"].as_str().unwrap();
    assert!(code == 2 && said.starts_with("It does not say who holds a lock: ODD nothing"), "{object:#}");
    let clinic = Clinic::open(3).await;
    let unused = report(&mut clinic.doctor()).1;
    assert!(!faults(&unused).contains(&"inspection"), "{unused:#}");
}

#[tokio::test]
async fn hanging_node_does_not_stop_the_checks_of_the_others() {
    let clinic = Clinic::open(3).await;
    clinic.server(1).stop();
    // These times are long enough for the other nodes to answer, and for the client to give up the
    // hanging node.
    let patience = ["--connect-timeout", "40s", "--node-timeout", "10s"];
    finds(doctor(&clinic.urls()).args(patience), 1, &["bare-quorum", "unreachable"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn round_trips_that_are_too_long_for_the_timeouts_are_told() {
    let clinic = Clinic::open(3).await;
    let far = Proxy::start(clinic.server(0).port()).await;
    // The doctor does not wait for an answer that takes 2 s.
    far.both(Way::Delay(Duration::from_millis(350)));
    let mut urls = clinic.urls();
    urls[0] = far.url().replace("redis://", "redis://locks:pw@");
    let mut patient = doctor(&urls);
    patient.env("QUORUMLOCK_TIMEOUT", "6s").args(["--node-timeout", "60s", "--connect-timeout", "50s"]);
    let object = finds(&mut patient, 1, &["round-trip"]);
    let said = &finding(&object, "round-trip")["what"];
    assert!(said.as_str().unwrap().contains("more than 1/10 of timeout (6 s)"), "{object:#}");
}
