//! Scenes: scripts for moments that random worlds rarely meet. Each scene runs some hundred times,
//! each time with other delays, and the judge checks each run. In comments, A, B and C are mostly
//! the processes 0, 1 and 2, and n0 is node 0. "A holds n0" means that A holds the name on n0.

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
mod records;
pub mod script;
mod sessions;
mod sets;
mod tickets;
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

#[derive(Debug)]
pub struct Scene {
    pub name: &'static str,
    pub write: fn(&mut Script),
    /// If true, the judge excuses nothing: it also reports failures that the library's promises
    /// allow.
    pub strict: bool,
}

macro_rules! scene {
    ($file:ident::$name:ident) => {
        Scene { name: stringify!($name), write: $file::$name, strict: true }
    };
    ($file:ident::$name:ident, excused) => {
        Scene { name: stringify!($name), write: $file::$name, strict: false }
    };
}

pub static SCENES: &[Scene] = &[
    scene!(doubt::healed_while_a_vote_is_counted),
    scene!(doubt::a_vote_older_than_a_round_may_last),
    scene!(doubt::stepped_there_and_back),
    scene!(doubt::rolling_restart_under_a_holder),
    scene!(doubt::restarted_between_two_grants_of_one_round),
    scene!(doubt::handed_over_beside_a_record_that_the_waiter_does_not_know),
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
    scene!(handover::handed_over_half_and_half),
    scene!(handover::handed_over_in_three_parts),
    scene!(handover::the_first_in_line_cannot_win),
    scene!(handover::the_first_in_line_hears_no_answers),
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
    scene!(tokens::the_common_node_is_synced),
    scene!(tokens::a_period_is_over_after_a_sync),
    scene!(tokens::a_sync_is_about_names_that_are_stored_too),
    scene!(tokens::fences_expire_while_a_clock_is_wrong),
    scene!(tokens::a_clock_is_set_back_before_fences_are_forgotten),
    scene!(records::a_young_record),
    scene!(records::restarted_with_an_old_copy),
    scene!(records::keys_are_deleted_and_another_id_is_seen),
    scene!(records::an_old_copy_is_loaded),
    scene!(records::stepped_between_two_hellos),
    scene!(records::a_holder_renews_where_it_was_forgotten),
    scene!(records::a_holder_outlives_that_one_node_after_the_other_forgets),
    scene!(records::flushed_before_newcomers_come),
    scene!(records::deleted_by_hand_and_others_know_its_id),
    scene!(records::deleted_by_hand_and_who_knew_it_comes_back),
    scene!(records::init_of_servers_that_have_served),
    scene!(records::init_while_one_does_not_answer),
    scene!(records::init_is_taken_back),
    scene!(records::a_node_that_forgot_is_synced),
    scene!(records::who_forgot_syncs_nobody),
    scene!(records::clocks_of_a_quorum_are_set_back),
    scene!(records::a_reply_shows_another_id),
    scene!(records::a_replica_without_data_takes_over),
    scene!(records::a_restart_that_is_seen_late),
    scene!(lists::two_lists_of_one_name),
    scene!(lists::two_lists_share_a_node),
    scene!(lists::the_common_node_forgets),
    scene!(lists::who_meets_another_list_loses_all, excused),
    scene!(lists::stood_still_while_another_list_came),
    scene!(lists::stood_still_and_hears_late_of_another_list),
    scene!(lists::a_list_that_is_shut_out_takes_no_free_node),
    scene!(lists::lists_that_hold_each_other_up_lapse),
    scene!(lists::lists_that_hold_each_other_up_lapse_whatever_clocks_show),
    scene!(lists::lists_that_lapse_together_do_not_keep_each_other_out_again),
    scene!(lists::a_list_is_kept_in_force),
    scene!(lists::a_list_lapses_though_a_clock_is_set_back),
    scene!(lists::lists_of_two_names),
    scene!(lists::other_servers_of_another_list),
    scene!(lists::a_name_leads_to_two_servers),
    scene!(lists::a_replica_takes_over_beside_its_master),
    scene!(lists::two_servers_behind_one_name_for_long),
    scene!(lists::both_sides_of_two_servers_stand_still),
    scene!(lists::who_cannot_reach_a_node_does_not_show_its_record),
    scene!(lists::an_established_client_beside_a_restart),
    scene!(lists::all_restart_with_their_memory),
    scene!(lists::a_newcomer_beside_a_restart),
    scene!(lists::a_newcomer_while_a_machine_is_dead),
    scene!(lists::a_far_node_beside_one_that_restarts),
    scene!(lists::revoked_by_who_is_kept_out),
    scene!(lists::who_stands_still_holds, excused),
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
    scene!(readers::a_reader_gives_up_before_it_hears_of_a_hand_over),
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
    scene!(tickets::two_resume_one_ticket),
    scene!(tickets::a_ticket_is_resumed_when_another_has_held_the_lock),
    scene!(tickets::a_renewal_comes_when_its_lock_was_resumed),
    scene!(tickets::a_renewal_comes_when_who_resumed_its_lock_has_died),
    scene!(tries::tries_at_one_moment_split_the_votes),
    scene!(elections::a_node_that_knows_the_last_value_cannot_be_reached),
    scene!(elections::news_of_leaders_is_lost),
    scene!(proxies::one_client_notices_and_the_next_must_too),
    scene!(proxies::replaced_while_it_is_greeted),
];

pub fn named(name: &str) -> Option<&'static Scene> {
    SCENES.iter().find(|scene| scene.name == name)
}

/// The parts that have begun: the process of each, and whether the part has ended. The second list
/// has the processes that were shut down.
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

    /// How many parts of live processes have not ended.
    pub fn open(&self, world: &World) -> usize {
        let core = world.core.lock().unwrap();
        self.0.lock().unwrap().iter().filter(|&&(process, ended)| !ended && !core.processes[process].dead).count()
    }
}

pub fn play(scene: &Scene, seed: u64) -> Run {
    let mut dice = Dice::new(seed);
    let mut script = Script::new(dice.fork());
    (scene.write)(&mut script);
    script.plan.length = script.ends();
    let plan = script.plan.clone();
    run::of(seed, plan, dice.fork(), scene.strict, async |world| perform(world, script).await)
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

/// Schedules the cues of the script.
fn hand_out(world: &World, script: Script) {
    let mut core = world.core.lock().unwrap();
    core.cues = script.waiting;
    script.held_back.into_iter().for_each(|held_back| core.hold_back(held_back));
    drop(core);
    script.cues.into_iter().for_each(|(at, cue)| world.cue_at(at, cue));
}
