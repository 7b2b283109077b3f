use super::*;
use crate::rules::Tick;

const THREE: Common = Common::of(Size::of(3));

fn at(seconds: u64) -> Tick {
    Tick::new(Duration::from_secs(seconds))
}

fn servers(text: &str) -> Vec<Option<Server>> {
    text.split(' ').map(|run| Some(Server::parse(run)).filter(|_| run != "-")).collect()
}

fn roster(text: &str) -> Roster {
    let servers: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
    let (nodes, protocol) = if servers.is_empty() { (0, 0) } else { (3, PROTOCOL) };
    Roster { nodes, protocol, max_ttl: Duration::from_secs(1), servers, ..Roster::default() }
}

fn set(nodes: &[usize]) -> NodeSet {
    nodes.iter().copied().collect()
}

/// What three nodes with these rosters come to, each by the script's rule.
fn verdict(mine: &str, rosters: [&str; 3]) -> Verdict {
    let (rosters, mine) = (rosters.map(roster), servers(mine));
    let all = of(&mine, NodeSet::first(3));
    let said = |roster| match Roster::takes(roster, THREE, &all) {
        true => Answer::Listed(roster),
        false => Answer::Unlisted(roster),
    };
    let answers: Vec<_> = rosters.iter().map(said).enumerate().collect();
    decide(THREE, &mine, NodeSet::first(3), &answers)
}

#[test]
fn all_that_took_them_are_listed() {
    assert_eq!(verdict("a b c", ["", "a b c", "b"]), Verdict::Listed(set(&[0, 1, 2])));
    let none = roster("");
    let answers = [(0, Answer::Listed(&none)), (2, Answer::Listed(&none))];
    let two = decide(THREE, &servers("a b c"), NodeSet::first(3), &answers);
    assert_eq!(two, Verdict::Listed(set(&[0, 2])), "who did not answer is not");
}

#[test]
fn two_lists_that_share_one_node_have_no_quorum_and_two_that_share_two_have_one() {
    assert_eq!(verdict("c d e", ["a b c", "", ""]), Verdict::Nobody(0));
    assert_eq!(verdict("b c d", ["a b c", "a b c", ""]), Verdict::Fit(set(&[0, 1])));
    assert_eq!(verdict("b c d", ["a b c", "b c d", ""]), Verdict::Fit(set(&[0, 1])));
}

#[test]
fn only_its_own_successor_has_the_room_of_a_server_that_has_gone() {
    assert_eq!(verdict("a b c", ["b x y", "", ""]), Verdict::Nobody(0));
    assert_eq!(verdict("a b c", ["b x", "", ""]), Verdict::Fit(set(&[0, 1])));
    assert_eq!(verdict("a b c<x", ["b x", "", ""]), Verdict::Listed(set(&[0, 1, 2])));
    assert_eq!(verdict("a b c<x<y", ["b x y", "", ""]), Verdict::Listed(set(&[0, 1, 2])));
    // c may have x's room, and d is not in x's place.
    assert_eq!(verdict("b d c<x", ["a b x", "", ""]), Verdict::Fit(set(&[0, 2])));
    assert!(!roster("a b x").takes(THREE, &[&Server::parse("d")]));
}

#[test]
fn what_is_counted_is_what_is_sent() {
    // Without c both x and y stay, and there is no room for a.
    assert_eq!(verdict("a b c<x<y", ["b x y", "x y z", ""]), Verdict::Fit(set(&[1, 2])));
    assert_eq!(verdict("a b c<x<y", ["a x y", "b x y", ""]), Verdict::Listed(set(&[0, 1, 2])));
    for rosters in [["b x y", "", "z"], ["a x", "b y", "c q"], ["x y", "a y", ""]] {
        let Verdict::Fit(fit) = verdict("a b<q c<x<y", rosters) else { continue };
        let mine = servers("a b<q c<x<y");
        assert!(rosters.iter().all(|told| roster(told).takes(THREE, &of(&mine, fit))), "{rosters:?}");
    }
}

