//! Scenes: scripted moments that random worlds rarely meet, each run some hundred times with other
//! times, and judged as all runs are.

mod doubt;
mod elections;
mod handover;
mod lists;
mod once;
mod owners;
pub mod part;
mod permits;
mod proxies;
mod readers;
mod retired;
pub mod script;
mod sessions;
mod sets;
mod tokens;
mod tries;
mod turns;
mod united;

use std::sync::{Arc, Mutex};

use crate::clients;
use crate::dice::Dice;
use crate::process;
use crate::run::{self, Run};
use crate::world::{World, micros};
use script::Script;

/// A scripted moment.
#[derive(Debug)]
pub struct Scene {
    pub name: &'static str,
    pub write: fn(&mut Script),
}

macro_rules! scene {
    ($file:ident::$name:ident) => {
        Scene { name: stringify!($name), write: $file::$name }
    };
}

pub static SCENES: &[Scene] = &[
    scene!(doubt::healed_while_a_vote_is_counted),
    scene!(doubt::a_vote_older_than_a_round_may_last),
    scene!(doubt::stepped_there_and_back),
    scene!(doubt::rolling_restart_under_a_holder),
    scene!(doubt::restarted_between_two_grants_of_one_round),
    scene!(doubt::newcomer_meets_a_restarted_node),
    scene!(turns::tokens_grow_though_wall_clocks_do_not),
    scene!(turns::answers_of_grants_are_lost),
    scene!(turns::release_overtakes_its_claim),
    scene!(turns::stepped_right_after_a_grant),
    scene!(turns::paused_between_the_last_vote_and_the_decision),
    scene!(turns::votes_come_after_their_withdrawal),
    scene!(turns::paused_holder_with_a_renewal_under_way),
    scene!(turns::shutdown_with_a_claim_under_way),
    scene!(turns::waiter_dies_as_it_is_handed_the_lock),
    scene!(turns::all_waiters_but_the_last_are_killed),
    scene!(turns::a_newcomer_finds_a_free_name_that_is_waited_for),
    scene!(turns::clocks_are_set_back_under_a_hold),
    scene!(turns::the_first_in_line_is_killed),
    scene!(turns::the_first_in_line_is_cut_off),
    scene!(turns::restarted_between_a_release_and_the_claim_behind_it),
    scene!(turns::renewal_after_its_release),
    scene!(turns::a_withdrawal_comes_behind_the_next_round),
    scene!(turns::revoked_while_it_is_handed_over),
    scene!(turns::revoked_while_another_raises_the_fence),
    scene!(turns::revoked_while_one_node_hands_it_over),
    scene!(turns::revoked_by_a_clock_that_is_ahead),
    scene!(turns::revoked_and_asked_for),
    scene!(turns::who_was_revoked_lingers),
    scene!(turns::revoked_on_a_quorum_where_a_renewal_comes_late),
    scene!(handover::handed_over_a_while_after_it_asked),
    scene!(handover::handed_over_with_ballots_that_differ),
    scene!(handover::whoever_was_handed_the_lock_dies),
    scene!(handover::handed_over_longer_ago_than_a_round_may_last),
    scene!(handover::handed_over_by_a_node_whose_clock_was_stepped),
    scene!(handover::who_gives_up_hands_over_nothing_of_others),
    scene!(handover::handed_over_for_less_than_the_claim_before_said),
    scene!(handover::handed_over_by_another_server_than_was_greeted),
    scene!(handover::claimed_where_it_was_handed_over_with_another_ballot),
    scene!(owners::a_withdrawal_comes_when_its_owner_holds),
    scene!(owners::a_push_is_below_what_was_withdrawn_elsewhere),
    scene!(owners::revoked_while_its_pushed_ballot_is_asked_with),
    scene!(owners::a_claim_comes_behind_the_release_of_a_lower_token),
    scene!(owners::released_when_another_has_a_token_below_what_was_asked_with),
    scene!(owners::revoked_longer_ago_than_fences_are_kept),
    scene!(tokens::fences_are_forgotten_and_tokens_grow),
    scene!(tokens::a_node_that_forgot_is_taught),
    scene!(tokens::a_period_is_over_after_a_lesson),
    scene!(tokens::a_lesson_is_about_names_that_are_stored_too),
    scene!(tokens::who_forgot_does_not_teach),
    scene!(tokens::what_too_few_know_is_told),
    scene!(tokens::asked_before_a_quarantine_ends_and_answered_behind_it),
    scene!(tokens::a_node_that_forgot_unseen_is_taught),
    scene!(tokens::fences_expire_while_a_clock_is_wrong),
    scene!(tokens::a_clock_is_set_back_before_fences_are_forgotten),
    scene!(lists::two_lists_share_a_node),
    scene!(lists::stalled_over_a_cold_change),
    scene!(lists::who_stands_still_holds),
    scene!(lists::the_common_node_is_slow),
    scene!(lists::the_common_node_restarts),
    scene!(lists::an_established_client_beside_a_restart),
    scene!(lists::an_established_client_tries_once),
    scene!(lists::all_restart_with_their_memory),
    scene!(lists::a_newcomer_beside_a_restart),
    scene!(lists::a_newcomer_while_a_machine_is_dead),
    scene!(lists::votes_of_two_listings),
    scene!(lists::a_node_that_took_it_cannot_be_reached),
    scene!(lists::who_refused_goes_and_another_comes),
    scene!(lists::who_refused_goes_while_another_is_silent),
    scene!(lists::no_guard_beside_others),
    scene!(lists::isolated_with_a_minority_at_its_first_start),
    scene!(lists::a_longer_ttl_is_told_while_a_node_forgets),
    scene!(lists::a_rolling_upgrade),
    scene!(lists::revoked_by_who_is_kept_out),
    scene!(lists::a_newcomer_while_the_common_node_restarts),
    scene!(lists::a_retired_node_answers_a_newcomer),
    scene!(lists::what_was_reserved_where_a_ttl_is_known),
    scene!(lists::a_far_node_beside_one_that_restarts),
    scene!(lists::one_hangs_beside_one_that_is_left_out),
    scene!(lists::a_far_node_beside_one_that_was_retired),
    scene!(lists::the_common_node_goes_when_a_newcomer_has_looked),
    scene!(lists::a_newcomer_beside_one_that_is_not_enrolled_yet),
    scene!(lists::a_successor_is_told_by_who_has_short_locks),
    scene!(lists::who_was_refused_comes_back_from_elsewhere),
    scene!(lists::stalled_between_two_writes),
    scene!(lists::stalled_between_a_look_and_its_write),
    scene!(lists::the_shortest_max_ttl),
    scene!(lists::stalled_before_it_reserves),
    scene!(lists::stalled_while_its_write_is_refused),
    scene!(sets::a_set_among_locks_on_its_names),
    scene!(sets::sets_that_overlap),
    scene!(sets::who_waits_for_a_set_dies),
    scene!(sets::sets_that_overlap_beside_a_far_node),
    scene!(sets::no_node_has_all_names_of_a_set),
    scene!(sets::one_name_of_a_set_is_taken_away_while_it_waits),
    scene!(sets::a_set_that_begins_anew_keeps_its_place),
    scene!(sets::one_name_of_a_set_is_taken_away),
    scene!(sets::the_holder_of_a_set_that_was_gathered_dies),
    scene!(readers::handed_over_with_a_ballot_that_it_does_not_know),
    scene!(united::a_set_that_was_cut_off_ends_when_another_has_one_of_its_names),
    scene!(united::one_name_of_a_set_is_taken_away_right_before_the_last_comes),
    scene!(readers::readers_among_writers),
    scene!(readers::a_writer_among_readers),
    scene!(readers::a_writer_gives_up_between_two_readers),
    scene!(readers::a_reader_that_died_among_others),
    scene!(readers::a_writer_whose_time_ends_while_it_becomes_a_reader),
    scene!(permits::permits_are_asked_for_by_many),
    scene!(permits::permits_while_nodes_forget),
    scene!(permits::each_of_three_reaches_two_of_three_nodes),
    scene!(permits::whoever_has_the_gate_dies),
    scene!(permits::the_gate_is_renewed_while_its_holder_waits),
    scene!(permits::the_gate_is_taken_away),
    scene!(sessions::one_of_three_names_is_unlocked_while_a_renewal_is_under_way),
    scene!(sessions::a_renewal_comes_behind_the_release_of_a_part),
    scene!(sessions::revoked_with_a_waiter_under_each_name),
    scene!(sessions::all_names_of_a_session_are_renewed_together),
    scene!(sessions::two_names_of_a_session_are_with_other_nodes),
    scene!(sessions::granted_when_the_time_of_the_session_is_over),
    scene!(sessions::unlocked_when_the_time_of_the_session_is_over),
    scene!(sessions::one_name_of_a_session_is_taken_away),
    scene!(once::done_before_others_come_whose_clocks_differ),
    scene!(once::renewed_before_it_is_done),
    scene!(once::many_claim_a_period_at_once),
    scene!(once::who_was_not_first_keeps_no_period),
    scene!(once::who_splits_the_votes_for_a_period_tries_again),
    scene!(tries::tries_at_one_moment_split_the_votes),
    scene!(elections::a_node_that_knows_the_last_value_cannot_be_reached),
    scene!(elections::news_of_leaders_is_lost),
    scene!(retired::an_old_client_finds_only_retired_nodes),
    scene!(retired::a_retired_node_is_missed_by_nobody),
    scene!(proxies::one_client_notices_and_the_next_must_too),
    scene!(proxies::replaced_while_it_is_greeted),
];

