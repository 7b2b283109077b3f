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
    scene!(turns::last_waiter_gets_the_lock_after_all_others_are_killed),
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
    scene!(turns::revoked_holder_lingers_and_the_next_gets_the_name),
    scene!(turns::revoked_on_a_quorum_where_a_renewal_comes_late),
    scene!(handover::handed_over_a_while_after_it_asked),
    scene!(handover::handed_over_with_ballots_that_differ),
    scene!(handover::waiter_dies_after_it_was_handed_the_lock),
    scene!(handover::handed_over_longer_ago_than_a_round_may_last),
    scene!(handover::handed_over_by_a_node_whose_clock_was_stepped),
    scene!(handover::handed_over_half_and_half),
    scene!(handover::handed_over_in_three_parts),
    scene!(handover::the_first_in_line_cannot_win),
    scene!(handover::the_first_in_line_hears_no_answers),
    scene!(handover::timed_out_waiter_hands_over_no_lock_of_others),
    scene!(handover::handed_over_for_less_than_the_claim_before_said),
    scene!(handover::handed_over_by_another_server_than_was_greeted),
    scene!(handover::claimed_where_it_was_handed_over_with_another_ballot),
    scene!(owners::a_withdrawal_comes_when_its_owner_holds),
    scene!(owners::pushed_ballot_is_below_ballots_withdrawn_elsewhere),
    scene!(owners::revoked_while_its_pushed_ballot_is_asked_with),
    scene!(owners::a_claim_comes_behind_the_release_of_a_lower_token),
    scene!(owners::late_release_meets_a_token_between_its_token_and_ballot),
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
    scene!(records::record_is_deleted_by_hand_and_a_client_with_its_id_returns),
    scene!(records::init_of_servers_that_have_served),
    scene!(records::init_while_one_does_not_answer),
    scene!(records::init_is_taken_back),
    scene!(records::a_node_that_forgot_is_synced),
    scene!(records::forgetful_nodes_do_not_sync_each_other),
    scene!(records::clocks_of_a_quorum_are_set_back),
    scene!(records::a_reply_shows_another_id),
    scene!(records::a_replica_without_data_takes_over),
    scene!(records::a_restart_that_is_seen_late),
    scene!(lists::second_list_starts_while_a_client_of_the_first_holds),
    scene!(lists::two_lists_share_a_node),
    scene!(lists::the_common_node_forgets),
    scene!(lists::holder_that_meets_another_list_loses_all, excused),
    scene!(lists::stood_still_while_another_list_came),
    scene!(lists::stood_still_and_hears_late_of_another_list),
    scene!(lists::a_list_that_is_shut_out_takes_no_free_node),
    scene!(lists::lists_that_hold_each_other_up_lapse),
    scene!(lists::lists_that_hold_each_other_up_lapse_whatever_clocks_show),
    scene!(lists::lists_that_lapse_together_do_not_keep_each_other_out_again),
    scene!(lists::a_list_is_kept_in_force),
    scene!(lists::a_list_lapses_though_a_clock_is_set_back),
    scene!(lists::lists_of_two_names),
    scene!(lists::list_of_another_name_has_other_servers_behind_its_nodes),
    scene!(lists::a_name_leads_to_two_servers),
    scene!(lists::a_replica_takes_over_beside_its_master),
    scene!(lists::two_servers_behind_one_name_for_long),
    scene!(lists::clients_of_two_servers_behind_one_name_stand_still),
    scene!(lists::client_cut_off_from_a_node_does_not_show_its_old_record),
    scene!(lists::an_established_client_beside_a_restart),
    scene!(lists::all_nodes_restart_with_their_memory),
    scene!(lists::a_newcomer_beside_a_restart),
    scene!(lists::a_newcomer_while_a_machine_is_dead),
    scene!(lists::a_far_node_beside_one_that_restarts),
    scene!(lists::client_of_a_list_kept_out_revokes_a_lock),
    scene!(lists::holder_stands_still_until_another_list_is_in_force, excused),
    scene!(sets::a_set_among_locks_on_its_names),
    scene!(sets::sets_that_overlap),
    scene!(sets::waiter_for_a_set_dies_and_its_names_become_free),
    scene!(sets::sets_that_overlap_beside_a_far_node),
    scene!(sets::set_is_granted_though_no_node_has_all_its_names),
    scene!(sets::waiting_set_begins_anew_when_a_held_name_is_revoked),
    scene!(sets::a_set_that_begins_anew_keeps_its_place),
    scene!(sets::set_loses_all_names_when_one_is_revoked),
    scene!(sets::the_holder_of_a_set_that_was_gathered_dies),
    scene!(readers::handed_over_with_a_ballot_that_it_does_not_know),
    scene!(united::cut_off_set_ends_when_another_owner_has_one_of_its_names),
    scene!(united::name_of_a_set_is_revoked_right_before_the_last_one_comes),
    scene!(readers::a_reader_gives_up_before_it_hears_of_a_hand_over),
    scene!(readers::readers_among_writers),
    scene!(readers::a_writer_among_readers),
    scene!(readers::a_writer_gives_up_between_two_readers),
    scene!(readers::a_reader_that_died_among_others),
    scene!(readers::a_writer_whose_time_ends_while_it_becomes_a_reader),
    scene!(permits::permits_are_asked_for_by_many),
    scene!(permits::permits_while_nodes_forget),
    scene!(permits::three_clients_reach_two_of_three_nodes_each),
    scene!(permits::owner_of_the_gate_dies_while_it_waits_for_permits),
    scene!(permits::the_gate_is_renewed_while_its_holder_waits),
    scene!(permits::the_gate_is_taken_away),
    scene!(sessions::session_unlocks_one_of_three_names_during_a_renewal),
    scene!(sessions::a_renewal_comes_behind_the_release_of_a_part),
    scene!(sessions::revoked_with_a_waiter_under_each_name),
    scene!(sessions::session_renews_all_its_names_together),
    scene!(sessions::shared_node_of_two_session_names_is_cut_off),
    scene!(sessions::granted_when_the_time_of_the_session_is_over),
    scene!(sessions::unlocked_when_the_time_of_the_session_is_over),
    scene!(sessions::session_is_lost_when_one_of_its_names_is_revoked),
    scene!(once::done_before_others_come_whose_clocks_differ),
    scene!(once::renewed_before_it_is_done),
    scene!(once::many_claim_a_period_at_once),
    scene!(once::failed_claim_of_a_period_leaves_its_node_to_the_next),
    scene!(once::split_claim_of_a_period_is_tried_again),
    scene!(tickets::two_clients_resume_one_ticket),
    scene!(tickets::a_ticket_is_resumed_when_another_has_held_the_lock),
    scene!(tickets::a_renewal_comes_when_its_lock_was_resumed),
    scene!(tries::tries_at_one_moment_split_the_votes),
    scene!(elections::a_node_that_knows_the_last_value_cannot_be_reached),
    scene!(elections::news_of_leaders_is_lost),
    scene!(proxies::restart_behind_a_proxy_is_noticed_by_each_client),
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