#[test]
fn what_was_refused_is_remembered_while_its_node_does_not_answer() {
    let (theirs, none) = (roster("c d e"), roster(""));
    let answers = [(0, Answer::Listed(&none)), (1, Answer::Listed(&none)), (2, Answer::Remembered(&theirs))];
    assert_eq!(decide(THREE, &servers("a b -"), set(&[0, 1]), &answers), Verdict::Nobody(2));
    let ours = roster("a b");
    let answers = [(0, Answer::Listed(&none)), (1, Answer::Listed(&none)), (2, Answer::Remembered(&ours))];
    assert_eq!(decide(THREE, &servers("a b -"), set(&[0, 1]), &answers), Verdict::Listed(set(&[0, 1])));
}

#[test]
fn another_number_of_nodes_or_protocol_is_refused_whatever_the_servers() {
    for other in [Roster { nodes: 5, ..roster("a b c") }, Roster { protocol: PROTOCOL + 1, ..roster("a b c") }] {
        let none = roster("");
        let answers = [(0, Answer::Listed(&none)), (1, Answer::Unlisted(&other)), (2, Answer::Listed(&none))];
        assert_eq!(decide(THREE, &servers("a b c"), NodeSet::first(3), &answers), Verdict::Nobody(1));
        assert!(!other.vouches(THREE, &servers("a b c")));
    }
}

#[test]
fn a_roster_with_a_quorum_of_the_list_vouches_for_the_servers_it_has() {
    let by = |mine: &str, rosters: &[&str]| {
        let rosters: Vec<_> = rosters.iter().map(|told| roster(told)).collect();
        vouched(THREE, &servers(mine), rosters.iter())
    };
    assert_eq!(by("a b c", &["", "a x y"]), None);
    assert_eq!(by("a b c", &["a b g"]), Some(set(&[0, 1])), "c may be young, and is not vouched for");
    assert_eq!(by("a b c<g", &["a b g"]), Some(set(&[0, 1, 2])));
    assert_eq!(by("a b c", &["", "a b g", "b c"]), Some(set(&[0, 1, 2])));
    assert_eq!(by("a b -", &["a b g", "c d e"]), Some(set(&[0, 1])));
    let reserved = Roster { max_ttl: Duration::ZERO, ..roster("a b c") };
    assert!(!reserved.vouches(THREE, &servers("a b c")), "whoever wrote it may not have been enrolled");
}

#[test]
fn a_young_server_is_waited_for_no_longer_than_it_is_quarantined() {
    assert_eq!(young(Duration::from_secs(60)), YOUNG);
    assert_eq!(young(Duration::from_secs(2)), Duration::from_secs(2));
    assert_eq!(young(Duration::ZERO), Duration::ZERO);
}