pub fn named(name: &str) -> Option<&'static Scene> {
    SCENES.iter().find(|scene| scene.name == name)
}

/// The parts that were begun: in which process, and whether it has ended. And the processes that
/// were shut down.
#[derive(Debug, Default)]
pub struct Parts(Mutex<Vec<(usize, bool)>>, Mutex<Vec<usize>>);

impl Parts {
    pub fn begun(&self, process: usize) -> usize {
        let mut parts = self.0.lock().unwrap();
        parts.push((process, false));
        parts.len() - 1
    }

    pub fn ended(&self, number: usize) {
        self.0.lock().unwrap()[number].1 = true;
    }

    pub fn shut(&self, process: usize) {
        self.1.lock().unwrap().push(process);
    }

    pub fn is_shut(&self, process: usize) -> bool {
        self.1.lock().unwrap().contains(&process)
    }

    /// How many have not ended, of processes that live.
    pub fn open(&self, world: &World) -> usize {
        let core = world.core.lock().unwrap();
        self.0.lock().unwrap().iter().filter(|&&(process, ended)| !ended && !core.processes[process].dead).count()
    }
}

/// Plays a scene once.
pub fn play(scene: &Scene, seed: u64) -> Run {
    let mut dice = Dice::new(seed);
    let mut script = Script::new(dice.fork());
    (scene.write)(&mut script);
    script.plan.length = script.ends();
    let plan = script.plan.clone();
    run::of(seed, plan, dice.fork(), async |world| perform(world, script).await)
}

async fn perform(world: &Arc<World>, script: Script) {
    for _ in 0..script.processes {
        process::start(world, 0, 0, 0);
    }
    let plan = script.plan.clone();
    hand_out(world, script);
    world.unleash();
    world.run(micros(plan.length), || false).await;
    part::epilogue(world, plan.patience());
    world.run(clients::bound(world), || world.parts.open(world) == 0).await;
    if plan.elections > 0.0 && world.parts.open(world) == 0 {
        crate::elections::finale(world, &plan).await;
    }
    run::end(world, &plan, world.parts.open(world) as u64).await;
}

/// Gives everybody their cues.
fn hand_out(world: &World, script: Script) {
    let mut core = world.core.lock().unwrap();
    core.cues = script.waiting;
    script.held_back.into_iter().for_each(|held_back| core.hold_back(held_back));
    drop(core);
    script.cues.into_iter().for_each(|(at, cue)| world.cue_at(at, cue));
}