#[test]
fn a_conflict_is_told_with_what_to_do() {
    let others = Roster { lasts: Duration::from_secs(9), ..roster("aaaaaaaaaa bbbbbbbbbb c") };
    let told = conflict(THREE, &servers("c d e"), "redis://c", &others, LASTS);
    for part in [
        "redis://c",
        "2 servers that this one does not know (aaaaaaaa.., bbbbbbbb..; this list has ",
        "are down, wait 9s",
        "same list",
        "wait 15s",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let five = conflict(Common::of(Size::of(5)), &servers("a b c d e"), "n", &others, LASTS);
    assert!(five.contains("theirs has 3 nodes, this one 5"), "{five}");
    let other = Roster { protocol: PROTOCOL + 1, ..roster("a") };
    assert!(conflict(THREE, &servers("a"), "n", &other, LASTS).contains("protocol 4, and this one speaks 3"));
}

#[test]
fn a_server_that_was_replaced_while_no_client_ran_is_told_as_such() {
    let told = conflict(THREE, &servers("a b c"), "redis://a", &roster("a b gggggggggg"), LASTS);
    for part in ["was replaced while no client", "redis://a has gggggggg.. in its place", "15s after"] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn votes_count_while_the_enrolment_is_fresh() {
    let listed = Standing::Listed(at(10));
    assert!(listed.counts(at(9)) && !listed.counts(at(10)));
    assert!(Standing::Exempt.counts(at(99)));
    for other in [
        Standing::Unknown,
        Standing::Few,
        Standing::Newcomer(at(1)),
        Standing::Waiting(at(1)),
        Standing::Unlisted("why".into()),
    ] {
        assert!(!other.counts(at(5)), "{other:?}");
    }
}

/// A listing of three servers, and who may vote at some moment about what was sent at another.
fn voters(listing: &Listing, t0: u64, now: u64) -> NodeSet {
    listing.electorate(NodeSet::default(), LASTS, at(now)).of(NodeSet::first(3), at(t0))
}

fn take(listing: &mut Listing, mine: &str, chosen: &[usize], took: &[usize], began: u64) {
    listing.take(&servers(mine), (set(chosen), set(took)), at(began), LASTS);
}

#[test]
fn votes_of_two_listings_never_decide_together() {
    let mut listing = Listing::default();
    assert_eq!(voters(&listing, 0, 0), set(&[]));
    take(&mut listing, "a b c", &[0, 1], &[0, 1], 10);
    assert_eq!(voters(&listing, 11, 12), set(&[0, 1]));
    take(&mut listing, "a b c", &[1, 2], &[1, 2], 13);
    assert_eq!(voters(&listing, 13, 14), set(&[1, 2]), "a dropped out");
    assert_eq!(voters(&listing, 11, 14), set(&[1]), "c was not listed when that was sent");
    listing.keep(set(&[0, 1]));
    assert_eq!(voters(&listing, 13, 14), set(&[1]), "some node does not take c any more");
    listing.clear();
    assert_eq!(voters(&listing, 13, 14), set(&[]));
}

#[test]
fn another_process_at_an_address_votes_on_what_was_sent_since_it_is_listed() {
    let mut listing = Listing::default();
    take(&mut listing, "a b c", &[0, 1, 2], &[0, 1, 2], 10);
    take(&mut listing, "a b d<c", &[0, 1, 2], &[0, 1, 2], 15);
    assert_eq!(voters(&listing, 11, 16), set(&[0, 1]));
    assert_eq!(voters(&listing, 16, 16), set(&[0, 1, 2]));
}

#[test]
fn who_did_not_answer_is_listed_as_long_as_before() {
    let mut listing = Listing::default();
    take(&mut listing, "a b c", &[0, 1, 2], &[0, 1, 2], 10);
    take(&mut listing, "a b c", &[0, 1, 2], &[0, 1], 15);
    assert_eq!((voters(&listing, 15, 19), voters(&listing, 15, 20)), (NodeSet::first(3), set(&[0, 1])));
    take(&mut listing, "a b -", &[0, 1], &[0, 1], 18);
    assert_eq!(voters(&listing, 15, 19), NodeSet::first(3), "nor did who is not connected");
    let mut silent = listing.clone();
    take(&mut silent, "a b c d", &[0, 1, 2, 3], &[0, 1, 3], 19);
    assert_eq!(voters(&silent, 15, 19), set(&[0, 1]), "c may not have room for d");
    // c's and d's votes could meet those of nobody.
    take(&mut listing, "a b - d", &[0, 1, 3], &[0, 1, 3], 19);
    assert_eq!(voters(&listing, 15, 19), set(&[0, 1]));
}

#[test]
fn entries_for_shorter_locks_let_nobody_vote_on_longer_ones() {
    let mut listing = Listing::default();
    take(&mut listing, "a b c", &[0, 1], &[0, 1], 10);
    let voters = |ttl| listing.electorate(NodeSet::of(2), ttl, at(11)).of(NodeSet::first(3), at(11));
    assert_eq!(voters(LASTS), NodeSet::first(3));
    assert_eq!(voters(LASTS * 2), set(&[2]), "who has no roster needs none");
}

/// A vote that comes at the last moment lets a lock be held for a ttl, less the drift.
#[test]
fn an_entry_outlasts_all_that_rests_on_it() {
    for (ttl, share) in [
        (Duration::from_millis(100), 0.01),
        (Duration::from_secs(60), 0.01),
        (Duration::from_secs(86_400 * 30), 0.01),
        (Duration::from_secs(60), 0.2),
    ] {
        let held = FRESH + ttl.mul_f64(1.0 - share);
        assert!(held.mul_f64(1.0 + share) < ttl + LASTS, "{ttl:?} {share}");
    }
}
